"""Names in backquotes in texts for developers exist, as a file, a target, or a word of the code.

The texts are `docs/design.md`, `CONTRIBUTING.md` and the docstrings of the package.
"""

import ast
import builtins
import fnmatch
import re
import subprocess
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"(?<![`\w])(`{1,2})(?!`)([^`\n]+?(?:\n[^`\n]+?)?)\1(?![`\w])")
EXAMPLE = re.compile(r"^```[\s\S]*?^```|(?:^    .*\n)+", re.MULTILINE)
PROSE = re.compile(r'"""[\s\S]*?"""|^ *#.*', re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
MAKE = re.compile(r"(?:`|^    )make ([a-z -]+)", re.MULTILINE)
FILE = re.compile(r"[\w*./-]+(/|\.(py|pyi|h|cpp|md|mk|js|toml))")
NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")
MODULES = sorted((ROOT / "src").rglob("*.py"))
PLAIN = (
    *("core/**/*.*", "tests/core/**/*.*", "docs/static/*.js", "src/**/*.toml", "src/**/*.pyi"),
    *("Makefile", "*.mk", "pyproject.toml", "CMakeLists.txt", ".importlinter"),
)
FOLDERS = (
    "src",
    "core",
    "tests",
    "docs",
    "conformance",
    "tools",
    "bench",
    "fuzz",
    "examples",
    ".github",
    ".ci",
)
OTHERS = ("tf.", "torch.", "jax.", "np.", "onnx.", "xr.", "da.")  # names of other libraries


def docstrings(tree):
    """Yield the docstrings of a module as nodes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


@cache
def words():
    """Return the words of all code without docstrings, and the parts of file names."""
    code = ("src", "tests", "tools", "bench", "fuzz", "examples", "docs/extensions")
    python = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in code)
    found = {*dir(builtins), *dir(np), *dir(np.ndarray)}
    for path in python:
        found |= {path.stem, path.parent.name, *WORD.findall(PROSE.sub("", path.read_text()))}
    for path in chain.from_iterable(map(ROOT.glob, PLAIN)):
        if "__pycache__" not in path.parts:
            found |= {path.stem, *WORD.findall(path.read_text())}
    return found


@cache
def files():
    """Return the files of the repository, and its folders with a trailing slash."""
    found = list(ROOT.glob("*"))
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return [f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}" for path in found]


def is_there(text, own=()):
    """Return whether a text in backquotes is a file, or has only words of the code or of `own`."""
    if FILE.fullmatch(text) and "NAME" not in text:
        return bool(fnmatch.filter(files(), f"*/{text}"))
    if not NAME.fullmatch(text) or text.startswith(OTHERS):
        return True
    return (words() | {*own}).issuperset(WORD.findall(text))


def quoted(text):
    return [found[2].replace("\n", " ").strip() for found in QUOTED.finditer(text)]


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_names_in_pages_exist(page):
    text = (ROOT / page).read_text()
    examples = [found[0] for found in EXAMPLE.finditer(text)]
    names = quoted(EXAMPLE.sub("", text))
    assert len(names) > 100
    own = WORD.findall("\n".join(examples))
    assert [name for name in names if not is_there(name, own=own)] == []


def test_names_in_docstrings_exist():
    absent, count = [], 0
    for path in MODULES:
        for node in docstrings(ast.parse(path.read_text())):
            names = quoted(node.value)
            count += len(names)
            absent += [(path.name, name) for name in names if not is_there(name)]
    assert absent == []
    assert count > 1000


def test_names_in_all_exist():
    """Those of `__all__`; a framework that is not installed has no module of ours."""
    for module in MODULES:
        parts = module.relative_to(ROOT / "src").with_suffix("").parts
        if parts[-1] == "__main__":
            continue
        try:
            found = import_module(".".join(parts).removesuffix(".__init__"))
        except ImportError:
            assert {"torch", "jax", "tensorflow"} & {*parts}
            continue
        listed = getattr(found, "__all__", ())
        assert [name for name in listed if not hasattr(found, name)] == [], parts


def test_make_targets_exist():
    command = ["make", "--print-data-base", "--question", "--no-builtin-rules", "clean"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    targets = {*re.findall(r"^([\w-]+):", printed.stdout, re.MULTILINE)}
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
    for page in pages:
        for line in MAKE.findall(page.read_text()):
            assert set(line.split("  ")[0].split()) <= targets, (page.name, line)
