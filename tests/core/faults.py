"""``python tests/core/faults.py CMAKE FOLDER [FAULT...]``: plant faults in the core and test it.

Each fault changes one line in a copy of the sources. Random calls of the core with tiny limits must
detect each fault in its loops within ten seconds; every other fault must make at least one test
fail. The exit status is 1 if a fault is not detected. The folder holds the copy and the builds.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """A change to the sources; the old text occurs once in the file."""

    file: str
    old: str
    new: str

    @property
    def is_in_loops(self) -> bool:
        """Return whether random calls of the core reach the fault; they use no stored points."""
        return "/" not in self.file and self.file != "group.cpp"


FAULTS = {
    # an index equal to the size of its axis is allowed
    "size-is-inside": Fault("offsets.h", "return at < static_cast", "return at <= static_cast"),
    # negative indices do not count from the end
    "negative-as-is": Fault(
        "offsets.h", "wide + ((wide >> (8 * sizeof wide - 1)) & column.wrap)", "wide"
    ),
    # they count from the end of an axis that is one shorter
    "negative-off-by-one": Fault("offsets.h", "& column.wrap)", "& (column.wrap - 1))"),
    # mode clip ends one before the last entry
    "clip-before-last": Fault("offsets.h", ": last;", ": last - (last > 0);"),
    # mode wrap leaves a negative remainder
    "wrap-negative": Fault("offsets.h", "rest + ((rest >> 63) & column.extent)", "rest"),
    # a tuple is valid if one of its indices is
    "one-column-inside": Fault("offsets.h", "good &= inside;", ""),
    # batch axes do not move the offset in data
    "base-left-out": Fault(
        "walk.h", "static_cast<Out>(base + from[i])", "static_cast<Out>(from[i])"
    ),
    # every index of a tuple steps along the first axis
    "column-of-first-axis": Fault("plan.cpp", "indexed.strides[axis]}", "indexed.strides[0]}"),
    # the sizes of batch axes are not compared
    "batch-sizes-differ": Fault("plan.cpp", "data.shape[d] != indices.shape[d]", "d < 0"),
    # index tuples may be longer than data has axes
    "depth-unbounded": Fault("plan.cpp", "depth > data.rank - batch_dims", "depth > kMaxRank"),
    # indices may be larger than data on the other axes
    "off-axis-larger": Fault("plan.cpp", "indices.shape[d] > data.shape[d]", "d < 0"),
    # elements move along the axis with their position as well
    "axis-steps-too": Fault("plan.cpp", "d == axis ? 0 : indexed", "indexed"),
    # windows may extend past the bounds
    "window-sticks-out": Fault("plan.cpp", "PTRDIFF_MAX - 1) + 1, 0)", "PTRDIFF_MAX - 1) + 2, 0)"),
    # dims are merged whatever their strides in the result
    "merge-any-stride": Fault(
        "plan.cpp", "          outer.dense == inner.size * inner.dense) {", "true) {"
    ),
    # the owner of a part of a partition also applies the first updates of the next part
    "owners-overlap": Fault(
        "scatter.h",
        "- static_cast<std::uint64_t>(first),",
        "- static_cast<std::uint64_t>(first) + 4,",
    ),
    # the updates of a partition are counted from the first position of the call
    "owned-from-the-start": Fault("scatter.h", "cursor(plan, partition.begin)", "cursor(plan, 0)"),
    # updates that a later range overwrites are also written
    "later-ranges-forgotten": Fault("run.cpp", "      repeated |= own & later;\n", ""),
    # the maps of overwritten slices lack room for the last thread
    "map-of-one-less": Fault("schedule.h", "return threads * mark", "return (threads - 1) * mark"),
    # slices in the last word of a range are not marked
    "last-word-unmarked": Fault("run.cpp", "  if constexpr (Marks) map[word] = marked;\n}", "}"),
    # every panel of a plane begins at its first column
    "panels-start-alike": Fault("panels.h", "number % bands.per_plane * bands.columns", "0"),
    # updates of a packed panel are not copied back
    "panel-not-copied-back": Fault("panels.h", "if (good && scatters)", "if (false)"),
    # an entry on the border of two chunks is assigned to the previous chunk
    "cut-is-before": Fault("group.cpp", "last, Size(c))", "last, Size(c) - 1)"),
    # the points are not sorted by the highest digit of their chunk
    "sort-skips-a-digit": Fault(
        "group.cpp", "(bits + kLimits.digit_bits - 1) / kLimits", "bits / kLimits"
    ),
    # the end of the last line of a destination does not fit the narrow type and wraps around
    "border-wraps": Fault(
        "schedule.cpp", "std::min(border, partition.border[partition.owners])", "border"
    ),
    # the highest offset is stored as the marker for no offset
    "narrow-is-outside": Fault("schedule.h", "< Size{kNarrowOutside}", "<= Size{kNarrowOutside}"),
    # runs are merged beyond the available room
    "run-of-one-more": Fault("plan.cpp", "inner.size > most ||", "inner.size > most + 1 ||"),
    # an owner collects twice as many updates as fit
    "owned-without-room": Fault("scatter.h", "block_size(plan, {}) / 2", "block_size(plan, {})"),
    # bands contain planes that write to the same elements
    "planes-write-alike": Fault("schedule.cpp", "if (plan.loop[d].indexed == 0) return {};", ""),
    # the copy of a panel has no room for its last row
    "panel-of-one-less": Fault(
        "schedule.cpp",
        "plan.column[0].extent * bands.pitch;",
        "(plan.column[0].extent - 1) * bands.pitch;",
    ),
    # narrow offsets are relative to the array, not to the lowest offset
    "recorded-from-the-array": Fault("scatter.h", "cursor.base -= records.lowest;", ""),
    # the records of a shared scatter lack room for the last record
    "records-of-one-less": Fault(
        "run.cpp",
        "records = schedule.round * sch",
        "records = std::max<Size>(schedule.round - 1, 0) * sch",
    ),
    # the positions of a block of points are relative to the first point of all
    "base-of-block-left-out": Fault("group.cpp", "static_cast<std::uint64_t>(base)", "0"),
    # all parts of slices that move in blocks use the position of the first block
    "parts-from-the-start": Fault("gather.h", "dense.first += some * dense.step;", ""),
    # the threads of a scatter share a dim whose steps write to the same elements
    "any-dim-is-split": Fault("schedule.cpp", "std::abs(dim.indexed) * dim.size /", "dim.size *"),
    # a NaN of a small float does not propagate
    "small-nan-is-taken": Fault(
        "reduction.h", "return !(update <= old) & (old == old);", "return !(update <= old);"
    ),
    # NaN updates are ignored
    "nan-is-dropped": Fault("reduction.h", "one : old == old ? update : old;", "one : old;"),
    # ties are always rounded up
    "half-rounds-up": Fault("reduction.h", "- 0x38000000u + 0xfff + even)", "- 0x37fff000u)"),
    # the imaginary part of a product is that of a square
    "product-of-parts": Fault(
        "reduction.h", "imaginary = a * d + b * c", "imaginary = a * d + b * d"
    ),
    # the last task of a thread is skipped
    "task-left-out": Fault(
        "threads.cpp", "tasks * (i + 1) / ranges;", "tasks * (i + 1) / ranges - i % 2;"
    ),
    # a task shared by two threads is run twice
    "task-done-twice": Fault(
        "threads.cpp", "next.store(tasks * i / ranges,", "next.store(tasks * i / ranges - (i > 0),"
    ),
    # a call does not wait for the other threads
    "nobody-waits": Fault(
        "threads.cpp", "if (spin_until([this] { return inside_.load() == 0; })) return;", "return;"
    ),
    # two calls at once use the same threads
    "team-of-two-calls": Fault(
        "threads.cpp", "|| !team().take()) {", "|| (!team().take(), false)) {"
    ),
    # a block that is too small counts as one that fits
    "pooled-block-too-small": Fault("pool.cpp", "if (capacity < bytes || ", "if ("),
    # a block in use stays in the pool in place of another
    "pooled-block-lent-twice": Fault(
        "pool.cpp", "std::copy(kept_ + at + 1, kept_ + count_--, kept_ + at);", "--count_;"
    ),
    # a result may be written over data that is still read
    "out-over-data": Fault(
        "binding/call.cpp", "(!in_place_ && extent.meets(data_.extent())) ||", ""
    ),
    # an error leaves parts of a result in the caller's array
    "out-half-written": Fault("binding/call.cpp", "plan_.all_or_nothing = callers_out_;", ""),
    # a value of 2**63 or more is reported as negative
    "bad-value-is-signed": Fault(
        "binding/call.cpp", "plan_.index_type != IndexType::u64;", "true;"
    ),
    # strides of arrays of other libraries are in bytes
    "strides-in-bytes": Fault("binding/arrays.cpp", "static_cast<std::size_t>(bits / 8));", "1);"),
    # memory below the first element does not belong to an array
    "extent-from-the-first": Fault(
        "binding/arrays.cpp", "(reach < 0 ? extent.begin : extent.end)", "extent.end"
    ),
    # an array whose elements share memory may be written to
    "elements-may-share": Fault(
        "binding/arrays.cpp", "if (dims[d].stride < covered) return true;", ""
    ),
    # a task of ranges that begins within a range skips its first position
    "ranges-begin-late": Fault(
        "binding/ranges.cpp", "? first.offset : 0;", "? first.offset + (first.offset > 0) : 0;"
    ),
    # a range may end one position past the axis
    "range-ends-behind": Fault(
        "binding/ranges.cpp", "start <= size - span);", "start <= size - span + 1);"
    ),
    # updates of another byte order are used without conversion
    "swapped-is-native": Fault("binding/arrays.cpp", "!PyArray_ISBYTESWAPPED(numpy_) ?", "true ?"),
}

# Fastest first: the first failure ends a run.
TESTS = (
    "tests/core/threads/test_scatter_threads.py::test_more_updates_than_buffered_offsets",
    *(f"tests/core/arguments/test_{name}.py" for name in ("error_texts", "overflow", "exchange")),
    *(f"tests/core/test_{name}definitions.py" for name in ("", "scatter_")),
    *("tests/core/scatters/test_scatter_refusals.py", "tests/core/results/test_modes.py"),
    "tests/core/results/test_results.py",
    *(f"tests/core/results/test_{name}.py" for name in ("orders", "points", "ranges", "windows")),
    *("tests/core/results/test_drawn_threads.py", "tests/stored/test_definitions.py"),
    *("tests/core/threads/test_thread_count.py", "tests/core/threads/test_scatter_threads.py"),
)
PYTEST = (
    *("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"),
    *("--tb=line", "--assert=plain"),  # formatting the difference of large arrays takes minutes
)
FAILED = 1  # pytest exit status
LIMIT = 900  # seconds
TINY_LIMIT = 60


class Copy:
    """A copy of the package and of the sources of its core."""

    TINY = ("TINY=ON", "SANITIZE=address", "CORE_ONLY=ON")

    def __init__(self, cmake: str, folder: Path) -> None:
        self.cmake, self.build, self.source = cmake, folder / "build", folder / "source"
        self.tiny = folder / "tiny"
        # Do not copy times: a fault of the previous run may be newer.
        shutil.copytree(
            "core", self.source / "core", copy_function=shutil.copyfile, dirs_exist_ok=True
        )
        for name in ("src", "tests/core", "fuzz"):
            shutil.copytree(name, self.source / name, dirs_exist_ok=True)
        shutil.copy("CMakeLists.txt", self.source)
        for stale in (self.source / "src/ndgather").glob("_core*.so"):
            stale.unlink()
        # One instruction set and little optimization, so that a fault is built in seconds.
        for build, options in (
            (self.build, [f"-DPython_EXECUTABLE={sys.executable}"]),
            (self.tiny, [f"-DNDGATHER_{name}" for name in self.TINY]),
        ):
            self._run(
                *("-S", self.source, "-B", build, "-G", "Ninja", "--log-level=WARNING"),
                *("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"),
                *("-DNDGATHER_LEVELS=OFF", *options),
            )

    def compile(self, fault: Fault | None, build: Path) -> None:
        if fault is not None:
            path = self.source / "core" / fault.file
            text = path.read_text()
            path.write_text(text.replace(fault.old, fault.new))
        self._run("--build", build)
        for built in build.glob("_core*.so"):
            shutil.copy(built, self.source / "src/ndgather")
        if fault is not None:
            path.write_text(text)

    def call(self) -> subprocess.CompletedProcess[str]:
        """Run random calls of the core with tiny limits."""
        command = [self.tiny / "core_calls", "2", "20000"]
        return subprocess.run(
            command, timeout=TINY_LIMIT, check=False, capture_output=True, text=True
        )

    def test(self) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYTHONPATH": str(self.source / "src"),
            "HYPOTHESIS_PROFILE": "fixed",
        }
        command = [sys.executable, *PYTEST, *TESTS]
        return subprocess.run(
            command, env=environment, timeout=LIMIT, check=False, capture_output=True, text=True
        )

    def _run(self, *arguments: object) -> None:
        command = [self.cmake, *map(str, arguments)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")


def outcome(copy: Copy, fault: Fault) -> tuple[bool, str]:
    """Return whether the tests detect a fault, and which test does."""
    if fault.is_in_loops:
        copy.compile(fault, copy.tiny)
        try:
            ended = copy.call()
        except subprocess.TimeoutExpired:
            return False, f"random calls with tiny limits did not notice it in {TINY_LIMIT} s"
        found = re.search(r"random call: .*|ERROR: .*|runtime error.*", ended.stderr)
        return ended.returncode != 0, found[0] if found else f"exit status {ended.returncode}"
    copy.compile(fault, copy.build)
    try:
        ended = copy.test()
    except subprocess.TimeoutExpired:
        return False, f"the tests were not done after {LIMIT} s; perhaps the machine is busy"
    if ended.returncode < 0:  # killed by a signal
        return True, f"the process ended with signal {-ended.returncode}"
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    report = failed[0] if failed else "\n".join(ended.stdout.splitlines()[-20:])
    return ended.returncode == FAILED, report.partition(" - ")[0]


def main(cmake: str, folder: str, *names: str) -> int:
    for fault in FAULTS.values():
        times = Path("core", fault.file).read_text().count(fault.old)
        if times != 1:
            sys.exit(f"{fault.file} has {fault.old!r} {times} times (allowed: 1)")
    copy = Copy(cmake, Path(folder).resolve())
    for build in (copy.build, copy.tiny):
        copy.compile(None, build)
    passed = copy.test()
    if passed.returncode:
        sys.exit(f"the tests fail without a fault:\n{passed.stdout[-2000:]}")
    try:
        passed = copy.call()
    except subprocess.TimeoutExpired:
        pass  # no finding in the meantime
    else:
        if passed.returncode:
            sys.exit(f"random calls fail without a fault:\n{passed.stderr[-2000:]}")
    unnoticed = []
    for name in names or FAULTS:
        start = time.monotonic()
        noticed, how = outcome(copy, FAULTS[name])
        seconds = time.monotonic() - start
        verdict = "noticed" if noticed else "PASSED"
        print(f"{verdict:8} {seconds:4.0f} s  {name}: {how}", flush=True)
        unnoticed += [] if noticed else [name]
    print(f"{len(names or FAULTS)} faults, not noticed: {unnoticed or 'none'}")
    return int(bool(unnoticed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
