"""The oldest and the newest versions of the packages that the extras need.

``python -m tools.versions oldest UV`` writes ``tests/versions/oldest.txt``: the versions that uv
selects for the lower bounds in ``pyproject.toml`` of the extras and the packages of the adapters'
tests. ``python -m tools.versions test`` runs the tests of the extras with both, in the steps of
``STEPS``, and writes the table of ``docs/install.md``; ``test oldest-torch`` repeats one step.
"""

import os
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = ROOT / "tests" / "versions" / "oldest.txt"
PAGE = ROOT / "docs" / "install.md"
INSTALLED = ROOT / "build" / "versions"  # with oldest-*.txt and newest-*.txt, of pip freeze
GROUPS = (
    "test",
    "frameworks",
    "backends",
    "exports",
)  # the packages of `make test-versions`
TABLE = re.compile(r"(<!-- by make test-versions -->\n).*(<!-- end -->)", re.DOTALL)


def written_name(requirement: str) -> str:
    return re.split(r"[\[=<>!~; ]", requirement, maxsplit=1)[0]


def plain_name(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    return re.sub(r"[-_.]+", "-", written_name(requirement)).lower()


def requirements(*groups: str) -> dict[str, str]:
    """Return the requirements of the package, its extras and some groups, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *(project["dependency-groups"][group] for group in groups),
    ]
    texts = (text for each in lists for text in each if isinstance(text, str))
    return {name: text for text in texts if (name := plain_name(text)) != "ndgather"}


def pinned(text: str) -> dict[str, str]:
    """Return the versions in a list of pins, without local versions."""
    pins = re.findall(r"^([\w.-]+)==([^\s+;]+)", text, re.MULTILINE)
    return {plain_name(name): version for name, version in pins}


def write_oldest(uv: str) -> None:
    how = ["--resolution=lowest-direct", "--only-binary=:all:", "--upgrade", "--no-annotate"]
    how += ["--python-version=3.11", "--custom-compile-command=make oldest-versions"]
    asked = "\n".join(requirements(*GROUPS).values())
    command = [uv, "pip", "compile", "--quiet", *how, f"--output-file={OLDEST}", "-"]
    subprocess.run(command, input=asked, text=True, check=True)


# A step adds a group of packages to one environment, and runs tests. TensorFlow needs older
# packages, so stores are tested without it. ONNX's own tests belong to one version of onnx.
OF_TORCH = sorted(map(str, Path("tests/frameworks").glob("test_torch_*.py")))
KERNELS = "tests/frameworks/test_torch_kernels.py"
STEPS: dict[str, tuple[str, list[str]]] = {
    "stores": (
        "test",
        [
            *("-n", "2", "--dist", "worksteal"),
            *("tests/core", "tests/arrays", "tests/stored", "tests/cli"),
        ],
    ),
    "torch": ("all", [each for each in OF_TORCH if each != KERNELS]),
    "models": (
        "all",
        [
            *(f"--ignore={each}" for each in (*OF_TORCH, "tests/models/test_backend.py")),
            *("tests/frameworks", "tests/models", "tests/core/package/test_private_names.py"),
        ],
    ),
    "kernels": ("all", [KERNELS]),
}


def run_step(which: str, step: str) -> bool:
    """Install the packages of a step, save the list of versions, and run its tests."""
    folder, (group, tests) = INSTALLED / which, STEPS[step]
    python = str(folder / "bin" / "python")
    constraints = ["--constraint", str(OLDEST)] if which == "oldest" else []
    install = [python, "-m", "pip", "install", "--quiet", *constraints]
    if step == "stores":
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)
    wheels = map(str, INSTALLED.glob("wheel/*.whl"))
    subprocess.run([*install, *wheels, "--group", group], check=True)
    listed = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True)
    (INSTALLED / f"{which}-{step}.txt").write_bytes(listed.stdout)
    settings = {"HYPOTHESIS_PROFILE": "short"}
    if step == "kernels":
        settings |= {"NDGATHER_TORCH_KERNELS": "1", "TRITON_INTERPRET": "1"}
    # Warnings of other versions are shown but do not fail tests.
    pytest = [python, "-m", "pytest", "-q", "-m", "not slow", "-o", "filterwarnings=default"]
    pytest.append(f"--junit-xml=build/reports/versions-{which}-{step}.xml")
    return subprocess.run([*pytest, *tests], env=os.environ | settings, check=False).returncode == 0


def run_steps(*wanted: str) -> None:
    """Run steps such as "oldest-torch", or run all steps and write the table."""
    steps = wanted or tuple(f"{which}-{step}" for which in ("oldest", "newest") for step in STEPS)
    failed = [each for each in steps if not run_step(*each.split("-"))]
    if not wanted:
        write_table()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def write_table() -> None:
    columns = []
    for which, most in (
        ("oldest", min),
        ("newest", max),
    ):  # of several steps
        found = [pinned(file.read_text()) for file in INSTALLED.glob(f"{which}-*.txt")]
        names = set().union(*found)
        columns.append({n: most((f[n] for f in found if n in f), key=order) for n in names})
    rows = [
        f"| {written_name(text)} | {' | '.join(column[name] for column in columns)} |"
        for name, text in requirements().items()
    ]
    head = ["| package | oldest | newest |", "|---|---|---|"]
    run = f"Tested with Python 3.11 on Linux, {date.today():%Y-%m-%d}."
    lines = "\n".join(["", *head, *rows, "", run, "", ""])
    PAGE.write_text(TABLE.sub(rf"\1{lines}\2", PAGE.read_text()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["test"]:
        run_steps(*sys.argv[2:])
    else:
        write_oldest(*sys.argv[2:])
