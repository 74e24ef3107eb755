"""Reports of the results: lines for the terminal, and a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.peers import Peer
from bench.report import Setting, bytes_text, seconds_text
from bench.report import setting as setting_of

from .cases import CASES, THREADS
from .measure import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .measure import Measured

PACKAGES = (
    "ndgather", "zarr", "numcodecs", "tensorstore", "dask", "distributed", "xarray", "obstore",
)  # fmt: skip
_PAGE = """\
# Benchmarks of stored arrays

<!-- Written by the benchmark from its results; do not edit. -->

Time and memory of calls on arrays in files, in buckets and on a cluster, compared with zarr, dask,
xarray and tensorstore. The floor only reads and decodes the chunks that a call touches.

Measured on {where.processor}, {where.processors} processors, {where.system}, \
Python {where.python}, {where.date}.{note}

{summary}

## Method

Each method runs in its own process with two threads and reads files from the page cache. The result
of the first call is checked, and the increase of the peak resident memory during it is the extra
memory. Then the methods take turns. Times are medians; CPU is the processor time of all threads. A
library is called only once (*) if its first call takes more than 1.5 times as long as the fastest
library's. [Guarantees](guarantees.md) explain the memory limit of ndgather.

The array has 1024^3 float32 elements (4.3 GB) in chunks of 128^3, or in shards of 256^3 with inner
chunks of 32^3. zstd at level 3 compresses it to a third of its size.

## Cases
{cases}

## Reproduce

    pip install --editable . --group test
    python -m bench --suite stored --page

Versions: {versions}.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run of the benchmark."""

    setting: Setting
    results: tuple[Result, ...]


def setting() -> Setting:
    peers = [Peer(name=name, module=name) for name in PACKAGES]
    return setting_of(peers, THREADS)


def lines(result: Result) -> Iterator[str]:
    """Yield the methods of a case as text, and the memory limit of our call."""
    yield f"\n{result.case}"
    for measured in result.methods:
        cells = "  ".join(f"{text:>10}" for text in _cells(measured))
        yield f"  {measured.method:12} {cells}"
    if result.allowed_bytes:
        yield f"  {_allowed(result)}"


def _allowed(result: Result) -> str:
    return f"Limit for ndgather: {bytes_text(result.allowed_bytes)}"


def _cells(measured: Measured) -> tuple[str, str, str]:
    if measured.refusal:
        return (measured.refusal, "", "")
    if measured.instructions:
        return (f"{measured.instructions:.0f} instructions", "", "")
    mark = "" if len(measured.wall) > 1 else "*"
    return (
        seconds_text(measured.wall_seconds) + mark,
        seconds_text(measured.cpu_seconds) + mark,
        bytes_text(max(measured.memory, 0)),
    )


def page(run: Record, note: str = "") -> str:
    """Return the page as Markdown, with a note about the machine."""
    return _PAGE.format(
        where=run.setting,
        note=f"\n\n{note}" if note else "",
        summary="\n".join(_summary(run.results)),
        cases="\n".join(line for result in run.results for line in _section(result)),
        versions=", ".join(
            f"{name} {text.partition(',')[0]}" for name, text in run.setting.versions.items()
        ),
    )


def _summary(results: Sequence[Result]) -> Iterator[str]:
    yield "| case | ndgather | fastest other | floor | extra memory | other's memory |"
    yield "|---|---:|---:|---:|---:|---:|"
    for result in results:
        own, other, floor = result.own, result.fastest_other, result.floor
        if own is None:
            continue
        cells = [
            f"`{result.case}`",
            _cells(own)[0],
            f"{_cells(other)[0]} ({other.method})" if other else "-",
            _cells(floor)[0] if floor else "-",
            _cells(own)[2],
            _cells(other)[2] if other else "-",
        ]
        yield f"| {' | '.join(cells)} |"


def _section(result: Result) -> Iterator[str]:
    why = next(case.why for case in CASES if case.name == result.case)
    yield f"\n:::{{dropdown}} {result.case}: {why}\n"
    yield "| method | wall | CPU | extra memory |"
    yield "|---|---:|---:|---:|"
    for measured in result.methods:
        yield f"| {measured.method} | {' | '.join(_cells(measured))} |"
    if result.allowed_bytes:
        yield f"\n{_allowed(result)}"
    yield ":::"
