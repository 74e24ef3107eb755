"""Whatever is passed as any argument, the answer is a result or an error of this package.

MemoryError and KeyboardInterrupt pass as they are.
"""

import importlib.util
import inspect
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import ndgather
from ndgather import operator, vjp
from ndgather.errors import AttributeValueError, DTypeError, NdgatherError

DATA = np.arange(6.0).reshape(2, 3)
ROWS = np.array([[1], [0]])
PLACES = np.array([[1, 0, 1]])

GOOD = {
    ndgather.gather_nd: {"data": DATA, "indices": ROWS},
    ndgather.gather_elements: {"data": DATA, "indices": PLACES},
    ndgather.gather: {"data": DATA, "indices": ROWS},
    ndgather.gather_windows: {"data": DATA, "starts": ROWS, "window_shape": (1,)},
    ndgather.scatter_nd: {"data": DATA, "indices": ROWS, "updates": DATA},
    ndgather.scatter_elements: {"data": DATA, "indices": PLACES, "updates": DATA[:1]},
    vjp.gather_nd: {"cotangent": DATA, "data_shape": (2, 3), "indices": ROWS},
    vjp.gather_elements: {"cotangent": DATA[:1], "data_shape": (2, 3), "indices": PLACES},
    vjp.gather_windows: {
        "cotangent": DATA[:, np.newaxis],
        "data_shape": (2, 3),
        "starts": ROWS,
        "window_shape": (1,),
    },
    vjp.scatter_nd: {"cotangent": DATA, "indices": ROWS},
    vjp.scatter_elements: {"cotangent": DATA, "indices": PLACES},
    operator: {"name": "GatherND"},
    ndgather.set_num_threads: {"count": 1},
    ndgather.set_memory_limit: {"limit": 1},
}


class Refuses:
    """Raises `error` wherever it is asked for anything."""

    def __init__(self, error):
        self.error = error

    def fail(self, *_, **__):
        raise self.error

    __array__ = __len__ = __getitem__ = __iter__ = __index__ = __int__ = __float__ = fail
    __eq__ = __ne__ = __lt__ = __bool__ = __hash__ = __repr__ = __str__ = fail
    __add__ = __contains__ = fail


