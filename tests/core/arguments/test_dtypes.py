"""Fill values and updates are represented exactly, or as rounded floats, or are refused."""

import math
import warnings
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

import ndgather
from ndgather.dtypes import Numbers, hold
from ndgather.errors import DTypeError
from tests.definitions.held import (
    CLASSES,
    NO_NUMBERS,
    NUMBERS,
    ONE,
    OUTSIDE,
    assert_is,
    check,
    dtype_of,
    element,
    forms,
    near_bounds,
    python_number,
)

DATES = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
TEXTS = ("U1", "U3", "S1", "S3", "T", "V3")
OTHERS = (*(f"M8[{unit}]" for unit in DATES), *(f"m8[{unit}]" for unit in DATES), *TEXTS)
OTHERS += ("M8", "m8", "i1,U2", "f4,i2")


def other_dtype_of(name):
    return np.dtypes.StringDType() if name == "T" else np.dtype(name)


ROADS = {
    "lists": lambda indices: indices,
    "arrays": np.array,
    "arrays of the other byte order": lambda indices: np.array(indices, ">i4"),
}


def filled(dtype, value, function="gather", road="lists"):
    indices, *rest = OUTSIDE[function]
    indices = ROADS[road](indices)
    data = np.zeros(1, dtype)
    result = getattr(ndgather, function)(data, indices, *rest, mode="fill", fill_value=value)
    return (result[0] if function == "gather_ranges" else result).reshape(-1)


def updated(dtype, updates, function="scatter_nd", road="lists"):
    """Return the updated element, after checking that the other element and data are unchanged."""
    data = np.zeros(2, dtype)
    before = data.copy()
    try:
        result = getattr(ndgather, function)(data, ROADS[road](ONE[function]), updates)
        np.testing.assert_array_equal(result[:1], before[:1])
    finally:
        np.testing.assert_array_equal(data, before)
    return result[1]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_class_are_exact_or_refused(name, draws):
    for draw in CLASSES.values():
        value = draw(draws)
        for form in forms(value):
            function, road = draws.choice(tuple(OUTSIDE)), draws.choice(tuple(ROADS))
            check(partial(filled, dtype_of(name), form, function, road), value, name)
        function, road = draws.choice(tuple(ONE)), draws.choice(tuple(ROADS))
        run = partial(updated, dtype_of(name), [value], function, road)
        text = check(run, value, name, same_kind=True)
        if text is not None:
            assert f"updates[0] = {repr(value)[:60]}" in text


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_near_the_bounds_of_a_dtype_are_exact_or_refused(name, draws):
    for number, source in near_bounds(name):
        value = python_number(number, source) if source else number
        for form in (number, np.array(number)):
            function, road = draws.choice(tuple(OUTSIDE)), draws.choice(tuple(ROADS))
            check(partial(filled, dtype_of(name), form, function, road), value, name)
        function, road = draws.choice(tuple(ONE)), draws.choice(tuple(ROADS))
        updates = [float(number) if source == "float64" else number]
        check(
            partial(updated, dtype_of(name), updates, function, road), value, name, same_kind=True
        )


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_other_dtype_are_exact_or_refused(name, draws):
    for source in NUMBERS:
        scalar = element(source, draws)
        value = python_number(scalar, source)
        for form in (scalar, np.array(scalar, dtype_of(source))):
            function, road = draws.choice(tuple(OUTSIDE)), draws.choice(tuple(ROADS))
            check(partial(filled, dtype_of(name), form, function, road), value, name)
        function, road = draws.choice(tuple(ONE)), draws.choice(tuple(ROADS))
        updates = np.array([scalar], dtype_of(source))
        if source == name:
            assert_is(updated(dtype_of(name), updates, function, road), value, name)
            continue
        with pytest.raises(DTypeError, match=r"updates.dtype = .* differs from data.dtype"):
            updated(dtype_of(name), updates, function, road)


@pytest.mark.parametrize("function", OUTSIDE)
def test_non_numbers_are_refused(function, draws):
    for name in NUMBERS:
        for value in (*NO_NUMBERS, date(2020, 1, 1), timedelta(1)):
            with pytest.raises(DTypeError):
                filled(dtype_of(name), value, function, draws.choice(tuple(ROADS)))


