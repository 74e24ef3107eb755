"""GeoTIFF files as datasets.

rasterio reads the georeference and the mask of a file. If the file has no mask, no palette, no
lossy compression and no omitted tiles, tifffile decodes the tiles, twice as fast as rasterio.
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from ndgather import messages
from ndgather.array_call import Array
from ndgather.arrays.xarray.arrays import missing_value
from ndgather.arrays.xarray.selection import TRANSFORM
from ndgather.dtypes import hold_one
from ndgather.errors import FileError

_EXACT = ("NONE", "LZW", "DEFLATE", "ADOBE_DEFLATE", "ZSTD", "PACKBITS", "LZMA")  # lossless
_PLAIN = ("MINISBLACK", "RGB")
SUFFIXES = (".tif", ".tiff")
_UNITS = {  # the standard name of projected axes, and the units and name of axes in degrees
    "x": ("projection_x_coordinate", "degrees_east", "longitude"),
    "y": ("projection_y_coordinate", "degrees_north", "latitude"),
}


def opened(place: str) -> xarray.Dataset:
    """Open a GeoTIFF as a dataset whose coordinates x and y are the pixel centers."""
    try:
        import rasterio  # noqa: PLC0415 - an extra
        from rasterio.enums import MaskFlags  # noqa: PLC0415
    except ImportError as error:
        raise messages.extra_missing(error.name or "rasterio", "geotiff") from None
    ignored = rasterio.errors.NotGeoreferencedWarning
    with warnings.catch_warnings(action="ignore", category=ignored):
        file = rasterio.open(place)
    transform = file.transform
    if transform.is_identity:
        raise FileError(f"{place}: has no georeference (allowed: a GeoTIFF with a transform)")
    if transform.b or transform.d:
        raise FileError(f"{place}: is rotated (allowed: rows along x and columns along y)")
    for what in ("dtypes", "nodatavals", "scales", "offsets"):
        if len({*map(str, getattr(file, what))}) > 1:
            raise FileError(
                f"{place}: the bands have different {what} (allowed: the same {what} for all bands)"
            )
    flags = {flag for of_band in file.mask_flag_enums for flag in of_band}
    masked = not flags <= {MaskFlags.all_valid, MaskFlags.nodata}
    # xarray would convert 64-bit integers with missing values to floats.
    wide = file.nodata is not None and file.dtypes[0] in ("int64", "uint64")
    tiles = None if masked or wide else _tiles(place, file)
    attrs: dict[str, Any] = {}
    if tiles is None:
        array: Any = _Pixels(file, masked=flags != {MaskFlags.all_valid})
        dims = ["band", "y", "x"][-len(array.shape) :]
        chunks = (1,) * (len(array.shape) - 2) + file.block_shapes[0]
    else:
        stored, dims = tiles
        array = _Tiles(stored)
        chunks = stored.chunks
        nodata = None if file.nodata is None else hold_one(file.nodata, array.dtype)
        # If the dtype cannot represent the nodata value, every pixel has a value.
        attrs = {} if nodata is None else {"_FillValue": nodata[()]}
    if (file.scales[0], file.offsets[0]) != (1, 0):
        attrs |= {"scale_factor": file.scales[0], "add_offset": file.offsets[0]}
    lazy = LazilyIndexedArray(array)
    coords = {
        "x": transform.c + transform.a * (np.arange(file.width) + 0.5),
        "y": transform.f + transform.e * (np.arange(file.height) + 0.5),
    }
    if "band" in dims:
        coords["band"] = np.array(file.indexes)
    name = Path(place).stem
    name = f"{name}_value" if name in coords else name
    variable = xarray.Variable(dims, lazy, attrs, {"chunksizes": chunks})
    data = xarray.decode_cf(xarray.Dataset({name: variable}, coords))
    data.encoding[TRANSFORM] = transform
    if file.crs is not None:
        data.encoding["crs"] = file.crs.to_string()
        for axis, (length, angle, at) in _UNITS.items():
            if file.crs.is_projected:
                data[axis].attrs.update(units=file.crs.linear_units, standard_name=length)
            elif file.crs.is_geographic:
                data[axis].attrs.update(units=angle, standard_name=at)
    data.set_close(file.close)
    return data


def centers(data: xarray.Dataset, name: str, labels: Array, period: Any = None) -> Array:
    """Return the centers of the pixels that contain labels, or NaN outside of the raster.

    A pixel contains the edges it shares with the previous row and column, as in
    ``rasterio.sample``.
    """
    transform = data.encoding[TRANSFORM]
    from rasterio.transform import rowcol  # noqa: PLC0415 - an extra

    if period is not None:
        size = data.sizes[name]
        edges = (transform.c, transform.a) if name == "x" else (transform.f, transform.e)
        low, high = sorted((edges[0], edges[0] + size * edges[1]))
        turned = low + (labels - low) % period
        labels = np.where((labels < low) | (labels >= high), turned, labels)
    other = np.full(labels.shape, data["y" if name == "x" else "x"].values[0])
    rows, columns = rowcol(
        transform, *((labels, other) if name == "x" else (other, labels)), op=np.floor
    )
    position, axis = columns if name == "x" else rows, data[name].values
    with np.errstate(invalid="ignore"):
        inside = (position >= 0) & (position < len(axis))
    return np.where(inside, axis[np.where(inside, position, 0).astype(np.intp)], np.nan)


class _Tiles(BackendArray):
    """The values of a file that tifffile reads through a zarr array."""

    def __init__(self, stored: Any) -> None:
        self._stored = stored
        self.shape, self.dtype = stored.shape, stored.dtype

    def get_array(self) -> Any:
        return self._stored

    def __getitem__(self, key: Any) -> Any:
        outer = IndexingSupport.OUTER
        return explicit_indexing_adapter(key, self.shape, outer, lambda k: self._stored.oindex[k])


class _Pixels(BackendArray):
    """The values of a file that rasterio reads; masked pixels are NaN."""

    def __init__(self, file: Any, *, masked: bool) -> None:
        self._file, self._lock = file, threading.Lock()
        self._masked = masked
        bands = (file.count,) if file.count > 1 else ()
        self.shape = (*bands, file.height, file.width)
        dtype = np.dtype(file.dtypes[0])
        self.dtype = missing_value(dtype)[0] if masked else dtype

    def __getitem__(self, key: Any) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Array:
        taken = [np.arange(size)[entry] for entry, size in zip(key, self.shape, strict=True)]
        lines = [np.atleast_1d(each) for each in taken]
        shape = tuple(size for each in taken for size in each.shape)
        if not all(each.size for each in lines):
            return np.empty(shape, self.dtype)
        *bands, rows, columns = lines
        window = tuple((int(each.min()), int(each.max()) + 1) for each in (rows, columns))
        indexes = [int(band) + 1 for band in bands[0]] if bands else [1]
        with self._lock:
            values = self._file.read(indexes, window=window, masked=self._masked)
        values = values[np.ix_(range(len(indexes)), rows - rows.min(), columns - columns.min())]
        if self._masked:
            floats = values.astype(self.dtype)
            if values.dtype.kind in "iu" and (floats.astype(values.dtype) != values).any():
                raise ValueError(
                    f"{values.dtype} values with missing pixels cannot be converted to {self.dtype}"
                )
            values = np.ma.filled(floats, np.nan)
        return np.asarray(values, self.dtype).reshape(shape)


def _tiles(place: str, file: Any) -> tuple[Any, list[str]] | None:
    """Return a tifffile array and its dimensions, unless rasterio must read the file."""
    try:
        import tifffile  # noqa: PLC0415 - an extra
        import zarr  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    try:
        with tifffile.TiffFile(place) as tiff:
            page: Any = tiff.pages.first
            series = tiff.series[0]
            dims = [{"S": "band"}.get(axis, axis.lower()) for axis in series.axes]
            sizes = dict(zip(dims, series.shape, strict=True))
            plain = (
                page.photometric.name in _PLAIN
                and page.compression.name in _EXACT
                and page.dtype == np.dtype(file.dtypes[0])
                and page.bitspersample == page.dtype.itemsize * 8
                and 0 not in page.databytecounts
                and sizes
                == {"y": file.height, "x": file.width}
                | ({"band": file.count} if file.count > 1 else {})
            )
        if not plain:
            return None
        logging.getLogger("tifffile").addHandler(logging.NullHandler())  # do not log to stderr
        store = tifffile.imread(place, aszarr=True, level=0, maxworkers=1)  # called in threads
        array = zarr.open_array(store, mode="r")
        weakref.finalize(array, store.close)
        return array, dims
    except Exception:  # rasterio reads the file or raises an error
        return None
