"""Hard cases of gather and scatter as JSON, and a runner for Python libraries: see README.md."""

from .corpus import Case, Refusal, Rule, Undefined, Value, load
from .verdicts import Outcome, Verdict, judge

__all__ = ["Case", "Outcome", "Refusal", "Rule", "Undefined", "Value", "Verdict", "judge", "load"]
