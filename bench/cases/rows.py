"""Rows and longer slices at given places."""

from __future__ import annotations

from functools import partial

from bench.case import Case

rows = partial(Case, group="rows", operator="gather_nd")

ROWS = (
    rows(
        "rows-12B",
        "points (x, y, z) of a cloud by neighbour list: rows of an odd width",
        (5_000_000, 3),
        (1 << 20, 1),
    ),
    rows("rows-16B", "vertices (x, y, z, w) of a mesh by face", (1 << 22, 4), (1 << 20, 1)),
    rows(
        "rows-64B",
        "one cache line each: hashed features of a recommender",
        (1 << 20, 16),
        (1 << 19, 1),
    ),
    rows(
        "rows-1KB",
        "embedding rows in a training step, each batch a new array",
        (1 << 18, 256),
        (1 << 16, 1),
    ),
    rows(
        "rows-1KB-out",
        "the same rows into one reused batch buffer",
        (1 << 18, 256),
        (1 << 16, 1),
        output="given",
    ),
    rows(
        "rows-1KB-cached",
        "rows of a small vocabulary that stays in the cache",
        (512, 256),
        (2048, 1),
    ),
    rows(
        "rows-4000B",
        "sound clips of 1000 samples drawn from an archive for a training batch",
        (60_000, 1000),
        (15_000, 1),
    ),
    rows("rows-64KB", "whole sample records from a data set in memory", (4096, 16384), (1024, 1)),
    rows(
        "rows-every-second",
        "every second frame of a recording, then chosen frames of those",
        (1 << 17, 128),
        (1 << 16, 1),
        layout="every second row",
    ),
    rows(
        "rows-transposed",
        "chosen columns of a table that is stored by rows",
        (4096, 1024),
        (2048, 1),
        layout="transposed",
    ),
    rows(
        "rows-batch1",
        "sampled frames of each video of a batch",
        (32, 4096, 128),
        (32, 1024, 1),
        batch_dims=1,
    ),
    rows(
        "rows-batch2",
        "chosen keys of each head of each sequence",
        (8, 16, 2048, 64),
        (8, 16, 512, 1),
        batch_dims=2,
    ),
    rows(
        "image-warp",
        "the four neighbours of every pixel of a turned 1280 x 720 RGB image",
        (720, 1280, 3),
        (4, 720, 1280, 2),
        dtype="uint8",
        index_dtype="int32",
        pattern="warped",
    ),
    rows(
        "station-series",
        "whole series of 2000 stations from a lat x lon x time cube",
        (181, 360, 1460),
        (2000, 2),
        index_dtype="int32",
    ),
)
