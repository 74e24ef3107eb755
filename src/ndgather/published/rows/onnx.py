"""ONNX: GatherND, GatherElements, Gather, ScatterND, ScatterElements, TensorScatter.

A row contains only the changes since the previous version. In models, the domain may also be an
empty string.
"""

from __future__ import annotations

from dataclasses import replace

from ndgather.array_call import Kind
from ndgather.published import definitions
from ndgather.published.schema import (
    COMPLEX,
    FLOATS,
    FLOATS_8,
    INTEGERS,
    Attribute,
    AttributeRange,
    AttributeType,
    BatchRule,
    Duplicates,
    Erratum,
    IndexRule,
    Input,
    OffAxisRule,
    OperatorVersion,
    Output,
    Outside,
    Role,
    reduction_attribute,
    tensor,
)

DOMAIN = "ai.onnx"
ALIASES = {"": DOMAIN}

TENSOR_TYPES = (*INTEGERS, *FLOATS, "bool", "string", *COMPLEX)
_WITH_BFLOAT16 = (*TENSOR_TYPES, "bfloat16")
_CHANGELOG = "https://github.com/onnx/onnx/blob/main/docs/Changelog.md"

DATA = Input(name="data", role=Role.DATA, type_variable="T", types=TENSOR_TYPES)
_INDICES_64 = Input(
    name="indices", role=Role.INDICES, type_variable="tensor(int64)", types=("int64",)
)
INDICES = Input(name="indices", role=Role.INDICES, type_variable="Tind", types=("int32", "int64"))
_UPDATES = Input(
    name="updates", role=Role.UPDATES, type_variable="T", types=TENSOR_TYPES, lowest_rank=0
)
_DATA_13 = replace(DATA, types=_WITH_BFLOAT16)
_UPDATES_13 = replace(_UPDATES, types=_WITH_BFLOAT16)

AXIS = Attribute(
    name="axis",
    type=AttributeType.INT,
    range=AttributeRange.AXIS,
    default=0,
    summary="the indexed axis of data; a negative value counts from the last axis",
)
BATCH_DIMS = Attribute(
    name="batch_dims",
    type=AttributeType.INT,
    range=AttributeRange.BATCH_BELOW_RANKS,
    default=0,
    summary="the number of leading axes that data and indices share; index tuples address the axes "
    "after them",
)
_REDUCTION_16 = reduction_attribute("none", "add", "mul")
_REDUCTION_18 = reduction_attribute("none", "add", "mul", "max", "min")

_FROM_BOTH_ENDS = IndexRule(negative=True, outside=Outside.RAISE)

_ANY_TYPE = Erratum(
    "Type Constraints",
    "Constrain input and output types to any tensor type.",
    "the list lacks some tensor types: 8-bit and 4-bit floats, 4-bit integers and, before version "
    "13, bfloat16",
)
_NO_RANK_CONDITION = Erratum(
    "Summary, point 1",
    "There is no dependency condition to be met between ranks `r` and `q`",
    "later points relate the ranks: an index tuple is at most as long as the number of axes that "
    "it can address, and b < min(q, r) since version 12",
)
_INVERSE_OF_SCATTER_ND = Erratum(
    "Summary",
    "This operator is the inverse of `ScatterND`.",
    "only for distinct index tuples and batch_dims = 0, because ScatterND has no batch_dims",
)
_ZERO_SIZES = (
    "The text does not mention sizes of 0. By the formula, the result is empty if there are no {}, "
    "and any {} into an axis of size 0 is out of bounds, even if the slice that it would copy is "
    "empty."
)
_ALWAYS_CHECKED_NOTE = (
    "According to the text, an out-of-bounds index is always an error, so this package raises an "
    "error even if the result has no elements."
)
_RANK_0_NOTE = (
    "Indices may have any rank. By the formula, the result has one axis less than data if they "
    "have rank 0. Indices of shape (1,) keep the axis with size 1."
)
_LEAST_DEPTH_NOTE = (
    "The text requires index tuples of length 1 or more and does not define an empty index tuple, "
    "for which this package raises an error."
)

