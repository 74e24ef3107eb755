"""Every hint works: the recommended call gives the intended result.

Data and indices have every pair of libraries. Plain loops compute the intended result.
"""

import re

import numpy as np
import pytest

import ndgather
from ndgather.errors import NdgatherError

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jnp = pytest.importorskip("jax.numpy")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")
strict = pytest.importorskip("array_api_strict")
zarr = pytest.importorskip("zarr")

FUNCTIONS = {name: getattr(ndgather, name) for name in ndgather._core.KINDS}
MODULES = {"np": np, "torch": torch, "jnp": jnp, "da": da, "array_api_strict": strict}
MODULES |= {"jax": jax, "k": 2}
NUMBERS = [[float(10 * row + column) for column in range(4)] for row in range(3)]
ROWS, COLUMNS = [1, 1, 2], [0, 2, 3]


def lazy(values):
    return da.from_array(np.asarray(values), chunks=2)


def stored(values):
    values = np.asarray(values)
    array = zarr.create_array({}, shape=values.shape, chunks=(2,) * values.ndim, dtype=values.dtype)
    array[...] = values
    return array


DATA = {
    "list": list,
    "numpy": lambda values: np.array(values, np.float32),  # an expression that JAX supports too
    "torch": torch.tensor,
    "jax": jnp.array,
    "dask": lazy,
    "zarr": stored,
    "strict": lambda values: strict.asarray(np.array(values)),
}
INDICES = {
    "numpy": np.array,
    "torch": torch.tensor,
    "jax": jnp.array,
    "dask": lazy,
    "strict": DATA["strict"],
    "pandas": pd.Series,
    "zarr": stored,
}
HINT = re.compile(
    r"(?:, write|; write|the index tuples of a mask are|one index for each slice is|example by) "
    r"(?P<text>.*?)(?:, for (?P<function>gather_nd|scatter_nd)|, for index arrays .*)?$"
)


def follow(function, *given, **options):
    """Make a refused call, then up to three calls that the last error recommends."""
    names = list(ndgather.api.SIGNATURES[function].parameters)[: len(given)]
    named = dict(zip(names, given, strict=False)) | options
    if function.startswith("scatter"):
        named["updates"] = options.get("updates", given[-1])
    if function == "gather_windows":
        named["window_shape"] = options.get("window_shape", given[-1])
    with pytest.raises(NdgatherError) as caught:
        FUNCTIONS[function](*given, **options)
    error = caught.value
    for _ in range(3):
        hint = HINT.search(str(error))
        assert hint is not None, str(error)
        argument, text = re.match(r"\w+: (\w+)", str(error))[1], hint["text"]
        if text == "compute())":  # in parentheses, after "allowed:"
            text = f"{argument}.compute()"
        letters = dict(zip("ijkl", given[1:], strict=False))
        value = eval(text, MODULES | FUNCTIONS | letters | named)
        if text.startswith(("gather_", "scatter_")):
            return value
        if "(data)" in text:
            argument = "data"
        function = hint["function"] or function
        named |= {argument: value}
        try:
            return FUNCTIONS[function](**named)
        except NdgatherError as next_error:
            error = next_error
    raise error


def assert_is(result, wanted):
    result = result.compute() if hasattr(result, "compute") else result
    np.testing.assert_array_equal(np.asarray(result), np.asarray(wanted))


POINTS = [NUMBERS[row][column] for row, column in zip(ROWS, COLUMNS, strict=True)]
FIRST = [NUMBERS[row][3] for row in ROWS]


