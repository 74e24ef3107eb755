"""The results as people and programs read them: a table while it runs, a summary, JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .case import Case
from .limits import Limit, Machine, last_level_cache_bytes
from .measure import Result, Timing
from .peers import OWN

if TYPE_CHECKING:
    from .peer import Peer

ENOUGH_OF_LIMIT = 0.70


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and with what a run was made."""

    date: str
    processor: str
    system: str
    python: str
    threads: int
    processors: int
    last_level_cache_bytes: int
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of the benchmark."""

    setting: Setting
    results: tuple[Result, ...]
    copy_speeds: tuple[tuple[int, tuple[float, ...]], ...]
    read_seconds: tuple[tuple[int, int, int, tuple[float, ...]], ...]


def setting(peers: Sequence[Peer], threads: int) -> Setting:
    """Describe this machine and the installed peers."""
    return Setting(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=_processor(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        threads=threads,
        processors=usable_processors(),
        last_level_cache_bytes=last_level_cache_bytes(),
        versions={
            peer.name: f"{peer.version}, threads: {peer.thread_text(threads)}"
            for peer in peers
            if peer.installed
        },
    )


def usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def where(setting: Setting) -> str:
    """Return the machine and the libraries with their threads, a line each."""
    machine = f"{setting.processor}, {setting.processors} processors, {setting.system}"
    return "\n".join(
        [
            f"{machine}, Python {setting.python}, {setting.date}",
            *(f"{name} {version}" for name, version in setting.versions.items()),
        ]
    )


def record(setting: Setting, results: Iterable[Result], machine: Machine) -> Record:
    return Record(
        setting=setting,
        results=tuple(results),
        copy_speeds=tuple(sorted(machine.copy_bytes_per_second.items())),
        read_seconds=tuple((*key, each) for key, each in sorted(machine.read_seconds.items())),
    )


# reading and writing --------------------------------------------------------------------------


def save(run: Record, path: Path) -> None:
    """Write `run` as JSON; derived numbers are included for readers without this package."""
    content = asdict(run) | {
        "results": [_with_derived(result) for result in run.results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _with_derived(result: Result) -> dict[str, Any]:
    return asdict(result) | {
        "median_seconds": {timing.peer: timing.seconds for timing in result.timings},
        "spread": {timing.peer: timing.spread for timing in result.timings},
        "ratio": result.ratio,
        "limit_fraction": result.limit_fraction,
    }


def load(path: Path) -> Record:
    """Read what `save` wrote.

    Raises
    ------
    ValueError
        The file is something else, or of another version of the benchmark.
    """
    text = path.read_text()
    try:
        return _record(json.loads(text))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: no run saved by this version of the benchmark") from error


def _record(content: dict[str, Any]) -> Record:
    return Record(
        setting=Setting(**content["setting"]),
        results=tuple(_result(each) for each in content["results"]),
        copy_speeds=tuple((size, tuple(speeds)) for size, speeds in content["copy_speeds"]),
        read_seconds=tuple((*key, tuple(each)) for *key, each in content["read_seconds"]),
    )


def _result(content: dict[str, Any]) -> Result:
    case: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in content["case"].items()
    }
    return Result(
        case=Case(**case),
        timings=tuple(_timing(timing) for timing in content["timings"]),
        refusals=content["refusals"],
        failed=content["failed"],
        bytes_moved=content["bytes_moved"],
        limit=Limit(**content["limit"]),
        memory_bound=content["memory_bound"],
    )


def _timing(content: dict[str, Any]) -> Timing:
    return Timing(**(content | {"samples": tuple(content["samples"])}))


# text -----------------------------------------------------------------------------------------


def seconds_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def ratio_text(result: Result) -> str:
    return "-" if result.ratio is None else f"{result.ratio:.2f}"


def fraction_text(result: Result) -> str:
    fraction = result.limit_fraction
    mark = "" if result.memory_bound else "*"
    return "-" if fraction is None else f"{fraction:.0%}{mark}"


def time_text(result: Result, peer: str) -> str:
    timing = next((each for each in result.timings if each.peer == peer), None)
    return seconds_text(timing.seconds) if timing else "-"


def ratios_by_peer(run: Record) -> dict[str, list[float]]:
    """Return, of each other library, its time over ours in every case that both can do."""
    ratios: dict[str, list[float]] = {}
    for result in run.results:
        for timing in result.timings:
            if result.own and timing.peer != OWN.name:
                ratios.setdefault(timing.peer, []).append(timing.seconds / result.own.seconds)
    return ratios


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


_Column = tuple[str, int, Callable[[Result], str]]


def _columns(peers: Sequence[Peer]) -> list[_Column]:
    def spread(result: Result) -> str:
        return f"{result.own.spread:.0%}" if result.own else "-"

    def best(result: Result) -> str:
        return result.fastest_peer.peer if result.fastest_peer else "-"

    columns: list[_Column] = [
        ("case", -26, lambda result: result.case.name),
        ("moved", 8, lambda result: bytes_text(result.bytes_moved)),
    ]
    for peer in peers:
        columns.append((peer.name, 8, lambda result, name=peer.name: time_text(result, name)))  # type: ignore[misc]  # the default argument is not part of the type
        if peer == OWN:
            columns.append(("spread", 6, spread))
    return [
        *columns,
        ("ratio", 6, ratio_text),
        ("fastest peer", -12, best),
        ("of limit", 8, fraction_text),
    ]


def _line(columns: Sequence[_Column], texts: Iterable[str]) -> str:
    return "  ".join(
        text.ljust(-width) if width < 0 else text.rjust(max(width, len(title)))
        for (title, width, _), text in zip(columns, texts, strict=True)
    ).rstrip()


def header(peers: Sequence[Peer]) -> str:
    columns = _columns(peers)
    return _line(columns, (title for title, _, _ in columns))


def row(result: Result, peers: Sequence[Peer]) -> str:
    columns = _columns(peers)
    return _line(columns, (text(result) for _, _, text in columns))


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a run shows: its numbers in a few sentences, and in which cases."""

    in_short: tuple[str, ...]
    cases: tuple[str, ...] = ()