gather_nd_11 = OperatorVersion(
    name="GatherND",
    domain=DOMAIN,
    since=11,
    kind=Kind.GATHER_ND,
    inputs=(DATA, _INDICES_64),
    index_rule=_FROM_BOTH_ENDS,
    lowest_depth=1,
    summary="Copies the slices of data that index tuples along the last axis of indices select.",
    formula="output[p] = data[*indices[p]] for every p in indices.shape[:-1]; "
    "output.shape = indices.shape[:-1] + data.shape[k:], k = indices.shape[-1]",
    source=f"{_CHANGELOG}#GatherND-11",
    notes=(_LEAST_DEPTH_NOTE, _ZERO_SIZES.format("tuples", "tuple"), _ALWAYS_CHECKED_NOTE),
    errata=(
        _NO_RANK_CONDITION,
        Erratum(
            "output, case 2",
            "Let us think of each such `r` ranked tensor as `indices_slice`.",
            "each is a tensor of rank 1 and length r",
        ),
        _INVERSE_OF_SCATTER_ND,
        _ANY_TYPE,
    ),
)
gather_nd_12 = gather_nd_11.version(
    12,
    attributes=(BATCH_DIMS,),
    batch_rule=BatchRule.EQUAL,
    summary="Copies the slices of data that index tuples along the last axis of indices select, "
    "separately for each batch if data and indices share leading axes.",
    formula="output[p] = data[*p[:b], *indices[p]] for every p in indices.shape[:-1]; "
    "output.shape = indices.shape[:-1] + data.shape[b+k:], b = batch_dims, "
    "k = indices.shape[-1]",
    notes=(
        _LEAST_DEPTH_NOTE,
        _ZERO_SIZES.format("tuples", "tuple"),
        _ALWAYS_CHECKED_NOTE,
        "The text does not provide for negative batch_dims: the attribute is a number of axes, and "
        "this package raises an error for negative values. Some tools infer a wrong shape from "
        "them.",
        "Batch axes must have equal sizes. It is not enough that they could be broadcast or have "
        "equal products; some runtimes accept both.",
    ),
    errata=(
        Erratum(
            "Outputs",
            "Tensor of rank q + r - indices_shape[-1] - 1.",
            "q + r - indices_shape[-1] - 1 - b, as the Summary has it",
        ),
        Erratum(
            "Summary, point 5",
            "-data_shape[i] <= indices[...,i] <= data_shape[i] - 1",
            "data_shape[b+i], because index tuples address the axes after the batch axes",
        ),
        Erratum(
            "output, cases 2 and 3",
            "data[0:b-1,indices_slice]",
            "a coordinate for each batch axis instead of a slice: data[p[0], ..., p[b-1], *tuple]",
        ),
        Erratum(
            "output, case 2",
            "Let us think of each such `r-b` ranked tensor as `indices_slice`.",
            "each is a tensor of rank 1 and length r-b",
        ),
        Erratum(
            "output, case 3",
            "filled into the corresponding location of the `(q-b-1)`-dimensional tensor",
            "the output has rank q-1 + r-b-k; q-b-1 counts only its middle axes",
        ),
        _NO_RANK_CONDITION,
        Erratum(
            "Summary and attribute batch_dims",
            "the gather starts from the `b+1` dimension",
            "the axis with index b; the Summary counts axes from 1, but the attribute from 0",
        ),
        _INVERSE_OF_SCATTER_ND,
        Erratum(
            "Summary, point 4",
            "should have a value between 1 (inclusive) and rank `r-b` (inclusive)",
            "only a value above r-b is called an error; the effect of 0 is not defined",
        ),
        _ANY_TYPE,
    ),
)
gather_nd_13 = gather_nd_12.version(
    13,
    inputs=(_DATA_13, _INDICES_64),
)

_OFF_AXIS_NOTE = (
    "The text does not relate the sizes of indices and data on the other axes. There, the "
    "equations read data at the coordinates of the position itself. Therefore indices may be "
    "smaller and then address the leading part of data; larger indices would be out of bounds, and "
    "nothing is broadcast."
)
_INVERSE_OF_SCATTER_ELEMENTS = Erratum(
    "Summary", "This operator is also the inverse of ScatterElements.", "for distinct indices only"
)
_LIKE_TORCH_GATHER = Erratum(
    "Summary",
    "It is similar to Torch's gather operation.",
    "torch.gather raises an error for negative indices, and it states a rule for the other axes",
)

gather_elements_11 = OperatorVersion(
    name="GatherElements",
    domain=DOMAIN,
    since=11,
    kind=Kind.GATHER_ELEMENTS,
    inputs=(DATA, INDICES),
    attributes=(AXIS,),
    index_rule=_FROM_BOTH_ENDS,
    off_axis_rule=OffAxisRule.AT_MOST,
    summary="Copies one element of data for each element of indices, which replaces one coordinate "
    "of its own position.",
    formula="output[p] = data[*p[:axis], indices[p], *p[axis+1:]] for every p in "
    "indices.shape; output.shape = indices.shape",
    source=f"{_CHANGELOG}#GatherElements-11",
    notes=(_OFF_AXIS_NOTE, _ALWAYS_CHECKED_NOTE),
    errata=(
        Erratum(
            "Examples 1 and 2",
            "output = [ [ [1, 1], [4, 3], ], ]",
            "a superfluous pair of brackets: the outputs have shapes (2, 2) and (2, 3)",
        ),
        _LIKE_TORCH_GATHER,
        _INVERSE_OF_SCATTER_ELEMENTS,
        _ANY_TYPE,
    ),
)
gather_elements_13 = gather_elements_11.version(
    13,
    inputs=(_DATA_13, INDICES),
    errata=(_LIKE_TORCH_GATHER, _INVERSE_OF_SCATTER_ELEMENTS, _ANY_TYPE),
)

