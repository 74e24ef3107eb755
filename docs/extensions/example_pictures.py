"""Draw calls for which `ndgather.show` has no function as the equivalent gather or scatter.

The functions accept the arguments that the examples of the drawn functions pass.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import ndgather
from ndgather import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from onnx import ModelProto
    from xarray import DataArray

    from ndgather.show import Picture


def _gather_nd_vjp(cotangent: Any, data_shape: Sequence[int], indices: Any) -> Picture:
    return show.scatter_nd(np.zeros(data_shape), indices, cotangent, reduction="add")


def _gather_elements_vjp(cotangent: Any, data_shape: Sequence[int], indices: Any) -> Picture:
    return show.scatter_elements(np.zeros(data_shape), indices, cotangent, reduction="add")


def _gather_windows_vjp(
    cotangent: Any, data_shape: Sequence[int], starts: Any, window_shape: Sequence[int]
) -> Picture:
    within = np.stack(np.indices(window_shape), axis=-1)
    lead = np.shape(starts)[:-1]
    places = np.reshape(starts, (*lead, *(1,) * len(window_shape), -1)) + within
    return show.scatter_nd(np.zeros(data_shape), places, cotangent, reduction="add")


def _gather_ranges_vjp(
    cotangent: Any, data_shape: Sequence[int], starts: Any, stops: Any
) -> Picture:
    places = np.concatenate([np.arange(*pair) for pair in zip(starts, stops, strict=True)])
    return show.scatter_nd(np.zeros(data_shape), places[:, None], cotangent, reduction="add")


vjp = SimpleNamespace(
    gather_nd=_gather_nd_vjp,
    gather_elements=_gather_elements_vjp,
    gather_windows=_gather_windows_vjp,
    gather_ranges=_gather_ranges_vjp,
    scatter_nd=show.gather_nd,
    scatter_elements=show.gather_elements,
)


def onnx_run(model: ModelProto, inputs: Mapping[str, Any], **_: object) -> Picture:
    """Draw the call of a model with a single node."""
    (node,) = model.graph.node
    (opset,) = model.opset_import
    op = ndgather.operator(node.op_type, opset=opset.version)
    return op.show(*(inputs[name] for name in node.input))


def openvino_run(_: bytes, inputs: Mapping[str, Any]) -> Picture:
    """Draw the call of a GatherND layer."""
    return ndgather.operator("GatherND", domain="openvino").show(*inputs.values())


def estimate(kind: str, data: Any, indices: Any) -> Picture:
    """Draw the call, with a note on the chunks that it reads."""
    drawn: Picture = getattr(show, kind)(data, indices)
    return drawn


def sel(array: DataArray, *args: Any, **labels: Any) -> Picture:
    """Draw the gather at the positions of the labels."""
    return show.gather_nd(array.values, _places(array, *args, **labels))


def isel(array: DataArray, **positions: Any) -> Picture:
    """Draw the gather at the given positions."""
    columns = [np.asarray(positions[name][1]) for name in array.dims]
    return show.gather_nd(array.values, np.stack(columns, axis=-1))


def add_at(array: DataArray, value: float, **labels: Any) -> Picture:
    """Draw the scatter that adds a number at the positions of the labels."""
    places = _places(array, **labels)
    updates = np.full(places.shape[:-1], value)
    return show.scatter_nd(array.values, places, updates, reduction="add")


def _places(array: DataArray, *args: Any, **labels: Any) -> NDArray[Any]:
    numbered = array.copy(data=np.arange(array.size).reshape(array.shape))
    picked = numbered.ndgather.sel(*args, **labels).values
    return np.stack(np.unravel_index(picked, array.shape), axis=-1)
