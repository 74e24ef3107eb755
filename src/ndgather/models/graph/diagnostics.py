"""What a check of a model found, whatever file the model came from; as a table and as data."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    ShapeError,
)
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, one_line
from ndgather.models.graph.calls import PREDICATES, Condition, Facts
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_TITLES = ("severity", "where", "operator", "rule", "what is wrong")
_GAP = "  "
_NARROWEST = 24


class Severity(Enum):
    """How bad a finding is; the worst comes first."""

    ERROR = "error"
    DIFFERS = "differs"
    PORTABLE = "portable"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Severity.ERROR: "the specification does not allow it",
    Severity.DIFFERS: "the specification allows it, and runtimes give different results",
    Severity.PORTABLE: "it runs, and some runtimes or versions do not take it",
}
_LEVELS = {Severity.ERROR: "error", Severity.DIFFERS: "warning", Severity.PORTABLE: "note"}
_ORDER = {severity: place for place, severity in enumerate(Severity)}


# The first class that an error belongs to names the rule that is broken.
_RULES = (
    (IndexOutOfBoundsError, "index range"),
    (AttributeValueError, "attributes"),
    (ShapeError, "shapes"),
    (DTypeError, "types"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found.

    Attributes
    ----------
    where : str
        The node or layer, as its model names it.
    operator : str
        The operator with its version and domain, as ``"ai.onnx GatherND-13"``; empty where the
        finding is about no operator.
    rule : str
        A short name of the rule that is broken, such as ``"port"`` or ``"index range"``.
    what : str
        What is wrong, on one line.
    severity : Severity
    runtimes : tuple of str
        The runtimes that are affected; empty where it is every one.
    """

    where: str
    operator: str
    rule: str
    what: str
    severity: Severity
    runtimes: tuple[str, ...] = ()


def rule_of(error: NdgatherError, other: str) -> str:
    """Return the short name of the rule that an error is about, or `other`."""
    return next((rule for kind, rule in _RULES if isinstance(error, kind)), other)


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(each.severity is Severity.ERROR for each in findings)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity; those of one severity stay in their order."""
    return sorted(findings, key=lambda each: _ORDER[each.severity])


def to_json(findings: Iterable[Finding]) -> list[dict[str, object]]:
    """Return what `json.dump` writes: one object for each finding, in their order."""
    return [
        {**asdict(each), "severity": each.severity.value, "runtimes": list(each.runtimes)}
        for each in findings
    ]


def table(findings: Sequence[Finding], width: int = 100) -> str:
    """Return the findings as text, worst first, with a last line that counts them.

    Findings that differ in their node only stand in one row.

    Parameters
    ----------
    findings : sequence of Finding
    width : int, default 100
        The longest line, where the columns leave room for that; the last column is broken
        into several lines. 0 keeps every finding on one line.
    """
    rows = [
        (each.severity.value, where, each.operator, each.rule, one_line(_what(each)))
        for each, where in _grouped(worst_first(findings))
    ]
    if not rows:
        return summary(findings)
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)]
    before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    lines = []
    for *cells, what in (_TITLES, *rows):
        start = _GAP.join(cell.ljust(size) for cell, size in zip(cells, widths, strict=False))
        room = max(width - before, _NARROWEST) if width else max(len(what), 1)
        for part in textwrap.wrap(what, room, break_long_words=False) or [""]:
            lines.append(f"{start}{_GAP}{part}".rstrip())
            start = " " * len(start)
    return "\n".join([*lines, "", summary(findings)])


def _grouped(findings: Iterable[Finding]) -> list[tuple[Finding, str]]:
    """Return one finding for all that differ in their node only, with the places it is about."""
    groups: dict[Finding, list[str]] = {}
    for each in findings:
        groups.setdefault(replace(each, where=""), []).append(one_line(each.where))
    return [
        (finding, places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more")
        for finding, places in groups.items()
    ]


def about(findings: Iterable[Finding], runtimes: Sequence[str]) -> list[Finding]:
    """Return the findings that matter to some runtimes: those of every runtime, and theirs.

    A runtime is named as in a finding, in any letters: ``"openvino"`` stands for every device of
    OpenVINO.
    """
    wanted = [each.lower() for each in runtimes]
    return [
        each
        for each in findings
        if not each.runtimes
        or each.severity is Severity.ERROR
        or any(name in known.lower() for known in each.runtimes for name in wanted)
    ]


def at_least(findings: Iterable[Finding], severity: Severity) -> bool:
    """Return whether a finding is as bad as `severity`."""
    return any(_ORDER[each.severity] <= _ORDER[severity] for each in findings)


def to_sarif(found: Mapping[str, Sequence[Finding]], version: str) -> dict[str, object]:
    """Return findings by the names of their models as a SARIF 2.1.0 log."""
    rules = sorted({each.rule for findings in found.values() for each in findings})
    results = [
        {
            "ruleId": each.rule,
            "level": _LEVELS[each.severity],
            "message": {"text": one_line(_what(each))},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": model}},
                    "logicalLocations": [{"fullyQualifiedName": each.where, "kind": "element"}],
                }
            ],
            "properties": {"operator": each.operator, "severity": each.severity.value},
        }
        for model, findings in found.items()
        for each in worst_first(findings)
    ]
    driver = {"name": "ndgather", "version": version, "rules": [{"id": rule} for rule in rules]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _what(finding: Finding) -> str:
    runtimes = ", ".join(finding.runtimes)
    return f"{finding.what} [{runtimes}]" if runtimes else finding.what


def summary(findings: Iterable[Finding]) -> str:
    """Count the findings of each severity in one line, and say what a severity means."""
    counts = Counter(each.severity for each in findings)
    parts = [
        f"{counts[severity]} {severity.value} ({severity.meaning})"
        for severity in Severity
        if counts[severity]
    ]
    return "; ".join(parts) or "nothing found"


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
    """Refuse a name of a runtime that no note is about."""
    known = sorted({runtime for note in RUNTIME_NOTES for runtime in note.runtimes})
    for name in names:
        if not any(name.lower() in each.lower() for each in known):
            raise ModelError(
                f"runtime = {name!r} is not known (allowed: parts of {listed(known)})"
                f"{did_you_mean(name, known)}"
            )


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
