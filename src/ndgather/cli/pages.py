"""``ndgather doc`` and ``ndgather ops``: the page of an operator, and a list of all versions."""

from __future__ import annotations

import argparse
from typing import Any

from ndgather.cli.options import (
    add_command,
    add_options,
    add_page_options,
    operator_names,
    page_width,
)

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


def add_doc(commands: Any) -> None:
    doc = add_command(commands, "doc", "show the page of an operator", DOC, DOC_EXAMPLES)
    add_options(doc, "NAME  the operator, such as GatherND", name={"completer": operator_names})
    table = """
        --version N  this version of the operator (default: the newest)
        --opset N    the version that is in force in this opset
    """
    number = {"type": int}
    add_options(doc.add_mutually_exclusive_group(), table, version=number, opset=number)
    about = "add the differences from this version, of this domain or another"
    add_options(doc, f"--diff [DOMAIN:]VERSION  {about}")
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
        width=page_width(),
    )
    print(text, end="")


def add_ops(commands: Any) -> None:
    ops = add_command(commands, "ops", "list the operator versions", OPS, OPS_EXAMPLES)
    name = {"nargs": "?", "completer": operator_names}
    add_options(ops, "NAME  only operators of this name", name=name)
    add_page_options(ops, "only operators of this domain", _ops)


def _ops(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    text = pages.operator_table(
        options.name, options.domain, format=options.format, width=page_width()
    )
    print(text, end="")
