"""GeoTIFF files as data sets: values that are read in tiles, and where their pixels lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends.zarr import ZarrArrayWrapper
from xarray.core import indexing

from ndgather.errors import FileError
from ndgather.stored import open_path

_DIMS = {"Y": "y", "X": "x", "S": "band"}  # by the letters of tifffile
_PIXEL_IS_POINT = 2  # GeoTIFF 1.1, requirement 12.2


def dataset(place: str) -> xarray.Dataset:
    """Return the values of a GeoTIFF with the centres of its pixels as x and y, where they lie."""
    array = open_path.opened(place)
    from tifffile import TiffFile  # noqa: PLC0415 - an extra, which `opened` looked for

    with TiffFile(place) as file:
        series, page = file.series[0], file.pages.first
        geo: Any = page.geotiff_tags or {}
        attrs = {"_FillValue": page.nodata} if "GDAL_NODATA" in page.tags else {}
    dims = [_DIMS.get(axis, axis.lower()) for axis in series.axes]
    coords = {}
    if "ModelTransformation" in geo:
        matrix = np.asarray(geo["ModelTransformation"], float)
        if matrix[0, 1] or matrix[1, 0]:
            raise FileError(f"{place}: is rotated (allowed: rows along x and columns along y)")
        scales, origin = (matrix[0, 0], matrix[1, 1]), (matrix[0, 3], matrix[1, 3])
    elif "ModelPixelScale" in geo:
        width, height, *_ = geo["ModelPixelScale"]
        column, row, _, x, y, *_ = geo["ModelTiepoint"]
        scales, origin = (width, -height), (x - column * width, y + row * height)
    else:
        raise FileError(f"{place}: has no place on a map (allowed: a GeoTIFF with a transform)")
    centre = 0.0 if geo.get("GTRasterTypeGeoKey") == _PIXEL_IS_POINT else 0.5
    for dim, scale, first in zip(("x", "y"), scales, origin, strict=True):
        size = array.shape[dims.index(dim)]
        coords[dim] = first + scale * (np.arange(size) + centre)
    lazy = indexing.LazilyIndexedArray(ZarrArrayWrapper(array))  # type: ignore[no-untyped-call]
    name = Path(place).stem
    return xarray.decode_cf(xarray.Dataset({name: xarray.Variable(dims, lazy, attrs)}, coords))
