"""The results: a row per case, a summary, and JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from .limits import Lines, Machine, last_level_cache_bytes
from .measure import MOST_SPREAD, Result
from .peers import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .peers import Peer

T = TypeVar("T")

ENOUGH_OF_LIMIT = 0.85
_RUNTIMES = ("numpy", "torch", "onnxruntime", "openvino")
MOST_NOISY = 5 / 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The machine and the versions of a run."""

    date: str
    processor: str
    system: str
    python: str
    threads: int
    processors: int
    last_level_cache_bytes: int
    quiet: bool
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run of the benchmark."""

    setting: Setting
    results: tuple[Result, ...]
    copy_speeds: tuple[tuple[int, tuple[float, ...]], ...]
    line_seconds: tuple[tuple[int, Lines], ...]


def setting(peers: Sequence[Peer], threads: int, *, quiet: bool = True) -> Setting:
    """Describe this machine and the installed libraries; `quiet`: disturbed turns do not count."""
    return Setting(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=processor(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        threads=threads,
        processors=usable_processors(),
        last_level_cache_bytes=last_level_cache_bytes(),
        quiet=quiet,
        versions={
            peer.name: f"{peer.version}, threads: {'one' if peer.threads == 'one' else threads}"
            for peer in peers
            if peer.installed
        },
    )


def usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def where(setting: Setting) -> str:
    """Return the machine, and a line per library with its threads."""
    versions = "".join(f"\n{name} {version}" for name, version in setting.versions.items())
    return (
        f"{setting.processor}, {setting.processors} processors, {setting.system},"
        f" Python {setting.python}, {setting.date}{versions}"
    )


def record(setting: Setting, results: Iterable[Result], machine: Machine) -> Record:
    return Record(
        setting=setting,
        results=tuple(results),
        copy_speeds=tuple(sorted(machine.copy_bytes_per_second.items())),
        line_seconds=tuple(sorted(machine.line_seconds.items())),
    )


# reading and writing --------------------------------------------------------------------------


def save(run: Record, path: Path) -> None:
    """Write `run` as JSON, including derived numbers for other programs."""
    results = [
        asdict(result)
        | {
            "median_seconds": {timing.peer: timing.seconds for timing in result.timings},
            "spread": {timing.peer: timing.spread for timing in result.timings},
            "ratio": result.ratio,
            "limit_fraction": result.limit_fraction,
        }
        for result in run.results
    ]
    write_json(asdict(run) | {"results": results}, path)


def write_json(content: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path, kind: type[T]) -> T:
    """Read a dataclass `kind`; raise ValueError if the file has a different class."""
    try:
        loaded: T = _from_json(kind, json.loads(path.read_text()))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a run saved by this version of the benchmark") from error
    return loaded


def _from_json(kind: Any, value: Any) -> Any:
    """Return the value of type `kind` from which `asdict` made `value`."""
    if is_dataclass(kind):
        types = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        loaded: Any = kind
        return loaded(**{name: _from_json(types[name], value[name]) for name in names})
    if get_origin(kind) is tuple:
        types_of_items = get_args(kind)
        if types_of_items[-1] is Ellipsis:
            types_of_items = types_of_items[:1] * len(value)
        return tuple(_from_json(*pair) for pair in zip(types_of_items, value, strict=True))
    return value


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


def ratios_by_peer(run: Record) -> dict[str, list[float]]:
    """Return the ratios of each library's time to ndgather's, in the cases that both support."""
    ratios: dict[str, list[float]] = {}
    for result in run.results:
        for timing in result.timings:
            if result.own and timing.peer != OWN.name:
                ratios.setdefault(timing.peer, []).append(timing.seconds / result.own.seconds)
    return ratios


def _ratios_to(run: Record, names: Sequence[str]) -> list[float]:
    """Return the ratios of the fastest of some libraries, if at least one supports the case."""
    ratios = []
    for result in run.results:
        seconds = [timing.seconds for timing in result.timings if timing.peer in names]
        if result.own and seconds:
            ratios.append(min(seconds) / result.own.seconds)
    return ratios or [1.0]


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def noise(results: Sequence[Result], cases: int) -> str | None:
    """Return why no page can be written: too many times spread."""
    spread = [
        f"{result.case.name} ({result.own.spread:.0%})"
        for result in results
        if result.own and result.own.spread > MOST_SPREAD
    ]
    if len(spread) <= MOST_NOISY * cases:
        return None
    return (
        f"{len(spread)} of {cases} cases spread more than {MOST_SPREAD:.0%}"
        f" (allowed: {MOST_NOISY:.0%} of them): {', '.join(spread)}; measure when nothing else runs"
    )


def cells(result: Result, peers: Sequence[str]) -> dict[str, str]:
    """Return the row of a case by column title; "-" if there is no number."""
    own, peer, fraction = result.own, result.fastest_peer, result.limit_fraction
    times = {timing.peer: seconds_text(timing.seconds) for timing in result.timings}
    mark = "" if result.memory_bound else "*"
    return {
        "case": result.case.name,
        "moved": bytes_text(result.bytes_moved),
        **{name: times.get(name, "-") for name in peers},
        "spread": f"{own.spread:.0%}" if own else "-",
        "ratio": f"{result.ratio:.2f}" if result.ratio is not None else "-",
        "fastest peer": peer.peer if peer else "-",
        "of limit": f"{fraction:.0%}{mark}" if fraction is not None else "-",
    }


def line(peers: Sequence[str], result: Result | None = None) -> str:
    """Return the row of a case, or the titles if there is no case; the name is left-aligned."""
    widths = {"case": 26, "moved": 8, **dict.fromkeys(peers, 8), "spread": 6, "ratio": 6}
    widths |= {"fastest peer": 12, "of limit": 8}
    texts = cells(result, peers) if result else {title: title for title in widths}
    return "  ".join(
        texts[title].ljust(width)
        if title in ("case", "fastest peer")
        else texts[title].rjust(max(width, len(title)))
        for title, width in widths.items()
    ).rstrip()


def findings(run: Record) -> tuple[list[str], list[str]]:
    """Return sentences about all cases, and about slower cases and cases far from the limit."""
    compared = [(result, result.ratio) for result in run.results if result.ratio is not None]
    if not compared:
        return ["ndgather was not measured."], []
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
    in_short = [
        f"{len(compared)} cases; the fastest other library takes {geometric_mean(ratios):.2f}"
        f" times as long as {OWN.name} (geometric mean), from {min(ratios):.2f} to"
        f" {max(ratios):.1f} times.",
        f"The fastest of {', '.join(_RUNTIMES[:-1])} and {_RUNTIMES[-1]} takes"
        f" {geometric_mean(_ratios_to(run, _RUNTIMES)):.2f} times as long.",
        f"Another library is faster in {len(slower)} of {len(compared)} cases.",
        f"{len(bound) - len(far)} of {len(bound)} cases that exceed the last-level cache reach"
        f" {ENOUGH_OF_LIMIT:.0%} of the limit that memory sets.",
    ]
    operators: dict[str, list[float]] = {}
    for result, ratio in compared:
        operators.setdefault(result.case.operator, []).append(ratio)
    means = (
        f"{name} {geometric_mean(ratios):.2f} ({len(ratios)})"
        for name, ratios in sorted(operators.items())
    )
    cases = [
        f"Mean ratio by operator (number of cases): {', '.join(means)}.",
        f"Cases in which another library is faster (ratio): {', '.join(slower) or 'none'}.",
        f"Cases below {ENOUGH_OF_LIMIT:.0%} of the limit (share, what sets the limit):"
        f" {', '.join(far) or 'none'}.",
    ]
    return in_short, cases


def summary(run: Record) -> str:
    in_short, cases = findings(run)
    columns = (
        "ratio: time of the fastest peer over ours. of limit: least possible time over ours"
        " (* all in the cache)"
    )
    lines = [columns, "", *in_short, *cases, "", *limit_lines(run), "", where(run.setting)]
    return "\n".join(lines)


def limit_lines(run: Record) -> list[str]:
    """Return the measured speeds of the machine, by number of threads."""
    lines = ["copy speed (read plus written) with 1, 2, .. threads:"]
    for size, speeds in run.copy_speeds:
        texts = "  ".join(f"{bytes_text(speed)}/s" for speed in speeds)
        lines.append(f"  {bytes_text(size):>8}  {texts}")
    if run.line_seconds:
        lines.append("one random cache line of so many bytes with 1, 2, .. threads:")
    for reach, line in run.line_seconds:
        texts = "  ".join(map(seconds_text, line.seconds))
        lines.append(
            f"  {bytes_text(reach):>8}  {texts}; latency {seconds_text(line.latency)},"
            f" {line.in_flight:.0f} at once"
        )
    return lines