@pytest.mark.parametrize("name", OTHERS)
def test_numbers_are_not_converted_to_other_kinds(name, draws):
    dtype = other_dtype_of(name)
    given = [draw(draws) for draw in CLASSES.values()]
    for value in (*given, *(element(source, draws) for source in NUMBERS)):
        with pytest.raises(DTypeError):
            filled(dtype, value, draws.choice(tuple(OUTSIDE)))
        with pytest.raises(DTypeError):
            updated(dtype, [value], draws.choice(tuple(ONE)))
    for source in NUMBERS:  # arrays of numbers, and of numbers mixed with dates
        with pytest.raises(DTypeError, match="differs"):
            updated(dtype, np.array([element(source, draws)], dtype_of(source)))
        with pytest.raises(DTypeError, match="differs"):
            updated(dtype_of(source), np.zeros(1, dtype))


@pytest.mark.parametrize("function", OUTSIDE)
@pytest.mark.parametrize("road", ROADS)
def test_invalid_fill_value_is_refused_even_if_unused(function, road):
    inside = {"gather_windows": ([[0]], (1,)), "gather_ranges": ([0], [1])}
    indices, *rest = inside.get(function, ([[0]],) if function == "gather_nd" else ([0],))
    data = np.zeros(1, "i2")
    for value in (2**15, 0.5, math.nan, "1", np.datetime64(1, "D"), np.ma.masked, np.ma.array(1)):
        with pytest.raises(DTypeError, match=rf"^{function}: fill_value = "):
            getattr(ndgather, function)(
                data, ROADS[road](indices), *rest, mode="fill", fill_value=value
            )


MONTHS = {"Y": 12, "M": 1}
SECONDS = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
SECONDS |= {unit: Fraction(1, 10 ** (3 * k)) for k, unit in enumerate(DATES[7:], 1)}


def moment(count, unit):
    """Return a date as seconds since 1970, or None outside Python's calendar."""
    if unit not in MONTHS:
        return count * SECONDS[unit]
    years, month = divmod(count * MONTHS[unit], 12)
    if not 1 <= 1970 + years <= 9999:
        return None
    return (date(1970 + years, month + 1, 1) - date(1970, 1, 1)).days * 86400


def counted(kind, count, unit, target):
    """Return a date or time span in another unit, or None if it is not a whole number of units."""
    if kind == "m":
        if (unit in MONTHS) != (target in MONTHS):
            return None
        lengths = MONTHS if unit in MONTHS else SECONDS
        exact = Fraction(count) * lengths[unit] / lengths[target]
    elif target not in MONTHS:
        exact = Fraction(moment(count, unit)) / SECONDS[target]
    else:
        day, rest = divmod(moment(count, unit), 86400)
        if unit in MONTHS:
            exact = Fraction(count * MONTHS[unit], MONTHS[target])
        else:
            at = date(1970, 1, 1) + timedelta(int(day))
            if rest or at.day != 1:
                return None
            exact = Fraction((at.year - 1970) * 12 + at.month - 1, MONTHS[target])
    return int(exact) if exact.denominator == 1 and abs(exact) < 2**63 else None


