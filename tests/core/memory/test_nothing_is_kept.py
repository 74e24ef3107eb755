"""Calls of every kind leak neither references nor memory, even after errors.

Each run makes a few hundred calls, and `make check-long` makes 100,000. The garbage collector is
disabled meanwhile and must find nothing afterwards.
"""

import ctypes
import functools
import gc
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import ndgather
from ndgather import errors, vjp
from ndgather.array_call import Kind
from ndgather.published import operators
from ndgather.published.schema import Role


def objects(*shape):
    array = np.empty(shape, object)
    for place in np.ndindex(shape):
        array[place] = object()
    return array


RECORD = np.dtype([("count", "i4"), ("thing", "O")])
PLAIN = np.arange(24, dtype=np.float32).reshape(4, 6)
DATA = {
    "plain": PLAIN,
    "byte-swapped": PLAIN.astype(">f4"),
    "pair": np.ones((4, 6), "i4, f8"),
    "object": objects(4, 6),
    "string": np.array([[f"{place} " * 30 for place in range(6)]] * 4, np.dtypes.StringDType()),
    "record of object": np.array(
        [[(place, object()) for place in range(6)] for _ in range(4)], RECORD
    ),
}
if np.lib.NumpyVersion(np.__version__) < "2.3.2":  # rows of strings are refused
    del DATA["string"]
UPDATES = {
    name: objects(2, 6) if name == "object" else data[:2].copy() for name, data in DATA.items()
}
OUT = {name: data.copy() for name, data in DATA.items()}
OUT_OF_TWO = {name: data[:2].copy() for name, data in DATA.items()}
FROZEN = PLAIN.copy()
FROZEN.flags.writeable = False
TUPLES, TUPLES_OUTSIDE = np.array([[1], [-1]]), np.array([[1], [4]])
ALONG, ALONG_OUTSIDE = np.zeros((2, 6), int), np.full((2, 6), 9)
LINE, LINE_OUTSIDE = np.array([3, 0]), np.array([3, 7])
FLOATS = np.zeros((2, 1))
LONG = np.arange(1 << 14)
LONG_OUTSIDE = np.append(LONG, 1 << 14)
SQUARE = np.zeros((260, 256), complex)
ACROSS = np.zeros((260, 256), int)
ROW_OF_A_MIB = np.zeros((1, 1 << 20), np.uint8)

INDICES = {
    "gather_nd": (TUPLES, TUPLES_OUTSIDE),
    "gather_elements": (ALONG, ALONG_OUTSIDE),
    "gather": (LINE, LINE_OUTSIDE),
    "scatter_nd": (TUPLES, TUPLES_OUTSIDE),
    "scatter_elements": (ALONG, ALONG_OUTSIDE),
}


def fails(error, function, *arguments, **options):
    """Return a call that must raise `error`."""

    def call():
        try:
            function(*arguments, **options)
        except error:
            return
        raise AssertionError("no error")

    return call


def calls_of_every_type():
    for type_name, data in DATA.items():
        for name, (good, outside) in INDICES.items():
            function = getattr(ndgather, name)
            scatters = name.startswith("scatter")
            more = (UPDATES[type_name],) if scatters else ()
            out = (OUT if scatters else OUT_OF_TWO)[type_name]
            title = f"{name}, {type_name}"
            yield title, functools.partial(function, data, good, *more)
            yield f"{title}, out", functools.partial(function, data, good, *more, out=out)
            yield (
                f"{title}, index outside",
                fails(errors.IndexOutOfBoundsError, function, data, outside, *more),
            )
            yield (
                f"{title}, index outside, out",
                fails(errors.IndexOutOfBoundsError, function, data, outside, *more, out=out),
            )
            lenient = "drop" if scatters else "fill"
            yield (
                f"{title}, {lenient}",
                functools.partial(function, data, outside, *more, mode=lenient),
            )


