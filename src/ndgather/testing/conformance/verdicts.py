"""What to say of an outcome: the comparison with what must come of a case."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ndgather.runtimes.array_types import STRING
from ndgather.testing.conformance import outcomes
from ndgather.testing.conformance.cases import Refusal, Undefined, Value

if TYPE_CHECKING:
    from ndgather.testing.conformance.cases import Case
    from ndgather.testing.conformance.outcomes import Outcome


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
    wanted = [outcomes.result(choice.array()) for choice in case.expected.choices]
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
    """Tell whether every element of a result is zero or one of data or updates."""
    found = _elements(outcome)
    allowed = {"", "0" * max(map(len, found), default=0)}
    for name, tensor in case.inputs.items():
        if name in ("data", "updates"):
            allowed |= _elements(outcomes.result(tensor.array()))
    return found <= allowed


def _elements(outcome: Outcome) -> set[str]:
    if not isinstance(outcome.elements, str):
        return set(outcome.elements or ())
    if outcome.dtype == STRING or not outcome.elements:
        return set()
    count = 1
    for side in outcome.shape or ():
        count *= side
    digits = len(outcome.elements) // count
    return {outcome.elements[k * digits : (k + 1) * digits] for k in range(count)}