gather_1 = OperatorVersion(
    name="Gather",
    domain=DOMAIN,
    since=1,
    kind=Kind.GATHER,
    inputs=(DATA, replace(INDICES, lowest_rank=0)),
    attributes=(AXIS,),
    index_rule=IndexRule(negative=False, outside=Outside.RAISE),
    summary="Copies whole slices of data along one axis, which the axes of indices replace.",
    formula="output[o, p, s] = data[o, indices[p], s]; "
    "output.shape = data.shape[:axis] + indices.shape + data.shape[axis+1:]",
    source=f"{_CHANGELOG}#Gather-1",
    notes=(
        "The text requires indices within bounds but does not name the bounds. Version 11 "
        "introduced the range [-s, s-1], and runtimes with this version raised errors for negative "
        "values, so this package assumes [0, s-1].",
    ),
    errata=(_ANY_TYPE,),
)
gather_11 = gather_1.version(
    11,
    index_rule=_FROM_BOTH_ENDS,
    notes=(_RANK_0_NOTE, _ZERO_SIZES.format("indices", "index"), _ALWAYS_CHECKED_NOTE),
)
gather_13 = gather_11.version(
    13,
    inputs=(_DATA_13, replace(INDICES, lowest_rank=0)),
    errata=(
        Erratum(
            "Summary, table",
            "output[r, s, q] = data[ [indices[r, s], q]",
            "data[indices[r, s], q], without the stray bracket, as in the next row",
        ),
        _ANY_TYPE,
    ),
)

scatter_nd_11 = OperatorVersion(
    name="ScatterND",
    domain=DOMAIN,
    since=11,
    kind=Kind.SCATTER_ND,
    inputs=(DATA, _INDICES_64, _UPDATES),
    index_rule=IndexRule(negative=True, outside=Outside.UNDEFINED),
    duplicates=Duplicates.FORBIDDEN,
    summary="Copies data and replaces the slices that the index tuples select with the updates.",
    formula="output = copy of data; output[*indices[p]] = updates[p] for every p in "
    "indices.shape[:-1]; updates.shape = indices.shape[:-1] + data.shape[k:], "
    "k = indices.shape[-1]",
    source=f"{_CHANGELOG}#ScatterND-11",
    notes=(
        "The text expects indices in the valid range and does not define the effect of others. "
        "This package raises an error.",
        "Unlike in GatherND, index tuples have no minimum length: with k = 0, each update replaces "
        "the whole tensor.",
    ),
    errata=(_ANY_TYPE,),
)
scatter_nd_13 = scatter_nd_11.version(
    13,
    inputs=(_DATA_13, _INDICES_64, _UPDATES_13),
)
_REDUCTION_NOTE = (
    "The text does not define max and min of NaN, or reductions of bool, string and complex data."
)
scatter_nd_16 = scatter_nd_13.version(
    16,
    attributes=(_REDUCTION_16,),
    duplicates=Duplicates.FORBIDDEN_WITHOUT_REDUCTION,
    summary="Copies data and replaces the slices that the index tuples select with the updates, or "
    "combines them with the updates.",
    formula="output = copy of data; output[*indices[p]] = f(output[*indices[p]], updates[p]) "
    "for every p in indices.shape[:-1], in any order; "
    "updates.shape = indices.shape[:-1] + data.shape[k:], k = indices.shape[-1]",
    notes=(*scatter_nd_13.notes, _REDUCTION_NOTE),
)
scatter_nd_18 = scatter_nd_16.version(
    18,
    attributes=(_REDUCTION_18,),
    errata=(
        Erratum(
            "attribute reduction",
            "'mul':  reduction using the addition operation.",
            "multiplication instead of addition",
        ),
        _ANY_TYPE,
    ),
)

