"""Hard cases of gather and scatter, and who gets them right.

``python -m ndgather.testing.conformance`` runs every case of the corpus in every library that
is installed, each library in a process of its own, and prints a verdict for each pair. The
corpus is data (``corpus/*.json``): a case names the operator version it is about, its inputs,
what must come of them, and the rule that decides it with its source.
"""

from ndgather.testing.conformance.cases import Case, Refusal, Rule, Undefined, Value, load
from ndgather.testing.conformance.outcomes import Outcome, Verdict, judge

__all__ = ["Case", "Outcome", "Refusal", "Rule", "Undefined", "Value", "Verdict", "judge", "load"]
