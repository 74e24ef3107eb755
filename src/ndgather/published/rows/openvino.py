"""OpenVINO: GatherND, GatherElements, Gather, ScatterNDUpdate, ScatterElementsUpdate, and others.

A row contains only the changes of its version, and an operator's first row contains the differences
from ONNX. In OpenVINO, the axis of Gather and ScatterElementsUpdate is an input.
"""

from __future__ import annotations

from dataclasses import replace

from ndgather.array_call import Kind
from ndgather.published import definitions
from ndgather.published.rows import onnx
from ndgather.published.schema import (
    FLOATS,
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

DOMAIN = "openvino"

_NUMBERS = (
    *INTEGERS,
    "int4",
    "uint4",
    "uint2",
    *FLOATS,
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float4_e2m1fn",
)
_ANY = (*_NUMBERS, "bool", "string")
_PAGES = (
    "https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/"
    "operation-specs/movement"
)

_DATA = Input(name="data", role=Role.DATA, type_variable="T", types=_ANY)
_INDICES = Input(name="indices", role=Role.INDICES, type_variable="T_IND", types=INTEGERS)
_UPDATES = Input(name="updates", role=Role.UPDATES, type_variable="T", types=_ANY)
_AXIS = Input(
    name="axis",
    role=Role.AXIS,
    type_variable="T_AXIS",
    types=INTEGERS,
    lowest_rank=0,
    summary="a scalar or a single element: the indexed axis of data; a negative value counts from "
    "the last axis",
)

_FROM_THE_FRONT = IndexRule(negative=False, outside=Outside.UNDEFINED)
_FROM_BOTH_ENDS = IndexRule(negative=True, outside=Outside.RAISE)

_TYPES_NOTE = (
    "This package accepts the supported types that exist as array dtypes; indices may have 8 to 64 "
    "bits."
)
_UNDEFINED_NOTE = (
    "Indices must be in range, but the effect of other values is not defined. This package raises "
    "an error, even if the result is empty; the CPU plugin reads out-of-bounds memory or returns "
    "zeros."
)

_gather_nd_5 = replace(
    onnx.gather_nd_12,
    domain=DOMAIN,
    since=5,
    inputs=(_DATA, _INDICES),
    index_rule=_FROM_THE_FRONT,
    batch_rule=BatchRule.FUSED,
    lowest_depth=0,
    summary="Copies the slices of data that index tuples along the last axis of indices select; "
    "several batch axes become a single axis of the result.",
    formula="slices[p] = data[*p[:b], *indices[p]] for every p in indices.shape[:-1]; "
    "output = slices.reshape(output.shape); "
    "output.shape = f + indices.shape[b:-1] + data.shape[b+k:], "
    "f = (prod(indices.shape[:b]),) if b > 1 else indices.shape[:b], b = batch_dims, "
    "k = indices.shape[-1]",
    source=f"{_PAGES}/gather-nd-5.html",
    notes=(
        "The page allows batch axes to be broadcast, but its output shape depends only on indices, "
        "which is correct only for equal axes, and the implementation raises an error for others. "
        "This package requires equal batch axes.",
        "Several batch axes are fused in the result. The page itself calls that incorrect and "
        "refers to version 8, but this package follows the text.",
        "There is no minimum length for index tuples; an empty one copies a whole batch of data.",
        _UNDEFINED_NOTE,
        "Negative indices are outside the stated range [0, s-1] and raise an error; the CPU "
        "plugin counts them from the end.",
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "attribute batch_dims",
            "to be broadcastable",
            "to be equal: if data has batch size N and indices have batch size 1, the stated "
            "output shape has batch size 1",
        ),
        Erratum(
            "attribute batch_dims, note",
            "use the :doc:`GatherND_8 <gather-8>` operation",
            "the link leads to Gather-8 instead of GatherND-8",
        ),
        Erratum(
            "Detailed description",
            "`indices.shape[-1] <= data.rank`",
            "indices.shape[-1] <= data.rank - batch_dims",
        ),
    ),
)
_gather_nd_8 = _gather_nd_5.version(
    8,
    index_rule=replace(_FROM_THE_FRONT, negative=True),
    batch_rule=BatchRule.EQUAL,
    summary=onnx.gather_nd_12.summary,
    formula=onnx.gather_nd_12.formula,
    notes=(
        "Older revisions of the page state the range [0, s-1]. Pull request 30764 of June 2025 "
        "changed it to [-s, s-1] in the same version. Like the CPU plugin, this package counts "
        "negative indices from the end.",
        "The newest revision of the page calls batch axes broadcastable (equal, or one of them 1), "
        "whereas earlier revisions require them to be equal. The output shape still depends only "
        "on indices, which is correct only for equal axes, and since pull request 32660 of "
        "November 2025 the operator itself still raises an error for others: the ONNX frontend "
        "broadcasts data and indices before it. This package requires equal batch axes.",
        "There is no minimum length for index tuples; an empty one copies a whole batch of data.",
        _UNDEFINED_NOTE,
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "Detailed description",
            "output[i_0, ..., i_{K-2},:,...,:] = data[indices[i_0, ..., i_{K-2}],:,...,:]",
            "only for batch_dims = 0; otherwise data[i_0, ..., i_{b-1}, "
            "indices[i_0, ..., i_{K-2}],:,...,:]",
        ),
        Erratum(
            "Detailed description",
            "indices.shape[-1] <= data.rank",
            "indices.shape[-1] <= data.rank - batch_dims",
        ),
        Erratum("Inputs", "in the range ``[0, s-1]``", "[-s, s-1] since June 2025"),
        Erratum(
            "Example 6",
            "<--- the second batch, shape = (2, 3, 4)",
            "there are six batches because batch_dims = 2; the label belongs to example 5",
        ),
    ),
)

