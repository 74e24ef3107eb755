"""Fixtures shared by several test files."""

from pathlib import Path

import pytest

import ndgather

UNHURRIED = [Path(__file__).with_name(folder) for folder in ("memory", "package", "threads")]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent in UNHURRIED:
            item.add_marker("unhurried")


@pytest.fixture(params=[1, 2])
def threads(request):
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(request.param)
    yield request.param
    ndgather.set_num_threads(before)
