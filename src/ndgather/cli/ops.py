"""``ndgather ops``: list the operator versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.cli.options import (
    add_command,
    add_page_options,
    completed_by,
    operator_names,
    terminal,
)

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
List the operator versions that ndgather knows, one line for each.
"""

EXAMPLES = """\
examples:
  ndgather ops
      list all of them

  ndgather ops GatherND
      list the versions of one operator, in every domain

  ndgather ops --domain openvino --format md
      list one domain, as a Markdown table
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    ops = add_command(commands, "ops", "list the operator versions", DESCRIPTION, EXAMPLES)
    name = ops.add_argument("name", nargs="?", metavar="NAME", help="only operators of this name")
    completed_by(name, operator_names)
    add_page_options(ops, "only operators of this domain", _ops)


def _ops(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    width, color = terminal()
    text = pages.operator_table(
        options.name, options.domain, format=options.format, width=width, color=color
    )
    print(text, end="")
