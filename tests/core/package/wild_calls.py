"""Calls that overflow, divide by zero, convert and fail, and the outcome of each.

Child processes import this module, so it imports little.
"""

from random import Random

import dask.array as da
import h5py
import numpy as np

import ndgather
from ndgather import vjp
from ndgather.errors import NdgatherError
from ndgather.published import operator
from tests.definitions.draws import REDUCTIONS, SCATTERS, Size, draw_call

NAN = np.nan
WILD = np.array([[1e38, -1e38, NAN], [np.inf, -np.inf, 0.0], [3e38, -0.0, 1e-45]], np.float32)
ROWS = np.array([[2], [0], [2], [2]])
LONG = np.arange(2000)


def drawn_calls():
    """Return wild scatters of every reduction and several dtypes, by name."""
    return {
        f"{function} {reduction} {dtype}": draw_call(
            Random(f"{function} {reduction} {dtype}"),
            function,
            Size.WILD,
            dtypes=[np.dtype(dtype)],
            reductions=[reduction],
            flavours=["value"],
        )
        for function in SCATTERS
        for reduction in REDUCTIONS
        for dtype in ("f2", "f4", "f8", ">f4", "i1")
    }


def calls():
    """Return calls of every function and array type, by name; some raise errors."""
    return {name: call.result for name, call in drawn_calls().items()} | {
        "gather_nd": lambda: ndgather.gather_nd(WILD, ROWS),
        "gather": lambda: ndgather.gather(WILD.tolist(), [1, -1], axis=1),
        "gather_elements": lambda: ndgather.gather_elements(WILD, [[0, 2, 1]]),
        "windows": lambda: ndgather.gather_windows(WILD, [[-1, 1]], (2, 2), mode=("edge", "wrap")),
        "ranges": lambda: np.append(*ndgather.gather_ranges(WILD[0], [0, 1], [2, 3])),
        "vjp": lambda: vjp.gather_nd(WILD[[0, 1, 2, 0]], (3, 3), ROWS),
        "operator": lambda: operator("GatherND")(WILD, ROWS),
        "objects": lambda: ndgather.gather(np.array(["a", None, 3], object), [2, 0]),
        "subnormal": lambda: ndgather.gather(WILD, [9], mode="fill", fill_value=1e-300),
        "text": lambda: ndgather.gather(np.array(["ä", "ß"]), [9, 1], mode="fill", fill_value="é"),
        "dates": lambda: ndgather.gather(np.array(["NaT", 5], "M8[s]"), [1, 0, 1]),
        "stored": lambda: ndgather.gather_nd(
            h5py.File.in_memory().create_dataset("a", data=WILD), ROWS
        ),
        "lazy": lambda: ndgather.gather_nd(da.from_array(WILD, chunks=2), ROWS).compute(),
        "too large a fill": lambda: ndgather.gather(WILD, [9], mode="fill", fill_value=1e300),
        "no integer": lambda: ndgather.gather(np.zeros(2, "i1"), [9], mode="fill", fill_value=NAN),
        "too large updates": lambda: ndgather.scatter_nd(WILD, [[0]], [[1e300, 1, 2]]),
        "outside": lambda: ndgather.gather_nd(LONG, LONG[:, np.newaxis] + 1),
        "outside an operator": lambda: operator("GatherND")(WILD, ROWS + 1),
        "shapes": lambda: ndgather.gather_nd(WILD, np.zeros((1, 5), int)),
        "no shape": lambda: operator("GatherND").infer_shape((2, 3), ("ä", 4)),
        "no dtype": lambda: ndgather.gather(WILD, np.float64([0.123456789])),
        "mode": lambda: ndgather.gather(WILD, [0], mode="RÀISE"),
        "option": lambda: ndgather.gather(WILD, [0], dim=1),
        "large option": lambda: ndgather.gather(WILD, [0], axis=10**30),
        "name of a file": lambda: ndgather.gather_nd("ä.zarr", ROWS),
    }


def outcomes():
    """Return the outcome of each call: the bytes of the result, or the error.

    The sign of a computed NaN is unspecified.
    """
    came = {}
    for name, call in calls().items():
        try:
            result = call()
        except NdgatherError as error:
            came[name] = f"{type(error).__name__}: {error}"
            continue
        if result.dtype.kind == "f":
            with np.errstate(all="ignore"):
                result = np.where(np.isnan(result), NAN, result).astype(result.dtype)
        content = result.tolist() if result.dtype.hasobject else result.tobytes().hex()
        came[name] = f"{result.dtype} {result.shape} {content}"
    return came
