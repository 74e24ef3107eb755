"""The public functions: their signatures and documentation; the core has their bodies."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

from numpy.typing import ArrayLike, NDArray

from ndgather import ranges, slow_path
from ndgather.arguments import positional_hint, sizes, window_mode
from ndgather.array_call import Call, Executor, Kind, WindowMode, _core
from ndgather.reductions import Name as Reduction
from ndgather.signatures import SIGNATURES, bare_signature, misused, own_errors
from ndgather.slow_path import result_shape, run

Mode: TypeAlias = Literal["raise", "wrap", "clip", "fill"]
ScatterMode: TypeAlias = Literal["raise", "wrap", "clip", "drop"]

__all__ = [
    "SIGNATURES",
    "Call",
    "call_of",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_ranges",
    "gather_windows",
    "own_errors",
    "result_shape",
    "run",
    "scatter_elements",
    "scatter_nd",
]

F = TypeVar("F", bound="Callable[..., Any]")

_DEFAULTS = {field.name: field.default for field in fields(Call) if field.default is not MISSING}


def call_of(caller: str, /, *arguments: Any, **options: Any) -> Call:
    """Return the call that the public function `caller` makes for these arguments.

    That of ranges has no indices.
    """
    signature = SIGNATURES[caller]
    try:
        given = signature.bind(*arguments, **options).arguments
    except TypeError:
        raise misused(caller, signature, tuple(options), (*arguments, *options.values())) from None
    if caller == "gather_ranges":
        for name in ("starts", "stops", "lengths"):
            given.pop(name, None)
        return Call(caller, Kind.GATHER, indices=None, **given)
    kind = Kind(caller)
    if kind.windows:
        given["indices"] = given.pop("starts")
        window = given["window_shape"] = sizes(caller, "window_shape", given["window_shape"])
        given["mode"] = window_mode(caller, given.get("mode", "raise"), len(window))
    return Call(caller, kind, **given)


def fast_call(function: F) -> F:
    """Return a function of the core with the name, signature and docstring of `function`.

    The body of `function` is never used. Its name is that of a `Kind`, and its parameters,
    of which those without a default come first, are in ``_core.ARGUMENTS``.
    """
    kind = function.__name__
    signature = SIGNATURES[kind] = bare_signature(inspect.signature(function))
    parameters = signature.parameters.values()
    own = {each.name: each.default for each in parameters if each.default is not each.empty}

    made = _core.fast_call(
        kind,
        slow_path.handle_refusal,
        tuple(signature.parameters),
        len(parameters) - len(own),
        sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters),
        tuple((_DEFAULTS | own).get(name) for name in _core.ARGUMENTS),
        f"{kind}{signature}\n--\n\n{function.__doc__}",
        function.__module__,
    )
    return cast("F", made)


@fast_call
def gather_nd(
    data: ArrayLike,
    indices: ArrayLike,
    batch_dims: int = 0,
    *,
    mode: Mode = "raise",
    fill_value: object = None,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Copy the slices of `data` at index tuples.

    The last axis of `indices` holds tuples of length `k`. With ``b = batch_dims``, for every
    position `p` in ``indices.shape[:-1]``::

        out[p] = data[(*p[:b], *indices[p])]

    Parameters
    ----------
    data : array_like, shape ``(B..., D1, ..., Dk, S...)``, any dtype
        ``B...`` are the `batch_dims` leading axes, ``S...`` is the slice that is copied.
    indices : array_like of any integer type, shape ``(B..., N..., k)``
        ``0 <= k <= data.ndim - batch_dims``; with ``k = 0`` every slice is all of its batch. A
        tuple of arrays, which NumPy's brackets take, is refused: ``np.stack(indices, axis=-1)``
        names the same points. So is an empty list, which has no `k`: ``np.empty((0, k), int)``
        names no points. ``[[]]`` is one empty index tuple, of shape ``(1, 0)``.
    batch_dims : int, default 0
        How many leading axes `data` and `indices` share; equal in size, one by one.
    mode : {"raise", "wrap", "clip", "fill"}, default "raise"
        What becomes of an index value `v` on an axis of size `s`. ``raise`` counts negative values
        from the end and raises for all outside of ``-s..s-1``; ``wrap`` takes ``v`` modulo ``s``;
        ``clip`` takes the nearest of ``0..s-1``, so negative values are 0; ``fill`` is as
        ``raise``, but slices named by a value outside are filled with `fill_value`.
    fill_value : scalar, default zero of the dtype
        For ``mode="fill"``; a value that the dtype of `data` can hold.
    out : array, optional
        Takes the result: the shape of the result, the dtype of `data`, any strides. It may
        overlap `data` and `indices`. After an error it is as it was before, but for errors of
        reading a stored array.
    memory : int or str, optional
        For a stored array: how many bytes the buffers may take, such as ``"512 MiB"``. The result
        and 8 bytes for each position come on top.
    progress : callable or bool, optional
        For a stored array: is called with the numbers of chunks done and in all, on the thread of
        the call; True shows a bar of tqdm.
    executor : optional
        For a stored array: where chunks are read, as `concurrent.futures` has executors; else
        threads of this process read them.

    Returns
    -------
    array, shape ``(B..., N..., S...)``, dtype of `data`
        `out` if given, or else a new C-contiguous array. Bits are copied as they are.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of `indices` is out of bounds, also where the result is empty. It names the first
        such entry in C order; `data` is never read outside of its bounds.
    ShapeError
        The shapes do not fit, or `out` has another shape than the result.
    DTypeError
        `indices` is not of an integer type (booleans raise too), or an argument is no array.
    AttributeValueError
        `batch_dims` is out of range, `mode` is unknown, or `out` cannot be written.
    MemoryError
        The result does not fit in memory; nothing was touched.

    See Also
    --------
    gather_elements : One index per element of the result.
    gather : Whole slices along one axis.

    Notes
    -----
    ONNX GatherND-11 to 13, OpenVINO GatherND-8 and ``tf.gather_nd`` are this function under
    stricter rules. `indices` is read once; each slice is copied once. The work is shared between
    threads (`set_num_threads`) where that is faster, and the GIL is released around work of more
    than about ten microseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather_nd
    >>> data = np.array([[10, 11, 12], [20, 21, 22]])
    >>> gather_nd(data, [[0, 2], [1, -3]])  # tuples of two: single elements
    array([12, 20])
    >>> gather_nd(data, [[1], [0]])  # tuples of one: rows
    array([[20, 21, 22],
           [10, 11, 12]])
    >>> gather_nd(data, [[2], [0]], batch_dims=1)  # one tuple for each row
    array([12, 20])
    >>> gather_nd(data, [[0, 7], [1, 0]], mode="fill", fill_value=-1)
    array([-1, 20])
    >>> gather_nd(data, [[0, 2], [2, 0]])
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: gather_nd: indices[1, 0] = 2 is outside axis 0 of data, \
which has size 2 (allowed: -2..1)
    """


