"""The results as people and programs read them: a table while it runs, a summary, JSON."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
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
ENOUGH_OF_THREADS = 0.85
LEAST_SCALING = 0.9


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


def joined(parts: Sequence[Record]) -> Record:
    """Return one run made of parts that were measured one after the other on one machine.

    Raises
    ------
    ValueError
        The machine, a version or the number of threads differs, or a case was measured twice.
    """
    first = parts[0].setting
    dates = sorted({part.setting.date for part in parts})
    for part in parts[1:]:
        if replace(part.setting, date=first.date) != first:
            raise ValueError(
                f"the runs of {first.date} and {part.setting.date} differ in machine, versions"
                " or threads"
            )
    results = [result for part in parts for result in part.results]
    for name, count in Counter(result.case.name for result in results).items():
        if count > 1:
            raise ValueError(f"{name} is in {count} of the runs")
    machine = Machine(threads=first.threads)
    for part in parts:
        machine.copy_bytes_per_second |= dict(part.copy_speeds)
        machine.read_seconds |= {key[:3]: key[3] for key in part.read_seconds}
    period = first.date if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return record(replace(first, date=period), results, machine)


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
        "scaling": result.scaling,
        "limit_scaling": result.limit.scaling,
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
        alone=_timing(content["alone"]) if content["alone"] else None,
        refusals=content["refusals"],
        failed=content["failed"],
        bytes_moved=content["bytes_moved"],
        limit=Limit(**content["limit"]),
        memory_bound=content["memory_bound"],
        free=content["free"],
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


def scaling_text(result: Result) -> str:
    gain = result.scaling
    return "-" if gain is None else gains_text(gain, result.limit.scaling)


def gains_text(own: float, limit: float) -> str:
    return f"{own:.2f} of {limit:.2f}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What threads bring: as many times as `wanted` are enough.

    Of each case of which it is `known` there is a pair: our gain and that of the limit. Those whose
    limit gains what is wanted `could`, and those of them that do not `miss` it; those that are
    slower by more than a tenth `lose`.
    """

    wanted: float
    known: dict[str, tuple[float, float]]

    @property
    def could(self) -> dict[str, tuple[float, float]]:
        return {name: pair for name, pair in self.known.items() if pair[1] >= self.wanted}

    @property
    def miss(self) -> dict[str, tuple[float, float]]:
        return {name: pair for name, pair in self.could.items() if pair[0] < self.wanted}

    @property
    def lose(self) -> dict[str, tuple[float, float]]:
        return {name: pair for name, pair in self.known.items() if pair[0] < LEAST_SCALING}


def scaling(run: Record) -> Scaling:
    """Return what threads brought in one run."""
    known = {
        result.case.name: (result.scaling, result.limit.scaling)
        for result in run.results
        if result.scaling is not None
    }
    return Scaling(wanted=ENOUGH_OF_THREADS * run.setting.threads, known=known)


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
        ("scaling", 12, scaling_text),
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


def summary(run: Record) -> str:
    """Return what the table says, in a few lines."""
    lines = [
        "ratio: time of the fastest peer over ours. of limit: least possible time over ours"
        " (* all in the cache). scaling: time on one thread over ours, of what the limit gains.",
        "",
    ]
    compared = [(result, result.ratio) for result in run.results if result.ratio is not None]
    for title, chosen in (
        ("gathers", [ratio for result, ratio in compared if not result.case.is_scatter]),
        ("scatters", [ratio for result, ratio in compared if result.case.is_scatter]),
        ("all", [ratio for _, ratio in compared]),
    ):
        if chosen:
            lines.append(
                f"{title}: {len(chosen)} cases, geometric mean {geometric_mean(chosen):.2f},"
                f" least {min(chosen):.2f}"
            )
    slower = [f"{result.case.name} {ratio:.2f}" for result, ratio in compared if ratio < 1]
    lines.append(f"slower than the fastest peer: {', '.join(slower) or 'none'}")
    far = [
        f"{result.case.name} {result.limit_fraction:.0%}"
        for result in run.results
        if result.memory_bound
        and result.limit_fraction is not None
        and result.limit_fraction < ENOUGH_OF_LIMIT
    ]
    lines += [
        f"memory-bound and below {ENOUGH_OF_LIMIT:.0%} of the limit: {', '.join(far) or 'none'}",
        *_scaling_lines(run),
        "",
    ]
    lines += limit_lines(run)
    return "\n".join([*lines, "", where(run.setting)])


def _scaling_lines(run: Record) -> list[str]:
    """Return the cases to which threads bring less than to their limit, or harm."""
    scaled, threads = scaling(run), run.setting.threads
    if not scaled.known:
        return []
    miss = [f"{name} {gains_text(*gains)}" for name, gains in scaled.miss.items()]
    lose = [f"{name} {own:.2f}" for name, (own, _) in scaled.lose.items()]
    return [
        f"not {scaled.wanted:.3g} times as fast with {threads} threads, of {len(scaled.could)}"
        f" whose limit is: {', '.join(miss) or 'none'}",
        f"slower by more than a tenth with {threads} threads: {', '.join(lose) or 'none'}",
    ]


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
