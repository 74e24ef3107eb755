"""The cases of the corpus, the outcome of a case in a library, and the verdict on it.

Every file of ``corpus/`` has ``rules`` and ``cases``. A case names its rule; the rule has the
sentence that decides it and its source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import numpy as np

from ndgather.runtimes.runtime import STRING, Array, dtype_named

What: TypeAlias = Literal["result", "refused", "crashed", "unable"]

_MOST_SHOWN = 8  # elements
HEAD, TAIL = 60, 140  # letters that are kept of a long message: its start and its end


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
        layout = self.record.get("layout")
        if layout == "big-endian":
            return array.astype(array.dtype.newbyteorder(">"))
        return array if layout is None else _arranged(array, layout)

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


def _arranged(array: Array, layout: str) -> Array:
    """Return a copy whose memory has the layout of this name."""
    if layout == "repeated":
        return np.broadcast_to(array[..., :1], array.shape)
    step = {"F": 1, "unaligned": 1, "read-only": 1, "reversed": -1, "every second": 2}[layout]
    room = [abs(step) * size for size in array.shape]
    offset = 1 if layout == "unaligned" else 0
    memory = bytearray(offset + array.itemsize * math.prod(room))
    order: Literal["F", "C"] = "F" if layout == "F" else "C"
    whole: Array = np.ndarray(room, array.dtype, memory, offset, order=order)
    arranged: Array = whole[(slice(None, None, step),) * array.ndim]
    arranged[...] = array
    arranged.flags.writeable = layout != "read-only"
    return arranged


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
    runs : int
        How often the call is made: one that threads share may be wrong now and then.
    """

    name: str
    operator: OperatorName
    rule: Rule
    inputs: Mapping[str, Tensor]
    attributes: Mapping[str, Any]
    expected: Expected
    seen: str | None = None
    runs: int = 1

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
            runs=row.get("runs", 1),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one call.

    Attributes
    ----------
    what : str
        A result, a refusal, a crash of the process, or that the library cannot be asked.
    text : str
        The message of the refusal, the manner of the crash, or why it cannot be asked.
    kind : str or None
        The kind of the refusal, where the library tells kinds apart.
    dtype, shape, elements
        The result; its elements are hexadecimal bytes, or strings.
    """

    what: What
    text: str = ""
    kind: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    elements: str | tuple[str, ...] | None = None

    def __str__(self) -> str:
        if self.what != "result":
            return self.text
        if not isinstance(self.elements, str):
            parts = [repr(text) for text in self.elements or ()]
        else:
            try:
                parts = [str(x) for x in np.frombuffer(bytes.fromhex(self.elements), self.dtype)]
            except TypeError:
                parts = [self.elements[:64]]
        more = ", ..." if len(parts) > _MOST_SHOWN else ""
        return f"{self.dtype} {self.shape}: [{', '.join(parts[:_MOST_SHOWN])}{more}]"


def result(value: object) -> Outcome:
    """Return the outcome of a call that gave `value`."""
    array = np.asarray(value)
    if array.dtype.kind in "OUST":
        texts = tuple(_text(value) for value in array.reshape(-1))
        return Outcome(what="result", dtype=STRING, shape=array.shape, elements=texts)
    stored = array.astype(array.dtype.newbyteorder("="), copy=False).tobytes().hex()
    return Outcome(what="result", dtype=array.dtype.name, shape=array.shape, elements=stored)


def refused(error: BaseException, kind: str | None = None) -> Outcome:
    lines = str(error).strip().splitlines()
    text = " ".join(line.strip() for line in lines if line.strip())
    return Outcome(what="refused", text=_short(f"{type(error).__name__}: {text}"), kind=kind)


def unable(why: str) -> Outcome:
    return Outcome(what="unable", text=_short(why))


def _short(text: str) -> str:
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} ... {text[-TAIL:]}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Verdict(Enum):
    """What a library did with a case."""

    RIGHT = "right"
    WRONG_VALUE = "wrong value"
    ACCEPTS = "accepts the forbidden"
    REFUSES = "refuses the allowed"
    CRASH = "crash"
    CANNOT = "cannot express"


def judge(case: Case, outcome: Outcome) -> tuple[Verdict, str]:
    """Return the verdict on an outcome, and the reason where it is not right."""
    if outcome.what == "unable":
        return Verdict.CANNOT, outcome.text
    if outcome.what == "crashed":
        return Verdict.CRASH, outcome.text
    if outcome.what == "refused":
        return _judge_refusal(case, outcome)
    if isinstance(case.expected, Refusal):
        return Verdict.ACCEPTS, f"gives {outcome}"
    if isinstance(case.expected, Undefined):
        if _is_from_inputs(case, outcome):
            return Verdict.RIGHT, ""
        return Verdict.WRONG_VALUE, f"gives what is in no input: {outcome}"
    wanted = [result(choice.array()) for choice in case.expected.choices]
    if outcome in wanted:
        return Verdict.RIGHT, ""
    return Verdict.WRONG_VALUE, f"gives {outcome}, not {wanted[0]}"


def _judge_refusal(case: Case, outcome: Outcome) -> tuple[Verdict, str]:
    expected = case.expected
    if isinstance(expected, Value):
        return Verdict.REFUSES, outcome.text
    if isinstance(expected, Refusal) and outcome.kind not in (None, expected.kind):
        return (
            Verdict.WRONG_VALUE,
            f"refuses it as {outcome.kind}, not {expected.kind}: {outcome.text}",
        )
    return Verdict.RIGHT, ""


def _is_from_inputs(case: Case, outcome: Outcome) -> bool:
    """Return whether every element of a result is zero or one of data or updates."""
    elements = _elements(outcome)
    allowed = {"", "0" * max(map(len, elements), default=0)}
    for name, tensor in case.inputs.items():
        if name in ("data", "updates"):
            allowed |= _elements(result(tensor.array()))
    return elements <= allowed


def _elements(outcome: Outcome) -> set[str]:
    if not isinstance(outcome.elements, str):
        return set(outcome.elements or ())
    if outcome.dtype == STRING or not outcome.elements:
        return set()
    count = math.prod(outcome.shape or ())
    digits = len(outcome.elements) // count
    return {outcome.elements[k * digits : (k + 1) * digits] for k in range(count)}
