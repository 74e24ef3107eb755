"""The worked examples of the five published operator pages, as values.

Each row names its page and the position of the example. If a page contradicts its own text, the row
has the correct value and its `note` quotes the page.
"""

from dataclasses import dataclass

import numpy as np

MICROSOFT = "com.microsoft GatherND-1"
OPENVINO = "OpenVINO GatherND-8"
ONNX_WITH_DIFFERENCES = "ONNX GatherND, page with version differences"
ONNX_NEWER = "ONNX GatherND, newer rendering"
ONNX_ELEMENTS = "ONNX GatherElements"


@dataclass(frozen=True, kw_only=True)
class Example:
    """A worked example of a page."""

    page: str
    place: str
    data: object
    indices: object
    output: object
    option: int = 0  # GatherND: batch_dims; GatherElements: axis
    dtype: str = "int64"
    note: str = ""

    def __str__(self):
        return f"{self.page}: {self.place}"


SQUARE = [[0, 1], [2, 3]]
CUBE = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]

# Examples shared by the ONNX pages and the contrib page: data, indices, batch_dims, output.
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
    """Return the rows of a page; `versions` maps section headings to their last examples."""
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

# data shape, indices shape, batch_dims and output shape of the IR layers on OpenVINO's page
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
