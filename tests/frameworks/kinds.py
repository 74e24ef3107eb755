"""Every supported array type: how to create it, and what a result must keep."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import array_api_strict
import dask.array
import h5py
import jax
import jax.numpy as jnp
import mlx.core as mx
import ndonnx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
import sparse
import tensorflow as tf
import torch
import xarray as xr
import zarr

import ndgather

TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
TAKEN_TWICE_OR_NOT = [[1, 1], [1, 1], [0, 0]]  # the gradient of a sum of the gathered elements


@dataclass(frozen=True, kw_only=True)
class Kind:
    """An array type: how to create it from a NumPy array, how to read it, and what it keeps."""

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


def in_hdf5(values):
    file = h5py.File(BytesIO(), "w")
    return file.create_dataset("values", data=values, chunks=(2, 2))


def mapped(values):
    with tempfile.NamedTemporaryFile() as file:
        array = np.memmap(file, values.dtype, "w+", shape=values.shape)
    array[...] = values
    return array


def read_by(method, kind):
    """Return a function that reads arrays with a method, and returns NumPy arrays unchanged."""
    return lambda array: getattr(array, method)() if isinstance(array, kind) else array


DEVICE = ("device", lambda data: taken(data).device == data.device)

KINDS = (
    Kind(name="NumPy array", make=np.array),
    Kind(name="nested list", make=np.ndarray.tolist),
    Kind(
        name="NumPy masked array",
        make=np.ma.array,
        keeps=(
            ("mask", lambda _: taken(np.ma.array([1, 2], mask=[1, 0])).mask.tolist() == [0, 1]),
            ("filled elements masked", lambda data: filled(data).mask.tolist() == [[0, 0], [1, 1]]),
        ),
    ),
    Kind(
        name="other subclass of a NumPy array",
        make=lambda values: values.view(np.recarray),
        keeps=(("class and attributes", lambda data: type(taken(data)) is type(data)),),
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
                "unknown values",
                lambda _: len(taken(ndonnx.argument(shape=(3,), dtype=ndonnx.int64)).shape) == 1,
            ),
        ),
    ),
    Kind(name="pandas Series", make=pd.Series, axes=1),
    Kind(name="pandas DataFrame", make=pd.DataFrame),
    Kind(name="polars Series", make=pl.Series, axes=1),
    Kind(name="polars DataFrame", make=pl.DataFrame),
    Kind(name="Arrow array", make=pa.array, axes=1),
    Kind(
        name="xarray DataArray",
        make=lambda values: xr.DataArray(values, dims=("x", "y"), coords={"y": [10, 20]}),
        keeps=(
            (
                "dimensions and coordinates of slices",
                lambda data: taken(data).y.values.tolist() == [10, 20],
            ),
        ),
    ),
    Kind(
        name="dask array",
        make=lambda values: dask.array.from_array(values, chunks=2),
        keeps=(("chunks, nothing computed", lambda data: taken(data).chunks == ((2,), (2,))),),
    ),
    Kind(name="zarr array", make=lambda values: zarr.array(values, store={}), in_place=True),
    Kind(name="HDF5 dataset", make=in_hdf5, in_place=True),
    Kind(name="memory map", make=mapped),
    Kind(
        name="pydata sparse array",
        make=sparse.COO.from_numpy,
        read=read_by("todense", sparse.COO),
    ),
    Kind(
        name="SciPy sparse array",
        make=scipy.sparse.csr_array,
        read=read_by("toarray", scipy.sparse.csr_array),
    ),
)