@pytest.mark.parametrize("make", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
class TestIndices:
    def test_a_tuple_of_index_arrays(self, data, make):
        numbers, pair = data(NUMBERS), (make(ROWS), make(COLUMNS))
        result = follow("gather_nd", numbers, pair)
        assert_is(result, POINTS)
        computes = data in (DATA["torch"], DATA["jax"], DATA["strict"])
        assert hasattr(result, "compute") == (lazy in (data, make) and not computes)
        assert_is(follow("gather", numbers, pair), POINTS)
        assert_is(follow("gather_elements", numbers, pair), POINTS)
        windows = follow("gather_windows", numbers, pair, (1, 1))
        assert_is(windows, [[[number]] for number in POINTS])

    def test_a_tuple_of_broadcast_arrays(self, data, make):
        numbers = data(NUMBERS)
        assert_is(follow("gather_nd", numbers, (make(ROWS), make([3]))), FIRST)
        assert_is(follow("gather_nd", numbers, (make(ROWS), 3)), FIRST)

    def test_a_tuple_with_lists_and_ranges(self, data, make):
        numbers = data(NUMBERS)
        wanted = [NUMBERS[row][column] for column, row in enumerate((2, 0, 1))]
        for columns in ((0, 1, 2), [0, 1, 2], range(3)):
            assert_is(follow("gather_nd", numbers, (make([2, 0, 1]), columns)), wanted)

    def test_a_tuple_with_masks(self, data, make):
        if make in (INDICES["pandas"], stored):  # their dtypes and ranks; others are equivalent
            return
        numbers, wanted = data(NUMBERS), [NUMBERS[0][1], NUMBERS[2][3]]
        rows, columns = make([True, False, True]), make([False, True, False, True])
        flags = [[number in wanted for number in row] for row in NUMBERS]
        for function in ("gather_nd", "gather"):
            assert_is(follow(function, numbers, (make(flags),)), wanted)
            assert_is(follow(function, numbers, (rows, columns)), wanted)
            assert_is(follow(function, numbers, (rows, make([1, 3]))), wanted)
            assert_is(follow(function, numbers, ([True, False, True], make([1, 3]))), wanted)
            assert_is(follow(function, numbers, (make([0, 2]), columns)), wanted)
        assert_is(follow("gather_nd", numbers, rows, columns), wanted)
        mixed = (
            make([True, False]),
            make([1, 2]),
        )  # as many as there are axes: NumPy would convert a mask to 1 and 0
        assert_is(follow("gather_nd", numbers, mixed), [NUMBERS[0][1], NUMBERS[0][2]])
        if make is not lazy:
            with pytest.raises(NdgatherError, match=r"of one kind\)$"):
                ndgather.gather_nd(numbers, [*mixed])

    def test_a_tuple_of_arrays_with_incompatible_shapes(self, data, make):
        with pytest.raises(NdgatherError, match=r"\(allowed: one array of integers\)$"):
            ndgather.gather_nd(data(NUMBERS), (make([0, 1]), make([0, 1, 2])))

    def test_floats(self, data, make):
        numbers = data(NUMBERS)
        pairs = [[float(row), float(column)] for row, column in zip(ROWS, COLUMNS, strict=True)]
        assert_is(follow("gather_nd", numbers, pairs), POINTS)
        rows, columns = (make([float(at) for at in axis]) for axis in (ROWS, COLUMNS))
        assert_is(follow("gather_nd", numbers, (rows, columns)), POINTS)
        if make is not lazy or data in (DATA["list"], DATA["numpy"]):
            assert_is(follow("gather", numbers, rows), [NUMBERS[row] for row in ROWS])

    def test_index_arrays_as_separate_arguments(self, data, make):
        numbers, rows, columns = data(NUMBERS), make(ROWS), make(COLUMNS)
        assert_is(follow("gather_nd", numbers, rows, columns), POINTS)
        assert_is(follow("gather", numbers, rows, columns), POINTS)
        windows = [[[number]] for number in POINTS]
        assert_is(follow("gather_windows", numbers, rows, columns, (1, 1)), windows)
        assert_is(follow("gather_windows", numbers, rows, columns, window_shape=(1, 1)), windows)

    def test_a_mask(self, data, make):
        if make not in (INDICES["pandas"], stored):
            flags = [[number > 11 for number in row] for row in NUMBERS]
            wanted = [number for row in NUMBERS for number in row if number > 11]
            for function in ("gather_nd", "gather", "gather_elements"):
                assert_is(follow(function, data(NUMBERS), make(flags)), wanted)


SCATTERED = [list(row) for row in NUMBERS]
for _row, _column, _number in zip(ROWS, COLUMNS, (0.5, 1.5, 2.5), strict=True):
    SCATTERED[_row][_column] += _number


@pytest.mark.parametrize("name", sorted(DATA.keys() - {"zarr"}))
def test_scatters(name):
    data = DATA[name]
    numbers, pair, updates = data(NUMBERS), (np.array(ROWS), np.array(COLUMNS)), [0.5, 1.5, 2.5]
    points = np.array([ROWS, COLUMNS]).T
    assert_is(follow("scatter_nd", numbers, pair, updates, reduction="add"), SCATTERED)
    for sign in ("+", "+=", "sum", np.add):
        assert_is(follow("scatter_nd", numbers, points, updates, reduction=sign), SCATTERED)
    assigned = follow("scatter_nd", numbers, *pair, updates)
    assert_is(assigned, ndgather.scatter_nd(np.array(NUMBERS), points, updates))
    assert_is(follow("scatter_nd", numbers, *pair, updates=updates), assigned)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("empty", [[], ()], ids=str)
def test_no_points(data, empty):
    assert_is(follow("gather_nd", data(NUMBERS), empty), [])
    assert_is(follow("gather_windows", data(NUMBERS), empty, (1, 1)), np.empty((0, 1, 1)))
    if data is not stored:
        assert_is(follow("scatter_nd", data(NUMBERS), empty, []), NUMBERS)
    for none in (np.array([]), torch.tensor([]), jnp.array([]), INDICES["strict"]([]), range(0)):
        assert_is(follow("gather_nd", data(NUMBERS), none), [])
    all_of_it = ndgather.gather_nd(data(NUMBERS), [[]])  # a list with an empty index tuple
    assert_is(all_of_it, [NUMBERS])


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("name", ["list", "numpy", "torch", "jax"])
def test_one_index_for_each_slice(data, name):
    make = {"list": list, **INDICES}[name]
    assert_is(
        follow("gather_nd", data(NUMBERS), make([2, 0, 1])), [NUMBERS[at] for at in (2, 0, 1)]
    )


def test_lists_of_traced_arrays():
    for data in (np.array(NUMBERS, np.float32), jnp.array(NUMBERS)):
        row = jax.jit(lambda at, data=data: follow("gather_nd", data, [at, 0]))(jnp.array(2))
        assert_is(row, NUMBERS[2][0])
        row = jax.jit(lambda at, data=data: follow("gather_nd", data, [[at, 0], [1, at]]))(2)
        assert_is(row, [NUMBERS[2][0], NUMBERS[1][2]])
        pair = jax.jit(lambda *at, data=data: follow("gather_nd", data, at))(
            jnp.array(ROWS), jnp.array(COLUMNS)
        )
        assert_is(pair, POINTS)
    tensor = torch.tensor(NUMBERS)
    rows = torch.vmap(lambda at: follow("gather_nd", tensor, [[at, at]]))(torch.tensor([1, 2]))
    assert_is(rows, [[NUMBERS[1][1]], [NUMBERS[2][2]]])


@pytest.mark.parametrize("name", ["torch", "jax", "strict"])
def test_dask_arrays_with_data_of_other_libraries(name):
    data = DATA[name]
    points = np.array([ROWS, COLUMNS]).T
    assert_is(follow("gather_nd", data(NUMBERS), lazy(points)), POINTS)
    updates = np.asarray(data([0.5, 1.5, 2.5]))
    added = follow("scatter_nd", data(NUMBERS), points, lazy(updates), reduction="add")
    assert_is(added, SCATTERED)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize(
    "indices", [slice(2), (slice(None), 1), [[0, slice(None)]], [[None, 0]], None, ..., [[0, ...]]]
)
@pytest.mark.parametrize("function", ["gather_nd", "gather", "gather_elements"])
def test_basic_indexing(data, indices, function):
    with pytest.raises(NdgatherError, match=r"index data by slices, None and \.\.\. first"):
        FUNCTIONS[function](data(NUMBERS), indices)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect", "clip", "fill", ()], ids=str)
def test_every_mode_accepts_windows_without_axes(data, mode):
    """The error used to call edge unknown and recommend edge."""
    one = np.zeros((1, 0), int)
    assert_is(ndgather.gather_windows(data(NUMBERS), one, (), mode=mode), [NUMBERS])
    if data is DATA["jax"]:
        call = jax.jit(lambda data: ndgather.gather_windows(data, one, (), mode=mode))
        assert_is(call(data(NUMBERS)), [NUMBERS])