_gather_elements_6 = replace(
    onnx.gather_elements_11,
    domain=DOMAIN,
    since=6,
    inputs=(_DATA, replace(_INDICES, types=("int32", "int64"))),
    attributes=(replace(onnx.AXIS, default=None, required=True),),
    off_axis_rule=OffAxisRule.EQUAL,
    source=f"{_PAGES}/gather-elements-6.html",
    notes=(
        "Older revisions of the page state the range [0, s-1]. Pull request 30800 of June 2025 "
        "added negative indices to the page, the reference and the CPU plugin in the same version. "
        "This package counts them from the end.",
        "Indices are expected to be within bounds. For other values, the CPU plugin throws an "
        "exception, and this package raises an error.",
        "The sizes must be equal except along axis; smaller indices, which ONNX allows, raise an "
        "error.",
    ),
    errata=(
        Erratum(
            "Detailed description",
            "Optional attribute ``axis``",
            "the attribute is required and has no default",
        ),
    ),
)

_AXIS_ONE = Erratum(
    "Inputs",
    "*axis* equal to 1 means that gathering is performed over the first dimension",
    "over the second dimension, which has index 1",
)

_gather_1 = replace(
    onnx.gather_1,
    domain=DOMAIN,
    inputs=(_DATA, replace(_INDICES, lowest_rank=0), _AXIS),
    attributes=(),
    index_rule=_FROM_THE_FRONT,
    source=f"{_PAGES}/gather-1.html",
    notes=(
        _UNDEFINED_NOTE,
        "The page names no types; this package accepts the types of version 7.",
        _TYPES_NOTE,
    ),
    errata=(
        Erratum("Inputs", "``[0, input1[axis] - 1]``", "[0, input1.shape[axis] - 1]"),
        _AXIS_ONE,
    ),
)
_gather_7 = _gather_1.version(
    7,
    attributes=(
        Attribute(
            name="batch_dims",
            type=AttributeType.INT,
            range=AttributeRange.BATCH_UP_TO_AXIS,
            default=0,
            summary="the number of leading axes that data and indices share; the rank of indices "
            "is added to a negative value",
        ),
    ),
    batch_rule=BatchRule.EQUAL,
    summary="Copies whole slices of data along one axis, which the axes of indices replace, "
    "separately for each batch if data and indices share leading axes.",
    formula="output[o, p, s] = data[o, indices[o[:b], p], s]; output.shape = "
    "data.shape[:axis] + indices.shape[b:] + data.shape[axis+1:], b = batch_dims",
    notes=(
        _UNDEFINED_NOTE,
        "The page calls the operator identical to the one of TensorFlow. If TensorFlow leaves the "
        "effect of an index to the device, this package raises an error.",
        _TYPES_NOTE,
    ),
    errata=(
        Erratum("Inputs", "``[0, data[axis] - 1]``", "[0, data.shape[axis] - 1]"),
        _AXIS_ONE,
    ),
)
_gather_8 = _gather_7.version(
    8,
    index_rule=IndexRule(negative=True, outside=Outside.ZEROS),
    notes=(
        "An index outside [-s, s-1] results in zeros (example 7): false for bool and an empty "
        "string for strings. Along an axis of size 0, every index results in zeros.",
        _TYPES_NOTE,
    ),
    errata=(_AXIS_ONE,),
)

