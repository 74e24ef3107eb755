"""Inputs of published gather and scatter vulnerabilities in other runtimes.

Each case is named after an advisory or the thread that reported the bug; docs/security.md lists
them. A case is tested in several ways: functions, published operators, an ONNX model, and OpenVINO
IR. All must give the same error or value and leave their arguments unchanged. Cases about files are
in test_advisory_files.py.
"""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("defusedxml")
pytest.importorskip("onnx")


from onnx import helper

import ndgather
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.published import operator
from tests.definitions.calls import assert_same_elements

F4, I4, I8 = np.float32, np.int32, np.int64
# The GatherND operators that accept negative indices, and all GatherND operators.
FROM_THE_END = (
    *(("ai.onnx", 11), ("ai.onnx", 12), ("ai.onnx", 13)),
    *(("com.microsoft", 1), ("openvino", 8)),
)
BY_TUPLE = (*FROM_THE_END, ("openvino", 5))


class Way:
    """One way to make a call, which must leave its arguments unchanged."""

    def __init__(self, name, work, arguments):
        self.name, self.work = name, work
        self.arguments = [each for each in arguments if each.nbytes < 2**20]

    def __call__(self, folder):
        before = [each.copy() for each in self.arguments]
        try:
            return self.work(folder)
        finally:
            for argument, copy in zip(self.arguments, before, strict=True):
                assert_same_elements(argument, copy)


def plain(function, *arguments, **options):
    """A call of a public function."""
    call = getattr(ndgather, function)
    arguments = [np.asarray(each) for each in arguments]
    return Way(function, lambda _: call(*arguments, **options), arguments)


def in_place(function, data, *arguments, **options):
    """A scatter into `data` itself that must raise an error."""
    return plain(function, data, *arguments, **options, out=data)


def published(name, version, *inputs, domain="ai.onnx", **attributes):
    """A published operator that receives its inputs unconverted."""
    op = operator(name, domain=domain, version=version)
    inputs = [np.asarray(each) for each in inputs]
    return Way(repr(op), lambda _: op(*inputs, **attributes), inputs)


def in_onnx(op_type, opset, *inputs, **attributes):
    """An ONNX model with one node."""
    inputs = [np.asarray(each) for each in inputs]
    names = ["data", "indices", "updates"][: len(inputs)]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(each.dtype), [None] * each.ndim
        )
        for name, each in zip(names, inputs, strict=True)
    ]
    out = helper.make_tensor_value_info("out", infos[0].type.tensor_type.elem_type, None)
    node = helper.make_node(op_type, names, ["out"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [out]),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )
    given = dict(zip(names, inputs, strict=True))
    return Way(
        f"ONNX {op_type}-{opset}",
        lambda _: onnx_models.run(model, given, runtime="reference")["out"],
        inputs,
    )


def in_ir(op_type, opset, *inputs, **data):
    """An IR with one layer."""
    inputs = [np.asarray(each) for each in inputs]
    words = "".join(f' {name}="{value}"' for name, value in data.items())
    ports = "".join(
        f'<port id="{k}">{"<dim>-1</dim>" * each.ndim}</port>' for k, each in enumerate(inputs)
    )
    text = (
        f'<layer id="1" type="{op_type}" version="opset{opset}"><data{words}/>'
        f'<input>{ports}</input><output><port id="9"/></output></layer>'
    )

    def work(folder):
        (folder / "layer.xml").write_text(text)
        model = openvino.Model.load(folder / "layer.xml")
        names = [port.name for port in model.inputs]
        (out,) = openvino.run(model, dict(zip(names, inputs, strict=True))).values()
        return out

    return Way(f"IR {op_type} of opset{opset}", work, inputs)


def gathers_nd(data, indices):
    """Calls of every gather_nd with index tuples `indices`."""
    data, indices = np.asarray(data, F4), np.asarray(indices, I8)
    return [
        plain("gather_nd", data, indices),
        plain("gather_nd", data[..., np.newaxis], indices),  # as slices
        *(
            published("GatherND", version, data, indices, domain=domain)
            for domain, version in BY_TUPLE
        ),
        in_onnx("GatherND", 13, data, indices),
        in_ir("GatherND", 8, data, indices, batch_dims=0),
    ]


def answers_nd(data, indices):
    """Calls of every gather_nd that accepts negative indices."""
    data, indices = np.asarray(data, F4), np.asarray(indices, I8)
    return [
        plain("gather_nd", data, indices),
        *(published("GatherND", v, data, indices, domain=domain) for domain, v in FROM_THE_END),
        in_onnx("GatherND", 13, data, indices),
        in_ir("GatherND", 8, data, indices, batch_dims=0),
    ]


def scatters_nd(data, indices, updates):
    """Calls of every scatter_nd that must raise an error."""
    data, indices = np.asarray(data), np.asarray(indices, I8)
    updates = np.asarray(updates, data.dtype)
    inputs = data, indices, updates
    return [
        plain("scatter_nd", *inputs),
        in_place("scatter_nd", *inputs),
        in_place("scatter_nd", *inputs, reduction="add"),
        in_place("scatter_nd", *inputs, reduction="mean", use_init_val=False),
        *(published("ScatterND", version, *inputs) for version in (11, 13, 16, 18)),
        published("ScatterND", 18, *inputs, reduction="add"),
        *(published("ScatterNDUpdate", version, *inputs, domain="openvino") for version in (3, 15)),
        in_onnx("ScatterND", 18, *inputs),
        in_ir("ScatterNDUpdate", 15, *inputs, reduction="none"),
    ]


