"""Stored arrays opened by a path or a URL, as the command line and xarray take it."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ndgather import messages
from ndgather.errors import FileError
from ndgather.messages import listed, reason

Mode = Literal["r", "r+"]

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4")
TIFF_SUFFIXES = (".tif", ".tiff")
ZARR_SUFFIX = ".zarr"
_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
_MOST_NAMES = 20
_S3_OPTIONS = {  # of fsspec, and of obstore
    "anon": "skip_signature",
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
}


def is_stored(place: str) -> bool:
    """Whether `place` names an array in a store: a URL, or something in zarr, HDF5 or TIFF."""
    return "://" in place or is_tiff(place) or _hdf5_file(place) is not None or _is_zarr(place)


def is_tiff(place: str) -> bool:
    return "://" not in place and Path(place).suffix.lower() in TIFF_SUFFIXES


def opened(place: str, mode: Mode = "r") -> Any:
    """Open an array of zarr, HDF5 or TIFF, to read, or with ``"r+"`` also to write.

    `place` is ``STORE.zarr/ARRAY`` (a path), ``s3://BUCKET/STORE.zarr/ARRAY``, ``https://...`` or
    another URL that obstore or fsspec takes, ``FILE.h5/ARRAY`` or ``FILE.tif``. obstore or fsspec
    look up credentials and regions in the environment.
    """
    file = None if "://" in place else _hdf5_file(place)
    with messages.converted_errors(lambda error: unreadable(place, error)):
        if is_tiff(place):
            return _tiff_array(place, mode)
        return _zarr_array(place, mode) if file is None else _hdf5_array(place, file, mode)


def unreadable(place: str, error: Exception) -> FileError:
    """Return the error of a place that cannot be opened."""
    why = reason(error).partition(" Debug source:")[0]  # of obstore, with its structs
    if "PROPFIND" in why:  # how obstore lists the files of a folder
        why = (
            "the server does not list its files, and the metadata of the group is not in one file "
            "(allowed: a group after zarr.consolidate_metadata(store), or for the commands of "
            "arrays the path of one array)"
        )
    elif type(error).__name__ == "ContainsArrayError":  # of zarr, which is an extra
        why = "an array has no coordinates (allowed: the group that it is in)"
    return FileError(f"{place}: cannot be read: {why}")


@contextmanager
def in_place(place: str) -> Iterator[Any]:
    """Open an array to write; see `opened`."""
    array = opened(place, "r+")
    try:
        yield array
    finally:
        if hasattr(array, "file"):  # a file of HDF5 is complete once it is closed
            array.file.close()


def _is_zarr(place: str) -> bool:
    """Whether `place` or a folder above it is a store of zarr, or has its suffix."""
    path = Path(place)
    return any(
        folder.suffix == ZARR_SUFFIX or any((folder / name).is_file() for name in _ZARR_FILES)
        for folder in (path, *path.parents)
        if folder.name not in ("", "..")
    )


def _hdf5_file(place: str) -> Path | None:
    """Return the first part of `place` that has a suffix of HDF5 and is not a folder."""
    parts = Path(place).parts
    for count, name in enumerate(parts, 1):
        file = Path(*parts[:count])
        if Path(name).suffix.lower() in HDF5_SUFFIXES and not file.is_dir():
            return file
    return None


def _zarr_array(place: str, mode: Mode) -> Any:
    messages.need("zarr", "zarr")
    import zarr  # noqa: PLC0415 - an extra

    try:
        array = zarr.open(store_of(place, mode), mode=mode)
    except FileNotFoundError as error:  # zarr's errors are subclasses of it
        raise _holds_no_array(place) from error
    if isinstance(array, zarr.Group):
        raise _is_group(place, [name for name, _ in array.arrays()])
    return array


def store_of(place: str, mode: Mode = "r", storage_options: Any = None) -> Any:
    """Return the store for zarr: a path, a store of obstore, or a URL for fsspec.

    Options of fsspec are for fsspec, if it is not S3 with some that obstore has under other names.
    """
    given = dict(storage_options or {})
    given |= given.pop("client_kwargs", None) or {}
    is_known = not given or (place.startswith("s3://") and given.keys() <= _S3_OPTIONS.keys())
    if "://" not in place or not is_known:
        return place
    with suppress(ImportError):
        from obstore import store as stores  # noqa: PLC0415 - an optional package
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from zarr.storage import ObjectStore  # noqa: PLC0415 - an extra

        options: Any = {_S3_OPTIONS[name]: given[name] for name in given}
        if (options.get("endpoint") or place).startswith("http://"):
            options["client_options"] = {"allow_http": True}
        with suppress(BaseError, ValueError):  # a scheme that obstore does not know
            return ObjectStore(stores.from_url(place, **options), read_only=mode == "r")
    return place


def _hdf5_array(place: str, file: Path, mode: Mode) -> Any:
    messages.need("h5py", "hdf5")
    import h5py  # noqa: PLC0415 - an extra

    if not file.is_file():
        raise FileNotFoundError(2, os.strerror(2))
    name = os.path.relpath(place, file)
    item = h5py.File(file, mode).get("/" if name == "." else name)
    if isinstance(item, h5py.Dataset):
        return item
    if item is None:
        raise _holds_no_array(place)
    arrays: list[str] = []
    item.visititems(
        lambda name, item: arrays.append(name) if isinstance(item, h5py.Dataset) else None
    )
    raise _is_group(place, arrays)


def _tiff_array(place: str, mode: Mode) -> Any:
    try:
        import tifffile  # noqa: PLC0415 - an extra
        import zarr  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise messages.extra_missing(error.name or "tifffile", "geotiff") from None
    if mode != "r":
        raise FileError(f"{place}: cannot be written (allowed: to read)")
    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it writes to standard error
    store = tifffile.imread(place, aszarr=True, level=0, maxworkers=1)  # threads are ours
    array = zarr.open_array(store, mode="r")
    weakref.finalize(array, store.close)
    return array


def _holds_no_array(place: str) -> FileError:
    return FileError(f"{place}: cannot be read: there is no array")


def _is_group(place: str, arrays: list[str]) -> FileError:
    names = sorted(arrays)
    shown = listed(names[:_MOST_NAMES] + ["..."] * (len(names) > _MOST_NAMES))
    return FileError(f"{place}: is a group of arrays, name one as {place}/ARRAY (allowed: {shown})")
