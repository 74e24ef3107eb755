"""Results and errors do not depend on the number of threads, and how to set this number."""

import os
import subprocess
import sys

import numpy as np
import pytest

import ndgather
from ndgather import _quotas
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError
from tests.definitions.calls import element_bytes

CALLS = {
    "single elements": ("gather_nd", (700, 800), (400_000, 2), "f4", 0),
    "short rows": ("gather_nd", (9000, 7), (90_000, 1), "i2", 0),
    "long rows": ("gather_nd", (30, 400_000), (9, 1), "u1", 0),
    "one huge row": ("gather_nd", (3, 9_000_001), (1, 1), "V3", 0),
    "batches": ("gather_nd", (30, 500, 9), (30, 3000, 1), "f8", 1),
    "elements, last axis": ("gather_elements", (600, 700), (600, 700), "f8", 1),
    "elements, first axis": ("gather_elements", (600, 700), (900, 700), "f4", 0),
    "elements of an odd width": ("gather_elements", (300, 400), (300, 400), "V5", 0),
    "short runs along the first axis": ("gather_elements", (50_000, 9), (50_000, 7), "f4", 0),
    "short runs along the last axis": ("gather_elements", (50_000, 9), (50_000, 5), "i2", 1),
    "short runs of planes": ("gather_elements", (40, 900, 6), (40, 1500, 6), "f8", 1),
    "slices": ("gather", (50, 300, 40), (900,), "f4", 1),
}


@pytest.fixture(autouse=True)
def _count_as_before():
    before = ndgather.get_num_threads()
    yield
    ndgather.set_num_threads(before)


def made(name):
    function, data_shape, indices_shape, dtype, option = CALLS[name]
    random = np.random.default_rng(0)
    stored = random.integers(0, 256, np.prod(data_shape) * np.dtype(dtype).itemsize, np.uint8)
    data = np.ndarray(data_shape, dtype, stored.data)
    if function == "gather_nd":
        sizes = np.array(data_shape[option : option + indices_shape[-1]])
    else:
        sizes = np.array(data_shape[option])
    indices = random.integers(-sizes, sizes, indices_shape)
    return getattr(ndgather, function), data, indices, option


@pytest.mark.parametrize("name", CALLS)
def test_results_are_identical_for_every_thread_count(name):
    call, data, indices, option = made(name)
    ndgather.set_num_threads(1)
    alone = element_bytes(call(data, indices, option))
    for count in range(2, 9):
        ndgather.set_num_threads(count)
        assert ndgather.get_num_threads() == count
        assert element_bytes(call(data, indices, option)) == alone


@pytest.mark.parametrize("name", CALLS)
def test_same_first_bad_entry_for_every_count(name):
    """Bad entries in the middle, near the end and last, in the work of several threads."""
    call, data, indices, option = made(name)
    sizes = data.shape[option : option + indices.shape[-1]] if call is ndgather.gather_nd else ()
    size = max(sizes) if sizes else data.shape[option]
    places = sorted({indices.size // 2, indices.size * 3 // 4, indices.size - 1})
    indices.flat[places] = [size + 5 + k for k in range(len(places))]
    first = tuple(map(int, np.unravel_index(places[0], indices.shape)))
    texts = set()
    for count in (1, 2, 3, 5, 8):
        ndgather.set_num_threads(count)
        for _ in range(3):
            with pytest.raises(IndexOutOfBoundsError) as caught:
                call(data, indices, option)
            assert caught.value.position == first
            assert caught.value.value == size + 5
            assert caught.value.count == len(places)
            texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.parametrize("count", [0, -1, 1025, 2**31, 2**64, -(2**64)])
def test_counts_out_of_range_are_refused(count):
    before = ndgather.get_num_threads()
    with pytest.raises(AttributeValueError, match=f"count = {count} is out of range"):
        ndgather.set_num_threads(count)
    assert ndgather.get_num_threads() == before


@pytest.mark.parametrize("count", [1.0, "2", None, [2], np.float64(2)])
def test_non_integer_counts_are_refused(count):
    before = ndgather.get_num_threads()
    with pytest.raises(DTypeError, match="not an integer"):
        ndgather.set_num_threads(count)
    assert ndgather.get_num_threads() == before


@pytest.mark.parametrize("count", [3, np.int64(3), np.uint8(3)])
def test_any_integer_type_is_accepted_as_count(count):
    ndgather.set_num_threads(count)
    assert ndgather.get_num_threads() == 3


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SHOW = "import ndgather; print(ndgather.get_num_threads())"


@pytest.mark.parametrize("count", [1, 3, 1024])
def test_environment_sets_the_count(count):
    child = python(SHOW, NDGATHER_NUM_THREADS=str(count))
    assert (child.returncode, child.stdout) == (0, f"{count}\n"), child.stderr


@pytest.mark.parametrize("text", ["0", "-2", "1025", "two", "1.5"])
def test_invalid_environment_variable_is_reported(text):
    child = python(SHOW, NDGATHER_NUM_THREADS=text)
    assert child.returncode == 1
    assert child.stderr.splitlines()[-1].startswith("ndgather.errors.AttributeValueError")
    assert text in child.stderr.splitlines()[-1]


def test_empty_environment_variable_is_ignored():
    child = python(SHOW, NDGATHER_NUM_THREADS="")
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_default_is_the_cpu_affinity():
    pinned = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); " + SHOW
    environment = {name: value for name, value in os.environ.items() if "NDGATHER" not in name}
    child = subprocess.run(
        [sys.executable, "-c", pinned],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert child.stdout == "1\n"


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def membership(tmp_path, *lines):
    path = tmp_path / "membership"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("150000 100000\n", [2]), ("20000 100000\n", [1]), ("max 100000\n", []), ("", [])],
)
def test_version_2_has_quota_and_period_in_one_file(tmp_path, limit, expected):
    group(tmp_path / "root/outer/inner", cpu__max=limit)
    found = _quotas(membership(tmp_path, "0::/outer/inner"), tmp_path / "root")
    assert found == expected


def test_limits_of_parent_groups_apply(tmp_path):
    group(tmp_path / "root/outer", cpu__max="400000 100000")
    group(tmp_path / "root/outer/inner", cpu__max="300000 100000")
    found = _quotas(membership(tmp_path, "0::/outer/inner"), tmp_path / "root")
    assert sorted(found) == [3, 4]


@pytest.mark.parametrize(("quota", "expected"), [("250000\n", [3]), ("-1\n", [])])
def test_version_1_has_quota_and_period_in_two_files(tmp_path, quota, expected):
    group(tmp_path / "root/cpu/job", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000\n")
    group(tmp_path / "root/cpu/other", cpu__cfs_quota_us="100000", cpu__cfs_period_us="100000")
    lines = ("7:memory:/other", "4:cpu,cpuacct:/job")
    assert _quotas(membership(tmp_path, *lines), tmp_path / "root") == expected


def test_a_system_without_control_groups_has_no_limit(tmp_path):
    assert _quotas(tmp_path / "missing", tmp_path / "root") == []
