"""``python -m mutants``: a sample of mutants of the Python rules, and what the tests say to each.

Exit status 1: one of them passes every test, and `equivalent.txt` does not say why.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mutants.mutations import Mutant, mutants
from mutants.running import ROOT, lines_of, with_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PACKAGE = ROOT / "src" / "ndgather"
RULES = (
    *("refusals", "conversion", "arithmetic", "calls", "vjp", "published/schema"),
    *("published/inference", "published/symbolic_dims", "published/index_check"),
    *("published/arguments", "published/execution", "published/callables", "published/table"),
    *("published/rows/__init__", "published/rows/onnx", "published/rows/openvino"),
    *("published/rows/microsoft",),
)
# No doctests: pytest imports the file that they stand in anew, and a mutant of it is gone.
TESTS = (
    *("tests/unit", "tests/dialects", "tests/scatter", "tests/property/test_definitions.py"),
    *("tests/security/test_overflow.py", "tests/security/test_advisories.py"),
)
WORK = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")

FIRST_SECONDS, ALL_SECONDS = 1.5, 30.0  # of tests, as they took without a mutant
_Tests: TypeAlias = dict[str, dict[str, list[tuple[str, float]]]]

LIMIT = 60  # seconds after which a mutant counts as one that runs for ever


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--file", help="only mutants of this file, as published/rows/onnx")
    parser.add_argument(
        "--minutes", type=float, default=24 * 60, help="stop after so long; the next run goes on"
    )
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    WORK.mkdir(parents=True, exist_ok=True)
    tests, excused = _tests(), _excused()
    judged = WORK / f"judged-{_digest()}.txt"
    done = dict(_rows(judged)) if judged.exists() else {}
    tally = Counter[str]()
    for name, mutant in _sample(options.count, options.seed):
        if options.file not in {None, name}:
            continue
        key = f"{name}:{mutant.line}:{mutant.node}:{mutant.number}"
        if key not in done:
            if time.monotonic() > until:
                print(f"so far: {dict(tally)}")
                return 0
            done[key] = _judged(name, mutant, tests)
            with judged.open("a", encoding="utf-8") as file:
                file.write(f"{key} | {done[key]} | {mutant.change}\n")
        tally[_shown(name, mutant, done[key], excused)] += 1
    total = sum(tally.values())
    caught = total - tally["SURVIVED"] - tally["equivalent"]
    print(f"{total} mutants: {caught} caught {dict(tally)}")
    return int(tally["SURVIVED"] > 0)


def _rows(judged: Path) -> Iterator[tuple[str, str]]:
    for row in judged.read_text("utf-8").splitlines():
        key, outcome, _ = row.split(" | ", 2)
        yield key, outcome


def _shown(
    name: str, mutant: Mutant, outcome: str, excused: dict[tuple[str, str, str], str]
) -> str:
    """Print what became of a mutant that no test noticed, and return its kind."""
    kind = outcome.partition(" ")[0]
    if kind == "SURVIVED":
        line = _path(name).read_text("utf-8").splitlines()[mutant.line - 1].strip()
        why = excused.get((name, line, mutant.change))
        kind = kind if why is None else "equivalent"
        print(f"{kind:10} {name}.py:{mutant.line}: {mutant.change}  [{why or ''}]")
    return kind


def _digest() -> str:
    """Name the sources that the lines of the tests and the outcomes are of."""
    sources = b"".join(_path(name).read_bytes() for name in RULES)
    return hashlib.sha256(sources).hexdigest()[:12]


def _path(name: str) -> Path:
    return PACKAGE / f"{name}.py"


def _sample(count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Draw mutants from all files, from each as many as it has of all."""
    every = [(name, each) for name in RULES for each in mutants(_path(name).read_text("utf-8"))]
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [every[at] for at in sorted(chosen)]


def _tests() -> _Tests:
    """Return for each file and line the tests that run it, and their seconds; all under ``0``."""
    report = WORK / f"lines-{_digest()}.json"
    if not report.exists() or not report.read_text():
        outcome = lines_of(TESTS, [_path(name) for name in RULES], 590, report)
        print(f"lines of the tests: {outcome.seconds:.0f} s, status {outcome.status}")
        if outcome.status:
            report.write_text("")
            sys.exit("the tests do not pass without a mutant")
    facts = json.loads(report.read_text())
    seconds = facts["seconds"]
    found: _Tests = {"": {"0": list(seconds.items())}}
    for file, lines in facts["lines"].items():
        every = {"0": sorted({test for tests in lines.values() for test in tests})}
        found[file] = {
            line: [(test, seconds[test]) for test in tests]
            for line, tests in (every | lines).items()
        }
    return found


def _judged(name: str, mutant: Mutant, tests: _Tests) -> str:
    """Return what became of a mutant, and the test that noticed it."""
    path = _path(name)
    module = ".".join(["ndgather", *name.removesuffix("/__init__").split("/")])
    # What runs when the module is imported is run by no test: all of its file come into question.
    of_file = tests.get(str(path)) or tests[""]
    every = of_file["0"]
    covering = of_file.get(str(mutant.line)) or every
    # A line whose result is kept is run by few tests, and decides over many: last, all of the file.
    for those, seconds in (covering, FIRST_SECONDS), (covering, ALL_SECONDS), (every, ALL_SECONDS):
        chosen = _chosen(those, seconds)
        run = with_module(module, path, mutant.mutated(), chosen, LIMIT, WORK / "failed.txt")
        if run.status == -signal.SIGALRM:
            return "endless"
        if run.status:
            return f"killed by {run.failed or run.status}"
    return "SURVIVED"


def _chosen(covering: Iterable[tuple[str, float]], most: float) -> Sequence[str]:
    """Choose tests of at most `most` seconds: one of each function in turn, the fastest first."""
    functions: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for test, seconds in covering:
        functions[test.partition("[")[0]].append((seconds, test))
    turns = sorted(
        (turn, seconds, test)
        for each in functions.values()
        for turn, (seconds, test) in enumerate(sorted(each))
    )
    chosen: list[str] = []
    spent = 0.0
    for _, seconds, test in turns:
        if not chosen or spent + seconds <= most:
            chosen.append(test)
            spent += seconds
    return chosen


def _excused() -> dict[tuple[str, str, str], str]:
    """Return why mutants that change nothing anybody can see do so, by file, line and change."""
    found: dict[tuple[str, str, str], str] = {}
    lines = EQUIVALENT.read_text("utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            name, text, change, why = (part.strip() for part in line.split(" | "))
            found[name, text, change] = why
    return found


if __name__ == "__main__":
    sys.exit(main())
