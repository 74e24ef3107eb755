"""The compared libraries, and their ways to make the call of a case.

A library (peer) offers one or more *idioms*, and the report keeps the fastest idiom with the
correct result. Before the call, an idiom prepares whatever can be prepared: sessions, tensors in
the required index type, views of index columns. The module `with_<name>` adapts a library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from bench.case import Array, Arrays, Case

NOT_INSTALLED = "not installed"


class Unsupported(Exception):  # noqa: N818 - not a failure
    """The library does not support the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A prepared call, and a conversion of the result of `run` to an array."""

    run: Callable[[], Any]
    answer: Callable[[Any], Array] = np.asarray


Bind = Callable[[Case, Arrays], Call]
Idioms = Mapping[str, Bind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library. Its adapter also imports `needs`; `has_modes` means that it has clip and wrap."""

    name: str
    module: str
    distribution: str = ""
    threads: Literal["all", "one"] = "all"
    needs: tuple[str, ...] = ()
    has_modes: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in (self.module, *self.needs) if find_spec(name) is None)

    @property
    def installed(self) -> bool:
        return not self.missing

    @property
    def version(self) -> str:
        return metadata.version(self.distribution or self.module)

    def prepare(self, case: Case, threads: int) -> Idioms:
        """Set the number of threads and return the idioms for `case`; may raise Unsupported."""
        if case.mode != "raise" and not self.has_modes:
            raise Unsupported(f"no mode={case.mode!r}")
        adapter = import_module(f"{__name__}.with_{self.name}")
        idioms: Idioms = adapter.prepare(case, threads)
        return idioms

    def use_threads(self, threads: int) -> None:
        """Set the number of threads again if it applies to all calls of the library."""
        adapter = import_module(f"{__name__}.with_{self.name}")
        if hasattr(adapter, "set_threads"):
            adapter.set_threads(threads)


OWN = Peer(name="ndgather", module="ndgather", has_modes=True)
ORACLE = Peer(name="numpy", module="numpy", threads="one", has_modes=True)
PEERS = (
    OWN,
    ORACLE,
    Peer(name="torch", module="torch"),
    Peer(name="fbgemm", module="fbgemm_gpu", distribution="fbgemm-gpu-cpu", needs=("torch",)),
    Peer(name="onnxruntime", module="onnxruntime", needs=("onnx",)),
    Peer(name="openvino", module="openvino"),
    Peer(name="numba", module="numba"),
    Peer(name="polars", module="polars"),
    Peer(name="pyarrow", module="pyarrow", threads="one"),
    Peer(name="scipy", module="scipy", threads="one"),
    Peer(name="cv2", module="cv2", distribution="opencv-python-headless"),
)


def open_grid(sides: tuple[int, ...], rank: int) -> list[Array]:
    """Return an index array with `rank` axes for every size, along its own axis."""
    return [
        np.arange(side).reshape((1,) * axis + (side,) + (1,) * (rank - axis - 1))
        for axis, side in enumerate(sides)
    ]


def advanced_index(case: Case, indices: Array) -> tuple[Array, ...]:
    """Return the key for which ``data[key]`` is the case's gather."""
    if case.has_tuples:
        grid = open_grid(case.data_shape[: case.batch_dims], indices.ndim - 1)
        return (*grid, *(indices[..., j] for j in range(indices.shape[-1])))
    axis = case.indexed_axes.start
    if case.operator == "gather":
        return (*open_grid(case.data_shape[:axis], indices.ndim), indices)
    grid = open_grid(indices.shape, indices.ndim)
    return (*grid[:axis], indices, *grid[axis + 1 :])


def has_advanced_index(case: Case) -> bool:
    """Return whether no slice precedes the index, which would move its axes to the front."""
    return case.operator != "gather" or case.indexed_axes.start == case.batch_dims


def is_take(case: Case) -> bool:
    """Return whether the call takes whole slices along one axis, the same in every batch."""
    per_element = case.operator in ("gather_elements", "scatter_elements")
    return len(case.indexed_axes) == 1 and case.batch_dims == 0 and not per_element


def slice_shape(case: Case) -> tuple[int, ...]:
    return tuple(case.data_shape[axis] for axis in case.slice_axes)


def is_pointwise(case: Case) -> bool:
    """Return whether every index tuple of a gather selects one element of data."""
    return case.operator == "gather_nd" and not case.slice_axes and not case.batch_dims


def column_take(case: Case) -> None:
    """Raise Unsupported unless the case takes numbers from one column into a new column."""
    is_number = np.dtype(case.dtype).kind in "iuf" and case.dtype != "float16"
    if case.is_scatter or len(case.data_shape) != 1 or not is_number or case.output != "new":
        raise Unsupported("only a take of numbers from one column into a new one")
