"""The results as people and programs read them: lines while it runs, a page, JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench import report
from bench.peer import Peer

from .cases import CASES
from .measure import Measured, Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

PACKAGES = (
    "ndgather",
    "zarr",
    "numcodecs",
    "tensorstore",
    "dask",
    "distributed",
    "xarray",
    "obstore",
)

_THREADS = 2
_TITLES = ("method", "wall", "CPU", "extra memory")
_WORDS = {True: "pass", False: "short"}

_METHOD = """\
Each method runs in a process of its own and makes the call once before anything is timed: this
call gives the answer, which is compared with the values of the field, and the extra memory, which
is the peak of resident memory minus what was resident before the call. Then the methods take
turns, and times are medians. CPU is the processor time of the process, all threads together. A
method that took more than one and a half times as long as the best of the others takes no further
turns. "best" is the best of all methods but ndgather and the floor. The floor reads and decodes
the chunks that the call touches, with two threads, and does nothing else. "formula" is the memory
that [a call may take](guarantees.md). All are given two threads; files are in the page cache.

The array is 1024^3 float32 (4.3 GB) in chunks of 128^3, compressed by zstd at level 3 to a third;
sharded: shards of 256^3 of chunks of 32^3. Every value is a function of its place.
"""


def setting() -> report.Setting:
    peers = [Peer(name=name, module=name, threads="as given") for name in PACKAGES]
    return report.setting(peers, _THREADS)


def lines(result: Result) -> Iterable[str]:
    """Return a case as text: its methods, then its conditions."""
    yield f"\n{result.case}"
    for each in result.methods:
        yield f"  {each.method:12} " + "  ".join(f"{text:>10}" for text in _cells(each))
    for verdict in result.verdicts:
        yield f"  {_WORDS[verdict.passed]:5} {verdict.condition}: {verdict.reached:.3g}"


def _cells(measured: Measured) -> tuple[str, ...]:
    if measured.refusal:
        return (measured.refusal, "", "")
    if measured.instructions:
        return (f"{measured.instructions:.0f} instructions", "", "")
    mark = "" if len(measured.wall) > 1 else "*"
    return (
        report.seconds_text(measured.quantity("wall")) + mark,
        report.seconds_text(measured.quantity("cpu")) + mark,
        report.bytes_text(max(measured.memory, 0)),
    )


def save(where: report.Setting, results: Sequence[Result], path: Path) -> None:
    content = {"setting": asdict(where), "results": [asdict(each) for each in results]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> tuple[report.Setting, list[Result]]:
    """Read what `save` wrote.

    Raises
    ------
    ValueError
        The file is something else, or of another version of the benchmark.
    """
    try:
        content = json.loads(path.read_text())
        return report.Setting(**content["setting"]), [_result(each) for each in content["results"]]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: no run saved by this version of the benchmark") from error


def _result(content: dict[str, Any]) -> Result:
    return Result(
        case=content["case"],
        methods=tuple(
            Measured(**(each | {"wall": tuple(each["wall"]), "cpu": tuple(each["cpu"])}))
            for each in content["methods"]
        ),
        verdicts=tuple(Verdict(**each) for each in content["verdicts"]),
    )


def page(where: report.Setting, results: Sequence[Result], note: str = "") -> str:
    """Return the page as Markdown, with a note on the circumstances of the run."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    short = [
        f"`{result.case}` {verdict.condition} ({verdict.reached:.3g})"
        for result in results
        for verdict in result.verdicts
        if not verdict.passed
    ]
    text = [
        "# Benchmarks of stored arrays",
        "",
        "Written by the benchmark from its results; do not edit.",
        "",
        "Calls on arrays in files, in buckets and on a cluster, beside zarr, dask, xarray and",
        "tensorstore, and beside a floor that only reads and decodes the same chunks. In short:",
        "",
        f"- {len(verdicts) - len(short)} of {len(verdicts)} conditions hold.",
        f"- Short of theirs are {', '.join(short) or 'none'}.",
        f"- Measured on {where.processor}, {where.processors} processors, {where.system},"
        f" Python {where.python}, {where.date}.",
        "",
        *([note, ""] if note else []),
        "| case | condition | reached | verdict |",
        "|---|---|---:|---|",
    ]
    text += [
        f"| `{result.case}` | {verdict.condition} | {verdict.reached:.3g}"
        f" | {_WORDS[verdict.passed]} |"
        for result in results
        for verdict in result.verdicts
    ]
    text += ["", "## How it was measured", "", _METHOD, "## Every case"]
    whys = {case.name: case.why for case in CASES}
    for result in results:
        text += ["", f"### `{result.case}`", "", f"{whys[result.case].capitalize()}.", ""]
        text += [f"| {' | '.join(_TITLES)} |", "|---|---:|---:|---:|"]
        text += [f"| {each.method} | {' | '.join(_cells(each))} |" for each in result.methods]
    text += ["", "(*) made once.", "", "## How to repeat it", ""]
    text += [
        "    pip install 'ndgather[test]'",
        "    python -m bench --suite stored --page",
    ]
    text += ["", "## Versions", "", *(f"- {name} {text}" for name, text in where.versions.items())]
    return "\n".join(text) + "\n"
