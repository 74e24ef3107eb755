"""Every two classes of calls meet: each dtype, index dtype, mode, reduction, store ... each other.

As few calls as meet all pairs are made, with other values every day, and compared with the plain
loops. ``build/coverage-of-classes.txt`` then has a table: how many calls met each pair.
"""

import time
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import dask.array as da
import h5py
import ml_dtypes
import numpy as np
import tensorstore
import zarr

import ndgather
from tests.core.comparing import threads
from tests.definitions import large_calls
from tests.definitions.calls import (
    LAYOUTS,
    Call,
    assert_same_elements,
    expected,
    moves_as_bytes,
)
from tests.definitions.scatter_strategies import (
    ScatterCall,
    assert_same_numbers,
    expected_scatter,
    numbers,
)
from tests.definitions.strategies import distinct

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
OF_ML = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint4")
LONG = ("longdouble", "clongdouble")
SWAPPED = (">i4", ">f8")
OTHERS = ("M8[s]", "m8[ns]", "S5", "U3", "V3", "V13", "u1,f8", "O", "T")

AXES = {
    "function": ("gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements"),
    "dtype": ("bool", *INTEGERS, *FLOATS, *COMPLEX, *LONG, *OF_ML, *SWAPPED, *OTHERS),
    "indices": (*INTEGERS, *(">i2", ">i4", ">i8", ">u2", ">u4", ">u8")),
    "mode": ("raise", "wrap", "clip", "fill", "drop"),
    "reduction": ("none", "add", "sub", "mul", "min", "max", "mean"),
    "threads": (1, 2, 5),
    "store": ("memory", "memory map", "zarr", "hdf5", "tensorstore", "dask"),
}
EVERYWHERE = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
# What a store has no type for is left out.
HELD = {
    "memory": AXES["dtype"],
    "memory map": tuple(name for name in AXES["dtype"] if name not in ("O", "T")),
    "zarr": (*EVERYWHERE, *SWAPPED, "M8[s]", "m8[ns]", "S5", "U3", "V3", "V13", "u1,f8", "T"),
    "hdf5": (*EVERYWHERE, *LONG, *SWAPPED, "S5", "V3", "V13", "u1,f8"),
    "tensorstore": (*EVERYWHERE, *(name for name in OF_ML[:5] if hasattr(tensorstore, name))),
    "dask": tuple(name for name in AXES["dtype"] if name != "u1,f8"),
}


def is_possible(first, value, second, other):
    """Return whether some call has both of two values of axes, in either order."""
    pair = {first: value, second: other}
    function, dtype = pair.get("function", ""), pair.get("dtype")
    mode, reduction = pair.get("mode"), pair.get("reduction", "none")
    if function.startswith("gather") and (mode == "drop" or reduction != "none"):
        return False
    if mode == "fill" and (function.startswith("scatter") or reduction != "none"):
        return False
    if dtype in OTHERS and reduction != "none":
        return False
    if (dtype == "bool" and reduction == "mean") or (
        dtype in (*COMPLEX, "clongdouble") and reduction in ("min", "max")
    ):
        return False
    return dtype is None or "store" not in pair or dtype in HELD[pair["store"]]


def all_pairs():
    return {
        ((first, value), (second, other))
        for first, second in combinations(AXES, 2)
        for value, other in product(AXES[first], AXES[second])
        if is_possible(first, value, second, other)
    }


def pairs_of(case):
    return set(combinations([(axis, case[axis]) for axis in AXES if axis in case], 2))


def covering_cases(rng):
    """Return cases that meet every pair, each begun with a pair that was not met before."""
    left, cases = all_pairs(), []
    while left:
        case = dict(min(left, key=str))
        for axis in rng.permutation([axis for axis in AXES if axis not in case]).tolist():
            fitting = [
                value
                for value in rng.permutation(len(AXES[axis])).tolist()
                if all(is_possible(axis, AXES[axis][value], *each) for each in case.items())
            ]
            case[axis] = max(
                (AXES[axis][value] for value in fitting),
                key=lambda value, axis=axis: len(pairs_of({**case, axis: value}) & left),
            )
        left -= pairs_of(case)
        cases.append(case)
    return cases


def dtype_of(name):
    if name == "T":
        return np.dtypes.StringDType()
    return np.dtype(getattr(ml_dtypes, name) if name in OF_ML else name)


def stored(store, values, folder):
    """Return `values` as an array of a store, and a function that reads all of it."""
    if store == "zarr":
        without_version_3 = values.dtype.kind in "SUV"
        array = zarr.create_array(
            {},
            data=values,
            chunks=(3, 4, 5),
            zarr_format=2 if without_version_3 else 3,
            config={"write_empty_chunks": True},
        )
        return array, lambda: np.asarray(array[...], values.dtype)
    if store == "hdf5":
        file = h5py.File(f"{folder}/{time.monotonic_ns()}", "w", driver="core", backing_store=False)
        array = file.create_dataset("a", data=values, chunks=(3, 4, 5))
        return array, lambda: array[...]
    if store == "tensorstore":
        array = tensorstore.open(
            {"driver": "zarr3", "kvstore": "memory://"},
            create=True,
            dtype=tensorstore.dtype(values.dtype),
            shape=values.shape,
            chunk_layout=tensorstore.ChunkLayout(chunk_shape=(3, 4, 5)),
        ).result()
        array.write(values).result()
        return array, lambda: array.read().result()
    if store == "memory map":
        array = np.memmap(f"{folder}/map", values.dtype, "w+", shape=values.shape)
        array.view(f"V{values.itemsize}")[...] = values.view(f"V{values.itemsize}")
        return array, lambda: np.array(array)
    return da.from_array(values, chunks=(3, 4, 5), name=False), None