def calls_that_fail():
    nd, along = ndgather.gather_nd, ndgather.gather_elements
    scatter = ndgather.scatter_nd
    rows = UPDATES["plain"]
    for title, error, function, arguments, options in (
        ("mode", errors.AttributeValueError, nd, (PLAIN, TUPLES), {"mode": "bad"}),
        ("batch_dims", errors.AttributeValueError, nd, (PLAIN, TUPLES, 5), {}),
        ("batch_dims of no integer", errors.DTypeError, nd, (PLAIN, TUPLES, "1"), {}),
        ("axis", errors.AttributeValueError, along, (PLAIN, ALONG, 7), {}),
        ("axis beyond 64 bits", errors.AttributeValueError, along, (PLAIN, ALONG, 2**70), {}),
        ("index type", errors.DTypeError, nd, (PLAIN, FLOATS), {}),
        ("batch sizes", errors.ShapeError, nd, (PLAIN, TUPLES, 1), {}),
        ("ranks", errors.ShapeError, along, (PLAIN, LINE), {}),
        ("no array", errors.DTypeError, nd, ([[1], [2, 3]], TUPLES), {}),
        ("result size", MemoryError, ndgather.gather, (
            np.broadcast_to(PLAIN, (2**31, 4, 6)), np.broadcast_to(LINE, (2**31, 2)), 1), {}),
        ("fill_value", errors.DTypeError, nd, (PLAIN, TUPLES), {"mode": "fill", "fill_value": "x"}),
        ("out of another type", errors.DTypeError, nd, (PLAIN, TUPLES), {"out": FLOATS}),
        ("out of another shape", errors.ShapeError, nd, (PLAIN, TUPLES), {"out": PLAIN}),
        ("out that is no array", errors.DTypeError, nd, (PLAIN, TUPLES), {"out": []}),
        ("out read only", errors.AttributeValueError, scatter, (PLAIN, TUPLES, rows),
         {"out": FROZEN}),
        ("updates of another shape", errors.ShapeError, scatter, (PLAIN, TUPLES, PLAIN), {}),
        ("updates of another type", errors.DTypeError, scatter, (PLAIN, TUPLES, ALONG), {}),
        ("updates that are lost", errors.DTypeError, scatter, (LINE, TUPLES[:1], [1.5]), {}),
        ("reduction", errors.AttributeValueError, scatter, (PLAIN, TUPLES, rows),
         {"reduction": "bad"}),
        ("reduction of objects", errors.DTypeError, scatter,
         (DATA["object"], TUPLES, UPDATES["object"]), {"reduction": "add"}),
        ("cotangent", errors.DTypeError, vjp.scatter_nd, (DATA["object"], TUPLES), {}),
        ("count of threads", errors.AttributeValueError, ndgather.set_num_threads, (0,), {}),
    ):  # fmt: skip
        yield f"bad {title}", fails(error, function, *arguments, **options)


def calls_with_arithmetic():
    data, rows = PLAIN, UPDATES["plain"]
    for reduction in ("add", "max", "mean"):
        for used in (True, False):
            yield (
                f"{reduction}, use_init_val={used}",
                functools.partial(
                    ndgather.scatter_nd, data, TUPLES, rows, reduction=reduction, use_init_val=used
                ),
            )
    swapped = functools.partial(
        ndgather.scatter_elements, DATA["byte-swapped"], ALONG, UPDATES["byte-swapped"]
    )
    yield "add, byte-swapped", functools.partial(swapped, reduction="add")
    yield "vjp.gather_nd", functools.partial(vjp.gather_nd, rows, (4, 6), TUPLES)
    yield "vjp.gather_elements", functools.partial(vjp.gather_elements, rows, (4, 6), ALONG)
    for reduction in ("none", "add"):
        for name, indices in (("scatter_nd", TUPLES), ("scatter_elements", ALONG)):
            yield (
                f"vjp.{name}, {reduction}",
                functools.partial(getattr(vjp, name), data, indices, reduction=reduction),
            )


