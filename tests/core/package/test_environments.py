"""Results do not depend on the floating-point environment of any thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ndgather
from tests.core.comparing import threads
from tests.core.package import environments as roads
from tests.definitions import environments, reference

pytestmark = pytest.mark.skipif(not environments.is_known(), reason="needs Linux on x86-64")
PROGRAM = Path(roads.__file__)


@pytest.fixture(scope="module")
def usual() -> dict[str, str]:
    """Return a hash of the result of each code path in the default environment."""
    with threads(2):
        return roads.hashes(None)


@pytest.mark.parametrize("name", environments.ENVIRONMENTS)
def test_no_code_path_depends_on_the_environment(name: str, usual: dict[str, str]) -> None:
    with threads(2):
        assert roads.hashes(name) == usual


@pytest.mark.parametrize(
    "name", ["up", "both"]
)  # one changes rounding, the other flushes subnormals
def test_no_code_path_depends_on_the_environment_of_thread_creation(
    name: str, usual: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.core.package.environments", name]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=PROGRAM.parents[3]
    )
    assert dict(line.split("\t") for line in ended.stdout.splitlines()) == usual


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
def test_environment_of_the_caller_is_restored(name: str) -> None:
    data, indices = np.zeros(3, np.float32), np.array([[0], [0]])
    updates = np.ones(2, np.float32)
    with environments.environment(name):
        before = environments.current()
        ndgather.scatter_nd(data, indices, updates, reduction="add")
        ndgather.scatter_nd(data, indices.tolist(), updates, reduction="mean")
        with pytest.raises(IndexError):
            ndgather.scatter_nd(data, indices + 9, updates, reduction="add")
        assert environments.current() == before
