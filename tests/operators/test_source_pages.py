"""The worked examples of the five published operator pages, as values.

Each row names its page and the example's place on it. Where a page prints something that its own
text contradicts, the row holds the truth and its `note` says what is printed.
"""

import re
from dataclasses import dataclass

import numpy as np
import pytest

import ndgather

MICROSOFT = "com.microsoft GatherND-1"
OPENVINO = "OpenVINO GatherND-8"
ONNX_WITH_DIFFERENCES = "ONNX GatherND, page with version differences"
ONNX_NEWER = "ONNX GatherND, newer rendering"
ONNX_ELEMENTS = "ONNX GatherElements"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One worked example of a page."""

    page: str
    place: str
    data: object
    indices: object
    output: object
    option: int = 0  # batch_dims of GatherND, axis of GatherElements
    dtype: str = "int64"
    note: str = ""

    def __str__(self):
        return f"{self.page}: {self.place}"


SQUARE = [[0, 1], [2, 3]]
CUBE = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]

# The examples that the ONNX pages and the contrib page share: data, indices, batch_dims, output.
ONNX_EXAMPLES = {
    "Example 1": (SQUARE, [[0, 0], [1, 1]], 0, [0, 3]),
    "Example 2": (SQUARE, [[1], [0]], 0, [[2, 3], [0, 1]]),
    "Example 3": (CUBE, [[0, 1], [1, 0]], 0, [[2, 3], [4, 5]]),
    "Example 4": (CUBE, [[[0, 1]], [[1, 0]]], 0, [[[2, 3]], [[4, 5]]]),
    "Example 5": (CUBE, [[1], [0]], 1, [[2, 3], [4, 5]]),
}
ONNX_CODE = {
    "code example int32": ("int32", "Example 1"),
    "code example float32": ("float32", "Example 4"),
    "code example int32_batchdim_1": ("int32", "Example 5"),
}


def onnx_examples(page, versions):
    """The rows of a page: `versions` maps the heading of a section to its last example."""
    for version, last in versions.items():
        for number in range(1, last + 1):
            data, indices, batch_dims, output = ONNX_EXAMPLES[f"Example {number}"]
            yield Example(
                page=page,
                place=f"{version} Example {number}",
                data=data,
                indices=indices,
                option=batch_dims,
                output=output,
                note="the Outputs line gives rank 3, the Summary rank 2" if number == 5 else "",
            )
    for place, (dtype, example) in ONNX_CODE.items():
        data, indices, batch_dims, output = ONNX_EXAMPLES[example]
        yield Example(
            page=page,
            place=place,
            data=data,
            indices=indices,
            option=batch_dims,
            output=output,
            dtype=dtype,
            note="the contrib operator has no batch_dims: an example of the ONNX one"
            if page == MICROSOFT and batch_dims
            else "",
        )


GATHER_ND = (
    *onnx_examples(MICROSOFT, {"version 1": 4}),
    *onnx_examples(ONNX_WITH_DIFFERENCES, {"version 13": 5, "version 12": 5, "version 11": 4}),
    *onnx_examples(ONNX_NEWER, {"version 13": 5, "version 12": 5, "version 11": 4}),
    Example(
        page=OPENVINO,
        place="Example 1",
        indices=[[0, 0], [1, 0]],
        data=[[1, 2], [3, 4]],
        output=[1, 3],
    ),
    Example(
        page=OPENVINO,
        place="Example 2",
        indices=[[1], [0]],
        data=[[1, 2], [3, 4]],
        output=[[3, 4], [1, 2]],
    ),
    Example(
        page=OPENVINO,
        place="Example 3",
        indices=[[[1]], [[0]]],
        data=[[1, 2], [3, 4]],
        output=[[[3, 4]], [[1, 2]]],
    ),
    Example(
        page=OPENVINO,
        place="Example 4",
        option=1,
        indices=[[1], [0]],
        data=[[1, 2], [3, 4]],
        output=[2, 3],
        note="the page's formula data[indices[...]] leaves the batch axes out",
    ),
    Example(
        page=OPENVINO,
        place="Example 5",
        option=1,
        indices=[[1], [0]],
        data=np.arange(1, 25).reshape(2, 3, 4),
        output=[[5, 6, 7, 8], [13, 14, 15, 16]],
    ),
    Example(
        page=OPENVINO,
        place="Example 6",
        option=2,
        indices=[[[[1]], [[0]], [[2]]], [[[0]], [[2]], [[2]]]],
        data=np.arange(1, 25).reshape(2, 3, 4),
        output=[[[2], [5], [11]], [[13], [19], [23]]],
        note="six batches; the label 'the second batch' is left over from example 5",
    ),
    Example(
        page=OPENVINO,
        place="Example 7",
        option=3,
        indices=[[[[1], [0]], [[3], [2]]]],
        data=np.arange(1, 17).reshape(1, 2, 2, 4),
        output=[[[2, 5], [12, 15]]],
        note="data is printed without commas",
    ),
)

# data shape, indices shape, batch_dims, output shape of the IR layers that OpenVINO's page shows
OPENVINO_LAYERS = {
    "layer 1": ((1000, 256, 10, 15), (25, 125, 3), 0, (25, 125, 15)),
    "layer 2": ((30, 2, 100, 35), (30, 2, 3, 1), 2, (30, 2, 3, 35)),
    "layer 3": ((1, 64, 64, 320), (1, 64, 64, 1, 1), 3, (1, 64, 64, 1)),
}

PRINTED_DEEPER = "printed with one bracket level too many"
GATHER_ELEMENTS = tuple(
    example
    for version, note in (("version 13", ""), ("version 11", PRINTED_DEEPER))
    for example in (
        Example(
            page=ONNX_ELEMENTS,
            place=f"{version} Example 1",
            data=[[1, 2], [3, 4]],
            indices=[[0, 0], [1, 0]],
            option=1,
            output=[[1, 1], [4, 3]],
            note=note,
        ),
        Example(
            page=ONNX_ELEMENTS,
            place=f"{version} Example 2",
            data=[[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            indices=[[1, 2, 0], [2, 0, 0]],
            option=0,
            output=[[4, 8, 3], [7, 2, 3]],
            note=note,
        ),
    )
)


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


@pytest.mark.parametrize("layer", OPENVINO_LAYERS)
def test_openvino_layer_shape(layer):
    data_shape, indices_shape, batch_dims, shape = OPENVINO_LAYERS[layer]
    data = np.arange(np.prod(data_shape), dtype=np.uint32).reshape(data_shape)
    limits = data_shape[batch_dims : batch_dims + indices_shape[-1]]
    indices = np.random.default_rng(0).integers(0, limits, indices_shape)
    actual = ndgather.gather_nd(data, indices, batch_dims)
    batches = np.indices(indices_shape[:-1], sparse=True)[:batch_dims]
    desired = data[(*batches, *np.moveaxis(indices, -1, 0))]
    assert actual.shape == shape
    np.testing.assert_array_equal(actual, desired, strict=True)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_batch_axes_are_coordinates_not_slices(batch_dims):
    """GatherND 12 and 13 print ``data[0:b-1, ...]``: one coordinate for each batch axis is meant.

    They also print ``data_shape[i]`` as the bound of ``indices[..., i]``, meant is axis ``b + i``.
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
    """OpenVINO's page bounds the depth by data.rank; the batch axes have to be taken off."""
    data = np.arange(24).reshape(2, 3, 4)
    with pytest.raises(ndgather.errors.ShapeError, match=re.escape("(allowed: 0..2)")):
        ndgather.gather_nd(data, np.zeros((2, 3), int), batch_dims=1)


def test_negative_indices_count_from_the_end():
    """OpenVINO's page still says ``[0, s-1]``; the operator takes ``[-s, s-1]`` like ONNX."""
    data = np.array(SQUARE)
    np.testing.assert_array_equal(ndgather.gather_nd(data, [[-1, -2]]), [2], strict=True)
    np.testing.assert_array_equal(ndgather.gather_elements(data, [[-1, 0]]), [[2, 1]], strict=True)


def test_off_axis_sizes_may_be_smaller():
    """GatherElements leaves the off-axis sizes unstated; its equations allow smaller ones."""
    data = np.arange(12).reshape(3, 4)
    actual = ndgather.gather_elements(data, [[2, 1], [0, 0]], axis=1)
    np.testing.assert_array_equal(actual, [[2, 1], [4, 4]], strict=True)
