"""``python tests/core/faults.py CMAKE FOLDER [FAULT...]``: build the core with a fault and test it.

Every fault changes one line in a copy of the sources. Random calls of the core with tiny limits
have to notice each that is in its loops, in ten seconds; of the others at least one test has to
fail. Exit status 1: one is not noticed. The folder holds the copy and the builds.
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
    """What is changed; the old text stands once in the file."""

    file: str
    old: str
    new: str

    @property
    def is_in_loops(self) -> bool:
        """Whether random calls of the core meet it; they make no points of stored arrays."""
        return "/" not in self.file and self.file not in ("group.cpp", "chunk_table.cpp")


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
    # one index of a tuple inside its axis is enough
    "one-column-inside": Fault(
        "offsets.h", "c < Columns && !Policy::fills", "c < 1 && !Policy::fills"
    ),
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
    # windows may begin where they stick out
    "window-sticks-out": Fault("plan.cpp", "PTRDIFF_MAX - 1) + 1, 0)", "PTRDIFF_MAX - 1) + 2, 0)"),
    # dims are merged whatever their strides in the result
    "merge-any-stride": Fault(
        "plan.cpp", "          outer.dense == inner.size * inner.dense) {", "true) {"
    ),
    # the owner of a part of a partition applies the first updates of the next one too
    "owners-overlap": Fault(
        "scatter.h",
        "- static_cast<std::uint64_t>(first),",
        "- static_cast<std::uint64_t>(first) + 4,",
    ),
    # the updates of a partition are counted from the first position of the call
    "owned-from-the-start": Fault("scatter.h", "cursor(plan, partition.begin)", "cursor(plan, 0)"),
    # updates that those of a later range overwrite are written too
    "later-ranges-forgotten": Fault("run.cpp", "      repeated |= own & later;\n", ""),
    # the maps of overwritten slices have no room for that of the last thread
    "map-of-one-less": Fault("schedule.h", "return threads * mark", "return (threads - 1) * mark"),
    # of the slices that a range writes to, those of the last word are not marked
    "last-word-unmarked": Fault("run.cpp", "  if constexpr (Marks) map[word] = marked;\n}", "}"),
    # every panel of a plane begins at its first column
    "panels-start-alike": Fault("panels.h", "number % bands.per_plane * bands.columns", "0"),
    # what a scatter added to a packed panel stays in the buffer
    "panel-not-copied-back": Fault("panels.h", "if (good && scatters)", "if (false)"),
    # an entry on the border of two chunks counts as one of the chunk before
    "cut-is-before": Fault("group.cpp", "last, Size(c))", "last, Size(c) - 1)"),
    # the points are not sorted by the highest digit of their chunk
    "sort-skips-a-digit": Fault(
        "group.cpp", "(bits + kLimits.digit_bits - 1) / kLimits", "bits / kLimits"
    ),
    # the border behind the last line of a destination is not narrow: the owner's part wraps around
    "border-wraps": Fault(
        "schedule.cpp", "std::min(border, partition.border[partition.owners])", "border"
    ),
    # the highest offset is kept as the number that stands for none
    "narrow-is-outside": Fault("schedule.h", "< Size{kNarrowOutside}", "<= Size{kNarrowOutside}"),
    # runs are joined that are longer than the room for them
    "run-of-one-more": Fault("plan.cpp", "inner.size > most ||", "inner.size > most + 1 ||"),
    # an owner collects twice as many updates as there is room for
    "owned-without-room": Fault("scatter.h", "block_size(plan, {}) / 2", "block_size(plan, {})"),
    # bands are made of planes that write to the same elements
    "planes-write-alike": Fault("schedule.cpp", "if (plan.loop[d].indexed == 0) return {};", ""),
    # the copy of a panel has no room for its last row
    "panel-of-one-less": Fault(
        "schedule.cpp",
        "plan.column[0].extent * bands.pitch;",
        "(plan.column[0].extent - 1) * bands.pitch;",
    ),
    # narrow offsets are recorded from that of the array on, and not from the lowest one
    "recorded-from-the-array": Fault("scatter.h", "cursor.base -= records.lowest;", ""),
    # the records of a shared scatter have no room for the last one
    "records-of-one-less": Fault(
        "run.cpp",
        "records = schedule.round * sch",
        "records = std::max<Size>(schedule.round - 1, 0) * sch",
    ),
    # the positions of a block of points are counted from the first one of all
    "base-of-block-left-out": Fault("group.cpp", "static_cast<std::uint64_t>(base)", "0"),
    # parts of slices that are moved some at a time all go to or come from where the first ones lie
    "parts-from-the-start": Fault("gather.h", "dense.first += some * dense.step;", ""),
    # the threads of a scatter share a dim whose steps write to the same elements
    "any-dim-is-split": Fault("schedule.cpp", "std::abs(dim.indexed) * dim.size /", "dim.size *"),
    # a NaN of a small float does not stay
    "small-nan-is-taken": Fault(
        "reduction.h", "return !(update <= old) & (old == old);", "return !(update <= old);"
    ),
    # an update that is NaN does not count
    "nan-is-dropped": Fault("reduction.h", "one : old == old ? update : old;", "one : old;"),
    # half of the last digit is always rounded up
    "half-rounds-up": Fault("reduction.h", "- 0x38000000u + 0xfff + even)", "- 0x37fff000u)"),
    # the imaginary part of a product is that of a square
    "product-of-parts": Fault(
        "reduction.h", "imaginary = a * d + b * c", "imaginary = a * d + b * d"
    ),
    # the last of the tasks of a thread is done by none
    "task-left-out": Fault(
        "threads.cpp", "tasks * (i + 1) / ranges;", "tasks * (i + 1) / ranges - i % 2;"
    ),
    # a task that two threads share is done twice
    "task-done-twice": Fault(
        "threads.cpp", "next.store(tasks * i / ranges,", "next.store(tasks * i / ranges - (i > 0),"
    ),
    # a call does not wait for the other threads
    "nobody-waits": Fault("threads.cpp", "if (spin_until(done)) return;", "return;"),
    # two calls at once use the same threads
    "team-of-two-calls": Fault(
        "threads.cpp", "|| !team().take()) {", "|| (!team().take(), false)) {"
    ),
    # a block that is too small counts as one that fits
    "pooled-block-too-small": Fault("pool.cpp", "if (capacity < bytes || ", "if ("),
    # a block that is lent stays in the pool, in the place of another
    "pooled-block-lent-twice": Fault(
        "pool.cpp", "std::copy(kept_ + at + 1, kept_ + count_--, kept_ + at);", "--count_;"
    ),
    # a result may be written over data that is still read
    "out-over-data": Fault(
        "binding/call.cpp", "(!in_place_ && extent.meets(data_.extent())) ||", ""
    ),
    # an error leaves parts of a result in the caller's array
    "out-half-written": Fault("binding/call.cpp", "plan_.all_or_nothing = callers_out_;", ""),
    # a value of 2**63 and more is named as a negative one
    "bad-value-is-signed": Fault(
        "binding/call.cpp", "plan_.index_type != IndexType::u64;", "true;"
    ),
    # strides of arrays of other libraries count bytes
    "strides-in-bytes": Fault("binding/arrays.cpp", "static_cast<std::size_t>(bits / 8));", "1);"),
    # memory below the first element does not belong to an array
    "extent-from-the-first": Fault(
        "binding/arrays.cpp", "(reach < 0 ? extent.begin : extent.end)", "extent.end"
    ),
    # an array whose elements share memory may be written to
    "elements-may-share": Fault(
        "binding/arrays.cpp", "if (dims[d].stride < covered) return true;", ""
    ),
    # a task of ranges that begins amid a range leaves out its first position
    "ranges-begin-late": Fault(
        "binding/ranges.cpp", "? first.offset : 0;", "? first.offset + (first.offset > 0) : 0;"
    ),
    # a range may end one step behind the axis
    "range-ends-behind": Fault(
        "binding/ranges.cpp", "start <= size - span);", "start <= size - span + 1);"
    ),
    # updates of another byte order are taken as they are
    "swapped-is-native": Fault("binding/arrays.cpp", "!PyArray_ISBYTESWAPPED(numpy_) ?", "true ?"),
}

# From the quickest to the slowest: the first failure ends a run.
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
    *("--tb=line", "--assert=plain"),  # to write the difference of large arrays takes minutes
)
FAILED = 1  # exit status of pytest
LIMIT = 900  # seconds
TINY_LIMIT = 10


class Copy:
    """A copy of the package, and of the sources of its core."""

    TINY = ("TINY=ON", "SANITIZE=address", "CORE_ONLY=ON")

    def __init__(self, cmake: str, folder: Path) -> None:
        self.cmake, self.build, self.source = cmake, folder / "build", folder / "source"
        self.tiny = folder / "tiny"
        # Not with their times: a fault of the run before may be newer.
        shutil.copytree(
            "core", self.source / "core", copy_function=shutil.copyfile, dirs_exist_ok=True
        )
        for name in ("src", "tests/core", "fuzz"):
            shutil.copytree(name, self.source / name, dirs_exist_ok=True)
        shutil.copy("CMakeLists.txt", self.source)
        for stale in (self.source / "src/ndgather").glob("_core*.so"):
            stale.unlink()
        # One set of instructions, and little optimization: a fault is built in seconds.
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
        """Make random calls of the core with tiny limits."""
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
    """Return whether the tests notice a fault, and which one does."""
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
    if ended.returncode < 0:  # of a signal
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
        pass  # nothing was found meanwhile
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
