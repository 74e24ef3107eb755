"""How a call stands in a model: as a node of ONNX or as a layer of OpenVINO IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.published.rows import DEFAULT_DOMAIN, openvino
from ndgather.published.schema import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.pages.runs import Option, Run
    from ndgather.published.schema import OperatorVersion

_PRECISIONS = {"int8": "I8", "int32": "I32", "int64": "I64"}


def in_a_model(run: Run) -> tuple[str, ...]:
    """Return the lines that write a call as a node or a layer."""
    return tuple(_layer(run) if run.made_by.domain == openvino.DOMAIN else _node(run))


def _node(run: Run) -> Iterator[str]:
    row = run.made_by.row
    yield "node = onnx.helper.make_node("
    yield f'    "{row.name}",'
    yield f"    inputs={_listed(each.name for each in row.inputs)},"
    yield f"    outputs={_listed(each.name for each in row.outputs)},"
    yield from (f"    {name}={_quoted(value)}," for name, value in run.options)
    if row.domain != DEFAULT_DOMAIN:
        yield f'    domain="{row.domain}",'
    yield ")"


def _layer(run: Run) -> Iterator[str]:
    row, axis = run.made_by.row, run.made_by.row.input(Role.AXIS)
    yield f'<layer id="2" name="{row.name}" type="{row.name}" version="opset{row.since}">'
    written = [f'{name}="{_in_xml(value)}"' for name, value in run.options if name in _names(row)]
    if written:
        yield f"    <data {' '.join(written)}/>"
    ports = [(_PRECISIONS[each.dtype.name], each.shape) for _, each in run.tensors]
    if axis is not None:
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


def _names(row: OperatorVersion) -> set[str]:
    return {each.name for each in row.attributes}


def _in_xml(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _port(number: int, precision: str, shape: tuple[int, ...]) -> str:
    sizes = "".join(f"<dim>{size}</dim>" for size in shape)
    return f'        <port id="{number}" precision="{precision}">{sizes}</port>'


def _listed(names: Iterator[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(value: Option) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
