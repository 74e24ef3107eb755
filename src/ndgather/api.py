"""The signatures and docstrings of the public functions."""

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
    """Return the `Call` that the public function `caller` builds from these arguments.

    For `gather_ranges`, the call omits the starts, stops and lengths.
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
    """Return a core function with the name, signature and docstring of `function`.

    The body of `function` is never run. The function name must be the value of a `Kind`, and all
    parameter names must be in ``_core.ARGUMENTS``.
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
    """Gather slices of `data` at index tuples.

    Each vector along the last axis of `indices` is an index tuple. A tuple with an index for every
    axis of `data` selects an element. A shorter tuple selects a slice.

    Parameters
    ----------
    data : array_like, shape ``(B..., D1, ..., Dk, S...)``, any dtype
        The array to read from. ``B...`` are the `batch_dims` axes shared with `indices`, and
        ``S...`` is the shape of a slice.
    indices : array_like of integers, shape ``(B..., N..., k)``
        Index tuples of length `k`, where ``0 <= k <= data.ndim - batch_dims``. Tuples of length 0
        select the whole batch, so ``[[]]`` is valid, but ``[]`` is not: for no tuples at all, use
        ``np.empty((0, k), int)``. For one array per axis, as in NumPy indexing, use
        ``np.stack(indices, axis=-1)``.
    batch_dims : int, default 0
        Number of leading axes that `data` and `indices` share. Their sizes must be equal.
    mode : {"raise", "wrap", "clip", "fill"}, default "raise"
        How to interpret an index `v` along an axis of size `s`:

        - ``raise``: negative indices count from the end; an index outside ``-s..s-1`` raises an
          error.
        - ``wrap``: use ``v`` modulo ``s``.
        - ``clip``: use the nearest index in ``0..s-1``; negative indices become 0.
        - ``fill``: like ``raise``, but an out-of-bounds tuple selects a slice of `fill_value`.
    fill_value : scalar, default zero of the dtype
        Used if ``mode="fill"``; must be representable in the dtype of `data`.
    out : array, optional
        Array for the result, with matching shape and dtype and any strides. `out` may overlap
        `data` and `indices`. If the call fails, `out` is unchanged unless a stored array could not
        be read.
    memory : int or str, optional
        For stored arrays: the maximum size of the buffers in bytes, or a string like
        ``"512 MiB"``, in addition to the result and 8 bytes per index tuple.
    progress : callable or bool, optional
        For stored arrays: a function that the calling thread calls with the completed and total
        numbers of chunks. Pass True to display a tqdm progress bar.
    executor : optional
        For stored arrays: the executor that reads the chunks, as in `concurrent.futures`. By
        default, threads of this process read the chunks.

    Returns
    -------
    array, shape ``(B..., N..., S...)``, dtype of `data`
        `out` if given, otherwise a new C-contiguous array. Elements are copied bit for bit.

    Raises
    ------
    IndexOutOfBoundsError
        If an index is out of bounds, even if the result is empty. The error names the first
        out-of-bounds index in C order. Memory outside `data` is never read.
    ShapeError
        If the shapes do not match, including the shape of `out`.
    DTypeError
        If `indices` is not of an integer type (bool is not one) or an argument is not an array.
    AttributeValueError
        If `batch_dims` is out of range, `mode` is unknown, or `out` is not writable.
    MemoryError
        If the result does not fit in memory. The error is raised before anything is read or
        written.

    See Also
    --------
    gather_elements : Gather one element per index along an axis.
    gather : Gather whole slices along one axis.

    Notes
    -----
    With ``b = batch_dims``, for each position `p` in ``indices.shape[:-1]``::

        out[p] = data[(*p[:b], *indices[p])]

    ONNX GatherND-11 to 13, OpenVINO GatherND-8 and ``tf.gather_nd`` are stricter versions of this
    function. Large calls run in several threads (see `set_num_threads`), and calls that run longer
    than about 10 microseconds release the GIL.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather import gather_nd
    >>> data = np.array([[10, 11, 12], [20, 21, 22]])
    >>> gather_nd(data, [[0, 2], [1, -3]])  # elements
    array([12, 20])
    >>> gather_nd(data, [[1], [0]])  # rows
    array([[20, 21, 22],
           [10, 11, 12]])
    >>> gather_nd(data, [[2], [0]], batch_dims=1)  # an element of each row
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
    """Gather one element of `data` along an axis for each index.

    An entry of `indices` selects a position along `axis`. On axes other than `axis`, the gathered
    element has the same coordinates as the entry. The indices can be the result of ``argmax`` or
    ``argsort``, for example.

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
        The array to read from.
    indices : array_like of integers, same rank as `data`
        Along axes other than `axis`, it may be smaller than `data` but not larger. It is not
        broadcast.
    axis : int, default 0
        The axis to index, in ``-data.ndim..data.ndim-1``.
    mode, fill_value, out, memory, progress, executor
        See `gather_nd`.

    Returns
    -------
    array, shape of `indices`, dtype of `data`
        `out` if given, otherwise a new C-contiguous array. Elements are copied bit for bit.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        See `gather_nd`.

    See Also
    --------
    gather_nd : Gather slices at index tuples.
    scatter_elements : The inverse operation.

    Notes
    -----
    For each position `p` in ``indices.shape``::

        out[p] = data[(*p[:axis], indices[p], *p[axis + 1 :])]

    ONNX GatherElements-11 and 13 and OpenVINO GatherElements-6 are stricter versions of this
    function. ``torch.gather`` rejects negative indices, and ``numpy.take_along_axis`` broadcasts
    its arguments. Unless `axis` is the last axis, each thread may use up to 1 MiB of temporary
    memory.

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
    """Gather whole slices of `data` along one axis.

    Without `batch_dims`, this function is equivalent to ``numpy.take``. Each index selects a slice
    at a position along `axis`, and the axes of `indices` replace `axis` in the result.

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
        The array to read from.
    indices : array_like of integers, any rank
        Positions along `axis`. A single integer removes the axis.
    axis : int, default 0
        The axis to index, in ``-data.ndim..data.ndim-1``.
    batch_dims : int, default 0
        Number of leading axes that `data` and `indices` share, at most `axis` and the rank of
        `indices`. A negative value is relative to the rank of `indices` and must be at least
        ``-min(data.ndim, indices.ndim)``.
    mode, fill_value, out, memory, progress, executor
        See `gather_nd`.

    Returns
    -------
    array, shape ``data.shape[:axis] + indices.shape[b:] + data.shape[axis+1:]``, dtype of `data`
        `out` if given, otherwise a new C-contiguous array. Elements are copied bit for bit.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        See `gather_nd`.

    See Also
    --------
    gather_nd : Gather slices at index tuples.

    Notes
    -----
    With ``b = batch_dims``, for each position `o` in ``data.shape[:axis]``, `p` in
    ``indices.shape[b:]`` and `s` in ``data.shape[axis+1:]``::

        out[(*o, *p, *s)] = data[(*o, indices[(*o[:b], *p)], *s)]

    ONNX Gather-1 to 13 and OpenVINO Gather-1 to 8 are stricter versions of this function.

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
    """Gather windows of the same shape from `data`, given their start positions.

    Each vector along the last axis of `starts` is the first position of a window, for example of an
    image patch or a section of a time series. Axes of `data` that have no window size are
    copied whole.

    Parameters
    ----------
    data : array_like, shape ``(D1, ..., Dk, S...)``, any dtype
        The array to read from.
    starts : array_like of integers, shape ``(N..., k)``
        The first position of each window. A negative start lies before the beginning of the axis
        and never counts from the end.
    window_shape : sequence of int, length `k`
        The shape of a window along the first `k` axes of `data`.
    mode : {"raise", "clip", "fill", "wrap", "edge", "reflect"}, default "raise"
        How to treat a window that extends past the bounds of `data`:

        - ``raise``: raise an error.
        - ``clip``: move the window to the nearest position inside `data`.
        - ``fill``: fill positions outside `data` with `fill_value`.
        - ``wrap``, ``edge``, ``reflect``: extend `data` as ``numpy.pad`` does in these modes.

        A sequence gives one mode for each axis of a window, for example ``("edge", "wrap")`` for
        latitude and longitude.
    fill_value, out, memory, progress, executor
        See `gather_nd`.

    Returns
    -------
    array, shape ``(N..., window_shape..., S...)``, dtype of `data`
        `out` if given, otherwise a new C-contiguous array. Elements are copied bit for bit.

    Raises
    ------
    IndexOutOfBoundsError
        If `mode` is ``raise`` and a window extends past the bounds of `data`. The error names the
        first entry of `starts` in C order that does.
    ShapeError
        If the shapes do not match, `window_shape` is not a valid shape, a window is larger than
        `data` in mode ``raise`` or ``clip``, or an axis that would have to be extended is empty.
    DTypeError, AttributeValueError, MemoryError
        See `gather_nd`.

    See Also
    --------
    gather_nd : Gather slices at index tuples.

    Notes
    -----
    For each position `p` in ``starts.shape[:-1]`` and `w` in ``window_shape``::

        out[(*p, *w)] = data[tuple(starts[p] + w)]

    In mode ``raise``, the result equals NumPy's ``sliding_window_view(data, window_shape)`` indexed
    by `starts`. ``jax.lax.gather`` and StableHLO also gather windows, but in mode ``fill`` they
    fill the entire window if any part of the window is out of bounds.

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
    >>> gather_windows(data, [[2, 4]], (2, 2), mode=("raise", "wrap"))  # across the date line
    array([[[14, 10],
            [19, 15]]])
    >>> gather_windows(data, [[0, 0], [3, 1]], (2, 2))
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: gather_windows: starts[1, 0] = 3 makes a window of size \
2 extend past axis 0 of data, which has size 4 (allowed: 0..2)
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
    """Gather ranges of different lengths along one axis and concatenate them.

    Each range, for example a row of a sparse matrix, is given by its start and its stop or length.
    The function also returns the offset at which each range begins in the result.

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
        The array to read from.
    starts : array_like of integers, rank 1
        The first position of each range. A negative start lies before the beginning of the axis and
        never counts from the end. Ranges may overlap, repeat and be empty.
    stops : array_like of integers, shape of `starts`
        The position after the end of each range, not less than its start.
    lengths : int or array_like of integers, shape of `starts`
        The length of each range, instead of `stops`.
    axis : int, default 0
        The axis to index, in ``-data.ndim..data.ndim-1``.
    mode : {"raise", "wrap", "clip", "fill"}, default "raise"
        How to treat positions outside ``0..s-1`` along an axis of size `s`: raise an error, take
        them modulo `s`, use the nearest valid position, or fill in `fill_value`. An empty range is
        never out of bounds.
    fill_value, out, memory, progress, executor
        See `gather_nd`. `out` receives the values.

    Returns
    -------
    values : array, shape of `data` except for the sum of all lengths along `axis`, dtype of `data`
        `out` if given, otherwise a new C-contiguous array. Elements are copied bit for bit.
    offsets : array of int64, shape ``(len(starts) + 1,)``
        The offset at which each range begins in `values`, followed by the total length. A tensor if
        `data` is a TensorFlow tensor or a torch tensor (on the same device).

    Raises
    ------
    IndexOutOfBoundsError
        If `mode` is ``raise`` and a non-empty range extends past the bounds of the axis. The error
        names the entry of `starts`, `stops` or `lengths` that belongs to the first such range.
    CallError
        If neither `stops` nor `lengths` is given, or both are.
    AttributeValueError
        If a stop is less than its start, a length is negative, `axis` is out of range, or `mode` is
        unknown.
    ShapeError, DTypeError, MemoryError
        See `gather_nd`.

    See Also
    --------
    gather_windows : Gather boxes of equal shape.
    gather : Gather whole slices along one axis.

    Notes
    -----
    For ``axis=0`` and each `i` in ``range(len(starts))``::

        values[offsets[i] : offsets[i + 1]] = data[starts[i] : stops[i]]

    A chunk of a stored array is read only once, even if several ranges need the chunk. Starts and
    stops are always read on the CPU. If a range extends past the bounds of the axis, or if `data`
    belongs to another library, the call needs 8 bytes of temporary memory per gathered position.

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
    """Update slices of a copy of `data` at index tuples.

    Each vector along the last axis of `indices` is an index tuple, as in `gather_nd`. By default,
    each update replaces the slice that the index tuple selects. With `reduction`, each update is
    instead combined with the slice, for example by addition.

    Parameters
    ----------
    data : array_like, shape ``(D1, ..., Dk, S...)``, any dtype
        The initial values. ``S...`` is the shape of a slice.
    indices : array_like of integers, shape ``(N..., k)``
        Index tuples of length `k`, where ``0 <= k <= data.ndim``. Tuples of length 0 select all of
        `data`.
    updates : array_like, shape ``(N..., S...)``, dtype of `data`
        One slice for each index tuple. Numbers and lists are converted to the dtype of `data` if it
        can represent their values; floats may be rounded.
    reduction : {"none", "add", "sub", "mul", "min", "max", "mean"}, default "none"
        How to combine an element with an update. ``none`` replaces the element, ``sub`` subtracts
        the update from it, and ``mean`` computes the mean of the element and all its updates.
    mode : {"raise", "wrap", "clip", "drop"}, default "raise"
        How to interpret out-of-bounds indices; see `gather_nd`. ``drop`` is like ``raise``, but the
        updates of out-of-bounds tuples are skipped.
    use_init_val : bool, default True
        Whether the elements of `data` take part in the reduction. If False, an element with updates
        starts from the identity of the reduction: 0 for ``add``, 1 for ``mul``, the greatest value
        of the dtype for ``min`` and the least for ``max``. Has no effect on ``none``.
    out : array, optional
        Array for the result, with the shape and dtype of `data` and any strides. Use ``out=data``
        to update in place; a stored array can only be updated in place. `out` may overlap all other
        arguments. If the call fails, `out` is unchanged unless it is a stored array.
    memory, progress, executor
        See `gather_nd`.

    Returns
    -------
    array, shape and dtype of `data`
        `out` if given, otherwise a new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError
        If an index is out of bounds. The error names the first out-of-bounds index in C order.
    ShapeError
        If the shapes do not match.
    DTypeError
        If `indices` is not of an integer type (bool is not one), `updates` and `data` have
        different dtypes, the dtype does not support the reduction, or an argument is not an array.
    AttributeValueError
        If `reduction` or `mode` is unknown, or `out` is not writable.
    MemoryError
        If the result does not fit in memory. The error is raised before anything is read or
        written.
    StoredArrayError
        If a chunk could not be read or written. Its attribute `written` lists the chunks that were
        written before the error.

    See Also
    --------
    gather_nd : Gather slices at index tuples.
    scatter_elements : Update one element per index along an axis.

    Notes
    -----
    After ``out = data.copy()``, for each position `p` in ``indices.shape[:-1]``, in C order::

        out[tuple(indices[p])] = reduce(out[tuple(indices[p])], updates[p])

    For any number of threads, the result has the same bits as the result of this loop. Updates at
    duplicate indices are applied in C order, so the last update wins for reduction ``none``.
    Integers wrap around on overflow. Floats, including bfloat16 and float8, are rounded after every
    step. For booleans, ``add`` is logical OR, ``sub`` is XOR, and ``mul`` is AND. ``min`` and
    ``max`` propagate NaN and keep the old element if it equals the update. ``mean`` divides the sum
    by the count, rounding down for integers. Complex numbers do not support ``min`` and ``max``,
    booleans do not support ``mean``, and non-numeric dtypes support only ``none``.

    In a stored array, each chunk (or shard) that contains a target is read once, updated and
    rewritten as a whole. If the call fails midway, a note on the error lists the chunks that were
    already updated. Concurrent calls that update the same chunks may lose updates. ``mean`` needs 8
    additional bytes per element of the chunks being processed.

    ONNX ScatterND-11 to 18, OpenVINO ScatterNDUpdate-3 and 15 and ``tf.tensor_scatter_nd_update``
    are stricter versions of this function.

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
    >>> scatter_nd(rows, [[2], [0]], [[1, 2], [3, 4]], out=rows) is rows  # in place
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
    """Update one element along an axis for each index, in a copy of `data`.

    An entry of `indices` selects a position along `axis`, as in `gather_elements`. The argument
    `reduction` specifies how updates are combined with elements, as in `scatter_nd`.

    Parameters
    ----------
    data : array_like, rank 1 or more, any dtype
        The initial values.
    indices : array_like of integers, same rank as `data`
        Along axes other than `axis`, it may be smaller than `data` but not larger. It is not
        broadcast.
    updates : array_like, shape of `indices`, dtype of `data`
        One update for each index. Numbers and lists are converted; see `scatter_nd`.
    axis : int, default 0
        The axis to index, in ``-data.ndim..data.ndim-1``.
    reduction, mode, use_init_val, out, memory, progress, executor
        See `scatter_nd`.

    Returns
    -------
    array, shape and dtype of `data`
        `out` if given, otherwise a new C-contiguous array.

    Raises
    ------
    IndexOutOfBoundsError, ShapeError, DTypeError, AttributeValueError, MemoryError
        See `scatter_nd`. AttributeValueError also if `axis` is out of range.

    See Also
    --------
    gather_elements : Gather one element per index along an axis.
    scatter_nd : Update slices at index tuples.

    Notes
    -----
    After ``out = data.copy()``, for each position `p` in ``indices.shape``, in C order::

        target = (*p[:axis], indices[p], *p[axis + 1 :])
        out[target] = reduce(out[target], updates[p])

    ONNX ScatterElements-11 to 18 and OpenVINO ScatterElementsUpdate-3 and 12 are stricter versions
    of this function. ``torch.scatter`` and ``torch.scatter_reduce`` reject negative indices. Unless
    `axis` is the last axis, each thread may use up to 1 MiB of temporary memory.

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