_NUMERIC_NOTE = "This package takes numeric types to exclude bool and string."
_LEAST_RANK_NOTE = (
    "The page allows data of any rank, but rank 0 is excluded because there is no axis to index."
)
_SCATTER_INDICES = replace(_INDICES, types=("int32", "int64"))

_scatter_nd_update_3 = replace(
    onnx.scatter_nd_11,
    name="ScatterNDUpdate",
    domain=DOMAIN,
    since=3,
    inputs=(
        replace(_DATA, types=_NUMBERS),
        _SCATTER_INDICES,
        replace(_UPDATES, types=_NUMBERS, lowest_rank=0),
    ),
    index_rule=_FROM_THE_FRONT,
    duplicates=Duplicates.UNDEFINED,
    one_element_updates=True,
    source=f"{_PAGES}/scatter-nd-update-3.html",
    notes=(
        _UNDEFINED_NOTE,
        "There is no minimum length for index tuples. By the formula, the update for an empty one "
        "replaces the whole tensor, whereas the CPU plugin changes nothing.",
        _NUMERIC_NOTE,
        _TYPES_NOTE,
    ),
    errata=(),
)
_scatter_nd_update_15 = _scatter_nd_update_3.version(
    15,
    inputs=(
        replace(_DATA, types=(*_NUMBERS, "bool")),
        _SCATTER_INDICES,
        replace(_UPDATES, types=(*_NUMBERS, "bool"), lowest_rank=0),
    ),
    attributes=(reduction_attribute("none", "sum", "sub", "prod", "min", "max"),),
    index_rule=_FROM_BOTH_ENDS,
    duplicates=Duplicates.ANY_ORDER,
    summary=onnx.scatter_nd_16.summary,
    formula=onnx.scatter_nd_16.formula,
    notes=(
        "There is no minimum length for index tuples. By the formula, the update for an empty one "
        "is combined with the whole tensor.",
        "This package takes numeric types to exclude string but include bool, for which the page "
        "defines sum, sub and prod as OR, XOR and AND.",
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "Example 1",
            "output  = [1, 11, 3, 10, 4, 6, 13, 12]",
            "[1, 11, 3, 10, 14, 6, 13, 12], or 9 instead of 14: index 4 occurs twice, its updates "
            "are applied in any order, and neither of them is 4",
        ),
        Erratum(
            "XML example 1",
            "values: [50, 20, 20, 4]",
            "[50, 40, 20, 4], or with another of the duplicate updates; also, the shape of indices "
            "should be (5, 1) instead of (5,)",
        ),
        Erratum(
            "Detailed description, snippet",
            "func(tuple(out[indices[ndidx]]), updates[ndidx])",
            "func(out[tuple(indices[ndidx])], updates[ndidx])",
        ),
        Erratum("Inputs", "``len(data.shape[j] + index)``", "data.shape[j] + index"),
    ),
)

