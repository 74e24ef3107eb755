"""The types of the corpus, and how it is read.

Each file of ``corpus/`` holds ``rules`` and ``cases``. A case names its rule; the rule holds the
sentence that decides it and where that is written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ndgather.runtimes.operator_call import OperatorName
from ndgather.testing.conformance.case_tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        Whether `text` stands there word for word.
    of_version : bool
        Whether it is a rule of one published version, such as its list of types. A library
        that offers other functions for the same work cannot be held to it.
    """

    name: str
    text: str
    source: str
    quoted: bool = False
    of_version: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The call must give one of these tensors, bit for bit."""

    choices: tuple[Tensor, ...]

    def __str__(self) -> str:
        return "a value" if len(self.choices) == 1 else f"one of {len(self.choices)} values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The call must be refused."""

    kind: RefusalKind

    def __str__(self) -> str:
        return f"refused ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefined:
    """The text gives no result: a refusal is right, and so are elements of the inputs and zeros.

    A crash is wrong, and so is anything from elsewhere in memory.
    """

    def __str__(self) -> str:
        return "undefined, but safe"


Expected: TypeAlias = Value | Refusal | Undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of one operator, and what must come of it.

    Attributes
    ----------
    seen : str or None
        Where this went wrong: a public report.
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
            operator=_operator(*row["operator"]),
            rule=rules[row["rule"]],
            inputs={name: Tensor(tensor) for name, tensor in row["inputs"].items()},
            attributes=row.get("attributes", {}),
            expected=_expected(row["expected"]),
            seen=row.get("seen"),
        )
        for row in record["cases"]
    ]


def _operator(domain: str, name: str, version: int | None = None) -> OperatorName:
    return OperatorName(name=name, domain=domain, version=version)


def _expected(record: Mapping[str, Any]) -> Expected:
    if "undefined" in record:
        return Undefined()
    if "refusal" in record:
        return Refusal(kind=record["refusal"])
    choices = record.get("one of", [record])
    return Value(choices=tuple(Tensor(choice) for choice in choices))
