"""Subclasses of NumPy arrays keep their class and attributes, or are refused."""

import numpy as np
import pytest

import ndgather
from ndgather.errors import DTypeError

DATA = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Named(np.ndarray):
    """An array with a name, following NumPy's subclass protocol."""

    name = ""

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", "")


class Metres(np.ndarray):
    """Lengths in units of `scale` meters; plain numbers are dimensionless."""

    scale = None

    def __array_finalize__(self, other):
        self.scale = getattr(other, "scale", None)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        scales = {getattr(each, "scale", None) for each in inputs}
        if len(scales) > 1 and ufunc is not np.multiply:
            raise TypeError("different units")
        numbers = (np.ndarray.view(np.asarray(each), np.ndarray) for each in inputs)
        made = getattr(ufunc, method)(*numbers, **options)
        with_unit = sum(getattr(each, "scale", None) is not None for each in inputs)
        squared = ufunc is np.multiply and with_unit > 1
        return made if squared else lengths(made, max(scales, key=bool))

    def __setitem__(self, key, value):
        if not isinstance(value, Metres):
            raise TypeError("without a unit")
        plain = value.view(np.ndarray)
        if plain.dtype.kind == "f":
            plain = plain * value.scale / self.scale
        self.view(np.ndarray)[key] = plain


def lengths(values, scale):
    made = np.array(values).view(Metres)
    made.scale = scale
    return made


def assert_lengths(actual, values, scale):
    assert type(actual) is Metres
    assert actual.scale == scale
    np.testing.assert_array_equal(actual.view(np.ndarray), values, strict=True)


def test_class_and_attributes_are_kept():
    data = DATA.view(Named)
    data.name = "height"
    results = (
        ndgather.gather_nd(data, [[1, 0]]),
        ndgather.gather(data, np.array([1]).view(Named)),
        ndgather.gather_elements(data, [[1, 0, 1]]),
        ndgather.gather_windows(data, [[0]], (2,)),
    )
    assert [type(each) for each in results] == [Named] * 4
    assert {each.name for each in results} == {"height"}
    np.testing.assert_array_equal(results[0].view(np.ndarray), [4.0], strict=True)


def test_records_stay_records():
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    result = ndgather.gather(records, [1])
    assert type(result) is np.recarray
    assert result.a.tolist() == [3]


def test_matrices_have_only_two_axes():
    matrix = DATA.view(np.matrix)
    assert type(ndgather.gather(matrix, [1])) is np.matrix
    with pytest.raises(DTypeError, match=r"^gather_nd: data = matrix object cannot hold a result"):
        ndgather.gather_nd(matrix, [[0, 1], [1, 2]])


def test_plain_data_yield_plain_results():
    assert type(ndgather.gather(DATA, np.array([1]).view(Named))) is np.ndarray
    assert type(ndgather.gather([1, 2], np.array([1]).view(Named))) is np.ndarray


def test_gathers_keep_units():
    data = lengths(DATA, 1.0)
    assert_lengths(ndgather.gather_nd(data, [[1, 0]]), [4.0], 1.0)
    assert_lengths(ndgather.gather(data, [5], mode="fill"), [[0.0] * 3], 1.0)
    gather = ndgather.operator("GatherND", version=13)
    assert_lengths(gather(data, np.array([[1]])), DATA[1:], 1.0)


def test_scatters_into_records():
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    result = ndgather.scatter_nd(records, [[1]], records[:1])
    assert type(result) is np.recarray
    assert result.a.tolist() == [1, 1]


class Sorted(np.ndarray):
    """Ascending numbers; assignments check the order."""

    def __setitem__(self, key, value):
        raise AssertionError("not asked")


class Hidden:
    """Numbers with hidden elements, from an unknown library."""

    def __init__(self, values, mask):
        self.values, self.mask = np.asarray(values), mask

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


class HiddenArray(np.ndarray):
    mask = property(lambda self: np.ones(self.shape, bool))


class Quantity:
    """Numbers with a unit, as in pint."""

    def __init__(self, values):
        self.magnitude = np.asarray(values)

    units = property(lambda self: "m")

    def __array__(self, dtype=None, copy=None):
        return self.magnitude


ALIEN = {
    "a subclass with a unit": lambda values: lengths(values, 1.0),
    "a subclass with a mask": lambda values: np.array(values).view(HiddenArray),
    "an object with a mask": lambda values: Hidden(values, True),
    "an object with a unit": Quantity,
}


@pytest.mark.parametrize("make", ALIEN.values(), ids=ALIEN)
def test_units_and_masks_are_refused(make):
    one = np.zeros(1)
    for bad in (
        lambda: ndgather.scatter_nd(make([1.0, 2.0]), [[0]], [1.0]),
        lambda: ndgather.scatter_nd(make([1.0, 2.0]), [[0]], make([1.0])),
        lambda: ndgather.scatter_nd(DATA[0], [[0]], make([1.0])),
        lambda: ndgather.scatter_nd(DATA[0], [[0]], make([1.0]), reduction="mul"),
        lambda: ndgather.scatter_nd(DATA[0], [[0]], [1.0], out=make([0.0, 0.0, 0.0])),
        lambda: ndgather.scatter_nd(DATA, [[0]], [make([1.0, 2.0, 3.0])]),
        lambda: ndgather.gather(DATA, [9], mode="fill", fill_value=make(1.0)),
        lambda: ndgather.gather(make([1.0, 2.0]), [9], mode="fill", fill_value=1.0),
        lambda: ndgather.gather(DATA, make([1])),
        lambda: ndgather.gather(make([1.0]), [0], out=one),
        lambda: ndgather.gather(DATA[0], [0], out=make([0.0])),
        lambda: ndgather.gather_ranges(DATA, make([0]), [1]),
        lambda: ndgather.vjp.gather_nd(make([1.0]), (3,), [[0]]),
        lambda: ndgather.operator("ScatterND")(make([1.0, 2.0]), np.array([[0]]), make([1.0])),
    ):
        with pytest.raises(DTypeError):
            bad()
    assert one.tolist() == [0.0]


def test_gathers_from_other_classes_are_refused():
    for make in (ALIEN["an object with a mask"], Quantity, ALIEN["a subclass with a mask"]):
        with pytest.raises(DTypeError, match=r"^gather: data = .* \(allowed: a plain array"):
            ndgather.gather(make([1.0, 2.0]), [0])


def test_scatters_into_classes_with_rules_are_refused():
    for kind in (Named, Sorted, Metres):
        text = r"^scatter_nd: data = \w+ object has a unit or custom"
        with pytest.raises(DTypeError, match=text):
            ndgather.scatter_nd(DATA.view(kind), [[0, 0]], [1.0])
