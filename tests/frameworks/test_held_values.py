"""Fill values and updates of every dtype for every data type: exact, rounded as floats, or refused.

`tests.definitions.held` has the numbers and their expected values.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import array_api_strict
import dask.array as da
import h5py
import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import ndonnx
import numpy as np
import pytest
import tensorflow as tf
import tensorstore
import torch
import xarray as xr
import zarr

import ndgather
import ndgather.arrays.torch
from ndgather.errors import DTypeError, NdgatherError
from tests.definitions.held import (
    CLASSES,
    INTEGERS,
    NO_NUMBERS,
    NUMBERS,
    ONE,
    OUTSIDE,
    assert_is,
    check,
    dtype_of,
    element,
    forms,
    python_number,
)
from tests.frameworks.kinds import mapped

REAL = ("bool", *INTEGERS, "float32", "float64")
PLAIN = (*REAL, "float16", "complex64", "complex128")
BYTES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
OF_JAX = (*PLAIN, "bfloat16", *BYTES, "int2", "int4", "uint2", "uint4", "float4_e2m1fn")
OF_MLX = ("bool", *INTEGERS, "float16", "float32", "complex64")


@dataclass(frozen=True, kw_only=True)
class Road:
    """A way to create 1-d data from a NumPy array, and to read a result or changed data."""

    make: Callable[[np.ndarray], Any]
    dtypes: tuple[str, ...] = PLAIN
    read: Callable[[Any], Any] = np.asarray
    call: Callable[..., Any] = lambda function, *arrays, **options: function(*arrays, **options)
    own: Callable[[np.ndarray], Any] | None = None  # converts an array to its library
    settings: Callable[[], AbstractContextManager] = nullcontext
    in_place: bool = False
    scatters: bool = True
    one_in: int = 1  # tests one in this many pairs of a dtype and a class


def in_tensorstore(values):
    spec = {"driver": "zarr", "kvstore": "memory://"}
    options = {"dtype": values.dtype, "shape": values.shape}
    stored = tensorstore.open(spec, create=True, **options).result()
    stored.write(values).result()
    return stored


@cache
def _lazy(name, size):
    store = {}
    xr.Dataset({"a": ("x", np.zeros(size, dtype_of(name)))}).to_zarr(store, consolidated=False)
    return xr.open_zarr(store, chunks=None, consolidated=False)["a"]


def as_tensor(values):
    dtype = getattr(torch, values.dtype.name)
    if values.dtype.isbuiltin == 1:
        return torch.tensor(values)
    bits = torch.tensor(values.view("i2" if values.dtype.itemsize == 2 else "u1"))
    return bits.view(dtype)


def of_tensor(tensor):
    tensor = tensor.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    if hasattr(ml_dtypes, name):
        return tensor.view(torch.uint8).numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy()


def leaf(values):
    tensor = as_tensor(values)
    return tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())


def jitted(function, data, indices, *rest, **options):
    return jax.jit(lambda data: function(data, indices, *rest, **options))(data)


def in_a_graph(function, data, indices, *rest, **options):
    return tf.function(lambda data: function(data, indices, *rest, **options))(data)


OF_TORCH = {
    "make": as_tensor,
    "dtypes": (*PLAIN, "bfloat16", *BYTES),
    "read": of_tensor,
    "own": as_tensor,
}
OF_TENSORFLOW = {
    "make": tf.constant,
    "dtypes": (*PLAIN, "bfloat16"),
    "read": lambda tensor: tensor.numpy(),
    "own": tf.constant,
}
JAX = {
    "make": jnp.asarray,
    "dtypes": OF_JAX,
    "own": jnp.asarray,
    "settings": lambda: jax.enable_x64(True),
}
ROADS = {
    "masked array": Road(make=np.ma.array, dtypes=NUMBERS, read=np.ma.getdata),
    "subclass": Road(make=lambda values: values.view(np.recarray)),
    "memory map": Road(make=mapped),
    "zarr": Road(
        make=lambda values: zarr.create_array(
            {},
            data=values,
            config={"write_empty_chunks": True},  # a chunk of -0.0 does not consist of zeros
        ),
        in_place=True,
        one_in=4,
    ),
    "HDF5": Road(
        make=lambda values: h5py.File.in_memory().create_dataset("a", data=values),
        in_place=True,
        one_in=4,
    ),
    "tensorstore": Road(make=in_tensorstore, in_place=True, one_in=2),
    "dask": Road(
        make=lambda values: da.from_array(values, chunks=1, name=False),
        dtypes=NUMBERS,
        read=lambda array: array.compute(),
        one_in=6,
    ),
    "xarray": Road(make=lambda values: xr.DataArray(values, dims="x")),
    "xarray, read lazily": Road(
        make=lambda values: _lazy(values.dtype.name, values.size), scatters=False
    ),
    "torch": Road(**OF_TORCH),
    "torch, with a gradient": Road(**OF_TORCH | {"make": leaf}),
    "JAX": Road(**JAX, one_in=24),
    "JAX, under jit": Road(**JAX, call=jitted, one_in=80),
    "TensorFlow": Road(**OF_TENSORFLOW, one_in=8),
    "TensorFlow, in a graph": Road(**OF_TENSORFLOW | {"own": None}, call=in_a_graph, one_in=80),
    "array-api-strict": Road(
        make=array_api_strict.asarray,
        dtypes=(*REAL, "complex64", "complex128"),
        read=np.from_dlpack,
        own=array_api_strict.asarray,
        one_in=2,
    ),
    "MLX": Road(make=mx.array, dtypes=OF_MLX, read=np.array, own=mx.array),
    "ndonnx": Road(
        make=ndonnx.asarray,
        dtypes=tuple(name for name in REAL if name != "uint64"),  # which has 53 bits of precision
        read=lambda array: array.unwrap_numpy(),
        scatters=False,
        one_in=20,
    ),
}


def filled(road, name, value, function):
    data = road.make(np.zeros(2, dtype_of(name)))
    indices, *rest = OUTSIDE[function]
    options = {"mode": "fill", "fill_value": value}
    result = road.call(getattr(ndgather, function), data, indices, *rest, **options)
    read = road.read(result[0] if function == "gather_ranges" else result)
    assert read.dtype == dtype_of(name)
    return read


def updated(road, name, updates, function):
    """Return the updated element; after an error, data must be unchanged."""
    data = road.make(np.zeros(2, dtype_of(name)))
    before = bytes(road.read(data)) if road.in_place else b""
    options = {"out": data} if road.in_place else {}
    if road.in_place:
        try:
            getattr(ndgather, function)(data, ONE[function], updates, **options)
        except NdgatherError:
            assert bytes(road.read(data)) == before
            raise
        return road.read(data)[1]
    return road.read(road.call(getattr(ndgather, function), data, ONE[function], updates))[1]


def some_of(road, classes, draws):
    """Return pairs of a dtype and a class: all of them, or fewer if calls are slow."""
    pairs = list(product(road.dtypes, classes))
    return draws.sample(pairs, -(-len(pairs) // road.one_in))


@pytest.mark.parametrize("name", ROADS)
def test_numbers_are_kept_exactly_or_refused(name, draws):
    road = ROADS[name]
    for dtype, draw in some_of(road, CLASSES.values(), draws):
        value, function = draw(draws), draws.choice(tuple(OUTSIDE))
        form = draws.choice(forms(value))
        with road.settings():
            check(partial(filled, road, dtype, form, function), value, dtype)
        if road.scatters:
            run = partial(updated, road, dtype, [value], draws.choice(tuple(ONE)))
            with road.settings():
                check(run, value, dtype, same_kind=True)


@pytest.mark.parametrize("name", ROADS)
def test_numbers_of_every_other_dtype_are_kept_exactly_or_refused(name, draws):
    road = ROADS[name]
    for dtype, source in some_of(road, NUMBERS, draws):
        scalar = element(source, draws)
        value, function = python_number(scalar, source), draws.choice(tuple(OUTSIDE))
        array = np.array(scalar, dtype_of(source))
        makes = [np.ndarray.item, np.array, lambda array: array[()]]
        makes[0] = makes[1] if source in ("longdouble", "clongdouble") else makes[0]
        makes += [road.own] * (road.own is not None and source in road.dtypes)
        with road.settings():
            form = draws.choice(makes)(array)
            check(partial(filled, road, dtype, form, function), value, dtype)
        if not road.scatters:
            continue
        of_source = array.reshape(1)
        with road.settings():
            if source in road.dtypes and road.own is not None and draws.random() < 0.7:
                of_source = road.own(of_source)
            run = partial(updated, road, dtype, of_source, draws.choice(tuple(ONE)))
            if source == dtype:
                if isinstance(of_source, np.ndarray) and dtype not in PLAIN and road.own:
                    continue  # some libraries cannot convert arrays of these
                assert_is(run(), value, dtype)
            else:
                with pytest.raises(DTypeError):
                    run()


@pytest.mark.parametrize("name", ROADS)
def test_values_other_than_numbers_are_refused(name, draws):
    road = ROADS[name]
    for value in NO_NUMBERS:
        if value is np.ma.masked and name == "masked array":
            continue
        dtype = draws.choice(road.dtypes)
        with road.settings(), pytest.raises(DTypeError):
            filled(road, dtype, value, draws.choice(tuple(OUTSIDE)))
        if road.scatters:
            with road.settings(), pytest.raises(NdgatherError):  # several numbers
                updated(road, dtype, [value], draws.choice(tuple(ONE)))


MASKED = {
    "a masked array": lambda values: np.ma.array(values, mask=True),
    "an array without a masked element": np.ma.array,
    "a list with a masked element": lambda values: [np.ma.masked] * len(values),
}


@pytest.mark.parametrize("form", MASKED)
@pytest.mark.parametrize("name", ROADS)
def test_losing_a_mask_is_refused(name, form):
    """As indices, starts, stops and lengths for all data; as updates if data has no mask."""
    road, make = ROADS[name], MASKED[form]
    places = make(np.zeros(1, np.int64))
    rows = places if form == "a list with a masked element" else make(np.zeros((1, 1), np.int64))
    rows = [rows] if isinstance(rows, list) else rows
    dtype = dtype_of("float32")
    calls = {
        "indices": [
            lambda data: ndgather.gather_nd(data, rows),
            lambda data: ndgather.gather(data, places),
            lambda data: ndgather.gather_elements(data, places, mode="clip"),
        ],
        "starts": [
            lambda data: ndgather.gather_windows(data, rows, (1,)),
            lambda data: ndgather.gather_ranges(data, places, [1]),
        ],
        "stops": [lambda data: ndgather.gather_ranges(data, [0], places)],
        "lengths": [lambda data: ndgather.gather_ranges(data, [0], lengths=places)],
    }
    if road.scatters:
        updates = make(np.ones(1, dtype))
        in_place = lambda data: {"out": data} if road.in_place else {}  # noqa: E731
        calls["indices"] += [
            lambda data: ndgather.scatter_nd(data, rows, np.ones(1, dtype), **in_place(data)),
            lambda data: ndgather.scatter_elements(data, places, [1], **in_place(data)),
        ]
        if name != "masked array" or isinstance(updates, list):
            calls["updates"] = [
                lambda data: ndgather.scatter_nd(data, [[0]], updates, **in_place(data)),
                lambda data: ndgather.scatter_elements(data, [0], updates, **in_place(data)),
            ]
    for argument, each in calls.items():
        for call in each:
            data = road.make(np.zeros(2, dtype))
            with road.settings(), pytest.raises(DTypeError, match=rf": {argument} = "):
                call(data)
            if not hasattr(data, "compute"):
                assert not np.any(road.read(data))


@pytest.mark.parametrize("function", OUTSIDE)
@pytest.mark.parametrize("name", [name for name in ROADS if name != "masked array"])
def test_a_masked_fill_value_is_refused(name, function):
    """Even if no element is filled."""
    road = ROADS[name]
    inside = {"gather_windows": ([[0]], (1,)), "gather_ranges": ([0], [1]), "gather_nd": ([[0]],)}
    for value in (np.ma.masked, np.ma.array(1.0, mask=True), np.ma.array(1.0)):
        for indices, *rest in (OUTSIDE[function], inside.get(function, ([0],))):
            with road.settings(), pytest.raises(DTypeError, match=": fill_value = masked array"):
                getattr(ndgather, function)(
                    road.make(np.zeros(2, "f4")), indices, *rest, mode="fill", fill_value=value
                )


@pytest.mark.parametrize("function", OUTSIDE)
def test_masked_fill_value_masks_filled_elements_of_masked_data(function):
    data = np.ma.array([1.0, 2.0], mask=[0, 1])
    indices, *rest = OUTSIDE[function]
    for value, is_masked in (
        (np.ma.masked, True),
        (None, True),
        (7, False),
        (np.float32(7), False),
    ):
        options = {"mode": "fill", "fill_value": value}
        result = getattr(ndgather, function)(data, indices, *rest, **options)
        result = result[0] if function == "gather_ranges" else result
        assert np.ma.getmaskarray(result).all() == is_masked
        assert is_masked or result.data.reshape(-1).tolist() == [7]
    for value in (np.ma.array(1.0, mask=True), np.ma.array(1.0)):
        with pytest.raises(DTypeError, match=": fill_value = masked array"):
            getattr(ndgather, function)(data, indices, *rest, mode="fill", fill_value=value)