@fast_call
def gather_elements(
    data: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    *,
    mode: Mode = "raise",
    fill_value: object = None,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Copy one element of `data` for every entry of `indices`, along one axis.

    For every position `p` in ``indices.shape``::

        out[p] = data[(*p[:axis], indices[p], *p[axis + 1 :])]

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
    indices : array_like of any integer type, the rank of `data`
        On the axes other than `axis` its sizes may be smaller than those of `data`, never larger;
        nothing is broadcast.
    axis : int, default 0
        ``-data.ndim..data.ndim-1``
    mode, fill_value
        What becomes of values outside of the axis; see `gather_nd`.
    out : array, optional
        Takes the result; see `gather_nd`.
    memory, progress, executor
        For stored arrays; see `gather_nd`.

    Returns
    -------
    array, shape of `indices`, dtype of `data`
        `out` if given, or else a new C-contiguous array. Bits are copied as they are.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    gather_nd : One tuple of indices per slice.

    Notes
    -----
    ONNX GatherElements-11 and 13 and OpenVINO GatherElements-6 are this function under stricter
    rules; ``torch.gather`` is it without negative values, ``numpy.take_along_axis`` with
    broadcasting. Along an axis that is not the last, columns are packed in bands that stay in the
    cache when that pays; one thread then uses up to 1 MiB besides the result.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather_elements
    >>> data = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    >>> gather_elements(data, [[1, 2, 0], [2, 0, 0]], axis=0)
    array([[4, 8, 3],
           [7, 2, 3]])
    >>> gather_elements(data, [[-1], [0]], axis=1)
    array([[3],
           [4]])
    >>> gather_elements(data, [[0], [9]], axis=1)
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: gather_elements: indices[1, 0] = 9 is outside axis 1 of \
data, which has size 3 (allowed: -3..2)
    """


@fast_call
def gather(
    data: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    mode: Mode = "raise",
    fill_value: object = None,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Copy whole slices of `data` along one axis.

    With ``b = batch_dims``, for every position `o` in ``data.shape[:axis]``, `p` in
    ``indices.shape[b:]`` and `s` in ``data.shape[axis+1:]``::

        out[(*o, *p, *s)] = data[(*o, indices[(*o[:b], *p)], *s)]

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
    indices : array_like of any integer type, any rank
        Of rank 0 it drops the axis.
    axis : int, default 0
        ``-data.ndim..data.ndim-1``
    batch_dims : int, default 0
        How many leading axes `data` and `indices` share; at most `axis` and the rank of `indices`.
        Negative values, from ``-min(data.ndim, indices.ndim)`` on, count from the rank of
        `indices`.
    mode, fill_value
        What becomes of values outside of the axis; see `gather_nd`.
    out : array, optional
        Takes the result; see `gather_nd`.
    memory, progress, executor
        For stored arrays; see `gather_nd`.

    Returns
    -------
    array, shape ``data.shape[:axis] + indices.shape[b:] + data.shape[axis+1:]``, dtype of `data`
        `out` if given, or else a new C-contiguous array. Bits are copied as they are.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    gather_nd : One tuple of indices per slice.

    Notes
    -----
    ONNX Gather-1 to 13 and OpenVINO Gather-1 to 8 are this function under stricter rules;
    ``numpy.take`` is it for ``batch_dims=0``.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather
    >>> data = np.array([[1, 2, 3], [4, 5, 6]])
    >>> gather(data, [[2, 0]], axis=1)
    array([[[3, 1]],
    <BLANKLINE>
           [[6, 4]]])
    >>> gather(data, [[2, 0], [1, 1]], axis=1, batch_dims=1)
    array([[3, 1],
           [5, 5]])
    >>> gather(data, 5, mode="clip")
    array([4, 5, 6])
    """


@own_errors("gather_windows", partial(positional_hint, Kind.GATHER_WINDOWS))
def gather_windows(
    data: ArrayLike,
    starts: ArrayLike,
    window_shape: Sequence[int],
    *,
    mode: WindowMode | Sequence[WindowMode] = "raise",
    fill_value: object = None,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Copy windows of `data`: boxes of one shape, one at each start.

    With ``k = len(window_shape)``, for every position `p` in ``starts.shape[:-1]`` and `w` in a
    window, the other axes being copied whole::

        out[(*p, *w)] = data[tuple(starts[p] + w)]

    Parameters
    ----------
    data : array_like, shape ``(D1, ..., Dk, S...)``, any dtype
    starts : array_like of any integer type, shape ``(N..., k)``
        The first position of each window. A negative start is before the axis: it never counts from
        the end, so that a window around a position near the border cannot come from the other side.
    window_shape : sequence of int, length `k`
        The sizes of a window on the first `k` axes of `data`.
    mode : {"raise", "clip", "fill", "wrap", "edge", "reflect"}, default "raise"
        What happens to a window that sticks out of `data`. ``raise`` raises; ``clip`` moves it to
        the nearest position at which it is inside; ``fill`` copies what lies inside and fills the
        rest with `fill_value`. The others continue `data` as ``numpy.pad`` does: ``wrap`` with the
        other end of the axis, ``edge`` with its first or last element, ``reflect`` with its mirror
        image, in which the first or last element is not repeated. A sequence has a mode for every
        axis of a window: ``("edge", "wrap")`` on latitudes and longitudes.
    fill_value : scalar, default zero of the dtype
        For ``mode="fill"``; a value that the dtype of `data` can hold.
    out : array, optional
        Takes the result; see `gather_nd`.
    memory, progress, executor
        For arrays that are stored elsewhere; see `gather_nd`.

    Returns
    -------
    array, shape ``(N..., *window_shape, S...)``, dtype of `data`
        `out` if given, or else a new C-contiguous array. Bits are copied as they are.

    Raises
    ------
    IndexOutOfBoundsError
        A window sticks out of `data`, and `mode` is ``raise``. It names the first such entry of
        `starts` in C order.
    ShapeError
        The shapes do not fit, `window_shape` is no shape, a window is larger than `data` in mode
        ``raise`` or ``clip``, or no element can be repeated because an axis is empty.
    DTypeError, AttributeValueError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    gather_nd : Slices that are whole on all axes but the first.

    Notes
    -----
    The result is that of ``sliding_window_view(data, window_shape)`` of NumPy, indexed by
    `starts`. Each window is copied once; `starts` are read once. StableHLO's ``gather`` and
    ``jax.lax.gather`` have windows of this kind, with ``clip`` and ``fill`` as modes, but there a
    window that sticks out is filled in whole.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather_windows
    >>> data = np.arange(20).reshape(4, 5)
    >>> gather_windows(data, [[0, 1], [2, 3]], (2, 2))
    array([[[ 1,  2],
            [ 6,  7]],
    <BLANKLINE>
           [[13, 14],
            [18, 19]]])
    >>> gather_windows(data, [[3], [-1]], (2,), mode="clip").shape  # two rows each
    (2, 2, 5)
    >>> gather_windows(data, [[-1, 4]], (2, 2), mode="fill", fill_value=-1)
    array([[[-1, -1],
            [ 4, -1]]])
    >>> gather_windows(data, [[2, 4]], (2, 2), mode=("raise", "wrap"))  # over the date line
    array([[[14, 10],
            [19, 15]]])
    >>> gather_windows(data, [[0, 0], [3, 1]], (2, 2))
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: gather_windows: starts[1, 0] = 3 lets a window of size \
2 stick out of axis 0 of data, which has size 4 (allowed: 0..2)
    """
    shape = sizes("gather_windows", "window_shape", window_shape)
    options = {"mode": window_mode("gather_windows", mode, len(shape)), "fill_value": fill_value}
    options |= {"out": out, "memory": memory, "progress": progress, "executor": executor}
    kind = Kind.GATHER_WINDOWS
    return run(Call("gather_windows", kind, data, starts, window_shape=shape, **options))


SIGNATURES["gather_windows"] = bare_signature(inspect.signature(gather_windows))


@own_errors("gather_ranges")
def gather_ranges(
    data: ArrayLike,
    starts: ArrayLike,
    stops: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    axis: int = 0,
    mode: Mode = "raise",
    fill_value: object = None,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Copy ranges of `data` along one axis, one after another: rows of different lengths.

    For ``axis=0``, and every `i` in ``range(len(starts))``::

        values[offsets[i] : offsets[i + 1]] = data[starts[i] : stops[i]]

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
    starts : array_like of any integer type, rank 1
        The first position of each range. A negative start is before the axis, as in
        `gather_windows`: it never counts from the end, so that a range around a position near the
        border cannot come from the other side. Ranges may overlap, repeat, and be empty.
    stops : array_like of any integer type, shape of `starts`
        The position behind the last of each range, not smaller than its start.
    lengths : array_like of any integer type, shape of `starts`, or one integer
        Instead of `stops`: how many positions each range has.
    axis : int, default 0
        ``-data.ndim..data.ndim-1``
    mode : {"raise", "wrap", "clip", "fill"}, default "raise"
        What becomes of the positions of a range that lie outside of ``0..s-1`` on an axis of size
        `s`. ``raise`` raises an error; ``wrap`` takes them modulo `s`; ``clip`` takes the nearest
        of ``0..s-1``; ``fill`` fills them with `fill_value`. An empty range is never outside.
    fill_value : scalar, default zero of the dtype
        For ``mode="fill"``; a value that the dtype of `data` can hold.
    out : array, optional
        Takes the values; see `gather_nd`.
    memory, progress, executor
        For stored arrays; see `gather_nd`.

    Returns
    -------
    values : array, shape of `data` with the sum of all lengths on `axis`, dtype of `data`
        `out` if given, or else a new C-contiguous array. Bits are copied as they are.
    offsets : array of int64, shape ``(len(starts) + 1,)``
        Where each range begins in `values`, and at last where the last one ends. A tensor if `data`
        is one of torch, on its device, or of TensorFlow.

    Raises
    ------
    IndexOutOfBoundsError
        A range that is not empty sticks out of the axis, and `mode` is ``raise``. It names the
        entry of `starts`, `stops` or `lengths` of the first such range.
    CallError
        Neither `stops` nor `lengths` is given, or both are.
    AttributeValueError
        A stop is smaller than its start, a length is negative, `axis` is out of range, or `mode`
        is unknown.
    ShapeError, DTypeError, MemoryError
        As for `gather_nd`.

    See Also
    --------
    gather_windows : Boxes of one shape, along several axes.
    gather : Single slices along one axis.

    Notes
    -----
    In memory each range is one copy of bytes. Of a stored array each touched chunk is read once,
    however many ranges it holds. Where a range sticks out, or `data` is an array of another
    library, the positions are listed in 8 bytes each, and gathered as `gather` gathers them; the
    ranges themselves are always read on the CPU.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather_ranges
    >>> data = np.array([10, 11, 20, 30, 31, 32])
    >>> gather_ranges(data, [3, 0], [6, 2])
    (array([30, 31, 32, 10, 11]), array([0, 3, 5]))
    >>> values, offsets = gather_ranges(data, [4, -1], lengths=3, mode="fill", fill_value=-1)
    >>> values
    array([31, 32, -1, -1, 10, 11])
    >>> gather_ranges(data, [0, 4], [2, 7])
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: gather_ranges: stops[1] = 7 is beyond axis 0 of data, \
which has size 6 (allowed: 4..6)
    """
    options = {"mode": mode, "fill_value": fill_value, "out": out, "memory": memory}
    options |= {"axis": axis, "progress": progress, "executor": executor}
    call = Call("gather_ranges", Kind.GATHER, data, None, **options)
    return ranges.gather_ranges(call, starts, stops, lengths)


SIGNATURES["gather_ranges"] = bare_signature(inspect.signature(gather_ranges))


@fast_call
def scatter_nd(
    data: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    reduction: Reduction = "none",
    mode: ScatterMode = "raise",
    use_init_val: bool = True,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Replace slices of a copy of `data` at index tuples, or combine them with `updates`.

    The last axis of `indices` holds tuples of length `k`. After ``out = data.copy()``, for every
    position `p` in ``indices.shape[:-1]``, in C order::

        out[tuple(indices[p])] = f(out[tuple(indices[p])], updates[p])

    Parameters
    ----------
    data : array_like, shape ``(D1, ..., Dk, S...)``, any dtype
        ``S...`` is the slice that an update meets.
    indices : array_like of any integer type, shape ``(N..., k)``
        ``0 <= k <= data.ndim``; with ``k = 0`` every update meets the whole of data.
    updates : array_like, shape ``(N..., S...)``, dtype of `data`
        Numbers and lists are converted where the dtype holds their values; floating values may
        be rounded.
    reduction : {"none", "add", "sub", "mul", "min", "max", "mean"}, default "none"
        What `f` is. ``none`` gives the update, ``sub`` the old element minus the update; ``mean``
        divides the sum of an element and its updates by their number. See the notes.
    mode : {"raise", "wrap", "clip", "drop"}, default "raise"
        What becomes of an index value `v` on an axis of size `s`. ``raise`` counts negative values
        from the end and raises for all outside of ``-s..s-1``; ``wrap`` takes ``v`` modulo ``s``;
        ``clip`` takes the nearest of ``0..s-1``, so negative values are 0; ``drop`` is as
        ``raise``, but updates of a tuple with a value outside are left out.
    use_init_val : bool, default True
        Whether the elements of `data` take part in the reduction. Where False, an element that is
        updated starts from the identity of the reduction instead: 0, 1 for ``mul``, the greatest
        element of the type for ``min``, the least for ``max``. ``none`` never looks at them.
    out : array, optional
        Takes the result: the shape and dtype of `data`, any strides. ``out=data`` updates in
        place, without a copy of `data`; any other is filled with `data` first. It may overlap
        every argument. After an error it is as it was before. A stored array takes updates in place
        only, with ``out=data``.

    Returns
    -------
    array, shape and dtype of `data`
        `out` if given, or else a new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of `indices` is out of bounds. It names the first such entry in C order.
    ShapeError
        The shapes do not fit.
    DTypeError
        `indices` is not of an integer type (booleans raise too), `updates` has another dtype
        than `data`, the reduction has no meaning for it, or an argument is no array.
    AttributeValueError
        `reduction` or `mode` is unknown, or `out` cannot be written.
    MemoryError
        The result does not fit in memory; nothing was touched.
    StoredArrayError
        A chunk could not be read or written; its `written` says which were written before.

    See Also
    --------
    gather_nd : Copies the slices back.
    scatter_elements : One index per element of the updates.

    Notes
    -----
    ONNX ScatterND-11 to 18, OpenVINO ScatterNDUpdate-3 and 15 and ``tf.tensor_scatter_nd_update``
    are this function under stricter rules.

    Of a stored array each chunk, or shard, that is met is read once, updated and replaced whole. An
    error half way leaves whole chunks, some of them updated, and has a note that says which. Two
    calls at once that meet the same chunks may lose updates. A ``mean`` takes 8 bytes more for
    each element of a chunk that is worked on.

    The result is, bit for bit, that of the loop above, for any number of threads: where tuples
    repeat, updates are applied in C order of `indices`, and the last one wins for ``none``.
    Integers wrap around in two's complement. Floats of every width, bfloat16 and float8 included,
    are rounded to their type at every step. For booleans add is or, sub is xor, mul is and. In
    ``min`` and ``max`` a NaN wins, and where both are equal the old element stays. ``mean`` is the
    result of ``add`` divided by the number, integers rounded down. Complex numbers have no order,
    booleans no mean, and all that is no number has ``none`` only.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import scatter_nd
    >>> data = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    >>> scatter_nd(data, [[4], [3], [1], [7]], [9, 10, 11, 12])
    array([ 1, 11,  3, 10,  9,  6,  7, 12])
    >>> scatter_nd(data, [[0], [0], [-1]], [10, 20, 30], reduction="add")
    array([31,  2,  3,  4,  5,  6,  7, 38])
    >>> rows = np.zeros((3, 2))
    >>> scatter_nd(rows, [[2], [0]], [[1, 2], [3, 4]], out=rows) is rows
    True
    >>> rows
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    >>> scatter_nd(data, [[0], [8]], [1, 2])
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: scatter_nd: indices[1, 0] = 8 is outside axis 0 of \
data, which has size 8 (allowed: -8..7)
    """


@fast_call
def scatter_elements(
    data: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: int = 0,
    *,
    reduction: Reduction = "none",
    mode: ScatterMode = "raise",
    use_init_val: bool = True,
    out: NDArray[Any] | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    executor: Executor | None = None,
) -> NDArray[Any]:
    """Replace elements of a copy of `data` along one axis, or combine them with `updates`.

    After ``out = data.copy()``, for every position `p` in ``indices.shape``, in C order::

        place = (*p[:axis], indices[p], *p[axis + 1 :])
        out[place] = f(out[place], updates[p])

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
    indices : array_like of any integer type, the rank of `data`
        On the axes other than `axis` its sizes may be smaller than those of `data`, never larger;
        nothing is broadcast.
    updates : array_like, shape of `indices`, dtype of `data`
        Numbers and lists are converted; see `scatter_nd`.
    axis : int, default 0
        ``-data.ndim..data.ndim-1``
    reduction, mode, use_init_val
        What `f` is, and what becomes of values outside of the axis; see `scatter_nd`.
    out : array, optional
        Takes the result, in place where it is `data`; see `scatter_nd`.

    Returns
    -------
    array, shape and dtype of `data`
        `out` if given, or else a new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        As for `scatter_nd`; and AttributeValueError where `axis` is out of range.

    See Also
    --------
    gather_elements : Copies the elements back.
    scatter_nd : One tuple of indices per slice.

    Notes
    -----
    ONNX ScatterElements-11 to 18 and OpenVINO ScatterElementsUpdate-3 and 12 are this function
    under stricter rules; ``torch.scatter`` and ``torch.scatter_reduce`` are it without negative
    values. Order, rounding and the meaning of each reduction are those of `scatter_nd`, whatever
    the number of threads. Along an axis that is not the last, one thread may use up to 1 MiB
    besides the result.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import scatter_elements
    >>> data = np.zeros((3, 3))
    >>> scatter_elements(data, [[1, 0, 2], [0, 2, 1]], [[1.0, 1.1, 1.2], [2.0, 2.1, 2.2]])
    array([[2. , 1.1, 0. ],
           [1. , 0. , 2.2],
           [0. , 2.1, 1.2]])
    >>> scatter_elements([[1, 2, 3, 4, 5]], [[1, 1]], [[11, 21]], axis=1, reduction="max")
    array([[ 1, 21,  3,  4,  5]])
    >>> scatter_elements([1, 2, 3], [0, 9], [7, 8], mode="drop")
    array([7, 2, 3])
    >>> scatter_elements([1, 2, 3], [0, 9], [7, 8])
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: scatter_elements: indices[1] = 9 is outside axis 0 of \
data, which has size 3 (allowed: -3..2)
    """
