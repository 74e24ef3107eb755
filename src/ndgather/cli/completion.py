"""Completion of command lines in a shell, with the package argcomplete if it is installed."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and exit, if it is the shell that asks."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    with suppress(ModuleNotFoundError):
        import argcomplete  # noqa: PLC0415 - an extra, and only for the shell

        argcomplete.autocomplete(parser)
