"""``ndgather check``: find errors in a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ndgather import messages
from ndgather.cli.terminal import add_common, add_runtimes, page_width, working
from ndgather.errors import ExtraMissingError, ModelError, NdgatherError, one_line
from ndgather.models.graph import diagnostics
from ndgather.models.graph.diagnostics import Finding, Severity

DESCRIPTION = """\
Find errors in an ONNX model or OpenVINO IR without running it. Every gather and
scatter is checked against the operator version that the model imports, using
the types, shapes and values that can be inferred. Severities:

  error     the specification does not allow it
  differs   the specification allows it, but runtimes give different results
  portable  it runs, but some runtimes or versions do not support it
"""

EXAMPLES = """\
examples:
  ndgather check model.onnx
      print a table, most severe first; equal findings share a row

  ndgather check encoder.onnx decoder.onnx --runtime onnxruntime,openvino
      check two models; list only findings that affect these runtimes

  ndgather check model.onnx --target coreml
      list what Core ML does not support, and how convert --target replaces it

  ndgather check model.onnx --json > findings.json
      print the same findings as a list of JSON objects

  ndgather check *.onnx --fail-on differs
      also fail if runtimes give different results

The exit status is 1 if a finding is at least as severe as --fail-on, or if a
model cannot be read. In both cases, all other models are still checked.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", metavar="MODEL", nargs="+", help="models to check: FILE.onnx or FILE.xml")
    add_runtimes(
        parser, "list only findings that affect these runtimes, such as onnxruntime,openvino"
    )
    add(
        "--target",
        metavar="TARGET",
        help="also list the nodes that this target does not support (see convert --target)",
    )
    add(
        "--fail-on",
        choices=[severity.value for severity in Severity],
        default=Severity.ERROR.value,
        help="the lowest severity that makes the exit status 1 (default: error)",
    )
    add("--json", action="store_true", help="print the findings as JSON")
    add_common(parser)


def work(options: argparse.Namespace) -> int:
    names = list(options.runtimes)
    try:
        diagnostics.check_runtimes(names)
    except ModelError as error:
        with suppress(ExtraMissingError):
            from ndgather.models.onnx.passes import target  # noqa: PLC0415 - slow, and an extra

            for name in {*names} & {*target.target_names()}:
                error.args = (f"{error}; write --target {name}, a target of convert",)
        raise
    results, unread = {}, False
    for model in options.models:
        try:
            with working(model):
                results[model] = _findings(model)
                if options.target:
                    found = _of_target(model, options.target, results[model])
                    results[model] = (*results[model], *found)
        except NdgatherError as error:  # continue with the next model
            if len(options.models) == 1:
                raise
            print(f"ndgather check: error: {one_line(str(error))}", file=sys.stderr)
            unread = True
    if options.target:
        names.append(options.target)
    if names:
        results = {model: diagnostics.about(listed, names) for model, listed in results.items()}
    if options.json:
        several = len(options.models) > 1
        objects = [
            {"model": model, **finding} if several else finding
            for model, findings in results.items()
            for finding in diagnostics.to_json(diagnostics.worst_first(findings))
        ]
        print(json.dumps(objects, indent=2))
    else:
        width = page_width()
        tables = {model: diagnostics.as_text(listed, width) for model, listed in results.items()}
        heads = [f"{model}\n{text}" for model, text in tables.items()]
        print("\n\n".join(heads if len(options.models) > 1 else tables.values()))
    least = Severity(options.fail_on)
    return int(
        unread or any(diagnostics.at_least(findings, least) for findings in results.values())
    )


def _of_target(path: str, name: str, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding per node that a target does not support, unless `found` contains errors."""
    if Path(path).suffix == ".xml":
        raise messages.only_onnx("--target")
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx.passes import target  # noqa: PLC0415 - as above

    target.load_target(name)
    if diagnostics.at_least(found, Severity.ERROR):
        return
    for node in onnx.conversion(path, target=name).nodes:
        if node.why and node.why != target.NEGATIVE_IF_OUTSIDE:
            instead = "" if node.stays else f"; convert --target {name} writes {node.became}"
            yield Finding(
                node.where, node.was, "target", f"{node.why}{instead}", Severity.PORTABLE, (name,)
            )


def _findings(path: str) -> Sequence[Finding]:
    if Path(path).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        return openvino.check(path)
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.check(path)
