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

- torch, `rows-1e5-of-64`, and JAX, `points-1e6-of-3`: nothing was tried. Both held in earlier runs.
- `tiny-gradient`: an operator of `torch.library` took 12 us, a function of autograd called past the
  dispatcher 9.5, and the same told less, with fewer questions asked of the call, 7 to 7.7. What is
  left: a function of autograd that returns what it was given takes 3.3 by itself, the core 1.1, and
  it is asked twice (0.5), as it finds at the first attempt that a gradient is at work.
- `gradient-1e5-of-16`: torch fills zeros on threads of its own, which then spin for a while on the
  processors that the scatter wants. So the core copies one row of zeros to all rows, on the threads
  that then add to them: 2.6 ms where zeros of torch took 5.5, on a machine with others at work.
- `points-1e4`: 0.32 to 0.53 of torch in runs on one machine. Nothing was tried: it is within what
  the runs differ by.
- JAX, `rows-1e5-of-64`: 0.37 to 0.87 of XLA in runs on one machine. Where the memory of a result is
  new to the process the system clears its pages as rows are written, and which of the two gets new
  memory is not the same in each run: in one it was XLA alone, 5,209 pages at each call.
- JAX, `add-1e5-of-16`: the handler writes the result over data; where data is needed, XLA copies
  it before, on one thread. With the copy made in the handler the call took 0.48 ms in place of 0.64
  to 0.75, but the gradient of a gather 1.67 ms in place of 1.27, and a loop that updates an array
  would copy it at each step. So it was not kept.
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