def small_call(case, rng):
    """Return a call on an array of three axes, as small as the loops need it."""
    shape = tuple(map(int, rng.integers(5, 9, 3)))
    function, mode, kind = case["function"], case["mode"], dtype_of(case["indices"])
    options = {"mode": mode}
    depth = int(rng.integers(1, 4))
    axis = int(rng.integers(0, 3))
    if function.endswith("_nd"):
        sizes, taken = np.array(shape[:depth]), (12, depth)
    else:
        options["axis"] = axis
        sizes = np.array(shape[axis])
        taken = tuple(9 if d == axis else size for d, size in enumerate(shape))
        taken = (9,) if function == "gather" else taken
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    values = rng.integers(-sizes if low else 0, sizes, taken).astype(object)
    if mode != "raise":
        strays = np.array([low, high, 9, -9 if low else 10, 100, 8], object)
        values = np.where(rng.random(taken) < 0.2, strays[rng.integers(0, 6, taken)], values)
    indices = LAYOUTS[rng.choice(["C", "every second"])](values.astype(kind))
    dtype = dtype_of(case["dtype"])
    if function.startswith("gather"):
        if function != "gather_elements":
            options["batch_dims"] = 0
        data = distinct(shape, dtype)
        if mode == "fill" and rng.random() < 0.7:
            element = distinct((5,), dtype)[4:].reshape(())
            options["fill_value"] = element if moves_as_bytes(dtype) else element[()]
        return Call(function=function, data=data, indices=indices, options=options)
    taken = taken[:-1] + shape[depth:] if function == "scatter_nd" else taken
    options["reduction"] = case["reduction"]
    seed = int(rng.integers(2**32))
    if case["reduction"] == "none":
        data, updates = distinct(shape, dtype), distinct((1, *taken), dtype)[0][::-1]
    else:
        data, updates = numbers(shape, dtype, seed), numbers(taken, dtype, seed + 7)
        options["use_init_val"] = bool(rng.random() < 0.5)
    return ScatterCall(
        function=function, data=data, indices=indices, updates=updates, options=options
    )


def check(case, rng, folder):
    """Make a call of a case, large enough for its threads where it is in memory, and compare."""
    function, scatters = getattr(ndgather, case["function"]), case["function"].startswith("scatter")
    same = assert_same_elements if case["reduction"] == "none" else assert_same_numbers
    dtype, index_dtype = dtype_of(case["dtype"]), dtype_of(case["indices"])
    known = moves_as_bytes(dtype) and (case["reduction"] == "none" or dtype in large_calls.NUMBERS)
    if case["store"] == "memory" and case["threads"] > 1 and known:
        skew = rng.choice(list(large_calls.SKEWS))
        chosen = {"dtype": dtype, "index_dtype": index_dtype}
        chosen |= {"mode": case["mode"], "reduction": case["reduction"]}
        seed = int(rng.integers(2**32))
        call = large_calls.large_call(case["function"], skew, seed, **chosen)
        same(function(*call.arguments(), **call.options), large_calls.expected(call))
        return
    call = small_call(case, rng)
    desired = expected_scatter(call) if scatters else expected(call)
    updates = (call.updates,) if scatters else ()
    if case["store"] == "memory":
        same(function(call.data, call.indices, *updates, **call.options), desired)
        return
    array, read = stored(case["store"], call.data, folder)
    if read is None:
        same(function(array, call.indices, *updates, **call.options).compute(), desired)
        return
    more = {"out": array} if scatters else {}
    result = function(array, call.indices, *updates, **call.options, **more)
    same(read() if scatters else result, desired)


def table(met):
    """Return lines with the number of calls that met each pair; `-`: no call can."""
    possible = all_pairs()
    for first, second in combinations(AXES, 2):
        columns = AXES[second]
        widths = [max(len(str(each)), 4) for each in columns]
        yield f"\n{first} x {second}"
        heads = [str(each).rjust(wide) for each, wide in zip(columns, widths, strict=True)]
        yield " ".join(["".ljust(16), *heads])
        for value in AXES[first]:
            cells = []
            for other, wide in zip(columns, widths, strict=True):
                pair = (first, value), (second, other)
                cells.append(str(met[pair] if pair in possible else "-").rjust(wide))
            yield " ".join([str(value).ljust(16), *cells])


def test_every_two_classes_meet(tmp_path):
    seed = int(time.time() // 86_400)
    rng = np.random.default_rng(seed)
    met, failed, cases = Counter(), [], covering_cases(rng)
    for number, case in enumerate(cases):
        of_case = np.random.default_rng([seed, number])
        try:
            with threads(case["threads"]):
                check(case, of_case, tmp_path)
        except Exception as error:
            failed.append(f"{case}, seed [{seed}, {number}]: {type(error).__name__}: {error}")
        else:
            met.update(pairs_of(case))
    report = Path("build/coverage-of-classes.txt")
    report.parent.mkdir(exist_ok=True)
    report.write_text("\n".join([f"{len(cases)} calls of seed {seed}", *table(met)]))
    print(report.read_text())
    assert not failed, "\n".join([f"{len(failed)} calls:", *failed[:20]])
    assert all_pairs() <= met.keys(), sorted(all_pairs() - met.keys(), key=str)
