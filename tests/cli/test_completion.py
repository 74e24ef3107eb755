"""Completion of command lines, as a shell asks for it, and in the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("argcomplete")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ndgather gather", {"gather", "gather-nd", "gather-elements"}),
        ("ndgather convert --op", {"--opset", "--operator"}),
        ("ndgather compare m.onnx --runtime onnxr", {"onnxruntime "}),
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


def needs(shell):
    missing = shutil.which(shell) is None
    return pytest.param(shell, marks=pytest.mark.skipif(missing, reason=f"{shell} is not there"))


@pytest.fixture
def environment(tmp_path):
    """A home without files of a shell, with the command of this installation on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    (tmp_path / "dem.npy").touch()
    return {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb", "PS1": "", "LANG": "C.UTF-8"}


def typed(words, keys, wanted, environment):
    """Type `keys` in a terminal, line after line, and return what it shows, up to `wanted`."""
    ours, its = pty.openpty()
    seen, end = "", time.monotonic() + 60
    with subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env=environment, cwd=environment["HOME"],
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(its)
        try:
            for line in keys:
                os.write(ours, line.encode())
                ready = f"{line.strip()}"
                while ready not in seen and time.monotonic() < end:
                    if select.select([ours], [], [], 0.1)[0]:
                        seen += os.read(ours, 4096).decode(errors="replace")
            while wanted not in seen and time.monotonic() < end:
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 4096).decode(errors="replace")
        finally:
            shell.kill()
            os.close(ours)
    return seen


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ()),
    "zsh": (["zsh", "-f", "-i"], ("autoload -U compinit; compinit -u -D\n",)),
}


@pytest.mark.parametrize("shell", [needs("bash"), needs("zsh")])
@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("ndgather gather-e", "ndgather gather-elements"),
        ("ndgather doc ScatterNDU", "ndgather doc ScatterNDUpdate"),
        ("ndgather gather-nd de", "ndgather gather-nd dem.npy"),
    ],
)
def test_a_tab_completes(shell, line, whole, environment):
    words, before = SHELLS[shell]
    keys = (*before, f"source <(ndgather completion {shell}); echo ready\n", f"{line}\t")
    assert whole in typed(words, keys, whole, environment)


@pytest.mark.parametrize("shell", [needs("fish")])
def test_fish_completes(shell, environment):
    script = "ndgather completion fish | source; complete -C 'ndgather gather-'"
    done = subprocess.run(
        [shell, "--no-config", "-c", script],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert found == {"gather-nd", "gather-elements"}