class NeedsGradient:
    """As a torch tensor that requires a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __len__(self):
        return 2

    def __getitem__(self, _):
        return self


class NoArray:
    """As a container that is converted to something else."""

    def __array__(self, dtype=None, copy=None):
        return "not an array"


class Lies:
    """A sequence that is longer than it can be."""

    def __len__(self):
        return 3

    def __getitem__(self, place):
        if place > 0:
            raise ValueError("no more")
        return 1


class Word(str):
    """A string whose comparison fails."""

    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = str.__hash__


class Endless:
    """An integer that is never ready."""

    def __index__(self):
        raise RuntimeError("no index")

    def __array__(self, dtype=None, copy=None):
        raise TypeError("cannot be converted")


def things():
    """Yield a name and something that somebody might pass."""
    yield "None", lambda: None
    yield "Ellipsis", lambda: ...
    yield "a string", lambda: "abc"
    yield "bytes", lambda: b"abc"
    yield "a word", lambda: Word("add")
    yield "a mode", lambda: Word("fill")
    yield "a set", lambda: {1, 2}
    yield "a dict", lambda: {0: 1}
    yield "a generator", lambda: (n for n in (1, 0))
    yield "a ragged list", lambda: [[1], [1, 2]]
    yield "a list of itself", of_itself
    yield "a list of sets", lambda: [{1}, {2}]
    yield "an empty list", list
    yield "an empty float array", lambda: np.empty((0, 2))
    yield "a huge integer", lambda: 10**5000
    yield "a large integer", lambda: 2**63
    yield "nan", lambda: float("nan")
    yield "a complex number", lambda: 1j
    yield "a boolean", lambda: True
    yield "a type", lambda: int
    yield "a dtype", lambda: np.dtype("f4")
    yield "a module", lambda: np
    yield "an object array", of_objects
    yield "a structured array", lambda: np.zeros(2, "i4,f8")
    yield "an array without bytes", lambda: np.zeros(2, "V0")
    yield "a masked array", lambda: np.ma.masked_array([[1], [0]], [[True], [False]])
    yield "a byte-swapped array", lambda: np.array([[1], [0]], ">i4")
    yield "dates", lambda: np.array(["2020-01-01"], "M8[D]")
    yield "needs a gradient", NeedsGradient
    yield "no array", NoArray
    yield "lies", Lies
    yield "endless", Endless
    for error in (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError):
        yield f"refuses by {error.__name__}", lambda error=error: Refuses(error("refused"))
    if importlib.util.find_spec("torch") is not None:
        yield from tensors()


def of_objects():
    made = np.empty(2, object)
    made[0] = Refuses(RuntimeError("refused"))
    return made


def of_itself():
    made = []
    made.append(made)
    return made


def tensors():
    import torch  # noqa: PLC0415 - where it is installed

    yield "torch: requires a gradient", lambda: torch.ones(2, 3, requires_grad=True)
    yield "torch: conjugate", lambda: torch.ones(2, 3, dtype=torch.complex64).conj()
    yield "torch: negative bit", lambda: torch.ones(2, 3, dtype=torch.complex64).conj().imag
    yield "torch: sparse", lambda: torch.ones(2, 3).to_sparse()
    yield "torch: bfloat16", lambda: torch.ones(2, 3, dtype=torch.bfloat16)
    yield "torch: meta", lambda: torch.ones(2, 3, device="meta")
    yield "torch: nested", lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yield "torch: a dtype", lambda: torch.float32


def name_of(function):
    return f"{function.__module__}.{function.__name__}"


@pytest.fixture(autouse=True)
def settings_kept():
    threads, limit = ndgather.get_num_threads(), ndgather.get_memory_limit()
    yield
    ndgather.set_num_threads(threads)
    ndgather.set_memory_limit(limit)


@pytest.mark.parametrize("thing", [pytest.param(make, id=name) for name, make in things()])
@pytest.mark.parametrize("function", GOOD, ids=name_of)
@pytest.mark.filterwarnings("ignore")  # of the containers, about their conversion
def test_the_answer_is_a_result_or_an_error_of_this_package(function, thing):
    good = GOOD[function]
    function(**good)
    parameters = inspect.signature(function).parameters
    for name in parameters:
        for other in ({}, {"mode": "fill"}, {"reduction": "add"}, {"reduction": "mean"}):
            options = {key: value for key, value in other.items() if key in parameters}
            with suppress(NdgatherError, MemoryError):
                function(**(good | options | {name: thing()}))


@pytest.mark.parametrize("thing", [pytest.param(make, id=name) for name, make in things()])
@pytest.mark.filterwarnings("ignore")
def test_operators_answer_or_refuse(thing):
    gather, scatter = operator("GatherND"), operator("ScatterND")
    for call in (
        lambda: gather(thing(), ROWS),
        lambda: gather(DATA, thing()),
        lambda: gather(DATA, ROWS, batch_dims=thing()),
        lambda: gather(DATA, ROWS, axis=thing()),
        lambda: scatter(DATA, ROWS, thing()),
        lambda: scatter(DATA, ROWS, DATA, reduction=thing()),
        lambda: gather.infer_shape(thing(), ("N", 1)),
        lambda: gather.infer_shape((2, 3), thing()),
        lambda: gather.infer_shape((2, thing()), ("N", 1)),
        lambda: gather.infer(thing(), thing()),
        lambda: gather.infer_shape((2, 3), ("N", 1), batch_dims=thing()),
    ):
        with suppress(NdgatherError, MemoryError):
            call()


@pytest.mark.parametrize(
    "function", [each for each in GOOD if "set_" not in each.__name__][:-1], ids=name_of
)
def test_memory_error_and_interrupts_pass(function):
    good = GOOD[function]
    first = next(iter(good))
    for error in (MemoryError("none left"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            function(**(good | {first: Refuses(error)}))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_indices_that_an_option_changes_are_read_as_they_are_then():
    data, indices = np.arange(16), np.arange(4)

    class Changing:
        def __index__(self):
            indices.dtype = np.int8  # of which there are eight times as many
            return 0

    result = ndgather.gather(data, indices, axis=Changing(), mode="clip")
    np.testing.assert_array_equal(result, data[indices], strict=True)


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("era.zarr/t2m", "zarr.open_array('era.zarr/t2m')"),
        ("s3://bucket/era.zarr/t2m", "zarr.open_array('s3://bucket/era.zarr/t2m')"),
        (Path("a.npy"), "numpy.load('a.npy', mmap_mode='r')"),
        ("field.nc", "h5py.File('field.nc')[name]"),
        ("a.h5", "h5py.File('a.h5')[name]"),
    ],
)
def test_text_is_not_opened(path, call):
    text = f"{str(path)!r} is text, which is not opened (allowed: an array); write {call}"
    with pytest.raises(DTypeError) as refused:
        ndgather.gather_nd(path, [[0]])
    assert str(refused.value) == f"gather_nd: data = {text}"
    with pytest.raises(DTypeError) as refused:
        ndgather.scatter_nd(DATA, path, DATA)
    assert str(refused.value) == f"scatter_nd: indices = {text}"


NO_MEMORY = (True, False, -1, 1.5, "2 MB/s", "-1 kB", "", b"1", int)


@pytest.mark.parametrize("memory", NO_MEMORY, ids=repr)
def test_memory_that_is_no_number_of_bytes_is_refused(memory):
    with pytest.raises(AttributeValueError, match=r"^gather_nd: memory = .* is not a number of"):
        ndgather.gather_nd(DATA, ROWS, memory=memory)


@pytest.mark.parametrize("memory", [0, 1, 2**70, "0", "1.5 kB", "7 GiB", " 3MB "], ids=repr)
def test_memory_of_any_number_of_bytes_is_taken(memory):
    np.testing.assert_array_equal(ndgather.gather_nd(DATA, ROWS, memory=memory), DATA[::-1])
