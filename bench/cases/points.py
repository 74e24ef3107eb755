"""Single elements at given places, from tables in the first-level cache to grids in memory."""

from __future__ import annotations

from functools import partial

from bench.case import Case

points = partial(Case, group="points", operator="gather_nd")
gather = partial(Case, group="points", operator="gather")

POINTS = (
    points("points-L1", "lookup table of a colour map or a quantiser", (64, 64), (1 << 18, 2)),
    points("points-L2", "two-dimensional table of a physics code", (360, 360), (1 << 18, 2)),
    points("points-L3", "sampling one greyscale photograph", (1500, 1500), (1 << 20, 2)),
    points("points-64MB", "stations in one global elevation grid", (4096, 4096), (1 << 20, 2)),
    points(
        "points-1GB", "stations in a grid far larger than any cache", (16384, 16384), (1 << 20, 2)
    ),
    points(
        "points-64MB-dense",
        "sixteen million lookups, one per place: resampling a whole grid",
        (4096, 4096),
        (1 << 24, 2),
        index_dtype="int32",
    ),
    points(
        "points-sorted",
        "the same stations, sorted by place beforehand",
        (4096, 4096),
        (1 << 20, 2),
        pattern="sorted",
    ),
    points(
        "points-repeated",
        "a few popular places asked for over and over",
        (4096, 4096),
        (1 << 20, 2),
        pattern="repeated",
    ),
    points(
        "points-argwhere",
        "the cells that numpy.argwhere lists, whose memory runs along each column",
        (1024, 1024),
        (1 << 19, 2),
        pattern="sorted",
        index_layout="transposed",
    ),
    points(
        "points-depth3", "voxels of a medical volume of odd size", (255, 257, 255), (1 << 20, 3)
    ),
    points(
        "points-depth4",
        "cells of a run x time x lat x lon ensemble",
        (10, 24, 181, 360),
        (1 << 19, 4),
    ),
    points(
        "points-depth5",
        "entries of a five-dimensional property table",
        (24, 25, 26, 27, 28),
        (1 << 19, 5),
        dtype="float64",
    ),
    points(
        "points-uint8",
        "labels of pixels in a large segmentation mask",
        (8192, 8192),
        (1 << 20, 2),
        dtype="uint8",
    ),
    points(
        "points-complex128",
        "samples of a k-space grid, 16 bytes each",
        (2048, 2048),
        (1 << 19, 2),
        dtype="complex128",
    ),
    points(
        "points-out",
        "the same stations every time step, into one buffer",
        (4096, 4096),
        (1 << 20, 2),
        output="given",
    ),
    points(
        "points-transposed",
        "lookups in an array from Fortran or MATLAB",
        (4096, 4096),
        (1 << 20, 2),
        layout="transposed",
    ),
    points(
        "points-batch3",
        "one sampled pixel column per camera, frame and row",
        (16, 16, 64, 1024),
        (16, 16, 64, 64, 1),
        batch_dims=3,
    ),
    gather(
        "bootstrap-draws",
        "six million bootstrap draws from a million measurements",
        (1_000_000,),
        (6_000_000,),
        dtype="float64",
    ),
    points(
        "points-clip",
        "pixels near the border of a photograph: coordinates outside it are clipped",
        (1500, 1500),
        (1 << 20, 2),
        mode="clip",
    ),
    points(
        "country-codes",
        "the three letters of the country of each of a million records",
        (250,),
        (1 << 20, 1),
        dtype="U3",
        index_dtype="int32",
    ),
)
