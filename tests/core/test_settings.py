"""Settings of NumPy, Python and the process that a program may have: the same results and errors.

`outcomes` makes calls that overflow, divide by zero, convert and fail, here and in child processes.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr

import ndgather
from ndgather import vjp
from ndgather.errors import CallError, NdgatherError
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


EXPECTED = outcomes()


def test_the_calls_give_results_and_errors():
    errors = [name for name, came in EXPECTED.items() if "Error: " in came]
    assert len(errors) == 12, errors
    assert EXPECTED["add True i1"] == "int8 (3, 3) c8c8c8646464909090"


@contextlib.contextmanager
def restored(choose, before):
    try:
        yield choose()
    finally:
        before()


@contextlib.contextmanager
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def printing(**options):
    with np.printoptions(**options):
        yield


SETTINGS = {
    "errors of NumPy raise": lambda: np.errstate(all="raise"),
    "errors of NumPy are calls": lambda: np.errstate(all="call", call=lambda *_: 1 / 0),
    "errors of NumPy warn": lambda: np.errstate(all="warn"),
    "warnings are errors": warnings_are_errors,
    "few digits": lambda: printing(precision=1, threshold=1, edgeitems=0, suppress=True),
    "other forms": lambda: printing(formatter={"all": lambda _: "?"}, linewidth=5),
    "old forms": lambda: printing(legacy="1.13"),
    "few digits of integers": lambda: restored(
        lambda: sys.set_int_max_str_digits(640), lambda: sys.set_int_max_str_digits(4300)
    ),
    "small buffers": lambda: restored(lambda: np.setbufsize(16), lambda: np.setbufsize(8192)),
    "quick switches": lambda: restored(
        lambda: sys.setswitchinterval(1e-6), lambda: sys.setswitchinterval(0.005)
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_numpy_and_python(setting):
    with SETTINGS[setting]():
        came = outcomes()
    assert came == EXPECTED


def test_another_thread():
    came = []
    thread = threading.Thread(target=lambda: came.append(outcomes()))
    thread.start()
    thread.join()
    assert came == [EXPECTED]


PROGRAM = """
import json
from tests.core.test_settings import outcomes
print(json.dumps(outcomes(), ensure_ascii=True))
"""
PROCESSES = {
    "without asserts": ["-OO", "PYTHONHASHSEED=77", "NDGATHER_NUM_THREADS=1"],
    "checked": ["-X", "dev", "-bb", "-W", "error"],
    "ASCII": ["LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "PYTHONIOENCODING=ascii"],
    "plain": ["NDGATHER_INSTRUCTION_SET=baseline", "NPY_DISABLE_CPU_FEATURES=AVX2"],
}


@pytest.mark.parametrize("process", PROCESSES)
def test_options_of_a_process(process):
    given = PROCESSES[process]
    variables = dict(word.split("=", 1) for word in given if "=" in word)
    options = [word for word in given if "=" not in word]
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM],
        env={**os.environ, **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == EXPECTED


FUNCTIONS = {
    "gather_nd": ([[1, 0]],),
    "gather_elements": ([[1, 0]],),
    "gather": ([1],),
    "gather_windows": ([[0, 0]], (1, 1)),
    "gather_ranges": ([0], [1]),
    "scatter_nd": ([[1, 0]], [5.0]),
    "scatter_elements": ([[1, 0]], [[5.0, 6.0]]),
}
TABLE = np.arange(6.0).reshape(3, 2)


def _on_disk(folder):
    TABLE.tofile(folder / "table")
    return np.memmap(folder / "table", TABLE.dtype, "r+", shape=TABLE.shape)


def _in_file(folder):
    file = h5py.File(folder / "table.h5", "w")
    return file.create_dataset("a", data=TABLE)


ROADS = {
    "array": lambda _: TABLE.copy(),
    "list": lambda _: TABLE.tolist(),
    "masked": lambda _: np.ma.masked_equal(TABLE, 3),
    "subclass": lambda _: TABLE.view(type("Sub", (np.ndarray,), {})),
    "memory map": _on_disk,
    "zarr": lambda _: zarr.create_array({}, data=TABLE, chunks=(2, 1)),
    "hdf5": _in_file,
    "tensorstore": lambda _: tensorstore.array(TABLE),
    "cached": lambda _: ndgather.cached(zarr.create_array({}, data=TABLE, chunks=(2, 1))),
    "dask": lambda _: da.from_array(TABLE, chunks=2),
    "xarray": lambda _: xr.DataArray(TABLE, dims=("y", "x")),
    "something": lambda _: object(),
}
UNKNOWN = ("dim", "Axis", "modes", "negative", "arithmetic", "indices_name")


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_unknown_options_are_refused(function, road, tmp_path):
    """Whatever would carry out the call."""
    data = ROADS[road](tmp_path)
    for option in UNKNOWN:
        with pytest.raises(CallError, match=rf"^{function}: {option} = 1 is not an argument"):
            getattr(ndgather, function)(data, *FUNCTIONS[function], **{option: 1})


GRADIENTS = {
    "gather_nd": (np.ones(1), (3, 2), [[1, 0]]),
    "gather_elements": (np.ones((1, 2)), (3, 2), [[1, 0]]),
    "gather_windows": (np.ones((1, 1, 1)), (3, 2), [[0, 0]], (1, 1)),
    "gather_ranges": (np.ones((1, 2)), (3, 2), [0], [1]),
    "scatter_nd": (TABLE, [[1, 0]]),
    "scatter_elements": (TABLE, [[1, 0]]),
}


@pytest.mark.parametrize("function", GRADIENTS)
@pytest.mark.parametrize("option", UNKNOWN)
def test_unknown_options_of_gradients_are_refused(function, option):
    call = getattr(vjp, function)
    call(*GRADIENTS[function])
    with pytest.raises(CallError, match=rf"^vjp\.{function}: {option} = 1 is not an argument"):
        call(*GRADIENTS[function], **{option: 1})


@pytest.mark.parametrize(
    "function",
    [
        ndgather.get_memory_limit,
        ndgather.get_num_threads,
        ndgather.release_memory,
        ndgather.set_memory_limit,
        ndgather.set_num_threads,
        ndgather.show.style_sheet,
        ndgather.show_versions,
        ndgather.stored.cached,
        ndgather.stored.estimate,
        ndgather.stored.journal,
        ndgather.stored.missing_chunks,
    ],
    ids=lambda function: function.__name__,
)
def test_an_unknown_option_of_any_function_is_named(function):
    with pytest.raises(CallError, match=rf"^{function.__name__}: nonsense = 1 is not an argument"):
        function(nonsense=1)
