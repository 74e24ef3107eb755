"""Every pair of options of a function occurs in some call, and results match the loops."""

import numpy as np
import pytest

from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import (
    assert_same_numbers,
    bad_entries,
    expected,
)
from tests.definitions.covering import FUNCTIONS, compare_covering_calls


@pytest.mark.parametrize("function", FUNCTIONS)
def test_option_pairs_match_the_definition(function, draws):
    compare_covering_calls(compare, draws, function, out=(None, "new", "strided", "data"))


def compare(row, call):
    kind_of_out = row["out"]
    windows = call.function in ("gather_windows", "gather_ranges")
    if not windows and (bad := bad_entries(call)):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result()
        assert (caught.value.position, caught.value.count) == (bad[0].position, len(bad))
        return
    with np.errstate(all="ignore"):
        desired = expected(call)
    arguments, more = list(call.arguments()), {}
    if kind_of_out == "data" and call.scatters:
        more["out"] = arguments[0] = np.array(call.data, order="K")
    elif kind_of_out in ("new", "strided"):
        more["out"] = np.empty(desired.shape[::-1], desired.dtype).T
        if kind_of_out == "new":
            more["out"] = np.empty_like(desired, order="C")
    result = call.result(*arguments, **more)
    if more and call.function != "gather_ranges":
        assert result is more["out"]
    assert_same_numbers(result, desired)