_scatter_elements_update_3 = replace(
    onnx.scatter_elements_11,
    name="ScatterElementsUpdate",
    domain=DOMAIN,
    since=3,
    inputs=(
        replace(_DATA, types=_NUMBERS),
        _INDICES,
        replace(_UPDATES, types=_NUMBERS),
        _AXIS,
    ),
    attributes=(),
    index_rule=IndexRule(negative=False, outside=Outside.RAISE),
    off_axis_rule=OffAxisRule.AT_MOST_EVERYWHERE,
    duplicates=Duplicates.ANY_ORDER,
    formula="output = copy of data; output[*p[:axis], indices[p], *p[axis+1:]] = updates[p] "
    "for every p in indices.shape, in any order; updates.shape = indices.shape",
    source=f"{_PAGES}/scatter-elements-update-3.html",
    notes=(
        "No size of updates may exceed the size of data, not even along axis; version 12 removes "
        "the limit along axis.",
        _LEAST_RANK_NOTE,
        _NUMERIC_NOTE,
        _TYPES_NOTE,
    ),
)
_scatter_elements_update_12 = _scatter_elements_update_3.version(
    12,
    inputs=(_DATA, _INDICES, _UPDATES, _AXIS),
    attributes=(
        reduction_attribute("none", "sum", "prod", "min", "max", "mean"),
        Attribute(
            name="use_init_val",
            type=AttributeType.BOOL,
            range=AttributeRange.FLAG,
            default=True,
            summary="whether the original element of data takes part in the reduction",
        ),
    ),
    index_rule=_FROM_BOTH_ENDS,
    off_axis_rule=OffAxisRule.AT_MOST,
    summary="Copies data and, for each element of updates, replaces one element or combines both: "
    "the element at the same position, except that the coordinate along axis is taken from "
    "indices.",
    formula="output = copy of data; output[*p[:axis], indices[p], *p[axis+1:]] = f(the element "
    "there, updates[p]) for every p in indices.shape, in any order; "
    "updates.shape = indices.shape",
    notes=(
        "The mean of integers is rounded down. The sum and prod of bool are OR and AND, and the "
        "mean of bool is not supported.",
        _LEAST_RANK_NOTE,
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "Detailed description, 2D case, axis = 1",
            "reduction(updates[i][j], output[indices[i][j]][j]) if axis = 1",
            "reduction(updates[i][j], output[i][indices[i][j]])",
        ),
        Erratum("Inputs", "``len(data.shape[axis] + index)``", "data.shape[axis] + index"),
    ),
)

_scatter_update_3 = replace(
    _scatter_elements_update_3,
    name="ScatterUpdate",
    inputs=(
        replace(_DATA, types=_NUMBERS),
        replace(_INDICES, lowest_rank=0, summary="the positions along `axis` to replace"),
        replace(_UPDATES, types=_NUMBERS, lowest_rank=0, summary="a slice for each index"),
        _AXIS,
    ),
    off_axis_rule=OffAxisRule.FREE,
    duplicates=Duplicates.UNDEFINED,
    definition=definitions.SCATTER_UPDATE,
    summary="Copies data and replaces the slices along one axis that the indices select.",
    formula="output = copy of data; output[*o, indices[p], *s] = updates[*o, *p, *s]; for every "
    "o in data.shape[:axis], p in indices.shape and s in data.shape[axis+1:]",
    source=f"{_PAGES}/scatter-update-3.html",
    notes=(
        "Indices may have any rank, as in case 1 of the page; the CPU plugin raises an error for "
        "rank 0.",
        "The order of updates of the same slice is undefined; this package applies them in the "
        "order of the indices.",
        _LEAST_RANK_NOTE,
        _NUMERIC_NOTE,
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "Detailed description",
            "data[..., indices[m, n, ..., p], ...] = updates[..., m, n, ..., p, ...]",
            "output[...] on the left, because data is copied, as the short description says",
        ),
        Erratum(
            "Detailed description, case 3",
            "data[indices[i], ..., j], ...] = updates[i, ..., j, ...]",
            "data[indices[i, ..., j], ...] = updates[i, ..., j, ...]",
        ),
    ),
)
_slice_scatter_15 = OperatorVersion(
    name="SliceScatter",
    domain=DOMAIN,
    since=15,
    kind=Kind.SCATTER_ND,
    definition=definitions.SLICE_SCATTER,
    inputs=(
        replace(_DATA, types=_NUMBERS),
        replace(_UPDATES, types=_NUMBERS, summary="the elements of the slice"),
        tensor("start", Role.START, "T_IND", INTEGERS, "the first position on each axis"),
        tensor("stop", Role.STOP, "T_IND", INTEGERS, "the position after the last"),
        tensor("step", Role.STEP, "T_IND", INTEGERS, "the distance between positions"),
        tensor("axes", Role.AXES, "T_AXIS", INTEGERS, "default: the leading axes", optional=True),
    ),
    index_rule=IndexRule(negative=True, outside=Outside.CLAMPED),
    summary="Copies data and replaces a strided slice, given by start, stop and step on each axis.",
    formula="output = copy of data; output[start[0]:stop[0]:step[0], start[1]:stop[1]:step[1], "
    "...] = updates; the slices apply to the axes of data that axes lists",
    source=f"{_PAGES}/slice-scatter-15.html",
    notes=(
        "Updates must have the shape of the slice, as the section on inputs requires; the code on "
        "the page also broadcasts them.",
        "Start and stop are clamped to both ends of an axis, as in Python. Example 2 needs this, "
        "although the section on inputs mentions only the upper end.",
        "The CPU plugin of 2026.4.1 returns data unchanged if the limits are not constants and all "
        "shapes are static.",
        _NUMERIC_NOTE,
        _TYPES_NOTE,
    ),
    errata=(
        Erratum(
            "Example 3",
            "<dim>1</dim>  <!-- values: [0, 1] -->",
            "<dim>2</dim>; stop and step also have two values",
        ),
        Erratum(
            "Inputs, start and stop",
            "A value larger than the size of a dimension is silently clamped.",
            "a value before the beginning is clamped as well: see -25 in example 2",
        ),
    ),
)

