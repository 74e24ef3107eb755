"""The types of the corpus, and how it is read.

Every file of ``corpus/`` has ``rules`` and ``cases``. A case names its rule; the rule has the
sentence that decides it and its source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather.runtimes.runtime import dtype_named
from ndgather.testing import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping


Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class OperatorName:
    """The operator of a case; the functions of ndgather have no version."""

    domain: str
    name: str
    version: int | None = None

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.domain}.{self.name}"
        return f"{self.domain} {self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One record of the corpus."""

    record: Mapping[str, Any]

    @property
    def dtype(self) -> str:
        return str(self.record["dtype"])

    def array(self) -> Array:
        """Return the values as a new array in the layout of the record."""
        array = self._values(dtype_named(self.dtype))
        if "shape" in self.record:
            array = array.reshape(tuple(self.record["shape"]))
        for position, value in self.record.get("except", ()):
            array.reshape(-1)[position] = value
        layout = self.record.get("layout", "C")
        if layout == "big-endian":
            return array.astype(array.dtype.newbyteorder(">"))
        return LAYOUTS[_LAYOUTS.get(layout, layout)](array)

    def _values(self, dtype: np.dtype[Any]) -> Array:
        record = self.record
        if "bits" in record:
            width = dtype.itemsize
            elements = (int(digits, 16).to_bytes(width, "little") for digits in record["bits"])
            stored = np.frombuffer(b"".join(elements), f"<u{width}")
            native: Array = stored.astype(f"=u{width}")
            return native.view(dtype)
        if "arange" in record:
            start, step = record["arange"]
            steps = np.arange(int(np.prod(record["shape"], dtype=np.int64)))
            values: Array = start + step * steps
            return (values % record["modulo"] if "modulo" in record else values).astype(dtype)
        if "full" in record:
            return np.full(record["shape"], record["full"], dtype)
        if dtype.kind == "c":
            return np.array(record["values"], object).astype(dtype)
        return np.array(record["values"], dtype)


_LAYOUTS = {"reversed": "negative strides", "repeated": "stride 0, last axis"}


RefusalKind: TypeAlias = Literal["index", "shape", "type", "attribute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What decides a case.

    Attributes
    ----------
    text : str
        The sentence, or what follows from the text.
    source : str
        Where it is written.
    quoted : bool
        Whether `text` is a quotation.
    of_version : bool
        Whether it is a rule of one published version, such as its list of types. A library
        that offers other functions for the same work need not follow it.
    """

    name: str
    text: str
    source: str
    quoted: bool = False
    of_version: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The call must return one of these tensors, bit for bit."""

    choices: tuple[Tensor, ...]

    def __str__(self) -> str:
        return "a value" if len(self.choices) == 1 else f"one of {len(self.choices)} values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The call must raise."""

    kind: RefusalKind

    def __str__(self) -> str:
        return f"refused ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefined:
    """The text defines no result: raising is right, and so are elements of the inputs and zeros.

    A crash is wrong, and so is anything from elsewhere in memory.
    """

    def __str__(self) -> str:
        return "undefined, but safe"


Expected: TypeAlias = Value | Refusal | Undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of one operator, and its expected result.

    Attributes
    ----------
    seen : str or None
        A public report of a library that was wrong.
    """

    name: str
    operator: OperatorName
    rule: Rule
    inputs: Mapping[str, Tensor]
    attributes: Mapping[str, Any]
    expected: Expected
    seen: str | None = None

    def __str__(self) -> str:
        return self.name


def load(*patterns: str) -> tuple[Case, ...]:
    """Return the cases of the corpus whose names fit one of the shell patterns, in its order.

    Without a pattern these are all.
    """
    return tuple(
        case
        for case in _corpus()
        if any(fnmatchcase(case.name, pattern) for pattern in patterns or ("*",))
    )


@cache
def _corpus() -> tuple[Case, ...]:
    folder = files(__package__) / "corpus"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    records = [json.loads((folder / name).read_text("utf-8")) for name in names]
    return tuple(case for record in records for case in _cases(record))


def _cases(record: Mapping[str, Any]) -> list[Case]:
    rules = {name: Rule(name=name, **fields) for name, fields in record["rules"].items()}
    return [
        Case(
            name=row["name"],
            operator=OperatorName(*row["operator"]),
            rule=rules[row["rule"]],
            inputs={name: Tensor(tensor) for name, tensor in row["inputs"].items()},
            attributes=row.get("attributes", {}),
            expected=_expected(row["expected"]),
            seen=row.get("seen"),
        )
        for row in record["cases"]
    ]


def _expected(record: Mapping[str, Any]) -> Expected:
    if "undefined" in record:
        return Undefined()
    if "refusal" in record:
        return Refusal(kind=record["refusal"])
    choices = record.get("one of", [record])
    return Value(choices=tuple(Tensor(choice) for choice in choices))
