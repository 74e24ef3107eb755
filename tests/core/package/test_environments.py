"""Results do not depend on the floating-point environment of any thread."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ndgather
from tests.core.package import environments as roads
from tests.definitions import environments, reference

pytestmark = pytest.mark.skipif(not environments.is_known(), reason="needs Linux on x86-64")
PROGRAM = Path(roads.__file__)


@cache
def results(place: str, name: str) -> dict[str, str]:
    """Return a hash of the result of each road, computed in a new process."""
    command = [sys.executable, "-m", "tests.core.package.environments", place, name]
    text = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=PROGRAM.parents[3]
    ).stdout
    return dict(line.split("\t") for line in text.splitlines())


@pytest.mark.parametrize("place", ["caller", "creator"])
@pytest.mark.parametrize("name", environments.ENVIRONMENTS)
def test_no_road_depends_on_the_environment(place: str, name: str) -> None:
    assert results(place, name) == results("neither", "up")
    assert len(results(place, name)) == len(roads.ROADS)


@pytest.mark.parametrize("reduction", ["add", "sub", "mul", "min", "max", "mean"])
@pytest.mark.parametrize("name", environments.ENVIRONMENTS)
def test_few_updates_are_reduced_as_defined(reduction: str, name: str) -> None:
    data = np.array([3e-41, 1, 1], np.float32)
    indices = np.array([[0], [1], [0], [1], [2]])
    updates = np.array([1e-40, 0.1, 2e-45, 0.7, 1e-40], np.float32)
    expected = reference.scatter_nd(data, indices, updates, reduction=reduction)
    with environments.environment(name):
        result = ndgather.scatter_nd(data, indices, updates, reduction=reduction)
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", environments.ENVIRONMENTS)
def test_the_environment_of_the_caller_is_restored(name: str) -> None:
    data, indices = np.zeros(3, np.float32), np.array([[0], [0]])
    updates = np.ones(2, np.float32)
    with environments.environment(name):
        before = environments.current()
        ndgather.scatter_nd(data, indices, updates, reduction="add")
        ndgather.scatter_nd(data, indices.tolist(), updates, reduction="mean")
        with pytest.raises(IndexError):
            ndgather.scatter_nd(data, indices + 9, updates, reduction="add")
        assert environments.current() == before
