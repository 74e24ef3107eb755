"""The suites of torch and JAX: answers agree, and the page keeps what other suites wrote."""

import pytest
from bench.__main__ import main


@pytest.mark.parametrize("suite", ["torch", "jax"])
def test_answers_agree(suite):
    assert main(["--suite", suite, "--quick"]) == 0


def test_a_page_has_a_line_for_each_case_of_both_suites(tmp_path, capsys):
    page = tmp_path / "page.md"
    for suite in ("torch", "jax", "torch"):
        options = ["--case", "tiny", "--turns", "1", "--page", str(page)]
        assert main(["--suite", suite, *options]) == 0
    assert capsys.readouterr().out.count("\ntiny ") == 3
    written = page.read_text()
    assert [written.count(f"## {suite}\n") for suite in ("torch", "jax")] == [1, 1]
    assert written.count("\n| `tiny` | ") == 2
