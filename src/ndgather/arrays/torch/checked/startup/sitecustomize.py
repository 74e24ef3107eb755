"""The start-up hook of ``ndgather checked``, for a program and its child processes.

Python imports a module with this name when it starts, and finds this file through `PYTHONPATH`. A
``.pth`` file in site-packages, as in coverage.py, would have to be installed and would run in every
program of the environment.

The hook also runs in programs without torch and in other versions of Python, so it uses only old
syntax and modules that Python itself has already imported.
"""

# Python itself does not import pathlib when it starts.
# ruff: noqa: PTH100, PTH119, PTH120

import os
import sys

from after_import import AfterImport  # type: ignore[import-not-found]  # beside this file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_said: "list[str]" = []


def say_once(reason: str, text: str) -> None:
    """Print to stderr that something is not checked, once for each reason."""
    if reason not in _said and sys.stderr is not None:
        _said.append(reason)
        sys.stderr.write(f"ndgather checked: {text} is not checked: {reason}\n")
        sys.stderr.flush()


def open_block() -> None:
    """Check this thread and all threads that start later."""
    try:
        from ndgather.arrays.torch.checked import check_program  # noqa: PLC0415 - imports torch
    except ImportError as error:
        say_once(str(error), sys.executable)
        return
    for name in check_program():
        say_once("it started before torch was imported", f"thread {name!r}")


def watch_children(event: str, values: "Any") -> None:
    """Report a child process that starts Python without this hook."""
    if event not in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        return
    try:
        program, words, environment = os.fsdecode(values[0]), values[1], values[-1]
        words = [] if isinstance(words, (str, bytes)) else [os.fsdecode(each) for each in words]
        given = {os.fsdecode(name): os.fsdecode(environment[name]) for name in environment or ()}
    except TypeError:  # the arguments are invalid, so the caller raises an error
        return
    if "python" not in os.path.basename(program):
        return
    for word in words[1:]:
        if not word.startswith("-") or word[1:2] in "cm":
            break
        if word[1:2] not in "-XW" and set(word) & set("EIS"):
            say_once(f"Python does not import the start-up hook under {word}", " ".join(words))
    if given and _FOLDER not in given.get("PYTHONPATH", "").split(os.pathsep):
        say_once("its PYTHONPATH differs from the one of this process", " ".join(words))


def import_hidden() -> None:
    """Import the `sitecustomize` that this file hides, for example from a Linux distribution."""
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


sys.path[:] = [folder for folder in sys.path if folder != _FOLDER]
del sys.modules["after_import"]  # a program may import its own module after_import
AfterImport("torch", open_block)
sys.addaudithook(watch_children)
import_hidden()
