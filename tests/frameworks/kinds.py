"""Every kind of array that is taken: how one is made, and what has to come along in a result."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import array_api_strict
import astropy.units
import dask.array
import h5py
import jax
import jax.numpy as jnp
import mlx.core as mx
import ndonnx
import numpy as np
import pandas as pd
import pint
import polars as pl
import pyarrow as pa
import scipy.sparse
import sparse
import tensorflow as tf
import torch
import xarray as xr
import zarr

import ndgather

REGISTRY = pint.UnitRegistry()
TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
MIXED = {"a": [1, 2], "b": ["c", "d"]}
TAKEN_TWICE_OR_NOT = [[1, 1], [1, 1], [0, 0]]  # the gradient of a sum of what `taken` takes


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of array: how one is made of a NumPy array and read, and what it keeps."""

    name: str
    make: Callable[[np.ndarray], Any]
    read: Callable[[Any], Any] = np.asarray
    updates: Callable[[np.ndarray], Any] = np.asarray
    axes: int = 2
    in_place: bool = False
    keeps: tuple[tuple[str, Callable[[Any], bool]], ...] = ()

    @property
    def data(self) -> Any:
        return self.make(TABLE if self.axes == 2 else TABLE[:, 0].copy())


def taken(data):
    return ndgather.gather(data, [1, 0])


def filled(data):
    return ndgather.gather(data, [1, 9], mode="fill")


def gradient_of_torch(data):
    given = data.clone().requires_grad_()
    taken(given).sum().backward()
    return given.grad.tolist() == TAKEN_TWICE_OR_NOT


def gradient_of_jax(data):
    gradient = jax.grad(lambda given: taken(given).sum())(data)
    return gradient.tolist() == TAKEN_TWICE_OR_NOT


def gradient_of_tensorflow(data):
    variable = tf.Variable(data)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(taken(variable))
    gradient = tf.convert_to_tensor(tape.gradient(total, variable))
    return gradient.numpy().tolist() == TAKEN_TWICE_OR_NOT


def in_metres(quantity):
    return str(getattr(quantity, "units", getattr(quantity, "unit", None))) in ("m", "meter")


def converted(kilometres):
    def is_converted(data):
        updates = kilometres(np.array([[1.0, 2.0]]))
        result = ndgather.scatter_nd(data, [[0]], updates)
        values = result.magnitude if isinstance(result, pint.Quantity) else result.value
        return values[0].tolist() == [1000, 2000]

    return is_converted


def with_nulls(make, is_null):
    """Return that nulls stay, and that what is filled is one."""
    return (
        ("nulls", lambda _: list(is_null(taken(make([1.0, None, 3.0])))) == [True, False]),
        ("null where filled", lambda _: list(is_null(filled(make([1.0, 2.0])))) == [False, True]),
    )


def labelled(values):
    labels = pd.Index(["x", "y", "z"][: len(values)])
    return pd.Series(values, labels) if values.ndim == 1 else pd.DataFrame(values, labels)


def chunked(values):
    return pa.chunked_array([pa.array(values)])


def table_of_arrow(values):
    return pa.table({"a": values[:, 0], "b": values[:, 1]})


def in_hdf5(values):
    file = h5py.File(BytesIO(), "w")
    return file.create_dataset("values", data=values, chunks=(2, 2))


def mapped(values):
    with tempfile.NamedTemporaryFile() as file:
        array = np.memmap(file, values.dtype, "w+", shape=values.shape)
    array[...] = values
    return array


def read_by(method, kind):
    """Return what reads arrays of a kind by a method, and leaves those of NumPy."""
    return lambda array: getattr(array, method)() if isinstance(array, kind) else array


DEVICE = ("device", lambda data: taken(data).device == data.device)
ROW_LABELS = ("labels of rows", lambda data: taken(data).index.tolist() == ["y", "x"])

