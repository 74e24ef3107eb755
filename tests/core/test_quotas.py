"""The processor limits of control groups, on trees made for the test."""

import pytest

from ndgather.settings import quotas


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
def test_version_2_states_quota_and_period_in_one_file(tmp_path, limit, expected):
    group(tmp_path / "root/outer/inner", cpu__max=limit)
    found = quotas(membership(tmp_path, "0::/outer/inner"), tmp_path / "root")
    assert found == expected


def test_every_group_above_counts_too(tmp_path):
    group(tmp_path / "root/outer", cpu__max="400000 100000")
    group(tmp_path / "root/outer/inner", cpu__max="300000 100000")
    found = quotas(membership(tmp_path, "0::/outer/inner"), tmp_path / "root")
    assert sorted(found) == [3, 4]


@pytest.mark.parametrize(("quota", "expected"), [("250000\n", [3]), ("-1\n", [])])
def test_version_1_states_them_in_two_files(tmp_path, quota, expected):
    group(tmp_path / "root/cpu/job", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000\n")
    group(tmp_path / "root/cpu/other", cpu__cfs_quota_us="100000", cpu__cfs_period_us="100000")
    lines = ("7:memory:/other", "4:cpu,cpuacct:/job")
    assert quotas(membership(tmp_path, *lines), tmp_path / "root") == expected


def test_a_system_without_control_groups_has_no_limit(tmp_path):
    assert quotas(tmp_path / "missing", tmp_path / "root") == []
