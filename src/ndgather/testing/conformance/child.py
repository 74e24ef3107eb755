"""One library in a process of its own: cases in, outcomes out, a line each.

Names of cases are read from standard input as a JSON list. What the library prints goes to
standard error; the lines go where standard output went. A crash leaves a case begun and not
ended.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ndgather.runtimes.known_runtimes import runtime_named
from ndgather.runtimes.runtime import CannotExpressError
from ndgather.testing.conformance.cases import load
from ndgather.testing.conformance.outcomes import Outcome, refused, result, unable

if TYPE_CHECKING:
    from ndgather.runtimes.runtime import Runtime
    from ndgather.testing.conformance.cases import Case


def outcome_of(runtime: Runtime, adapter: Any, case: Case) -> Outcome:
    """Run one case here and return what came of it."""
    why_not = _why_not(runtime, case)
    if why_not is not None:
        return unable(why_not)
    try:
        return result(adapter.run(case))
    except CannotExpressError as error:
        return unable(str(error))
    except Exception as error:
        kind_of = getattr(adapter, "kind_of", None)
        return refused(error, None if kind_of is None else kind_of(error))


def _why_not(runtime: Runtime, case: Case) -> str | None:
    """Return why a runtime cannot be asked a case at all, or None."""
    if case.operator.domain not in runtime.domains:
        return f"has no operators of {case.operator.domain}"
    if runtime.idiom and case.rule.of_version:
        return "implements no version of a published operator"
    return None


def main(name: str) -> None:
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")

    def say(**fields: object) -> None:
        lines.write(json.dumps(fields) + "\n")
        lines.flush()

    runtime = runtime_named(name)
    adapter = runtime.load()
    say(version=adapter.version())
    wanted = json.load(sys.stdin)
    cases = {case.name: case for case in load()}
    for each in wanted:
        say(begun=each)
        say(ended=each, outcome=outcome_of(runtime, adapter, cases[each]).record())
    # A library that has been driven into undefined behaviour may crash while it ends.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
