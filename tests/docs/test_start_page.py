"""The README and the start page agree, and their numbers are those of the pages."""

import importlib.util
import re
from pathlib import Path

import pytest

from tools import versions

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "docs/index.md", "docs/install.md")
README, INDEX, INSTALL = ((ROOT / name).read_text() for name in NAMES)
TEXT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    *(page for page in (ROOT / "docs").rglob("*.md") if "benchmarks" not in page.name),
    *(ROOT / "examples").glob("*.py"),
    ROOT / "README.md",
    ROOT / "examples" / "tour.ipynb",
]


def numbers_of_pages():
    path = ROOT / "docs" / "extensions" / "numbers_of_pages.py"
    spec = importlib.util.spec_from_file_location("numbers_of_pages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.numbers()


@pytest.mark.parametrize("page", [README, INDEX], ids=["README", "site"])
def test_a_list_of_stations_is_on_the_first_screen(page):
    screen = "\n".join(page[page.index("# ndgather") :].splitlines()[:32])
    assert "ndgather sel" in screen
    assert "stations.csv" in screen


def test_numbers_are_those_of_the_pages():
    table = INDEX[INDEX.index("| number |") : INDEX.index("| what you have |")]
    for name, value in numbers_of_pages().items():
        table = table.replace(f"{{{{ {name} }}}}", value)

    assert "{{" not in table
    assert table.strip().replace("](", "](docs/") in README


def test_install_texts_are_the_same_everywhere():
    blocks = [block for text in (README, INDEX, INSTALL) for block in TEXT.findall(text)]
    installs = [block for block in blocks if "pip install ." in block]
    assert len(installs) == 3
    assert len(set(installs)) == 1


def test_pages_install_from_a_clone():
    """The name of the package works where it is installed, as where an error says it."""
    errors = ROOT / "docs" / "guide" / "errors.md"
    written = [page for page in PAGES if page.parent.name not in ("commands", "generated")]
    named = [page for page in written if "pip install 'ndgather[" in page.read_text()]
    assert named == [errors]
    assert not any("git clone REPOSITORY" in page.read_text() for page in PAGES)


def test_every_extra_of_the_page_is_an_extra():
    pyproject = (ROOT / "pyproject.toml").read_text()
    extras = INSTALL.partition("## If it does not install")[0]
    rows = re.findall(r"^\| (`.*?) \|", extras, re.MULTILINE)
    for extra in re.findall(r"`(\w+)`", " ".join(rows)):
        assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), extra


def test_the_table_of_versions_has_every_package_of_the_extras():
    """Its oldest versions are the first that the bounds of pyproject.toml allow."""
    rows = re.findall(r"^\| ([\w-]+) \| (\d\S*) \| (\d\S*) \|$", INSTALL, re.MULTILINE)
    asked, pins = versions.requirements(), versions.pinned(versions.OLDEST.read_text())
    assert [versions.plain_name(name) for name, _, _ in rows] == [*asked]
    for name, oldest, newest in rows:
        bound = versions.order(asked[versions.plain_name(name)].partition(">=")[2].split(";")[0])
        assert pins[versions.plain_name(name)] == oldest
        assert versions.order(oldest)[: len(bound)] == bound, name
        assert versions.order(newest) >= versions.order(oldest), name


def test_the_page_of_vulnerabilities_has_the_number_of_its_rows():
    rows = re.findall(r"^\| \[[\w-]+\]\(", (ROOT / "docs/security.md").read_text(), re.MULTILINE)
    assert numbers_of_pages()["bugs"] == str(len(rows))
