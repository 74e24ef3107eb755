"""``ndgather convert``: convert a model to another version, operator or format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather.cli.options import (
    add_command,
    add_common,
    add_options,
    node_count,
    page_width,
    positive,
)
from ndgather.errors import ModelError, one_line
from ndgather.models.graph import diagnostics
from ndgather.models.tensors import tensor_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DESCRIPTION = """\
Convert an ONNX model to another version of ONNX, or replace its gather and
scatter nodes with equivalent operators. If OUT ends in .xml, write an OpenVINO
IR, with OpenVINO if the model has other operators too; if MODEL ends in .xml,
write an ONNX model. Operators that the target does not have are built from
others. A node that cannot be converted exactly is an error, with the reason. A
table lists the nodes that were repaired, those that --operator could not
replace, and those for which runtimes may return other results than before.
"""

EXAMPLES = """\
examples:
  ndgather convert model.onnx --opset 11 -o old.onnx
      replace batch_dims, which GatherND-11 does not have, by coordinates

  ndgather convert model.onnx --domain ai.onnx -o portable.onnx
      replace onnxruntime's own GatherND by that of ONNX, and cast int32 indices

  ndgather convert model.onnx --opset 18 -o repaired.onnx
      treat ScatterElements with max, which needs opset 18, as one of opset 18

  ndgather convert model.onnx --operator GatherND -o one.onnx
      replace Gather and GatherElements by GatherND, and list those that remain

  ndgather convert model.onnx -o model.xml
      write an IR, with its constants in model.bin

  ndgather convert model.xml --opset 13 -o model.onnx
      convert it back (default: opset 18)

OUT is written completely or not at all.
"""


def add_to(commands: Any) -> None:
    summary = "convert a model to another version, operator or format"
    convert = add_command(commands, "convert", summary, DESCRIPTION, EXAMPLES)
    table = """
        MODEL            the model: FILE.onnx or FILE.xml
        --opset N        the target opset of ONNX
        --domain DOMAIN  the domain of GatherND in the result: ai.onnx or com.microsoft
        --operator NAME  the operator that replaces the gather nodes: GatherND, GatherElements or
                         Gather; or ScatterND, which replaces ScatterElements
        --strict         fail if --operator cannot replace every such node
        -o --output OUT  the result: .onnx or .xml
    """
    output = {"required": True, "type": Path}
    add_options(convert, table, opset={"type": positive}, output=output)
    add_common(convert, _convert)


def _convert(options: argparse.Namespace) -> None:
    from_ir, to_ir = Path(options.model).suffix == ".xml", options.output.suffix == ".xml"
    tensor_files.check_place(options.output, (".onnx",) if from_ir else (".onnx", ".xml"))
    target = {name: getattr(options, name) for name in ("opset", "domain", "operator", "strict")}
    findings: Sequence[diagnostics.Finding] = ()
    if from_ir or to_ir:
        from ndgather.models import interchange  # noqa: PLC0415 - slow, and two extras

        if from_ir:
            count, findings = interchange.openvino_to_onnx(options.model, options.output, **target)
        else:
            for name in (name for name, value in target.items() if value):
                raise ModelError(
                    f"{options.output}: --{name} does not apply (allowed: for a result in an "
                    f".onnx file)"
                )
            tensor_files.check_place(options.output.with_suffix(".bin"), (".bin",))
            count, findings = interchange.onnx_to_openvino(options.model, options.output)
    else:
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        result = onnx.conversion(options.model, **target)
        onnx.save(result, options.output)
        count, findings = len(result.model.graph.node), result.findings
    print(f"{one_line(str(options.output))}: {node_count(count)}")
    if findings:
        print(diagnostics.table(findings, page_width()))
