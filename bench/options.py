"""The options shared by the benchmark's commands."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(prog: str, description: str, page: str, epilog: str = "") -> argparse.ArgumentParser:
    """Return a parser of --case, --list, --quick, and --page with its default."""
    options = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("--case", action="append", metavar="GLOB", help="only cases that match; repeatable")
    add("--list", action="store_true", help="print the cases and stop")
    add("--quick", action="store_true", help="only compare the results, at reduced size")
    help_of_page = f"write a page about the results (default: {page})"
    add("--page", nargs="?", type=Path, const=Path(page), metavar="FILE", help=help_of_page)
    return options


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)
