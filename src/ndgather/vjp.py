"""Vector-Jacobian products: the gradients of the gathers and scatters, as plain functions.

Every function takes the cotangent of a result, which is the gradient of some number with respect to
that result, and returns the cotangents of the inputs. All are linear: a gradient needs shapes and
indices, but no values of data. Sums are in the dtype of the cotangent, in the order of the indices.

Negative index values count from the end, as with ``mode="raise"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ndgather import arguments, dispatch, messages, reductions, windows
from ndgather.api import Call, run
from ndgather.arguments import choice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = ["gather_elements", "gather_nd", "gather_windows", "scatter_elements", "scatter_nd"]

_LINEAR = ("none", "add")
_PLACES = 2**21  # elements of windows whose positions are listed at a time


def gather_nd(
    cotangent: ArrayLike, data_shape: Sequence[int], indices: ArrayLike, batch_dims: int = 0
) -> Array:
    """Return the cotangent of `data` in ``gather_nd(data, indices, batch_dims)``.

    Every slice of the cotangent is added to zeros at the place that it was copied from. With
    ``b = batch_dims``, for every position `p` in ``indices.shape[:-1]``::

        result[(*p[:b], *indices[p])] += cotangent[p]

    Parameters
    ----------
    cotangent : array_like of integers, floats or complex numbers, shape ``(B..., N..., S...)``
        The shape of the result of the gather.
    data_shape : sequence of int, ``(B..., D1, ..., Dk, S...)``
    indices : array_like of any integer type, shape ``(B..., N..., k)``
        Those of the gather.
    batch_dims : int, default 0
        That of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of `indices` is out of bounds. It names the first such entry in C order.
    ShapeError
        The shapes do not fit, or `data_shape` is not a shape.
    DTypeError
        `indices` is not of an integer type, or `cotangent` cannot be summed.
    AttributeValueError
        `batch_dims` is out of range.
    MemoryError
        The result does not fit in memory.

    See Also
    --------
    ndgather.gather_nd : The function that this is a gradient of.

    Notes
    -----
    The gradient of ``tf.gather_nd`` and of ONNX GatherND. It is a scatter with
    ``reduction="add"``: each element of `cotangent` is read once.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_nd([1.0, 10.0, 100.0], (4,), [[2], [0], [2]])
    array([ 10.,   0., 101.,   0.])
    """
    pair = _Pair("vjp.gather_nd", "gather_nd", "scatter_nd", batch_dims=batch_dims)
    return pair.add_to_zeros(cotangent, data_shape, indices)


def gather_elements(
    cotangent: ArrayLike, data_shape: Sequence[int], indices: ArrayLike, axis: int = 0
) -> Array:
    """Return the cotangent of `data` in ``gather_elements(data, indices, axis)``.

    Every element of the cotangent is added to zeros at the place that it was copied from. For every
    position `p` in ``indices.shape``::

        result[(*p[:axis], indices[p], *p[axis + 1 :])] += cotangent[p]

    Parameters
    ----------
    cotangent : array_like of integers, floats or complex numbers, shape of `indices`
    data_shape : sequence of int
        As many sizes as `indices` has axes.
    indices : array_like of any integer type
        Those of the gather.
    axis : int, default 0
        That of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    ndgather.gather_elements : The function that this is a gradient of.

    Notes
    -----
    The gradient of ``torch.gather`` and of ONNX GatherElements.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_elements([[1.0, 10.0], [100.0, 1000.0]], (2, 2), [[1, 0], [1, 1]])
    array([[   0.,   10.],
           [ 101., 1000.]])
    """
    pair = _Pair("vjp.gather_elements", "gather_elements", "scatter_elements", axis=axis)
    return pair.add_to_zeros(cotangent, data_shape, indices)


def gather_windows(
    cotangent: ArrayLike,
    data_shape: Sequence[int],
    starts: ArrayLike,
    window_shape: Sequence[int],
) -> Array:
    """Return the cotangent of `data` in ``gather_windows(data, starts, window_shape)``.

    Every window of the cotangent is added to zeros at the place that it was copied from. For every
    position `p` in ``starts.shape[:-1]`` and `w` in a window::

        result[tuple(starts[p] + w)] += cotangent[(*p, *w)]

    Parameters
    ----------
    cotangent : array_like of integers, floats or complex numbers
        The shape of the result of the gather, ``(N..., *window_shape, S...)``.
    data_shape : sequence of int, ``(D1, ..., Dk, S...)``
    starts : array_like of any integer type, shape ``(N..., k)``
        Those of the gather; every window is inside.
    window_shape : sequence of int, length `k`
        That of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        A window sticks out. It names the first such entry of `starts` in C order.
    ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    ndgather.gather_windows : The function that this is a gradient of.

    Notes
    -----
    Known as overlap-add, or ``fold``. Where windows overlap, sums are made in C order of `starts`.
    The positions of all elements of a window are listed, for some windows at a time: besides the
    result it uses 16 MiB, or 8 bytes for each element of a larger window.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_windows([[1.0, 2.0], [10.0, 20.0]], (4,), [[0], [1]], (2,))
    array([ 1., 12., 20.,  0.])
    """
    caller = "vjp.gather_windows"
    window = arguments.sizes(caller, "window_shape", window_shape)
    adapted = _adapted(Call(caller, "gather_windows", cotangent, starts, window_shape=window))
    if adapted is not None:
        return adapted(arguments.sizes(caller, "data_shape", data_shape))  # type: ignore[no-any-return]  # an array
    pair = _Pair(caller, "gather_nd", "scatter_nd")
    cotangent = pair.numbers(cotangent)
    result = pair.zeros(data_shape, cotangent.dtype)
    starts = arguments.native_indices(caller, starts, "starts")
    windows.check(Call(caller, "gather_windows", result, starts, window_shape=window))
    depth, lead = len(window), starts.shape[:-1]
    wanted = (*lead, *window, *result.shape[depth:])
    if cotangent.shape != wanted:
        raise messages.updates_do_not_fit(caller, cotangent.shape, wanted, "cotangent")
    if not cotangent.size:
        return result
    flat = result.reshape(-1, *result.shape[depth:])
    begins = np.zeros(int(np.prod(lead)), np.int64)
    within = np.zeros(window, np.int64)
    for axis, size in enumerate(window):
        step = int(np.prod(result.shape[axis + 1 : depth]))
        begins += starts[..., axis].reshape(-1).astype(np.int64) * step
        within += np.arange(size).reshape(-1, *(1,) * (depth - 1 - axis)) * step
    updates = cotangent.reshape(len(begins), within.size, *flat.shape[1:])
    some = max(_PLACES // within.size, 1)
    for first in range(0, len(begins), some):
        part = slice(first, first + some)
        places = (begins[part, np.newaxis] + within.reshape(-1))[..., np.newaxis]
        run(Call(caller, "scatter_nd", flat, places, updates[part], reduction="add", out=flat))
    return result


def scatter_nd(
    cotangent: ArrayLike, indices: ArrayLike, reduction: Literal["none", "add"] = "none"
) -> tuple[Array, Array]:
    """Return the cotangents of `data` and `updates` in `scatter_nd`.

    For ``add`` the cotangent of `data` is `cotangent`, and that of each update is the slice of
    `cotangent` that the update was added to. For ``none`` an element of `data` that was replaced
    has the cotangent 0; of several updates of one element the last has all of it.

    Parameters
    ----------
    cotangent : array_like of integers, floats or complex numbers, shape ``(D1, ..., Dk, S...)``
        The shape of `data`.
    indices : array_like of any integer type, shape ``(N..., k)``
        Those of the scatter.
    reduction : {"none", "add"}, default "none"
        That of the scatter. The others are not linear.

    Returns
    -------
    of_data : array, shape and dtype of `cotangent`
    of_updates : array, shape ``(N..., S...)``, dtype of `cotangent`
        Two new C-contiguous arrays.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, MemoryError
        As for `gather_nd`.
    AttributeValueError
        `reduction` is neither ``none`` nor ``add``.

    See Also
    --------
    ndgather.scatter_nd : The function that this is a gradient of.

    Notes
    -----
    The gradient of ``tf.tensor_scatter_nd_update`` and ``tf.tensor_scatter_nd_add``, and of ONNX
    ScatterND with these two reductions.

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_nd([1.0, 10.0, 100.0], [[2], [0], [2]])
    >>> of_data
    array([ 0., 10.,  0.])
    >>> of_updates
    array([  0.,   1., 100.])
    """
    pair = _Pair("vjp.scatter_nd", "gather_nd", "scatter_nd")
    return pair.of_data_and_updates(cotangent, indices, reduction)


def scatter_elements(
    cotangent: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    reduction: Literal["none", "add"] = "none",
) -> tuple[Array, Array]:
    """Return the cotangents of `data` and `updates` in `scatter_elements`.

    For ``add`` the cotangent of `data` is `cotangent`, and that of each update is the element of
    `cotangent` that the update was added to. For ``none`` an element of `data` that was replaced
    has the cotangent 0; of several updates of one element the last has all of it.

    Parameters
    ----------
    cotangent : array_like of integers, floats or complex numbers
        The shape of `data`.
    indices : array_like of any integer type, the rank of `cotangent`
        Those of the scatter.
    axis : int, default 0
        That of the scatter.
    reduction : {"none", "add"}, default "none"
        That of the scatter. The others are not linear.

    Returns
    -------
    of_data : array, shape and dtype of `cotangent`
    of_updates : array, shape of `indices`, dtype of `cotangent`
        Two new C-contiguous arrays.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `scatter_nd`.

    See Also
    --------
    ndgather.scatter_elements : The function that this is a gradient of.

    Notes
    -----
    The gradient of ``torch.scatter`` and ``torch.scatter_add``, and of ONNX ScatterElements with
    these two reductions.

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_elements([[1.0, 10.0, 100.0]], [[2, 2]], axis=1)
    >>> of_data
    array([[ 1., 10.,  0.]])
    >>> of_updates
    array([[  0., 100.]])
    """
    pair = _Pair("vjp.scatter_elements", "gather_elements", "scatter_elements", axis=axis)
    return pair.of_data_and_updates(cotangent, indices, reduction)


def _adapted(call: Call) -> Callable[..., Any] | None:
    """Return the function for the cotangents of the adapter of `call`, if it has one.

    It takes the shape of data, for a gather; `data` of the call is the cotangent.
    """
    adapter = dispatch.adapter(call.data, call.indices, call.updates, call.out)
    function = getattr(adapter, "vjp", None)
    return None if function is None else partial(function, call)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A gather and its scatter, for one caller and one value of their option."""

    caller: str
    gather_kind: str
    scatter_kind: str
    axis: Any = 0
    batch_dims: Any = 0

    def call(self, kind: str, data: ArrayLike, indices: ArrayLike, **options: Any) -> Call:
        options |= {"axis": self.axis, "batch_dims": self.batch_dims}
        return Call(self.caller, kind, data, indices, **options)

    def scatter(self, data: Array, indices: ArrayLike, updates: Array, reduction: str) -> Array:
        options = {"updates": updates, "reduction": reduction, "updates_name": "cotangent"}
        return run(self.call(self.scatter_kind, data, indices, **options))

    def numbers(self, cotangent: ArrayLike) -> Array:
        array = arguments.plain_array(self.caller, "cotangent", cotangent)
        if reductions.number_kind(array.dtype) in ("", "b"):
            raise messages.cotangent_dtype(self.caller, array.dtype)
        return array

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        sizes = arguments.sizes(self.caller, "data_shape", shape)
        try:
            return np.zeros(sizes, dtype)
        except ValueError:  # more axes or more bytes than an array can have
            raise messages.result_too_large(self.caller, sizes) from None

    def add_to_zeros(
        self, cotangent: ArrayLike, data_shape: Sequence[int], indices: ArrayLike
    ) -> Array:
        adapted = _adapted(self.call(self.gather_kind, cotangent, indices))
        if adapted is not None:
            sizes = arguments.sizes(self.caller, "data_shape", data_shape)
            return adapted(sizes)  # type: ignore[no-any-return]  # an array
        cotangent = self.numbers(cotangent)
        return self.scatter(self.zeros(data_shape, cotangent.dtype), indices, cotangent, "add")

    def of_data_and_updates(
        self, cotangent: ArrayLike, indices: ArrayLike, reduction: object
    ) -> tuple[Array, Array]:
        reduction = choice(self.caller, "reduction", reduction, _LINEAR)
        adapted = _adapted(self.call(self.scatter_kind, cotangent, indices, reduction=reduction))
        if adapted is not None:
            return adapted()  # type: ignore[no-any-return]  # two arrays
        cotangent = self.numbers(cotangent)
        indices = arguments.native_indices(self.caller, indices)
        of_updates = run(self.call(self.gather_kind, cotangent, indices))
        if reduction == "add":
            return cotangent.copy(), of_updates
        # Updates are numbered, by tuple or by element; every element keeps the number of its last.
        places, count = cotangent.shape, indices.shape
        if self.gather_kind == "gather_nd":
            places, count = places[: count[-1]], count[:-1]
        numbers = np.arange(np.prod(count, dtype=int)).reshape(count)
        last = self.scatter(np.zeros(places, int), indices, numbers, "none")
        of_updates[run(self.call(self.gather_kind, last, indices)) != numbers] = 0
        zeros = np.broadcast_to(np.zeros((), cotangent.dtype), of_updates.shape)
        return self.scatter(cotangent, indices, zeros, "none"), of_updates
