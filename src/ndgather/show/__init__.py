"""Draw gather and scatter calls, showing which elements the indices address.

Each function has the same arguments as the function of the same name in `ndgather` and returns a
`Picture`, which notebooks display, ``print`` writes as text, and ``save`` writes as an SVG file. If
a call fails, it is drawn with the error in red. For large arrays, only the surroundings of indexed
elements are drawn. The values of stored and lazy arrays are read only if these arrays are small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ndgather import api, ranges
from ndgather.array_call import Call
from ndgather.errors import NdgatherError
from ndgather.show.evaluate import shape_of
from ndgather.show.picture import Picture, draw
from ndgather.show.svg import style_sheet

__all__ = [
    "Picture",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_ranges",
    "gather_windows",
    "scatter_elements",
    "scatter_nd",
    "style_sheet",
]

_DOCUMENTATION = """Draw a call of `ndgather.{name}`.

    Parameters
    ----------
    {parameters}
        See `ndgather.{name}`; `out`, `memory`, `progress` and `executor` are ignored.

    Returns
    -------
    Picture
        The picture. Its attribute `error` is the exception of the call, or None.

    Raises
    ------
    CallError
        An argument is missing or unknown.
    DTypeError, ShapeError
        An argument is not an array or a shape. All other errors of the call are drawn.

    Examples
    --------
    >>> import ndgather.show
    {example}
    """


def _drawing(name: str, example: str) -> Callable[..., Picture]:
    """Return a function that draws calls of ``ndgather.<name>``."""
    signature = api.SIGNATURES[name]

    def draw_call(*args: Any, **kwargs: Any) -> Picture:
        call = api.call_of(name, *args, **kwargs)
        call = replace(call, out=None, memory=None, progress=None, executor=None)
        return draw(call) if call.indices is not None else _draw_ranges(call, *args, **kwargs)

    draw_call.__name__ = draw_call.__qualname__ = name
    draw_call.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect.signature
    draw_call.__doc__ = _DOCUMENTATION.format(
        name=name, parameters=", ".join(signature.parameters), example=example.strip()
    )
    return draw_call


def _draw_ranges(call: Call, *args: Any, **kwargs: Any) -> Picture:
    """Draw the positions in each range, unless the range is out of bounds."""
    given = api.SIGNATURES["gather_ranges"].bind(*args, **kwargs).arguments
    stops, lengths = given.get("stops"), given.get("lengths")
    shape = shape_of(call)
    call = ranges.with_axis(call, shape)
    named = ranges.read(call.caller, given["starts"], stops, lengths, shape[call.axis])
    error = None
    try:
        ranges.check(call, named, lengths is not None)
    except NdgatherError as raised:
        error = raised
    return draw(replace(call, indices=named.positions(call.caller), negative=False), error=error)


gather_nd = _drawing(
    "gather_nd",
    """
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
    """,
)

gather_elements = _drawing(
    "gather_elements",
    """
    >>> print(ndgather.show.gather_elements([[1, 2, 3], [4, 5, 6]], [[1, 0, 1]]).to_text(80))
    gather_elements(data, indices)
    <BLANKLINE>
    data  int64 (2, 3)    indices  int64 (1, 3)    result  int64 (1, 3)
         0    1    2           0    1    2              0    1    2
    0    1  2 b    3      0  1 a  0 b  1 c         0  4 a  2 b  6 c
    1  4 a    5  6 c
    """,
)

gather = _drawing(
    "gather",
    """
    >>> print(ndgather.show.gather([[1, 2, 3], [4, 5, 6]], [2, 0], axis=1).to_text(80))
    gather(data, indices, axis=1)
    <BLANKLINE>
    data  int64 (2, 3)    indices  int64 (2,)    result  int64 (2, 2)
         0  1    2          0    1                    0    1
    0  1 b  2  3 a        2 a  0 b               0  3 a  1 b
    1  4 b  5  6 a                               1  6 a  4 b
    """,
)

gather_ranges = _drawing(
    "gather_ranges",
    """
    >>> print(ndgather.show.gather_ranges([1, 2, 3, 4], [2, 0], [4, 1]).to_text(80))
    gather_ranges(data, starts, stops)
    <BLANKLINE>
    data  int64 (4,)    indices  int64 (3,)    result  int64 (3,)
      0  1    2    3      0    1    2            0    1    2
    1 c  2  3 a  4 b    2 a  3 b  0 c          3 a  4 b  1 c
    """,
)

gather_windows = _drawing(
    "gather_windows",
    """
    >>> print(ndgather.show.gather_windows([1, 2, 3, 4], [[0], [1]], (2,)).to_text(80))
    gather_windows(data, starts, (2,))
    <BLANKLINE>
    data  int64 (4,)      starts  int64 (2, 1)    result  int64 (2, 2)
      0      1    2  3         axis 0                  0    1
    1 a  2 a b  3 b  4    [0]     0 a             0  1 a  2 a
                          [1]     1 b             1  2 b  3 b
    """,
)

scatter_nd = _drawing(
    "scatter_nd",
    """
    >>> print(ndgather.show.scatter_nd([0, 0, 0], [[1], [1]], [7, 8]).to_text(100))
    scatter_nd(data, indices, updates)
    <BLANKLINE>
    data  int64 (3,)    indices  int64 (2, 1)    updates  int64 (2,)    result  int64 (3,)
    0      1  2              axis 0                0    1               0      1  2
    0  0 a b  0         [0]     1 a              7 a  8 b               0  8 a b  0
                        [1]     1 b
    <BLANKLINE>
    result[1]: a, then b; the last one stays
    """,
)

scatter_elements = _drawing(
    "scatter_elements",
    """
    >>> picture = ndgather.show.scatter_elements([1, 2, 3], [0, 0], [7, 8], reduction="add")
    >>> print(picture.to_text(100))
    scatter_elements(data, indices, updates, reduction='add')
    <BLANKLINE>
    data  int64 (3,)    indices  int64 (2,)    updates  int64 (2,)    result  int64 (3,)
        0  1  2           0    1                 0    1                    0  1  2
    1 a b  2  3         0 a  0 b               7 a  8 b               16 a b  2  3
    <BLANKLINE>
    result[0]: data[0] + a + b
    """,
)