KINDS = (
    Kind(name="NumPy array", make=np.array),
    Kind(name="nested list", make=np.ndarray.tolist),
    Kind(
        name="NumPy masked array",
        make=np.ma.array,
        keeps=(
            ("mask", lambda _: taken(np.ma.array([1, 2], mask=[1, 0])).mask.tolist() == [0, 1]),
            ("masked where filled", lambda data: filled(data).mask.tolist() == [[0, 0], [1, 1]]),
        ),
    ),
    Kind(
        name="other subclass of a NumPy array",
        make=lambda values: values.view(np.recarray),
        keeps=(("class, with its attributes", lambda data: type(taken(data)) is type(data)),),
    ),
    Kind(
        name="quantity of astropy",
        make=lambda values: values * astropy.units.m,
        read=lambda quantity: getattr(quantity, "value", quantity),
        updates=lambda values: values * astropy.units.m,
        keeps=(
            ("unit", lambda data: in_metres(taken(data))),
            ("updates are converted", converted(lambda values: values * astropy.units.km)),
        ),
    ),
    Kind(
        name="quantity of pint",
        make=lambda values: REGISTRY.Quantity(values, "m"),
        read=lambda quantity: getattr(quantity, "magnitude", quantity),
        updates=lambda values: REGISTRY.Quantity(values, "m"),
        keeps=(
            ("unit", lambda data: in_metres(taken(data))),
            ("updates are converted", converted(lambda values: REGISTRY.Quantity(values, "km"))),
        ),
    ),
    Kind(
        name="PyTorch tensor",
        make=torch.tensor,
        keeps=(DEVICE, ("gradient", gradient_of_torch)),
    ),
    Kind(
        name="JAX array",
        make=jnp.asarray,
        updates=jnp.asarray,
        keeps=(DEVICE, ("gradient", gradient_of_jax)),
    ),
    Kind(
        name="TensorFlow tensor",
        make=tf.constant,
        keeps=(DEVICE, ("gradient", gradient_of_tensorflow)),
    ),
    Kind(
        name="TensorFlow variable",
        make=tf.Variable,
        keeps=(DEVICE, ("gradient", gradient_of_tensorflow)),
    ),
    Kind(
        name="array-api-strict",
        make=array_api_strict.asarray,
        read=np.from_dlpack,
        keeps=(DEVICE,),
    ),
    Kind(name="MLX array", make=mx.array, updates=mx.array),
    Kind(
        name="ndonnx array",
        make=ndonnx.asarray,
        read=read_by("unwrap_numpy", ndonnx.Array),
        keeps=(
            (
                "values that are not known yet",
                lambda _: len(taken(ndonnx.argument(shape=(3,), dtype=ndonnx.int64)).shape) == 1,
            ),
        ),
    ),
    Kind(
        name="pandas Series",
        make=labelled,
        axes=1,
        keeps=(
            ROW_LABELS,
            ("type of elements", lambda _: taken(pd.Series(["a", "b"])).dtype == "str"),
        ),
    ),
    Kind(
        name="pandas DataFrame",
        make=labelled,
        keeps=(
            ROW_LABELS,
            (
                "types of columns",
                lambda _: [*taken(pd.DataFrame(MIXED)).dtypes] == ["int64", "str"],
            ),
        ),
    ),
    Kind(name="pandas Index", make=pd.Index, axes=1),
    Kind(
        name="polars Series",
        make=lambda values: pl.Series("n", values),
        axes=1,
        keeps=(
            ("name", lambda data: taken(data).name == "n"),
            *with_nulls(pl.Series, lambda column: column.is_null()),
        ),
    ),
    Kind(
        name="polars DataFrame",
        make=pl.DataFrame,
        keeps=(
            (
                "types of columns",
                lambda _: taken(pl.DataFrame(MIXED)).dtypes == [pl.Int64, pl.String],
            ),
        ),
    ),
    Kind(
        name="Arrow array",
        make=pa.array,
        axes=1,
        keeps=with_nulls(pa.array, lambda column: column.is_null().to_pylist()),
    ),
    Kind(
        name="Arrow chunked array",
        make=chunked,
        axes=1,
        keeps=with_nulls(chunked, lambda column: column.is_null().to_pylist()),
    ),
    Kind(name="Arrow table", make=table_of_arrow, read=read_by("to_pandas", pa.Table)),
    Kind(
        name="Arrow tensor",
        make=pa.Tensor.from_numpy,
        read=read_by("to_numpy", pa.Tensor),
    ),
    Kind(
        name="xarray DataArray",
        make=lambda values: xr.DataArray(values, dims=("x", "y"), coords={"y": [10, 20]}),
        keeps=(
            (
                "dimensions that are copied whole, with coordinates",
                lambda data: taken(data).y.values.tolist() == [10, 20],
            ),
        ),
    ),
    Kind(
        name="dask array",
        make=lambda values: dask.array.from_array(values, chunks=2),
        keeps=(("chunks: nothing is computed", lambda data: taken(data).chunks == ((2,), (2,))),),
    ),
    Kind(name="zarr array", make=lambda values: zarr.array(values, store={}), in_place=True),
    Kind(name="HDF5 data set", make=in_hdf5, in_place=True),
    Kind(name="memory map", make=mapped),
    Kind(
        name="sparse array of pydata",
        make=sparse.COO.from_numpy,
        read=read_by("todense", sparse.COO),
    ),
    Kind(
        name="sparse array of SciPy",
        make=scipy.sparse.csr_array,
        read=read_by("toarray", scipy.sparse.csr_array),
    ),
)
