"""Another thread reshapes the arrays of a call: results are correct, or the error is accurate."""

import sys
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import ndgather
from ndgather import published
from ndgather.api import Call
from ndgather.arguments import raise_error
from ndgather.array_call import Kind
from ndgather.errors import NdgatherError, ShapeError
from ndgather.published.callables import KnownCalls

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
    """Run `change` repeatedly in another thread that gets frequent turns."""
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
        with suppress(ValueError):  # NumPy refuses arrays with references
            array.resize((7, 7))

    return change


def of(function):
    """Return arrays with matching shapes, and the other shapes that each is given."""
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
    """With valid entries and an out-of-bounds entry; with out= only if that array changes."""
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
                    values = np.frombuffer(result.tobytes())  # the result may be `out`
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
    """Change an operator's arguments after it has looked up cached facts about their shapes."""
    before = KnownCalls.key

    def key_then_change(*given):
        key = before(*given)
        change()
        return key

    monkeypatch.setattr(KnownCalls, "key", key_then_change)


def test_operator_uses_the_current_shape_of_its_arguments(monkeypatch):
    op = published.operator("GatherND", version=11)
    data, indices = np.arange(6).reshape(2, 3), np.array([[1, 0], [0, 1]])
    np.testing.assert_array_equal(op(data, indices), [3, 1], strict=True)
    after_the_key(monkeypatch, lambda: setattr(indices, "shape", (4, 1)))
    np.testing.assert_array_equal(op(data, indices), data[[1, 0, 0, 1]], strict=True)


def test_operator_does_not_reuse_shapes_of_other_arguments(monkeypatch):
    op = published.operator("Gather", version=11)
    data, indices = np.arange(61), np.zeros((2, 3), int)
    with monkeypatch.context() as patch:
        after_the_key(patch, lambda: setattr(indices, "shape", (3, 2)))
        op(data, indices)
    assert op(data, np.zeros((2, 3), int)).shape == (2, 3)


def test_operator_does_not_reuse_another_axis(monkeypatch):
    op = published.operator("Gather", domain="openvino", version=7)
    data, indices, axis = np.arange(4).reshape(2, 2), np.array([1]), np.array(0)
    with monkeypatch.context() as patch:
        after_the_key(patch, lambda: axis.fill(1))
        op(data, indices, axis)
    np.testing.assert_array_equal(op(data, indices, np.array(0)), [[2, 3]], strict=True)


def told_after(change, **arguments):
    """Return the error of a call whose arrays change between the refusal and the error text."""
    call = Call("gather_nd", Kind.GATHER_ND, **arguments)
    refusal = call.run()
    change()
    with pytest.raises(NdgatherError) as caught:
        raise_error(call, refusal)
    return caught.value


@pytest.mark.parametrize("shape", [(1,), ()])
def test_bad_entry_error_shows_the_checked_shape_of_data(shape):
    data, indices = np.zeros((1, 1)), np.array([[0, 5]])
    error = told_after(lambda: setattr(data, "shape", shape), data=data, indices=indices)
    assert str(error) == (
        "gather_nd: indices[0, 1] = 5 is outside axis 1 of data, which has size 1 (allowed: -1..0)"
    )


def test_bad_entry_error_shows_the_checked_shape_of_indices():
    data, indices = np.arange(3), np.zeros((9, 1), int)
    indices[-1] = 7
    error = told_after(lambda: indices.resize((2, 1), refcheck=False), data=data, indices=indices)
    assert str(error).startswith("gather_nd: indices[8, 0] = 7 is outside axis 0 of data")


def test_shape_error_shows_the_checked_shapes():
    data, indices = np.arange(12), np.zeros((2, 3), int)
    error = told_after(lambda: setattr(data, "shape", (4, 3)), data=data, indices=indices)
    assert type(error) is ShapeError
    assert str(error).startswith(
        "gather_nd: indices.shape[-1] = 3 is more than the 1 axes that data (12,) has"
    )
