"""Sixteen Python threads call everything at once on shared arrays; each answer is known before.

The work is of every size: on one thread and on several, by bands, in reused memory. The oracle is
`ndgather.reference`, or a text written here.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ndgather
from ndgather import errors, reference, vjp
from ndgather.published import operator

THREADS = 16


@pytest.fixture(autouse=True)
def _settings_as_before():
    threads, limit = ndgather.get_num_threads(), ndgather.get_memory_limit()
    yield
    ndgather.set_num_threads(threads)
    ndgather.set_memory_limit(limit)


@dataclass
class Case:
    """A call on shared inputs, and its result, or the text of its error."""

    function: Any
    inputs: tuple[Any, ...]
    expected: Any
    options: dict[str, Any] = field(default_factory=dict)
    takes_out: bool = False

    def check(self, out):
        """Make the call; `out` says whether its result has a place made by this thread."""
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
    """A call of one of the five functions that has a result."""
    expected = getattr(reference, name)(*inputs, **options)
    return Case(getattr(ndgather, name), inputs, expected, options, takes_out=True)


def floats(random, *shape):
    """Numbers whose sums depend on the order, in every bit."""
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
            "ai.onnx GatherND-13: indices.dtype = int32 is not taken (allowed: int64)",
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
    """Work that is shared by threads; the last of each size is out of bounds at its end."""
    random = np.random.default_rng(0)
    plane, line = random.random((300, 200), np.float32), floats(random, 20_000)
    tuples = random.integers((-300, -200), (300, 200), (40_000, 2))
    places = random.integers(-20_000, 20_000, (40_000, 1))
    yield correct("gather_nd", plane, tuples)
    yield correct("scatter_nd", line, places, floats(random, 40_000), reduction="add")
    # Results of a MiB and more live in reused memory.
    wide, rows = random.random((300, 512)), random.integers(-300, 300, (400, 1))
    yield correct("gather_nd", wide, rows)
    yield correct("scatter_nd", wide, rows, random.random((400, 512)), reduction="mul")
    yield correct("gather", wide.reshape(20, 15, 512), random.integers(0, 15, 30), 1)
    # Along the first axis, with at least 2**20 bytes in rows of 4096: by bands.
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
def test_every_answer_is_right(seconds):
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
