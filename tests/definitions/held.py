"""The values that a dtype can represent: the definition for fill values and updates.

It uses exact arithmetic. A number is represented exactly, or rounded to one of its two neighbors by
float and complex dtypes. Finite numbers never become infinite, and kinds of numbers never change.
Anything else is a `DTypeError`. `CLASSES` and `element` draw numbers of every class and every
dtype.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np

from ndgather.errors import DTypeError
from tests.definitions.draws import numbers

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SHORT_INTEGERS = ("int2", "int4", "uint2", "uint4")
COMPLEX = {"complex64": "float32", "complex128": "float64", "clongdouble": "longdouble"}


@dataclass(frozen=True)
class Floats:
    """A floating-point format according to its specification."""

    digits: int  # binary digits of a normal number, including the first
    least: int  # the exponent of the least normal number
    greatest: Fraction
    has_infinity: bool = True
    has_nan: bool = True
    has_negative_zero: bool = True
    has_zero: bool = True


def _ieee(digits, bits_of_exponent):
    """Return a format in the style of IEEE 754."""
    bias = 2 ** (bits_of_exponent - 1) - 1
    return Floats(digits, 1 - bias, (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** bias)


_FINITE = {"has_infinity": False}
_NONE = {"has_infinity": False, "has_nan": False}
_FNUZ = {"has_infinity": False, "has_negative_zero": False}
FLOATS = {
    "float16": _ieee(11, 5),
    "float32": _ieee(24, 8),
    "float64": _ieee(53, 11),
    "longdouble": _ieee(64, 15),
    "bfloat16": _ieee(8, 8),
    "float8_e3m4": _ieee(5, 3),
    "float8_e4m3": _ieee(4, 4),
    "float8_e5m2": _ieee(3, 5),
    "float8_e4m3fn": Floats(4, -6, Fraction(448), **_FINITE),
    "float8_e4m3b11fnuz": Floats(4, -10, Fraction(30), **_FNUZ),
    "float8_e4m3fnuz": Floats(4, -7, Fraction(240), **_FNUZ),
    "float8_e5m2fnuz": Floats(3, -15, Fraction(57344), **_FNUZ),
    "float8_e8m0fnu": Floats(1, -127, Fraction(2) ** 127, **_FNUZ, has_zero=False),
    "float6_e2m3fn": Floats(4, 0, Fraction(15, 2), **_NONE),
    "float6_e3m2fn": Floats(3, -2, Fraction(28), **_NONE),
    "float4_e2m1fn": Floats(2, 0, Fraction(6), **_NONE),
}
OF_ML = (*SHORT_INTEGERS, *(name for name in FLOATS if name[:6] in ("bfloat", "float8")))
OF_ML += ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
NUMBERS = ("bool", *INTEGERS, *SHORT_INTEGERS, *FLOATS, *COMPLEX)


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name) if name in OF_ML else name)


def bounds(name):
    """Return the least and the greatest integer of a dtype."""
    digits = int(name.lstrip("uint"))
    return (0, 2**digits - 1) if name[0] == "u" else (-(2 ** (digits - 1)), 2 ** (digits - 1) - 1)


def is_integer(name):
    return name in INTEGERS or name in SHORT_INTEGERS


def _kind(value):
    """Return "b", "i", "f" or "c" for a Python number."""
    if isinstance(value, bool):
        return "b"
    return "i" if isinstance(value, int) else "c" if isinstance(value, complex) else "f"


def is_held(value, name, *, same_kind=False):
    """Return whether a dtype can represent a Python number, or None if both answers are allowed.

    With `same_kind`, as for updates, booleans are not numbers, and floats are not integers.
    """
    kind = "b" if name == "bool" else "i" if is_integer(name) else "c" if name in COMPLEX else "f"
    source = _kind(value)
    if same_kind and isinstance(value, Decimal | Fraction) and kind in "bi":
        return None if is_held(value, name) else False
    if "bifc".index(source) > "bifc".index(kind) and (same_kind or source == "c"):
        return False
    if same_kind and (source == "b") != (kind == "b"):
        return False
    if kind == "c":
        parts = (value.real, value.imag) if source == "c" else (value,)
        held = [is_held(part, COMPLEX[name]) for part in parts]
        return False if False in held else None if None in held else True
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if kind == "b":
        return is_finite and value in (0, 1)
    if kind == "i":
        lowest, highest = bounds(name)
        return is_finite and value == int(value) and lowest <= value <= highest
    floats = FLOATS[name]
    if not is_finite:
        return floats.has_nan if math.isnan(value) else floats.has_infinity
    exact = Fraction(value)
    if not floats.has_zero:
        if exact <= 0 or exact > floats.greatest:
            return None if 0 < exact < floats.greatest * Fraction(21, 20) else False
        return True if _neighbours(exact, floats) == {exact} else None
    if name == "longdouble" and Fraction(_nearest_double(exact)) != exact:
        return None  # some numbers are converted through float64, and refused if that is inexact
    if abs(exact) <= floats.greatest:
        return True
    # Below half a step above it, numbers round to the greatest: 61,439 to 57,344 of float8_e5m2.
    step = _step(floats.greatest, floats)
    return None if abs(exact) < floats.greatest + step / 2 else False


def _nearest_double(exact):
    try:
        return float(exact)
    except OverflowError:
        return 0.0


def _step(exact, floats):
    """Return the distance between the numbers of a format around a positive number."""
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > exact
    return Fraction(2) ** (max(exponent, floats.least) - floats.digits + 1)


def _neighbours(exact, floats):
    """Return the absolute value of a number if the format has it, otherwise its two neighbors."""
    exact = abs(exact)
    if not exact:
        return {exact}
    step = _step(exact, floats)
    sides = {math.floor(exact / step) * step, math.ceil(exact / step) * step}
    return {min(each, floats.greatest) for each in sides}


def python_number(scalar, name):
    """Return a scalar of a dtype as an exact Python number."""
    if name == "bool" or is_integer(name):
        return bool(scalar) if name == "bool" else int(scalar)
    if name in COMPLEX:
        return complex(scalar)
    if name == "longdouble" and np.isfinite(scalar) and scalar:
        return Fraction(*scalar.as_integer_ratio())
    return float(scalar)


def assert_is(scalar, value, name):
    """Raise AssertionError unless a scalar of a dtype is `value` or an adjacent float."""
    if name in COMPLEX:
        assert_is(scalar.real, value.real, COMPLEX[name])
        assert_is(scalar.imag, value.imag if _kind(value) == "c" else 0, COMPLEX[name])
        return
    found = python_number(scalar, name)
    if name not in FLOATS:
        assert found == value
        return
    if isinstance(value, float) and not math.isfinite(value):
        assert str(float(found)) == str(value)
        return
    floats, exact = FLOATS[name], Fraction(value)
    assert isinstance(found, Fraction) or math.isfinite(found), found
    assert abs(Fraction(found)) in _neighbours(exact, floats), found
    if found or floats.has_negative_zero:
        negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
        is_negative = found < 0 if found else math.copysign(1, float(scalar)) < 0
        assert is_negative == negative, (found, value)


def check(make, value, name, *, same_kind=False):
    """Compare the element that `make` returns, or its DTypeError, with the definition.

    Return the text of the error, if any.
    """
    expected = is_held(value, name, same_kind=same_kind)
    error = None
    try:
        result = make()
    except DTypeError as raised:
        error = str(raised)
    if error is not None:
        assert expected is not True, f"{value!r} is refused by {name}: {error}"
        return error
    scalar = result.reshape(-1)[0] if isinstance(result, np.ndarray) else result
    assert expected is not False, f"{value!r} becomes {scalar!r} of {name}"
    assert_is(scalar, value, name)
    return None


def near_bounds(name):
    """Return numbers on either side of each bound of a dtype, with the names of their dtypes.

    They are integers and decimals, whose name is "", and NumPy floats of every width.
    """
    if is_integer(name):
        ends = bounds(name)
    else:
        floats = FLOATS.get(COMPLEX.get(name, name))
        ends = (0, 1) if floats is None else (-floats.greatest, floats.greatest)
    found = [(int(end) + by, "") for end in ends for by in (-1, 0, 1)]
    if is_integer(name):
        found += [(Decimal(value), "") for value, _ in found]
    for source in ("float16", "float32", "float64", "longdouble"):
        kind = np.dtype(source).type
        with np.errstate(over="ignore"):
            most = min(FLOATS[source].greatest, 2**1024)  # Python does not format longer integers
            at = [kind(int(end)) for end in ends if abs(end) <= most]
            at = [np.nextafter(each, kind(to)) for each in at for to in (-np.inf, each, np.inf)]
        found += [(each, source) for each in at]
    return found


ENDS = sorted({end + by for name in INTEGERS for end in bounds(name) for by in (-1, 0, 1)})


def _near_greatest(rng):
    floats = FLOATS[rng.choice(tuple(FLOATS))]
    exact = floats.greatest * rng.choice((1, Fraction(101, 100), 2, Fraction(1, 3)))
    return min(exact, Fraction(2) ** 1023)


#: A Python number of each class, from a `random.Random`.
CLASSES = {
    "boolean": lambda rng: rng.random() < 0.5,
    "small integer": lambda rng: rng.randint(-9, 17),
    "end of a range": lambda rng: rng.choice(ENDS),
    "beyond 64 bits": lambda rng: rng.choice((1, -1)) * (2 ** rng.randint(64, 1100) + 1),
    "odd beyond 2**53": lambda rng: rng.choice((1, -1)) * (2 ** rng.randint(53, 62) + 1),
    "near a tie": lambda rng: 2 ** rng.randint(30, 90) + 2 ** rng.randint(0, 80) + 1,
    "negative zero": lambda _: -0.0,
    "whole float": lambda rng: float(rng.randint(-300, 300)),
    "float at an end": lambda rng: float(rng.choice(ENDS)),
    "fraction": lambda rng: rng.uniform(-20, 20),
    "tiny": lambda rng: rng.uniform(-1, 1) * 2.0 ** -rng.randint(1, 1074),
    "great": lambda rng: float(_near_greatest(rng)) * rng.choice((1, -1)),
    "NaN": lambda _: math.nan,
    "infinite": lambda rng: rng.choice((math.inf, -math.inf)),
    "complex without an imaginary part": lambda rng: complex(rng.randint(0, 2), 0.0),
    "complex": lambda rng: complex(rng.uniform(-9, 9), rng.choice((1.5, -0.0, 1e39, 1e200))),
    "complex and infinite": lambda rng: complex(rng.choice((1, math.inf)), math.inf),
    "of a decimal": lambda rng: Decimal(rng.randint(-300, 300)) / rng.choice((1, 2, 10)),
    "ratio": lambda rng: Fraction(rng.randint(-9, 9), rng.choice((1, 2, 3))),
}

#: Non-numbers in all forms that someone might pass.
NO_NUMBERS = (
    *("", "a", "1", b"1", "nan", (1, 2), [1], object(), np.ma.masked, {}, set()),
    *(np.datetime64(1, "D"), np.timedelta64(1, "s"), np.datetime64("NaT", "s"), np.array([1])),
    *(np.ma.array(1, mask=True), np.ma.array(1), np.zeros(1, "i4,i4")[0], np.array("1")),
    np.array("1", np.dtypes.StringDType()),
)


# Every function with a fill value, in a call with one out-of-bounds element, and every function
# with updates, in a call with one update.
OUTSIDE = {
    "gather_nd": ([[9]],),
    "gather_elements": ([9],),
    "gather": ([9],),
    "gather_windows": ([[9]], (1,)),
    "gather_ranges": ([9], [10]),
}
ONE = {"scatter_nd": [[1]], "scatter_elements": [1]}


def element(name, rng):
    """Return a scalar of a dtype: small, random, extreme, infinite or NaN."""
    if is_integer(name) and rng.random() < 0.3:
        return np.array(rng.choice(bounds(name))).astype(dtype_of(name))[()]
    return numbers((1,), dtype_of(name), rng.randrange(2**32))[0]


def forms(value):
    """Return a Python number in all forms in which it can be passed, starting with its own."""
    array = np.array(value)
    objects = np.array(None)
    objects[()] = value
    return [value, objects] + ([array, array[()]] if array.dtype.kind != "O" else [])