def calls_of_other_sizes():
    nd, scatter = ndgather.gather_nd, ndgather.scatter_nd
    yield "shared by threads", functools.partial(ndgather.gather, LONG, LONG)
    yield (
        "shared by threads, index outside",
        fails(errors.IndexOutOfBoundsError, ndgather.gather, LONG, LONG_OUTSIDE),
    )
    yield (
        "shared by threads, scatter",
        functools.partial(ndgather.scatter_elements, LONG, LONG, LONG, reduction="add"),
    )
    yield "by bands", functools.partial(ndgather.gather_elements, SQUARE, ACROSS)
    yield "by bands, scatter", functools.partial(ndgather.scatter_elements, SQUARE, ACROSS, SQUARE)
    yield "in reused memory", functools.partial(nd, ROW_OF_A_MIB, [[0]])
    yield "lists", functools.partial(nd, [[1, 2], [3, 4]], [[0], [1]])
    yield "lists, scatter", functools.partial(scatter, [1.0, 2.0], [[0]], [3.0])
    yield (
        "out overlaps",
        functools.partial(nd, OUT["plain"], [[1], [0], [2], [3]], out=OUT["plain"]),
    )
    yield (
        "in place",
        functools.partial(scatter, OUT["plain"], TUPLES, OUT["plain"][:2] + 1, out=OUT["plain"]),
    )
    yield (
        "in place, object",
        functools.partial(scatter, OUT["object"], TUPLES, UPDATES["object"], out=OUT["object"]),
    )
    yield "empty", functools.partial(nd, PLAIN[:, :0], TUPLES)


def calls_of_operators():
    by_tuple = (Kind.GATHER_ND, Kind.SCATTER_ND)
    for op in (op for op in operators() if op.row.definition is None):
        nd = op.row.kind in by_tuple
        good, outside = (TUPLES[:1], TUPLES_OUTSIDE) if nd else (ALONG[:1], ALONG_OUTSIDE[:1])
        rows = PLAIN[: len(outside) if nd else 1]
        given = {Role.DATA: PLAIN, Role.AXIS: np.array(0), Role.UPDATES: rows}
        for title, indices in (("", good), (", index outside", outside)):
            given[Role.INDICES] = indices
            given[Role.UPDATES] = PLAIN[: len(indices)]
            inputs = [given[each.role] for each in op.row.inputs]
            named = {each.name: 0 for each in op.row.attributes if each.default is None}
            call = functools.partial(op, *inputs, **named)
            if title and op.row.index_rule.raises:
                call = fails(errors.IndexOutOfBoundsError, op, *inputs, **named)
            yield f"{op.row}{title}", call
        bad = fails(errors.NdgatherError, op, *(FLOATS for _ in op.row.inputs))
        yield f"{op.row}, bad", bad


KINDS = {
    **dict(calls_of_every_type()),
    **dict(calls_that_fail()),
    **dict(calls_with_arithmetic()),
    **dict(calls_of_other_sizes()),
    **dict(calls_of_operators()),
}

FEW = 300

# Objects whose references are counted. Ours must not gain any; Python itself also uses the others.
OURS = [each for each in globals().values() if isinstance(each, np.ndarray)]
OURS += [array for group in (DATA, UPDATES, OUT, OUT_OF_TWO) for array in group.values()]
OURS += [*DATA["object"].flat, *UPDATES["object"].flat, *DATA["record of object"]["thing"].flat]
SHARED = [None, True, False, NotImplemented, Ellipsis, (), "", 0, 1, -1, np.ndarray]
SHARED += ["raise", "wrap", "clip", "fill", "drop", "none", "add", "max", "mean", "bad"]
SHARED += [np.dtype("i8"), *(data.dtype for data in DATA.values())]


