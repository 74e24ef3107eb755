"""Pictures of calls: which elements each entry of indices names, and where they go.

Each function takes the arguments of the function of `ndgather` with its name, and returns a
`Picture`: a notebook draws it, ``print`` writes it as text, ``save`` makes an SVG or PNG file. A
call that fails is drawn too, with what is wrong in red. Large arrays are drawn in part, with a map
of where the reads go; of stored arrays nothing is read that is not drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather import slow_path
from ndgather.array_call import Call
from ndgather.show.picture import Picture, picture
from ndgather.show.svg import style_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


__all__ = [
    "Picture",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_windows",
    "scatter_elements",
    "scatter_nd",
    "style_sheet",
]


def gather_nd(
    data: ArrayLike,
    indices: ArrayLike,
    batch_dims: int = 0,
    *,
    mode: str = "raise",
    fill_value: object = None,
) -> Picture:
    """Draw a call of `ndgather.gather_nd`, which has the same arguments.

    The picture shows, with ``b = batch_dims``, for every position `p` in ``indices.shape[:-1]``::

        result[p] = data[(*p[:b], *indices[p])]

    Parameters
    ----------
    data, indices, batch_dims, mode, fill_value
        See `ndgather.gather_nd`. A stored array may be any that the function takes.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError
        An argument is not an array. All other errors are drawn; `Picture.error` has them.

    Examples
    --------
    >>> import ndgather.show
    >>> picture = ndgather.show.gather_nd([[10, 11, 12], [20, 21, 22]], [[0, 2], [1, -3]])
    >>> print(picture.to_text(80))
    gather_nd(data, indices)
    <BLANKLINE>
    data  int64 (2, 3)    indices  int64 (2, 2)    result  int64 (2,)
          0   1     2          axis 0  axis 1         0     1
    0    10  11  12 a     [0]     0 a     2 a      12 a  20 b
    1  20 b  21    22     [1]     1 b  -3→0 b
    <BLANKLINE>
    -3 counts from the end of its axis: it is 0
    >>> ndgather.show.gather_nd([10, 11], [[5]]).error
    IndexOutOfBoundsError('gather_nd: indices[0, 0] = 5 is outside axis 0 of data, which has size \
2 (allowed: -2..1)')
    """
    options = {"batch_dims": batch_dims, "mode": mode, "fill_value": fill_value}
    return _picture("gather_nd", data, indices, **options)


def gather_elements(
    data: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    *,
    mode: str = "raise",
    fill_value: object = None,
) -> Picture:
    """Draw a call of `ndgather.gather_elements`, which has the same arguments.

    Parameters
    ----------
    data, indices, axis, mode, fill_value
        See `ndgather.gather_elements`.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError
        An argument is not an array.

    Examples
    --------
    >>> import ndgather.show
    >>> print(ndgather.show.gather_elements([[1, 2, 3], [4, 5, 6]], [[1, 0, 1]]).to_text(80))
    gather_elements(data, indices)
    <BLANKLINE>
    data  int64 (2, 3)    indices  int64 (1, 3)    result  int64 (1, 3)
         0    1    2           0    1    2              0    1    2
    0    1  2 b    3      0  1 a  0 b  1 c         0  4 a  2 b  6 c
    1  4 a    5  6 c
    """
    return _picture("gather_elements", data, indices, axis=axis, mode=mode, fill_value=fill_value)


def gather(
    data: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    mode: str = "raise",
    fill_value: object = None,
) -> Picture:
    """Draw a call of `ndgather.gather`, which has the same arguments.

    Parameters
    ----------
    data, indices, axis, batch_dims, mode, fill_value
        See `ndgather.gather`.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError
        An argument is not an array.

    Examples
    --------
    >>> import ndgather.show
    >>> print(ndgather.show.gather([[1, 2, 3], [4, 5, 6]], [2, 0], axis=1).to_text(80))
    gather(data, indices, axis=1)
    <BLANKLINE>
    data  int64 (2, 3)    indices  int64 (2,)    result  int64 (2, 2)
         0  1    2          0    1                    0    1
    0  1 b  2  3 a        2 a  0 b               0  3 a  1 b
    1  4 b  5  6 a                               1  6 a  4 b
    """
    options = {"axis": axis, "batch_dims": batch_dims, "mode": mode, "fill_value": fill_value}
    return _picture("gather", data, indices, **options)


def gather_windows(
    data: ArrayLike,
    starts: ArrayLike,
    window_shape: Sequence[int],
    *,
    mode: str = "raise",
    fill_value: object = None,
) -> Picture:
    """Draw a call of `ndgather.gather_windows`, which has the same arguments.

    Parameters
    ----------
    data, starts, window_shape, mode, fill_value
        See `ndgather.gather_windows`.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError, ShapeError
        An argument is not an array, or `window_shape` is not a shape.

    Examples
    --------
    >>> import ndgather.show
    >>> print(ndgather.show.gather_windows([1, 2, 3, 4], [[0], [1]], (2,)).to_text(80))
    gather_windows(data, starts, (2,))
    <BLANKLINE>
    data  int64 (4,)      starts  int64 (2, 1)    result  int64 (2, 2)
      0      1    2  3         axis 0                  0    1
    1 a  2 a b  3 b  4    [0]     0 a             0  1 a  2 a
                          [1]     1 b             1  2 b  3 b
    """
    caller = "gather_windows"
    sizes = slow_path.sizes(caller, "window_shape", window_shape)
    options = {"mode": mode, "fill_value": fill_value, "window_shape": sizes}
    return _picture(caller, data, starts, **options)


def scatter_nd(
    data: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
) -> Picture:
    """Draw a call of `ndgather.scatter_nd`, which has the same arguments; `data` stays as it is.

    Where several updates meet one place, their letters stand in the order in which they land.

    Parameters
    ----------
    data, indices, updates, reduction, mode, use_init_val
        See `ndgather.scatter_nd`.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError
        An argument is not an array.

    Examples
    --------
    >>> import ndgather.show
    >>> print(ndgather.show.scatter_nd([0, 0, 0], [[1], [1]], [7, 8]).to_text(100))
    scatter_nd(data, indices, updates)
    <BLANKLINE>
    data  int64 (3,)    indices  int64 (2, 1)    updates  int64 (2,)    result  int64 (3,)
    0      1  2              axis 0                0    1               0      1  2
    0  0 a b  0         [0]     1 a              7 a  8 b               0  8 a b  0
                        [1]     1 b
    <BLANKLINE>
    result[1]: a, then b; the last one stays
    """
    options = {"reduction": reduction, "mode": mode, "use_init_val": use_init_val}
    return _picture("scatter_nd", data, indices, updates=updates, **options)


def scatter_elements(
    data: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: int = 0,
    *,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
) -> Picture:
    """Draw a call of `ndgather.scatter_elements`, which has the same arguments.

    Parameters
    ----------
    data, indices, updates, axis, reduction, mode, use_init_val
        See `ndgather.scatter_elements`; `data` stays as it is.

    Returns
    -------
    Picture

    Raises
    ------
    DTypeError
        An argument is not an array.

    Examples
    --------
    >>> import ndgather.show
    >>> picture = ndgather.show.scatter_elements([1, 2, 3], [0, 0], [7, 8], reduction="add")
    >>> print(picture.to_text(100))
    scatter_elements(data, indices, updates, reduction='add')
    <BLANKLINE>
    data  int64 (3,)    indices  int64 (2,)    updates  int64 (2,)    result  int64 (3,)
        0  1  2           0    1                 0    1                    0  1  2
    1 a b  2  3         0 a  0 b               7 a  8 b               16 a b  2  3
    <BLANKLINE>
    result[0]: data[0] + a + b
    """
    options = {"reduction": reduction, "mode": mode, "use_init_val": use_init_val}
    return _picture("scatter_elements", data, indices, updates=updates, axis=axis, **options)


def _picture(kind: str, data: ArrayLike, indices: ArrayLike, **options: Any) -> Picture:
    return picture(Call(kind, kind, data, indices, **options))
