"""``python -m tools.release check``: check what must agree before a release is tagged.

``python -m tools.release fill URL`` changes the working tree of a release: it writes the URLs of a
GitHub repository into README and metadata, for the package index. Needs only the standard library.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The text of README before and after the package is on an index.
INSTALL = (
    (
        "Install ndgather from a clone of this repository. You need Linux, Python 3.11 or newer, "
        "and a C++20 compiler (GCC 11, Clang 16, or newer):",
        "Install ndgather with Python 3.11 or newer:",
    ),
    (
        "pip install .               # compiles the core in a minute; needs only NumPy 2.2",
        "pip install ndgather                # needs only NumPy 2.2",
    ),
    ("pip install '.[stores]'     #", "pip install 'ndgather[stores]'      #"),
)
URLS = """\
[project.urls]
Repository = "{0}"
Changelog = "{0}/blob/main/CHANGELOG.md"
Issues = "{0}/issues"

"""
# One line of each file; only a release has a date.
PLACES = {
    "src/ndgather/__init__.py": r'^__version__ = "(?P<version>[^"]+)"',
    "CITATION.cff": r"^version: (?P<version>\S+)\ndate-released: (?P<date>[\d-]{10})$",
    "CHANGELOG.md": r"\A(?:(?!## ).*\n)*## (?P<version>\S+) - (?P<date>[\d-]{10})$",
}


def git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def stated(root: Path) -> dict[str, dict[str, str]]:
    """Return the version and the date that each file states, or nothing for a file without them."""
    texts = {place: (root / place).read_text(encoding="utf-8") for place in PLACES}
    found = {place: re.search(PLACES[place], texts[place], re.MULTILINE) for place in PLACES}
    return {place: match.groupdict() if match else {} for place, match in found.items()}


def faults(root: Path) -> list[str]:
    """Return the reasons why the current commit cannot be a release."""
    places = stated(root)
    said = [f"{place}: no version with its date" for place, each in places.items() if not each]
    for what in ("version", "date"):
        values = {place: each[what] for place, each in places.items() if what in each}
        if len({*values.values()}) > 1:
            said.append(f"{what}: {', '.join(f'{v} in {p}' for p, v in values.items())}")
    tag = f"v{places['src/ndgather/__init__.py'].get('version')}"
    here = [each for each in git(root, "tag", "--points-at", "HEAD") if each.startswith("v")]
    if here not in ([], [tag]) or (not here and git(root, "tag", "--list", tag)):
        said.append(f"tag: {', '.join(here) or f'{tag} is of another commit'} (allowed: {tag})")
    return said + [f"not committed: {line}" for line in git(root, "status", "--porcelain")]


def replaced(text: str, old: str, new: str, where: str) -> str:
    if text.count(old) != 1:
        raise SystemExit(f"tools.release: {where} has {text.count(old)} of {old!r} (allowed: 1)")
    return text.replace(old, new)


def fill(root: Path, repository: str) -> int:
    """Write the URLs into README.md and pyproject.toml; return the number of links."""
    readme, pyproject = root / "README.md", root / "pyproject.toml"
    tag = f"v{stated(root)['src/ndgather/__init__.py']['version']}"

    def absolute(link: re.Match[str]) -> str:
        if not (root / link["path"]).exists():
            raise SystemExit(f"tools.release: README.md links {link['path']}, which does not exist")
        kind = "raw" if link["path"].endswith(".svg") else "blob"
        return f"]({repository}/{kind}/{tag}/{link['path']}{link['part']})"

    text = readme.read_text(encoding="utf-8")
    for old, new in INSTALL:
        text = replaced(text, old, new, readme.name)
    text, links = re.subn(r"\]\((?P<path>[\w./-]+)(?P<part>(?:#[\w-]+)?)\)", absolute, text)
    if not links:
        raise SystemExit("tools.release: README.md has no link to a file (allowed: at least one)")
    metadata = pyproject.read_text(encoding="utf-8")
    scripts = "[project.scripts]\n"
    metadata = replaced(metadata, scripts, URLS.format(repository) + scripts, pyproject.name)
    readme.write_text(text, encoding="utf-8")
    pyproject.write_text(metadata, encoding="utf-8")
    return links


def main(task: str, *arguments: str) -> None:
    if task == "fill":
        print(f"README.md: {fill(ROOT, *arguments)} links; pyproject.toml: [project.urls]")
        return
    if said := faults(ROOT):
        raise SystemExit("\n".join(said))
    changelog = stated(ROOT)["CHANGELOG.md"]
    (commit,) = git(ROOT, "rev-parse", "--short", "HEAD")
    print(f"ndgather {changelog['version']} of {changelog['date']}, commit {commit}")


if __name__ == "__main__":
    main(*sys.argv[1:])