def findings(run: Record) -> Findings:
    """Return the headline numbers, and every case that is slower or far from the limit."""
    compared = [(result, result.ratio) for result in run.results if result.ratio is not None]
    if not compared:
        return Findings(in_short=("ndgather was not measured.",))
    ratios = [ratio for _, ratio in compared]
    slower = [f"{result.case.name} ({ratio:.2f})" for result, ratio in compared if ratio < 1]
    bound = [
        (result, result.limit_fraction)
        for result in run.results
        if result.memory_bound and result.limit_fraction is not None
    ]
    far = [
        f"{result.case.name} ({share:.0%}, {result.limit.set_by})"
        for result, share in bound
        if share < ENOUGH_OF_LIMIT
    ]
    in_short = (
        f"{len(compared)} cases; the fastest other library of each takes"
        f" {geometric_mean(ratios):.2f} times as long as {OWN.name} (geometric mean),"
        f" from {min(ratios):.2f} to {max(ratios):.1f} times.",
        f"Another library is faster on {len(slower)} of them.",
        f"Of {len(bound)} cases beyond the last-level cache, {len(bound) - len(far)} reach"
        f" {ENOUGH_OF_LIMIT:.0%} of what the memory of this machine allows.",
    )
    cases = (
        _by_operator(compared),
        f"Another library is faster on {', '.join(slower) or 'none'}.",
        f"Below {ENOUGH_OF_LIMIT:.0%} of the limit, with what sets it: {', '.join(far) or 'none'}.",
    )
    return Findings(in_short=in_short, cases=cases)


def _by_operator(compared: Sequence[tuple[Result, float]]) -> str:
    """Return the mean of each operator."""
    ratios: dict[str, list[float]] = {}
    for result, ratio in compared:
        ratios.setdefault(result.case.operator, []).append(ratio)
    means = (
        f"{name} {geometric_mean(each):.2f} ({len(each)})" for name, each in sorted(ratios.items())
    )
    return f"By operator, with the number of cases: {', '.join(means)}."


def summary(run: Record) -> str:
    """Return what the table says, in a few lines."""
    found = findings(run)
    return "\n".join(
        [
            "ratio: time of the fastest peer over ours. of limit: least possible time over ours"
            " (* all in the cache)",
            "",
            *found.in_short,
            *found.cases,
            "",
            *limit_lines(run),
            "",
            where(run.setting),
        ]
    )


def limit_lines(run: Record) -> list[str]:
    """Return the measured speeds of the machine, by number of threads."""
    lines = ["copy speed (read plus written) with 1, 2, .. threads:"]
    lines += [
        f"  {bytes_text(size):>8}  {'  '.join(f'{bytes_text(speed)}/s' for speed in speeds)}"
        for size, speeds in run.copy_speeds
    ]
    if run.read_seconds:
        lines.append("one random read with 1, 2, .. threads:")
    lines += [
        f"  {bytes_text(width):>8} from {bytes_text(reach):>8}, {count:>7} places:  "
        + "  ".join(seconds_text(seconds) for seconds in each)
        for reach, width, count, each in run.read_seconds
    ]
    return lines
