"""A release has a single version and date, and its links on the index have targets."""

import re
import shutil
import subprocess
import tomllib

import pytest

from tools.release import ROOT, faults, fill, stated

FILES = {
    "src/ndgather/__init__.py": '"""A package."""\n\n__version__ = "1.2.3"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\ndate-released: 2026-01-31\nlicense: MIT\n",
    "CHANGELOG.md": "# New\n\n## 1.2.3 - 2026-01-31\n\nA thing.\n\n## 1.2.2 - 2025-01-01\n",
}
REPOSITORY = "https://github.com/somebody/ndgather"


def git(folder, *arguments):
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def released(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "Begin")
    return tmp_path


def change(folder, name, old, new):
    assert old in FILES[name]
    (folder / name).write_text(FILES[name].replace(old, new))
    git(folder, "commit", "--all", "--message", "Change")


def test_consistent_release_has_no_fault(released):
    assert faults(released) == []
    git(released, "tag", "v1.2.3")
    assert faults(released) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("src/ndgather/__init__.py", "1.2.3", "1.3.0", "version: 1.3.0 in src/ndgather/"),
        ("CITATION.cff", "1.2.3", "1.2.2", "1.2.2 in CITATION.cff"),
        ("CITATION.cff", "2026-01-31", "2026-01-30", "date: 2026-01-30 in CITATION.cff"),
        ("CITATION.cff", "date-released: 2026-01-31\n", "", "CITATION.cff: no version"),
        ("CHANGELOG.md", "1.2.3 - 2026-01-31", "1.2.4 - 2026-01-31", "1.2.4 in CHANGELOG.md"),
        ("CHANGELOG.md", " - 2026-01-31", ", not yet released", "CHANGELOG.md: no version"),
    ],
)  # fmt: skip
def test_inconsistent_file_is_named(released, name, old, new, fault):
    change(released, name, old, new)
    (said,) = faults(released)
    assert fault in said


def test_uncommitted_files_are_named(released):
    (released / "left.txt").write_text("")
    assert faults(released) == ["not committed: ?? left.txt"]


def test_tag_must_match_commit_and_version(released):
    git(released, "tag", "v1.2.4")
    assert faults(released) == ["tag: v1.2.4 (allowed: v1.2.3)"]
    git(released, "tag", "--delete", "v1.2.4")
    git(released, "tag", "v1.2.3")
    change(released, "CHANGELOG.md", "A thing", "Another thing")
    assert faults(released) == ["tag: v1.2.3 is of another commit (allowed: v1.2.3)"]


def test_repository_has_a_single_version():
    versions = {each["version"] for each in stated(ROOT).values() if "version" in each}
    assert len(versions) == 1


@pytest.fixture
def copied(tmp_path):
    for name in ("README.md", "pyproject.toml", *FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("docs", "CONTRIBUTING.md", "SECURITY.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_links_on_the_index_lead_to_the_repository(copied):
    version = stated(copied)["src/ndgather/__init__.py"]["version"]
    links = fill(copied, REPOSITORY)
    readme = (copied / "README.md").read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    ours = [target for target in targets if target.startswith(f"{REPOSITORY}/")]
    assert len(ours) == links
    assert all(target.startswith("https://") for target in targets)
    assert f"{REPOSITORY}/blob/v{version}/docs/install.md" in ours
    assert f"{REPOSITORY}/raw/v{version}/docs/gather_nd.svg" in ours
    assert "pip install ndgather " in readme
    assert "clone" not in readme.partition("## Install")[2].partition("## ")[0]
    project = tomllib.loads((copied / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Repository"] == REPOSITORY
    assert project["scripts"]["ndgather"] == "ndgather.cli:main"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("README.md", "pip install .  ", "pip install ./  ", "has 0 of 'pip install ."),
        ("README.md", "](docs/install.md)", "](docs/instal.md)", "docs/instal.md, which does not"),
        ("pyproject.toml", "[project.scripts]\n", "[project.script]\n", "pyproject.toml has 0 of"),
    ],
)
def test_failed_fill_changes_nothing(copied, name, old, new, said):
    changed = (copied / name).read_text()
    assert old in changed
    (copied / name).write_text(changed.replace(old, new))
    before = [(copied / each).read_text() for each in ("README.md", "pyproject.toml")]
    with pytest.raises(SystemExit, match=re.escape(said)):
        fill(copied, REPOSITORY)
    assert [(copied / each).read_text() for each in ("README.md", "pyproject.toml")] == before


def test_urls_are_filled_in_once(copied):
    fill(copied, REPOSITORY)
    with pytest.raises(SystemExit, match="has 0 of"):
        fill(copied, REPOSITORY)
