"""What runtimes make of calls that a specification allows, or forbids, whatever the file format.

`REMARKS` is the one table of it: for each condition that a call can meet, what which runtimes
do, and where that can be read. `remarks` says which of them a call meets, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from ndgather.models.graph.diagnostics import Severity
from ndgather.published.rows import microsoft
from ndgather.published.schema import (
    COMPLEX,
    BatchRule,
    Duplicates,
    Kind,
    OperatorVersion,
    Role,
)
from ndgather.published.symbolic_dims import LARGEST_RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ndgather.published.tensor_types import Dim, TensorType

Array = NDArray[Any]

_INT32 = np.iinfo(np.int32)


class Condition(StrEnum):
    """What can be true of a call. The values are the names of rules in findings."""

    INDEX_OUTSIDE = "index range"
    NEGATIVE_INDEX = "negative index"
    INDEX_BEYOND_32_BITS = "index width"
    WIDE_INTEGERS = "64-bit integers"
    WIDE_FLOATS = "64-bit floats"
    COMPLEX_DATA = "complex data"
    STRINGS = "string data"
    BATCH_SIZES_DIFFER = "batch sizes"
    BATCH_SIZES_UNPROVED = "batch sizes unproved"
    BATCH_DIMS = "batch dims"
    DEPTH_ZERO = "empty tuples"
    DEPTH_UNKNOWN = "tuple length"
    CONTRIBUTED_DEPTH_UNKNOWN = "contributed tuple length"
    CONTRIBUTED = "contributed operator"
    SMALLER_OFF_AXIS = "off-axis sizes"
    DUPLICATES = "duplicates"
    REDUCTION = "reduction"
    HALF_REDUCTION = "reduction of halves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What some runtimes do with a call that meets a condition.

    `kinds` are the kinds of operators it is true of; empty where it is every one. No runtimes
    means every one. `source` is where it can be read.
    """

    condition: Condition
    runtimes: tuple[str, ...]
    what: str
    severity: Severity
    source: str
    kinds: tuple[Kind, ...] = ()


_ERROR, _DIFFERS, _PORTABLE = Severity.ERROR, Severity.DIFFERS, Severity.PORTABLE
_ONNX_IN_OPENVINO = "ONNX frontend of OpenVINO"  # of an IR it knows nothing
_GATHERS = (Kind.GATHER_ND, Kind.GATHER_ELEMENTS, Kind.GATHER)