def gathers(data, indices, axis=0):
    """Calls of every gather that raises for out-of-bounds indices along an axis."""
    data, indices = np.asarray(data, F4), np.asarray(indices, I8)
    return [
        plain("gather", data, indices, axis),
        *(published("Gather", version, data, indices, axis=axis) for version in (1, 11, 13)),
        published("Gather", 1, data, indices, np.array(axis), domain="openvino"),
        published("Gather", 7, data, indices, np.array(axis), domain="openvino"),
        in_onnx("Gather", 13, data, indices, axis=axis),
    ]


def by_elements(data, indices, axis=0):
    """Calls of every gather_elements."""
    data, indices = np.asarray(data, F4), np.asarray(indices, I8)
    return [
        plain("gather_elements", data, indices, axis),
        *(published("GatherElements", version, data, indices, axis=axis) for version in (11, 13)),
        published("GatherElements", 6, data, indices, domain="openvino", axis=axis),
        in_onnx("GatherElements", 13, data, indices, axis=axis),
        in_ir("GatherElements", 6, data, indices, axis=axis),
    ]


def scatters_elements(data, indices, updates, axis=0):
    """Calls of every scatter_elements that must raise an error."""
    data, indices = np.asarray(data), np.asarray(indices, I8)
    updates = np.asarray(updates, data.dtype)
    inputs = data, indices, updates
    update = "ScatterElementsUpdate"
    return [
        plain("scatter_elements", *inputs, axis),
        in_place("scatter_elements", *inputs, axis=axis),
        in_place("scatter_elements", *inputs, axis=axis, reduction="add"),
        *(published("ScatterElements", v, *inputs, axis=axis) for v in (11, 13, 16, 18)),
        *(published(update, v, *inputs, np.array(axis), domain="openvino") for v in (3, 12)),
        in_onnx("ScatterElements", 18, *inputs, axis=axis),
    ]


def each(ways, *values):
    """Return the concatenated results of `ways` for every value."""
    return [way for value in values for way in ways(value)]


def cases(table):
    """Return parametrized cases named by identifier, numbering duplicates."""
    seen = Counter()
    for identifier, *case in table:
        seen[identifier] += 1
        number = f"-{seen[identifier]}" if seen[identifier] > 1 else ""
        yield pytest.param(*case, id=identifier + number)


