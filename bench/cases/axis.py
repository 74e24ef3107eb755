"""Whole slices along one axis."""

from __future__ import annotations

from functools import partial

from bench.case import Case

slices = partial(Case, group="axis", operator="gather")

AXIS = (
    slices("gather-middle", "chosen channels of a batch of images", (64, 256, 784), (128,), axis=1),
    slices("gather-last", "chosen columns of a table", (20_000, 500), (100,), axis=1),
    slices(
        "gather-columns",
        "three columns of a table of half a million rows",
        (500_000, 20),
        (3,),
        axis=1,
    ),
    slices(
        "gather-batch",
        "another choice of rows for every member of the batch",
        (64, 2048, 64),
        (64, 512),
        axis=1,
        batch_dims=1,
    ),
    slices(
        "real-parts",
        "the real parts of 4100 rows drawn out of 2000 complex ones",
        (2000, 48),
        (4100,),
        layout="every second column",
    ),
    slices(
        "days-of-sensors",
        "days drawn out of a year of 150 sensors, stored sensor by sensor",
        (365, 150),
        (360,),
        layout="transposed",
    ),
    slices(
        "token-embedding",
        "language model: 2048 tokens looked up in a 32000 x 4096 table",
        (32_000, 4096),
        (8, 256),
        dtype="float16",
    ),
    slices(
        "beam-reorder",
        "beam search: the key cache follows the surviving beams",
        (32, 16, 256, 64),
        (32,),
        dtype="float16",
    ),
    slices(
        "palette",
        "indexed image to RGB: a full HD frame through 256 colours",
        (256, 3),
        (1080, 1920),
        dtype="uint8",
        index_dtype="int32",
    ),
    slices(
        "graph-neighbours",
        "graph network: features of ten neighbours of 10k nodes",
        (200_000, 128),
        (10_000, 10),
    ),
    slices(
        "kv-pages",
        "paged attention: 2048 pages of a key-value cache into one block",
        (4096, 16, 1024),
        (32, 64),
        dtype="float16",
        index_dtype="int32",
        pattern="unique",
    ),
    slices(
        "ring-buffer",
        "windows of a ring buffer of frames: places past the end wrap around",
        (4096, 256),
        (64, 32),
        mode="wrap",
    ),
)
