"""``ndgather doc`` and ``ndgather ops``: the page of an operator, and a list of all versions."""

from __future__ import annotations

import sys
from types import SimpleNamespace
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

DOC = """\
Show the page of an operator: its formula, rules, types and attributes, examples
that are run when the page is made, errors in the published text, and the
differences from another version.
"""

DOC_EXAMPLES = """\
examples:
  ndgather doc GatherND
      show the newest version in ONNX

  ndgather doc GatherND --opset 12 --diff 11
      show the version in opset 12, and its differences from version 11

  ndgather doc GatherND --diff openvino:8
      compare with version 8 of OpenVINO

  ndgather doc ScatterElementsUpdate | pandoc --standalone -o page.html
      write a page for a browser, with pandoc
"""

OPS = """\
List the operator versions that ndgather knows, one line for each.
"""

OPS_EXAMPLES = """\
examples:
  ndgather ops
      list all of them

  ndgather ops GatherND
      list the versions of one operator, in every domain

  ndgather ops --domain openvino --format json
      list one domain, for a program
"""


def _add_doc(commands: Any) -> None:
    doc = add_command(commands, "doc", "show the page of an operator", DOC, DOC_EXAMPLES)
    name = doc.add_argument("name", metavar="NAME", help="the operator, such as GatherND")
    completed_by(name, operator_names)
    which = doc.add_mutually_exclusive_group()
    which.add_argument(
        "--version",
        type=int,
        metavar="N",
        help="this version of the operator (default: the newest)",
    )
    which.add_argument(
        "--opset", type=int, metavar="N", help="the version that is in force in this opset"
    )
    doc.add_argument(
        "--diff",
        metavar="[DOMAIN:]VERSION",
        help="add the differences from this version, of this domain or another",
    )
    add_page_options(
        doc,
        "the domain: ai.onnx, com.microsoft or openvino (default: the first one "
        "that has the operator)",
        _doc,
    )


def _doc(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    text = pages.operator_page(
        options.name,
        options.domain,
        options.version,
        opset=options.opset,
        diff=options.diff,
        format=options.format,
        width=_width(),
    )
    print(text, end="")


def _add_ops(commands: Any) -> None:
    ops = add_command(commands, "ops", "list the operator versions", OPS, OPS_EXAMPLES)
    name = ops.add_argument("name", nargs="?", metavar="NAME", help="only operators of this name")
    completed_by(name, operator_names)
    add_page_options(ops, "only operators of this domain", _ops)


def _ops(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    text = pages.operator_table(options.name, options.domain, format=options.format, width=_width())
    print(text, end="")


def _width() -> int:
    """Return the limit of lines: that of a terminal, and none for a file or a program."""
    return terminal() if sys.stdout.isatty() else 0


COMMANDS = (SimpleNamespace(add_to=_add_ops), SimpleNamespace(add_to=_add_doc))
