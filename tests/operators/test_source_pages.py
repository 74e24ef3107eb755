"""The worked examples and other statements of the five published operator pages, as calls."""

import re

import numpy as np
import pytest

import ndgather
from tests.operators.source_examples import (
    GATHER_ELEMENTS,
    GATHER_ND,
    MICROSOFT,
    OPENVINO,
    OPENVINO_LAYERS,
    SQUARE,
)

PAGES = {MICROSOFT: ("com.microsoft", 1), OPENVINO: ("openvino", 8)}


@pytest.mark.parametrize("example", GATHER_ND, ids=str)
def test_gather_nd_example(example):
    data, indices = np.array(example.data, example.dtype), np.array(example.indices, "int64")
    actual = ndgather.gather_nd(data, indices, batch_dims=example.option)
    np.testing.assert_array_equal(actual, np.array(example.output, example.dtype), strict=True)


@pytest.mark.parametrize("example", GATHER_ELEMENTS, ids=str)
def test_gather_elements_example(example):
    data, indices = np.array(example.data, example.dtype), np.array(example.indices, "int64")
    actual = ndgather.gather_elements(data, indices, axis=example.option)
    np.testing.assert_array_equal(actual, np.array(example.output, example.dtype), strict=True)


@pytest.mark.parametrize("example", [*GATHER_ND, *GATHER_ELEMENTS], ids=str)
def test_page_version_gives_the_printed_result(example):
    words = example.place.split()
    domain, version = PAGES.get(example.page, ("ai.onnx", 13))
    if words[0] == "version":
        version = int(words[1])
    name = "GatherElements" if example in GATHER_ELEMENTS else "GatherND"
    option = "axis" if name == "GatherElements" else "batch_dims"
    op = ndgather.operator(name, domain=domain, version=version)
    if example.option and op.row.attribute(option) is None:
        pytest.skip(example.note)
    data, indices = np.array(example.data, example.dtype), np.array(example.indices, "int64")
    actual = op(data, indices, **({option: example.option} if example.option else {}))
    np.testing.assert_array_equal(actual, np.array(example.output, example.dtype), strict=True)


@pytest.mark.parametrize("layer", OPENVINO_LAYERS)
def test_openvino_layer_shape(layer):
    data_shape, indices_shape, batch_dims, shape = OPENVINO_LAYERS[layer]
    data = np.arange(np.prod(data_shape), dtype=np.uint32).reshape(data_shape)
    limits = data_shape[batch_dims : batch_dims + indices_shape[-1]]
    indices = np.random.default_rng(0).integers(0, limits, indices_shape)
    actual = ndgather.gather_nd(data, indices, batch_dims)
    op = ndgather.operator("GatherND", domain="openvino", version=8)
    assert op.infer_shape(data_shape, indices_shape, batch_dims=batch_dims) == shape
    batches = np.indices(indices_shape[:-1], sparse=True)[:batch_dims]
    desired = data[(*batches, *np.moveaxis(indices, -1, 0))]
    assert actual.shape == shape
    np.testing.assert_array_equal(actual, desired, strict=True)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_batch_axes_are_coordinates_not_slices(batch_dims):
    """GatherND 12 and 13 print ``data[0:b-1, ...]`` but mean a coordinate for each batch axis.

    They also print ``data_shape[i]`` as the bound of ``indices[..., i]`` but mean axis ``b + i``.
    """
    data = np.arange(3 * 2 * 5).reshape(3, 2, 5)
    lead = data.shape[:batch_dims]
    size = data.shape[batch_dims]
    last = np.full((*lead, 1), size - 1)
    desired = np.take(data, size - 1, axis=batch_dims)
    actual = ndgather.gather_nd(data, last, batch_dims)
    np.testing.assert_array_equal(actual, desired, strict=True)
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, last + 1, batch_dims)
    assert caught.value.axis == batch_dims


def test_depth_is_bounded_by_the_axes_after_the_batch():
    """OpenVINO's page bounds the depth by data.rank, without subtracting the batch axes."""
    data = np.arange(24).reshape(2, 3, 4)
    with pytest.raises(ndgather.errors.ShapeError, match=re.escape("(allowed: 0..2)")):
        ndgather.gather_nd(data, np.zeros((2, 3), int), batch_dims=1)


def test_negative_indices_count_from_the_end():
    """OpenVINO's page still says ``[0, s-1]``; the operator accepts ``[-s, s-1]`` like ONNX."""
    data = np.array(SQUARE)
    np.testing.assert_array_equal(ndgather.gather_nd(data, [[-1, -2]]), [2], strict=True)
    np.testing.assert_array_equal(ndgather.gather_elements(data, [[-1, 0]]), [[2, 1]], strict=True)


def test_off_axis_sizes_may_be_smaller():
    """GatherElements does not specify the off-axis sizes; its equations allow smaller sizes."""
    data = np.arange(12).reshape(3, 4)
    actual = ndgather.gather_elements(data, [[2, 1], [0, 0]], axis=1)
    np.testing.assert_array_equal(actual, [[2, 1], [4, 4]], strict=True)
