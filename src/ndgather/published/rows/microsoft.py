"""ONNX Runtime's own operators, domain "com.microsoft": GatherND."""

from __future__ import annotations

from ndgather.published.rows.onnx import TENSOR_TYPES
from ndgather.published.schema import (
    Erratum,
    IndexRule,
    Input,
    Kind,
    OperatorVersion,
    Output,
    Outside,
    Role,
)

DOMAIN = "com.microsoft"

_gather_nd_1 = OperatorVersion(
    name="GatherND",
    domain=DOMAIN,
    since=1,
    kind=Kind.GATHER_ND,
    inputs=(
        Input(name="data", role=Role.DATA, type_variable="T", types=TENSOR_TYPES),
        Input(name="indices", role=Role.INDICES, type_variable="Tind", types=("int32", "int64")),
    ),
    outputs=(Output(name="output", type_variable="T"),),
    index_rule=IndexRule(negative=True, outside=Outside.RAISE),
    lowest_depth=0,
    summary="Copies the slices of data that the index tuples on the last axis of indices address; "
    "the only GatherND in ONNX models that takes int32 indices.",
    formula="output[p] = data[*indices[p]] for every p in indices.shape[:-1]; "
    "output.shape = indices.shape[:-1] + data.shape[k:], k = indices.shape[-1]",
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
            place="Summary and Outputs",
            quote="Tensor of rank q-1+r-indices[-1].",
            truth="indices_shape[-1]: the length of a tuple, not an entry of indices",
        ),
        Erratum(
            place="Examples",
            quote="batch_dims=1,",
            truth="the operator has no attributes, and the nodes of the examples carry no "
            'domain="com.microsoft": they are those of ai.onnx GatherND',
        ),
        Erratum(
            place="Inputs",
            quote="indices (heterogeneous) - Tind: Tensor of rank q >= 1.",
            truth="Tind is int32 or int64; the page has no section of type constraints",
        ),
    ),
)

ROWS = (_gather_nd_1,)
