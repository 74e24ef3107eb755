"""Random model inputs with valid indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy

import numpy as np
from onnx import ModelProto

from ndgather.api import own_errors
from ndgather.errors import AttributeValueError, DTypeError, ModelError, NdgatherError
from ndgather.models import Array, named_arrays, whole_number
from ndgather.models.graph import Port, fit_inputs
from ndgather.models.graph.diagnostics import KnownCall
from ndgather.models.onnx.files import Source, map_model
from ndgather.models.onnx.inference import (
    check_size_names,
    checked_sizes,
    infer_types,
    open_sizes,
    origins,
)
from ndgather.models.onnx.nodes import OpNode, model_ports, op_nodes, op_nodes_in, with_one_name
from ndgather.published.binding import bind
from ndgather.published.schema import Role

_IMAGE_SHAPE = (1, 3, 64, 64)  # batch, channels, height, width
_SIZE = 16
_MOST_ELEMENTS = 2**40


@own_errors("random_inputs")
def random_inputs(
    model: Source,
    seed: int = 0,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return random inputs with valid indices for a model.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`.
    seed : int, default 0
        The seed of the random numbers.
    sizes : mapping of str to int, optional
        Values for sizes that the model does not fix. A key is the name of a size or has the form
        ``"input[axis]"``. By default, the first axis has size 1, and all others have size 16. An
        input with four axes is assumed to be an image, with 3 channels and 64 x 64 pixels.
    inputs : mapping of str to array, optional
        Inputs that are not random. The sizes and indices of the other inputs fit them.

    Returns
    -------
    dict of str to array
        All required inputs by name, and `inputs`.

    Raises
    ------
    ModelError
        The model does not declare the rank of an input, or does not have a size in `sizes` or a
        name in `inputs`.
    ShapeError
        Sizes in `inputs` differ from each other, from `sizes` or from the model.
    DTypeError
        An argument has the wrong type.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[3, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> inputs = onnx.random_inputs(model, sizes={"M": 50})
    >>> inputs["rows"].shape, int(inputs["rows"].max())
    ((50, 1), 2)
    """
    proto, folder = map_model(model, "random_inputs")
    passed = named_arrays("random_inputs", {} if inputs is None else inputs)
    ports = [port for port in model_ports(proto)[0] if not port.optional or port.name in passed]
    given = checked_sizes("random_inputs", sizes)
    chosen = dict(given)
    for (name, axis), size in open_sizes(ports).items():
        if name in passed and axis < passed[name].ndim:
            chosen.setdefault(size, passed[name].shape[axis])
    rng = np.random.default_rng(whole_number("random_inputs", "seed", seed, 0))
    shapes = {
        port.name: passed[port.name].shape if port.name in passed else _random_shape(port, chosen)
        for port in ports
    }
    check_size_names(given, ports)
    for name, shape in shapes.items():
        if math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:
            raise ModelError(f"input {name!r}: shape = {shape} is too large for a random input")
    highest: dict[str, int] = {}
    if any(port.dtype is not None and port.dtype.kind in "iu" for port in ports):
        highest = highest_indices(proto, folder, shapes)
    drawn = {
        port.name: _random_array(rng, port, shapes[port.name], highest.get(port.name, 1))
        for port in ports
        if port.name not in passed
    }
    return fit_inputs(ports, {**passed, **drawn})


def _random_array(
    rng: np.random.Generator, port: Port, shape: tuple[int, ...], highest: int
) -> Array:
    """Return a random array for an input. If it contains integers, they are at most `highest`."""
    dtype = np.dtype(np.float32) if port.dtype is None else port.dtype
    if dtype.kind == "O":
        array = np.array(list("abcdefgh"), object)[rng.integers(0, 8, shape)]
    elif dtype.kind in "iub":
        array = np.asarray(rng.integers(0, 2 if dtype.kind == "b" else highest + 1, shape))
    else:
        array = np.asarray(rng.random(shape))
    return np.asarray(array, dtype).reshape(shape)


def _random_shape(port: Port, chosen: dict[str, int]) -> tuple[int, ...]:
    """Return the shape of an input, and add the values of dynamic sizes to `chosen`."""
    if port.shape is None:
        raise ModelError(
            f"input {port.name!r}: the model does not declare its rank, so its values cannot be "
            "random; pass this input"
        )
    shape, defaults = list(port.shape), (1, *(_SIZE,) * len(port.shape))
    if len(shape) == len(_IMAGE_SHAPE):
        defaults = _IMAGE_SHAPE
    for (_, axis), name in open_sizes([port]).items():
        by_axis = f"{port.name}[{axis}]"
        known = by_axis if by_axis in chosen else name
        shape[axis] = chosen.setdefault(known, defaults[axis])
    return tuple(size for size in shape if isinstance(size, int))


def highest_indices(
    proto: ModelProto, folder: str | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Return the highest valid index for each model input that is used as indices."""
    typed = deepcopy(proto)
    for info in typed.graph.input:
        if info.name in shapes:
            shape = info.type.tensor_type.shape
            shape.Clear()
            for size in shapes[info.name]:
                shape.dim.add(dim_value=size)
    try:
        found = op_nodes_in(infer_types(with_one_name(typed), folder).scopes)
    except NdgatherError:
        found = op_nodes(proto, folder)
    highest: dict[str, int] = {}
    for op_node in found:
        for indices in _indices_of(op_node):
            bound = _highest_index(op_node)
            for name in origins(op_node.scope, indices):
                if name in shapes:
                    highest[name] = min(highest.get(name, bound), bound)
    return highest


def _indices_of(op_node: OpNode) -> list[str]:
    try:
        inputs = op_node.operator().row.inputs
    except NdgatherError:
        return list(op_node.node.input[1:2])
    names = zip(inputs, op_node.node.input, strict=False)
    return [name for item, name in names if item.role is Role.INDICES and name]


def _highest_index(op_node: OpNode) -> int:
    """Return the highest index that is valid for all indexed axes of a node, or 0 if unknown."""
    try:
        row = op_node.operator().row
        if row.definition is not None:
            return 0
        attributes = op_node.attributes()
        with suppress(AttributeValueError):  # A runtime may accept values of another version.
            bind(row, (), {key: x for key, x in attributes.items() if row.attribute(key)})
        call = KnownCall.of(row, op_node.known_types(), attributes)
    except DTypeError as error:
        raise op_node.named(error) from error
    except NdgatherError:
        return 0
    data = call.inferred[Role.DATA].dims
    if not data:
        return 0
    axes = call.indexed_axes(call.depth)
    sizes = data[call.batch_dims :] if axes is None else data[axes.start : axes.stop]
    return min((size - 1 if isinstance(size, int) and size else 0 for size in sizes), default=0)
