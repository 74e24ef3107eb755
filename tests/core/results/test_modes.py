"""The four modes: they match NumPy if NumPy has the mode; and values to fill with."""

import ml_dtypes
import numpy as np
import pytest

import ndgather
from ndgather.errors import AttributeValueError, DTypeError
from tests.definitions.calls import assert_same_elements

DATA = np.arange(10, 15)
FUNCTIONS = {
    "gather_nd": lambda data, indices, **options: ndgather.gather_nd(
        data, indices[:, np.newaxis], **options
    ),
    "gather_elements": ndgather.gather_elements,
    "gather": ndgather.gather,
}


OTHER_ZEROS = {
    "?": False,
    "f4": 0.0,
    "D": 0j,
    "S3": b"",
    "U2": "",
    "M8[s]": np.datetime64(0, "s"),
    "m8[ns]": np.timedelta64(0, "ns"),
    "O": 0,
    "T": "",
}


@pytest.mark.parametrize("place", range(5))
def test_fill_value_may_be_an_element_of_out(place):
    out = np.arange(5.0)
    options = {"mode": "fill", "fill_value": out[place, ...], "out": out}
    result = ndgather.gather(np.array([10.0, 20.0]), [1, 9, 0, 9, 9], **options)
    assert result.tolist() == [20, place, 10, place, place]


@pytest.mark.parametrize("dtype", OTHER_ZEROS)
def test_default_fill_value_is_zero_of_the_dtype(dtype):
    kind = np.dtypes.StringDType() if dtype == "T" else np.dtype(dtype)
    data = np.ones(2, "i8").astype(kind)
    result = ndgather.gather(data, [0, 2], mode="fill")
    desired = data.copy()
    desired[1] = OTHER_ZEROS[dtype]
    assert_same_elements(result, desired)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("?", True),
        ("?", 1),
        ("i1", -128),
        ("u1", 255),
        ("u8", 2**64 - 1),
        ("i8", -(2**63)),
        ("i4", np.int64(7)),
        ("i4", 7.0),
        ("f4", 0.1),
        ("f4", float("inf")),
        ("f2", float("nan")),
        ("f8", -0.0),
        ("F", 1 + 2j),
        ("S3", b"abc"),
        ("U3", "abc"),
        ("M8[s]", np.datetime64("2020-01-01")),
        ("M8[s]", np.datetime64("NaT", "s")),
        ("m8[s]", np.timedelta64("NaT", "s")),
        ("m8[s]", np.timedelta64(3, "m")),
        (">i4", 1),
        (">f8", 0.5),
        ("V3", b"abc"),
        ("i1,f8", (1, 2.5)),
        ("O", [1, 2]),
        ("O", (1, 2)),
        (ml_dtypes.bfloat16, 1.5),
        (ml_dtypes.int4, -8),
        (ml_dtypes.float8_e4m3fn, -448.0),
        (ml_dtypes.float8_e4m3fn, 448.0),
    ],
)
def test_fill_values_that_fit(dtype, value):
    data = np.zeros(2, dtype)
    desired = data.copy()
    desired[1] = value
    result = ndgather.gather(data, [0, 2], mode="fill", fill_value=value)
    assert result.dtype == desired.dtype
    if dtype == "O":
        assert result[1] is value
    else:
        assert_same_elements(result, desired)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("?", 2),
        ("i1", 128),
        ("u8", -1),
        ("u8", 2**64),
        ("i4", 2.5),
        ("i4", float("inf")),
        ("f4", 1e300),
        ("f2", 70000.0),
        ("f8", "text"),
        ("S3", b"abcd"),
        ("V3", b"abcd"),
        ("U3", "abcd"),
        ("M8[s]", "no date"),
        ("i8", np.array([1])),
        ("i8", object()),
        (ml_dtypes.int4, 100),
        (ml_dtypes.int4, 2.5),
        (ml_dtypes.bfloat16, 1e39),
        (ml_dtypes.float8_e4m3fn, 1e5),
    ],
)
def test_fill_values_that_do_not_fit(dtype, value):
    data = np.zeros(2, dtype)
    with pytest.raises(DTypeError, match="fill_value"):
        ndgather.gather(data, [0, 2], mode="fill", fill_value=value)
    with pytest.raises(DTypeError, match="fill_value"):  # even if nothing is filled
        ndgather.gather(data, [0, 1], mode="fill", fill_value=value)


@pytest.mark.parametrize("bits", [0x7FA00001, 0xFFC12345, 0x80000000])
def test_filled_and_copied_bits_are_kept(bits):
    """Signaling NaNs with a payload, and negative zero."""
    data = np.array([1, bits], np.uint32).view(np.float32)
    fill_value = np.array(bits, np.uint32).view(np.float32)
    result = ndgather.gather(data, [1, 5], mode="fill", fill_value=fill_value)
    np.testing.assert_array_equal(result.view(np.uint32), np.array([bits, bits], np.uint32))


@pytest.mark.parametrize("mode", ["", "RAISE", "nearest", b"raise", 0, None, ["raise"]])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_unknown_modes_are_refused(function, mode):
    with pytest.raises(AttributeValueError, match="mode"):
        FUNCTIONS[function](DATA, np.array([0]), mode=mode)


def test_mode_may_be_any_equal_string():
    mode = "".join(["cl", "ip"])
    assert_same_elements(ndgather.gather(DATA, [9], mode=mode), DATA[-1:].copy())
