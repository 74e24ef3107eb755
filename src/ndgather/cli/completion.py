"""``ndgather completion``: command lines completed by a shell, with the package argcomplete."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ndgather.cli.options import add_command, add_common
from ndgather.errors import run_errors

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Print what has the shell complete the commands, options, names and files of
ndgather (pip install 'ndgather[completion]').
"""

EXAMPLES = """\
examples, each for the file that the shell reads when it starts:
  ndgather completion bash >> ~/.bashrc
  ndgather completion zsh >> ~/.zshrc
      after the line compinit, which turns completion on in zsh
  ndgather completion fish > ~/.config/fish/completions/ndgather.fish
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    summary = "print what has a shell complete this command"
    completion = add_command(commands, "completion", summary, DESCRIPTION, EXAMPLES)
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    add_common(completion, _print)


def _print(options: argparse.Namespace) -> None:
    try:
        from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise run_errors.extra_missing("argcomplete", "completion") from None
    print(shellcode(["ndgather"], shell=options.shell))


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and exit, if it is the shell that asks."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    with suppress(ModuleNotFoundError):
        import argcomplete  # noqa: PLC0415 - an extra, and only for the shell

        argcomplete.autocomplete(parser)
