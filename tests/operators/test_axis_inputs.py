"""An axis that is an input counts by its value, in every call anew."""

import numpy as np
import pytest

from ndgather.published import operator

DATA = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("version", [1, 7, 8])
def test_gather_follows_the_axis_of_each_call(version):
    gather = operator("Gather", domain="openvino", version=version)
    for axis in (0, 1, -1, 0, 1):
        result = gather(DATA, np.array([1]), np.array(axis))
        np.testing.assert_array_equal(result, np.take(DATA, [1], axis), strict=True)


@pytest.mark.parametrize("version", [3, 12])
def test_scatter_follows_the_axis_of_each_call(version):
    scatter = operator("ScatterElementsUpdate", domain="openvino", version=version)
    expected = {0: [[0, 1, 2], [9, 4, 5]], 1: [[0, 9, 2], [3, 4, 5]]}
    for axis in (0, 1, 0, 1):
        result = scatter(DATA, np.array([[1]]), np.array([[9]]), np.array([axis]))
        np.testing.assert_array_equal(result, np.array(expected[axis]), strict=True)
