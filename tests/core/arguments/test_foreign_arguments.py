"""Any object as any argument gives a result or an error of this package.

MemoryError and KeyboardInterrupt propagate unchanged.
"""

import importlib.util
import inspect
from operator import index
from pathlib import Path

import numpy as np
import pytest

import ndgather
from ndgather import operator, vjp
from ndgather.errors import AttributeValueError, DTypeError, NdgatherError
from ndgather.published.schema import RankAtLeast
from tests.definitions import reference

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
    """Raises `error` for every operation."""

    def __init__(self, error):
        self.error = error

    def fail(self, *_, **__):
        raise self.error

    __array__ = __len__ = __getitem__ = __iter__ = __index__ = __int__ = __float__ = fail
    __eq__ = __ne__ = __lt__ = __bool__ = __hash__ = __repr__ = __str__ = fail
    __add__ = __contains__ = fail


class NeedsGradient:
    """Like a torch tensor that requires a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __len__(self):
        return 2

    def __getitem__(self, _):
        return self


class NoArray:
    """Like a container that is converted to something else."""

    def __array__(self, dtype=None, copy=None):
        return "not an array"


class Lies:
    """A sequence that claims an impossible length."""

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
    """An integer whose conversion never ends."""

    def __index__(self):
        raise RuntimeError("no index")

    def __array__(self, dtype=None, copy=None):
        raise TypeError("cannot be converted")


def things():
    """Yield names and objects that someone might pass."""
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


def plain(value):
    """Return the numbers of a value as a NumPy array without using the core, or None."""
    if hasattr(value, "detach"):
        if value.is_meta:
            return None
        value = value.detach().resolve_conj().resolve_neg()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    array = np.ma.getdata(value)
    return array.astype(int) if array.size == 0 and array.dtype.kind == "f" else array


def by_loops(function, given):
    """Return the result of the plain loops for accepted arguments."""
    name, given = function.__name__, dict(given)
    first = "cotangent" if "cotangent" in given else "data"
    array = plain(given[first])
    indices = plain(given.get("indices", given.get("starts")))
    if array is None or indices is None:
        return None
    options = {
        key: index(given[key]) for key in ("axis", "batch_dims") if given.get(key) is not None
    }
    options |= {
        key: str.__str__(given[key]) for key in ("mode", "reduction") if given.get(key) is not None
    }
    if options.get("reduction", "none") != "none" and "use_init_val" in given:
        options["use_init_val"] = bool(given["use_init_val"])
    if given.get("fill_value") is not None:
        options["fill_value"] = plain(given["fill_value"])[()]
    window = (tuple(map(index, given["window_shape"])),) if "window_shape" in given else ()
    if first == "data":
        updates = (plain(given["updates"]).astype(array.dtype),) if "updates" in given else ()
        return getattr(reference, name)(array, indices, *window, *updates, **options)
    # For gradients, each element of the cotangent belongs to the element of data that it came from.
    scatters, reduction = name.startswith("scatter"), options.pop("reduction", "none")
    shape = array.shape if scatters else tuple(map(index, given["data_shape"]))
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    gather = getattr(reference, name.replace("scatter", "gather"))
    places = gather(numbers, indices, *window, **options)
    of_data = np.zeros(shape, array.dtype)
    if not scatters:
        np.add.at(of_data.reshape(-1), places, array)
        return of_data
    of_updates = array.reshape(-1)[places]
    if reduction == "add":
        return array, of_updates
    of_data[...] = array
    of_data.reshape(-1)[places.reshape(-1)] = 0
    last = {place: at for at, place in enumerate(places.flat)}
    stays = np.array([last[place] == at for at, place in enumerate(places.flat)], bool)
    return of_data, np.where(stays.reshape(places.shape), of_updates, 0)


def check_answer(function, given, result):
    """Compare a result with the loops, or a setting with the value that was set."""
    if function is operator:
        expected = {"domain": given.get("domain") or "ai.onnx", "name": given["name"]}
        assert {key: getattr(result, key) for key in expected} == expected
        assert given.get("version") in (None, result.version)
    elif function.__name__.startswith("set_"):
        (value,) = given.values()
        assert getattr(ndgather, function.__name__.replace("set", "get"))() == index(value)
    else:
        expected = by_loops(function, given)
        results = result if isinstance(result, tuple) else (result,)
        if expected is None:
            assert {*map(plain, results)} == {None}
            return
        assert given.get("out") is None or result is given["out"]
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for one, of_loops in zip(results, wanted, strict=True):
            found = plain(one)
            assert found.shape == of_loops.shape
            if found.dtype.kind == "O":
                assert all(a is b for a, b in zip(found.flat, of_loops.flat, strict=True))
            else:
                np.testing.assert_array_equal(found, of_loops)


@pytest.mark.parametrize("thing", [pytest.param(make, id=name) for name, make in things()])
@pytest.mark.parametrize("function", GOOD, ids=name_of)
@pytest.mark.filterwarnings("ignore")  # of containers, when converted
def test_result_matches_the_loops_or_raises_our_error(function, thing):
    good = GOOD[function]
    check_answer(function, good, function(**good))
    parameters = inspect.signature(function).parameters
    for name in parameters:
        for other in ({}, {"mode": "fill"}, {"reduction": "add"}, {"reduction": "mean"}):
            options = {key: value for key, value in other.items() if key in parameters}
            given = good | options | {name: thing()}
            try:
                result = function(**given)
            except (NdgatherError, MemoryError):
                continue
            check_answer(function, given, result)


@pytest.mark.parametrize("thing", [pytest.param(make, id=name) for name, make in things()])
@pytest.mark.filterwarnings("ignore")
def test_operators_match_the_loops_or_raise(thing):
    gather, scatter = operator("GatherND"), operator("ScatterND")
    good = {"data": DATA, "indices": ROWS, "updates": DATA}
    for name, operation, inputs in (
        *(("data", gather, 2), ("indices", gather, 2), ("batch_dims", gather, 2)),
        *(("updates", scatter, 3), ("reduction", scatter, 3), ("data", scatter, 3)),
    ):
        given = dict(list(good.items())[:inputs]) | {name: thing()}
        arguments = [given.pop(key) for key in list(good)[:inputs]]
        try:
            result = operation(*arguments, **given)
        except (NdgatherError, MemoryError):
            continue
        function = ndgather.gather_nd if operation is gather else ndgather.scatter_nd
        given |= dict(zip(good, arguments, strict=False))
        check_answer(function, given, result)


# The results for objects that are a shape, a size or a number of axes; all others are refused.
SHAPES = {
    "data": (lambda thing: (thing, ("N", 1)), {"None": RankAtLeast(("N",))}),
    "indices": (lambda thing: ((2, 3), thing), {"None": None}),
    "size": (
        lambda thing: ((2, thing), ("N", 1)),
        {
            "None": ("N", None),
            "a string": ("N", "abc"),
            "a word": ("N", "add"),
            "a mode": ("N", "fill"),
            "a huge integer": ("N", 10**5000),
            "a large integer": ("N", 2**63),
        },
    ),
    "both": (lambda thing: (thing, thing), {"None": None}),
}


@pytest.mark.parametrize("made", [pytest.param(each, id=each[0]) for each in things()])
@pytest.mark.filterwarnings("ignore")
def test_shapes_are_inferred_or_refused(made):
    name, thing = made
    gather = operator("GatherND")
    with pytest.raises(NdgatherError):
        gather(DATA, ROWS, axis=thing())
    with pytest.raises(NdgatherError):
        gather.infer(thing(), thing())
    for shapes, taken in SHAPES.values():
        if name in taken:
            found = gather.infer_shape(*shapes(thing()))
            if isinstance(found, tuple):  # a string cannot be compared
                found = tuple(str.__str__(n) if isinstance(n, str) else n for n in found)
            assert found == taken[name]
        else:
            with pytest.raises(NdgatherError):
                gather.infer_shape(*shapes(thing()))
    if name == "None":
        assert gather.infer_shape((2, 3), ("N", 1), batch_dims=None) == ("N", 3)
    else:
        with pytest.raises(NdgatherError):
            gather.infer_shape((2, 3), ("N", 1), batch_dims=thing())


@pytest.mark.parametrize(
    "function", [each for each in GOOD if "set_" not in each.__name__][:-1], ids=name_of
)
def test_memory_error_and_interrupts_propagate(function):
    good = GOOD[function]
    first = next(iter(good))
    for error in (MemoryError("none left"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            function(**(good | {first: Refuses(error)}))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_indices_changed_by_an_option_are_read_afterwards():
    data, indices = np.arange(16), np.arange(4)

    class Changing:
        def __index__(self):
            indices.dtype = np.int8  # eight times as many
            return 0

    result = ndgather.gather(data, indices, axis=Changing(), mode="clip")
    np.testing.assert_array_equal(result, data[indices], strict=True)


@pytest.mark.parametrize("path", ["era.zarr/t2m", "s3://bucket/era.zarr/t2m", Path("a.npy")])
def test_paths_are_not_opened(path):
    text = (
        f"{str(path)!r} is not opened automatically (allowed: an array, opened by the library "
        "that reads it)"
    )
    with pytest.raises(DTypeError) as refused:
        ndgather.gather_nd(path, [[0]])
    assert str(refused.value) == f"gather_nd: data = {text}"
    with pytest.raises(DTypeError) as refused:
        ndgather.scatter_nd(DATA, path, DATA)
    assert str(refused.value) == f"scatter_nd: indices = {text}"


NO_MEMORY = (True, False, -1, 1.5, "2 MB/s", "-1 kB", "", b"1", int)


@pytest.mark.parametrize("memory", NO_MEMORY, ids=repr)
def test_invalid_memory_is_refused(memory):
    with pytest.raises(AttributeValueError, match=r"^gather_nd: memory = .* is not a number of"):
        ndgather.gather_nd(DATA, ROWS, memory=memory)


@pytest.mark.parametrize("memory", [0, 1, 2**70, "0", "1.5 kB", "7 GiB", " 3MB "], ids=repr)
def test_any_number_of_bytes_is_accepted_as_memory(memory):
    np.testing.assert_array_equal(ndgather.gather_nd(DATA, ROWS, memory=memory), DATA[::-1])
