"""Quantities of astropy and pint: units stay, those of updates are converted, none is lost."""

import astropy.units
import numpy as np
import pint
import pytest
from astropy.table import Column
from astropy.utils.masked import Masked
from hypothesis import given
from tests.frameworks.drawn_calls import GATHERS, SCATTERS, drawn_calls

import ndgather
from ndgather import arguments
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError

REGISTRY = pint.UnitRegistry()
M, KM = astropy.units.m, astropy.units.km
KINDS = ("astropy", "pint")


def quantity(kind, values, unit):
    if kind == "pint":
        return REGISTRY.Quantity(np.asarray(values), unit)
    return astropy.units.Quantity(values, unit, dtype=np.asarray(values).dtype)


def parts(value):
    """Return the numbers and the unit of a quantity."""
    if isinstance(value, pint.Quantity):
        return value.magnitude, f"{value.units:~}"
    assert isinstance(value, astropy.units.Quantity)
    return value.value, str(value.unit)


@pytest.mark.parametrize("kind", KINDS)
@given(call=drawn_calls(GATHERS + SCATTERS, ("float32", "float64"), reductions=("none", "add")))
def test_numbers_are_those_of_the_definition(kind, call):
    def convert(array):
        return array if array is call.indices else quantity(kind, array, "m")

    call.options.pop("fill_value", None)
    if call.error() is not None:
        with pytest.raises(IndexOutOfBoundsError):
            call.run(convert)
        return
    numbers, unit = parts(call.run(convert))
    assert unit == "m"
    np.testing.assert_array_equal(numbers, call.expected(), strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("none", 2000.0), ("add", 2001.0), ("sub", -1999.0), ("max", 2000.0), ("mean", 1000.5)],
)
def test_updates_are_converted(kind, reduction, expected):
    data = quantity(kind, [1.0, 5.0], "m")
    updates = quantity(kind, [2.0], "km")
    result = ndgather.scatter_elements(data, [0], updates, reduction=reduction)
    assert parts(result)[0].tolist() == [expected, 5.0]
    filled = ndgather.gather(data, [9], mode="fill", fill_value=quantity(kind, 2.0, "km"))
    assert parts(filled)[0].tolist() == [2000.0]
    assert parts(ndgather.gather(data, [9], mode="fill"))[0].tolist() == [0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_factor_has_no_unit(kind):
    data = quantity(kind, [1.0, 5.0], "m")
    for factor in ([3.0], quantity(kind, [3.0], "")):
        result = ndgather.scatter_elements(data, [1], factor, reduction="mul")
        assert parts(result)[0].tolist() == [1.0, 15.0]
        assert parts(result)[1] == "m"
    with pytest.raises(DTypeError):
        ndgather.scatter_elements(data, [1], quantity(kind, [3.0], "m"), reduction="mul")


@pytest.mark.parametrize("kind", KINDS)
def test_units_are_never_lost(kind):
    data = quantity(kind, [1.0, 5.0], "m")
    plain = np.zeros(2)
    for bad in (
        lambda: ndgather.scatter_elements(data, [1], [1.0]),
        lambda: ndgather.scatter_elements(data, [1], quantity(kind, [1.0], "s")),
        lambda: ndgather.scatter_elements(plain, [1], quantity(kind, [1.0], "m")),
        lambda: ndgather.gather(data, [9], mode="fill", fill_value=2.0),
        lambda: ndgather.gather(plain, [9], mode="fill", fill_value=quantity(kind, 2.0, "m")),
        lambda: ndgather.gather(data, [1], out=plain[:1]),
        lambda: ndgather.gather(plain, quantity(kind, np.array([1]), "m")),
    ):
        with pytest.raises(DTypeError):
            bad()


@pytest.mark.parametrize("kind", KINDS)
def test_out_is_written_in_place(kind):
    data, out = quantity(kind, [1.0, 5.0], "m"), quantity(kind, [0.0], "m")
    assert ndgather.gather(data, [1], out=out) is out
    assert parts(out)[0].tolist() == [5.0]
    assert ndgather.scatter_elements(data, [0], out, out=data) is data
    assert parts(data)[0].tolist() == [5.0, 5.0]


def test_degrees_of_pint_are_not_summed():
    data = REGISTRY.Quantity(np.array([1.0]), "degC")
    assert parts(ndgather.gather(data, [0]))[1] == "°C"
    with pytest.raises(DTypeError, match=r"^scatter_elements: reduction = 'add' of Quantity in"):
        ndgather.scatter_elements(data, [0], data, reduction="add")


def test_what_else_astropy_makes_of_arrays():
    magnitudes = np.array([1.0, 2.0]) * astropy.units.mag(astropy.units.AB)
    assert ndgather.gather(magnitudes, [1]).unit == magnitudes.unit
    with pytest.raises(DTypeError, match=r"^scatter_elements: reduction = 'add' of Magnitude"):
        ndgather.scatter_elements(magnitudes, [1], magnitudes[:1], reduction="add")
    column = Column([1.0, 2.0], name="flux", unit="Jy")
    taken = ndgather.gather(column, [1])
    assert (type(taken), taken.name, str(taken.unit)) == (Column, "flux", "Jy")
    with pytest.raises(DTypeError, match=r"^gather: data = masked array would lose its mask"):
        ndgather.gather(Masked([1.0, 2.0], mask=[True, False]), [1])
    with pytest.raises(
        DTypeError, match=r"^gather: data = Unit object is of pint, but not an array"
    ):
        ndgather.gather(REGISTRY.m, [1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduction_of_unknown_units_is_not_carried_out(kind, monkeypatch):
    data, updates = quantity(kind, np.zeros(2), "m"), quantity(kind, np.ones(1), "m")
    with pytest.raises(AttributeValueError, match=r"^scatter_nd: reduction = 'power'"):
        ndgather.scatter_nd(data, [[0]], updates, reduction="power")
    monkeypatch.setattr(arguments, "REDUCTIONS", (*arguments.REDUCTIONS, "power"))
    with pytest.raises(KeyError):
        ndgather.scatter_nd(data, [[0]], updates, reduction="power")
