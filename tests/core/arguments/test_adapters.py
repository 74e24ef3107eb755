"""Adapters of foreign classes; arrays without one are converted only if NumPy can view them."""

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

import ndgather
from ndgather import api
from ndgather.errors import DTypeError

DATA = np.arange(6.0).reshape(2, 3)
ROWS = np.array([[1], [0]])


class Measured:
    """Numbers with a unit, from a library that does not know ndgather."""

    def __init__(self, values, unit):
        self.values, self.unit = values, unit


class Gatherer:
    """The adapter of a library that knows ndgather."""

    @staticmethod
    def run(call):
        data, out = call.data, call.out
        if not isinstance(data, Measured):
            raise TypeError("numbers without a unit")
        arguments = {
            name: value.values
            for name, value in (("data", data), ("updates", call.updates), ("out", out))
            if isinstance(value, Measured)
        }
        result = Measured(api.run(replace(call, **arguments)), data.unit)
        return result if out is None else out


class Adapted(Measured):
    __ndgather_adapter__ = Gatherer


class Named(Measured):
    __ndgather_adapter__ = "adapter_of_somebody"


@pytest.fixture
def adapter_of_somebody(monkeypatch):
    module = ModuleType("adapter_of_somebody")
    module.run = Gatherer.run
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("module", ["rows", "standard", "masked", "lowering"])
def test_a_users_module_may_be_named_like_one_of_ours(module):
    kind = type("Grid", (), {"__module__": module, "__array__": lambda *_, **__: DATA})
    np.testing.assert_array_equal(ndgather.gather_nd(kind(), ROWS), DATA[[1, 0]])


@pytest.mark.usefixtures("adapter_of_somebody")
@pytest.mark.parametrize("kind", [Adapted, Named])
def test_class_names_its_adapter(kind):
    result = ndgather.gather_nd(kind(DATA, "m"), ROWS)
    assert result.unit == "m"
    np.testing.assert_array_equal(result.values, DATA[::-1], strict=True)
    scattered = ndgather.scatter_nd(kind(DATA, "m"), ROWS, kind(DATA, "m"), reduction="add")
    np.testing.assert_array_equal(scattered.values, DATA + DATA[::-1], strict=True)


def test_adapter_handles_any_call_with_its_class():
    out = Adapted(np.zeros((2, 3)), "m")
    assert ndgather.gather_nd(Adapted(DATA, "m"), ROWS, out=out) is out
    np.testing.assert_array_equal(out.values, DATA[::-1], strict=True)
    with pytest.raises(TypeError, match="numbers without a unit"):
        ndgather.gather_nd(DATA, Adapted(ROWS, "m"))


def test_subclass_can_opt_out():
    class Plain(Adapted):
        __ndgather_adapter__ = None

    with pytest.raises(DTypeError, match="data = Plain object is not an array"):
        ndgather.gather_nd(Plain(DATA, "m"), ROWS)


class Elsewhere:
    """An array on a GPU that can be copied to NumPy."""

    def __dlpack_device__(self):
        return (2, 0)

    def __array__(self, dtype=None, copy=None):
        return DATA


class Sparse:
    def todense(self):
        return DATA

    def __array__(self, dtype=None, copy=None):
        return DATA


class Lazy:
    def compute(self):
        return DATA

    def __array__(self, dtype=None, copy=None):
        return DATA


class OnHost(Elsewhere):
    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    ("kind", "what"), [(Elsewhere, "on another device"), (Sparse, "sparse"), (Lazy, "lazy")]
)
def test_costly_conversions_are_refused(kind, what):
    with pytest.raises(DTypeError, match=f"data = {kind.__name__} object is {what} and is not"):
        ndgather.gather_nd(kind(), ROWS)
    with pytest.raises(DTypeError, match=f"updates = {kind.__name__} object is {what} and is not"):
        ndgather.scatter_nd(DATA, ROWS, kind())


def test_arrays_in_memory_are_converted():
    np.testing.assert_array_equal(ndgather.gather_nd(OnHost(), ROWS), DATA[::-1], strict=True)
