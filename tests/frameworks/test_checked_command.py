"""``ndgather checked``: a program runs as without it, until an index is out of bounds."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")  # of programs in other processes

PROGRAM = """\
import sys
import torch
import beside

def main(what):
    embed = torch.nn.Embedding(50, 8)
    print(what, __name__, beside.NAME, sys.argv[2:], torch.__file__ != __file__)
    embed(torch.tensor([3, 49]))
    if what == "bad":
        embed(torch.tensor([[3, 49], [50, 7]]))
    if what == "exit":
        sys.exit(7)
    if what == "text":
        sys.exit("a text")
    if what == "error":
        raise FileNotFoundError("its own")
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "ours":
        import ndgather
        ndgather.gather([1, 2], [7])

if __name__ == "__main__":
    main(sys.argv[1])
"""
# Enough of torch for what the program says without the command: to import all of it takes seconds.
FEW_LINES = """\
class nn:
    class Embedding:
        def __init__(self, rows, columns):
            pass

        def __call__(self, indices):
            pass

tensor = list
"""


def run(folder, *command, path=None):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | ({} if path is None else {"PYTHONPATH": f"{path}"}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "sub").mkdir()
    (folder / "sub" / "train.py").write_text(PROGRAM)
    (folder / "sub" / "beside.py").write_text("NAME = 'beside'\n")
    (folder / "sub" / "wrong.py").write_text("x = (\n")
    (folder / "few").mkdir()
    (folder / "few" / "torch.py").write_text(FEW_LINES)
    return folder


@pytest.mark.parametrize("what", ["good", "exit", "text", "error", "interrupt", "ours"])
def test_output_status_and_traceback_are_those_of_the_program(folder, what):
    words = ["sub/train.py", what, "--epochs", "1", "--", "--help"]
    expected = run(folder, *words, path=folder / "few")
    found = run(folder, "-m", "ndgather", "checked", *words)
    assert (found.stdout, found.returncode) == (expected.stdout, expected.returncode)
    own = [line.replace(f"{folder}/", "") for line in expected.stderr.splitlines()]
    assert [line.replace(f"{folder}/", "") for line in found.stderr.splitlines()] == own


def test_a_module_runs_as_with_python(folder):
    words = ["-m", "train", "good", "-x"]
    expected = run(folder / "sub", *words, path=folder / "few")
    found = run(folder / "sub", "-m", "ndgather", "checked", *words)
    assert (found.stdout, found.stderr) == (expected.stdout, "")


def test_the_index_is_named(folder):
    found = run(folder, "-m", "ndgather", "checked", "sub/train.py", "bad")
    assert found.returncode == 1
    assert found.stderr.startswith('Traceback (most recent call last):\n  File "')
    assert "ndgather/cli" not in found.stderr
    assert "runpy" not in found.stderr
    assert found.stderr.endswith(
        "ndgather.errors.IndexOutOfBoundsError: embedding: indices[1, 0] = 50 is outside axis 0 of "
        "weight, which has size 50 (allowed: 0..49)\n"
        "  in Embedding, sub/train.py:10: embed(torch.tensor([[3, 49], [50, 7]]))\n"
    )


@pytest.mark.parametrize(
    ("script", "text"), [("sub/wrong.py", "SyntaxError: "), ("none.py", "FileNotFoundError: ")]
)
def test_a_program_that_cannot_be_read(folder, script, text):
    found = run(folder, "-m", "ndgather", "checked", script)
    assert found.returncode == 1
    assert text in found.stderr.splitlines()[-1]
    assert "cli/checked" not in found.stderr


def test_without_torch_it_says_what_to_install(folder):
    code = "import sys; sys.modules['torch'] = None; from ndgather.cli import main; "
    found = run(folder, "-c", f"{code}sys.exit(main(['checked', 'sub/train.py']))")
    assert found.returncode == 1
    assert found.stderr.startswith("ndgather checked: error: this needs the package torch")
