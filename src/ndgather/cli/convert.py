"""``ndgather convert``: convert a model to another opset, operator or target."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.cli.terminal import add_common, page_width, positive, require_output, working
from ndgather.errors import FileError, ModelError, NdgatherError, one_line
from ndgather.messages import plural
from ndgather.models import tensor_files
from ndgather.models.graph import diagnostics

if TYPE_CHECKING:
    from ndgather.models.onnx.conversion_report import Conversion
    from ndgather.models.onnx.files import Source

DESCRIPTION = """\
Convert an ONNX model to another opset, or replace its gather and scatter nodes
with equivalent operators. Operators that the result may not use are built from
others. If a node cannot be converted exactly, an error says why. A table lists
the nodes that were repaired and those that --operator could not replace.

With --target, gathers and scatters that a restricted target does not support
are replaced with operators that it supports. A target is described by a TOML
file: your own, or one of the package (basic, coreml, ncnn, onnxruntime, opencv,
qnn, rknn, tensorrt-8, tensorrt-10, tflite, tidl, webgpu). A list shows what
happened to each node. If an unsupported node remains, OUT is written only with
--partial.
"""

EXAMPLES = """\
examples:
  ndgather convert model.onnx --opset 11 -o old.onnx
      replace batch_dims, which GatherND-11 lacks, with explicit coordinates

  ndgather convert model.onnx --domain ai.onnx -o portable.onnx
      replace GatherND of com.microsoft with that of ONNX; cast int32 indices

  ndgather convert model.onnx --opset 18 -o repaired.onnx
      repair a ScatterElements with max, which exists only since opset 18

  ndgather convert model.onnx --operator GatherND -o one.onnx
      replace Gather and GatherElements with GatherND and list all others

  ndgather convert model.onnx --target basic -o plain.onnx
      use only Gather along the first axis and no scatter operators

  ndgather convert model.onnx --target basic --dry-run
      list how every gather and scatter would be converted

OUT is written completely or not at all.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model: FILE.onnx")
    add("--opset", metavar="N", type=positive, help="the ONNX opset of the result")
    add(
        "--domain",
        metavar="DOMAIN",
        help="the domain of GatherND in the result: ai.onnx or com.microsoft",
    )
    add(
        "--operator",
        metavar="NAME",
        help="the operator that replaces other gather nodes: GatherND, GatherElements or Gather; "
        "or ScatterND, to replace ScatterElements",
    )
    add("--strict", action="store_true", help="fail if --operator cannot replace every such node")
    add(
        "--target",
        metavar="TARGET",
        help="the target that must run the model: its name or a .toml file",
    )
    add(
        "--partial",
        action="store_true",
        help="write OUT even if the target does not support every node",
    )
    add(
        "--checked",
        action="store_true",
        help="in rewritten nodes, keep out-of-bounds indices out of bounds",
    )
    add(
        "--allow-matmul",
        action="store_true",
        help="let MatMul replace an additive scatter, although it adds in a different order",
    )
    add("--dry-run", action="store_true", help="print the report and write nothing")
    add("--json", action="store_true", help="print the report as JSON")
    add("-o", "--output", metavar="OUT", type=Path, help="the result: FILE.onnx")
    add_common(parser)


def work(options: argparse.Namespace) -> None:
    for path in (Path(options.model), options.output):
        if path is not None and path.suffix == ".xml":
            raise ModelError(
                f"{path}: is an OpenVINO IR, which convert neither reads nor writes (allowed: "
                "FILE.onnx; `ovc MODEL.onnx` of the openvino package converts ONNX to IR)"
            )
    if options.target:
        _convert_to_target(options)
        return
    for name in ("partial", "checked", "allow_matmul", "dry_run", "json"):
        if getattr(options, name):
            flag = name.replace("_", "-")
            options.parser.error(f"--{flag} does not apply (allowed: with --target)")
    if options.output is None:
        options.parser.error("the following arguments are required: -o/--output")
    tensor_files.check_place(options.output, (".onnx",))
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    with working(options.model):
        result = _convert_or_advise(options)
        onnx.save(result, options.output)
        count, findings = result.node_count, result.findings
        found = onnx.check(options.output)
    findings += tuple(item for item in found if item.severity is diagnostics.ERROR)
    print(f"{one_line(str(options.output))}: {plural(count, 'node')}")
    if findings:
        print(diagnostics.as_text(findings, page_width()))


