"""``python -m bench.frameworks LIBRARY``: compare results, measure times, write a page."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from bench import options, report
from bench.measure import MOST_WAITED, BusyError, sample, undisturbed
from bench.peers import Peer

from .cases import CASES, to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .cases import Case

_DESCRIPTION = """\
Compare calls on arrays of another library with the library's own functions.
The results are compared first. Then the two alternate, and medians are printed.
`python -m bench --suite torch` is the same command.
"""
_TURNS = 21
_TURN_SECONDS = 0.02
_SECTION = re.compile(r"^## ", re.MULTILINE)
_HEAD = """\
# Benchmarks on arrays of other libraries

<!-- Written by the benchmark from its results; do not edit. -->

Calls of ndgather on arrays of torch and JAX, compared with the library's own calls for the same
result, such as `x[a, b]`. JAX runs both in jitted functions. The results are compared first. Then
ndgather and the library take turns of 20 ms, and the tables show the medians. Arrays and indices
are prepared beforehand. This includes separate index columns for torch, which are fastest.

    pip install 'ndgather[torch,jax]'
    python -m bench --suite torch --page
    python -m bench --suite jax --page
"""
_NOTES = """\
## Notes

- torch, `tiny-gradient`: an autograd function that returns its argument takes 3.3 us by itself.
- torch, `gradient-1e5-of-16`: torch fills zeros on its own threads, which then spin for a while.
  ndgather clears the rows on the threads that add to them.
- JAX, `rows-1e5-of-64`: the ratio varies from 0.37 to 0.87. If the memory of a result is new to the
  process, the operating system clears its pages during the call, and this happens in ndgather's
  call in some runs and in JAX's in others.
- JAX, `add-1e5-of-16`: the result overwrites data. If data is used afterwards, XLA copies it first,
  on one thread.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Times in seconds of a call of ndgather and of the library, one per turn."""

    case: Case
    ours: tuple[float, ...]
    native: tuple[float, ...]

    @property
    def microseconds(self) -> tuple[float, float]:
        return median(self.ours) * 1e6, median(self.native) * 1e6

    @property
    def text(self) -> str:
        ours, native = self.microseconds
        return f"{self.case.name:24} {ours:12.2f} {native:12.2f} us {ours / native:8.3f}"


def measure(case: Case, turns: int, most_waited: float = MOST_WAITED) -> Result:
    """Return the times of both functions; raise AssertionError if their results differ."""
    functions = case.functions()
    result, expected = (to_numpy(function()) for function in functions)
    if result.dtype == object:
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    calls = []
    for function in functions:
        sample(function, 3)
        calls.append(max(int(_TURN_SECONDS / max(sample(function, 3), 1e-9)), 1))
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            run = functions[side]
            taken = partial(sample, run, calls[side])
            seconds[side].append(undisturbed(taken, case.name, ready=run, most_waited=most_waited))
    return Result(case=case, ours=tuple(seconds[0]), native=tuple(seconds[1]))


def write_page(path: Path, library: str, results: Sequence[Result]) -> None:
    """Write the section of a library; keep the other sections."""
    _, *saved = _SECTION.split(path.read_text()) if path.exists() else ("",)
    sections = {section.partition("\n")[0]: section for section in saved}
    sections.pop("Notes", None)
    sections[library] = "\n".join(_section(library, results)) + "\n"
    texts = [f"## {sections[name].rstrip()}\n" for name in sorted(sections, reverse=True)]
    path.write_text("\n".join([_HEAD, *texts, _NOTES]))


def _section(library: str, results: Sequence[Result]) -> Iterator[str]:
    peers = [Peer(name=name, module=name) for name in ("ndgather", library)]
    where = report.setting(peers, report.usable_processors())
    versions = ", ".join(f"{peer.name} {peer.version}" for peer in peers)
    yield f"{library}\n"
    yield f"{where.processor}, {where.processors} processors, {where.system}, {where.date},"
    yield f"Python {where.python}, {versions}.\n"
    yield f"| case | example | ndgather, us | {library}, us | ratio |"
    yield "|---|---|---:|---:|---:|"
    for result in results:
        ours, native = result.microseconds
        numbers = f"{ours:.2f} | {native:.2f} | {ours / native:.3f}"
        yield f"| `{result.case.name}` | {result.case.why} | {numbers} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    page = "docs/benchmarks-frameworks.md"
    parser = options.parser("python -m bench.frameworks", _DESCRIPTION, page)
    parser.add_argument("library", choices=CASES)
    parser.add_argument(
        "--turns", type=int, default=_TURNS, metavar="N", help="measurements (default %(default)s)"
    )
    args = parser.parse_args(arguments)
    globs = args.case or ["*"]
    cases = [
        case for case in CASES[args.library] if any(fnmatch(case.name, glob) for glob in globs)
    ]
    if not cases:
        print(f"no case is named {' or '.join(globs)}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{case.name:24} {case.why}" for case in cases))
        return 0
    print(f"{'':24} {'ndgather':>12} {args.library:>12}    {'ratio':>8}")
    results = []
    for case in cases:
        try:
            result = measure(case, 0 if args.quick else args.turns)
        except BusyError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if not args.quick:
            print(result.text, flush=True)
            results.append(result)
    if args.page and results:
        write_page(args.page, args.library, results)
        print(f"\nwrote {args.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
