"""``python -m tools.wheels OPTION...``: test the wheel in dist with every installed Python.

Every Python runs the tests of the core, with the oldest and the newest NumPy. The first Python runs
all tests, with the newest NumPy. The options are passed to pytest.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
LOWEST = dict.fromkeys(PYTHONS, "numpy==2.2.0") | {"python3.14": "numpy==2.3.2"}  # with wheels
FOLDER = Path("build/wheels")
CORE = ["tests/core", "--ignore=tests/core/memory", "--ignore=tests/core/threads"]
FOR_CORE = ["pytest", "hypothesis", "ml_dtypes", "--only-binary", ":all:"]


def test_wheel(name: str, packages: list[str], tests: list[str], profile: str | None) -> None:
    """Install the wheel and packages in the environment of a Python, and run tests."""
    python = str(FOLDER / name / "bin" / "python")
    wheels = [str(wheel) for wheel in Path("dist").glob("*.whl")]
    install = [python, "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*install, "pip>=25.1"], check=True)
    subprocess.run([*install, *wheels, *packages], check=True)
    print(f"== {name}, {packages[0]}", flush=True)
    environment = os.environ | ({} if profile is None else {"HYPOTHESIS_PROFILE": profile})
    pytest = [python, "-m", "pytest", "-q", "-m", "not slow"]
    subprocess.run([*pytest, *tests], check=True, env=environment)


def main(*options: str) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    found = [name for name in PYTHONS if shutil.which(name)]
    if not found:
        sys.exit(f"none of {', '.join(PYTHONS)} is found")
    for name in found:
        subprocess.run([name, "-m", "venv", str(FOLDER / name)], check=True)
        for numpy in (LOWEST[name], "numpy"):
            test_wheel(name, [numpy, *FOR_CORE], [*options, *CORE], "quick")
    test_wheel(found[0], ["numpy", "--group", "test"], [*options, "tests", "README.md"], None)
    print(f"passed by: {', '.join(found)}; not found: {', '.join({*PYTHONS} - {*found}) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
