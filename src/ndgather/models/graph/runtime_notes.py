"""What runtimes make of calls that a specification allows, or forbids, whatever the file format.

`RUNTIME_NOTES` is the one table of it: for each condition that a call can meet, what which runtimes
do, and where that can be read. `runtime_notes` says which of them a call meets, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndgather.errors import runtime_errors
from ndgather.models.graph.call_conditions import PREDICATES, Condition, Facts
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeNote:
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

RUNTIME_NOTES = (
    RuntimeNote(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("TensorFlow", "TensorRT"),
        what="TensorFlow and TensorRT give zeros on a GPU",
        severity=_ERROR,
        source="https://www.tensorflow.org/api_docs/python/tf/gather_nd",
        kinds=_GATHERS,
    ),
    RuntimeNote(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("XLA",),
        what="XLA takes the nearest place",
        severity=_ERROR,
        source="https://openxla.org/stablehlo/spec#gather",
        kinds=_GATHERS,
    ),
    RuntimeNote(
        condition=Condition.INDEX_OUTSIDE,
        runtimes=("OpenVINO",),
        what="OpenVINO reads memory without a check",
        severity=_ERROR,
        source="https://github.com/openvinotoolkit/openvino/pull/38297",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("TensorFlow",),
        what="TensorFlow refuses it on a CPU and gives zeros on a GPU",
        severity=_DIFFERS,
        source="https://github.com/tensorflow/tensorflow/issues/11101",
        kinds=(Kind.GATHER_ND, Kind.GATHER),
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("XLA",),
        what="XLA takes it as 0",
        severity=_DIFFERS,
        source="https://openxla.org/stablehlo/spec#gather",
        kinds=_GATHERS,
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("torch.gather",),
        what="torch.gather refuses it",
        severity=_PORTABLE,
        source="https://github.com/pytorch/pytorch/issues/55143",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("LiteRT",),
        what="LiteRT (TFLite) refuses it",
        severity=_PORTABLE,
        source="https://github.com/PINTO0309/onnx2tf/pull/277",
        kinds=(Kind.GATHER_ND, Kind.GATHER),
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("OpenVINO before June 2025",),
        what="OpenVINO GatherND-8 was specified without negative values",
        severity=_PORTABLE,
        source="https://github.com/openvinotoolkit/openvino/pull/30764",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.NEGATIVE_INDEX,
        runtimes=("OpenVINO before June 2025",),
        what="OpenVINO GatherElements-6 was specified without negative values",
        severity=_PORTABLE,
        source="https://github.com/openvinotoolkit/openvino/pull/30800",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    RuntimeNote(
        condition=Condition.INDEX_BEYOND_32_BITS,
        runtimes=("TensorRT",),
        what="TensorRT casts indices to 32 bits where data is not int64",
        severity=_DIFFERS,
        source="https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/operators/Gather.html",
        kinds=_GATHERS,
    ),
    RuntimeNote(
        condition=Condition.WIDE_INTEGERS,
        runtimes=("OpenVINO CPU",),
        what="OpenVINO cuts it to 32 bits on a CPU",
        severity=_DIFFERS,
        source="https://github.com/openvinotoolkit/openvino/issues/35837",
    ),
    RuntimeNote(
        condition=Condition.WIDE_FLOATS,
        runtimes=("OpenVINO CPU",),
        what="the CPU plugin of OpenVINO has no type wider than float32",
        severity=_DIFFERS,
        source="https://docs.openvino.ai/2024/openvino-workflow/running-inference/"
        "inference-devices-and-modes/cpu-device.html",
    ),
    RuntimeNote(
        condition=Condition.COMPLEX_DATA,
        runtimes=("onnxruntime",),
        what="onnxruntime has no complex tensors",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md",
    ),
    RuntimeNote(
        condition=Condition.STRINGS,
        runtimes=("TensorRT",),
        what="TensorRT has no strings",
        severity=_PORTABLE,
        source="https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/operators/Gather.html",
    ),
    RuntimeNote(
        condition=Condition.BATCH_SIZES_DIFFER,
        runtimes=("onnxruntime", _ONNX_IN_OPENVINO),
        what="onnxruntime runs it where the numbers of slices divide, and the ONNX frontend of "
        "OpenVINO where one size is 1, so the model may seem to work",
        severity=_ERROR,
        source="https://github.com/openvinotoolkit/openvino/pull/32660",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.BATCH_SIZES_UNPROVED,
        runtimes=("onnxruntime", _ONNX_IN_OPENVINO),
        what="where they differ and one is 1, onnxruntime and the ONNX frontend of OpenVINO "
        "repeat it; the specification refuses it",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/issues/25053",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.BATCH_DIMS,
        runtimes=("onnxruntime symbolic_shape_infer",),
        what="the symbolic shape inference of onnxruntime ignores it and declares a wrong shape",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/24206",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.DEPTH_ZERO,
        runtimes=("onnxruntime",),
        what="onnxruntime copies all of data for each",
        severity=_ERROR,
        source="https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/"
        "tensor/gather_nd.cc",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.DEPTH_UNKNOWN,
        runtimes=("TensorRT",),
        what="TensorRT has to know it when it builds",
        severity=_PORTABLE,
        source="https://docs.nvidia.com/deeplearning/tensorrt/api/c_api/"
        "classnvinfer1_1_1_i_gather_layer.html",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.CONTRIBUTED_DEPTH_UNKNOWN,
        runtimes=("onnxruntime",),
        what="the shape inference of onnxruntime takes it as 0 and declares a wrong shape",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/graph/"
        "contrib_ops/contrib_defs.cc",
        kinds=(Kind.GATHER_ND,),
    ),
    RuntimeNote(
        condition=Condition.CONTRIBUTED,
        runtimes=("all but onnxruntime",),
        what="only onnxruntime has it",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md",
    ),
    RuntimeNote(
        condition=Condition.SMALLER_OFF_AXIS,
        runtimes=("OpenVINO", "numpy.take_along_axis", "onnx.reference"),
        what="OpenVINO and numpy.take_along_axis refuse it, as onnx.reference did until "
        "September 2026",
        severity=_PORTABLE,
        source="https://github.com/onnx/onnx/pull/8444",
        kinds=(Kind.GATHER_ELEMENTS,),
    ),
    RuntimeNote(
        condition=Condition.DUPLICATES,
        runtimes=(),
        what="which update stays is not defined",
        severity=_DIFFERS,
        source="https://github.com/onnx/onnx/issues/3234",
        kinds=(Kind.SCATTER_ND, Kind.SCATTER_ELEMENTS),
    ),
    RuntimeNote(
        condition=Condition.REDUCTION,
        runtimes=("TensorRT",),
        what="the scatter layer of TensorRT has no reduction",
        severity=_PORTABLE,
        source="https://github.com/onnx/onnx-tensorrt/issues/957",
        kinds=(Kind.SCATTER_ND,),
    ),
    RuntimeNote(
        condition=Condition.HALF_REDUCTION,
        runtimes=("onnxruntime CPU",),
        what="onnxruntime does not have it on a CPU",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/32025",
        kinds=(Kind.SCATTER_ELEMENTS,),
    ),
    RuntimeNote(
        condition=Condition.HALF_REDUCTION,
        runtimes=("onnxruntime CPU",),
        what="onnxruntime does not have it on a CPU",
        severity=_PORTABLE,
        source="https://github.com/microsoft/onnxruntime/pull/32065",
        kinds=(Kind.SCATTER_ND,),
    ),
)


def runtime_notes(facts: Facts) -> Iterator[tuple[RuntimeNote, str]]:
    """Yield what runtimes do with a call, each with what about the call it is true for.

    Notes on forbidden calls come only where the call is refused, all others only where it
    is not.
    """
    for note in RUNTIME_NOTES:
        if note.kinds and facts.row.kind not in note.kinds:
            continue
        if (note.severity is Severity.ERROR) == (facts.refusal is None):
            continue
        detail = PREDICATES[note.condition](facts)
        if detail is not None:
            yield note, detail


def check_runtimes(names: Iterable[str]) -> None:
    """Refuse a name of a runtime that no note is about.

    Raises
    ------
    ModelError
        Nothing is known of a runtime of that name.
    """
    known = sorted({runtime for note in RUNTIME_NOTES for runtime in note.runtimes})
    for name in names:
        if not any(name.lower() in each.lower() for each in known):
            raise runtime_errors.nothing_known_of(name, known)


def finding(
    where: str, operator: str, note: RuntimeNote, detail: str, runtimes: Sequence[str]
) -> Finding:
    """Return what `runtime_notes` says of a call as a finding."""
    return Finding(
        where=where,
        operator=operator,
        rule=note.condition.value,
        what=f"{detail}: {note.what}",
        severity=note.severity,
        runtimes=tuple(runtimes),
    )
