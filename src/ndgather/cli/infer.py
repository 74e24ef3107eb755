"""``ndgather infer``: the types and shapes that follow from those of the inputs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ndgather import messages
from ndgather.cli.inputs import add_sizes
from ndgather.cli.options import (
    add_command,
    add_common,
    add_options,
    domain_names,
    operator_names,
    working,
)
from ndgather.errors import DTypeError, ModelError, one_line
from ndgather.messages import shown
from ndgather.models.graph import Port, aligned, port_dtype_name
from ndgather.models.tensors import tensor_files
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import AttributeType, Dim, Inference, RankAtLeast, TensorType

Values: TypeAlias = dict[str, dict[str, TensorType]]

DESCRIPTION = """\
Infer types and shapes, of a whole model or of one call of an operator, without
running it. Sizes may be numbers, names or unknown. A node that cannot run for
any values is an error that names it.
"""

EXAMPLES = """\
examples:
  ndgather infer model.onnx
      the inputs and outputs of a model; --all prints all values

  ndgather infer model.onnx --size batch=8 -o inferred.onnx
      set a size, and save the model with the inferred types

  ndgather infer GatherND data=float32:N,4,3 indices=int64:M,2
      one call: the output is float32 (M, 3)

  ndgather infer Gather float32:N,32,32 indices=picks.npy axis=1 --opset 12
      inputs by position or by name, attributes by name; a file is an input with
      known values

