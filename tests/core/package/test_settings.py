"""Settings of NumPy, Python and the process do not change results and errors.

The calls are those of `wild_calls`, made here and in child processes.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
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
from ndgather.errors import CallError
from tests.core.package.wild_calls import calls, drawn_calls, outcomes
from tests.definitions.calls import assert_same_elements, assert_same_numbers, expected

EXPECTED = outcomes()


def test_calls_give_results_and_errors():
    errors = [name for name, came in EXPECTED.items() if "Error: " in came]
    assert errors == [*calls()][-12:]
    for call in drawn_calls().values():
        same = assert_same_numbers if call.computes else assert_same_elements
        same(call.result(), expected(call))


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


def test_calls_in_another_thread():
    came = []
    thread = threading.Thread(target=lambda: came.append(outcomes()))
    thread.start()
    thread.join()
    assert came == [EXPECTED]


PROGRAM = """
import json
from tests.core.package.wild_calls import outcomes
print(json.dumps(outcomes(), ensure_ascii=True))
"""
PROCESSES = {
    "without asserts": ["-OO", "PYTHONHASHSEED=77", "NDGATHER_NUM_THREADS=1"],
    "checked": ["-X", "dev", "-bb", "-W", "error"],
    "ASCII": ["LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "PYTHONIOENCODING=ascii"],
}


@pytest.mark.parametrize("process", PROCESSES)
def test_options_of_a_process(process):
    given = PROCESSES[process]
    variables = dict(word.split("=", 1) for word in given if "=" in word)
    options = [word for word in given if "=" not in word]
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM],
        env={**os.environ, **variables},
        cwd=Path(__file__).parents[3],
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
    """Regardless of which library runs the call."""
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
def test_unknown_option_of_any_function_is_named(function):
    with pytest.raises(CallError, match=rf"^{function.__name__}: nonsense = 1 is not an argument"):
        function(nonsense=1)
