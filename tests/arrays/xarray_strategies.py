"""Hypothesis strategies for data sets and indexers."""

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from tools import versions

SIZES = {"time": 3, "lat": 5, "lon": 4}
# xarray 2025.11 itself fails if nothing is read from a file.
LEAST = int(versions.order(xr.__version__) < [2026])


def dataset(descending=False):
    """Return variables of several types and ranks, with distinct values."""
    lat = np.array([-60.0, -30.0, 0.0, 31.0, 60.0])
    coords = {
        "time": ("time", np.array(["2001-01-01", "2001-01-02", "2001-01-05"], "M8[ns]")),
        "lat": ("lat", lat[::-1].copy() if descending else lat, {"units": "degrees_north"}),
        "lon": ("lon", np.array([0.0, 90.0, 180.0, 270.0], np.float32)),
        "height": (("lat", "lon"), np.arange(20.0).reshape(5, 4)),
        "month": ("time", ["Jan", "Jan", "Feb"]),
        "run": 7,
    }
    tall = np.arange(60.0).reshape(3, 5, 4)
    variables = {
        "t2m": (("time", "lat", "lon"), tall, {"units": "K"}),
        "mask": (("lat", "lon"), np.arange(20).reshape(5, 4) % 3 == 0),
        "level": (("lon", "time"), np.arange(12, dtype=np.int16).reshape(4, 3)),
        "name": (("lat",), np.array(list("abcde"))),
        "seen": (("time",), np.array([1, 2, 3], "m8[ns]")),
        "count": ((), 5),
        "object": (("lat",), np.array([None, "x", 1, 2.5, ()], object)),
    }
    return xr.Dataset(variables, coords, {"title": "test"})


@st.composite
def isel_indexers(draw, sizes=None, places=lambda size: st.integers(-size, size - 1)):
    """Draw `isel` indexers for some dimensions; the keys `p` and `q` are dimensions of points."""
    sizes = sizes or SIZES
    names = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, unique=True))
    shape = {"p": draw(st.integers(LEAST, 4)), "q": draw(st.integers(1, 3))}
    station = xr.Variable("p", [f"s{i}" for i in range(shape["p"])])
    indexers = {}
    for name in names:
        place = places(sizes[name])

        def array(*dims, place=place):
            count = int(np.prod([shape[each] for each in dims]))
            numbers = draw(st.lists(place, min_size=count, max_size=count))
            return np.array(numbers, np.int64).reshape([shape[each] for each in dims])

        kind = draw(st.sampled_from(["points"] * 4 + ["grid", "scalar", "slice", "list", "coords"]))
        if kind == "points":
            indexers[name] = xr.DataArray(array("p"), dims="p")
        elif kind == "grid":
            dims = draw(st.sampled_from([("p", "q"), ("q", "p"), ("q",)]))
            indexers[name] = xr.DataArray(array(*dims), dims=dims)
        elif kind == "coords":
            indexers[name] = xr.DataArray(array("p"), dims="p", coords={"station": station})
        elif kind == "scalar":
            indexers[name] = draw(place)
        elif kind == "list":
            indexers[name] = draw(st.lists(place, min_size=LEAST, max_size=4))
        else:
            low, high = draw(place), draw(place)
            indexers[name] = slice(low, high, draw(st.sampled_from([None, 1, 2])))
    return indexers