_TOKENS = (*INTEGERS, *FLOATS, "bfloat16")
_gather_tree_1 = OperatorVersion(
    name="GatherTree",
    domain=DOMAIN,
    since=1,
    kind=Kind.GATHER_ELEMENTS,
    definition=definitions.GATHER_TREE,
    inputs=(
        tensor("step_ids", Role.DATA, "T", _TOKENS, "the token for each step, batch and beam"),
        tensor("parent_ids", Role.INDICES, "T", _TOKENS, "the beam in the previous step"),
        tensor("max_seq_len", Role.LENGTHS, "T", _TOKENS, "the number of steps of each batch"),
        tensor("end_token", Role.END, "T", _TOKENS, "ends a beam and fills the remaining steps"),
    ),
    outputs=(
        Output(name="final_ids", type_variable="T", summary="the tokens of each beam, in order"),
    ),
    index_rule=_FROM_THE_FRONT,
    summary="Traces each beam of a beam search back from the last step to the first.",
    formula="output[t, n, b] = step_ids[t, n, beam(t)], for t < L = min(T, max_seq_len[n]); "
    "beam(L-1) = b; beam(t-1) = parent_ids[t, n, beam(t)]; "
    "output[t, n, b] = end_token for t >= L and after the first end_token of a beam",
    source=f"{_PAGES}/gather-tree-1.html",
    notes=(
        "The operator is a chain of gathers, each of which provides the indices of the next. This "
        "package computes it step by step with NumPy.",
        "If max_seq_len is 0 or less, the batch has only end tokens, as in TensorFlow. In this "
        "case, the pseudocode reads step -1, and the CPU plugin of 2026.4.1 returns uninitialized "
        "memory.",
        "The text does not define the effect of an out-of-bounds parent. Like the CPU plugin, this "
        "package raises an error if the step is read.",
        "Floats must have integer values.",
    ),
    errata=(
        Erratum(
            "Detailed description",
            "a given input tensor ``step_id``",
            "step_ids, which is the name of the input",
        ),
        Erratum(
            "Detailed description, pseudocode",
            "parent = parent_ids[max_sequence_in_beam - 1, batch, beam]",
            "only if max_sequence_in_beam is at least 1",
        ),
        Erratum(
            "Types",
            "*T*: any supported numeric type.",
            "with integer values, as the section on inputs notes",
        ),
    ),
)

ROWS = (
    _gather_nd_5,
    _gather_nd_8,
    _gather_elements_6,
    _gather_1,
    _gather_7,
    _gather_8,
    _scatter_nd_update_3,
    _scatter_nd_update_15,
    _scatter_elements_update_3,
    _scatter_elements_update_12,
    _scatter_update_3,
    _slice_scatter_15,
    _gather_tree_1,
)
