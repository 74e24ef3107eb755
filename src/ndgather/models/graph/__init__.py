"""Type inference of calls, input validation and run results for all model formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeAlias

import numpy as np

from ndgather import messages
from ndgather.errors import DTypeError, ModelError, NdgatherError, ShapeError, one_line
from ndgather.messages import did_you_mean, listed, shown
from ndgather.models import Array
from ndgather.published import Operator
from ndgather.published.inference import check_known_indices
from ndgather.published.schema import Inference, Role, TensorType
from ndgather.runtimes.runtime import dtype_named


def unique(name: str, taken: set[str]) -> str:
    """Return `name`, or a variant with a numeric suffix if it is taken, and add it to `taken`."""
    candidate, low, high = name, 1, 1
    while candidate in taken:
        low, high = high, 2 * high
        candidate = f"{name}_{high}"
    while high - low > 1:  # Binary search works because the suffixes in use are consecutive.
        middle = (low + high) // 2
        if f"{name}_{middle}" in taken:
            low = middle
        else:
            high, candidate = middle, f"{name}_{middle}"
    taken.add(candidate)
    return candidate


_SMALL = 1024  # the maximum size, in bytes, of a constant in a cache key


def infer_call(
    function: Operator,
    types: tuple[TensorType | None, ...],
    constants: Mapping[str, Array],
    attributes: Mapping[str, Any],
) -> Inference:
    """Infer the types of an operator call, using a cache because large models repeat calls.

    The cached result does not depend on the values of the indices, which are checked separately.
    """
    key: list[_Constant] = []
    for name, array in constants.items():
        if name == Role.INDICES.value and function.row.definition is None:
            key.append((name, array.dtype, array.shape, None))
        elif array.nbytes <= _SMALL and not array.dtype.hasobject:
            key.append((name, array.dtype, array.shape, array.tobytes()))
        else:
            return function.infer(*types, constants=constants, **attributes)
    # The types are part of the key because 1 equals 1.0, but 1.0 is not a valid axis.
    options = tuple((name, type(x), x) for name, x in attributes.items())
    with suppress(NdgatherError, TypeError):  # A list attribute raises TypeError when hashed.
        inference = _infer_shared(function, types, tuple(key), options)
        if function.row.definition is None and Role.INDICES.value in constants:
            check_known_indices(function.row, inference, constants[Role.INDICES.value])
        return inference
    # Repeat inference with the actual constants so that an error can quote their values.
    return function.infer(*types, constants=constants, **attributes)


_Constant: TypeAlias = tuple[str, np.dtype[Any], tuple[int, ...], bytes | None]


@lru_cache(maxsize=4096)
def _infer_shared(
    function: Operator,
    types: tuple[TensorType | None, ...],
    constants: tuple[_Constant, ...],
    options: tuple[tuple[str, type, Any], ...],
) -> Inference:
    """Infer the types of a call. Zeros replace constants whose values are not in the cache key."""
    arrays = {
        name: np.broadcast_to(np.zeros((), dtype), shape)
        if content is None
        else np.frombuffer(content, dtype).reshape(shape)
        for name, dtype, shape, content in constants
    }
    return function.infer(*types, constants=arrays, **{name: x for name, _, x in options})


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model. A dtype or shape that the model does not declare is None.

    Each size is a number, a name, or ``"?"`` for an unknown size.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str, ...] | None
    optional: bool = False

    @classmethod
    def of(cls, name: str, known: TensorType, *, optional: bool = False) -> Self:
        dtype = None if known.dtype is None else dtype_named(known.dtype)
        dims = known.dims
        shape = None if dims is None else tuple(["?" if size is None else size for size in dims])
        return cls(name, dtype, shape, optional)

    def __str__(self) -> str:
        dtype = "any dtype" if self.dtype is None else port_dtype_name(self.dtype)
        return f"{self.name} {dtype} {'(...)' if self.shape is None else shown(self.shape)}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


class HasPorts:
    """A base class for models whose `repr` lists the inputs and outputs."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def __repr__(self) -> str:
        rows = [
            (
                role,
                one_line(port.name),
                "?" if port.dtype is None else port_dtype_name(port.dtype),
                "?" if port.shape is None else shown(port.shape),
            )
            for role, ports in (("input", self.inputs), ("output", self.outputs))
            for port in ports
        ]
        return aligned(rows)


