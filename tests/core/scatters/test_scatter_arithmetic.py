"""The arithmetic of reductions: all pairs of small numbers, rounding and overflow."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ndgather import arguments, dtypes, reductions, scatter_nd, show, slow_path
from ndgather.array_call import _core
from tests.definitions import reference
from tests.definitions.calls import assert_same_numbers, element_bytes

REDUCTIONS = ("add", "sub", "mul", "min", "max")
ONE_BYTE = [
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
        "int2",
        "int4",
        "uint2",
        "uint4",
    )
]


def pairs(old, update, reduction):
    """Return f(old, update) for all pairs, computed by scattering whole rows."""
    data = np.broadcast_to(old, (update.size, old.size))
    updates = np.broadcast_to(update[:, np.newaxis], data.shape)
    return scatter_nd(data, np.arange(update.size)[:, np.newaxis], updates, reduction=reduction)


def agree(old, update, reduction):
    expected = reference.combine(
        reduction, np.broadcast_to(old, (update.size, old.size)), update[:, np.newaxis]
    )
    actual = pairs(old, update, reduction)
    assert actual.dtype == expected.dtype == old.dtype
    if reduction in ("min", "max"):  # bit-identical to one of the two
        assert element_bytes(actual) == element_bytes(expected)
    else:
        assert_same_numbers(actual, expected)


@pytest.mark.unhurried
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_all_16_bit_numbers(dtype, reduction):
    every = np.arange(2**16, dtype=np.uint16)
    edges = [0, 1, 2, 0x3FF, 0x400, 0x401, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7F80, 0x7FFF]
    edges = np.array([*edges, 0x80, 0x7F, 0x7F7F, 0x3F80, 0x4380, 0x6800, 0x1], np.uint16)
    chosen = np.random.default_rng(1).choice(every, 200)
    update = np.concatenate([edges, edges | 0x8000, chosen])
    agree(every.view(dtype), update.view(dtype), reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ONE_BYTE, ids=str)
def test_all_pairs_of_one_byte_numbers(dtype, reduction):
    every = dtypes.every_element(dtype).astype(np.float64).astype(dtype)
    agree(every, every, reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.dtype("i1"), np.dtype("u1")], ids=str)
def test_all_pairs_of_bytes_wrap_around(dtype, reduction):
    old = np.arange(256, dtype=np.uint8).view(dtype)
    exact = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "min": np.minimum,
        "max": np.maximum,
    }[reduction]
    wide = old.astype(int)
    expected = (exact(wide, wide[:, np.newaxis]) % 256).astype(np.uint8).view(dtype)
    np.testing.assert_array_equal(pairs(old, old, reduction), expected, strict=True)


@pytest.mark.parametrize("dtype", [np.dtype(char) for char in "hiqHIQ"], ids=str)
def test_wide_integers_wrap_around(dtype):
    bits = 8 * dtype.itemsize
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = [low, low + 1, 0, 1, 2, 3, high - 1, high, high // 3]
    old = np.array(values, dtype)
    for reduction, exact in (
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul", lambda a, b: a * b),
    ):
        expected = [[(exact(a, b) - low) % 2**bits + low for a in values] for b in values]
        actual = pairs(old, old, reduction)
        np.testing.assert_array_equal(actual, np.array(expected, dtype), strict=True)


@pytest.mark.parametrize(
    ("reduction", "table"),
    [
        ("add", [[False, True], [True, True]]),
        ("max", [[False, True], [True, True]]),
        ("mul", [[False, False], [False, True]]),
        ("min", [[False, False], [False, True]]),
        ("sub", [[False, True], [True, False]]),
    ],
)
def test_booleans(reduction, table):
    old = np.array([False, True])
    np.testing.assert_array_equal(pairs(old, old, reduction), table, strict=True)


@pytest.mark.parametrize("char", "efdg")
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_nan_propagates_and_ties_keep_the_old_element(char, reduction):
    nan = np.nan
    old = np.array([nan, 1, nan, 0.0, -0.0, 5], char)
    update = np.array([2, nan, nan, -0.0, 0.0, 5], char)
    result = scatter_nd(old, np.arange(6)[:, np.newaxis], update, reduction=reduction)
    np.testing.assert_array_equal(result, np.array([nan, nan, nan, 0, 0, 5], char), strict=True)
    np.testing.assert_array_equal(np.signbit(result[3:5]), [False, True])


@pytest.mark.parametrize(
    ("dtype", "stuck"),
    [
        (np.float16, 2048),
        (ml_dtypes.bfloat16, 256),
        (ml_dtypes.float8_e4m3fn, 16),
        (ml_dtypes.float8_e5m2, 8),
        (np.float32, 3000),
    ],
)
def test_every_step_is_rounded(dtype, stuck):
    """Adding 1, half a step, has no effect each time; a single sum at the end would count all."""
    ones = np.ones(3000, dtype)
    total = scatter_nd(np.zeros(1, dtype), np.zeros((3000, 1), int), ones, reduction="add")
    assert float(total[0]) == stuck


def test_complex_product_matches_the_plain_formula():
    rng = np.random.default_rng(3)
    for char in "FD":
        old, update = rng.standard_normal((2, 1000, 2)).astype(char.lower()).view(char)[..., 0]
        result = scatter_nd(old, np.arange(1000)[:, np.newaxis], update, reduction="mul")
        real = old.real * update.real - old.imag * update.imag
        imag = old.real * update.imag + old.imag * update.real
        np.testing.assert_array_equal(result.real, real, strict=True)
        np.testing.assert_array_equal(result.imag, imag, strict=True)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_means_of_integers_at_their_bounds(dtype):
    info = np.iinfo(dtype)
    for total in {info.min, info.min + 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max}:
        for count in (1, 2, 3):
            updates = np.array([total] + [0] * (count - 1), dtype)
            means = scatter_nd(
                np.ones(1, dtype), [[0]] * count, updates, reduction="mean", use_init_val=False
            )
            assert means.tolist() == [total // count], (total, count)


@pytest.mark.parametrize("reduction", ["min", "max"])
@pytest.mark.parametrize(
    "dtype", [*map(np.dtype, "?bBqQefdg"), np.dtype(ml_dtypes.bfloat16), *ONE_BYTE], ids=str
)
def test_identity_is_the_extreme_of_the_dtype(dtype, reduction):
    end = np.array(reference.identity(reduction, dtype)).astype(dtype)
    identity = reductions.identity(dtype, reduction)
    assert identity.dtype == dtype
    assert identity.astype(object) == end.astype(object)


def test_quotient_of_doubles_is_rounded_once():
    rng = np.random.default_rng(5)
    totals, counts = rng.standard_normal(200), rng.integers(3, 200, 200)
    # The first update of a target is the total, and the others are zeros.
    places = np.repeat(np.arange(200), counts)
    updates = np.zeros(places.size)
    updates[np.cumsum(counts) - counts] = totals

    means = scatter_nd(
        np.ones(200), places[:, np.newaxis], updates, reduction="mean", use_init_val=False
    )

    pairs = zip(totals, counts.tolist(), strict=True)
    exact = [float(Fraction(total) / count) for total, count in pairs]
    np.testing.assert_array_equal(means, np.array(exact), strict=True)


def test_quotient_is_not_rounded_twice():
    total, count = 8442823457555215.0, 6006  # in 80 bits it lies between two doubles
    updates = np.zeros(count)
    updates[0] = total
    means = scatter_nd(
        np.ones(1), np.zeros((count, 1), int), updates, reduction="mean", use_init_val=False
    )
    exact = float(Fraction(total) / count)
    np.testing.assert_array_equal(means, np.array([exact]), strict=True)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is double here")
def test_long_doubles_keep_all_bits():
    value = np.longdouble(2) ** 60 + 1
    means = scatter_nd(
        np.zeros(1, np.longdouble), [[0]], np.array([value]), reduction="mean", use_init_val=False
    )
    np.testing.assert_array_equal(means, np.array([value]), strict=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda name: reductions.identity(np.dtype("f4"), name),
        lambda name: slow_path.core_arithmetic(np.dtype(ml_dtypes.float8_e5m2), name),
        lambda name: reference.combine(name, np.ones(2), np.ones(2)),
        lambda name: reference.identity(name, np.dtype("i4")),
        lambda name: show.scatter_nd(np.ones(2), [[0], [0]], np.ones(2), reduction=name),
    ],
    ids=["identity", "bytes", "reference", "reference identity", "picture"],
)
def test_unknown_reduction_raises(use, monkeypatch):
    """No rule accepts an unknown name."""
    monkeypatch.setattr(arguments, "REDUCTIONS", (*arguments.REDUCTIONS, "power"))
    for name in ("power", "Max", ""):
        with pytest.raises((AssertionError, KeyError, ValueError)):
            use(name)


def test_reduction_rows_match_the_core():
    assert tuple(reductions.ROWS) == (*_core.REDUCTIONS, "mean")


@pytest.mark.parametrize("reduction", ["none", "add", "sub", "mul", "min", "max"])
def test_boolean_reductions_match_bit_reductions(reduction):
    old, update = np.array([False, False, True, True]), np.array([False, True, False, True])
    of_bits = reductions.ROWS[reduction].of_bits
    bits = reference.combine(of_bits, old.astype(int), update.astype(int)) % 2
    np.testing.assert_array_equal(bits == 1, reference.combine(reduction, old, update))


@pytest.mark.parametrize("reduction", ["add", "sub", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", ["i2", "f4", "?"])
def test_identity_leaves_elements_unchanged(reduction, dtype):
    elements = np.array([0, 1, 1], dtype)
    start = np.broadcast_to(reductions.identity(np.dtype(dtype), reduction), elements.shape)
    expected = -elements if reduction == "sub" and dtype != "?" else elements
    np.testing.assert_array_equal(reference.combine(reduction, start, elements), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_first_nan_of_an_element_stays(dtype, reduction):
    bits, width = f"u{dtype[1]}", 17
    nans = np.array([np.nan], dtype).view(bits) + np.arange(1, 5, dtype=bits)[:, np.newaxis]
    updates = np.broadcast_to(nans, (4, width)).copy().view(dtype)
    data = np.ones((3, width), dtype)
    data[2] = updates[3]
    indices = np.array([[0], [0], [1], [2]])
    for rows in (slice(None), slice(0, 1)):  # rows and single elements
        found = scatter_nd(data[:, rows], indices, updates[:, rows], reduction=reduction)
        wanted = updates[[0, 2, 3], rows]
        assert element_bytes(found) == element_bytes(wanted)
