"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any


def add_common(parser: argparse.ArgumentParser, verbose: str = "") -> None:
    """Add the options of every command; `verbose` is what else ``--verbose`` does."""
    parser.add_argument(
        "--threads",
        metavar="N",
        type=positive,
        help="how many threads to use (default: all that this process may use)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help=f"log to standard error{verbose}"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


class Named(argparse.Action):
    """Collect ``NAME=VALUE`` options in a dict; `read` converts a value, or raises ValueError."""

    def __init__(self, read: Callable[[str], object] = str, **options: Any) -> None:
        super().__init__(default={}, **options)
        self.read = read

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        name, equals, text = values.partition("=")
        if not (name and equals and text):
            raise argparse.ArgumentError(self, f"{values!r} is not of the form {self.metavar}")
        named = getattr(namespace, self.dest)
        if name in named:
            raise argparse.ArgumentError(self, f"{name!r} is given twice")
        try:
            setattr(namespace, self.dest, {**named, name: self.read(text)})
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def names(text: str) -> list[str]:
    listed = text.split(",")
    if not all(listed):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return listed


def require_output(options: argparse.Namespace) -> None:
    """Exit with the usage if a command that may write a file has nowhere to write to."""
    if options.output is None and not options.dry_run:
        options.parser.error("one of the arguments -o/--output --dry-run is required")


def add_runtimes(parser: argparse.ArgumentParser, about: str) -> None:
    """Add ``--runtime``, which takes names with commas between them, and may be repeated."""
    parser.add_argument(
        "--runtime",
        dest="runtimes",
        metavar="NAME,...",
        action="extend",
        type=names,
        default=[],
        help=about,
    )


def add_loading(parser: argparse.ArgumentParser, name: str, file: str, more: str = "") -> None:
    """Add the options that say how a runtime loads a model."""
    parser.add_argument(
        "--provider",
        dest="providers",
        metavar=name,
        action="append",
        default=[],
        help="an execution provider of onnxruntime, or the device of OpenVINO (default: the "
        f"CPU){more}",
    )
    parser.add_argument(
        "--library",
        dest="libraries",
        metavar=file,
        action="append",
        default=[],
        help=f"a library of custom operators that the runtime loads{more}",
    )
