"""Log messages of calls on stored arrays."""

import logging

import numpy as np
import zarr

import ndgather


def test_calls_log_the_number_of_chunks(caplog, tmp_path):
    caplog.set_level(logging.INFO, logger="ndgather")
    z = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 4), dtype="i4")
    z[...] = np.arange(64).reshape(8, 8)

    ndgather.gather_nd(z, [[0, 0], [7, 7], [1, 1]])
    ndgather.scatter_nd(z, [[0, 0]], np.array([5], "i4"), out=z)

    gathered, scattered = (each.getMessage() for each in caplog.records)
    assert gathered.startswith("gather_nd: 2 chunks of ")
    assert gathered.endswith(" read")
    assert scattered.startswith("scatter_nd: 1 chunk of ")
    assert scattered.endswith(" replaced")
