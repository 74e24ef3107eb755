"""Calls that overflow, divide by zero, convert and fail, and what came of each.

A module of its own: child processes import it, and so it imports little.
"""

import time

import dask.array as da
import h5py
import numpy as np

import ndgather
from ndgather import vjp
from ndgather.errors import NdgatherError
from ndgather.published import operator

NAN, INF = np.nan, np.inf
WILD = np.array([[1e38, -1e38, NAN], [INF, -INF, 0.0], [3e38, -0.0, 1e-45]], np.float32)
ROWS = np.array([[2], [0], [2], [2]])
LONG = np.arange(2000)


def calls():
    """Return calls of every function and road, by name; some of them raise."""
    updates = WILD[[0, 1, 2, 0]]
    made = {
        f"{reduction} {init} {dtype}": lambda reduction=reduction, init=init, dtype=dtype: (
            ndgather.scatter_nd(
                WILD.astype(dtype) if dtype != "i1" else np.full((3, 3), 100, "i1"),
                ROWS,
                updates.astype(dtype) if dtype != "i1" else np.full((4, 3), 100, "i1"),
                reduction=reduction,
                use_init_val=init,
            )
        )
        for reduction in ("none", "add", "sub", "mul", "min", "max", "mean")
        for init in (True, False)
        for dtype in ("f4", "f8", ">f4", "i1")
    }
    halves = np.array([60000, -60000, NAN], "e")
    return made | {
        "halves": lambda: ndgather.scatter_elements(halves, [0, 1], halves[:2], reduction="add"),
        "gather_nd": lambda: ndgather.gather_nd(WILD, ROWS),
        "gather": lambda: ndgather.gather(WILD.tolist(), [1, -1], axis=1),
        "gather_elements": lambda: ndgather.gather_elements(WILD, [[0, 2, 1]]),
        "windows": lambda: ndgather.gather_windows(WILD, [[-1, 1]], (2, 2), mode=("edge", "wrap")),
        "ranges": lambda: np.append(*ndgather.gather_ranges(WILD[0], [0, 1], [2, 3])),
        "vjp": lambda: vjp.gather_nd(updates, (3, 3), ROWS),
        "operator": lambda: operator("GatherND")(WILD, ROWS),
        "objects": lambda: ndgather.gather(np.array(["a", None, 3], object), [2, 0]),
        "subnormal": lambda: ndgather.gather(WILD, [9], mode="fill", fill_value=1e-300),
        "text": lambda: ndgather.gather(np.array(["ä", "ß"]), [9, 1], mode="fill", fill_value="é"),
        "dates": lambda: ndgather.gather(np.array(["NaT", 5], "M8[s]"), [1, 0, 1]),
        "stored": lambda: ndgather.gather_nd(_in_memory(WILD), ROWS),
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


def _in_memory(values):
    """Return a stored array that no thread of another package reads."""
    file = h5py.File(f"{time.monotonic_ns()}", "w", driver="core", backing_store=False)
    return file.create_dataset("a", data=values)


def outcomes():
    """Return what came of every call: the bytes of the result, or the class and text of an error.

    Of a NaN that is computed the sign is open.
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
