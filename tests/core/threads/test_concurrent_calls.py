"""Many Python threads at once: shared inputs, changing indices, and the released GIL."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ndgather
from ndgather import errors, vjp
from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from ndgather.published import operator
from tests.definitions import reference

SECONDS = 1.0
WITH_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@pytest.fixture(autouse=True)
def _count_as_before():
    before = ndgather.get_num_threads()
    yield
    ndgather.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_on_shared_inputs(threads):
    ndgather.set_num_threads(threads)
    random = np.random.default_rng(0)
    data = random.random((2000, 33), np.float32)
    rows = random.integers(-2000, 2000, (7000, 1))
    columns = random.integers(-2000, 2000, (2500, 33)).astype(np.int32)
    small = np.array([[5, 6], [7, -8]])
    bad = np.append(rows, [[2000]], axis=0)
    desired = (
        data[rows[:, 0]],
        np.take_along_axis(data, columns, 0),
        data[small[:, 0], small[:, 1]],
    )

    def work(_):
        for _ in range(40):
            found = (
                ndgather.gather_nd(data, rows),
                ndgather.gather_elements(data, columns),
                ndgather.gather_nd(data, small),
            )
            for actual, right in zip(found, desired, strict=True):
                np.testing.assert_array_equal(actual, right, strict=True)
            with pytest.raises(IndexOutOfBoundsError) as caught:
                ndgather.gather_nd(data, bad)
            assert caught.value.position == (7000, 0)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8


def test_thread_count_may_change_during_calls():
    data, indices = np.arange(1 << 20), np.arange((1 << 20) - 1, -1, -1)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for count in (1, 2, 5, 3):
                ndgather.set_num_threads(count)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(50):
            result = ndgather.gather(data, indices)
            np.testing.assert_array_equal(result, indices, strict=True)
    finally:
        stop.set()
        changer.join()


def longest_gap(call):
    """Return how long `call` took, and the longest time another Python thread was blocked in it."""
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    while not ticks:
        time.sleep(0.001)
    begin = time.perf_counter()
    call()
    end = time.perf_counter()
    stop.set()
    ticker.join()
    inside = [begin, *(at for at in ticks if begin < at < end), end]
    return end - begin, max(np.diff(inside))


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
def test_gil_is_released(function, out):
    """Another Python thread runs throughout a long call."""
    ndgather.set_num_threads(1)
    data = np.arange(1 << 23, dtype=np.float64)
    indices = np.random.default_rng(0).integers(0, data.size, 12_000_000)
    indices = indices[:, np.newaxis] if function == "gather_nd" else indices
    more = {"out": np.zeros(12_000_000)} if out else {}
    call = getattr(ndgather, function)
    for _ in range(20):  # other processes may preempt this one
        took, stood_still = longest_gap(lambda: call(data, indices, **more))
        if stood_still < took / 2:
            return
    pytest.fail(f"another thread stood still for {stood_still} of {took} s")


@pytest.mark.skipif(not WITH_GIL, reason="nothing keeps a GIL that is off")
def test_call_that_holds_the_gil_is_detected():
    big = list(range(12_000_000))
    took, stood_still = longest_gap(lambda: big.count(-1))
    assert stood_still > took / 2


@pytest.mark.races
@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["raise", "fill", "wrap", "out"])
def test_concurrently_modified_indices_stay_in_bounds(function, threads, mode):
    """Each resulting value comes from data or the fill value, or there is an error."""
    ndgather.set_num_threads(threads)
    poison, rows, columns = -1.0, 1000, 200
    whole = np.full((3 * rows, columns), poison)
    data = whole[rows : 2 * rows]
    data[...] = np.arange(1, data.size + 1).reshape(data.shape)
    good = np.random.default_rng(0).integers(0, rows, (1500, columns))
    indices = good.reshape(-1)[: 250 * columns].copy() if function == "gather" else good.copy()
    good = good.reshape(-1)[: indices.size].reshape(indices.shape)
    bad = np.where(good % 3 == 0, good + rows, np.where(good % 3 == 1, -good - rows - 1, 2**40))
    if function == "gather_nd":
        indices, good, bad = indices[..., np.newaxis], good[..., np.newaxis], bad[..., np.newaxis]
        data = data[:, 7]
    elif function == "gather":
        data = data[:, :4]
    call = getattr(ndgather, function)
    shape = call(data, indices).shape
    stop = threading.Event()

    def change():
        while not stop.is_set():
            np.copyto(indices, bad)
            np.copyto(indices, good)

    changer = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    changer.start()
    came = {"result": 0, "error": 0}
    try:
        until = time.monotonic() + SECONDS / 12
        while time.monotonic() < until or came["result"] + came["error"] < 5:
            out = np.full(shape, 0.5)
            options = {"out": out} if mode == "out" else {"mode": mode}
            try:
                result = call(data, indices, **options)
            except NdgatherError:
                came["error"] += 1
                np.testing.assert_array_equal(out, np.full(shape, 0.5))
                continue
            came["result"] += 1
            if mode in ("raise", "wrap"):
                assert result.min() >= 1
            else:
                assert result.min() >= 0
            assert result.max() <= 1000 * 200
            np.testing.assert_array_equal(result, np.floor(result))
    finally:
        stop.set()
        changer.join()
        sys.setswitchinterval(interval)
    assert sum(came.values()) >= 5


@pytest.mark.races
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "drop", "out", "in place"])
@pytest.mark.parametrize("function", ["scatter_nd", "scatter_elements"])
def test_scatter_elements_come_from_data_or_updates(function, mode):
    """Four threads scatter with indices that a fifth changes; an error leaves out unchanged."""
    ndgather.set_num_threads(2)
    shape = (300, 200)
    data = np.arange(1.0, 60_001.0).reshape(shape)
    good = np.random.default_rng(0).integers(0, 200, (400, 200))
    if function == "scatter_nd":
        good = np.stack([good[:200].reshape(-1), good[:200].T.reshape(-1)], -1)
        updates = -np.arange(1.0, good.shape[0] + 1)
    else:
        updates = -np.arange(1.0, good.size + 1).reshape(good.shape)
    bad = np.where(good % 3 == 0, good + 300, np.where(good % 3 == 1, -good - 301, -(2**50)))
    indices = good.copy()
    call = getattr(ndgather, function)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            np.copyto(indices, bad)
            np.copyto(indices, good)

    def work(_):
        made = 0
        until = time.monotonic() + SECONDS / 10
        while made < 5 or time.monotonic() < until:
            made += 1
            out = data.copy() if mode == "in place" else np.full(shape, 0.5)
            before = out.copy()
            given = out if mode == "in place" else data
            options = {"out": out} if mode in ("out", "in place") else {"mode": mode}
            try:
                result = call(given, indices, updates, **options)
            except NdgatherError:
                np.testing.assert_array_equal(out, before)
                continue
            written = result < 0
            np.testing.assert_array_equal(result[~written], data[~written])
            np.testing.assert_array_equal(result[written], np.floor(result[written]))
            assert result.min() >= updates.min()
        return made

    changer = threading.Thread(target=change)
    changer.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert min(pool.map(work, range(4))) >= 5
    finally:
        stop.set()
        changer.join()


@pytest.mark.plain  # AddressSanitizer copies bytes one by one and may tear an entry
@pytest.mark.races
@pytest.mark.parametrize("function", [vjp.scatter_nd, vjp.scatter_elements])
def test_both_scatter_gradients_use_the_same_indices(function):
    """If another thread moves an entry, both gradients use the same one of its targets."""
    count = 50_000
    places = np.arange(2 * count).reshape(2, count)
    shape = (count, 1) if function is vjp.scatter_nd else count
    indices = places[0].reshape(shape).copy()
    cotangent = np.arange(1.0, 2 * count + 1)
    done = threading.Event()

    def move():
        turn = 0
        while not done.is_set():
            turn = 1 - turn
            indices[...] = places[turn].reshape(shape)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(100):
            of_data, of_updates = function(cotangent, indices)
            taken = of_updates.astype(int) - 1
            assert np.isin(taken, places).all()
            expected = cotangent.copy()
            expected[taken] = 0
            np.testing.assert_array_equal(of_data, expected)
    finally:
        done.set()
        mover.join()


@pytest.mark.races
def test_single_concurrently_modified_index():
    """One entry is out of bounds half of the time, for a second."""
    ndgather.set_num_threads(2)
    data = np.arange(1.0, 1001.0)
    indices = np.zeros(200_000, np.int64)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for place in (0, 99_999, -1):
                indices[place] = 2**40
                indices[place] = 0

    changer = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    changer.start()
    errors = []
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                result = ndgather.gather(data, indices)
            except NdgatherError as error:
                errors.append(error)
            else:
                np.testing.assert_array_equal(result, np.ones(200_000))
    finally:
        stop.set()
        changer.join()
        sys.setswitchinterval(interval)
    assert all(str(error).startswith("gather: indices") for error in errors)


@pytest.mark.skipif(not WITH_GIL, reason="without it NumPy's own setting of shapes crashes")
@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_concurrently_modified_shape_of_indices():
    """Another thread reshapes `indices` during calls that end in an error."""
    data, indices = np.arange(1000), np.zeros(1_000_000, np.int64)
    indices[-1] = 5000
    stop = threading.Event()

    def change():
        others = []
        while not stop.is_set():
            indices.shape = (1000, 1000)
            others = [np.zeros(k + 1)[::-1] for k in range(20)]  # at the old shape's position
            indices.shape = (1_000_000,)
        return others

    changer = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    changer.start()
    try:
        for _ in range(100):
            with pytest.raises(IndexOutOfBoundsError) as caught:
                ndgather.gather(data, indices)
            assert caught.value.position in {(999_999,), (999, 999)}
            assert (caught.value.value, caught.value.count) == (5000, 1)
    finally:
        stop.set()
        changer.join()
        sys.setswitchinterval(interval)


THREADS = 16


@pytest.fixture(autouse=True)
def _settings_as_before():
    threads, limit = ndgather.get_num_threads(), ndgather.get_memory_limit()
    yield
    ndgather.set_num_threads(threads)
    ndgather.set_memory_limit(limit)


@dataclass
class Case:
    """A call on shared inputs, with its result or the text of its error."""

    function: Any
    inputs: tuple[Any, ...]
    expected: Any
    options: dict[str, Any] = field(default_factory=dict)
    takes_out: bool = False

    def check(self, out):
        """Make the call; `out` says whether the result goes to an array of this thread."""
        options = dict(self.options)
        if isinstance(self.expected, str):
            try:
                self.function(*self.inputs, **options)
            except errors.NdgatherError as error:
                if str(error) != self.expected:
                    raise
            else:
                pytest.fail(f"no error: {self.expected}")
            return
        if out and self.takes_out:
            options["out"] = np.full_like(self.expected, self.expected.flat[0])
        result = self.function(*self.inputs, **options)
        if "out" in options:
            assert result is options["out"]
        np.testing.assert_array_equal(result, self.expected, strict=True)


def correct(name, *inputs, **options):
    """Draw a valid call of one of the five functions."""
    expected = getattr(reference, name)(*inputs, **options)
    return Case(getattr(ndgather, name), inputs, expected, options, takes_out=True)


def floats(random, *shape):
    """Return numbers whose sums depend on the order of addition in every bit."""
    return random.standard_normal(shape) * np.exp2(random.integers(-8, 8, shape))


def small_cases():
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    tuples, rows = np.array([[3, -1], [0, 2]]), np.array([[1], [3], [1]], np.int32)
    along, slices = np.array([[3, 0, -4], [1, 1, 2]], np.int16), np.array([2, 0], np.uint8)
    two, three = np.array([7.5, -1], np.float32), data[:3] + 100
    mixed = np.array([["a", None, 5], [2.5, "b", ()]], object)
    words = np.array(["", "one", "two " * 20], np.dtypes.StringDType())
    outside, outside_along = np.array([[0, 1], [9, 0]]), np.array([[0, 0, 5]])
    for mode in ("raise", "wrap", "clip", "fill"):
        yield correct("gather_nd", data, tuples, mode=mode)
        yield correct("gather_elements", data, along, mode=mode)
        yield correct("gather", data, slices, 1, mode=mode)
    for mode in ("wrap", "clip", "fill"):
        yield correct("gather_nd", data, outside, mode=mode)
        yield correct("gather_elements", data, outside_along, mode=mode)
    for reduction in ("none", "add", "sub", "mul", "min", "max", "mean"):
        yield correct("scatter_nd", data, rows, three, reduction=reduction)
        yield correct("scatter_nd", data, tuples, two, reduction=reduction)
        yield correct("scatter_elements", data, along, data[1:3], reduction=reduction)
    yield correct("scatter_nd", data, outside, two, mode="drop")
    yield correct("scatter_nd", data, rows, three, reduction="max", use_init_val=False)
    yield correct("gather_nd", mixed, np.array([[1], [0], [1]]))
    yield correct("gather", mixed, np.array([2, 2, 0]), 1)
    yield correct("scatter_nd", mixed, np.array([[0, 2]]), np.array([b"new"], object))
    yield correct("gather", words, np.array([2, 0, 2]))
    yield correct("scatter_elements", words, np.array([1, 1]), words[[2, 0]])
    row = operator("GatherND", version=13)
    yield Case(row, (data, tuples), reference.gather_nd(data, tuples))
    row = operator("ScatterElements", version=18)
    yield Case(
        row,
        (data, along.astype(np.int64), data[1:3]),
        reference.scatter_elements(data, along, data[1:3], 0, "add"),
        {"reduction": "add"},
    )
    zeros = np.zeros((4, 3), np.float32)
    yield Case(
        vjp.gather_nd,
        (three, (4, 3), rows),
        reference.scatter_nd(zeros, rows, three, "add"),
    )

    far = np.array([[2**62]])
    for function, inputs, options, text in (
        (
            ndgather.gather_nd,
            (data, outside),
            {},
            "gather_nd: indices[1, 0] = 9 is outside axis 0 of data, which has size 4 "
            "(allowed: -4..3)",
        ),
        (
            ndgather.gather_elements,
            (data, outside_along),
            {},
            "gather_elements: indices[0, 2] = 5 is outside axis 0 of data, which has size 4 "
            "(allowed: -4..3)",
        ),
        (
            ndgather.scatter_nd,
            (mixed, far, mixed[:1]),
            {},
            "scatter_nd: indices[0, 0] = 4611686018427387904 is outside axis 0 of data, which has "
            "size 2 (allowed: -2..1)",
        ),
        (
            operator("GatherND", version=13),
            (data, outside),
            {},
            "ai.onnx GatherND-13: indices[1, 0] = 9 is outside axis 0 of data, which has size 4 "
            "(allowed: -4..3)",
        ),
        (
            operator("GatherND", version=13),
            (data, rows),
            {},
            "ai.onnx GatherND-13: indices.dtype = int32 is not supported (allowed: int64)",
        ),
        (
            ndgather.gather,
            (data, slices),
            {"axis": 2},
            "gather: axis = 2 is out of range for data of shape (4, 3) (allowed: -2..1)",
        ),
    ):
        yield Case(function, inputs, text, options)


def large_cases():
    """Return work that is shared by threads; the last case of each size has a bad last index."""
    random = np.random.default_rng(0)
    plane, line = random.random((300, 200), np.float32), floats(random, 20_000)
    tuples = random.integers((-300, -200), (300, 200), (40_000, 2))
    places = random.integers(-20_000, 20_000, (40_000, 1))
    yield correct("gather_nd", plane, tuples)
    yield correct("scatter_nd", line, places, floats(random, 40_000), reduction="add")
    # Results of 1 MiB or more use pooled memory.
    wide, rows = random.random((300, 512)), random.integers(-300, 300, (400, 1))
    yield correct("gather_nd", wide, rows)
    yield correct("scatter_nd", wide, rows, random.random((400, 512)), reduction="mul")
    yield correct("gather", wide.reshape(20, 15, 512), random.integers(0, 15, 30), 1)
    # Along the first axis, at least 2**20 bytes in rows of 4096 are processed in bands.
    square = floats(random, 260, 256).astype(np.complex128)
    along = random.integers(-260, 260, (270, 256)).astype(np.int32)
    updates = floats(random, 270, 256).astype(np.complex128)
    yield correct("gather_elements", square, along)
    yield correct("scatter_elements", square, along, updates)
    yield correct("scatter_elements", square, along, updates, reduction="add")
    yield correct("gather_elements", square, along[:200].T % 256, 1)
    yield correct("gather_elements", square.T, along.T.copy(), 1)
    bad = {"tuples": tuples.copy(), "rows": rows.copy(), "along": along.copy()}
    for indices in bad.values():
        indices[-1, 0] = 300
    of = "is outside axis 0 of data, which has size"
    texts = {
        "tuples": f"gather_nd: indices[39999, 0] = 300 {of} 300 (allowed: -300..299)",
        "rows": f"scatter_nd: indices[399, 0] = 300 {of} 300 (allowed: -300..299)",
        "along": f"gather_elements: indices[269, 0] = 300 {of} 260 (allowed: -260..259)",
    }
    yield Case(ndgather.gather_nd, (plane, bad["tuples"]), texts["tuples"])
    yield Case(ndgather.scatter_nd, (wide, bad["rows"], np.zeros((400, 512))), texts["rows"])
    yield Case(ndgather.gather_elements, (square, bad["along"]), texts["along"])


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_every_result_is_correct(seconds):
    small, large = list(small_cases()), list(large_cases())
    inputs = [x for case in small + large for x in case.inputs if isinstance(x, np.ndarray)]
    for array in inputs:
        array.flags.writeable = False
    ndgather.set_num_threads(4)
    ndgather.set_memory_limit(16 << 20)
    start = threading.Barrier(THREADS)
    until = time.monotonic() + seconds

    def work(seed):
        random = np.random.default_rng(seed)
        start.wait()
        made = 0
        while time.monotonic() < until:
            for place in random.integers(0, len(small), 20):
                small[place].check(out=random.random() < 0.5)
            large[random.integers(0, len(large))].check(out=random.random() < 0.5)
            made += 21
            if made % 210 == 0:
                ndgather.set_num_threads(int(random.integers(1, 6)))
                ndgather.release_memory()
        return made

    with ThreadPoolExecutor(THREADS) as pool:
        made = list(pool.map(work, range(THREADS)))
    print(f"{sum(made)} calls in {THREADS} threads, {seconds} s")
    assert min(made) >= 21
