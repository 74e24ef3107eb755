"""All pairs of classes of calls: each dtype with each index dtype, mode, reduction, store, etc.

A minimal set of calls that covers all pairs is made, with other values every day, and compared with
plain loops.
"""

import time
from itertools import combinations, product
from random import Random

import dask.array as da
import h5py
import ml_dtypes
import numpy as np
import tensorstore
import zarr

from tests.core.comparing import threads
from tests.definitions.by_numpy import expected_by_numpy
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
    moves_as_bytes,
)
from tests.definitions.draws import LARGE_NUMBERS, SKEWS, Size, draw_call

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
# Omit dtypes that the store does not support.
HELD = {
    "memory": AXES["dtype"],
    "memory map": tuple(name for name in AXES["dtype"] if name not in ("O", "T")),
    "zarr": (*EVERYWHERE, *SWAPPED, "M8[s]", "m8[ns]", "S5", "U3", "V3", "V13", "u1,f8", "T"),
    "hdf5": (*EVERYWHERE, *LONG, *SWAPPED, "S5", "V3", "V13", "u1,f8"),
    "tensorstore": (*EVERYWHERE, *(name for name in OF_ML[:5] if hasattr(tensorstore, name))),
    "dask": tuple(name for name in AXES["dtype"] if name != "u1,f8"),
}


def is_possible(first, value, second, other):
    """Return whether some call has both of two classes, in either order."""
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
    """Return cases that cover every pair; each starts with a pair that was not covered before."""
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
    """Return `values` as a stored array in several chunks, and a function that reads it."""
    chunks = tuple((size + 1) // 2 for size in values.shape)
    if store == "zarr":
        without_version_3 = values.dtype.kind in "SUV"
        array = zarr.create_array(
            {},
            data=values.copy(),  # zarr writes wrong strings for arrays with negative strides
            chunks=chunks,
            zarr_format=2 if without_version_3 else 3,
            config={"write_empty_chunks": True},
        )
        return array, lambda: np.asarray(array[...], values.dtype)
    if store == "hdf5":
        array = h5py.File.in_memory().create_dataset("a", data=values, chunks=chunks)
        return array, lambda: array[...]
    if store == "tensorstore":
        array = tensorstore.open(
            {"driver": "zarr3", "kvstore": "memory://"},
            create=True,
            dtype=tensorstore.dtype(values.dtype),
            shape=values.shape,
            chunk_layout=tensorstore.ChunkLayout(chunk_shape=chunks),
        ).result()
        array.write(values).result()
        return array, lambda: array.read().result()
    if store == "memory map":
        array = np.memmap(f"{folder}/map", values.dtype, "w+", shape=values.shape)
        array.view(f"V{values.itemsize}")[...] = values.view(f"V{values.itemsize}")
        return array, lambda: np.array(array)
    return da.from_array(values, chunks=chunks, name=False), None


def call_of(case, random):
    """Return a call of a case; in memory it is large enough to use threads."""
    dtype, reduction = dtype_of(case["dtype"]), case["reduction"]
    limits = {
        "dtypes": [dtype],
        "index_dtypes": [dtype_of(case["indices"])],
        "modes": [case["mode"]],
        "reductions": [reduction],
    }
    known = moves_as_bytes(dtype) and (reduction == "none" or dtype in LARGE_NUMBERS)
    if case["store"] == "memory" and case["threads"] > 1 and known:
        skew = random.choice(list(SKEWS))
        return draw_call(random, case["function"], Size.LARGE, skew=skew, **limits)
    while True:  # in a layout with repeated elements, an index may be out of bounds
        call = draw_call(random, case["function"], flavours=["value"], **limits)
        if call.data.ndim and not bad_entries(call):
            return call


def check(case, random, folder):
    """Make a call of a case and compare its result."""
    call = call_of(case, random)
    same = assert_same_numbers if call.computes else assert_same_elements
    if call.indices.size > 10_000:
        same(call.result(), expected_by_numpy(call))
        return
    desired = expected(call)
    if case["store"] == "memory":
        same(call.result(), desired)
        return
    array, read = stored(case["store"], call.data, folder)
    arguments = (array, *call.arrays[1:])
    if case["store"] == "dask":
        same(call.result(*arguments).compute(), desired)
    elif call.scatters:
        call.result(*arguments, out=array)
        same(read(), desired)
    else:
        same(call.result(*arguments), desired)


def test_all_pairs_of_classes_are_covered(tmp_path):
    seed = int(time.time() // 86_400)
    met, failed = set(), []
    for number, case in enumerate(covering_cases(np.random.default_rng(seed))):
        try:
            with threads(case["threads"]):
                check(case, Random(f"{seed} {number}"), tmp_path)
        except Exception as error:
            failed.append(f"{case}, seed '{seed} {number}': {type(error).__name__}: {error}")
        else:
            met |= pairs_of(case)
    assert not failed, "\n".join([f"{len(failed)} calls:", *failed[:20]])
    assert all_pairs() <= met, sorted(all_pairs() - met, key=str)
