"""xarray: ``.ndgather`` on DataArrays and Datasets, and DataArrays in the gather functions."""

import xarray

from ndgather.arrays.xarray.accessor import Accessor, run

__all__ = ["Accessor", "run"]

xarray.register_dataarray_accessor("ndgather")(Accessor)  # type: ignore[no-untyped-call]
xarray.register_dataset_accessor("ndgather")(Accessor)  # type: ignore[no-untyped-call]
