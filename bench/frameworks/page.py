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
_SECTION = re.compile(r"^## ", re.MULTILINE)


def write(path: Path, suite: str, results: Sequence[Result]) -> None:
    """Write the section of a suite; those of others stay."""
    _, *there = _SECTION.split(path.read_text()) if path.exists() else ("",)
    sections = {section.partition("\n")[0]: section for section in there}
    sections[suite] = "\n".join(_lines(suite, results)) + "\n"
    texts = [f"## {sections[name].rstrip()}\n" for name in sorted(sections, reverse=True)]
    path.write_text("\n".join([_HEAD, *texts]))


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
    yield f"| case | what it stands for | ndgather, us | {suite}, us | ratio | condition | |"
    yield "|---|---|---:|---:|---:|---|---|"
    for each in results:
        ours, native = (seconds * 1e6 for seconds in each.medians)
        asked = ", ".join(one.asked for one in each.conditions)
        verdict = "pass" if each.passed else "short"
        numbers = f"{ours:.2f} | {native:.2f} | {ours / native:.3f}"
        yield f"| `{each.case.name}` | {each.case.why} | {numbers} | {asked} | {verdict} |"
