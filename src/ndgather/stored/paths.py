"""Stored arrays by the name of a place, as the command line takes it: a path or a URL."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ndgather.errors import NdgatherError, place_errors, run_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4")
ZARR_SUFFIX = ".zarr"
_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
_PLAIN_HTTP = {"allow_http": True}


def is_stored(place: str) -> bool:
    """Whether `place` names an array in a store: a URL, or something in zarr or HDF5."""
    return "://" in place or _hdf5_file(place) is not None or _is_zarr(place)


Mode = Literal["r", "r+"]


def opened(place: str, mode: Mode = "r") -> Any:
    """Open the array that `place` names, to be read, or with ``"r+"`` to be changed too.

    Parameters
    ----------
    place : str
        ``STORE.zarr/ARRAY`` (a path), ``s3://BUCKET/STORE.zarr/ARRAY``, ``https://...`` or
        another URL that obstore or fsspec takes, or ``FILE.h5/ARRAY``. Credentials and regions
        are those that obstore or fsspec find in the environment.

    Returns
    -------
    zarr.Array or h5py.Dataset
        As its package opens it.

    Raises
    ------
    FileError
        There is no array.
    ExtraMissingError
        The package that reads it is not installed.
    """
    file = None if "://" in place else _hdf5_file(place)
    try:
        return _zarr_array(place, mode) if file is None else _hdf5_array(place, file, mode)
    except (NdgatherError, MemoryError):
        raise
    except Exception as error:  # whatever a store raises that is not there or not allowed
        raise place_errors.unreadable(place, error) from error


@contextmanager
def in_place(place: str) -> Iterator[Any]:
    """Give the array that `place` names, to be changed where it is; see `opened`."""
    array = opened(place, "r+")
    try:
        yield array
    finally:
        if hasattr(array, "file"):  # of HDF5, whose file is complete once it is closed
            array.file.close()


def _is_zarr(place: str) -> bool:
    """Whether a folder on the way to `place` is one of zarr, or is called so."""
    path = Path(place)
    folders = [each for each in (path, *path.parents) if each.name not in ("", "..")]
    return any(
        each.suffix == ZARR_SUFFIX or any((each / name).is_file() for name in _ZARR_FILES)
        for each in folders
    )


def _hdf5_file(place: str) -> Path | None:
    """Return the file of HDF5 on the way to `place`: the first name with such an ending."""
    parts = Path(place).parts
    for count, name in enumerate(parts, 1):
        file = Path(*parts[:count])
        if Path(name).suffix.lower() in HDF5_SUFFIXES and not file.is_dir():
            return file
    return None


def _zarr_array(place: str, mode: Mode) -> Any:
    try:
        import zarr  # noqa: PLC0415 - an extra
    except ImportError:
        raise run_errors.extra_missing("zarr", "zarr") from None
    try:
        found = zarr.open(store_of(place, mode), mode=mode)
    except FileNotFoundError as error:  # zarr's own errors of this kind are such too
        raise place_errors.no_array(place) from error
    if isinstance(found, zarr.Group):
        raise place_errors.group(place, [name for name, _ in found.arrays()])
    return found


def store_of(place: str, mode: Mode = "r") -> Any:
    """Return what zarr opens: a path, a URL for fsspec, or the store of obstore where it can."""
    if "://" not in place:
        return place
    with suppress(ImportError):
        from obstore import store as stores  # noqa: PLC0415 - an optional package
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from zarr.storage import ObjectStore  # noqa: PLC0415 - an extra

        plain = place.startswith("http://")
        options: dict[str, Any] = {"client_options": _PLAIN_HTTP} if plain else {}
        with suppress(BaseError, ValueError):  # a scheme that obstore does not know
            return ObjectStore(stores.from_url(place, **options), read_only=mode == "r")
    return place


def _hdf5_array(place: str, file: Path, mode: Mode) -> Any:
    try:
        import h5py  # noqa: PLC0415 - an extra
    except ImportError:
        raise run_errors.extra_missing("h5py", "hdf5") from None
    if not file.is_file():
        raise FileNotFoundError(2, os.strerror(2))
    name = os.path.relpath(place, file)
    opened = h5py.File(file, mode)
    found = opened.get("/" if name == "." else name)
    if isinstance(found, h5py.Dataset):
        return found
    if found is None:
        raise place_errors.no_array(place)
    arrays: list[str] = []

    def note(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays.append(name)

    found.visititems(note)
    raise place_errors.group(place, arrays)
