"""Another thread gives the arrays of a call other shapes: right elements or an honest error."""

import sys
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import ndgather
from ndgather import _core, calls, published
from ndgather.errors import IndexOutOfBoundsError, NdgatherError, ShapeError
from ndgather.published import callables

pytestmark = [
    pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning"),
    pytest.mark.skipif(
        not getattr(sys, "_is_gil_enabled", lambda: True)(),
        reason="without the GIL, NumPy itself crashes where an array is given another shape",
    ),
]

SECONDS = 0.15


@contextmanager
def repeated(change):
    """Make `change` again and again on another thread, which often gets its turn."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            change()

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def set_shapes(array, *shapes):
    def change():
        for shape in shapes:
            array.shape = shape
        with suppress(ValueError):  # NumPy refuses what others refer to
            array.resize((7, 7))

    return change


def of(function):
    """Arrays whose shapes fit, and the other shapes that each of them is given."""
    data = np.arange(1.0, 50_001.0).reshape(100, 500)
    shapes = {"data": ((500, 100), (50_000,), (100, 500))}
    if function in ("gather_nd", "scatter_nd"):
        indices, lead = np.zeros((20_000, 2), np.int64), (20_000,)
        shapes["indices"] = ((10_000, 4), (40_000, 1), (40_000,), (20_000, 2))
    elif function == "gather":
        indices, lead = np.zeros(100, np.int64), (100, 500)
        shapes["indices"] = ((10, 10), (100, 1), (100,))
    else:
        indices, lead = np.zeros((90, 400), np.int64), (90, 400)
        shapes["indices"] = ((36_000,), (400, 90), (90, 400))
    arrays = {"data": data, "indices": indices}
    if function.startswith("scatter"):
        arrays["updates"] = np.full(lead, 60_000.0)
        shapes["updates"] = ((arrays["updates"].size,), (-1, 2), lead)
        arrays["out"] = np.zeros(data.shape)
    else:
        arrays["out"] = np.zeros(lead)
    shapes["out"] = ((arrays["out"].size,), (-1, 5), arrays["out"].shape)
    return arrays, shapes


@pytest.mark.parametrize(
    ("function", "changing"),
    [
        (function, changing)
        for function in ("gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements")
        for changing in ("data", "indices", "updates", "out")
        if changing != "updates" or function.startswith("scatter")
    ],
)
def test_shapes_of_an_argument(function, changing):
    """With entries in bounds and one far outside; without out= and, if that changes, with it."""
    arrays, shapes = of(function)
    call = getattr(ndgather, function)
    bad = {**arrays, "indices": arrays["indices"].copy()}
    bad["indices"].flat[-1] = 70_000
    options = {} if function in ("gather_nd", "scatter_nd") else {"axis": -1}
    texts = []
    with repeated(set_shapes(arrays[changing], *shapes[changing])):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for given in (arrays, bad):
                named = {k: v for k, v in given.items() if k != "out" or changing == "out"}
                try:
                    result = call(**named, **options)
                except NdgatherError as error:
                    texts.append(str(error))
                else:
                    assert given is arrays
                    values = np.frombuffer(result.tobytes())  # the result may be out
                    allowed = (values >= 1) & (values <= 50_000) | (values == 60_000)
                    assert allowed.all()
    assert texts
    assert all(text.startswith(f"{function}: ") for text in texts)


@pytest.mark.parametrize("changing", ["data", "indices"])
def test_shapes_of_an_operators_argument(changing):
    op = published.operator("GatherND")
    arrays, shapes = of("gather_nd")
    with repeated(set_shapes(arrays[changing], *shapes[changing])):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with suppress(NdgatherError):
                result = op(arrays["data"], arrays["indices"])
                assert result.min() >= 1


def after_the_key(monkeypatch, change):
    """Let an operator's arguments change when it has looked up what it knows of their shapes."""
    before = callables._key

    def key_then_change(*given):
        key = before(*given)
        change()
        return key

    monkeypatch.setattr(callables, "_key", key_then_change)


def test_an_operator_gives_the_shape_that_its_arguments_have_by_now(monkeypatch):
    op = published.operator("GatherND", version=11)
    data, indices = np.arange(6).reshape(2, 3), np.array([[1, 0], [0, 1]])
    np.testing.assert_array_equal(op(data, indices), [3, 1], strict=True)
    after_the_key(monkeypatch, lambda: setattr(indices, "shape", (4, 1)))
    np.testing.assert_array_equal(op(data, indices), data[[1, 0, 0, 1]], strict=True)


