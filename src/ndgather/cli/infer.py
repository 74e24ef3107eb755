"""``ndgather infer``: infer the types and shapes of a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from ndgather import messages
from ndgather.cli.inputs import add_sizes
from ndgather.cli.terminal import add_common, working
from ndgather.errors import one_line
from ndgather.messages import shown
from ndgather.models import tensor_files
from ndgather.models.graph import Port, aligned, port_dtype_name
from ndgather.published.schema import Dim, RankAtLeast, TensorType

Values: TypeAlias = dict[str, dict[str, TensorType]]

DESCRIPTION = """\
Infer the types and shapes of an ONNX model or OpenVINO IR without running it.
Sizes may be numbers, names or unknown. An error names a node that cannot run
for any values of its inputs.
"""

EXAMPLES = """\
examples:
  ndgather infer model.onnx
      print the inputs and outputs of a model; --all prints all values

  ndgather infer model.onnx --size batch=8 -o inferred.onnx
      set a size and save the model with the inferred types

In the output, ? is an unknown size and ... is any number of further axes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    add_sizes(parser, "a dynamic size of the model")
    add("--all", action="store_true", help="print all values of an ONNX model")
    add("-o", "--output", metavar="OUT.onnx", type=Path, help="save the model with these types")
    add("--json", action="store_true", help="print the types as JSON")
    add_common(parser)


def work(options: argparse.Namespace) -> None:
    with working(options.model):
        values = _infer_values(options)
    if not options.all:
        del values["value"]
    types = [(role, *item) for role, named in values.items() for item in named.items()]
    if options.json:
        lists: dict[str, list[object]] = {f"{role}s": [] for role in values}
        for role, name, known in types:
            shape = None if known.shape is None else _sizes(known.shape)
            lists[f"{role}s"].append({"name": name, "dtype": known.dtype, "shape": shape})
        print(json.dumps(lists, indent=2))
        return
    rows = []
    for role, name, known in types:
        sizes = "?" if known.shape is None else shown(_sizes(known.shape))
        rows.append((role, one_line(name), known.dtype or "?", sizes))
    if rows:
        print(aligned(rows))
    if options.output is not None:
        print(f"\n{one_line(str(options.output))}: the model with its types")


def _infer_values(options: argparse.Namespace) -> Values:
    if Path(options.model).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        for name in ("sizes", "all", "output"):
            if getattr(options, name):
                raise messages.only_onnx(f"--{name.removesuffix('s')}")
        model = openvino.Model.load(options.model)
        inputs, outputs = _types_of_ports(model.inputs), _types_of_ports(model.outputs)
        return {"input": inputs, "output": outputs, "value": {}}
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx.inference import (  # noqa: PLC0415 - as above
        infer_mapped,
        typed_values,
    )

    if options.output is None:
        return typed_values(infer_mapped(options.model, sizes=options.sizes))
    tensor_files.check_place(options.output, (".onnx",))
    inferred = onnx.infer(options.model, sizes=options.sizes)
    onnx.save(inferred, options.output, str(Path(options.model).parent))
    return typed_values(inferred)


def _types_of_ports(ports: Sequence[Port]) -> dict[str, TensorType]:
    types = {}
    for port in ports:
        dtype = None if port.dtype is None else port_dtype_name(port.dtype)
        shape: tuple[Dim, ...] | None = None
        if port.shape is not None:
            shape = tuple(None if size == "?" else size for size in port.shape)
        types[port.name] = TensorType(dtype, shape)
    return types


def _sizes(shape: tuple[Dim, ...] | RankAtLeast) -> tuple[Dim, ...]:
    return (*shape.first, "...") if isinstance(shape, RankAtLeast) else shape
