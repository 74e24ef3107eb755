"""Stores and TIFF files opened by a path or a URL."""

from __future__ import annotations

import logging
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ndgather.errors import FileError
from ndgather.messages import reason

TIFF_SUFFIXES = (".tif", ".tiff")
ZARR_SUFFIX = ".zarr"
_S3_OPTIONS = {  # of fsspec, and of obstore
    "anon": "skip_signature",
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
}


def is_tiff(place: str) -> bool:
    return "://" not in place and Path(place).suffix.lower() in TIFF_SUFFIXES


def unreadable(place: str, error: Exception) -> FileError:
    """Return the error of a place that cannot be opened."""
    why = reason(error).partition(" Debug source:")[0]  # of obstore, with its structs
    if "PROPFIND" in why:  # how obstore lists the files of a folder
        why = (
            "the server does not list its files, and the metadata of the group is not in one file "
            "(allowed: a group after zarr.consolidate_metadata(store))"
        )
    elif type(error).__name__ == "ContainsArrayError":  # of zarr, which is an extra
        why = "an array has no coordinates (allowed: the group that it is in)"
    return FileError(f"{place}: cannot be read: {why}")


def store_of(place: str, storage_options: Any = None) -> Any:
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
            return ObjectStore(stores.from_url(place, **options), read_only=True)
    return place


def open_tiff(place: str) -> Any:
    """Open the pixels of a TIFF file as an array of zarr."""
    import tifffile  # noqa: PLC0415 - an extra
    import zarr  # noqa: PLC0415 - an extra

    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it writes to standard error
    store = tifffile.imread(place, aszarr=True, level=0, maxworkers=1)  # threads are ours
    array = zarr.open_array(store, mode="r")
    weakref.finalize(array, store.close)
    return array
