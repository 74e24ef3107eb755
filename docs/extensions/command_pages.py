"""Write a page for each command during every build, from its argument parser."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather.cli import COMMANDS, command_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

WIDTH = 80
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][\w-]*)")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "commands"
    for name in COMMANDS:
        write(folder / f"{name}.md", "\n".join(_page(command_parser(name))))
    for place in folder.iterdir():
        if place.stem not in COMMANDS:
            place.unlink()  # the page of a removed command


def _page(parser: argparse.ArgumentParser) -> Iterator[str]:
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)
    description, examples = parser.description or "", parser.epilog or ""
    parser.description = parser.epilog = None
    yield f"# {parser.prog}"
    yield ""
    for part in description.split("\n\n"):
        if part.startswith(" "):  # a table
            yield from _literal(part)
        else:
            yield from (_prose(part), "")
    yield from ("## Usage", "", *_literal(parser.format_help()))
    yield from ("## Examples", "", *_literal(examples.removeprefix("examples:\n")))


def _prose(text: str) -> str:
    return _OPTION.sub(r"`\1`", re.sub(r"([*_\[\]<>])", r"\\\1", text))


def _literal(text: str) -> Iterator[str]:
    yield from (
        "```text",
        *re.sub("^  ", "", text.rstrip(), flags=re.MULTILINE).splitlines(),
        "```",
        "",
    )
