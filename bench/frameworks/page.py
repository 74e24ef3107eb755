"""The page of results: a section for each library, each written by a run of its suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench import report
from bench.peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .turns import Result

_HEAD = """\
# Benchmarks on arrays of other libraries

Written by the benchmark from its results; do not edit.

A call of this package on arrays of a library, beside that library's own way to the same result:
`x[a, b]` in torch, the same in a jitted function in JAX. The answers are compared first. Then
the two take turns, for 20 ms a turn, and the medians of the turns are compared. Arrays and indices
are made beforehand, for torch as separate columns as well, which it takes fastest.

    pip install '.[torch,jax]'
    python -m bench --suite torch --page
    python -m bench --suite jax --page
"""
_TRIED = """\
## What was tried, and what stands in the way

- `tiny-gradient`: an operator of `torch.library` took 12 us; a function of autograd called past the
  dispatcher 10.7. Since then the type of data leads to that function before a call is described,
  it is told less, and saves no tangents: 17 us of processor time where the same took 30 before, on
  a machine at work. What is left is autograd's: an empty function of its takes a quarter of that.
- `gradient-1e5-of-16`: the gradient is added to zeros in place, not to a copy of them: 7.7 ms of
  one processor where it took 10.4, and torch 34.5. Zeros that the scatter itself writes would save
  one more pass; the core has no such scatter.
- `points-1e4`: 0.03 to 0.43 of torch in runs on one machine, and 0.34 of its processor time on a
  busy one. Nothing was tried: it is within what the runs differ by.
- JAX, `rows-1e5-of-64`, `add-1e5-of-16`: XLA hands over memory that is new at each call, and the
  system clears its pages as rows are written: with memory that is used again the same rows take
  a third (torch, `rows-1e5-of-64`). The scatter starts from a copy of data that XLA makes.
  Not tried: to ask the system for larger pages there, and to make that copy in the handler.
"""
_SECTION = re.compile(r"^## ", re.MULTILINE)


def write(path: Path, suite: str, results: Sequence[Result]) -> None:
    """Write the section of a suite; those of others stay."""
    _, *there = _SECTION.split(path.read_text()) if path.exists() else ("",)
    sections = {section.partition("\n")[0]: section for section in there}
    sections.pop(_SECTION.sub("", _TRIED).partition("\n")[0], None)
    sections[suite] = "\n".join(_lines(suite, results)) + "\n"
    texts = [f"## {sections[name].rstrip()}\n" for name in sorted(sections, reverse=True)]
    path.write_text("\n".join([_HEAD, *texts, _TRIED]))


def _lines(suite: str, results: Sequence[Result]) -> Iterator[str]:
    peers = [Peer(name=name, module=name, threads="as given") for name in ("ndgather", suite)]
    where = report.setting(peers, report.usable_processors())
    versions = ", ".join(f"{peer.name} {peer.version}" for peer in peers)
    judged = [(each.case.name, one) for each in results for one in each.conditions]
    short = [f"`{name}` {one.asked} ({one.reached:.3g})" for name, one in judged if not one.passed]
    yield suite
    yield ""
    yield f"{where.processor}, {where.processors} processors, {where.system}, {where.date},"
    yield f"Python {where.python}, {versions}. {len(judged) - len(short)} of {len(judged)}"
    yield f"conditions hold. Short: {', '.join(short) or 'none'}."
    yield ""
    yield f"| case | what it stands for | ndgather, us | {suite}, us | ratio | condition | held |"
    yield "|---|---|---:|---:|---:|---|---|"
    for each in results:
        ours, native = (seconds * 1e6 for seconds in each.medians)
        asked = ", ".join(one.asked for one in each.conditions)
        verdict = "pass" if each.passed else "short"
        numbers = f"{ours:.2f} | {native:.2f} | {ours / native:.3f}"
        yield f"| `{each.case.name}` | {each.case.why} | {numbers} | {asked} | {verdict} |"
