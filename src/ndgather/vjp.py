"""Vector-Jacobian products (gradients) of the gathers and scatters.

Each function receives the cotangent of a result and returns the cotangents of the inputs. A
cotangent is the gradient of some scalar with respect to an array. Because gathers and scatters are
linear, the values of `data` are not needed. Sums are computed in the dtype of the cotangent, in the
order of the indices.

Negative indices count from the end, as in ``mode="raise"``. Docstring sections that are omitted
here are documented under `gather_nd`, `scatter_nd` or the function of the same name in `ndgather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ndgather import arguments, dtypes, exchange, messages, ranges, slow_path, windows
from ndgather.api import Call, own_errors, run
from ndgather.arguments import choice
from ndgather.array_call import Array, Kind, WindowMode, replace

__all__ = [
    "gather_elements",
    "gather_nd",
    "gather_ranges",
    "gather_windows",
    "scatter_elements",
    "scatter_nd",
]

_INDICES = 2**21  # maximum number of int64 indices computed at a time (16 MiB)


@own_errors("vjp.gather_nd")
def gather_nd(
    cotangent: ArrayLike, data_shape: Sequence[int], indices: ArrayLike, batch_dims: int = 0
) -> Array:
    """Compute the cotangent of `data` in ``gather_nd(data, indices, batch_dims)``.

    Each slice of the cotangent is added to an array of zeros, at the position the gather read.

    Parameters
    ----------
    cotangent : array_like of numbers, shape ``(B..., N..., S...)``
        The cotangent of the gather's result.
    data_shape : sequence of int, ``(B..., D1, ..., Dk, S...)``
        The shape of `data`.
    indices, batch_dims
        The arguments of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        If an index is out of bounds. The error names the first in C order.
    ShapeError
        If the shapes do not match or `data_shape` is not a valid shape.
    DTypeError
        If `indices` is not of an integer type or `cotangent` is not numeric.
    AttributeValueError
        If `batch_dims` is out of range.
    MemoryError
        If the result does not fit in memory.

    Notes
    -----
    With ``b = batch_dims``, for each position `p` in ``indices.shape[:-1]``::

        result[(*p[:b], *indices[p])] += cotangent[p]

    This is the gradient of ``tf.gather_nd`` and of ONNX GatherND.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_nd([1.0, 10.0, 100.0], (4,), [[2], [0], [2]])
    array([ 10.,   0., 101.,   0.])
    """
    call = Call("vjp.gather_nd", Kind.GATHER_ND, cotangent, indices, batch_dims=batch_dims)
    return _of_gather(call, data_shape)


@own_errors("vjp.gather_elements")
def gather_elements(
    cotangent: ArrayLike, data_shape: Sequence[int], indices: ArrayLike, axis: int = 0
) -> Array:
    """Compute the cotangent of `data` in ``gather_elements(data, indices, axis)``.

    Each element of the cotangent is added to an array of zeros, at the position the gather read.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `indices`
        The cotangent of the gather's result.
    data_shape : sequence of int
        The shape of `data`.
    indices, axis
        The arguments of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Notes
    -----
    For each position `p` in ``indices.shape``::

        result[(*p[:axis], indices[p], *p[axis + 1 :])] += cotangent[p]

    This is the gradient of ``torch.gather`` and of ONNX GatherElements.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_elements([[1.0, 10.0], [100.0, 1000.0]], (2, 2), [[1, 0], [1, 1]])
    array([[   0.,   10.],
           [ 101., 1000.]])
    """
    call = Call("vjp.gather_elements", Kind.GATHER_ELEMENTS, cotangent, indices, axis=axis)
    return _of_gather(call, data_shape)


@own_errors("vjp.gather_windows")
def gather_windows(
    cotangent: ArrayLike,
    data_shape: Sequence[int],
    starts: ArrayLike,
    window_shape: Sequence[int],
    *,
    mode: WindowMode | Sequence[WindowMode] = "raise",
) -> Array:
    """Compute the cotangent of `data` in ``gather_windows(data, starts, window_shape)``.

    Each window of the cotangent is added to an array of zeros, at the positions that the gather
    read. ``torch.nn.Fold`` and overlap-add methods work in the same way.

    Parameters
    ----------
    cotangent : array_like of numbers, shape ``(N..., window_shape..., S...)``
        The cotangent of the gather's result.
    data_shape : sequence of int, ``(D1, ..., Dk, S...)``
        The shape of `data`.
    starts, window_shape, mode
        The arguments of the gather. Elements that a window repeats or mirrors are added to the
        element they come from, and filled elements are ignored.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        If `mode` is ``raise`` and a window extends past the bounds of `data`. The error names the
        first entry of `starts` in C order that does. For other errors see `gather_nd`.

    Notes
    -----
    For each position `p` in ``starts.shape[:-1]`` and `w` in ``window_shape``::

        result[tuple(starts[p] + w)] += cotangent[(*p, *w)]

    Overlapping windows are added in C order of `starts`. The function needs 16 MiB of temporary
    memory, or ``8 * k`` bytes per window element if that is more.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_windows([[1.0, 2.0], [10.0, 20.0]], (4,), [[0], [1]], (2,))
    array([ 1., 12., 20.,  0.])
    >>> vjp.gather_windows([[1.0, 2.0]], (4,), [[3]], (2,), mode="wrap")
    array([2., 0., 0., 1.])
    """
    caller = "vjp.gather_windows"
    window = arguments.sizes(caller, "window_shape", window_shape)
    word = arguments.window_mode(caller, mode, len(window))
    call = Call(caller, Kind.GATHER_WINDOWS, cotangent, starts, mode=word, window_shape=window)
    return _of_gather(call, data_shape)


@own_errors("vjp.gather_ranges")
def gather_ranges(
    cotangent: ArrayLike,
    data_shape: Sequence[int],
    starts: ArrayLike,
    stops: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    """Compute the cotangent of `data` in ``gather_ranges(data, starts, stops)``.

    Each range of the cotangent is added to an array of zeros, at the positions the gather read.

    Parameters
    ----------
    cotangent : array_like of numbers
        The cotangent of the gather's values.
    data_shape : sequence of int
        The shape of `data`.
    starts, stops, lengths, axis
        The arguments of the gather. All ranges must be in bounds.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`
        A new C-contiguous array.

    Notes
    -----
    For ``axis=0`` and each `i` in ``range(len(starts))``::

        result[starts[i] : stops[i]] += cotangent[offsets[i] : offsets[i + 1]]

    The function needs 8 bytes of temporary memory per gathered position.

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_ranges([1.0, 2.0, 10.0], (4,), [0, 1], [2, 2])
    array([ 1., 12.,  0.,  0.])
    """
    caller = "vjp.gather_ranges"
    shape = arguments.sizes(caller, "data_shape", data_shape)
    call = ranges.with_axis(Call(caller, Kind.GATHER_ND, cotangent, None, axis=axis), shape)
    named = ranges.read(caller, starts, stops, lengths, shape[call.axis])
    ranges.check(call, named, by_lengths=lengths is not None)
    positions = named.positions(caller)
    values_shape = (*shape[: call.axis], len(positions), *shape[call.axis + 1 :])
    if (actual := tuple(np.shape(cotangent))) != values_shape:
        raise messages.updates_do_not_fit(caller, actual, values_shape, "cotangent")
    if call.axis == 0:
        return _of_gather(replace(call, indices=positions[:, np.newaxis]), shape)
    along = positions.reshape(-1, *[1] * (len(shape) - call.axis - 1))
    return _of_gather(
        replace(call, kind=Kind.GATHER_ELEMENTS, indices=np.broadcast_to(along, values_shape)),
        shape,
    )


@own_errors("vjp.scatter_nd")
def scatter_nd(
    cotangent: ArrayLike, indices: ArrayLike, reduction: Literal["none", "add"] = "none"
) -> tuple[Array, Array]:
    """Compute the cotangents of `data` and `updates` in `scatter_nd`.

    For ``add``, the cotangent of `data` is `cotangent` itself, and the cotangent of an update is
    the slice of `cotangent` at the update's index tuple. For ``none``, the cotangent is 0 for
    replaced elements of `data` and for updates that a later update replaces.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `data`
        The cotangent of the scatter's result.
    indices : array_like of integers, shape ``(N..., k)``
        The index tuples of the scatter.
    reduction : {"none", "add"}, default "none"
        The reduction of the scatter. Other reductions are not linear.

    Returns
    -------
    of_data : array, shape and dtype of `cotangent`
    of_updates : array, shape ``(N..., S...)``, dtype of `cotangent`
        Two new C-contiguous arrays.

    Raises
    ------
    AttributeValueError
        If `reduction` is neither ``none`` nor ``add``. For other errors see `gather_nd`.

    Notes
    -----
    This is the gradient of ``tf.tensor_scatter_nd_update``, of ``tf.tensor_scatter_nd_add`` and of
    ONNX ScatterND with these reductions.

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_nd([1.0, 10.0, 100.0], [[2], [0], [2]])
    >>> of_data
    array([ 0., 10.,  0.])
    >>> of_updates
    array([  0.,   1., 100.])
    """
    return _of_scatter(Call("vjp.scatter_nd", Kind.SCATTER_ND, cotangent, indices), reduction)


@own_errors("vjp.scatter_elements")
def scatter_elements(
    cotangent: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    reduction: Literal["none", "add"] = "none",
) -> tuple[Array, Array]:
    """Compute the cotangents of `data` and `updates` in `scatter_elements`.

    See `scatter_nd`. In `scatter_elements`, each update is a single element.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `data`
        The cotangent of the scatter's result.
    indices, axis
        The arguments of the scatter.
    reduction : {"none", "add"}, default "none"
        The reduction of the scatter. Other reductions are not linear.

    Returns
    -------
    of_data : array, shape and dtype of `cotangent`
    of_updates : array, shape of `indices`, dtype of `cotangent`
        Two new C-contiguous arrays.

    Notes
    -----
    This is the gradient of ``torch.scatter``, of ``torch.scatter_add`` and of ONNX ScatterElements
    with these reductions.

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_elements([[1.0, 10.0, 100.0]], [[2, 2]], axis=1)
    >>> of_data
    array([[ 1., 10.,  0.]])
    >>> of_updates
    array([[  0., 100.]])
    """
    call = Call("vjp.scatter_elements", Kind.SCATTER_ELEMENTS, cotangent, indices, axis=axis)
    return _of_scatter(call, reduction)


def _of_gather(call: Call, data_shape: object) -> Array:
    of_data: Array = cotangents(call, arguments.sizes(call.caller, "data_shape", data_shape))[0]
    return of_data


def _of_scatter(call: Call, reduction: object) -> tuple[Array, Array]:
    reduction = choice(call.caller, "reduction", reduction, ("none", "add"))
    of_data, of_updates = cotangents(replace(call, reduction=reduction))
    return of_data, of_updates


def cotangents(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Return the cotangents of a call's inputs, given the result's cotangent as `call.data`.

    For a gather from data of shape `data_shape`, return only the cotangent of data. For a scatter,
    return the cotangents of data and updates.
    """
    call = slow_path.beside_data(call)
    adapted = getattr(exchange.adapter(call.data, call.indices), "vjp", None)
    if adapted is not None:
        return adapted(call, data_shape)  # type: ignore[no-any-return]  # a tuple of arrays
    cotangent = arguments.plain_array(call.caller, "cotangent", call.data)
    if dtypes.number_kind(cotangent.dtype) in ("", "b"):
        raise messages.cotangent_dtype(call.caller, cotangent.dtype)
    indices = arguments.native_indices(call)
    if data_shape is None or call.kind.windows:  # the call reads indices more than once
        indices = indices.copy()
    call = replace(call, data=cotangent, indices=indices, updates_name="cotangent")
    if data_shape is None:
        return _data_and_updates(call)
    try:
        zeros = np.zeros(data_shape, cotangent.dtype)
    except ValueError:  # NumPy arrays cannot have so many axes or bytes
        raise messages.result_too_large(call.caller, data_shape) from None
    call = replace(call, data=zeros, updates=cotangent, reduction="add")
    if call.kind.windows:
        _add_windows(call)
        return (zeros,)
    return (run(replace(call, kind=call.kind.scatter)),)


def _add_windows(call: Call) -> None:
    """Add windows of updates to data in place, one block of windows at a time."""
    window, starts = call.window_shape, call.indices
    windows.check(call)
    wanted = slow_path.result_shape(call)
    if call.updates.shape != wanted:
        raise messages.updates_do_not_fit(call.caller, call.updates.shape, wanted, "cotangent")
    if not call.updates.size:
        return
    count, depth = prod(starts.shape[:-1]), len(window)
    updates = call.updates.reshape(count, *wanted[starts.ndim - 1 :])
    starts = starts.reshape(count, depth)
    within = np.indices(window)
    step = _INDICES // (within.size + 1) + 1
    modes, sizes = call.modes, call.data.shape
    scatter = replace(call, kind=Kind.SCATTER_ND, window_shape=(), mode="drop", negative=False)
    for first in range(0, count, step):
        block = slice(first, first + step)
        elements = np.empty((len(starts[block]), *window, depth), np.int64)
        for axis, (mode, size, wide) in enumerate(zip(modes, sizes, window, strict=False)):
            at = windows.near(mode, starts[block, axis], size, wide)
            at = at.reshape(-1, *[1] * depth) + within[axis]
            elements[..., axis] = windows.positions(mode, at, size)
        run(replace(scatter, indices=elements, updates=updates[block], out=call.data))


def _data_and_updates(call: Call) -> tuple[Array, Array]:
    gather = replace(call, kind=call.kind.gather)
    of_updates = run(gather)
    if call.reduction == "add":
        return call.data.copy(), of_updates
    # Scatter the numbers of updates, so that each element receives the number of its last update.
    # With indices [2, 0, 2], element 2 receives number 2, so update 0 was overwritten.
    shape, count = call.data.shape, call.indices.shape
    if call.kind.tuples:
        shape, count = shape[: count[-1]], count[:-1]
    numbers = np.arange(np.prod(count, dtype=int)).reshape(count)
    last = run(replace(call, data=np.zeros(shape, int), updates=numbers))
    of_updates[run(replace(gather, data=last)) != numbers] = 0
    zeros = np.broadcast_to(np.zeros((), call.data.dtype), of_updates.shape)
    return run(replace(call, updates=zeros)), of_updates