class Statistics(ctypes.Structure):
    """The result of mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


# AddressSanitizer retains freed memory and does not report usage.
COUNTS = sys.platform == "linux" and "libasan" not in os.environ.get("LD_PRELOAD", "")
MALLINFO = getattr(ctypes.CDLL(None), "mallinfo2", None) if COUNTS else None
if MALLINFO is not None:
    MALLINFO.restype = Statistics


def in_use_by_malloc():
    """Return the bytes allocated by malloc, or 0 if unavailable."""
    if MALLINFO is None:
        return 0
    found = MALLINFO()
    return found.uordblks + found.hblkhd


def resident():
    """Return the resident bytes of the process, or 0 if unavailable."""
    if not COUNTS:
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def references(objects):
    return np.array([sys.getrefcount(each) for each in objects])


def growth(call, times):
    """Return what `times` calls leave behind: references, and memory by three measures."""
    for _ in range(50):  # one-time allocations have happened by now
        call()
    gc.freeze()  # the collections below traverse these objects and clear free lists
    ours, shared = references(OURS), references(SHARED)
    gc.collect()
    whole, malloc, blocks = resident(), in_use_by_malloc(), sys.getallocatedblocks()
    for _ in range(times):
        call()
    cycles = gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    malloc, whole = in_use_by_malloc() - malloc, resident() - whole
    gc.unfreeze()
    ours, shared = references(OURS) - ours, references(SHARED) - shared
    return {
        "references to ours": int(np.abs(ours).max()),
        "references to shared objects": int(np.abs(shared).max()),
        "objects for the garbage collector": cycles,
        "blocks of Python": blocks,
        "bytes of malloc": malloc,
        "resident bytes": whole,
    }


# One-time amounts for any number of calls. A leaking call leaks at least
# one reference, one block, or 16 bytes.
ONCE = {
    "references to ours": 0,
    "references to shared objects": 30,
    "objects for the garbage collector": 0,
    "blocks of Python": 150,
    "bytes of malloc": 4096,
    "resident bytes": 1 << 20,
}


def too_much(found, times):
    """Return the measures that grew by more than a one-time amount plus one per hundred calls."""
    return {
        account: grown
        for account, grown in found.items()
        if grown > ONCE[account] + (times // 100 if ONCE[account] else 0)
    }


@pytest.fixture(autouse=True)
def _settings():
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(2)
    gc.disable()
    yield
    gc.enable()
    ndgather.set_num_threads(before)


@pytest.mark.parametrize("times", [FEW, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_and_references_stay_constant(kind, times):
    # On a busy machine, a thread may start and allocate late. A leak would repeat.
    for _ in range(2):
        found = growth(KINDS[kind], times)
        print(found)
        if not too_much(found, times):
            return
    assert too_much(found, times) == {}


KEPT = []


def keep_a_cycle():
    cycle = []
    cycle.append(cycle)


def keep_pages():
    """Allocate memory that earlier tests cannot have released."""
    pages = mmap.mmap(-1, 1 << 15)
    pages.write(bytes(1 << 15))
    KEPT.append(pages)


LEAKS = {
    "references to ours": lambda: KEPT.append(PLAIN),
    "references to shared objects": lambda: KEPT.append(None),
    "objects for the garbage collector": keep_a_cycle,
    "blocks of Python": lambda: KEPT.append(object()),
    "bytes of malloc": lambda: KEPT.append(bytearray(1000)),
    "resident bytes": keep_pages,
}


@pytest.mark.parametrize("account", LEAKS)
def test_leaks_are_detected(account):
    """Each measure of the test above detects what it is meant to detect."""
    if account == "bytes of malloc" and MALLINFO is None:
        pytest.skip("the allocator of C does not say what is in use")
    if account == "resident bytes" and not COUNTS:
        pytest.skip("the system does not say what is in memory")
    if account == "references to shared objects" and sys.version_info >= (3, 12):
        pytest.skip("the singletons of Python have no counts any more")
    try:
        assert account in too_much(growth(LEAKS[account], FEW), FEW)
    finally:
        KEPT.clear()
