"""netCDF: packed and missing values never become numbers silently."""

import logging

import h5py
import numpy as np
import pytest

import ndgather
from ndgather.errors import DTypeError


def test_netcdf4_variables_are_refused_with_a_hint(tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 4)
        variable = file.createVariable("t", "i2", ("x",), fill_value=-99)
        variable.scale_factor = 0.5
        variable[:] = np.ma.masked_array([1.0, 2, 3, 4], [False, True, False, False])
        for call, name in (
            (lambda: ndgather.gather_nd(variable, [[0], [1]]), "data"),
            (lambda: ndgather.scatter_nd(variable, [[0]], [1.0]), "data"),
            (lambda: ndgather.cached(variable), "array"),
        ):
            with pytest.raises(DTypeError) as refused:
                call()
            text = str(refused.value)
            assert f"{name} = Variable object is from netCDF4, and its missing values would" in text
            assert f"allowed: {name}[...], a masked array" in text
            assert "xarray.open_dataset(path)[name]" in text
        picked = ndgather.gather_nd(variable[...], [[0], [1]])
        assert picked.mask.tolist() == [False, True]


def test_packed_values_of_h5py_are_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="ndgather")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("t", data=np.arange(4, dtype="i2"))
        ndgather.gather_nd(stored, [[3]])
        assert not any("stored; " in record.getMessage() for record in caplog.records)
        stored.attrs["scale_factor"] = 0.5
        stored.attrs["_FillValue"] = np.int16(-99)
        assert ndgather.gather_nd(stored, [[3]]).tolist() == [3]
    assert "gather_nd: values of /t are not decoded; xarray.open_dataset applies " in (
        text := "\n".join(record.getMessage() for record in caplog.records)
    )
    assert "scale_factor, _FillValue" in text
