"""ONNX Runtime's own operators, domain "com.microsoft": GatherND."""

from __future__ import annotations

from dataclasses import replace

from ndgather.published.rows import onnx
from ndgather.published.schema import Erratum

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

ROWS = (_gather_nd_1,)
