"""``ndgather check``: find errors in a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather.cli.options import add_command, add_common
from ndgather.cli.screen import terminal
from ndgather.models.graph import diagnostics

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Find errors in a model, an ONNX file or an OpenVINO IR. Each gather and scatter
operator is checked against its specification in the version that the model
imports, with everything that can be inferred about its inputs. A finding is one
of

  error     the specification does not allow it
  differs   the specification allows it, but runtimes give different results
  portable  it runs, but some runtimes or versions do not support it
"""

EXAMPLES = """\
examples:
  ndgather check model.onnx
      print a table, the worst first

  ndgather check model.onnx --json > findings.json
      print the same findings as a list of JSON objects

The exit status is 1 if there are errors.
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    check = add_command(commands, "check", "find errors in a model", DESCRIPTION, EXAMPLES)
    check.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    check.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_common(check, _check)


def _check(options: argparse.Namespace) -> int:
    if Path(options.model).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        found = openvino.check(options.model)
    else:
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        found = onnx.check(options.model)
    if options.json:
        print(json.dumps(diagnostics.to_json(diagnostics.worst_first(found)), indent=2))
    else:
        print(diagnostics.table(found, terminal()[0] if sys.stdout.isatty() else 0))
    return int(diagnostics.has_errors(found))
