"""Memory shared between arguments, earlier results and other threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import ndgather


def test_fill_value_may_share_memory_with_out():
    out = np.array([99, 0, 0])
    fill_value = out[0:1].reshape(())
    data, indices = np.array([10, 20, 30]), np.array([[0], [7], [8]])
    ndgather.gather_nd(data, indices, mode="fill", fill_value=fill_value, out=out)
    np.testing.assert_array_equal(out, [10, 99, 99], strict=True)


@pytest.mark.parametrize("mebibytes", [1, 1.5, 1.9, 2, 3, 9])
def test_memory_of_a_freed_large_result_is_reused(mebibytes):
    data, indices = np.zeros(1, np.uint8), np.zeros((int(mebibytes * 2**20), 1), np.int8)
    ndgather.release_memory()
    addresses = {ndgather.gather_nd(data, indices).ctypes.data for _ in range(5)}
    assert len(addresses) == 1


def test_result_above_the_limit_keeps_pooled_memory():
    data = np.zeros(1, np.uint8)
    before = ndgather.get_memory_limit()
    try:
        ndgather.set_memory_limit(16 << 20)
        ndgather.release_memory()
        ndgather.gather_nd(data, np.zeros((5 << 20, 1), np.int8))
        ndgather.gather_nd(data, np.zeros((40 << 20, 1), np.int8))
        assert 5 << 20 <= ndgather.release_memory() < 16 << 20
    finally:
        ndgather.set_memory_limit(before)


@pytest.mark.races
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without the GIL, NumPy itself crashes where an array is given another shape",
)
@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_data_reshaped_during_scatters_is_consistent_or_refused():
    data = np.arange(60_000.0).reshape(300, 200)
    out = np.empty((300, 200))
    indices = np.zeros((200_000, 1), np.int64)
    updates = np.broadcast_to(np.float64(1), (200_000, 200))
    stop = threading.Event()

    def reshape():
        while not stop.is_set():
            data.shape = (200, 300)
            data.shape = (300, 200)

    thread = threading.Thread(target=reshape)
    thread.start()
    try:
        for _ in range(20):
            try:
                result = ndgather.scatter_nd(data, indices, updates, out=out)
            except ValueError:
                continue
            np.testing.assert_array_equal(result[1:], np.arange(60_000.0).reshape(300, 200)[1:])
    finally:
        stop.set()
        thread.join()


CHILDREN = {
    "daemon threads are in a call when the interpreter ends": """
        import threading, time
        import numpy as np, ndgather
        data, indices = np.zeros(1 << 20), np.zeros((1 << 18, 1), np.int64)
        def work():
            while True:
                ndgather.gather_nd(data, indices)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
    """,
    "daemon threads are in calls of every kind when the interpreter ends": """
        import threading, time
        import numpy as np, ndgather
        ndgather.set_num_threads(2)
        data, places = np.zeros((300, 400)), np.zeros((400, 400), np.int64)
        bad, things = places + 999, np.array([object() for _ in range(999)])
        out = data.copy()
        def work(call, *inputs, **options):
            while True:
                try:
                    call(*inputs, **options)
                except IndexError:
                    pass
        for call, inputs, options in (
            (ndgather.gather_elements, (data, places), {}),
            (ndgather.gather_elements, (data, bad), {}),
            (ndgather.gather, (data, bad), {"mode": "fill"}),
            (ndgather.scatter_elements, (data, places, data[:1].repeat(400, 0)), {}),
            (ndgather.scatter_nd, (data, places[:, :1], data[:1].repeat(400, 0)), {"out": out}),
            (ndgather.gather, (things, np.arange(999)), {}),
            (ndgather.scatter_nd, (things, [[0]], things[:1]), {"out": things.copy()}),
        ):
            arguments = {"target": work, "args": (call, *inputs), "kwargs": options}
            threading.Thread(**arguments, daemon=True).start()
        time.sleep(0.5)
    """,
    "calls are made while the interpreter ends": """
        import atexit
        import numpy as np, ndgather
        indices = np.arange(1 << 18)[::-1]
        class Last:
            inputs = indices, ndgather.gather, ndgather.scatter_elements
            def __del__(self):
                indices, gather, scatter = self.inputs
                assert gather(indices, indices)[5] == 5
                assert scatter(indices, indices, indices)[5] == 5
        keep = Last()
        keep.itself = keep
        atexit.register(Last().__del__)
    """,
    "functions of a first import live on beside a second": """
        import sys
        import ndgather
        first = ndgather.gather_nd
        for name in [name for name in sys.modules if name.startswith("ndgather")]:
            del sys.modules[name]
        import ndgather
        assert ndgather.gather_nd is not first
        assert first([1, 2], [[1]]).tolist() == ndgather.gather_nd([1, 2], [[1]]).tolist() == [2]
    """,
}


@pytest.mark.parametrize("name", CHILDREN)
def test_in_a_separate_process(name):
    lines = [line.removeprefix(" " * 8) for line in CHILDREN[name].splitlines()]
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, timeout=60, check=False
    )
    assert (child.returncode, child.stderr) == (0, b"")
