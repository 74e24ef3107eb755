"""The commands ``ndgather ops`` and ``ndgather doc``."""

import sys

import pytest

from ndgather import cli, pages
from ndgather.cli import options


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def run(line, capsys):
    status = cli.main(line.split())
    return (status, *capsys.readouterr())


@pytest.mark.parametrize("format", pages.FORMATS)
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ops", pages.operator_table),
        (
            "ops GatherND --domain openvino",
            lambda **options: pages.operator_table("GatherND", "openvino", **options),
        ),
        ("doc GatherND", lambda **options: pages.operator_page("GatherND", **options)),
        (
            "doc GatherND --version 12 --diff openvino:8",
            lambda **options: pages.operator_page(
                "GatherND", version=12, diff="openvino:8", **options
            ),
        ),
        (
            "doc Gather --opset 7 --domain openvino",
            lambda **options: pages.operator_page("Gather", "openvino", opset=7, **options),
        ),
    ],
)
def test_a_command_prints_the_page(line, text, format, capsys):
    assert run(f"{line} --format {format}", capsys) == (0, text(format=format, width=0), "")


def test_the_formats_of_the_command_are_those_of_the_pages():
    assert options.FORMATS == pages.FORMATS


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("80", 80), ("500", 100), ("7", 40)])
def test_text_is_as_wide_as_the_terminal_within_reason(columns, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    _, text, _ = run("doc GatherElements", capsys)

    assert text == pages.operator_page("GatherElements", width=width)


@pytest.mark.parametrize("format", ["rst", "html"])
def test_other_formats_are_not_supported(format, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["doc", "GatherND", "--format", format])

    assert end.value.code == 2
    assert (
        f"invalid choice: '{format}' (choose from text, md, json)"
        in capsys.readouterr().err.replace("'text', 'md', 'json'", "text, md, json")
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "doc GatherND --version 14",
            "operator: version = 14 has no ai.onnx GatherND (allowed: 11, 12, 13)",
        ),
        (
            "ops --domain onnx",
            "ops: domain = 'onnx' is unknown (allowed: 'ai.onnx', 'com.microsoft', 'openvino'); "
            "did you mean 'ai.onnx'?",
        ),
        (
            "ops Foo --domain com.microsoft",
            "ops: name = 'Foo' is unknown (allowed: 'GatherND', 'GatherBlockQuantized')",
        ),
    ],
)
def test_what_is_unknown_ends_in_one_line(line, text, capsys):
    command = line.split()[0]

    assert run(line, capsys) == (1, "", f"ndgather {command}: error: {text}\n")


@pytest.mark.parametrize("command", ["ops", "doc"])
def test_help_has_examples_and_fits_a_terminal(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])

    out, err = capsys.readouterr()
    assert (end.value.code, err) == (0, "")
    assert f"examples:\n  ndgather {command}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_version_and_opset_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["doc", "GatherND", "--version", "12", "--opset", "13"])

    assert end.value.code == 2
    assert capsys.readouterr().err.endswith("not allowed with argument --version\n")
