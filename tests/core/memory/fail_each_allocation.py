"""Run as a script: make calls and let each of their allocations fail in turn.

The first argument selects what fails: ``interpreter``, allocations of Python objects, using
CPython's test module; or ``process``, every malloc, mmap and new thread, using
failing_allocations.c, which must already be loaded. The script prints the name of each call before
making it, and finally ``done``.

Failures begin with each call of the core, which must not leak references or memory. They also begin
with the call of the public function, in which CPython and NumPy leak references of their own; calls
that make NumPy crash are omitted there.
"""

import ctypes
import gc
import inspect
import mmap
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.ma  # otherwise imported by NumPy during the first conversion

import ndgather
from ndgather import _core, api
from ndgather.array_call import Kind
from ndgather.errors import DTypeError, IndexOutOfBoundsError
from tests.definitions.calls import element_bytes

# A single failure, as if a block is too large, and all from there on, as if memory is exhausted.
BURSTS = (1, 30)

OF_CPYTHON = (MemoryError, SystemError)  # which it omits in some places


class OfTheInterpreter:
    """Failures of Python's allocators."""

    def __init__(self):
        import _testcapi  # noqa: PLC0415 - not everywhere

        self.module = _testcapi

    def start(self, first, last):
        self.module.set_nomemory(first, last + 1)

    def stop(self):
        """Stop; failures are not counted, but a call without failures succeeds."""
        self.module.remove_mem_hooks()


