"""The page of every command, written at every build from the parser of the command line.

Examples are laid out for a terminal, and are copied as they are.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather.cli import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

WIDTH = 80
# Options of every command, which the page above these describes.
_OF_ALL = {"--help", "--threads", "--verbose", "--debug"}
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][\w-]*)")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    (commands,) = (
        action
        for action in command_line()._actions  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction)
    )
    folder = Path(app.srcdir) / "reference" / "commands"
    for choice in commands._choices_actions:
        page = "\n".join(_page(commands.choices[choice.dest]))
        write(folder / f"{choice.dest}.md", f"{page}\n")
    for place in folder.iterdir():
        if place.stem not in commands.choices:
            place.unlink()  # the page of a command that was removed


def _page(parser: argparse.ArgumentParser) -> Iterator[str]:
    parser.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH)
    yield f"# {parser.prog}"
    yield ""
    for part in (parser.description or "").split("\n\n"):
        if part.startswith(" "):  # a table
            yield from _literal(part)
        else:
            yield from (_prose(part), "")
    for group in parser._action_groups:
        if group._group_actions:
            yield from ("", f"## {(group.title or 'options').capitalize()}", "")
            for action in group._group_actions:
                if _OF_ALL.isdisjoint(action.option_strings):
                    yield from _option(parser, action)
    yield from ("", "## Examples", "")
    yield from _literal((parser.epilog or "").removeprefix("examples:\n"))


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    formatter = parser._get_formatter()
    names = formatter._format_action_invocation(action)
    yield f"`{names}`"
    yield f": {_prose(formatter._expand_help(action))}"
    yield ""


def _prose(text: str) -> str:
    return _OPTION.sub(r"`\1`", re.sub(r"([*_\[\]<>])", r"\\\1", text))


def _literal(text: str) -> Iterator[str]:
    yield from (
        "```text",
        *re.sub("^  ", "", text.rstrip(), flags=re.MULTILINE).splitlines(),
        "```",
        "",
    )
