"""Conformance cases for gather and scatter, and a runner for Python libraries. See README.md."""

from .corpus import Case, Refusal, Rule, Undefined, Value, load
from .verdicts import Outcome, Verdict, judge

__all__ = ["Case", "Outcome", "Refusal", "Rule", "Undefined", "Value", "Verdict", "judge", "load"]
