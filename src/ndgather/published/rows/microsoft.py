"""Operators of onnxruntime (domain "com.microsoft"): GatherND, GatherBlockQuantized."""

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
    summary="Copies the slices of data that index tuples along the last axis of indices select; "
    "the only GatherND in ONNX models that accepts int32 indices.",
    source="https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"
    "#com.microsoft.GatherND",
    notes=(
        "The page lists no types. The registered schema has the ONNX types without bfloat16 for "
        "data, and int32 and int64 for the indices.",
        "The page does not mention negative or out-of-bounds indices. The kernel, which ai.onnx "
        "GatherND shares, counts negative values from the end and raises an error for "
        "out-of-bounds values. So does this package, even if the result is empty.",
        "The page does not give a minimum length for index tuples, and the kernel copies all of "
        "data for an empty tuple. So does this package.",
        "There is no batch_dims attribute, although an example on the page uses it: a model with "
        "this attribute does not load.",
    ),
    errata=(
        Erratum(
            "Summary and Outputs",
            "Tensor of rank q-1+r-indices[-1].",
            "indices_shape[-1], the length of an index tuple, instead of an entry of indices",
        ),
        Erratum(
            "Examples",
            "batch_dims=1,",
            "the operator has no attributes; the nodes in the examples lack "
            'domain="com.microsoft" and are therefore ai.onnx GatherND',
        ),
        Erratum(
            "Inputs",
            "indices (heterogeneous) - Tind: Tensor of rank q >= 1.",
            "Tind is int32 or int64; the page lacks a section on type constraints",
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
        tensor("data", Role.DATA, "T1", _QUANTIZED, "quantized values; uint8: packed, last axis"),
        replace(onnx.INDICES, lowest_rank=0, summary="the slices to copy"),
        tensor("scales", Role.SCALES, "T2", _SCALES, "the scale of each block"),
        tensor(
            "zero_points",
            Role.ZERO_POINTS,
            "T1",
            _QUANTIZED,
            "the zero point of each block; by default 0, or `2 ** (bits - 1)` for uint8",
            optional=True,
        ),
    ),
    outputs=(Output(name="output", type_variable="T2"),),
    attributes=(
        _integer("bits", 4, AttributeRange.BITS, "the bits per number if data is uint8"),
        _integer("block_size", 128, AttributeRange.BLOCK, "the number of elements per block"),
        _integer("gather_axis", 0, AttributeRange.AXIS, "the indexed axis of data"),
        _integer("quantize_axis", 1, AttributeRange.AXIS, "the axis that is divided into blocks"),
    ),
    index_rule=IndexRule(negative=True, outside=Outside.ZEROS),
    summary="Copies slices of a block-quantized array along one axis and converts them to floats, "
    "using the scale and zero point of each block.",
    formula="slices = Gather(numbers of data, indices, axis = gather_axis); "
    "output = (slices - zero point of their block) * scale of their block; "
    "output = 0 where an index is out of bounds",
    source=f"{_PAGE}#com.microsoft.GatherBlockQuantized",
    notes=(
        "The text is from onnxruntime 1.32.",
        "The text calls data, scales and zero_points constants. The kernel and this package accept "
        "any array.",
        "The product is computed in float32 and rounded once to the type of scales.",
        "For uint8, the text requires gather_axis 0 and a different quantize_axis. The kernel and "
        "this package require quantize_axis to be the last axis, along which bytes are packed.",
    ),
    errata=(
        Erratum(
            "Attributes, bits",
            "Must be 2, 4 or 8.",
            "for uint8; for int4 and uint4, the kernel and this package accept only 4",
        ),
        Erratum(
            "Summary, point 5",
            "`gather_axis` and `quantize_axis` must differ",
            "quantize_axis must be the last axis, and data must have at least two axes",
        ),
    ),
)

ROWS = (_gather_nd_1, _gather_block_quantized_1)