@dataclass(frozen=True, slots=True)
class OutputArray:
    """A named output of a run."""

    name: str
    array: Array


def leave_out_sequences(path: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors, and warn about each sequence (list). Raise if all are sequences."""
    arrays = {name: value for name, value in values.items() if not isinstance(value, list)}
    for name in (name for name in values if name not in arrays):
        if not arrays:
            raise messages.not_a_tensor("output", name, "list")
        messages.LOGGER.warning("%s: output %r is a sequence and is left out", path, name)
    return arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results and duration of a run."""

    outputs: tuple[OutputArray, ...]
    seconds: float
    gather_nodes: int  # the number of nodes run by ndgather, or compared if run by another runtime
    remaining_nodes: int
    runtime: str = "reference"
    differences: tuple[str, ...] = ()  # the nodes whose results do not match the specification
    left: tuple[tuple[str, str], ...] = ()  # (node, reason) for each node that was not compared


def port_dtype_name(dtype: np.dtype[Any]) -> str:
    return "string" if dtype.kind in "OTU" else str(dtype)


def fit_inputs(ports: Sequence[Port], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Convert `inputs` to the dtypes of the model, or raise an error if a dtype or shape is wrong.

    Arrays are converted to native byte order, and fixed-width strings are converted to Python
    strings. Raw bytes, for example bfloat16 in ``.npy`` files, are viewed as the model's dtype.
    """
    known = {port.name: port for port in ports}
    for name in inputs:
        if name not in known:
            raise ModelError(
                f"the model has no input {name!r} (the model takes: {listed(map(str, ports))})"
                f"{did_you_mean(name, known)}"
            )
    missing = [port.name for port in ports if port.name not in inputs and not port.optional]
    if missing:
        which = listed(map(repr, missing))
        what = f"input {which} is missing" if len(missing) == 1 else f"inputs {which} are missing"
        raise ModelError(f"{what} (the model takes: {listed(map(str, ports))})")

    fitted: dict[str, Array] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for name, array in inputs.items():
        fitted[name] = _fit_dtype(known[name], array)
        _check_shape(known[name], array.shape, sizes)
    return fitted


def _fit_dtype(port: Port, array: Array) -> Array:
    declared, dtype = port.dtype, array.dtype
    if declared is None or dtype == declared:
        return array
    if dtype.newbyteorder("=") == declared:
        return array.astype(declared)
    if declared.kind == "O" and dtype.kind in "UT":
        return array.astype(object)
    if dtype.type is np.void and dtype.fields is None and dtype.itemsize == declared.itemsize:
        return array.view(declared)
    raise DTypeError(
        f"input {port.name!r}: dtype = {dtype} does not match the model (allowed: "
        f"{port_dtype_name(declared)})"
    )


def _check_shape(port: Port, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    """Check the shape of an input. `sizes` maps the size names of earlier inputs to values."""
    if port.shape is None:
        return
    if len(shape) != len(port.shape):
        raise messages.input_shape(port.name, shape, port.shape)
    for axis, (size, declared) in enumerate(zip(shape, port.shape, strict=True)):
        if isinstance(declared, int):
            if size != declared:
                raise messages.input_shape(port.name, shape, port.shape)
        elif declared != "?":
            known, other = sizes.setdefault(declared, (size, port.name))
            if size != known:
                raise ShapeError(
                    f"input {port.name!r}: shape[{axis}] = {size} differs from "
                    f"{one_line(declared)} = {known}, the size in input {other!r} (allowed: "
                    f"{known})"
                )
