"""The example calls in ``examples.toml`` and their results.

Building a page runs the same calls for every version, so it shows the result or error of each.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ndgather.array_call import Array
from ndgather.errors import NdgatherError
from ndgather.published import Operator
from ndgather.published.rows import DEFAULT_DOMAIN, openvino
from ndgather.published.schema import OPERATOR_KINDS, OperatorVersion, Role

Nested: TypeAlias = "int | list[Nested]"
Option: TypeAlias = int | str | bool

_GRID: Nested = [[0, 1, 2], [10, 11, 12]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCall:
    """The inputs and attributes of an example; None is not passed."""

    title: str
    why: str
    indices: Nested = 0
    data: Nested = 0
    updates: Nested | None = None
    axis: int | None = None
    batch_dims: int | None = None
    reduction: str | None = None
    use_init_val: bool | None = None
    index_dtype: str = "int64"
    data_dtype: str = "int32"
    inputs: Mapping[str, Nested] | None = None  # for an operator with a definition
    dtypes: Mapping[str, str] | None = None  # of `inputs`, if not int64
    attributes: Mapping[str, Option] | None = None


_FILE = tomllib.loads(Path(__file__).with_name("examples.toml").read_text("utf-8"))
_CALLS = {
    name: tuple(ExampleCall(**{"data": _GRID, **call}) for call in calls)
    for name, calls in _FILE.items()
}
CALLS = {kind: _CALLS[kind.value] for kind in OPERATOR_KINDS}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExampleRun:
    """The result of an example for an operator, or the type and text of its error."""

    made_by: Operator
    tensors: tuple[tuple[str, Array], ...]
    options: tuple[tuple[str, Option], ...]  # passed by name
    result: Array | None = None
    error: tuple[str, str] | None = None

    @property
    def operator(self) -> str:
        """The domain, name and version of the operator."""
        return str(self.made_by.row)

    @property
    def call(self) -> str:
        """The call in Python syntax."""
        arguments = [name for name, _ in self.tensors]
        arguments += [f"{name}={value!r}" for name, value in self.options]
        return f"op({', '.join(arguments)})"

    def agrees(self, other: ExampleRun) -> bool:
        """Return whether both have the same result or an error of the same type."""
        if self.error is not None and other.error is not None:
            return self.error[0] == other.error[0]
        if self.result is None or other.result is None:
            return False
        return self.result.dtype == other.result.dtype and np.array_equal(self.result, other.result)


def calls_of(row: OperatorVersion) -> tuple[ExampleCall, ...]:
    return CALLS[row.kind] if row.definition is None else _CALLS[row.name]


def run_example(call: ExampleCall, operator: Operator) -> ExampleRun:
    attribute = operator.row.attribute("reduction")
    words = (
        {str(choice.reduction): choice.word for choice in attribute.choices} if attribute else {}
    )
    options: dict[str, Option | None] = {
        Role.AXIS.value: call.axis,  # a tensor or an attribute, depending on the version
        "batch_dims": call.batch_dims,
        "reduction": words.get(str(call.reduction), call.reduction),
        "use_init_val": call.use_init_val,
    }
    passed = tuple((name, value) for name, value in options.items() if value is not None)
    tensors = [
        ("data", np.array(call.data, call.data_dtype)),
        ("indices", np.array(call.indices, call.index_dtype)),
    ]
    if call.updates is not None:
        tensors.append(("updates", np.array(call.updates, call.data_dtype)))
    if call.inputs is not None:
        dtypes = call.dtypes or {}
        tensors = [(x, np.array(y, dtypes.get(x, "int64"))) for x, y in call.inputs.items()]
        passed = tuple((call.attributes or {}).items())
    result = error = None
    try:
        result = operator(**dict(tensors), **dict(passed))
    except NdgatherError as raised:
        error = (type(raised).__name__, str(raised))
    return ExampleRun(
        made_by=operator, tensors=tuple(tensors), options=passed, result=result, error=error
    )


def applies(call: ExampleCall, row: OperatorVersion) -> bool:
    """Return whether a version supports the attributes and reduction of an example."""
    reduction = row.attribute("reduction")
    choices = {choice.reduction for choice in reduction.choices} if reduction is not None else set()
    return (
        (call.batch_dims is None or row.attribute("batch_dims") is not None)
        and (call.use_init_val is None or row.attribute("use_init_val") is not None)
        and (call.reduction is None or call.reduction in choices)
    )


_PRECISIONS = {"int8": "I8", "int32": "I32", "int64": "I64"}


def in_a_model(run: ExampleRun) -> tuple[str, ...]:
    """Write a call as an ONNX node or an OpenVINO layer; return its lines."""
    return tuple(_layer(run) if run.made_by.domain == openvino.DOMAIN else _node(run))


def _node(run: ExampleRun) -> Iterator[str]:
    row = run.made_by.row
    yield "node = onnx.helper.make_node("
    yield f'    "{row.name}",'
    given = {name for name, _ in run.tensors}
    inputs = [item.name for item in row.inputs if item.name in given or not item.optional]
    yield f"    inputs=[{', '.join(map(_quoted, inputs))}],"
    yield f"    outputs=[{', '.join(_quoted(item.name) for item in row.outputs)}],"
    for name, value in run.options:
        yield f"    {name}={_quoted(value)},"
    if row.domain != DEFAULT_DOMAIN:
        yield f'    domain="{row.domain}",'
    yield ")"


def _quoted(value: Option) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _layer(run: ExampleRun) -> Iterator[str]:
    row = run.made_by.row
    yield f'<layer id="2" name="{row.name}" type="{row.name}" version="opset{row.since}">'
    names = {attribute.name for attribute in row.attributes}
    attributes = [
        f'{name}="{str(value).lower() if isinstance(value, bool) else value}"'
        for name, value in run.options
        if name in names
    ]
    if attributes:
        yield f"    <data {' '.join(attributes)}/>"
    ports = [(_PRECISIONS[array.dtype.name], array.shape) for _, array in run.tensors]
    if row.input(Role.AXIS) is not None and row.definition is None:
        ports.append(("I64", ()))
    yield "    <input>"
    for number, port in enumerate(ports):
        yield _port(number, *port)
    yield "    </input>"
    if run.result is not None:
        yield "    <output>"
        yield _port(len(ports), _PRECISIONS[run.result.dtype.name], run.result.shape)
        yield "    </output>"
    yield "</layer>"


def _port(number: int, precision: str, shape: tuple[int, ...]) -> str:
    sizes = "".join(f"<dim>{size}</dim>" for size in shape)
    return f'        <port id="{number}" precision="{precision}">{sizes}</port>'
