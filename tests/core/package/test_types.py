"""Results have the types that the stubs declare; `make lint` runs mypy on this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np

import ndgather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Array = NDArray[Any]
    Known = np.ndarray[Any, Any]  # as mypy sees it if the type of data is unknown

DATA = np.arange(6.0).reshape(2, 3)
ROWS = np.array([[1], [0]])


class Marked:
    """An array of another library, whose results have its type."""

    class Adapter:
        @staticmethod
        def run(_: Call) -> Marked:
            return Marked()

    __ndgather_adapter__ = Adapter


def test_numpy_input_gives_numpy_arrays() -> None:
    results = [
        assert_type(ndgather.gather_nd(DATA, ROWS), "Known"),
        assert_type(ndgather.gather_nd([[1, 2]], [[0]]), "Array"),
        assert_type(ndgather.gather(DATA, 1, axis=1, out=np.zeros(2)), "Known"),
        assert_type(ndgather.gather_elements(DATA, [[0, 1, 0]]), "Known"),
        assert_type(ndgather.gather_windows(DATA, ROWS, (1,)), "Known"),
        assert_type(ndgather.scatter_nd(DATA, ROWS, DATA, reduction="add"), "Known"),
        assert_type(ndgather.scatter_elements([1, 2], [0], [5]), "Array"),
    ]
    for each in results:
        assert type(each) is np.ndarray


def test_other_arrays_keep_their_type() -> None:
    data = Marked()
    results = [
        assert_type(ndgather.gather_nd(data, ROWS), Marked),
        assert_type(ndgather.gather(data, data, out=data), Marked),
        assert_type(ndgather.gather_elements(data, ROWS), Marked),
        assert_type(ndgather.gather_windows(data, ROWS, (1,)), Marked),
        assert_type(ndgather.scatter_nd(data, ROWS, data), Marked),
        assert_type(ndgather.scatter_elements(data, ROWS, 1.0), Marked),
    ]
    for each in results:
        assert type(each) is Marked
