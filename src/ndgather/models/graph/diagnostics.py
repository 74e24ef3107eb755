"""Findings of model checks, their formatting, and known differences between runtimes."""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ndgather.array_call import Kind
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    ShapeError,
    one_line,
)
from ndgather.messages import did_you_mean, listed, shown
from ndgather.models import Array
from ndgather.published.rows import microsoft
from ndgather.published.schema import (
    COMPLEX,
    BatchRule,
    Dim,
    Duplicates,
    Inference,
    OperatorVersion,
    Role,
    TensorType,
)
from ndgather.published.shapes import LARGEST_RANK


class Severity(Enum):
    """The severities of findings, in descending order."""

    ERROR = "error"
    DIFFERS = "differs"
    PORTABLE = "portable"


ERROR, DIFFERS, PORTABLE = Severity
_MEANINGS = {
    ERROR: "the specification does not allow it",
    DIFFERS: "the specification allows it, but runtimes give different results",
    PORTABLE: "it runs, but some runtimes or versions do not support it",
}
_ORDER = {severity: position for position, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a check found."""

    where: str  # the name of the node or layer in the model
    operator: str  # the operator with domain and version, as in "ai.onnx GatherND-13", or empty
    rule: str  # a short name of the violated rule, such as "port" or "index range"
    what: str  # a single-line description of the problem
    severity: Severity
    runtimes: tuple[str, ...] = ()  # the affected runtimes, or an empty tuple for all runtimes
    notes: tuple[Finding, ...] = ()  # the findings that were merged into this finding


class Findings(tuple[Finding, ...]):
    """Findings whose `repr` is the table that ``ndgather check`` prints."""

    __slots__ = ()

    def __repr__(self) -> str:
        return as_text(self)


def rule_of(error: NdgatherError, other: str) -> str:
    """Return the short name of the rule that an error violates, or `other`."""
    match error:
        case IndexOutOfBoundsError():
            return "index range"
        case AttributeValueError():
            return "attributes"
        case ShapeError():
            return "shapes"
        case DTypeError():
            return "types"
    return other


def has_errors(findings: Iterable[Finding]) -> bool:
    return at_least(findings, ERROR)


def at_least(findings: Iterable[Finding], severity: Severity) -> bool:
    return any(_ORDER[finding.severity] <= _ORDER[severity] for finding in findings)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings sorted by descending severity, using a stable sort."""
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def about(findings: Iterable[Finding], runtimes: Sequence[str]) -> list[Finding]:
    """Return the findings that affect all runtimes or any of `runtimes`.

    Each name is a case-insensitive substring, so ``"openvino"`` matches all OpenVINO devices.
    """
    kept = []
    for finding in findings:
        notes = [
            note
            for note in finding.notes or (finding,)
            if not note.runtimes
            or note.severity is ERROR
            or any(_matches(name, known) for known in note.runtimes for name in runtimes)
        ]
        kept += [_joined(notes)] if notes else []
    return kept


_EXCEPT = "all but "


def _matches(name: str, known: str) -> bool:
    """Return whether a name matches a runtime of a note, such as "all but onnxruntime"."""
    exceptions = known.removeprefix(_EXCEPT)
    return (name.lower() in exceptions.lower()) == (exceptions == known)


def _joined(notes: Sequence[Finding]) -> Finding:
    """Merge notes that apply for the same reason, and keep the highest severity."""
    if len(notes) == 1:
        return notes[0]
    first, *others = notes
    return replace(
        first,
        what="; ".join([first.what, *(note.what.partition(_DETAIL)[2] for note in others)]),
        severity=worst_first(notes)[0].severity,
        runtimes=tuple(dict.fromkeys(name for note in notes for name in note.runtimes)),
        notes=tuple(notes),
    )


def fits_32_bits(integers: Array) -> bool:
    """Return whether all values can be represented in int32, without copying `integers`."""
    return not integers.size or bool(integers.min() > -(2**31) and integers.max() < 2**31)


def to_json(findings: Iterable[Finding]) -> list[dict[str, object]]:
    names = ("where", "operator", "rule", "what")
    return [
        {
            **{name: getattr(finding, name) for name in names},
            "severity": finding.severity.value,
            "runtimes": [*finding.runtimes],
        }
        for finding in findings
    ]


def as_text(findings: Sequence[Finding], width: int = 100) -> str:
    """Return a table of the findings, most severe first, followed by a summary.

    Findings that differ only in the node share a row. The last column is wrapped to lines of at
    most `width` characters if the other columns leave enough room. A width of 0 disables wrapping.
    """
    if not findings:
        return summary(findings)
    rows = _rows(findings)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for *cells, text in rows:
        start = "".join(f"{cell:{size}}  " for cell, size in zip(cells, widths, strict=True))
        room = max(width - len(start), 24) if width else max(len(text), 1)
        for line in textwrap.wrap(text, room, break_long_words=False) or [""]:
            lines.append(f"{start}{line}".rstrip())
            start = " " * len(start)
    return "\n".join([*lines, "", summary(findings)])


def _rows(findings: Sequence[Finding]) -> list[tuple[str, str, str, str, str]]:
    groups: dict[Finding, list[str]] = {}
    for finding in worst_first(findings):
        groups.setdefault(replace(finding, where=""), []).append(one_line(finding.where))
    rows = [("severity", "where", "operator", "rule", "what is wrong")]
    for finding, nodes in groups.items():
        where = nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
        text = one_line(_text(finding))
        rows.append((finding.severity.value, where, finding.operator, finding.rule, text))
    return rows


def _text(finding: Finding) -> str:
    runtimes = ", ".join(finding.runtimes)
    return f"{finding.what} [{runtimes}]" if runtimes else finding.what


def summary(findings: Iterable[Finding]) -> str:
    """Return a one-line summary with the number of findings and the meaning of each severity."""
    counts = Counter(finding.severity for finding in findings)
    texts = (f"{counts[x]} {x.value} ({_MEANINGS[x]})" for x in Severity if counts[x])
    return "; ".join(texts) or "nothing found"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCall:
    """The static information about an operator call.

    `declared` contains the types that the model declares. `inferred` contains the inferred types,
    or the declared types if inference fails. `error` is set if the call fails for all inputs.
    `fits_32_bits` is true if int32 can represent all elements of data and updates.
    """

    row: OperatorVersion
    declared: Mapping[Role, TensorType]
    inferred: Mapping[Role, TensorType]
    attributes: Mapping[str, int | str | bool]
    indices: Array | None = None
    error: NdgatherError | None = None
    fits_32_bits: bool = False

    @classmethod
    def of(
        cls,
        row: OperatorVersion,
        types: Sequence[TensorType],
        attributes: Mapping[str, Any],
        inference: Inference | None = None,
        **known: Any,
    ) -> Self:
        """Create a call in which missing attributes have their default values."""
        roles = [item.role for item in row.inputs]
        declared = dict(zip(roles, (*types, *(TensorType(),) * len(roles)), strict=False))
        inferred = dict(zip(roles, inference.inputs, strict=True)) if inference else declared
        defaults = {item.name: item.default for item in row.attributes if item.default is not None}
        attributes = {**defaults, **attributes}
        return cls(row=row, declared=declared, inferred=inferred, attributes=attributes, **known)

    @property
    def dtype(self) -> str | None:
        return self.inferred[Role.DATA].dtype

    @property
    def batch_dims(self) -> int:
        """The value of the attribute, or 0 if the value is larger than any rank."""
        batch_dims = self.attributes.get("batch_dims", 0)
        return batch_dims if isinstance(batch_dims, int) and batch_dims <= LARGEST_RANK else 0

    @property
    def reduction(self) -> str:
        return str(self.attributes.get("reduction", "none"))

    @property
    def depth(self) -> Dim:
        """The length of the index tuples, if known."""
        dims = self.inferred[Role.INDICES].dims
        return dims[-1] if dims else None

    @property
    def axis(self) -> int | None:
        """The indexed axis as a non-negative number, if known."""
        dims = self.inferred[Role.DATA].dims
        if "axis" not in self.attributes and Role.AXIS in self.inferred:
            return None
        axis = self.attributes.get("axis", 0)
        if not isinstance(axis, int):
            return None
        return axis if axis >= 0 else axis + len(dims) if dims else None

    def indexed_axes(self, depth: Dim) -> range | None:
        """Return the indexed axes of data for index tuples of length `depth`."""
        if self.row.kind.tuples:
            first = self.batch_dims
            return range(first, first + depth) if isinstance(depth, int) else None
        return None if self.axis is None else range(self.axis, self.axis + 1)


def _first_entry(indices: Array, meets: NDArray[np.bool_], what: str) -> str | None:
    if not meets.any():
        return None
    position = np.unravel_index(int(np.argmax(meets)), meets.shape)
    return f"indices[{', '.join(map(str, position))}] = {indices[position]} {what}"


def _negative_index(call: KnownCall) -> str | None:
    if call.indices is None or not call.row.index_rule.negative:
        return None
    return _first_entry(call.indices, call.indices < 0, "counts from the end")


def _index_beyond_32_bits(call: KnownCall) -> str | None:
    limits = np.iinfo(np.int32)
    if call.indices is not None:
        beyond = (call.indices > limits.max) | (call.indices < limits.min)
        return _first_entry(call.indices, beyond, "needs more than 32 bits")
    dims = call.inferred[Role.DATA].dims or ()
    for axis in call.indexed_axes(call.depth) or ():
        size = dims[axis] if dims else None
        if isinstance(size, int) and size > limits.max + 1:
            return f"axis {axis} of data has size {size}"
    return None


def _has_dtype(*dtypes: str) -> Callable[[KnownCall], str | None]:
    return lambda call: f"data is {call.dtype}" if call.dtype in dtypes else None


def _string_slices(call: KnownCall) -> str | None:
    dims = call.inferred[Role.DATA].dims
    if call.dtype != "string" or dims is None or call.axis is None:
        return None
    slices = dims[call.axis + 1 :]
    if 0 in slices or all(size == 1 for size in slices):
        return None
    return f"data is string, and an index addresses a slice of shape {shown(slices)}"


def _batch_pairs(call: KnownCall) -> Iterator[tuple[int, Dim, Dim]]:
    data, indices = (call.declared[role].dims for role in (Role.DATA, Role.INDICES))
    for axis in range(call.batch_dims):
        yield axis, data[axis] if data else None, indices[axis] if indices else None


def _batch_sizes_differ(call: KnownCall) -> str | None:
    shapes = [call.declared[role].dims for role in (Role.DATA, Role.INDICES)]
    too_short = any(dims is not None and len(dims) <= call.batch_dims for dims in shapes)
    if call.row.batch_rule is BatchRule.NONE or too_short:
        return None
    for axis, have, take in _batch_pairs(call):
        if isinstance(have, int) and isinstance(take, int) and have != take:
            return f"data has {have} and indices have {take} on batch axis {axis}"
    return None


def _batch_sizes_unproved(call: KnownCall) -> str | None:
    for axis, have, take in _batch_pairs(call):
        if have is None or have != take:
            sizes = " and ".join("?" if size is None else str(size) for size in (have, take))
            return f"sizes {sizes} of batch axis {axis} are not known to be equal"
    return None


def _depth_unknown(call: KnownCall) -> str | None:
    known = isinstance(call.depth, int)
    return None if known else "the length of the index tuples is not known"


def _contributed(call: KnownCall) -> str | None:
    domain = call.row.domain
    return f"the operator is from {domain}" if domain == microsoft.DOMAIN else None


def _smaller_off_axis(call: KnownCall) -> str | None:
    data, indices = (call.inferred[role].dims for role in (Role.DATA, Role.INDICES))
    for axis, (have, take) in enumerate(zip(data or (), indices or (), strict=False)):
        if axis != call.axis and isinstance(have, int) and isinstance(take, int) and take < have:
            return f"indices.shape[{axis}] = {take} is less than data.shape[{axis}] = {have}"
    return None


def _duplicates(call: KnownCall) -> str | None:
    """Describe a position of data that several indices address, if the call has no reduction."""
    if call.row.duplicates is Duplicates.NOT_APPLICABLE or call.reduction != "none":
        return None
    return _repeated(call)


def _repeated(call: KnownCall) -> str | None:
    """Describe a position of data that several indices address."""
    indices, data = call.indices, call.inferred[Role.DATA].dims
    axes = call.indexed_axes(0 if indices is None or not indices.ndim else indices.shape[-1])
    if indices is None or data is None or axes is None:
        return None
    if call.row.kind is Kind.SCATTER_ND:
        positions = indices.reshape(-1, indices.shape[-1]).astype(np.int64)
    else:
        grid = np.indices(indices.shape)
        grid[axes[0]] = indices
        positions = grid.reshape(indices.ndim, -1).T
    for axis in axes:
        size, column = data[axis], positions[:, axis]
        if isinstance(size, int):
            positions[:, axis] = np.where(column < 0, column + size, column)
        elif (column < 0).any():
            return None
    _, first, counts = np.unique(positions, axis=0, return_index=True, return_counts=True)
    if counts.max(initial=0) < 2:
        return None
    position = tuple(positions[first[np.argmax(counts > 1)]].tolist())
    return f"position {position} of data has duplicate indices"


_FEW_UPDATES = 4096  # the number of elements up to which runtimes scatter in a single thread


def _repeated_updates(call: KnownCall) -> str | None:
    """Describe why a scatter with a reduction and many updates may have duplicate indices."""
    sizes = call.inferred[Role.UPDATES].numbers if Role.UPDATES in call.inferred else None
    few = sizes is not None and math.prod(sizes) <= _FEW_UPDATES
    if call.reduction == "none" or few:
        return None
    where = "indices may repeat"
    if call.indices is not None:
        where = _repeated(call) or ""
    return f"reduction is {call.reduction!r}, and {where}" if where else None


def _half_reduction(call: KnownCall) -> str | None:
    compares = call.reduction in {"max", "min"}
    if call.row.kind is Kind.SCATTER_ELEMENTS and call.dtype == "float16" and compares:
        return None
    if call.reduction == "none" or call.dtype not in {"float16", "bfloat16"}:
        return None
    return f"reduction is {call.reduction!r} and data is {call.dtype}"


CONDITIONS: dict[str, Callable[[KnownCall], str | None]] = {
    "index range": lambda call: (
        "an index is out of bounds" if isinstance(call.error, IndexOutOfBoundsError) else None
    ),
    "negative index": _negative_index,
    "index width": _index_beyond_32_bits,
    "64-bit integers": lambda call: (
        None if call.fits_32_bits else _has_dtype("int64", "uint64")(call)
    ),
    "64-bit floats": _has_dtype("float64"),
    "complex data": _has_dtype(*COMPLEX),
    "string data": _has_dtype("string"),
    "string slices": _string_slices,
    "batch sizes": _batch_sizes_differ,
    "batch sizes unproved": _batch_sizes_unproved,
    "batch dims": lambda call: f"batch_dims is {call.batch_dims}" if call.batch_dims else None,
    "empty tuples": lambda call: (
        "the index tuples have length 0" if call.depth == 0 and call.row.lowest_depth > 0 else None
    ),
    "tuple length": _depth_unknown,
    "contributed tuple length": lambda call: _contributed(call) and _depth_unknown(call),
    "contributed operator": _contributed,
    "operator": lambda call: f"the operator is {call.row.name}",
    "off-axis sizes": _smaller_off_axis,
    "duplicates": _duplicates,
    "reduction": lambda call: (
        f"reduction is {call.reduction!r}" if call.reduction != "none" else None
    ),
    "reduction of halves": _half_reduction,
    "repeated updates": _repeated_updates,
}
"""Functions that describe why a call meets the condition of a rule in `RUNTIME_NOTES`."""


class RuntimeNote(NamedTuple):
    """The behavior of runtimes for calls that meet the condition of a rule.

    If `kinds` or `runtimes` is empty, the note applies to all kinds or runtimes. If `operators` is
    not empty, the note applies only to the listed operators. `source` is the URL of the evidence.
    """

    rule: str
    severity: Severity
    kinds: tuple[Kind, ...]
    runtimes: tuple[str, ...]
    what: str
    source: str
    operators: tuple[str, ...] = ()


_FILE = files("ndgather.models.graph").joinpath("runtime_notes.toml")
RUNTIME_NOTES = tuple(
    RuntimeNote(
        rule=row["rule"],
        severity=Severity(row["severity"]),
        kinds=tuple(map(Kind, row.get("kinds", ()))),
        runtimes=tuple(row.get("runtimes", ())),
        what=row["what"],
        source=row["source"],
        operators=tuple(row.get("operators", ())),
    )
    for row in tomllib.loads(_FILE.read_text("utf-8"))["note"]
)


_DETAIL = ": "  # the separator between the reason for a note and the behavior of the runtimes


def runtime_notes(call: KnownCall) -> Iterator[tuple[RuntimeNote, str]]:
    """Yield each note that applies to a call, together with the reason.

    Notes about errors apply to calls that always fail, and other notes apply to all other calls.
    """
    for note in RUNTIME_NOTES:
        of_this_kind = call.row.name in note.operators
        if not note.operators:
            plain = call.row.definition is None
            of_this_kind = not note.kinds or (plain and call.row.kind in note.kinds)
        if of_this_kind and (note.severity is ERROR) != (call.error is None):
            detail = CONDITIONS[note.rule](call)
            if detail is not None:
                yield note, detail


def differing_results(call: KnownCall) -> dict[str, str]:
    """Return a description of each rule that runtimes implement differently for a call."""
    notes = runtime_notes(call)
    return {
        note.rule: f"{detail}{_DETAIL}{note.what}"
        for note, detail in notes
        if note.severity is DIFFERS
    }


def check_runtimes(names: Iterable[str]) -> None:
    """Raise an error if a name does not match any runtime in the notes."""
    listed_in_notes = {runtime for note in RUNTIME_NOTES for runtime in note.runtimes}
    known = sorted(name for name in listed_in_notes if not name.startswith(_EXCEPT))
    for name in names:
        if not any(name.lower() in runtime.lower() for runtime in known):
            raise ModelError(
                f"runtime = {name!r} is not known (allowed: substrings of {listed(known)})"
                f"{did_you_mean(name, known)}"
            )


def noted(
    where: str, operator: str, notes: Iterable[tuple[RuntimeNote, str, tuple[str, ...]]]
) -> Iterator[Finding]:
    """Yield a finding for each reason, after merging the notes that apply for the same reason.

    `notes` contains tuples of a note, the reason why it applies, and the affected runtimes.
    """
    by_reason: dict[tuple[str, str], list[Finding]] = {}
    for note, detail, runtimes in notes:
        what = f"{detail}{_DETAIL}{note.what}"
        finding = Finding(where, operator, note.rule, what, note.severity, runtimes)
        by_reason.setdefault((note.rule, detail), []).append(finding)
    yield from map(_joined, by_reason.values())