def repeated(shape, dtype=np.int8):
    """An array of zeros that share the same memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


PAIR = np.arange(2, dtype=F4)
SQUARE = np.arange(4, dtype=F4).reshape(2, 2)
ROWS = np.arange(6, dtype=F4).reshape(2, 3)
TABLE = np.arange(12, dtype=F4).reshape(3, 4)
INDEX, SHAPE = IndexOutOfBoundsError, ShapeError

# identifier, error, part of its message, calls
REFUSED = [
    # TensorFlow, TensorFlow Lite, Chromium
    ("CVE-2021-37687", INDEX, "= -10 is outside axis 0", gathers_nd([7], [[-10]])),
    ("CVE-2021-37687", INDEX, "= -10 is outside axis 0", gathers([7], [-10])),
    (
        "CVE-2022-35937",
        INDEX,
        "is outside axis",
        each(lambda pair: gathers_nd(SQUARE, [pair]), (2, 0), (0, 2), (0, 3), (1, 2)),
    ),
    (  # the flat positions of several are inside the buffer
        "CVE-2022-35938",
        INDEX,
        "is outside axis",
        each(lambda pair: gathers_nd(SQUARE, [pair]), (3, -1), (-3, 0), (0, -3), (2**31 - 1, 0)),
    ),
    (
        "CVE-2022-35939",
        INDEX,
        "is outside axis 0",
        each(
            lambda value: scatters_nd(PAIR, [[0], [value]], [8, 9]),
            *(2, 4, -3, 2**31 - 1, -(2**31)),
        ),
    ),
    (
        "chromium-481776048",
        INDEX,
        "is outside axis 0",
        each(
            lambda value: scatters_nd(np.zeros((3, 4), np.int8), [[value]], [[1, 2, 3, 4]]),
            *(536870911, 2**61 - 1),
        ),
    ),
    (
        "CVE-2021-37654",
        AttributeValueError,
        "batch_dims = 10 is out of range",
        [
            plain("gather", np.ones((3, 2), "u4"), [0], batch_dims=10),
            plain("gather_nd", np.ones((3, 2), "u4"), [[0]], 10),
            published("GatherND", 13, np.ones((3, 2), "u4"), [[0]], batch_dims=10),
            published("Gather", 8, np.ones((3, 2), "u4"), [0], 0, domain="openvino", batch_dims=10),
            in_onnx("GatherND", 13, np.ones((3, 2), "u4"), [[0]], batch_dims=10),
            in_ir("GatherND", 8, np.ones((3, 2), "u4"), [[0]], batch_dims=10),
        ],
    ),
    (
        "CVE-2021-37655",
        SHAPE,
        "updates.shape = (5,) does not match indices and data",
        [
            way
            for strings in (np.array(["vvv"]), np.array(["vvv"], object), np.array([b"vvv"]))
            for way in (
                plain("scatter_nd", strings, [[0]], np.array(list("12345"), strings.dtype)),
                published("ScatterND", 18, strings, [[0]], np.array(list("12345"), strings.dtype)),
                plain("scatter_elements", strings, [0], np.array(list("12345"), strings.dtype)),
            )
        ],
    ),
    (
        "CVE-2021-37641",
        SHAPE,
        "has rank 0",
        [
            plain("gather_nd", ROWS, 0),
            plain("gather", F4(1), [0]),
            plain("gather_elements", F4(1), 0),
            published("GatherND", 13, ROWS, 0),
            published("Gather", 13, F4(1), [0]),
            in_onnx("GatherND", 13, ROWS, 0),
            in_onnx("Gather", 13, F4(1), [0]),
            in_ir("GatherND", 8, ROWS, 0, batch_dims=0),
        ],
    ),
    (
        "CVE-2021-37642",
        AttributeValueError,
        "reduction = 'div' is unknown",
        [
            plain("scatter_nd", [4, 6], [[0]], [0], reduction="div"),
            plain("scatter_elements", [4, 6], [0], [0], reduction="div"),
            published("ScatterND", 18, [4, 6], [[0]], [0], reduction="div"),
            in_onnx("ScatterND", 18, [4, 6], [[0]], [0], reduction="div"),
            in_ir("ScatterNDUpdate", 15, [4, 6], [[0]], [0], reduction="div"),
        ],
    ),
    ("CVE-2021-29589", INDEX, "the axis is empty", gathers_nd([], [[0]])),
    ("CVE-2021-29589", INDEX, "the axis is empty", gathers_nd(np.zeros((3, 0)), [[1, 0]])),
    ("CVE-2021-29596", INDEX, "the axis is empty", gathers(np.zeros((0, 4)), [0, 1])),
    (
        "CVE-2022-23559",
        MemoryError,
        "",
        [
            plain("gather", repeated((4, 2**32)), repeated(2**32, I8)),
            plain("gather", repeated((4, 2**32), F4), repeated(2**31, I4)),
            published("Gather", 13, repeated((4, 2**32), F4), repeated(2**31, I4)),
            plain("gather_nd", repeated((4, 2**32)), repeated((2**32, 1), I8)),
        ],
    ),
    (  # counts that are small modulo 2**64
        "tensorflow-126135",
        MemoryError,
        "",
        [
            plain("gather", repeated((1, 2**32)), repeated(2**32 + 1)),
            plain("gather_nd", repeated((1, 2**32)), repeated((2**32 + 1, 1))),
            plain("gather", repeated((1, 2**59)), repeated(2**59)),
            published("GatherND", 13, repeated((1, 2**32), F4), repeated((2**30 + 1, 1), I8)),
        ],
    ),
    (
        "CVE-2021-41197",
        MemoryError,
        "",
        [
            plain("gather_nd", repeated((2**31,)), np.zeros((2**20, 2**20, 0), I8)),
            plain("gather_elements", repeated((2, 2**40)), repeated((2**20, 2**40)), axis=0),
            published("GatherElements", 13, repeated((2, 2**40)), repeated((2**20, 2**40), I4)),
            plain(
                "scatter_nd", repeated((2**30, 2**30)), np.zeros((0, 1), I8), repeated((0, 2**30))
            ),
        ],
    ),
    (
        "CVE-2021-33430",
        SHAPE,
        "would have rank",
        [
            plain("gather_nd", np.zeros((1,) * 40), np.zeros((1,) * 30 + (0,), I8)),
            plain("gather", np.zeros((1,) * 40), np.zeros((1,) * 26, I8)),
            published("Gather", 13, np.zeros((1,) * 40), np.zeros((1,) * 26, I8)),
        ],
    ),
    (
        "CVE-2021-29584",
        MemoryError,
        "",
        [
            plain("gather_nd", repeated(2**61), np.zeros((8, 8, 0), I8)),
            plain("gather_nd", repeated(2**62), np.zeros((2**50, 0), I8)),
            plain("gather", repeated((2**31, 3, 2**30)), repeated(2**31), 1),
        ],
    ),
    (
        "CVE-2019-16778",
        INDEX,
        "is outside axis 0",
        each(
            lambda value: scatters_nd(np.zeros(3, I8), [[0], [value]], [1, 1]),
            *(2**32, 2**32 + 1, -(2**32), 2**31, 2**63 - 1, -(2**63)),
        ),
    ),
    (
        "CVE-2020-15212",
        INDEX,
        "= -7 is outside axis 0",
        scatters_nd(np.zeros((3, 2), F4), [[0], [-7]], np.ones((2, 2))),
    ),
    (  # a large last index must not allocate memory
        "CVE-2020-15213",
        INDEX,
        "= 1073741824 is outside axis 0",
        scatters_nd(np.zeros(3, F4), [[0], [2**30]], [1, 1]),
    ),
    (
        "CVE-2020-15195",
        INDEX,
        "indices[2] = 9 is outside axis 0",
        gathers(np.ones(4), [0, 3, 9]),
    ),
    (
        "CVE-2020-15207",
        AttributeValueError,
        "is out of range for data",
        each(
            lambda axis: [
                plain("gather", ROWS, [0], axis),
                plain("gather_elements", ROWS, [[0]], axis),
                plain("scatter_elements", ROWS, [[0]], [[F4(1)]], axis),
                published("Gather", 13, ROWS, [0], axis=axis),
                published("GatherElements", 13, ROWS, [[0]], axis=axis),
                published("ScatterElements", 18, ROWS, [[0]], [[F4(1)]], axis=axis),
                published("Gather", 8, ROWS, [0], axis, domain="openvino"),
                in_onnx("Gather", 13, ROWS, [0], axis=axis),
                in_onnx("ScatterElements", 18, ROWS, [[0]], [[F4(1)]], axis=axis),
                in_ir("GatherElements", 6, ROWS, [[0]], axis=axis),
            ],
            *(-3, -100, 2, -(2**31), 2**31),
        ),
    ),
    (
        "tensorflow-62603",
        AttributeValueError,
        "axis = -9223372036854775808 is out of range",
        [
            plain("gather", [[0.69]], [16], -(2**63)),
            published("Gather", 13, [[0.69]], [16], axis=-(2**63)),
            published("Gather", 8, [[0.69]], [16], -(2**63), domain="openvino"),
            in_onnx("Gather", 13, [[F4(0.69)]], [16], axis=-(2**63)),
        ],
    ),
    (
        "CVE-2022-35991",
        INDEX,
        "is outside axis",
        scatters_nd(
            np.zeros((2, 2, 2), np.float16),
            np.array([[[65535, 7], [1, 1]], [[0, 0], [40000, 3]]]),
            np.ones((2, 2, 2)),
        ),
    ),
    (
        "CVE-2023-25659",
        SHAPE,
        "updates.shape = (5, 1) does not match",
        scatters_nd(
            np.zeros(1016, F4), [[0xDEADBEEF], [405], [519], [758], [1015]], np.ones((5, 1))
        ),
    ),
    (
        "CVE-2023-25659",
        INDEX,
        "= 3735928559 is outside axis 0",
        scatters_nd(np.zeros(1016, F4), [[0xDEADBEEF], [405], [519], [758], [1015]], np.ones(5)),
    ),
    (
        "CVE-2021-29552",
        SHAPE,
        "is not a single value",
        [
            published("Gather", 8, ROWS, [0], np.array([], I8), domain="openvino"),
            published(
                *("ScatterElementsUpdate", 12, ROWS, [[0]], [[F4(1)]], np.array([], I8)),
                domain="openvino",
            ),
            in_ir("Gather", 8, ROWS, [0], np.array([], I8), batch_dims=0),
        ],
    ),
    (
        "CVE-2022-21728",
        AttributeValueError,
        "batch_dims = -9 is out of range",
        [
            plain("gather", ROWS, [[0], [1]], 1, batch_dims=-9),
            plain("gather_nd", ROWS, [[0], [1]], -9),
            published("GatherND", 13, ROWS, [[0], [1]], batch_dims=-9),
            published("Gather", 8, ROWS, [[0], [1]], 1, domain="openvino", batch_dims=-9),
            in_onnx("GatherND", 13, ROWS, [[0], [1]], batch_dims=-9),
            in_ir("Gather", 8, ROWS, [[0], [1]], 1, batch_dims=-9),
        ],
    ),
    ("CVE-2022-41880", INDEX, "= 1048576 is outside axis 0", gathers(PAIR, [[0x100000, 1]])),
    ("CVE-2021-29604", INDEX, "the axis is empty", gathers(np.zeros((0, 3)), [0])),
    ("CVE-2021-37664", INDEX, "= 9 is outside axis 1", gathers_nd(TABLE, [[0, 0], [1, 9]])),
    (
        "CVE-2021-29579",
        INDEX,
        "= 77 is outside axis 0",
        scatters_nd(np.zeros(6, F4), [[2], [77]], [1, 1]),
    ),
    *(  # one of several arrays is too short
        (
            identifier,
            SHAPE,
            f"updates.shape = ({count},) does not match",
            scatters_nd(np.zeros(9, F4), [[2], [7], [1]], np.ones(count)),
        )
        for identifier, count in (
            ("CVE-2021-29570", 2),
            ("CVE-2020-15198", 4),
            ("CVE-2021-41224", 0),
        )
    ),
    (
        "CVE-2020-15194",
        SHAPE,
        "has rank 0",
        [
            plain("gather", F4(1), [0, 0]),
            published("Gather", 13, F4(1), [0, 0]),
            in_onnx("Gather", 13, F4(1), [0, 0]),
        ],
    ),
    ("CVE-2021-37668", INDEX, "the axis is empty", gathers_nd(np.zeros((5, 0)), [[2, 0]])),
    ("tensorflow-12608", INDEX, "is outside axis 0", gathers_nd(np.ones((5, 5, 5)), [[6, 6, 6]])),
    (
        "tensorflow-12608",
        INDEX,
        "= -50000000000000000 is outside axis 0",
        gathers_nd(np.ones(1), [[-50000000000000000]]),
    ),
    (  # only the last batch has an out-of-bounds index
        "tflite-micro-3645",
        INDEX,
        "indices[1, 1] = 3 is outside axis 1",
        [
            plain("gather", ROWS, [[0, 1], [2, 3]], 1, batch_dims=1),
            plain("gather_elements", ROWS, [[0, 1], [2, 3]], 1),
            published("Gather", 7, ROWS, [[0, 1], [2, 3]], 1, domain="openvino", batch_dims=1),
            published("GatherElements", 13, ROWS, [[0, 1], [2, 3]], axis=1),
        ],
    ),
    ("tflite-micro-3593", INDEX, "= 3 is outside axis 0", gathers(TABLE, [0, 3])),
    ("tflite-micro-3593", INDEX, "= 3 is outside axis 0", gathers_nd(TABLE, [[0, 0], [3, 0]])),
    # ONNX and onnxruntime
    (
        "onnxruntime-27963",
        INDEX,
        "indices[0, 1] = 0 is outside axis 1 of data, which has size 0 (the axis is empty)",
        gathers_nd(np.zeros((2, 0, 3)), [[0, 0]]),
    ),
    ("onnxruntime-27963", INDEX, "the axis is empty", gathers_nd(np.zeros((2, 0)), [[0, 0]])),
    (
        "onnxruntime-23828",
        SHAPE,
        "batch axes must be equal",
        [
            way
            for data, indices in (
                ([[0, 1, 2], [10, 11, 12], [20, 21, 22]], [[1], [2]]),
                ([[0, 1, 2], [3, 4, 5]], [[1], [2], [0], [1]]),
            )
            for way in (
                plain("gather_nd", np.array(data, F4), indices, 1),
                published("GatherND", 12, np.array(data, F4), indices, batch_dims=1),
                published("GatherND", 13, np.array(data, F4), indices, batch_dims=1),
                in_onnx("GatherND", 12, np.array(data, F4), indices, batch_dims=1),
                in_ir("GatherND", 8, np.array(data, F4), indices, batch_dims=1),
            )
        ],
    ),
    (
        "onnxruntime-32345",
        INDEX,
        "the axis is empty",
        scatters_nd(np.zeros((1, 0, 2), F4), [[0, 0]], np.ones((1, 2))),
    ),
    ("onnxruntime-28718", INDEX, "is outside axis 0", gathers(TABLE, [[0, 2], [-4, 1]])),
    (
        "onnx-8465",
        AttributeValueError,
        "batch_dims = ",
        each(
            lambda batch_dims: [
                plain("gather_nd", ROWS, [[0], [1]], batch_dims),
                published("GatherND", 13, ROWS, [[0], [1]], batch_dims=batch_dims),
                in_onnx("GatherND", 13, ROWS, [[0], [1]], batch_dims=batch_dims),
                in_ir("GatherND", 8, ROWS, [[0], [1]], batch_dims=batch_dims),
                Way(
                    "shapes",
                    lambda _: operator("GatherND").infer_shape(
                        (2, 3), (2, 1), batch_dims=batch_dims
                    ),
                    [],
                ),
            ],
            *(-1, -5, -(2**31), -(2**63)),
        ),
    ),
    (
        "tract-2635",
        SHAPE,
        "is more than the 2 axes",
        [
            plain("gather_nd", ROWS, [[0, 0, 0]]),
            published("GatherND", 13, ROWS, [[0, 0, 0]]),
            in_onnx("GatherND", 13, ROWS, [[0, 0, 0]]),
            in_ir("GatherND", 8, ROWS, [[0, 0, 0]], batch_dims=0),
            Way("shapes", lambda _: operator("GatherND").infer_shape((2, 3), (1, 3)), []),
        ],
    ),
    # OpenVINO
    (  # an index times its stride is 0 modulo 2**64
        "openvino-37125",
        INDEX,
        "is outside axis 0",
        each(
            lambda value: scatters_nd(TABLE, [[value, 1]], [9]),
            *(2**60, 2**62, -(2**62), 2**63 - 1, -(2**63)),
        ),
    ),
    (
        "openvino-38297",
        INDEX,
        "is outside axis",
        each(lambda pair: gathers_nd(TABLE, [pair]), (3, 0), (0, 4), (-4, 0), (0, -5), (2**40, 0)),
    ),
    (
        "openvino-27483",
        INDEX,
        "is outside axis 0",
        each(lambda value: scatters_nd(TABLE, [[value]], np.ones((1, 4))), 3, -4, 10**6),
    ),
    ("openvino-17066", INDEX, "is outside axis 1", scatters_nd(TABLE, [[2, 4]], [1])),
    ("openvino-35687", INDEX, "indices[4] = 12 is", gathers(np.arange(1, 13), [0, 3, 6, 9, 12, 1])),
    (
        "openvino-38297",
        INDEX,
        "is outside axis 0",
        each(lambda value: scatters_elements(TABLE, [[value]], [[1]]), 3, -4, 2**32),
    ),
    # PyTorch
    (
        "pytorch-37102",
        SHAPE,
        "out.shape = (100, 8) differs from the shape of the result",
        [
            plain(
                *("gather_elements", np.ones((8, 100)), np.zeros((8, 8), I8), 1),
                out=np.zeros((100, 8)),
            )
        ],
    ),
    (
        "pytorch-37102",
        SHAPE,
        "data.shape[0] = 8",
        by_elements(np.ones((8, 8)), np.zeros((100, 8)), 1),
    ),
    (
        "pytorch-143483",
        INDEX,
        "= -2147483648 is outside axis 0",
        gathers(np.ones((3, 4)), np.full(5, -(2**31))),
    ),
    (
        "pytorch-71094",
        INDEX,
        "is outside axis 0",
        gathers(np.ones((300, 2)), [[-301, 5], [299, 0]]),
    ),
    (
        "pytorch-22513",
        AttributeValueError,
        "let elements of out share memory",
        [
            plain(
                *("gather_elements", np.arange(3.0), [0, 1, 2]),
                out=np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)),
            ),
            plain(
                *("scatter_elements", np.zeros(3), [0, 1, 2], np.ones(3)),
                out=np.lib.stride_tricks.as_strided(np.zeros(2), (3,), (0,)),
            ),
        ],
    ),
    # others
    (
        "CVE-2023-52303",
        SHAPE,
        "updates.shape = () does not match",
        [
            plain("scatter_elements", np.array([5], I4), [2**62], I4(7)),
            published("ScatterElements", 18, np.array([5], I4), [2**62], I4(7)),
            in_onnx("ScatterElements", 18, np.array([5], I4), [2**62], I4(7)),
            plain("scatter_nd", np.array([5], I4), [[2**62]], I4(7)),
        ],
    ),
    (
        "CVE-2023-52303",
        INDEX,
        "is outside axis 0",
        each(
            lambda value: scatters_elements(np.array([5], I4), [value], [7]),
            *(2**62, -(2**63), 2**63 - 1),
        ),
    ),
    ("CVE-2022-46741", SHAPE, "has rank 2", by_elements(np.zeros((2, 2, 2)), [[2, 2], [6, 1]])),
    ("CVE-2022-46741", INDEX, "= 2 is outside", by_elements(SQUARE, [[2, 2], [6, 1]])),
    (
        "paddle-76946",
        AttributeValueError,
        "axis = -7 is out of range",
        [
            plain("gather", TABLE, [0], -7),
            published("Gather", 13, TABLE, [0], axis=-7),
            in_onnx("Gather", 13, TABLE, [0], axis=-7),
            in_ir("Gather", 8, TABLE, [0], -7, batch_dims=0),
        ],
    ),
    ("tvm-20297", INDEX, "is outside axis 0", scatters_nd(TABLE, [[3, 0]], [1])),
    ("tvm-20297", INDEX, "is outside axis 0", scatters_elements(TABLE, [[10**7]], [[1]])),
    ("tvm-20297", INDEX, "is outside axis 0", by_elements(TABLE, [[3, 0, 0, 0]])),
    (
        "mlx-4115",
        AttributeValueError,
        "is out of range for data",
        each(
            lambda axis: [
                plain("gather_elements", np.ones((2, 3, 4)), np.zeros((2, 3, 4), I4), axis),
                plain(
                    *("scatter_elements", np.ones((2, 3, 4)), np.zeros((2, 3, 4), I4)),
                    *(np.ones((2, 3, 4)), axis),
                ),
                published(
                    *("GatherElements", 13, np.ones((2, 3, 4)), np.zeros((2, 3, 4), I4)),
                    axis=axis,
                ),
            ],
            *(3, 100, -4, -100),
        ),
    ),
    ("mxnet-15933", INDEX, "= 10 is outside axis 0", gathers(np.ones(1), [10])),
    ("mxnet-12389", INDEX, "= 5 is outside axis 0", gathers_nd(np.arange(5), [[5]])),
    (
        "mxnet-19941",
        INDEX,
        "the axis is empty",
        [
            plain("gather", np.ones(0), [3, 8, 19, 2], mode="wrap"),
            plain("gather", np.ones(0), [3, 8, 19, 2], mode="clip"),
            plain("gather_nd", np.ones(0), [[3], [8]], mode="wrap"),
            plain("gather_elements", np.ones(0), [3, 8, 19, 2], mode="wrap"),
            plain("scatter_nd", np.ones(0), [[3]], [1.0], mode="wrap"),
            plain("scatter_elements", np.ones(0), [3], [1.0], mode="clip"),
            *gathers(np.ones(0), [3, 8, 19, 2]),
        ],
    ),
    (
        "mxnet-17480",
        DTypeError,
        "indices.dtype = float",
        [
            plain("gather_nd", TABLE, np.array([[1.0, 2.0]])),
            plain("gather", TABLE, np.array([np.nan, np.inf, 1e30])),
            plain("scatter_nd", TABLE, np.array([[0.3, -1.2]]), F4([1])),
            published("ScatterND", 18, TABLE, np.array([[0.3, -1.2]]), F4([1])),
            published("GatherND", 13, TABLE, np.array([[1.5, 2.5]], F4)),
            in_onnx("GatherND", 13, TABLE, np.array([[1.5, 2.5]], F4)),
            in_ir("GatherND", 8, TABLE, np.array([[1.5, 2.5]], F4), batch_dims=0),
        ],
    ),
]


@pytest.mark.parametrize(("error", "text", "ways"), list(cases(REFUSED)))
def test_refused(tmp_path, error, text, ways):
    for way in ways:
        with pytest.raises(error) as caught:
            way(tmp_path)
        assert text in str(caught.value), way.name


SPREAD = np.broadcast_to(np.arange(46341, dtype=F4), (1, 46342, 46341))
TALL = np.broadcast_to(np.arange(65535, dtype=F4), (2, 65536, 65535))
ONE_COLUMN = np.lib.stride_tricks.as_strided(np.array([1, 2, 2]), (3, 1), (8, 8))
FLAT_COLUMN = np.lib.stride_tricks.as_strided(np.array([1, 2, 2]), (3, 1), (8, 0))
THREE = np.arange(9, dtype=F4).reshape(3, 3)

# identifier, expected value, calls
ANSWERED = [
    ("tensorflow-127164", F4([0]), answers_nd(SPREAD, [(0, 46341, 0)])),
    ("tensorflow-126136", F4([61440]), answers_nd(TALL, [(1, 0, 61440)])),
    (
        "CVE-2021-37653",
        np.zeros((0, 2), "u4"),
        [
            plain("gather", np.zeros((0, 1), "u4"), np.zeros((0, 2), I4), 1, batch_dims=1),
            published(
                *("Gather", 8, np.zeros((0, 1), "u4"), np.zeros((0, 2), I4), 1),
                domain="openvino",
                batch_dims=1,
            ),
            plain("gather_nd", np.zeros((0, 1), "u4"), np.zeros((0, 2, 1), I4), 1),
            published(
                "GatherND", 13, np.zeros((0, 1), "u4"), np.zeros((0, 2, 1), I8), batch_dims=1
            ),
            in_onnx("GatherND", 13, np.zeros((0, 1), "u4"), np.zeros((0, 2, 1), I8), batch_dims=1),
        ],
    ),
    (  # the mean of an element without updates would divide by 0
        "CVE-2021-37642",
        np.array([5, 6]),
        [
            plain("scatter_nd", [4, 6], [[0], [0]], [4, 6], reduction="mean", use_init_val=False),
            plain(
                *("scatter_elements", [4, 6], [0, 0], [4, 6]),
                reduction="mean",
                use_init_val=False,
            ),
            published(
                *("ScatterElementsUpdate", 12, [4, 6], [0, 0], [4, 6], 0),
                domain="openvino",
                reduction="mean",
                use_init_val=False,
            ),
        ],
    ),
    ("CVE-2021-29589", np.zeros(0, F4), answers_nd(np.zeros(0), np.zeros((0, 1)))),
    ("CVE-2021-29596", np.zeros((0, 4), F4), gathers(np.zeros((0, 4)), [])),
    (
        "CVE-2022-23559",
        np.zeros((0, 2**33), np.int8),
        [
            plain("gather", np.zeros((0, 2**33), np.int8), np.zeros(0, I8)),
            plain("gather", repeated((4, 2**33)), np.zeros(0, I8)),
            plain("gather_nd", repeated((4, 2**33)), np.zeros((0, 1), I8)),
            published("Gather", 13, repeated((4, 2**33)), np.zeros(0, I8)),
        ],
    ),
    (  # indices in any order, each at most twice
        "CVE-2020-15214",
        F4([3, 4, 0, 1]),
        [
            plain(
                *("scatter_nd", np.zeros(4, F4), [[3], [1], [0], [1]], F4([1, 2, 3, 2])),
                reduction="add",
            ),
            published(
                *("ScatterND", 18, np.zeros(4, F4), [[3], [1], [0], [1]], F4([1, 2, 3, 2])),
                reduction="add",
            ),
            in_onnx(
                *("ScatterND", 18, np.zeros(4, F4), [[3], [1], [0], [1]], F4([1, 2, 3, 2])),
                reduction="add",
            ),
        ],
    ),
    (  # an array whose size is near 2**62
        "CVE-2022-21729",
        np.zeros(2, np.int8),
        [
            plain("gather_nd", repeated((2**31, 2**31)), [[2**31 - 1, -1], [-(2**31), 5]]),
            published("GatherND", 13, repeated((2**31, 2**31)), [[2**31 - 1, -1], [0, 2**31 - 1]]),
        ],
    ),
    (
        "onnxruntime-32034",
        F4([7, 8]),
        [
            plain("scatter_nd", PAIR, np.zeros((1, 0), I8), F4([[7, 8]])),
            published("ScatterND", 18, PAIR, np.zeros((1, 0), I8), F4([[7, 8]])),
            in_onnx("ScatterND", 18, PAIR, np.zeros((1, 0), I8), F4([[7, 8]])),
        ],
    ),
    (  # more indices than elements of data
        "onnxruntime-4853",
        F4([[5], [2]]),
        [
            plain(
                "scatter_elements", F4([[0], [0]]), [[1], [0], [0], [1]], F4([[1], [4], [5], [2]])
            ),
            published(
                *("ScatterElements", 11, F4([[0], [0]]), [[1], [0], [0], [1]]),
                F4([[1], [4], [5], [2]]),
            ),
            in_onnx(
                *("ScatterElements", 18, F4([[0], [0]]), [[1], [0], [0], [1]]),
                F4([[1], [4], [5], [2]]),
            ),
        ],
    ),
    (
        "onnxruntime-9411",
        F4([1, 5, 3]),
        [
            plain("scatter_nd", F4([1, 2, 3]), np.array([1]), F4(5)),
            published("ScatterND", 13, F4([1, 2, 3]), np.array([1]), F4(5)),
        ],
    ),
    *(
        (
            "onnxruntime-32061",
            np.array([3.5, 1], dtype),
            [
                plain(
                    *("scatter_nd", np.ones(2, dtype), [[0], [0]], np.array([1, 1.5], dtype)),
                    reduction="add",
                ),
                published(
                    *("ScatterND", 18, np.ones(2, dtype), [[0], [0]], np.array([1, 1.5], dtype)),
                    reduction="add",
                ),
            ],
        )
        for dtype in (np.float16, ml_dtypes.bfloat16)
    ),
    (  # negative indices count from the end of their own axis
        "coremltools-2794",
        F4([4, 7]),
        [
            plain("gather_nd", np.arange(10, dtype=F4).reshape(2, 5), [[-1], [-3]], 1),
            published(
                *("GatherND", 13, np.arange(10, dtype=F4).reshape(2, 5), [[-1], [-3]]),
                batch_dims=1,
            ),
            in_ir(
                *("GatherND", 8, np.arange(10, dtype=F4).reshape(2, 5), [[-1], [-3]]),
                batch_dims=1,
            ),
        ],
    ),
    *(
        (
            identifier,
            F4([[0, 1, 2, 9], [4, 5, 6, 7], [7, 9, 10, 8]]),
            [
                plain("scatter_nd", TABLE, pairs, F4([9, 7, 8])),
                *(published("ScatterND", v, TABLE, pairs, F4([9, 7, 8])) for v in (11, 18)),
                published("ScatterNDUpdate", 15, TABLE, pairs, F4([9, 7, 8]), domain="openvino"),
                in_onnx("ScatterND", 18, TABLE, pairs, F4([9, 7, 8])),
                in_ir("ScatterNDUpdate", 15, TABLE, pairs, F4([9, 7, 8]), reduction="none"),
            ],
        )
        for identifier, pairs in (
            ("openvino-17219", [[0, -1], [-1, -4], [-1, -1]]),
            ("onnx-mlir-3611", [[0, 3], [2, 0], [-1, 3]]),
        )
    ),
    (
        "openvino-14131",
        F4([0, 3, 0, 0]),
        [
            published("Gather", 8, F4([1, 2, 3]), [3, 2, -4, 2**40], 0, domain="openvino"),
            in_ir("Gather", 8, F4([1, 2, 3]), [3, 2, -4, 2**40], 0, batch_dims=0),
        ],
    ),
    *(
        (
            "pytorch-37996",
            TABLE[[2, 0, 1]],
            [
                plain("gather", TABLE, np.array([2, 0, 1], kind)),
                plain("gather_nd", TABLE, np.array([[2], [0], [1]], kind)),
                plain("gather_elements", TABLE, np.repeat(np.array([[2], [0], [1]], kind), 4, 1)),
            ],
        )
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
    ),
    *(
        (
            identifier,
            THREE[[1, 2, 2], :1],
            [
                plain("gather_elements", THREE, column, 0),
                published("GatherElements", 13, THREE, column, axis=0),
                in_onnx("GatherElements", 13, THREE, column, axis=0),
            ],
        )
        for identifier in ("pytorch-105794", "pytorch-99595", "pytorch-129093")
        for column in (ONE_COLUMN, FLAT_COLUMN, np.array([[1, 2, 2]]).T)
    ),
    (
        "jax-16557",
        np.zeros(256, F4),
        [plain("gather_nd", np.zeros((256, 1), F4), np.zeros((256, 1), np.int8), 1)],
    ),
    (  # the size of the axis overflows the index type
        "jax-16557",
        np.arange(200)[[199, 72, 127]],
        [
            plain("gather", np.arange(200), np.array([-1, -128, 127], np.int8)),
            plain("gather_elements", np.arange(200), np.array([-1, -128, 127], np.int8)),
            plain("gather_nd", np.arange(200), np.array([[-1], [-128], [127]], np.int8)),
        ],
    ),
    ("onnx-mlir-1543", SQUARE[:, ::-1].copy(), by_elements(SQUARE, [[1, 0], [-1, -2]], -1)),
    ("mxnet-11551", F4([11, 0, 5]), answers_nd(TABLE, [[-1, -1], [0, 0], [1, 1]])),
    ("tvm-20297", F4([11, 6]), answers_nd(TABLE, [[-1, -1], [-2, 2]])),
]


@pytest.mark.parametrize(("desired", "ways"), list(cases(ANSWERED)))
def test_answered(tmp_path, desired, ways):
    for way in ways:
        assert_same_elements(way(tmp_path), desired)


# Overlapping memory and partial writes need more than one call to test.


@pytest.mark.parametrize("identifier", ["CVE-2020-15210", "numpy-9293", "numpy-6272"])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_out_may_be_an_input(identifier, mode):
    data = np.arange(128.0 * 20).reshape(20, 128)
    places = np.random.default_rng(0).permutation(128)
    desired = data[:, places]
    assert ndgather.gather(data, places, 1, mode=mode, out=data) is data
    assert_same_elements(data, desired)
    line = np.arange(9)
    ndgather.scatter_nd(line, line[::-1, np.newaxis], line, mode=mode, out=line)
    assert_same_elements(line, np.arange(9)[::-1].copy())


@pytest.mark.parametrize("identifier", ["numpy-26844", "numpy-8043"])
def test_indices_may_overlap_the_scattered_array(identifier):
    line = np.arange(10)
    ndgather.scatter_elements(line[2:], line[:-2], np.full(8, 3), mode="drop", out=line[2:])
    assert_same_elements(line, np.array([0, 1, 3, 3, 3, 3, 3, 3, 3, 3]))
    line = np.arange(100)
    ndgather.gather(line[::-1], line, out=line)
    assert_same_elements(line, np.arange(100)[::-1].copy())


@pytest.mark.parametrize("identifier", ["numpy-31940"])
@pytest.mark.parametrize("bad", [0, 500, 9_999])
def test_an_error_leaves_out_unchanged(identifier, bad):
    places = np.zeros(10_000, I8)
    places[bad] = 100
    out = np.arange(10_000.0)
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather(np.zeros(100), places, out=out)
    assert_same_elements(out, np.arange(10_000.0))
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.scatter_nd(out[:100], places[:, np.newaxis], np.ones(10_000), out=out[:100])
    assert_same_elements(out, np.arange(10_000.0))


@pytest.mark.parametrize("identifier", ["pytorch-1193"])
def test_out_may_be_non_contiguous(identifier):
    room = np.zeros((6, 8), F4)
    ndgather.gather_elements(TABLE, np.zeros((3, 4), I8), out=room[::2, ::2])
    desired = np.zeros((6, 8), F4)
    desired[::2, ::2] = TABLE[0]
    assert_same_elements(room, desired)
