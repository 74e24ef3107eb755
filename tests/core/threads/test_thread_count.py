"""How the number of threads is set, and its default."""

import os
import subprocess
import sys

import numpy as np
import pytest

import ndgather
from ndgather import _quotas
from ndgather.errors import AttributeValueError, DTypeError


@pytest.fixture(autouse=True)
def _count_as_before():
    before = ndgather.get_num_threads()
    yield
    ndgather.set_num_threads(before)


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
