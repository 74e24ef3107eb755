"""Fixtures shared by several test files."""

import pytest

import ndgather


@pytest.fixture(params=[1, 2])
def threads(request):
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(request.param)
    yield request.param
    ndgather.set_num_threads(before)