class OfTheProcess:
    """Failures of the C library."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.begin = library.fail_allocations
        self.begin.argtypes = (ctypes.c_long, ctypes.c_long)
        self.begin.restype = None
        self.end = library.stop_failing
        self.end.restype = None

    def start(self, first, last):
        self.begin(first, last)

    def stop(self):
        while True:  # the failing allocation may belong to this very call
            try:
                return self.end()
            except MemoryError:
                continue


@dataclass
class FailingCall:
    """A call, its arguments, and its expected output or error."""

    function: object
    arguments: tuple
    options: dict = field(default_factory=dict)
    error: type | None = None
    out: np.ndarray | None = None
    more_threads: bool = False  # one more each time, so that a thread must be started
    core_only: bool = False  # numpy.errstate crashes without memory, or it would be slow

    def __call__(self):
        if self.out is None:
            return self.function(*self.arguments, **self.options)
        return self.function(*self.arguments, out=self.out, **self.options)

    def by_python(self):
        """Make the call from Python, through the name in the core."""
        if self.function not in PUBLIC:
            return self()
        options = dict(zip(PUBLIC[self.function], self.arguments, strict=False)) | self.options
        kind = self.function.__name__
        return api.run(api.Call(kind, Kind(kind), **options, out=self.out))

    def arrays(self):
        arrays = [each for each in self.arguments if isinstance(each, np.ndarray)]
        return arrays if self.out is None else [*arrays, self.out]


def content(array):
    return repr(array.tolist()) if array.dtype.hasobject else element_bytes(array)


def contents(arrays):
    return [content(array) for array in arrays]


def counts(arrays):
    return [(sys.getrefcount(array), sys.getrefcount(array.dtype)) for array in arrays]


RUN = _core.run
PUBLIC = {
    function: tuple(inspect.signature(function).parameters)
    for function in (getattr(ndgather, name) for name in _core.KINDS)
}


def failing(function, failures, first, last):
    """Return `function` with the allocations from `first` to `last` failing."""

    def call(*arguments, **options):
        failures.start(first, last)
        try:
            return function(*arguments, **options)
        finally:
            failures.stop()

    return call


def attempt(call, failures, first, burst, in_core):
    """Make the call, and return its result and its exception."""
    result = error = None
    last = first + burst - 1
    make = call.by_python if in_core else failing(call, failures, first, last)
    if in_core:
        _core.run = failing(RUN, failures, first, last)
    try:
        result = make()
    except Exception as caught:
        error = caught
    _core.run = RUN
    if error is not None:
        error.__traceback__ = error.__context__ = error.__cause__ = None
    return result, error


def check_once(call, failures, first, burst, right, in_core):
    """Return whether the call ended as usual."""
    arrays = call.arrays()
    if call.more_threads:
        ndgather.set_num_threads(ndgather.get_num_threads() + 1)
    values, references = contents(arrays), counts(arrays)
    result, error = attempt(call, failures, first, burst, in_core)
    if result is not None:
        assert call.error is None
        assert content(result) == right
        if call.out is not None:
            assert result is call.out
            call.out[...] = np.frombuffer(values[-1], call.out.dtype).reshape(call.out.shape)
        del result
    usual = error is None if call.error is None else type(error) is call.error
    if not usual:
        # The MemoryError of NumPy for an array is a subclass.
        known = isinstance(error, MemoryError if in_core else OF_CPYTHON)
        assert known, repr(error)
    elif error is not None:
        assert str(error) == right, str(error)
    del error
    assert contents(arrays) == values
    if in_core and counts(arrays) != references:
        gc.collect()  # a traceback may still hold them
        assert counts(arrays) == references
    ndgather.release_memory()
    np.zeros(5000)
    assert ndgather.release_memory() == 0, "NumPy allocates from the memory of large results"
    return usual


def sweep(call, failures, right, in_core):
    """Let allocation 1, 2, 3, ... fail until the call succeeds; return how many calls failed."""
    failed = 0
    for burst in BURSTS:
        first = passed = 0
        while passed < 6:  # some failures have a fallback
            first += 1
            usual = check_once(call, failures, first, burst, right, in_core)
            passed = passed + 1 if usual else 0
            failed += not usual
    return failed


class Statistics(ctypes.Structure):
    """The result of mallinfo2; the eighth number is the bytes in use."""

    _fields_ = [(f"number_{n}", ctypes.c_size_t) for n in range(10)]


# AddressSanitizer retains this much freed memory.
MOST_SPACE = (256 if "libasan" in os.environ.get("LD_PRELOAD", "") else 12) << 20
MALLINFO = ctypes.CDLL(None).mallinfo2
MALLINFO.restype = Statistics


def used():
    """Return bytes in the C heap, bytes of address space, and Python blocks."""
    gc.collect()
    space = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    return np.array([MALLINFO().number_7, space, sys.getallocatedblocks()])


def calls():
    random = np.random.default_rng(0)
    small, rows = np.arange(12.0).reshape(3, 4), np.array([[2], [-1], [0]])
    square = random.integers(-3, 3, (3, 4))
    wide, places = random.random((300, 512)), random.integers(-300, 300, (320, 512))
    long, many = random.random(140_000), random.integers(-140_000, 140_000, 150_000)
    tuples = many[:, np.newaxis]
    bad, bad_places = many.copy(), places.copy()
    bad[-1] = bad_places[-1, -1] = 200_000
    objects = np.array([[1, "two"], [None, 4.0]], object)
    nd, elements, axis = ndgather.gather_nd, ndgather.gather_elements, ndgather.gather
    scatter_nd, scatter_elements = ndgather.scatter_nd, ndgather.scatter_elements
    outside = IndexOutOfBoundsError
    updates, sums = np.ones(150_000), np.ones((320, 512))
    in_place, banded = long.copy(), wide.copy()
    return {
        "gather_nd": FailingCall(nd, (small, rows)),
        "gather_elements": FailingCall(elements, (small, rows)),
        "gather": FailingCall(axis, (small, rows), {"axis": 1}),
        "a list": FailingCall(nd, ([[1, 2], [3, 4]], [[1], [0]])),
        "a fill value": FailingCall(
            nd, (small, np.array([[0], [9]])), {"mode": "fill", "fill_value": 7}, core_only=True
        ),
        "a type refused": FailingCall(nd, (small, np.array([[0.5]])), error=DTypeError),
        "a bad index": FailingCall(nd, (small, np.array([[0], [9]])), error=outside),
        "a bad index, out": FailingCall(
            nd, (small, np.array([[9]])), error=outside, out=np.ones((1, 4))
        ),
        "out": FailingCall(nd, (small, rows), out=np.ones((3, 4))),
        "objects": FailingCall(axis, (objects, np.array([1, 0, 1])), core_only=True),
        "scatter_nd": FailingCall(scatter_nd, (small, rows, small)),
        "scatter_nd in place": FailingCall(scatter_nd, (small, rows, 2 * small), out=small),
        "scatter_nd of a list": FailingCall(
            scatter_nd, (small, [[0]], [[1, 2, 3, 4]]), core_only=True
        ),
        "scatter_elements": FailingCall(
            scatter_elements, (small, square, small), {"reduction": "add"}
        ),
        "scatter_elements, mean": FailingCall(
            scatter_elements,
            (small, square, small),
            {"reduction": "mean"},
            out=np.ones((3, 4)),
            core_only=True,
        ),
        "a bad update": FailingCall(scatter_nd, (small, rows + 1, small), error=outside, out=small),
        "large": FailingCall(nd, (long, tuples)),
        "large, filled": FailingCall(axis, (long, bad), {"mode": "fill"}, core_only=True),
        "large, bad": FailingCall(axis, (long, bad), error=outside, core_only=True),
        "large, bad, out": FailingCall(
            axis, (long, bad), error=outside, out=np.ones(150_000), core_only=True
        ),
        "bands": FailingCall(elements, (wide, places)),
        "bands, bad": FailingCall(elements, (wide, bad_places), error=outside, core_only=True),
        "bands, out": FailingCall(elements, (wide, places), out=np.ones((320, 512))),
        "large scatter": FailingCall(scatter_nd, (long, tuples, updates), {"reduction": "add"}),
        "large scatter in place": FailingCall(
            scatter_elements, (in_place, many, updates), out=in_place
        ),
        "large scatter, bad": FailingCall(
            scatter_elements, (long, bad, updates), error=outside, core_only=True
        ),
        "scatter of bands": FailingCall(
            scatter_elements, (wide, places, sums), {"reduction": "add"}
        ),
        "scatter of bands in place": FailingCall(
            scatter_elements, (banded, places, sums), out=banded
        ),
        "scatter of bands, bad": FailingCall(
            scatter_elements, (banded, bad_places, sums), error=outside, out=banded, core_only=True
        ),
        "new threads": FailingCall(nd, (long, tuples), more_threads=True, core_only=True),
    }


def usual_end(call):
    """Return the bytes or the text that the call ends with if no allocation fails."""
    kept = None if call.out is None else call.out.copy()
    try:
        right = content(call())
    except Exception as error:
        if call.error is None:
            raise
        return str(error)
    if call.out is not None:
        call.out[...] = kept
    return right


def main(way):
    failures = OfTheInterpreter() if way == "interpreter" else OfTheProcess()
    ndgather.set_num_threads(2)
    for name, call in calls().items():
        print(name, end=": ", flush=True)
        right = usual_end(call)
        attempt(call, failures, 1, 1, in_core=True)  # dtypes cached once are not leaks
        failed = sweep(call, failures, right, in_core=True)
        if not call.more_threads:
            before = used()
            again = sweep(call, failures, right, in_core=True)
            lost = used() - before
            assert np.all(lost < [4096 + 16 * again, MOST_SPACE, 64 + again // 4]), lost
        if not call.core_only:
            failed = f"{failed}, {sweep(call, failures, right, in_core=False)}"
        print(failed, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
