"""``ndgather doc``: show the page of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.cli.options import add_command, add_page_options
from ndgather.cli.screen import terminal

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Show the page of an operator: its formula, rules, types and attributes, examples
that are run as the page is made, the errors of the published text, and what
differs from another version.
"""

EXAMPLES = """\
examples:
  ndgather doc GatherND
      show the newest version of ONNX

  ndgather doc GatherND --opset 12 --diff 11
      show what opset 12 has, and what is different in version 11

  ndgather doc GatherND --diff openvino:8
      compare with version 8 of OpenVINO

  ndgather doc ScatterElementsUpdate --format html > page.html
      write a page for a browser; md, rst and json go the same way

Text is in colours where it goes to a terminal and NO_COLOR is not set.
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    doc = add_command(commands, "doc", "show the page of an operator", DESCRIPTION, EXAMPLES)
    doc.add_argument("name", metavar="NAME", help="the operator, such as GatherND")
    which = doc.add_mutually_exclusive_group()
    which.add_argument(
        "--version", type=int, metavar="N", help="the version that brought it (default: newest)"
    )
    which.add_argument(
        "--opset", type=int, metavar="N", help="the newest version that this opset has"
    )
    doc.add_argument(
        "--diff",
        metavar="[DOMAIN:]VERSION",
        help="add the differences from this version, of the same specification or another",
    )
    add_page_options(doc, "the specification (default: ai.onnx, or the one that has it)", _doc)


def _doc(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    width, color = terminal()
    text = pages.operator_page(
        options.name,
        options.domain,
        options.version,
        opset=options.opset,
        diff=options.diff,
        format=options.format,
        width=width,
        color=color,
    )
    print(text, end="")