def _convert_to_target(options: argparse.Namespace) -> None:
    require_output(options)
    if options.operator or options.strict:
        options.parser.error("--operator and --strict do not apply (allowed: without --target)")
    if options.output is not None:
        tensor_files.check_place(options.output, (".onnx",))
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx import conversion_report as report  # noqa: PLC0415

    with working(options.model):
        result = _convert_or_advise(options)
    known = result.target
    assert known is not None
    stay = [node for node in result.nodes if node.stays]
    written = not options.dry_run and (options.partial or not stay)
    if written:
        onnx.save(result, options.output)
    if options.json:
        print(
            json.dumps({**report.nodes_to_json(result.nodes, known), "written": written}, indent=2)
        )
    else:
        print(report.nodes_as_text(result.nodes, known, page_width() or 80))
        if written:
            print(f"{one_line(str(options.output))}: {plural(result.node_count, 'node')}")
            errors = [x for x in onnx.check(options.output) if x.severity is diagnostics.ERROR]
            findings = [*result.findings, *errors]
            if findings:
                print(diagnostics.as_text(findings, page_width()))
    if stay and not options.partial:
        allowed = ["--partial", *_next_commands(options)]
        if not options.dry_run:
            raise ModelError(
                f"{options.output}: is not written, because {plural(len(stay), 'node')} cannot be "
                f"converted to {known.name} (allowed: {', or '.join(allowed)})"
            )
        if not options.json:
            print("allowed:", ";\n".join(allowed))


def _convert_or_advise(options: argparse.Namespace) -> Conversion:
    """Convert the model, or raise an error that also lists commands that would succeed."""
    try:
        return _convert_model(options, options.model, options.opset)
    except FileError:
        raise
    except NdgatherError as error:
        advice = ", or ".join(_next_commands(options))
        if advice:
            error.args = (f"{error}; possible: {advice}",)
        raise


def _convert_model(options: argparse.Namespace, model: Source, opset: int | None) -> Conversion:
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.conversion(
        model, opset=opset, **{name: getattr(options, name) for name in (*_VALUES, *_FLAGS)}
    )


_VALUES, _FLAGS = ("domain", "operator", "target"), ("strict", "checked", "allow_matmul")


def _next_commands(options: argparse.Namespace) -> Iterator[str]:
    """Try variants of the failed command, and yield the variants that succeed.

    The variants convert to the nearest opset that works or replace dynamic sizes with numbers.
    """
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx.files import map_model  # noqa: PLC0415
    from ndgather.models.onnx.inference import open_sizes  # noqa: PLC0415
    from ndgather.models.onnx.nodes import NEWEST_OPSET, model_ports, opsets  # noqa: PLC0415

    def succeeds(opset: int | None, model: Source = options.model) -> bool:
        with suppress(NdgatherError):
            return not any(node.stays for node in _convert_model(options, model, opset).nodes)
        return False

    proto, _ = map_model(options.model, "convert")
    source = opsets(proto.opset_import).get("ai.onnx", NEWEST_OPSET)
    works, fails = (source, options.opset) if options.opset else (NEWEST_OPSET, source)
    if works != fails and source <= NEWEST_OPSET and succeeds(works):
        while abs(works - fails) > 1:
            middle = (works + fails) // 2
            works, fails = (middle, fails) if succeeds(middle) else (works, middle)
        words = ["ndgather", "convert", options.model, "--opset", str(works)]
        for name in _VALUES:
            words += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
        words += [f"--{name.replace('_', '-')}" for name in _FLAGS if getattr(options, name)]
        yield shlex.join([*words, "-o", str(options.output or "OUT.onnx")])
    sizes = dict.fromkeys(sorted({*open_sizes(model_ports(proto)[0]).values()}), 1)
    with suppress(NdgatherError):
        if sizes and succeeds(options.opset, onnx.infer(options.model, sizes=sizes)):
            numbers = [part for name in sizes for part in ("--size", f"{name}=1")]
            infer = ["ndgather", "infer", options.model, *numbers, "-o", "FIXED.onnx"]
            yield f"fixed sizes: {shlex.join(infer)}"
