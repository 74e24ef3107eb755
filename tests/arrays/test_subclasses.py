"""Subclasses of NumPy's array keep their class and what they carry, or are refused."""

import numpy as np
import pytest

import ndgather
from ndgather import arguments
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError

DATA = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Named(np.ndarray):
    """An array with a name, by the protocol of NumPy."""

    name = ""

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", "")


class Metres(np.ndarray):
    """Lengths in units of `scale` metres; plain numbers have none."""

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


def test_class_and_attributes_come_back():
    data = DATA.view(Named)
    data.name = "height"
    results = (
        ndgather.gather_nd(data, [[1, 0]]),
        ndgather.gather(data, np.array([1]).view(Named)),
        ndgather.gather_elements(data, [[1, 0, 1]]),
        ndgather.gather_windows(data, [[0]], (2,)),
        ndgather.scatter_nd(data, [[0]], [[9.0, 9.0, 9.0]]),
        ndgather.scatter_elements(data, [[1, 0, 1]], np.full((1, 3), 9.0).view(Named)),
    )
    assert [type(each) for each in results] == [Named] * 6
    assert {each.name for each in results} == {"height"}
    np.testing.assert_array_equal(results[0].view(np.ndarray), [4.0], strict=True)
    np.testing.assert_array_equal(results[4].view(np.ndarray)[0], [9.0] * 3, strict=True)


def test_records_stay_records():
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    result = ndgather.gather(records, [1])
    assert type(result) is np.recarray
    assert result.a.tolist() == [3]


def test_a_matrix_holds_two_axes_alone():
    matrix = DATA.view(np.matrix)
    assert type(ndgather.gather(matrix, [1])) is np.matrix
    with pytest.raises(DTypeError, match=r"^gather_nd: data = matrix object cannot hold a result"):
        ndgather.gather_nd(matrix, [[0, 1], [1, 2]])


def test_plain_data_give_plain_results():
    assert type(ndgather.gather(DATA, np.array([1]).view(Named))) is np.ndarray
    assert type(ndgather.gather([1, 2], np.array([1]).view(Named))) is np.ndarray


def test_units_come_back_and_updates_are_converted():
    data = lengths(DATA, 1.0)
    assert_lengths(ndgather.gather_nd(data, [[1, 0]]), [4.0], 1.0)
    updates = lengths([[7.0, 8.0, 9.0]], 1000.0)
    for reduction, first in (("none", 7000.0), ("add", 7001.0), ("sub", -6999.0), ("max", 7000.0)):
        actual = ndgather.scatter_nd(data, [[0]], updates, reduction=reduction)
        assert_lengths(actual[:, 0], [first, 4.0], 1.0)
    doubled = ndgather.scatter_nd(data, [[0]], [[2.0, 2.0, 2.0]], reduction="mul")
    assert_lengths(doubled, DATA * [[2], [1]], 1.0)
    filled = ndgather.gather(data, [5], mode="fill", fill_value=lengths(2.0, 1000.0))
    assert_lengths(filled, [[2000.0] * 3], 1.0)


def test_units_that_would_be_lost_are_refused():
    data = lengths(DATA, 1.0)
    for bad in (
        lambda: ndgather.scatter_nd(data, [[0, 0]], [1.0]),
        lambda: ndgather.scatter_nd(DATA, [[0, 0]], lengths([1.0], 1.0)),
        lambda: ndgather.scatter_nd(data, [[0, 0]], lengths([1.0], 1.0), reduction="mul"),
        lambda: ndgather.gather(data, [9], mode="fill", fill_value=1.0),
        lambda: ndgather.gather(data, lengths([1], 1.0)),
        lambda: ndgather.gather(data, [1], out=np.zeros((1, 3))),
    ):
        with pytest.raises(DTypeError):
            bad()


@pytest.mark.parametrize("reduction", ["sum", [], None])
def test_an_unknown_reduction_has_the_error_of_plain_arrays(reduction):
    data, updates = lengths(DATA, 1.0), lengths([1.0], 1.0)
    with pytest.raises(AttributeValueError, match=r"^scatter_nd: reduction = .* \(allowed: "):
        ndgather.scatter_nd(data, [[0, 0]], updates, reduction=reduction)


def test_a_reduction_of_unknown_units_is_not_carried_out(monkeypatch):
    monkeypatch.setattr(arguments, "REDUCTIONS", (*arguments.REDUCTIONS, "power"))
    data, updates = lengths(DATA, 1.0), lengths([1.0], 1.0)
    with pytest.raises(KeyError):
        ndgather.scatter_nd(data, [[0, 0]], updates, reduction="power")


def test_out_with_another_unit():
    data, out = lengths(DATA, 1.0), lengths(np.zeros((1, 3)), 1000.0)
    assert ndgather.gather(data, [1], out=out) is out
    assert_lengths(out, DATA[1:] / 1000, 1000.0)
    assert ndgather.scatter_nd(data, [[0, 0]], lengths([1.0], 1000.0), out=data) is data
    assert data.view(np.ndarray)[0, 0] == 1000
    with pytest.raises(ShapeError, match=r"^gather: out\.shape"):
        ndgather.gather(data, [1], out=lengths(np.zeros(3), 1000.0))
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather(data, [2])


def test_published_operators_keep_units():
    data, gather = lengths(DATA, 1.0), ndgather.operator("GatherND", version=13)
    assert_lengths(gather(data, np.array([[1]])), DATA[1:], 1.0)
    scatter = ndgather.operator("ScatterND", version=18)
    summed = scatter(data, np.array([[0, 0]]), lengths([2.0], 1000.0), reduction="add")
    assert_lengths(summed[0], [2001.0, 2.0, 3.0], 1.0)