REMARKS = (
    Remark(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("TensorFlow", "TensorRT"),
        what="TensorFlow and TensorRT give zeros on a GPU",
        severity=_ERROR,
        source="https://www.tensorflow.org/api_docs/python/tf/gather_nd",
        kinds=_GATHERS,
    ),
    Remark(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("XLA",),
        what="XLA takes the nearest place",
        severity=_ERROR,
        source="https://openxla.org/stablehlo/spec#gather",
        kinds=_GATHERS,
    ),
    Remark(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("OpenVINO",),
        what="OpenVINO reads memory without a check",
        severity=_ERROR,
        source="https://github.com/openvinotoolkit/openvino/pull/38297",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("TensorFlow",),
        what="TensorFlow refuses it on a CPU and gives zeros on a GPU",
        severity=_DIFFERS,
        source="https://github.com/tensorflow/tensorflow/issues/11101",
        kinds=(Kind.GATHER_ND, Kind.GATHER),
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("XLA",),
        what="XLA takes it as 0",
        severity=_DIFFERS,
        source="https://openxla.org/stablehlo/spec#gather",
        kinds=_GATHERS,
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("torch.gather",),
        what="torch.gather refuses it",
        severity=_PORTABLE,
        source="https://github.com/pytorch/pytorch/issues/55143",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("LiteRT",),
        what="LiteRT (TFLite) refuses it",
        severity=_PORTABLE,
        source="https://github.com/PINTO0309/onnx2tf/pull/277",
        kinds=(Kind.GATHER_ND, Kind.GATHER),
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("OpenVINO before June 2025",),
        what="OpenVINO GatherND-8 was specified without negative values",
        severity=_PORTABLE,
        source="https://github.com/openvinotoolkit/openvino/pull/30764",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("OpenVINO before June 2025",),
        what="OpenVINO GatherElements-6 was specified without negative values",
        severity=_PORTABLE,
        source="https://github.com/openvinotoolkit/openvino/pull/30800",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    Remark(
        condition=Condition.INDEX_BEYOND_32_BITS,
        runtimes=("TensorRT",),
        what="TensorRT casts indices to 32 bits where data is not int64",
        severity=_DIFFERS,
        source="https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/operators/Gather.html",
        kinds=_GATHERS,
    ),
    Remark(
        condition=Condition.WIDE_INTEGERS,
        runtimes=("OpenVINO CPU",),
        what="OpenVINO cuts it to 32 bits on a CPU",
        severity=_DIFFERS,
        source="https://github.com/openvinotoolkit/openvino/issues/35837",
    ),
    Remark(
        condition=Condition.WIDE_FLOATS,
        runtimes=("OpenVINO CPU",),
        what="the CPU plugin of OpenVINO has no type wider than float32",
        severity=_DIFFERS,
        source="https://docs.openvino.ai/2024/openvino-workflow/running-inference/"
        "inference-devices-and-modes/cpu-device.html",
    ),
    Remark(
        condition=Condition.COMPLEX_DATA,
        runtimes=("onnxruntime",),
        what="onnxruntime has no complex tensors",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md",
    ),
    Remark(
        condition=Condition.STRINGS,
        runtimes=("TensorRT",),
        what="TensorRT has no strings",
        severity=_PORTABLE,
        source="https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/operators/Gather.html",
    ),
    Remark(
        condition=Condition.BATCH_SIZES_DIFFER,
        runtimes=("onnxruntime", _ONNX_IN_OPENVINO),
        what="onnxruntime runs it where the numbers of slices divide, and the ONNX frontend of "
        "OpenVINO where one size is 1, so the model may seem to work",
        severity=_ERROR,
        source="https://github.com/openvinotoolkit/openvino/pull/32660",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.BATCH_SIZES_UNPROVED,
        runtimes=("onnxruntime", _ONNX_IN_OPENVINO),
        what="where they differ and one is 1, onnxruntime and the ONNX frontend of OpenVINO "
        "repeat it; the specification refuses it",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/issues/25053",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.BATCH_DIMS,
        runtimes=("onnxruntime symbolic_shape_infer",),
        what="the symbolic shape inference of onnxruntime ignores it and declares a wrong shape",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/24206",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.DEPTH_ZERO,
        runtimes=("onnxruntime",),
        what="onnxruntime copies all of data for each",
        severity=_ERROR,
        source="https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/"
        "tensor/gather_nd.cc",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.DEPTH_UNKNOWN,
        runtimes=("TensorRT",),
        what="TensorRT has to know it when it builds",
        severity=_PORTABLE,
        source="https://docs.nvidia.com/deeplearning/tensorrt/api/c_api/"
        "classnvinfer1_1_1_i_gather_layer.html",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.CONTRIBUTED_DEPTH_UNKNOWN,
        runtimes=("onnxruntime",),
        what="the shape inference of onnxruntime takes it as 0 and declares a wrong shape",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/graph/"
        "contrib_ops/contrib_defs.cc",
        kinds=(Kind.GATHER_ND,),
    ),
    Remark(
        condition=Condition.CONTRIBUTED,
        runtimes=("all but onnxruntime",),
        what="only onnxruntime has it",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md",
    ),
    Remark(
        condition=Condition.SMALLER_OFF_AXIS,
        runtimes=("OpenVINO", "numpy.take_along_axis", "onnx.reference"),
        what="OpenVINO and numpy.take_along_axis refuse it, as onnx.reference did until "
        "September 2026",
        severity=_PORTABLE,
        source="https://github.com/onnx/onnx/pull/8444",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    Remark(
        condition=Condition.DUPLICATES,
        runtimes=(),
        what="which update stays is not defined",
        severity=_DIFFERS,
        source="https://github.com/onnx/onnx/issues/3234",
        kinds=(Kind.SCATTER_ND, Kind.SCATTER_ELEMENTS),
    ),
    Remark(
        condition=Condition.REDUCTION,
        runtimes=("TensorRT",),
        what="the scatter layer of TensorRT has no reduction",
        severity=_PORTABLE,
        source="https://github.com/onnx/onnx-tensorrt/issues/957",
        kinds=(Kind.SCATTER_ND,),
    ),
    Remark(
        condition=Condition.HALF_REDUCTION,
        runtimes=("onnxruntime CPU",),
        what="onnxruntime does not have it on a CPU",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/32025",
        kinds=(Kind.SCATTER_ELEMENTS,),
    ),
    Remark(
        condition=Condition.HALF_REDUCTION,
        runtimes=("onnxruntime CPU",),
        what="onnxruntime does not have it on a CPU",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/32065",
        kinds=(Kind.SCATTER_ND,),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a call, and the refusal if no such call can run.

    `declared` are the types as the model says them, `inferred` what follows; the same where
    the call is refused.
    """

    row: OperatorVersion
    declared: Mapping[Role, TensorType]
    inferred: Mapping[Role, TensorType]
    attributes: Mapping[str, int | str | bool]
    indices: Array | None = None
    refusal: NdgatherError | None = None

    @property
    def dtype(self) -> str | None:
        return self.inferred[Role.DATA].dtype

    @property
    def batch_dims(self) -> int:
        """The attribute, where it is a number of axes that an array can have."""
        batch_dims = self.attributes.get("batch_dims", 0)
        return batch_dims if isinstance(batch_dims, int) and batch_dims <= LARGEST_RANK else 0

    @property
    def reduction(self) -> str:
        return str(self.attributes.get("reduction", "none"))

    @property
    def by_tuple(self) -> bool:
        return self.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}

    @property
    def depth(self) -> Dim:
        """The length of an index tuple, where it is known."""
        dims = _dims(self.inferred[Role.INDICES])
        return dims[-1] if dims else None

    def axis(self) -> int | None:
        """Return the axis that is indexed, counted from the front, where its rank is known."""
        dims = _dims(self.inferred[Role.DATA])
        if "axis" not in self.attributes and Role.AXIS in self.inferred:  # an input, not known
            return None
        axis = int(self.attributes.get("axis", 0))
        return axis if axis >= 0 else axis + len(dims) if dims else None


def remarks(facts: Facts) -> Iterator[tuple[Remark, str]]:
    """Yield what runtimes do with a call, each with what about the call it is true for.

    Remarks of forbidden calls come only where the call is refused, all others only where it
    is not.
    """
    for remark in REMARKS:
        if remark.kinds and facts.row.kind not in remark.kinds:
            continue
        if (remark.severity is Severity.ERROR) == (facts.refusal is None):
            continue
        detail = _PREDICATES[remark.condition](facts)
        if detail is not None:
            yield remark, detail


def _dims(known: TensorType) -> tuple[Dim, ...] | None:
    return known.shape if isinstance(known.shape, tuple) else None


def _index_outside(facts: Facts) -> str | None:
    outside = isinstance(facts.refusal, IndexOutOfBoundsError)
    return "an index is outside its axis" if outside else None


def _negative_index(facts: Facts) -> str | None:
    if facts.indices is None or not facts.row.index_rule.negative:
        return None
    return _first_entry(facts.indices, facts.indices < 0, "counts from the end")


def _first_entry(indices: Array, meets: NDArray[np.bool_], what: str) -> str | None:
    if not meets.any():
        return None
    place = np.unravel_index(int(np.argmax(meets)), meets.shape)
    return f"indices[{', '.join(map(str, place))}] = {indices[place]} {what}"


def _index_beyond_32_bits(facts: Facts) -> str | None:
    if facts.indices is not None:
        beyond = (facts.indices > _INT32.max) | (facts.indices < _INT32.min)
        return _first_entry(facts.indices, beyond, "needs more than 32 bits")
    dims, depth = _dims(facts.inferred[Role.DATA]), facts.depth
    if dims is None:
        return None
    axes = range(facts.batch_dims, facts.batch_dims + depth if isinstance(depth, int) else 0)
    if not facts.by_tuple:
        axis = facts.axis()
        axes = range(0) if axis is None else range(axis, axis + 1)
    for axis in axes:
        size = dims[axis]
        if isinstance(size, int) and size > _INT32.max + 1:
            return f"axis {axis} of data has size {size}"
    return None


def _has_dtype(*dtypes: str) -> Callable[[Facts], str | None]:
    return lambda facts: f"data is {facts.dtype}" if facts.dtype in dtypes else None


def _batch_pairs(facts: Facts) -> Iterator[tuple[int, Dim, Dim]]:
    data, indices = (_dims(facts.declared[role]) for role in (Role.DATA, Role.INDICES))
    for axis in range(facts.batch_dims):
        yield axis, data[axis] if data else None, indices[axis] if indices else None


def _batch_sizes_differ(facts: Facts) -> str | None:
    if facts.row.batch_rule is BatchRule.NONE or not _batch_axes_exist(facts):
        return None
    for axis, have, take in _batch_pairs(facts):
        if isinstance(have, int) and isinstance(take, int) and have != take:
            return f"data has {have} and indices have {take} on batch axis {axis}"
    return None


def _batch_axes_exist(facts: Facts) -> bool:
    both = (_dims(facts.declared[role]) for role in (Role.DATA, Role.INDICES))
    return all(dims is None or len(dims) > facts.batch_dims for dims in both)


def _batch_sizes_unproved(facts: Facts) -> str | None:
    for axis, have, take in _batch_pairs(facts):
        if have is None or have != take:
            sizes = " and ".join("?" if size is None else str(size) for size in (have, take))
            return f"sizes {sizes} of batch axis {axis} are not known to be equal"
    return None


def _batch_dims(facts: Facts) -> str | None:
    return f"batch_dims is {facts.batch_dims}" if facts.batch_dims else None


def _depth_zero(facts: Facts) -> str | None:
    none = facts.depth == 0 and facts.row.lowest_depth > 0
    return "the index tuples have length 0" if none else None


def _depth_unknown(facts: Facts) -> str | None:
    if isinstance(facts.depth, int):
        return None
    return "the length of the index tuples is not known"


def _contributed_depth_unknown(facts: Facts) -> str | None:
    return _depth_unknown(facts) if _contributed(facts) else None


def _contributed(facts: Facts) -> str | None:
    domain = facts.row.domain
    return f"the operator is of {domain}" if domain == microsoft.DOMAIN else None


def _smaller_off_axis(facts: Facts) -> str | None:
    data, indices = (_dims(facts.inferred[role]) for role in (Role.DATA, Role.INDICES))
    for axis, (have, take) in enumerate(zip(data or (), indices or (), strict=False)):
        if axis != facts.axis() and isinstance(have, int) and isinstance(take, int) and take < have:
            return f"indices.shape[{axis}] = {take} is less than data.shape[{axis}] = {have}"
    return None


def _duplicates(facts: Facts) -> str | None:
    """Say which two updates have one place, where no reduction says what they come to."""
    if facts.row.duplicates is Duplicates.NOT_APPLICABLE or facts.reduction != "none":
        return None
    data = _dims(facts.inferred[Role.DATA])
    if facts.indices is None or data is None:
        return None
    places = _places(facts, facts.indices, data)
    if places is None:
        return None
    _, first, counts = np.unique(places, axis=0, return_index=True, return_counts=True)
    if counts.max(initial=0) < 2:
        return None
    place = tuple(int(at) for at in places[first[np.argmax(counts > 1)]])
    return f"the indices name place {place} of data more than once"


def _places(facts: Facts, indices: Array, data: tuple[Dim, ...]) -> Array | None:
    """Return one row for each update: the place that it goes to, counted from the front."""
    axis = facts.axis()
    if facts.by_tuple:
        axes, places = range(indices.shape[-1]), indices.reshape(-1, indices.shape[-1])
    elif axis is None:
        return None
    else:
        grid = [column.ravel() for column in np.indices(indices.shape)]
        grid[axis] = indices.ravel()
        axes, places = range(axis, axis + 1), np.stack(grid, axis=-1)
    places = places.astype(np.int64)
    for each in axes:
        size = data[each]
        column = places[:, each]
        if isinstance(size, int):
            places[:, each] = np.where(column < 0, column + size, column)
        elif (column < 0).any():
            return None
    return places


def _reduction(facts: Facts) -> str | None:
    return f"reduction is {facts.reduction!r}" if facts.reduction != "none" else None


def _half_reduction(facts: Facts) -> str | None:
    compares = facts.reduction in {"max", "min"}
    if facts.row.kind is Kind.SCATTER_ELEMENTS and facts.dtype == "float16" and compares:
        return None
    if facts.reduction == "none" or facts.dtype not in {"float16", "bfloat16"}:
        return None
    return f"reduction is {facts.reduction!r} and data is {facts.dtype}"


_PREDICATES: dict[Condition, Callable[[Facts], str | None]] = {
    Condition.INDEX_OUTSIDE: _index_outside,
    Condition.NEGATIVE_INDEX: _negative_index,
    Condition.INDEX_BEYOND_32_BITS: _index_beyond_32_bits,
    Condition.WIDE_INTEGERS: _has_dtype("int64", "uint64"),
    Condition.WIDE_FLOATS: _has_dtype("float64"),
    Condition.COMPLEX_DATA: _has_dtype(*COMPLEX),
    Condition.STRINGS: _has_dtype("string"),
    Condition.BATCH_SIZES_DIFFER: _batch_sizes_differ,
    Condition.BATCH_SIZES_UNPROVED: _batch_sizes_unproved,
    Condition.BATCH_DIMS: _batch_dims,
    Condition.DEPTH_ZERO: _depth_zero,
    Condition.DEPTH_UNKNOWN: _depth_unknown,
    Condition.CONTRIBUTED_DEPTH_UNKNOWN: _contributed_depth_unknown,
    Condition.CONTRIBUTED: _contributed,
    Condition.SMALLER_OFF_AXIS: _smaller_off_axis,
    Condition.DUPLICATES: _duplicates,
    Condition.REDUCTION: _reduction,
    Condition.HALF_REDUCTION: _half_reduction,
}
