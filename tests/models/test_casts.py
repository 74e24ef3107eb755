"""Conversions between element types: representable values are converted, others are refused."""

import numpy as np
import pytest

from ndgather.errors import DTypeError
from ndgather.models.graph.evaluation import converted

F32, F64 = np.float32, np.float64


@pytest.mark.parametrize(
    ("given", "dtype", "expected"),
    [
        (np.array([-1, 255, 256], np.int32), "uint8", np.array([255, 255, 0], np.uint8)),
        (np.array([1.9, -1.9], F32), "int8", np.array([1, -1], np.int8)),
        (np.array([127.9, -128.9], F64), "int8", np.array([127, -128], np.int8)),
        (np.array([255.5, -0.5], F64), "uint8", np.array([255, 0], np.uint8)),
        (np.array([0.0, -0.0, 0.5, -2.0, np.nan], F32), "bool", np.array([0, 0, 1, 1, 1], bool)),
        (np.array([-3, 0], np.int8), "bool", np.array([True, False])),
        (np.array([True, False]), "int64", np.array([1, 0])),
        (np.array([np.inf, np.nan], F64), "float32", np.array([np.inf, np.nan], F32)),
        (np.array([2**63 - 1]), "float32", np.array([2**63], F32)),
        (np.array(7, np.uint64), "int64", np.array(7)),
    ],
)
def test_representable_values_are_converted(given, dtype, expected):
    np.testing.assert_array_equal(converted(given, dtype), expected, strict=True)


@pytest.mark.parametrize(
    ("given", "dtype", "what"),
    [
        (np.array([[0, 128]], np.int32), "int8", "input[0, 1] = 128 cannot be represented in int8"),
        (np.array([2**63], np.uint64), "int64", "input[0] = 9223372036854775808 cannot"),
        (np.array([0.0, 128.0], F32), "int8", "input[1] = 128.0 cannot"),
        (np.array([2.0**63], F64), "int64", "input[0] = 9.223372036854776e+18 cannot"),
        (np.array([-129.0], F64), "int8", "input[0] = -129.0 cannot"),
        (np.array([-1.0], F64), "uint8", "input[0] = -1.0 cannot"),
        (np.array([256.0], F64), "uint8", "input[0] = 256.0 cannot"),
        (np.array([np.nan], F64), "int64", "input[0] = nan cannot"),
        (np.array([1e39], F64), "float32", "input[0] = 1e+39 cannot be represented in float32"),
        (np.array([70000]), "float16", "input[0] = 70000 cannot be represented in float16"),
        (np.array(["a"], object), "int64", "dtype = string cannot be converted to int64"),
        (np.array([1j]), "float64", "dtype = complex128 cannot be converted to float64"),
    ],
)
def test_unrepresentable_values_are_refused(given, dtype, what):
    with pytest.raises(DTypeError) as refused:
        converted(given, dtype)
    assert str(refused.value).startswith(what)


def test_converting_to_the_same_type_returns_the_array():
    array = np.array([np.nan])
    assert converted(array, "float64") is array
