"""What a dtype holds: fill values and updates are exact, rounded as floats, or an error."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgather
from ndgather.dtypes import Numbers, hold
from ndgather.errors import DTypeError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64", "longdouble")
BYTES = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn"),
    "float4_e2m1fn",
)
OF_ML = (*BYTES, "bfloat16", "int2", "int4", "uint2", "uint4")
NUMBERS = ("bool", *INTEGERS, *FLOATS, "complex64", "complex128", *OF_ML)
DATES = ("M8[Y]", "M8[M]", "M8[D]", "M8[h]", "M8[s]", "M8[ms]", "M8[ns]", "M8[as]")
SPANS = ("m8[W]", "m8[D]", "m8[h]", "m8[s]", "m8[ns]", "m8[fs]")
TEXTS = ("U1", "U3", "S1", "S3", "T", "V3")
OTHERS = (*DATES, *SPANS, *TEXTS, "i1,U2", "f4,i2")


def dtype_of(name):
    if name in OF_ML:
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtypes.StringDType() if name == "T" else np.dtype(name)


def bounds(name):
    """Return the least and the greatest integer of a dtype."""
    digits = int(name.lstrip("uint"))
    return (0, 2**digits - 1) if name[0] == "u" else (-(2 ** (digits - 1)), 2 ** (digits - 1) - 1)


# The greatest finite number of each float, and whether it has infinities and NaN, as their
# specifications have them.
GREATEST = {
    "float16": (65504.0, True, True),
    "float32": (float.fromhex("0x1.fffffep127"), True, True),
    "float64": (float.fromhex("0x1.fffffffffffffp1023"), True, True),
    "bfloat16": (float.fromhex("0x1.fep127"), True, True),
    "float8_e3m4": (15.5, True, True),
    "float8_e4m3": (240.0, True, True),
    "float8_e4m3b11fnuz": (30.0, False, True),
    "float8_e4m3fn": (448.0, False, True),
    "float8_e4m3fnuz": (240.0, False, True),
    "float8_e5m2": (57344.0, True, True),
    "float8_e5m2fnuz": (57344.0, False, True),
    "float8_e8m0fnu": (2.0**127, False, True),
    "float6_e2m3fn": (7.5, False, False),
    "float6_e3m2fn": (28.0, False, False),
    "float4_e2m1fn": (6.0, False, False),
}


def is_held(value, name):
    """Return whether a dtype holds a number of Python, None where both are right.

    Between the greatest float and what rounds up from it, a dtype may go either way.
    """
    if isinstance(value, complex) and not name.startswith("complex"):
        return False
    if name == "bool":
        return value in (0, 1)
    if name in INTEGERS or name[:4] in ("int2", "int4", "uint"):
        lowest, highest = bounds(name)
        return math.isfinite(value) and value == int(value) and lowest <= value <= highest
    if name == "longdouble":
        return True
    if name.startswith("complex"):
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        part = "float32" if name == "complex64" else "float64"
        held = [is_held(each, part) for each in parts]
        return False if False in held else None if None in held else True
    greatest, has_infinity, has_nan = GREATEST[name]
    if math.isnan(value):
        return has_nan
    if math.isinf(value):
        return has_infinity
    if name == "float8_e8m0fnu":
        return None if 0 < value <= greatest else False
    if abs(value) <= greatest:
        return True
    return None if abs(value) < greatest * 1.05 else False


EXACT = 2.0**53
ENDS = sorted({end + by for name in INTEGERS for end in bounds(name) for by in (-1, 0, 1)})
VALUES = [
    *(True, False, 0, 1, -1, 2, 7, 8, 15, 16, 448, 449, 2**53 + 1, 2**70, -(2**70)),
    *ENDS,
    *(0.0, -0.0, 0.5, 1.0, -3.0, 2.7, 300.0, 70000.0, 1e39, 1e300, EXACT, 2.0**63, 2.0**64),
    *(math.nan, math.inf, -math.inf, 1j, 1 + 0j, complex(1, math.inf), complex(1e39, 0)),
]


def filled(dtype, value):
    return ndgather.gather(np.zeros(1, dtype), [9], mode="fill", fill_value=value)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_held_exactly_or_refused(name):
    dtype = dtype_of(name)
    for value in VALUES:
        expected = is_held(value, name)
        forms = [value, np.array(value), np.array(value, object)]
        forms += [np.array(value)[()]] if np.array(value).dtype.kind != "O" else []
        for form in forms:
            element, text = outcome(lambda form=form: filled(dtype, form)[0])
            if text is None:
                assert expected is not False, (value, type(form), element)
                check_element(element, value, name)
            else:
                assert expected is not True, (value, type(form), text)


def outcome(call):
    """Return the result of a call, and the text of the error that it raised instead."""
    try:
        return call(), None
    except DTypeError as error:
        return None, str(error)


def check_element(element, value, name):
    if name in INTEGERS or name == "bool" or name[:4] in ("int2", "int4", "uint"):
        assert int(element) == value
    elif isinstance(value, complex) or name.startswith("complex"):
        with np.errstate(all="ignore"):
            assert str(element) == str(np.array(value).astype(name)[()])
    else:  # a float: the nearest, within half of the last of the fewest digits
        number = float(element)
        if math.isnan(value) or math.isinf(value):
            assert str(number) == str(float(value))
        else:
            assert math.isfinite(number)
            assert abs(number - float(value)) <= max(abs(float(value)) / 2, 0.5)
            if name in ("float64", "longdouble"):
                assert number == float(value)


@pytest.mark.parametrize("name", NUMBERS)
def test_updates_of_lists_are_held_or_refused(name):
    dtype = dtype_of(name)
    for value in VALUES:
        expected = is_held(value, name)
        result, text = outcome(
            lambda value=value: ndgather.scatter_nd(np.zeros(2, dtype), [[1]], [value])
        )
        if text is None:
            assert expected is not False, (value, result)
            check_element(result[1], value, name)
            continue
        kinds = [bool, int, float, complex]
        of_dtype = 0 if name == "bool" else 2 if "float" in name or name == "longdouble" else 1
        of_dtype = 3 if name.startswith("complex") else of_dtype
        of_value = kinds.index(type(value))
        other_kind = of_value > of_dtype or (of_value == 0) != (of_dtype == 0)
        assert expected is not True or other_kind, (value, text)
        assert f"updates[0] = {value!r} cannot be held" in text


NO_NUMBERS = [
    *("", "a", "1", b"1", "nan", (1, 2), [1], None, object(), np.ma.masked, {}, set()),
    *(np.datetime64(1, "D"), np.timedelta64(1, "s"), np.datetime64("NaT"), date(2020, 1, 1)),
    *(timedelta(1), np.array([1]), np.zeros(1, "i4,i4")[0], np.array("1", np.dtypes.StringDType())),
]


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_refused(name):
    for value in NO_NUMBERS:
        if value is None:
            continue  # no fill value
        with pytest.raises(DTypeError):
            filled(dtype_of(name), value)


@pytest.mark.parametrize("name", OTHERS)
def test_numbers_are_no_dates_texts_or_records(name):
    for value in VALUES:
        with pytest.raises(DTypeError):
            filled(dtype_of(name), value)
        with pytest.raises(DTypeError):
            ndgather.scatter_nd(np.zeros(2, dtype_of(name)), [[1]], [value])


@given(count=st.integers(-(10**6), 10**6), unit=st.sampled_from(["D", "h", "m", "s", "ms", "ns"]))
@pytest.mark.parametrize("name", [*DATES[2:], *SPANS])
def test_dates_keep_their_time_or_are_refused(name, count, unit):
    kind, target = name[0], np.datetime_data(name)[0]
    lengths = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
    lengths |= {u: Fraction(1, 10 ** (3 * k)) for k, u in enumerate(["ms", "us", "ns", "ps"], 1)}
    lengths |= {"fs": Fraction(1, 10**15), "as": Fraction(1, 10**18)}
    exact = Fraction(count) * lengths[unit] / lengths[target]
    value = np.array(count, f"{kind}8[{unit}]")[()]
    for run in (
        lambda: filled(name, value)[0],
        lambda: ndgather.scatter_nd(np.zeros(2, name), [[1]], [value])[1],
    ):
        if lengths[unit] / Fraction(lengths[target]) > 10**12:
            return  # NumPy has no such conversion
        if exact.denominator == 1 and abs(exact) < 2**63:
            assert run().astype("i8") == exact
        else:
            with pytest.raises(DTypeError):
                run()
    with pytest.raises(DTypeError):
        filled("m8[s]" if kind == "M" else "M8[s]", value)
    assert np.isnat(filled(name, np.array("NaT", f"{kind}8[{unit}]"))[0])


def test_dates_of_python():
    assert filled("M8[s]", datetime(2020, 1, 1, 0, 0, 1))[0] == np.datetime64("2020-01-01T00:00:01")
    assert filled("M8[D]", date(2020, 1, 1))[0] == np.datetime64("2020-01-01")
    assert filled("m8[s]", timedelta(seconds=3))[0] == np.timedelta64(3, "s")
    for dtype, value in (
        ("M8[s]", datetime(2020, 1, 1, tzinfo=UTC)),
        ("M8[D]", datetime(2020, 1, 1, 12)),
        ("M8[ns]", datetime(9999, 1, 1)),
        ("M8[ns]", np.datetime64("9999-12-31")),
        ("M8[Y]", np.datetime64("2020-02")),
        ("m8[D]", timedelta(seconds=3)),
        ("m8[s]", timedelta(microseconds=3)),
        ("M8[s]", "2020-01-01"),
        ("M8", np.datetime64(5, "s")),
        ("m8[s]", np.timedelta64(1, "M")),
        ("m8[M]", np.timedelta64(30, "D")),
    ):
        with pytest.raises(DTypeError):
            filled(dtype, value)


def test_texts_keep_all_letters():
    text = np.dtypes.StringDType()
    for dtype, value in (
        *(("U3", "abc"), ("U3", ""), ("U3", np.str_("ab")), ("S3", b"ab"), ("V3", b"abc")),
        *((text, "a\0"), (text, "long" * 9), (text, np.str_("a"))),
    ):
        assert filled(dtype, value)[0] == (np.void(value) if dtype == "V3" else value)
    for dtype, value in (
        *(("U2", "abc"), ("U3", "a\0"), ("U3", b"a"), ("S2", b"abc"), ("S3", "a"), ("S3", b"a\0")),
        *(("V2", b"abc"), ("U3", np.nan), (text, np.nan), (text, b"a"), (text, 1), ("V3", "abc")),
        *(("U3", np.datetime64("NaT")), (text, np.ma.masked)),
    ):
        with pytest.raises(DTypeError):
            filled(dtype, value)
        with pytest.raises(DTypeError):
            ndgather.scatter_nd(np.zeros(2, dtype), [[1]], [value])
    for missing in (np.nan, None, "missing"):
        dtype = np.dtypes.StringDType(na_object=missing)
        if missing is not None:
            assert filled(dtype, missing).tolist() == np.array([missing], dtype).tolist()
        result = ndgather.scatter_nd(np.zeros(2, dtype), [[1], [0]], ["a", missing])
        assert result.tolist() == np.array([missing, "a"], dtype).tolist()


@pytest.mark.parametrize(
    "given",
    [["a", 1], ["a", np.nan], ["a", None], ["a", True], ["a", b"b"], [np.str_("a"), 2.5]],
    ids=str,
)
def test_lists_of_texts_and_something_else_are_refused(given):
    for dtype in ("U9", "S9", np.dtypes.StringDType()):
        with pytest.raises(DTypeError, match=r"^scatter_nd: updates\[\d\] = "):
            ndgather.scatter_nd(np.zeros(2, dtype), [[0], [1]], given)


@pytest.mark.parametrize(
    ("dtype", "given", "position"),
    [
        ("i8", [True, 2], 0),
        ("i8", [2, True], 1),
        ("?", [True, 1], 1),
        ("i8", [2**63, -1], 0),
        ("u8", [2**63, -1], 1),
        ("f4", [1, 10**40], 1),
        ("f8", [1, Decimal("1e400")], 1),
        ("i8", [[1, 2], [3, 2**63]], (1, 1)),
    ],
    ids=str,
)
def test_an_element_that_is_lost_is_named(dtype, given, position):
    given_at = given[position] if isinstance(position, int) else given[position[0]][position[1]]
    where = str(position).strip("()")
    data = np.zeros(np.shape(given), dtype)
    with pytest.raises(DTypeError) as refused:
        ndgather.scatter_nd(data, np.moveaxis(np.indices(data.shape), 0, -1), given)
    assert f"updates[{where}] = {given_at!r} cannot be" in str(refused.value)


def test_elements_that_numpy_would_change_are_held_as_they_are():
    result = ndgather.scatter_nd(np.zeros(2, "u8"), [[0], [1]], [2**63 + 1, 3])
    assert result.tolist() == [2**63 + 1, 3]
    result = ndgather.scatter_nd(np.zeros(2), [[0], [1]], [2**63, -1])
    assert result.tolist() == [2.0**63, -1.0]
    days = [np.datetime64("9999-12-31"), np.datetime64(10**9, "s")]
    result = ndgather.scatter_nd(np.zeros(2, "M8[s]"), [[0], [1]], days)
    assert result.tolist() == [datetime(9999, 12, 31), datetime(2001, 9, 9, 1, 46, 40)]


def test_records_hold_all_of_their_fields_or_none():
    dtype = np.dtype([("a", "i1"), ("b", "U2"), ("c", "f4", (2,))])
    record = filled(dtype, (1, "xy", [1, 2]))[0]
    assert record.tolist()[:2] == (1, "xy")
    assert record["c"].tolist() == [1, 2]
    assert filled(dtype, record)[0] == record
    wide = np.array([(1, "xy", [1, 2])], [("a", "i8"), ("b", "U5"), ("c", "f8", (2,))])
    assert filled(dtype, wide[0])[0] == record
    for value in (
        *((2.7, "xy", [1, 2]), (300, "xy", [1, 2]), (1, "xyz", [1, 2]), (1, "xy", [1, 1e39])),
        *((1, "xy"), (1, "xy", [1, 2], 3), (1, "xy", [1]), (1, "xy", 1), (1, 2, [1, 2]), 5, "xyz"),
        np.zeros(1, [("b", "i1"), ("a", "U2"), ("c", "f4", (2,))])[0],
        np.array([(300, "xy", [1, 2])], wide.dtype)[0],
    ):
        with pytest.raises(DTypeError):
            filled(dtype, value)


class Unlike:
    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = None


def test_objects_hold_any_value():
    for value in (Unlike(), [1, 2], {}, np.ma, "a", 1j, (1, 2)):
        assert filled(object, value)[0] is value
    assert ndgather.scatter_nd(np.zeros(2, object), [1], "a").tolist() == [0, "a"]


def test_numbers_of_other_types():
    assert filled("i8", Decimal(2))[0] == 2
    assert filled("f4", Fraction(1, 2))[0] == 0.5
    for dtype, value in (("i8", Decimal("2.5")), ("f8", Decimal("1e400")), ("?", Fraction(1, 2))):
        with pytest.raises(DTypeError):
            filled(dtype, value)


def test_arrays_of_another_dtype_are_told_what_loses_nothing():
    def text(data, updates):
        with pytest.raises(DTypeError) as refused:
            ndgather.scatter_nd(data, [[0]], updates)
        return str(refused.value).partition(")")[2]

    small, narrow = np.array([5]), np.array(["a"])
    assert text(np.zeros(2, "u1"), small) == "; write updates.astype(data.dtype)"
    assert text(np.array(["abc", "d"]), narrow) == "; write updates.astype(data.dtype)"
    assert text(np.zeros(2, "u1"), np.array([300])) == (
        "; updates[0] = 300 cannot be held by uint8; write data.astype(updates.dtype)"
    )
    assert text(narrow, np.array(["zzz"])) == (
        "; updates[0] = 'zzz' cannot be held by <U1; write data.astype(updates.dtype)"
    )
    assert text(np.zeros(2, "i8"), np.array([2.7])) == "; updates[0] = 2.7 cannot be held by int64"
    assert text(np.zeros(2, "f4"), np.array([0.1])) == "; write data.astype(updates.dtype)"
    assert text(np.zeros(2, "f8"), np.array([2**53 + 1])) == ""


def test_dtypes_that_numpy_does_not_have():
    """A sign, and whole numbers up to 4."""
    small = Numbers("float3", "f", -4.0, 4.0, np.round)
    values, position = hold(np.array([1, 2.25, -4]), small)
    assert (values.tolist(), position) == ([1, 2, -4], None)
    for value in (5.0, -4.5, 1j, "a"):
        assert hold(np.array([0, value]), small)[1] is not None
    two_bits = Numbers("int2", "i", -2, 1, np.round)
    assert hold(np.array([-2, 1]), two_bits)[1] is None
    assert hold(np.array([0, 0.5]), two_bits)[1] == 1
    assert hold(np.array([0, 2]), two_bits)[1] == 1


@pytest.mark.parametrize(
    "dtype", ["g", "G", "d", {"names": ["a"], "formats": ["i2"], "itemsize": 8}]
)
@pytest.mark.parametrize("indices", [[[1]], np.array([[1]])], ids=["list", "array"])
def test_a_fill_value_of_the_dtype_keeps_all_its_bits(dtype, indices):
    """Those of padding and of NaNs too, whichever road the call takes."""
    dtype = np.dtype(dtype)
    fill = np.frombuffer(b"\x01\x00\x02\x00\x03\x00\x04\xc0\xff\x7f" + bytes(range(11, 33)), "V1")
    fill = fill[: dtype.itemsize].copy().view(dtype).reshape(())
    result = ndgather.gather_nd(np.zeros(1, dtype), indices, mode="fill", fill_value=fill)
    assert result.tobytes() == fill.tobytes()