def test_an_operator_remembers_no_shape_of_other_arguments(monkeypatch):
    op = published.operator("Gather", version=11)
    data, indices = np.arange(61), np.zeros((2, 3), int)
    with monkeypatch.context() as patch:
        after_the_key(patch, lambda: setattr(indices, "shape", (3, 2)))
        op(data, indices)
    assert op(data, np.zeros((2, 3), int)).shape == (2, 3)


def test_an_operator_remembers_no_other_axis(monkeypatch):
    op = published.operator("Gather", domain="openvino", version=7)
    data, indices, axis = np.arange(4).reshape(2, 2), np.array([1]), np.array(0)
    with monkeypatch.context() as patch:
        after_the_key(patch, lambda: axis.fill(1))
        op(data, indices, axis)
    np.testing.assert_array_equal(op(data, indices, np.array(0)), [[2, 3]], strict=True)


def refused_after(change, **arguments):
    """Make a call of the core that sees the arrays as they are before `change`, then answer it."""

    def function(*given):
        function.calls += 1
        try:
            return _core.gather_nd(*given)
        finally:
            if function.calls == 1:
                change()

    function.calls = 0
    call = calls.Gather(
        caller="gather_nd",
        function=function,
        options=(0,),
        option_names=("batch_dims",),
        **arguments,
    )
    return call.run()


@pytest.mark.parametrize("shape", [(1,), ()])
def test_data_has_a_lower_rank_when_a_bad_entry_is_told(shape):
    data, indices = np.zeros((1, 1)), np.array([[0, 5]])

    def change():
        data.shape = shape

    with pytest.raises(NdgatherError, match="an array changed its shape"):
        refused_after(change, data=data, indices=indices)


def test_data_has_another_size_when_a_bad_entry_is_told():
    """The text never says that a value is outside of an axis which holds it."""
    data, indices = np.arange(12).reshape(2, 6), np.array([[0], [4]])

    def change():
        data.shape = (6, 2)

    with pytest.raises(NdgatherError) as caught:
        refused_after(change, data=data, indices=indices)
    assert type(caught.value) is NdgatherError
    assert str(caught.value) == (
        "gather_nd: an array changed its shape during the call (another thread gave it another)"
    )


def test_indices_have_fewer_entries_when_a_bad_entry_is_told():
    data, indices = np.arange(3), np.zeros((9, 1), int)
    indices[-1] = 7

    def change():
        indices.resize((2, 1), refcheck=False)

    with pytest.raises(NdgatherError, match="an array changed its shape"):
        refused_after(change, data=data, indices=indices)


def test_the_entry_is_told_in_the_shape_that_indices_have_by_now():
    data, indices = np.arange(3), np.zeros((9, 1), int)
    indices[7] = 3

    def change():
        indices.shape = (3, 3, 1)

    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[2, 1, 0\] = 3 is outside axis 0"):
        refused_after(change, data=data, indices=indices)


def test_shapes_that_fit_by_now_give_the_result():
    """What did not fit is looked at again before an error says what no longer holds."""
    data, indices = np.arange(12), np.array([[3, 3]])

    def change():
        data.shape = (3, 4)

    with pytest.raises(IndexOutOfBoundsError, match="size 3"):
        refused_after(change, data=data, indices=indices)
    data.shape, indices[...] = (12,), 2
    result = refused_after(change, data=data, indices=indices)
    np.testing.assert_array_equal(result, [10], strict=True)


def test_out_that_fits_by_now_is_taken_and_returned():
    data, indices, out = np.arange(5), np.array([[3], [4]]), np.zeros((1, 2), int)

    def change():
        out.shape = (2,)

    assert refused_after(change, data=data, indices=indices, out=out) is out
    np.testing.assert_array_equal(out, [3, 4], strict=True)


def test_shapes_of_an_error_are_of_one_moment():
    data, indices = np.arange(12), np.array([[3, 3]])

    def change():
        indices.shape = (2, 1, 1)
        indices[...] = 30

    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[0, 0, 0\] = 30"):
        refused_after(change, data=data, indices=indices)
    with pytest.raises(ShapeError, match=r"\(4, 3\)"):
        refused_after(
            lambda: setattr(data, "shape", (4, 3)), data=data, indices=np.zeros((2, 3), int)
        )
