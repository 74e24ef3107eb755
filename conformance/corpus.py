"""Load the cases, with tensors as NumPy arrays. README.md defines the format."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = NDArray[Any]
RefusalKind: TypeAlias = Literal["index", "shape", "type", "attribute"]

FOLDER = Path(__file__).with_name("cases")
FORMAT = 1
STRING = "string"
_OF_ML_DTYPES = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorName:
    """The operator of a case; functions of ndgather have no version."""

    domain: str
    name: str
    version: int | None

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.domain}.{self.name}"
        return f"{self.domain} {self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """The JSON record of a tensor."""

    record: Mapping[str, Any]

    @property
    def dtype(self) -> str:
        return str(self.record["dtype"])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.record["shape"])

    def array(self) -> Array:
        """Return the elements as a new array in the memory layout of the record."""
        array = self._elements(dtype_of(self.dtype)).reshape(self.shape)
        layout = self.record.get("layout")
        return array if layout is None else _arranged(array, layout)

    def _elements(self, dtype: np.dtype[Any]) -> Array:
        record = self.record
        if "bits" in record:
            bits = [int(digits, 16) for digits in record["bits"]]
            return np.array(bits, f"u{dtype.itemsize}").view(dtype)
        if "sequence" in record:
            return _sequence(math.prod(self.shape), **record["sequence"]).astype(dtype)
        if dtype.kind == "c":
            return np.array([complex(*parts) for parts in record["values"]], dtype)
        return np.array(record["values"], dtype)


def _sequence(
    count: int,
    *,
    start: int,
    step: int,
    modulo: int | None = None,
    exceptions: Sequence[tuple[int, int]] = (),
) -> Array:
    elements = start + step * np.arange(count)
    if modulo is not None:
        elements %= modulo
    for position, value in exceptions:
        elements[position] = value
    return elements


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype for an element type; strings have dtype object."""
    if name == STRING:
        return np.dtype(object)
    if name in _OF_ML_DTYPES:
        import ml_dtypes  # noqa: PLC0415 - few cases need it

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)


def _arranged(array: Array, layout: str) -> Array:
    """Return a copy with this memory layout."""
    if layout == "big-endian":
        return array.astype(array.dtype.newbyteorder(">"))
    if layout == "repeated":
        return np.broadcast_to(array[..., :1], array.shape)
    step = {"reversed": -1, "every-second": 2}.get(layout, 1)
    room = [abs(step) * size for size in array.shape]
    offset = 1 if layout == "unaligned" else 0
    memory = bytearray(offset + array.itemsize * math.prod(room))
    order: Literal["F", "C"] = "F" if layout == "column-major" else "C"
    whole: Array = np.ndarray(room, array.dtype, memory, offset, order=order)
    arranged: Array = whole[(slice(None, None, step),) * array.ndim]
    arranged[...] = array
    arranged.flags.writeable = layout != "read-only"
    return arranged


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule that decides a case.

    Attributes
    ----------
    text : str
        A sentence of the specification, or a consequence of it.
    source : str
        The URL of the specification.
    quoted : bool
        Whether `text` is a quotation.
    version_specific : bool
        Whether the rule applies only to this published version, like its list of types. Libraries
        that implement the operation by other functions need not follow it.
    """

    name: str
    text: str
    source: str
    quoted: bool
    version_specific: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The expected result: the call must return one of these tensors, bit for bit."""

    choices: tuple[Tensor, ...]

    def __str__(self) -> str:
        return "a value" if len(self.choices) == 1 else f"one of {len(self.choices)} values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The expected error."""

    kind: RefusalKind

    def __str__(self) -> str:
        return f"refused ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefined:
    """An undefined result.

    The library may raise an error or return elements that are zero or come from data or updates.
    """

    def __str__(self) -> str:
        return "undefined, but safe"


Expected: TypeAlias = Value | Refusal | Undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of an operator with its expected result.

    Attributes
    ----------
    runs : int
        The number of times to make the call; races between threads are not always visible.
    report : str or None
        The URL of a public report about a library that got this case wrong.
    """

    name: str
    operator: OperatorName
    rule: Rule
    inputs: Mapping[str, Tensor]
    attributes: Mapping[str, Any]
    expected: Expected
    runs: int = 1
    report: str | None = None

    def __str__(self) -> str:
        return self.name


def load(*patterns: str) -> tuple[Case, ...]:
    """Return the cases whose names match any of the shell patterns; by default, all cases."""
    return tuple(
        case
        for case in _all_cases()
        if any(fnmatchcase(case.name, pattern) for pattern in patterns or ("*",))
    )


@cache
def _all_cases() -> tuple[Case, ...]:
    return tuple(case for path in sorted(FOLDER.glob("*.json")) for case in read_file(path))


def read_file(path: Path) -> list[Case]:
    """Return the cases in a file."""
    content = json.loads(path.read_text("utf-8"))
    if content["format"] != FORMAT:
        raise ValueError(f"{path}: format = {content['format']} is unknown (allowed: {FORMAT})")
    rules = {name: Rule(name=name, **fields) for name, fields in content["rules"].items()}
    return [
        Case(
            name=record["name"],
            operator=OperatorName(**record["operator"]),
            rule=rules[record["rule"]],
            inputs={tensor["name"]: Tensor(tensor) for tensor in record["inputs"]},
            attributes=record["attributes"],
            expected=_expected(record["expected"]),
            runs=record.get("runs", 1),
            report=record.get("report"),
        )
        for record in content["cases"]
    ]


def _expected(record: Mapping[str, Any]) -> Expected:
    if "undefined" in record:
        return Undefined()
    if "error" in record:
        return Refusal(kind=record["error"])
    return Value(choices=tuple(map(Tensor, record["results"])))