A type is DTYPE:SIZE,SIZE,... where ? is an unknown size; DTYPE: has no axes,
DTYPE alone any number of axes, and :N,4 any dtype. In the output "..." stands
for any number of further axes.
"""


def add_to(commands: Any) -> None:
    summary = "infer the types and shapes of a model or a call"
    infer = add_command(commands, "infer", summary, DESCRIPTION, EXAMPLES)
    table = """
        TARGET           FILE.onnx, FILE.xml, or an operator such as GatherND
        WORDS            of a call: its inputs, and its attributes as NAME=VALUE
        --domain DOMAIN  the domain of the operator
    """
    target = {"metavar": "WHAT", "completer": operator_names}
    words = {"metavar": "[NAME=]TYPE", "nargs": "*"}
    add_options(infer, table, target=target, words=words, domain={"completer": domain_names})
    table = """
        --version N  this version of the operator
        --opset N    the version of this opset
    """
    number = {"type": int}
    add_options(infer.add_mutually_exclusive_group(), table, version=number, opset=number)
    add_sizes(infer, "an open size of the model")
    table = """
        --all                 print all values of an ONNX model
        -o --output OUT.onnx  save the model with its types
        --json                print the types as JSON
    """
    add_options(infer, table, output={"type": Path})
    add_common(infer, _infer)


def _infer(options: argparse.Namespace) -> None:
    if Path(options.target).suffix or Path(options.target).exists():
        with working(options.target):
            values = _of_model(options)
        if not options.all:
            del values["value"]
        _print(options, values)
        if options.output is not None and not options.json:
            print(f"\n{one_line(str(options.output))}: the model with its types")
        return
    operator = _named_operator(options)
    inference = _of_call(operator, options.words)
    row = operator.row
    inputs, outputs = ([tensor.name for tensor in side] for side in (row.inputs, row.outputs))
    values = {
        "input": dict(zip(inputs, inference.inputs, strict=True)),
        "output": dict(zip(outputs, inference.outputs, strict=True)),
    }
    _print(options, values, str(row), inference)


def _named_operator(options: argparse.Namespace) -> Operator:
    """Return the operator to call; capitals, hyphens and underscores in its name do not matter.

    Without ``--domain``, ONNX comes first, then the first domain that has the operator.
    """
    in_domain = operators(domain=options.domain)
    if not in_domain:
        domains = list(dict.fromkeys(op.domain for op in operators()))
        raise messages.unknown_choice("infer", "domain", options.domain, domains)
    wanted = _key(options.target)
    matches = [op for op in in_domain if _key(op.name) == wanted]
    if not matches:
        names = list(dict.fromkeys(op.name for op in in_domain))
        raise messages.unknown_choice("infer", "name", options.target, names)
    first = next((op for op in matches if op.domain == DEFAULT_DOMAIN), matches[0])
    return operator(first.name, domain=first.domain, version=options.version, opset=options.opset)


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _of_model(options: argparse.Namespace) -> Values:
    for text in options.words:
        raise ModelError(f"infer: {text!r} is not taken with a model (allowed: --size NAME=N)")
    if Path(options.target).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        for name in ("sizes", "all", "output"):
            if getattr(options, name):
                raise messages.only_onnx(f"--{name.removesuffix('s')}")
        model = openvino.Model.load(options.target)
        return {"input": _of_ports(model.inputs), "output": _of_ports(model.outputs), "value": {}}
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx.inference import typed_values  # noqa: PLC0415 - as above

    if options.output is not None:
        tensor_files.check_place(options.output, (".onnx",))
    inferred = onnx.infer(options.target, sizes=options.sizes)
    if options.output is not None:
        onnx.save(inferred, options.output, str(Path(options.target).parent))
    return typed_values(inferred)


def _of_ports(ports: Sequence[Port]) -> dict[str, TensorType]:
    types = {}
    for port in ports:
        dtype = None if port.dtype is None else port_dtype_name(port.dtype)
        shape: tuple[Dim, ...] | None = None
        if port.shape is not None:
            shape = tuple(None if size == "?" else size for size in port.shape)
        types[port.name] = TensorType(dtype, shape)
    return types


def _of_call(operator: Operator, words: list[str]) -> Inference:
    """Infer one call from the inputs and attributes on a command line."""
    names = [tensor.name for tensor in operator.row.inputs]
    attributes = {attribute.name: attribute.type for attribute in operator.row.attributes}
    types: list[Any] = []
    named: dict[str, Any] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals:
            types.append(_input(names[len(types)] if len(types) < len(names) else "input", text))
        elif name in attributes:
            named[name] = _attribute(value, attributes[name])
        else:
            named[name] = _input(name, value) if name in names else value
    return operator.infer(*types, **named)


def _input(name: str, text: str) -> Any:
    """Read an input: a type, a file, or a number where its value is known."""
    if Path(text).suffix in tensor_files.INPUT_SUFFIXES or ".npz:" in text:
        return tensor_files.read(text)
    if text.removeprefix("-").isdecimal():
        return int(text)
    dtype, colon, sizes = text.partition(":")
    dims = tuple(_size(name, text, size) for size in sizes.split(",") if sizes)
    return TensorType(dtype or None, dims if colon else None)


def _size(name: str, text: str, size: str) -> Dim:
    if size == "?":
        return None
    if size.isdecimal():
        return int(size)
    if not size.isidentifier():
        raise DTypeError(
            f"infer: {name} = {text!r} is not a type (allowed: DTYPE:SIZE,... as float32:N,4, or a "
            f"file)"
        )
    return size


def _attribute(text: str, kind: AttributeType) -> object:
    """Read an attribute; what cannot be read stays text, and the operator raises."""
    if kind is AttributeType.BOOL and text in {"true", "false"}:
        return text == "true"
    if kind is AttributeType.INT and text.removeprefix("-").isdecimal():
        return int(text)
    return text


def _print(
    options: argparse.Namespace,
    values: Values,
    operator: str = "",
    inference: Inference | None = None,
) -> None:
    equal = {output.name: output.equals for output in inference.equalities} if inference else {}
    types = [(role, *item) for role, named in values.items() for item in named.items()]
    if options.json:
        lists: dict[str, list[object]] = {f"{role}s": [] for role in values}
        for role, name, known in types:
            shape = None if known.shape is None else _sizes(known.shape)
            lists[f"{role}s"].append({"name": name, "dtype": known.dtype, "shape": shape})
        print(json.dumps({"operator": operator or None, **lists, "equal": equal}, indent=2))
        return
    if operator:
        print(operator)
    rows = []
    for role, name, known in types:
        sizes = "?" if known.shape is None else shown(_sizes(known.shape))
        rows.append((role, one_line(name), known.dtype or "?", sizes))
    if rows:
        print(aligned(rows))
    for name, other in equal.items():
        print(one_line(f"{name} = {other}"))


def _sizes(shape: tuple[Dim, ...] | RankAtLeast) -> tuple[Dim, ...]:
    return (*shape.first, "...") if isinstance(shape, RankAtLeast) else shape
