"""The tests that xarray has of its backends, with its data sets opened by the engine.

``make test-xarray`` runs them: what xarray skips is skipped, and all others have to pass.
"""

import contextlib

import xarray as xr
from xarray.tests import conftest
from xarray.tests import test_backends as suite

from ndgather.arrays.xarray.engine import Engine

default_zarr_format = suite.default_zarr_format
time_unit, use_dask = conftest.time_unit, conftest.use_dask


class ByEngine:
    """Open what a class of tests has written by the engine."""

    options = {}  # noqa: RUF012

    @contextlib.contextmanager
    def open(self, path, **options):
        with xr.open_dataset(path, engine=Engine, **self.options, **options) as data:
            yield data


class TestNetcdf(ByEngine, suite.TestH5NetCDFData):
    pass


class TestZarrInMemory(ByEngine, suite.TestZarrDictStore):
    options = {"mode": "r"}  # noqa: RUF012


class TestZarrInAFolder(ByEngine, suite.TestZarrDirectoryStore):
    options = {"mode": "r"}  # noqa: RUF012
