"""Outcomes of cases in libraries, and verdicts on the outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np

from .corpus import STRING, Case, Refusal, Undefined, Value

What: TypeAlias = Literal["result", "refused", "crashed", "unable"]

_MOST_SHOWN = 8  # elements
HEAD, TAIL = 60, 140  # lengths of the start and end of a long message that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a call.

    Attributes
    ----------
    what : str
        Whether the call returned a result, was refused or crashed the process, or whether the
        library is unable to express it.
    text : str
        The error message, a description of the crash, or the reason for the inability.
    kind : str or None
        The kind of the error, if the library distinguishes kinds.
    dtype, shape, elements
        The result; the elements are hexadecimal bytes or strings.
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
    """Return the outcome of a call that returned `value`."""
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
    """The verdict on a library for a case."""

    RIGHT = "right"
    WRONG_VALUE = "wrong value"
    ACCEPTS = "accepts the forbidden"
    REFUSES = "refuses the allowed"
    CRASH = "crash"
    CANNOT = "cannot express"


def judge(case: Case, outcome: Outcome) -> tuple[Verdict, str]:
    """Return the verdict on an outcome, with the reason if it is not right."""
    if outcome.what == "unable":
        return Verdict.CANNOT, outcome.text
    if outcome.what == "crashed":
        return Verdict.CRASH, outcome.text
    if outcome.what == "refused":
        return _judge_refusal(case, outcome)
    if isinstance(case.expected, Refusal):
        return Verdict.ACCEPTS, f"returns {outcome}"
    if isinstance(case.expected, Undefined):
        if _is_from_inputs(case, outcome):
            return Verdict.RIGHT, ""
        return Verdict.WRONG_VALUE, f"returns values that are not in the inputs: {outcome}"
    wanted = [result(choice.array()) for choice in case.expected.choices]
    if outcome in wanted:
        return Verdict.RIGHT, ""
    return Verdict.WRONG_VALUE, f"returns {outcome} instead of {wanted[0]}"


def _judge_refusal(case: Case, outcome: Outcome) -> tuple[Verdict, str]:
    expected = case.expected
    if isinstance(expected, Value):
        return Verdict.REFUSES, outcome.text
    if isinstance(expected, Refusal) and outcome.kind not in (None, expected.kind):
        return (
            Verdict.WRONG_VALUE,
            f"raises an {outcome.kind} error instead of {expected.kind}: {outcome.text}",
        )
    return Verdict.RIGHT, ""


def _is_from_inputs(case: Case, outcome: Outcome) -> bool:
    """Return whether each element of a result is zero or comes from data or updates."""
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
