"""Ranges of arrays of other libraries: values have the library and gradients of data."""

import array_api_strict
import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import tensorflow as tf
import torch
import xarray as xr

from ndgather import gather_ranges
from ndgather.errors import NdgatherError
from tests.definitions import reference

DATA = np.arange(24.0).reshape(8, 3)
STARTS, STOPS = np.array([3, 0, 5]), np.array([7, 2, 5])
WANTED, OFFSETS = reference.gather_ranges(DATA, STARTS, STOPS)


def strict(values):
    return array_api_strict.asarray(values)


@pytest.mark.parametrize(
    "library", [torch.tensor, jax.numpy.asarray, tf.constant, strict], ids=lambda f: f.__module__
)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill"])
def test_values_have_the_library_of_data(library, mode):
    shift = 0 if mode == "raise" else 4
    data = library(DATA)
    values, offsets = gather_ranges(data, STARTS - shift, STOPS + shift, mode=mode)
    wanted, _ = reference.gather_ranges(DATA, STARTS - shift, STOPS + shift, 0, mode)
    assert type(values) is type(data)
    np.testing.assert_array_equal(np.asarray(values), wanted)
    is_tensor = library in (torch.tensor, tf.constant)
    assert type(offsets) is (type(data) if is_tensor else np.ndarray)
    counts = [0, *np.cumsum(STOPS - STARTS + (0 if mode == "raise" else 8))]
    assert np.asarray(offsets).tolist() == counts
    assert np.asarray(offsets).dtype == np.int64
    values, _ = gather_ranges(data, [1], [3], axis=1)
    np.testing.assert_array_equal(np.asarray(values), DATA[:, 1:3])


def test_starts_may_belong_to_any_library_on_the_cpu():
    for library in (torch.tensor, jax.numpy.asarray, pd.Series, pl.Series, strict):
        values, offsets = gather_ranges(DATA, library(STARTS), library(STOPS))
        np.testing.assert_array_equal(values, WANTED)
        np.testing.assert_array_equal(offsets, OFFSETS)


def test_gradients():
    tensor = torch.tensor(DATA, requires_grad=True)
    (gather_ranges(tensor, [0, 1], [2, 3])[0] ** 2).sum().backward()
    counts = np.array([1, 2, 1, 0, 0, 0, 0, 0])[:, None]
    np.testing.assert_array_equal(tensor.grad, 2 * DATA * counts)

    def total(data):
        return (gather_ranges(data, [0, 1], [2, 3])[0] ** 2).sum()

    found = jax.grad(total)(jax.numpy.asarray(DATA))
    np.testing.assert_allclose(found, 2 * DATA * counts)
    np.testing.assert_allclose(jax.jit(total)(DATA), (DATA[[0, 1, 1, 2]] ** 2).sum())


def test_starts_under_jit_raise_a_clear_error():
    def total(starts):
        return gather_ranges(jax.numpy.asarray(DATA), starts, lengths=2)[0].sum()

    with pytest.raises(NdgatherError, match="starts"):
        jax.jit(total)(STARTS)


def test_labelled_arrays():
    array = xr.DataArray(DATA, dims=("x", "y"), coords={"y": [10, 20, 30]})
    values, _ = gather_ranges(array, STARTS, STOPS)
    np.testing.assert_array_equal(values.values, WANTED)
    assert values.y.values.tolist() == [10, 20, 30]
    lazy = array.chunk(x=3).data
    np.testing.assert_array_equal(gather_ranges(lazy, STARTS, STOPS)[0].compute(), WANTED)
