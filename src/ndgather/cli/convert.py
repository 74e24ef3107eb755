"""``ndgather convert``: write a model in another form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather.cli.options import add_command, add_common, positive
from ndgather.cli.screen import node_count, terminal
from ndgather.errors import conversion_errors
from ndgather.errors.texts import one_line
from ndgather.models.graph import diagnostics
from ndgather.models.tensors import tensor_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DESCRIPTION = """\
Write an ONNX model in another version of ONNX, or with its gather and scatter
nodes as others that do exactly the same; or write it as an OpenVINO IR, or an
IR as an ONNX model, as the names of the files say. What the target lacks is
built from nodes that it has; what cannot be exact is refused with the node and
the reason. Where runs of the two may part, a table says so.
"""

EXAMPLES = """\
examples:
  ndgather convert model.onnx --opset 11 -o old.onnx
      batch_dims, which GatherND-11 does not have, become coordinates

  ndgather convert model.onnx --domain ai.onnx -o portable.onnx
      onnxruntime's own GatherND becomes that of ONNX; int32 indices get a Cast

  ndgather convert model.onnx --operator GatherND -o one.onnx
      Gather and GatherElements become GatherND

  ndgather convert model.onnx -o model.xml
      an IR of gather and scatter layers, its constants in model.bin

  ndgather convert model.xml --opset 13 -o model.onnx
      and back (default: opset 18)

OUT appears only when it is complete; until then a file of that name stays as it
is.
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    convert = add_command(
        commands, "convert", "write a model in another form", DESCRIPTION, EXAMPLES
    )
    convert.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    convert.add_argument(
        "--opset", type=positive, metavar="N", help="the version of ONNX that it shall import"
    )
    convert.add_argument(
        "--domain", metavar="DOMAIN", help="where GatherND shall be from: ai.onnx, com.microsoft"
    )
    convert.add_argument(
        "--operator",
        metavar="NAME",
        help="what the nodes that gather shall be: GatherND, GatherElements or Gather; "
        "or ScatterND for those that scatter elements",
    )
    convert.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="the result: .onnx or .xml"
    )
    add_common(convert, _convert)


def _convert(options: argparse.Namespace) -> None:
    from_ir, to_ir = Path(options.model).suffix == ".xml", options.output.suffix == ".xml"
    tensor_files.check_place(options.output, (".onnx",) if from_ir else (".onnx", ".xml"))
    given = {name: getattr(options, name) for name in ("opset", "domain", "operator")}
    parting: Sequence[diagnostics.Finding] = ()
    if from_ir or to_ir:
        from ndgather.models import interchange  # noqa: PLC0415 - slow, and two extras

        if from_ir:
            count, parting = interchange.openvino_to_onnx(options.model, options.output, **given)
        else:
            for name in (name for name, value in given.items() if value is not None):
                raise conversion_errors.option_of_onnx(f"--{name}", options.output)
            tensor_files.check_place(options.output.with_suffix(".bin"), (".bin",))
            count, parting = interchange.onnx_to_openvino(options.model, options.output)
    else:
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        result = onnx.convert(options.model, **given)
        onnx.save(result, options.output, str(Path(options.model).parent))
        count = len(result.graph.node)
    print(f"{one_line(str(options.output))}: {node_count(count)}")
    if parting:
        print(diagnostics.table(parting, terminal()[0] if sys.stdout.isatty() else 0))
