"""The libraries that the corpus is run in, and a call of the corpus in terms of no specification.

The adapter of a library is a module with ``version()`` and ``run(case)``, which returns an array or
raises; `CannotExpressError` where the library has no such call. It may have ``kind_of(error)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.array_call import Kind
from ndgather.published.rows import ROWS, microsoft, onnx, openvino
from ndgather.runtimes import is_module

if TYPE_CHECKING:
    from ndgather.published.schema import OperatorVersion
    from ndgather.testing.conformance import Case

Array = NDArray[Any]

FUNCTIONS = "ndgather"
"""The domain of the functions of ndgather, which have no version."""

EVERY_DOMAIN = (onnx.DOMAIN, microsoft.DOMAIN, openvino.DOMAIN, FUNCTIONS)


class CannotExpressError(Exception):
    """A library has no such call; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One library.

    `module` must be installed; `adapter` calls it. An `idiom` implements no version of a published
    operator, so that the rules of a version do not apply to it.
    """

    name: str
    module: str
    adapter: str
    domains: tuple[str, ...] = EVERY_DOMAIN
    idiom: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        return import_module(self.adapter)


_HERE = __name__.rpartition(".")[0]

LIBRARIES = (
    Library(name="ndgather", module="ndgather", adapter=f"{_HERE}.functions"),
    Library(name="numpy", module="numpy", adapter=f"{_HERE}.with_numpy", idiom=True),
    Library(name="torch", module="torch", adapter=f"{_HERE}.with_torch", idiom=True),
    Library(
        name="onnxruntime",
        module="onnxruntime",
        adapter=f"{_HERE}.with_onnxruntime",
        domains=(onnx.DOMAIN, microsoft.DOMAIN),
    ),
    Library(
        name="onnx.reference",
        module="onnx",
        adapter=f"{_HERE}.with_onnx_reference",
        domains=(onnx.DOMAIN,),
    ),
    Library(
        name="openvino",
        module="openvino",
        adapter=f"{_HERE}.with_openvino",
        domains=(onnx.DOMAIN, openvino.DOMAIN),
    ),
)


def library(name: str) -> Library:
    """Return the library of this name, or the one that a module adapts.

    Raises
    ------
    LookupError
        There is no such library and no such module.
    """
    for known in LIBRARIES:
        if known.name == name:
            return known
    if "." in name and is_module(name):
        return Library(name=name, module=name, adapter=name)
    names = ", ".join(known.name for known in LIBRARIES)
    raise LookupError(f"{name!r} is neither a library ({names}) nor the module of an adapter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the corpus, in the names of the functions of ndgather."""

    kind: Kind
    data: Array
    indices: Array
    updates: Array | None
    axis: int
    batch_dims: int
    reduction: str
    mode: str
    other: frozenset[str]

    def check_key(self) -> None:
        """Raise `CannotExpressError` where advanced indexing has no key for this call."""
        if self.mode == "fill":
            raise CannotExpressError("has no value for an index out of bounds")
        if self.other:
            raise CannotExpressError(f"has no {', '.join(sorted(self.other))}")
        if self.kind is Kind.GATHER_ND and not self.indices.ndim:
            raise CannotExpressError("a number is not a tuple of indices")
        if self.kind in (Kind.GATHER_ND, Kind.SCATTER_ND) and not self.indices.shape[-1]:
            raise CannotExpressError("a key of no indices has no positions")
        if self.batch_dims < 0 or self.batch_dims > min(self.data.ndim, self.indices.ndim):
            raise CannotExpressError("a key has no such batch axes")

    def tuple_key(self) -> tuple[Array, ...]:
        """Return the key of a gather or scatter by index tuples."""
        grid = _grid(self.data.shape[: self.batch_dims], self.indices.ndim - 1)
        depth = self.indices.shape[-1]
        return (*grid, *(self.indices[..., column] for column in range(depth)))

    def element_key(self) -> tuple[Array, ...]:
        """Return the key of a gather or scatter of single elements along an axis."""
        grid = _grid(self.indices.shape, self.indices.ndim)
        axis = range(self.indices.ndim)[self.axis]
        return (*grid[:axis], self.indices, *grid[axis + 1 :])

    def batch_key(self) -> tuple[Array, ...]:
        """Return the key of a gather along the first axis after the batch axes."""
        return (*_grid(self.data.shape[: self.batch_dims], self.indices.ndim), self.indices)


def _grid(sides: tuple[int, ...], rank: int) -> list[Array]:
    return [
        np.arange(side).reshape((1,) * axis + (side,) + (1,) * (rank - axis - 1))
        for axis, side in enumerate(sides)
    ]


def row_of(case: Case) -> OperatorVersion:
    """Return the specification of the operator of a case."""
    wanted = (case.operator.name, case.operator.domain, case.operator.version)
    return next(row for row in ROWS if (row.name, row.domain, row.since) == wanted)


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the inputs of a case."""
    try:
        return {name: tensor.array() for name, tensor in case.inputs.items()}
    except ModuleNotFoundError as missing:
        raise CannotExpressError(f"needs {missing.name}") from missing


def call_of(case: Case) -> Call:
    """Return the call that a case describes."""
    arrays, attributes = arrays_of(case), case.attributes
    reduction = attributes.get("reduction", "none")
    if case.operator.version is None:
        kind = Kind(case.operator.name)
    else:
        row = row_of(case)
        if row.definition is not None:
            raise CannotExpressError("has no such operator")
        kind, attribute = row.kind, row.attribute("reduction")
        for choice in () if attribute is None else attribute.choices:
            if choice.word == reduction:
                reduction = choice.reduction.value
                break
    axis = arrays.get("axis", attributes.get("axis", 0))
    if np.size(axis) != 1:
        raise CannotExpressError("takes one axis")
    return Call(
        kind=kind,
        data=arrays["data"],
        indices=arrays["indices"],
        updates=arrays.get("updates"),
        axis=int(np.reshape(axis, ())),
        batch_dims=int(attributes.get("batch_dims", 0)),
        reduction=reduction,
        mode=attributes.get("mode", "raise"),
        other=frozenset(attributes) - {"axis", "batch_dims", "reduction", "mode"},
    )
