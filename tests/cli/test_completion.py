"""Completion of command lines, as a shell asks for it."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("argcomplete")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ndgather gather", {"gather", "gather-nd", "gather-elements"}),
        ("ndgather convert --op", {"--opset", "--operator"}),
        ("ndgather doc --format j", {"json "}),
    ],
)
def test_words_are_completed(line, words, tmp_path):
    answer = tmp_path / "answer"
    shell = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "ndgather"], env={**os.environ, **shell}, check=True)
    assert set(answer.read_text().split("\013")) == words


def test_without_the_package_the_command_goes_on():
    code = (
        "import sys; sys.modules['argcomplete'] = None; "
        "from ndgather.cli import main; main(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_ARGCOMPLETE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ndgather ")
