"""The oldest and the newest versions of the packages that the extras ask for.

``python -m tools.versions oldest UV`` writes ``tests/versions/oldest.txt``: what uv chooses by the
lower bounds of ``pyproject.toml``, of the extras and of what the tests of adapters need.
``python -m tools.versions table`` writes the table of ``docs/install.md``, of the versions with
which ``make test-versions`` has run.
"""

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
GROUPS = ("test", "frameworks", "backends", "exports")  # all that `make test-versions` installs
TABLE = re.compile(r"(<!-- by make test-versions -->\n).*(<!-- end -->)", re.DOTALL)


def written_name(requirement: str) -> str:
    return re.split(r"[\[=<>!~; ]", requirement, maxsplit=1)[0]


def plain_name(requirement: str) -> str:
    """Return the name in a requirement as one spelling of all that mean the same package."""
    return re.sub(r"[-_.]+", "-", written_name(requirement)).lower()


def requirements(*groups: str) -> dict[str, str]:
    """Return what the package and its extras ask for, and some groups, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *(project["dependency-groups"][group] for group in groups),
    ]
    texts = (text for each in lists for text in each if isinstance(text, str))
    return {name: text for text in texts if (name := plain_name(text)) != "ndgather"}


def pinned(text: str) -> dict[str, str]:
    """Return the versions of a list of pins, without what follows a plus."""
    pins = re.findall(r"^([\w.-]+)==([^\s+;]+)", text, re.MULTILINE)
    return {plain_name(name): version for name, version in pins}


def write_oldest(uv: str) -> None:
    how = ["--resolution=lowest-direct", "--only-binary=:all:", "--upgrade", "--no-annotate"]
    how += ["--python-version=3.11", "--custom-compile-command=make oldest-versions"]
    asked = "\n".join(requirements(*GROUPS).values())
    command = [uv, "pip", "compile", "--quiet", *how, f"--output-file={OLDEST}", "-"]
    subprocess.run(command, input=asked, text=True, check=True)


def order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def write_table() -> None:
    columns = []
    for which, most in (("oldest", min), ("newest", max)):  # of what several steps have installed
        found = [pinned(file.read_text()) for file in INSTALLED.glob(f"{which}-*.txt")]
        names = set().union(*found)
        columns.append({n: most((f[n] for f in found if n in f), key=order) for n in names})
    rows = [
        f"| {written_name(text)} | {' | '.join(column[name] for column in columns)} |"
        for name, text in requirements().items()
    ]
    head = ["| package | oldest | newest |", "|---|---|---|"]
    run = f"By Python 3.11 on Linux, {date.today():%Y-%m-%d}."
    lines = "\n".join(["", *head, *rows, "", run, "", ""])
    PAGE.write_text(TABLE.sub(rf"\1{lines}\2", PAGE.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["table"]:
        write_table()
    else:
        write_oldest(*sys.argv[2:])