@pytest.mark.parametrize("kind", "Mm")
def test_dates_of_every_unit_are_exact_or_refused(kind, draws):
    for target, unit in product(DATES, DATES):
        limit = {"Y": 2000, "M": 24000, "W": 10**5, "D": 7 * 10**5, "h": 10**7}.get(unit, 10**9)
        count = draws.choice((0, 1, -1, 12, draws.randint(-limit // 2, limit)))
        name, value = f"{kind}8[{target}]", np.array(count, f"{kind}8[{unit}]")[()]
        expected = counted(kind, count, unit, target)
        function = draws.choice(tuple(OUTSIDE))
        for run in (partial(filled, name, value, function), partial(updated, name, [value])):
            try:
                found = run().astype("i8")
            except DTypeError:  # NumPy does not convert between distant units
                steps = abs(DATES.index(unit) - DATES.index(target))
                assert expected is None or steps > 3, (name, value)
            else:
                assert found == expected, (name, value)
        if unit != target:
            with pytest.raises(DTypeError, match="differs"):
                updated(name, np.array([value]))
        with pytest.raises(DTypeError):
            filled("m8[s]" if kind == "M" else "M8[s]", value, function)
        if (unit in MONTHS) == (target in MONTHS) and abs(
            DATES.index(unit) - DATES.index(target)
        ) < 4:
            assert np.isnat(filled(name, np.array("NaT", value.dtype), function)[0])


def test_python_dates():
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


@pytest.mark.parametrize("dtype", ["M8[s]", "M8[ns]"])
def test_times_with_a_zone_are_refused_without_warnings_as_errors(dtype):
    pandas = pytest.importorskip("pandas")
    with warnings.catch_warnings(action="ignore"):
        for value in (datetime(2020, 1, 1, tzinfo=UTC), pandas.Timestamp("2020-01-01", tz="UTC")):
            with pytest.raises(DTypeError):
                filled(dtype, value)
            with pytest.raises(DTypeError):
                ndgather.scatter_nd(np.zeros(2, dtype), [[0]], [value])


def test_strings_keep_all_characters():
    text = np.dtypes.StringDType()
    for dtype, value in (
        *(("U3", "abc"), ("U3", ""), ("U3", np.str_("ab")), ("S3", b"ab"), ("V3", b"abc")),
        *((text, "a\0"), (text, "long" * 9), (text, np.str_("a"))),
    ):
        assert filled(dtype, value)[0] == (np.void(value) if dtype == "V3" else value)
    for dtype, value in (
        *(("U2", "abc"), ("U3", "a\0"), ("U3", b"a"), ("S2", b"abc"), ("S3", "a"), ("S3", b"a\0")),
        *(("V2", b"abc"), ("U3", np.nan), (text, np.nan), (text, b"a"), (text, 1), ("V3", "abc")),
        *(("U3", np.datetime64("NaT", "s")), (text, np.ma.masked)),
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
def test_lists_of_strings_and_other_kinds_are_refused(given):
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
def test_unrepresentable_element_is_named(dtype, given, position):
    given_at = given[position] if isinstance(position, int) else given[position[0]][position[1]]
    where = str(position).strip("()")
    data = np.zeros(np.shape(given), dtype)
    with pytest.raises(DTypeError) as refused:
        ndgather.scatter_nd(data, np.moveaxis(np.indices(data.shape), 0, -1), given)
    assert f"updates[{where}] = {given_at!r} cannot be" in str(refused.value)


def test_elements_that_numpy_would_change_are_preserved():
    result = ndgather.scatter_nd(np.zeros(2, "u8"), [[0], [1]], [2**63 + 1, 3])
    assert result.tolist() == [2**63 + 1, 3]
    result = ndgather.scatter_nd(np.zeros(2), [[0], [1]], [2**63, -1])
    assert result.tolist() == [2.0**63, -1.0]
    days = [np.datetime64("9999-12-31"), np.datetime64(10**9, "s")]
    result = ndgather.scatter_nd(np.zeros(2, "M8[s]"), [[0], [1]], days)
    assert result.tolist() == [datetime(9999, 12, 31), datetime(2001, 9, 9, 1, 46, 40)]


def test_records_are_exact_in_all_fields_or_refused():
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


def test_object_arrays_accept_any_value():
    for value in (Unlike(), [1, 2], {}, np.ma, "a", 1j, (1, 2)):
        assert filled(object, value)[0] is value
    assert ndgather.scatter_nd(np.zeros(2, object), [1], "a").tolist() == [0, "a"]


def test_numbers_of_other_types():
    assert filled("i8", Decimal(2))[0] == 2
    assert filled("f4", Fraction(1, 2))[0] == 0.5
    for dtype, value in (("i8", Decimal("2.5")), ("f8", Decimal("1e400")), ("?", Fraction(1, 2))):
        with pytest.raises(DTypeError):
            filled(dtype, value)


def test_arrays_of_another_dtype_are_refused_for_any_values():
    for data, updates in ((np.zeros(2, "u1"), np.array([5])), (np.zeros(2), np.zeros(1, "f4"))):
        with pytest.raises(DTypeError, match=rf"\(allowed: {data.dtype}\)$"):
            ndgather.scatter_nd(data, [[0]], updates)


def test_dtypes_that_numpy_lacks():
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
def test_fill_value_of_the_dtype_keeps_all_bits(dtype, indices):
    """Including padding and NaN payloads, on every code path."""
    dtype = np.dtype(dtype)
    fill = np.frombuffer(b"\x01\x00\x02\x00\x03\x00\x04\xc0\xff\x7f" + bytes(range(11, 33)), "V1")
    fill = fill[: dtype.itemsize].copy().view(dtype).reshape(())
    result = ndgather.gather_nd(np.zeros(1, dtype), indices, mode="fill", fill_value=fill)
    assert result.tobytes() == fill.tobytes()


# Lists whose elements NumPy would change: precision, characters, kinds.
CHANGED = {
    "integers of both signs": [2**63 + 1, -1],
    "integers with and without a sign bit": [2**63 + 1, 2],
    "numbers of two types": [np.uint64(2**63 + 1), np.int64(-1)],
    "booleans and numbers": [True, 2],
    "booleans of NumPy and numbers": [np.True_, np.int64(2)],
    "texts and numbers": ["a", 1],
    "texts and bytes": [b"a", "b"],
    "a letter NUL at the end": ["a\0", "b"],
    "a byte NUL at the end": [b"a\0", b"b"],
    "dates of two units": [np.datetime64("2000-01-01"), np.datetime64("2000-01-01T01:01")],
    "nested": [[1, 2], [True, 4]],
}
with warnings.catch_warnings(action="ignore"):  # NumPy 2.5 deprecates them
    NO_DATE, NO_DURATION = np.datetime64("NaT"), np.timedelta64("NaT")
KEPT = {
    "integers and floats": ([1, 2.5], float),
    "floats and complex numbers": ([1.5, 2j], complex),
    "floats of two widths": ([np.float32(0.5), 0.25], float),
    "texts": (["abc", "d"], "U3"),
    "bytes": ([b"abc", b"d"], "S3"),
    "dates": ([np.datetime64("2000-01-01"), np.datetime64("NaT", "D")], "M8[D]"),
    "a missing date of any unit": ([np.datetime64("2000-01-01"), NO_DATE], "M8[D]"),
    "missing durations": ([NO_DURATION, NO_DURATION], "m8"),
    "objects": ([None, {}], object),
    "large integers": ([2**70, 1], object),
    "arrays": ([np.int8([1, 2]), np.int8([3, 4])], np.int8),
    "nothing": ([[], []], float),
}


@pytest.mark.parametrize("data", CHANGED.values(), ids=CHANGED)
def test_lists_of_data_are_preserved_or_refused(data):
    rows = np.zeros(1, np.int64)
    for call in (
        lambda data: ndgather.gather(data, [0, 1]),
        lambda data: ndgather.gather(tuple(data), rows),
        lambda data: ndgather.gather_ranges(data, [0], [2])[0],
        lambda data: ndgather.gather_windows(data, [[0]], (2,)),
        lambda data: ndgather.scatter_nd(data, np.zeros((0, 1), int), data[:0]),
    ):
        text = r"data = (list|tuple) object would become .*; write numpy.array\(data, object\), "
        with pytest.raises(DTypeError, match=text):
            call(data)
    kept = ndgather.gather(np.array(data, object), [0, 1])  # the hint
    assert repr(kept.tolist()) == repr(data)


@pytest.mark.parametrize(("data", "dtype"), KEPT.values(), ids=KEPT)
def test_other_lists_of_data_get_the_numpy_dtype(data, dtype):
    taken = ndgather.gather(data, [1, 0])
    assert taken.dtype == dtype
    assert taken.tolist() == np.asarray(data)[::-1].tolist()


@pytest.mark.parametrize("bad", [[True, 1], [np.False_, 1], [0, np.True_]], ids=str)
def test_lists_of_indices_must_not_contain_booleans(bad):
    data = np.arange(3.0)
    for argument, call in {
        "indices": lambda: ndgather.gather(data, bad),
        "starts": lambda: ndgather.gather_ranges(data, bad, [2, 2]),
        "stops": lambda: ndgather.gather_ranges(data, [0, 0], bad),
        "lengths": lambda: ndgather.gather_ranges(data, [0, 0], lengths=bad),
    }.items():
        with pytest.raises(DTypeError, match=f"{argument} = list object would become"):
            call()
