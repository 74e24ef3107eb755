"""``ndgather checked``: run a program with checked indices."""

from __future__ import annotations

import argparse
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ndgather
from ndgather import messages
from ndgather.errors import AttributeValueError, FileError

DESCRIPTION = """\
Run a Python program that uses torch and check the indices of every operator
before the operator runs. An error names the operator, the index, the allowed
range, the module and the line. Otherwise the output and exit status of the
program do not change. Threads and Python child processes are checked as well.
"""

EXAMPLES = """\
examples:
  ndgather checked train.py --epochs 1
  ndgather checked -m package.train --epochs 1
  ndgather checked -m pytest tests
  torchrun --nproc-per-node 2 -m ndgather checked train.py
"""

STARTUP = os.fspath(Path(ndgather.__file__).parent / "arrays/torch/checked/startup")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is a module name, as in python -m"
    )
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs=argparse.PARSER,
        help="the program and its arguments",
    )


def work(options: argparse.Namespace) -> int:
    """Replace this process with the program to check."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise AttributeValueError(
            "Python was started with -E, -I or -S, which disable the start-up hook that checks "
            "the program (allowed: Python without these options)"
        )
    if find_spec("torch") is None:
        raise messages.extra_missing("torch", "torch")
    check = check_module if options.module else check_script
    check(options.script)
    kept = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each != STARTUP]
    os.environ["PYTHONPATH"] = os.pathsep.join([STARTUP, *kept] if any(kept) else [STARTUP])
    flag = ["-m"] if options.module else []
    command = [sys.executable, *python_options(), *flag, *options.script]
    if os.name != "nt":  # on Windows, the shell does not wait after exec
        os.execv(sys.executable, command)
    return subprocess.run(command, check=False).returncode


def python_options() -> list[str]:
    """Return the options that the Python interpreter received, for example -u from torchrun."""
    options = sys.orig_argv[1 : -len(sys.argv)]
    if options and re.fullmatch("-[a-zA-Z]*m", options[-1]):
        options[-1:] = [] if options[-1] == "-m" else [options[-1][:-1]]
    return options


def check_script(words: list[str]) -> None:
    """Raise an error unless the first word is a file or folder that Python can run."""
    script = Path(words[0])
    is_python = re.fullmatch(r"python[0-9.]*(\.exe)?", script.name)
    if not is_python and (script.exists() or words[0] == "-"):
        return
    hint = ""
    others = {each.name for each in script.parent.glob("*.py")}
    folders = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = shutil.which(words[0], path=folders)
    if is_python:
        hint = f"; write ndgather checked {shlex.join(words[1:] or ['SCRIPT'])}"
        if words[1:] and words[1].startswith("-") and words[1] != "-m":
            hint = f"; write {script} OPTIONS -m ndgather checked SCRIPT"
    elif words[0].isidentifier() and _is_package_with_main(words[0]):
        hint = f"; write ndgather checked -m {shlex.join(words)}"
    elif command and b"python" in Path(command).read_bytes()[:300]:
        hint = f"; write ndgather checked {shlex.join([command, *words[1:]])}"
    elif meant := messages.similar(script.name, others):
        hint = f"; did you mean {os.fspath(script.with_name(meant))!r}?"
    raise FileError(
        f"SCRIPT = {words[0]!r} is not a Python file "
        f"(allowed: a script, or -m and a module name){hint}"
    )


def check_module(words: list[str]) -> None:
    """Raise an error unless the first word is a module of an installed package."""
    if not sys.flags.safe_path:
        sys.path[0] = os.fspath(Path.cwd())
    package = words[0].partition(".")[0]
    if not package or find_spec(package) is None:
        hint = messages.did_you_mean(package, {each.name for each in pkgutil.iter_modules()})
        raise FileError(
            f"-m {words[0]}: there is no such module (allowed: a module on Python's path){hint}"
        )


def _is_package_with_main(name: str) -> bool:
    spec = find_spec(name)
    folders = spec and spec.submodule_search_locations
    return any((Path(folder) / "__main__.py").exists() for folder in folders or ())
