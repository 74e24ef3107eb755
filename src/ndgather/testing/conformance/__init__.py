"""Hard cases of gather and scatter as data, and the verdict on what a library does with one.

The corpus is data (``corpus/*.json``): a case names the operator version that it is about, its
inputs, the expected result, and the rule that decides it with its source. To try a library, run it
on each `Case` and pass an `Outcome` to `judge`.
"""

from ndgather.testing.conformance.cases import (
    Case,
    Outcome,
    Refusal,
    Rule,
    Undefined,
    Value,
    Verdict,
    judge,
    load,
)

__all__ = ["Case", "Outcome", "Refusal", "Rule", "Undefined", "Value", "Verdict", "judge", "load"]


def __dir__() -> list[str]:
    return __all__