scatter_elements_11 = OperatorVersion(
    name="ScatterElements",
    domain=DOMAIN,
    since=11,
    kind=Kind.SCATTER_ELEMENTS,
    inputs=(DATA, INDICES, _UPDATES),
    attributes=(AXIS,),
    index_rule=_FROM_BOTH_ENDS,
    off_axis_rule=OffAxisRule.AT_MOST,
    duplicates=Duplicates.SILENT,
    summary="Copies data and replaces one element for each element of updates: the element at the "
    "same position, except that the coordinate along axis is taken from indices.",
    formula="output = copy of data; output[*p[:axis], indices[p], *p[axis+1:]] = updates[p] "
    "for every p in indices.shape; updates.shape = indices.shape",
    source=f"{_CHANGELOG}#ScatterElements-11",
    notes=(_OFF_AXIS_NOTE,),
)
scatter_elements_13 = scatter_elements_11.version(
    13,
    inputs=(_DATA_13, INDICES, _UPDATES_13),
)
scatter_elements_16 = scatter_elements_13.version(
    16,
    attributes=(AXIS, _REDUCTION_16),
    duplicates=Duplicates.FORBIDDEN_WITHOUT_REDUCTION,
    formula="output = copy of data; output[*p[:axis], indices[p], *p[axis+1:]] = f(the element "
    "there, updates[p]) for every p in indices.shape; updates.shape = indices.shape",
    notes=(_OFF_AXIS_NOTE, _REDUCTION_NOTE),
)
scatter_elements_18 = scatter_elements_16.version(
    18,
    attributes=(AXIS, _REDUCTION_18),
)

_OF_4_BITS = ("float4_e2m1fn", "int4", "uint4")
_CACHE_TYPES = (*_WITH_BFLOAT16, *FLOATS_8, "float8_e8m0fnu", *_OF_4_BITS)
_CACHE = tensor("past_cache", Role.DATA, "T", _CACHE_TYPES, "axis 0 is the batch", lowest_rank=2)
_tensor_scatter_24 = OperatorVersion(
    name="TensorScatter",
    domain=DOMAIN,
    since=24,
    kind=Kind.SCATTER_ND,
    definition=definitions.TENSOR_SCATTER,
    inputs=(
        _CACHE,
        replace(_CACHE, name="update", role=Role.UPDATES, summary="the new rows of each batch"),
        replace(
            _INDICES_64,
            name="write_indices",
            optional=True,
            summary="the first position of the new rows in each batch; by default 0",
        ),
    ),
    outputs=(Output(name="present_cache", type_variable="T"),),
    attributes=(
        replace(
            AXIS,
            range=AttributeRange.SEQUENCE_AXIS,
            default=-2,
            summary="the sequence axis, which must not be the batch axis",
        ),
        Attribute(
            name="mode",
            type=AttributeType.STRING,
            range=AttributeRange.CHOICE,
            default="linear",
            words=("linear", "circular"),
            summary="whether rows past the end of the cache wrap around",
        ),
    ),
    index_rule=IndexRule(negative=False, outside=Outside.UNDEFINED),
    summary="Copies a cache and writes new rows into it, starting at a separate position in each "
    "batch.",
    formula="present_cache = copy of past_cache; "
    "present_cache[n, *p, (w[n] + t) % S, *q] = update[n, *p, t, *q] for each position of update; "
    "w = write_indices, S = past_cache.shape[axis]; % S applies only in mode circular",
    source=f"{_CHANGELOG}#TensorScatter-24",
    notes=(
        "In mode linear, write_indices + sequence_length <= max_sequence_length is required. For "
        "other values, which the text does not define, this package raises an error. Negative "
        "values raise an error as well, although the pseudocode would count them from the end.",
        "In mode circular, any value is taken modulo the size of the axis. This includes negative "
        "values, for which onnxruntime raises an error.",
        "Axis -r raises an error because it is the batch axis, like 0.",
        "`convert --target` replaces it with ScatterND or GatherND and further nodes.",
    ),
    errata=(
        Erratum(
            "Summary, pseudocode",
            "present_cache[cache_idx] = update[update_idx]",
            "present_cache must first be a copy of past_cache",
        ),
        Erratum(
            "Summary, pseudocode",
            "cache_sequence_idx = write_indices[batch_idx] + sequence_idx",
            "0 instead of write_indices[batch_idx] if write_indices is omitted",
        ),
    ),
)

ROWS = (
    gather_nd_11,
    gather_nd_12,
    gather_nd_13,
    gather_elements_11,
    gather_elements_13,
    gather_1,
    gather_11,
    gather_13,
    scatter_nd_11,
    scatter_nd_13,
    scatter_nd_16,
    scatter_nd_18,
    scatter_elements_11,
    scatter_elements_13,
    scatter_elements_16,
    scatter_elements_18,
    _tensor_scatter_24,
)
