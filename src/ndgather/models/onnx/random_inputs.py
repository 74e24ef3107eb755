"""Inputs made up for a model: of its types and shapes, and with indices that are valid.

An integer input that reaches the indices of a gather or scatter through operators that keep its
values is drawn below the size of the axis that it addresses; where that is not known it is 0. All
other integers are 0 or 1, and floats lie between 0 and 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import NdgatherError, input_errors
from ndgather.models.entry_checks import whole_number
from ndgather.models.onnx.fixpoint import infer_to_fixpoint
from ndgather.models.onnx.model_files import opened
from ndgather.models.onnx.onnx_model import model_ports
from ndgather.models.onnx.op_nodes import op_nodes
from ndgather.models.onnx.open_sizes import given_sizes, open_sizes
from ndgather.published.schema import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import ModelProto

    from ndgather.models.graph.ports import Port
    from ndgather.models.onnx.model_files import Source
    from ndgather.models.onnx.op_nodes import OpNode

Array = NDArray[Any]

_KEEPS_VALUES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape"}
    | {"Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
_TUPLES = frozenset({Kind.GATHER_ND, Kind.SCATTER_ND})
_SIDE_OF_IMAGES, _SIDE = 64, 16
_IMAGES = 4  # axes: batch, channels, height, width
_COLOURS = 3
_MOST = 2**40  # elements


def random_inputs(
    model: Source, seed: int = 0, *, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Make up the inputs of a model.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file.
    seed : int, default 0
        The same seed gives the same arrays.
    sizes : mapping of str to int, optional
        Sizes that the model leaves open: by their names, or as ``"input[axis]"``. The others
        become 1 on the first axis, 64 on the last two of four axes, and else 16.

    Returns
    -------
    dict of str to array
        The inputs that have no default, by their names.

    Raises
    ------
    ModelError
        The model does not say how many axes an input has, or a size is not one of it.
    DTypeError
        An argument is of another type.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[3, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> made = onnx.random_inputs(model, sizes={"M": 50})
    >>> made["rows"].shape, int(made["rows"].max())
    ((50, 1), 2)
    """
    proto, folder = opened(model, "random_inputs")
    ports = [port for port in model_ports(proto)[0] if not port.optional]
    seed = whole_number("random_inputs", "seed", seed, 0)
    chosen = given_sizes("random_inputs", sizes)
    shapes = {port.name: _shape(port, chosen) for port in ports}
    known = open_sizes(ports)
    for name in sizes or {}:
        if name not in known:
            raise input_errors.unknown_size(name, sorted(known))
    for name, shape in shapes.items():
        if math.prod(max(size, 1) for size in shape) > _MOST:
            raise input_errors.too_large(name, shape)
    highest = highest_indices(proto, folder, shapes)
    rng = np.random.default_rng(seed)
    return {port.name: _drawn(port, shapes[port.name], highest, rng) for port in ports}


def _shape(port: Port, chosen: dict[str, int]) -> tuple[int, ...]:
    if port.shape is None:
        raise input_errors.no_rank(port.name)
    shape = []
    for axis, size in enumerate(port.shape):
        if isinstance(size, int):
            shape.append(size)
            continue
        place = f"{port.name}[{axis}]"
        name = place if size == "?" or place in chosen else size
        shape.append(chosen.setdefault(name, _side(axis, len(port.shape))))
    return tuple(shape)


def _side(axis: int, rank: int) -> int:
    if axis == 0:
        return 1
    if rank == _IMAGES:
        return _COLOURS if axis == 1 else _SIDE_OF_IMAGES
    return _SIDE


def _drawn(
    port: Port, shape: tuple[int, ...], highest: Mapping[str, int], rng: np.random.Generator
) -> Array:
    dtype = np.dtype(np.float32) if port.dtype is None else port.dtype
    if dtype.kind == "O":
        letters = np.array(list("abcdefgh"), object)
        return np.asarray(letters[rng.integers(0, len(letters), shape)], object).reshape(shape)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, highest.get(port.name, 1) + 1, shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    return np.asarray(rng.random(shape)).astype(dtype)


def highest_indices(
    proto: ModelProto, folder: str | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Return the highest valid value of each input that is used as indices."""
    try:
        typed = infer_to_fixpoint(_with_shapes(proto, shapes), folder).model
    except NdgatherError:  # of such a model nothing more is known
        typed = proto
    makers = {name: node for node in typed.graph.node for name in node.output if name}
    found: dict[str, int] = {}
    for op_node in op_nodes(typed, folder):
        if op_node.scope.outer is not None or len(op_node.node.input) < 2:
            continue
        waiting, seen = [op_node.node.input[1]], set()
        while waiting:
            name = waiting.pop()
            if name in shapes:
                found[name] = min(found.get(name, _bound(op_node)), _bound(op_node))
            maker = makers.get(name)
            if maker is not None and name not in seen and maker.op_type in _KEEPS_VALUES:
                seen.add(name)
                waiting.extend(maker.input if maker.op_type == "Concat" else maker.input[:1])
    return found


def _bound(op_node: OpNode) -> int:
    """Return the highest index that is valid on every axis that a node addresses, at least 0."""
    try:
        row, attributes = op_node.operator().row, op_node.attributes()
    except NdgatherError:
        return 0
    data, indices = (each.shape for each in op_node.types()[:2])
    if not isinstance(data, tuple) or not data:
        return 0
    first = int(attributes.get("batch_dims", 0)) if row.kind in _TUPLES else 0
    last = first + 1
    if row.kind in _TUPLES:
        depth = indices[-1] if isinstance(indices, tuple) and indices else None
        last = first + depth if isinstance(depth, int) else len(data)
    else:
        first = int(attributes.get("axis", 0)) % len(data)
        if any(each.role is Role.AXIS for each in row.inputs):
            first = 0
        last = first + 1
    return _least(data[first:last])


def _least(sizes: Iterable[object]) -> int:
    return min((size - 1 if isinstance(size, int) and size else 0 for size in sizes), default=0)


def _with_shapes(proto: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """Return a copy that declares the sizes that were chosen."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for info in copy.graph.input:
        for dim, size in zip(
            info.type.tensor_type.shape.dim, shapes.get(info.name, ()), strict=False
        ):
            dim.Clear()
            dim.dim_value = size
    return copy
