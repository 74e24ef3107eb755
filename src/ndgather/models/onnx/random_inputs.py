"""Random inputs for a model, with indices that are valid."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import numpy as np
from onnx import ModelProto

from ndgather.api import own_errors
from ndgather.errors import ModelError, NdgatherError
from ndgather.models import Array, whole_number
from ndgather.models.graph import Port
from ndgather.models.graph.diagnostics import KnownCall
from ndgather.models.onnx.files import Source, map_model
from ndgather.models.onnx.inference import (
    check_size_names,
    checked_sizes,
    infer_types,
    open_sizes,
    origins,
)
from ndgather.models.onnx.nodes import (
    OpNode,
    model_ports,
    nodes_in,
    op_nodes,
    op_nodes_in,
    with_one_name,
)
from ndgather.published.schema import Role

_IMAGE_SHAPE = (1, 3, 64, 64)  # of four axes: batch, channels, height, width
_SIZE = 16
_MOST_ELEMENTS = 2**40


@own_errors("random_inputs")
def random_inputs(
    model: Source, seed: int = 0, *, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Return random inputs for a model, with indices that are valid.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As in `run`.
    seed : int, default 0
        The same seed returns the same arrays.
    sizes : mapping of str to int, optional
        Sizes that the model leaves open: by their names, or as ``"input[axis]"``. The others
        are 1 on the first axis, 64 on the last two of four axes, and 16 on all others.

    Returns
    -------
    dict of str to array
        The inputs that have no default, by their names.

    Raises
    ------
    ModelError
        The model does not declare how many axes an input has, or has no such open size.
    DTypeError
        An argument is of another type.

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
    return _Inputs(model).draw(seed, checked_sizes("random_inputs", sizes))


class _Inputs:
    """The inputs of a model, for which random values are drawn."""

    def __init__(self, model: Source) -> None:
        self.proto, self._folder = map_model(model, "random_inputs")
        self.ports = [port for port in model_ports(self.proto)[0] if not port.optional]

    def draw(self, seed: int, sizes: Mapping[str, int], *, most: int = 1) -> dict[str, Array]:
        """Draw inputs; integers that are no known indices are at most `most`."""
        seed, chosen = whole_number("random_inputs", "seed", seed, 0), dict(sizes)
        shapes = {port.name: _random_shape(port, chosen) for port in self.ports}
        check_size_names(sizes, self.ports)
        for name, shape in shapes.items():
            if math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:
                raise ModelError(f"input {name!r}: shape = {shape} is too large for a random input")
        highest: dict[str, int] = {}
        if any(port.dtype is not None and port.dtype.kind in "iu" for port in self.ports):
            highest = highest_indices(self.proto, self._folder, shapes)
        rng = np.random.default_rng(seed)
        arrays = {}
        for port in self.ports:
            shape = shapes[port.name]
            dtype = np.dtype(np.float32) if port.dtype is None else port.dtype
            if dtype.kind == "O":
                array = np.array(list("abcdefgh"), object)[rng.integers(0, 8, shape)]
            elif dtype.kind in "iub":
                end = 2 if dtype.kind == "b" else highest.get(port.name, most) + 1
                array = np.asarray(rng.integers(0, end, shape))
            else:
                array = np.asarray(rng.random(shape))
            arrays[port.name] = np.asarray(array, dtype).reshape(shape)
        return arrays


FITTED_SIZES = (1, 2, 3, 4, 8, 12, 32, 64, 128, 256, 512, 1024, 4096)
_PATIENCE_S = 30.0
_NODE = re.compile(r"(?:Name:|node |of )'([^']+)'")


class CandidateInputs:
    """Random inputs for a model, one after the other until the model takes them.

    The first are those of `random_inputs`. Then open sizes are changed one by one, and at last all
    at once; a change is kept if the run gets to a later node with it. `sizes` are the open sizes of
    the last inputs that had to change.
    """

    def __init__(self, model: Source, seed: int, sizes: Mapping[str, int]) -> None:
        self._inputs, self._seed, self._given = _Inputs(model), seed, sizes
        by_axis = open_sizes(self._inputs.ports).items()
        names = (name for (port, axis), name in by_axis if f"{port}[{axis}]" not in sizes)
        self.open = [name for name in dict.fromkeys(names) if name not in sizes]
        self.sizes: dict[str, int] = {}
        self._reached = -1  # the number of the node at which the last run ended
        self._order: dict[str, int] = {}

    def refused(self, text: str) -> None:
        """Take note of the error with which the model refused the last inputs."""
        if not self._order:
            for number, node in enumerate(nodes_in(self._inputs.proto)):
                self._order |= dict.fromkeys((node.name, *node.output), number)
        numbers = (self._order.get(name, -1) for name in _NODE.findall(text))
        self._reached = max(numbers, default=-1)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        yield self._inputs.draw(self._seed, self._given)
        single = [{name: size} for name in self.open for size in FITTED_SIZES]
        together = [dict.fromkeys(self.open, size) for size in FITTED_SIZES if self.open]
        changes = [(1, item) for item in (*single, *single, *together)]
        best, chosen, end = self._reached, dict(self._given), time.monotonic() + _PATIENCE_S
        for most, change in [(0, {}), *changes, (0, {})]:
            if time.monotonic() > end:
                return
            candidate = {**chosen, **change}
            try:
                inputs = self._inputs.draw(self._seed, candidate, most=most)
            except ModelError:  # too large
                continue
            self.sizes = {name: candidate[name] for name in self.open if name in candidate}
            yield inputs
            if self._reached > best:
                best, chosen = self._reached, candidate


def _random_shape(port: Port, chosen: dict[str, int]) -> tuple[int, ...]:
    """Return a shape for an input, and add the sizes that were open to `chosen`."""
    if port.shape is None:
        raise ModelError(
            f"input {port.name!r}: the model does not declare how many axes it has, so it has no "
            "random values (allowed: --input, with its values)"
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
    """Return the highest valid index of every input that is used as indices."""
    typed = deepcopy(proto)
    for info in typed.graph.input:
        dims = info.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(info.name, ()), strict=False):
            dim.Clear()
            dim.dim_value = size
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
    """Return the name of the indices of a node, unless they are left out."""
    try:
        inputs = op_node.operator().row.inputs
    except NdgatherError:
        return list(op_node.node.input[1:2])
    names = zip(inputs, op_node.node.input, strict=False)
    return [name for item, name in names if item.role is Role.INDICES and name]


def _highest_index(op_node: OpNode) -> int:
    """Return the highest index that is valid on every axis that a node indexes, at least 0."""
    try:
        row = op_node.operator().row
        if row.definition is not None:
            return 0
        call = KnownCall.of(row, op_node.known_types(), op_node.attributes())
    except NdgatherError:
        return 0
    data = call.inferred[Role.DATA].dims
    if not data:
        return 0
    axes = call.indexed_axes(call.depth)
    sizes = data[call.batch_dims :] if axes is None else data[axes.start : axes.stop]
    return min((size - 1 if isinstance(size, int) and size else 0 for size in sizes), default=0)
