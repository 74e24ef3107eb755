"""ONNX Runtime's own operators, domain "com.microsoft": GatherND, GatherBlockQuantized."""

from __future__ import annotations

from dataclasses import replace

from ndgather.array_call import Kind
from ndgather.published import definitions
from ndgather.published.rows import onnx
from ndgather.published.schema import (
    FLOATS_8,
    Attribute,
    AttributeRange,
    AttributeType,
    Erratum,
    IndexRule,
    OperatorVersion,
    Output,
    Outside,
    Role,
    tensor,
)

DOMAIN = "com.microsoft"

_gather_nd_1 = replace(
    onnx.gather_nd_11,
    domain=DOMAIN,
    since=1,
    inputs=(onnx.DATA, onnx.INDICES),
    lowest_depth=0,
    summary="Copies the slices of data that the index tuples on the last axis of indices address; "
    "the only GatherND in ONNX models that takes int32 indices.",
    source="https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"
    "#com.microsoft.GatherND",
    notes=(
        "The page lists no types. The registered schema has those of ONNX before bfloat16, and "
        "int32 and int64 for the indices.",
        "The page does not mention negative indices or bounds. The kernel, which ai.onnx "
        "GatherND shares, counts negative values from the end and reports others as invalid, "
        "and so does this package, even if the result is empty.",
        "The page gives tuples no minimum length, and the kernel copies all of data for an "
        "empty tuple; so does this package.",
        "There is no batch_dims, though an example on the page has one: a model with it does "
        "not load.",
    ),
    errata=(
        Erratum(
            "Summary and Outputs",
            "Tensor of rank q-1+r-indices[-1].",
            "indices_shape[-1]: the length of a tuple, not an entry of indices",
        ),
        Erratum(
            "Examples",
            "batch_dims=1,",
            "the operator has no attributes, and the nodes of the examples carry no "
            'domain="com.microsoft": they are those of ai.onnx GatherND',
        ),
        Erratum(
            "Inputs",
            "indices (heterogeneous) - Tind: Tensor of rank q >= 1.",
            "Tind is int32 or int64; the page has no section of type constraints",
        ),
    ),
)

_PAGE = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"
_QUANTIZED = ("int4", "uint4", "uint8", *FLOATS_8, "float4_e2m1fn")
_SCALES = ("float32", "float16", "bfloat16")


def _integer(name: str, default: int, allowed: AttributeRange, summary: str) -> Attribute:
    return Attribute(
        name=name, type=AttributeType.INT, range=allowed, default=default, summary=summary
    )


_gather_block_quantized_1 = OperatorVersion(
    name="GatherBlockQuantized",
    domain=DOMAIN,
    since=1,
    kind=Kind.GATHER,
    definition=definitions.GATHER_BLOCK_QUANTIZED,
    inputs=(
        tensor("data", Role.DATA, "T1", _QUANTIZED, "numbers; uint8 packs them on the last axis"),
        replace(onnx.INDICES, lowest_rank=0, summary="which slices to copy"),
        tensor("scales", Role.SCALES, "T2", _SCALES, "the factor of every block"),
        tensor(
            "zero_points",
            Role.ZERO_POINTS,
            "T1",
            _QUANTIZED,
            "the number of every block that means 0; by default 0, for uint8 `2 ** (bits - 1)`",
            optional=True,
        ),
    ),
    outputs=(Output(name="output", type_variable="T2"),),
    attributes=(
        _integer("bits", 4, AttributeRange.BITS, "how many bits a number has, if data is uint8"),
        _integer("block_size", 128, AttributeRange.BLOCK, "how many numbers a block has"),
        _integer("gather_axis", 0, AttributeRange.AXIS, "the axis of data that is indexed"),
        _integer("quantize_axis", 1, AttributeRange.AXIS, "the axis of data that has the blocks"),
    ),
    index_rule=IndexRule(negative=True, outside=Outside.ZEROS),
    summary="Copies slices of a quantized array along one axis, as floats: each block of numbers "
    "has a scale and a zero point.",
    formula="slices = Gather(numbers of data, indices, axis = gather_axis); "
    "output = (slices - zero point of their block) * scale of their block; "
    "output = 0 where an index is out of bounds",
    source=f"{_PAGE}#com.microsoft.GatherBlockQuantized",
    notes=(
        "The text is that of onnxruntime 1.32.",
        "Data, scales and zero_points are called constants. This package takes any array, and so "
        "does the kernel.",
        "It multiplies in float32 and rounds the product once to the type of scales.",
        "For uint8 the text wants gather_axis 0 and another quantize_axis. The kernel wants the "
        "last axis, where the bytes are packed; so does this package.",
    ),
    errata=(
        Erratum(
            "Attributes, bits",
            "Must be 2, 4 or 8.",
            "for uint8; the kernel takes only 4 for int4 and uint4, and so does this package",
        ),
        Erratum(
            "Summary, point 5",
            "`gather_axis` and `quantize_axis` must differ",
            "quantize_axis must be the last axis, and data have two axes or more",
        ),
    ),
)

ROWS = (_gather_nd_1, _gather_block_quantized_1)
