"""The public names of a module, and the names with an entry in the reference."""

from __future__ import annotations

import importlib
import re
from itertools import chain
from pathlib import Path
from types import ModuleType

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ONE = re.compile(r"^\.\. from-source:: (\S+)$", re.MULTILINE)
_LIST = re.compile(
    r"^( *)\.\. (?:entries::(?:\n   :brief:)?|autosummary::\n +:toctree: generated)\n\n"
    r"((?:\1   \S+\n)+)",
    re.MULTILINE,
)


def documented():
    """Return the names that have an entry, as `module.name`."""
    pages = [page.read_text() for page in sorted(REFERENCE.glob("*.md"))]
    lists = [names.split() for page in pages for _, names in _LIST.findall(page)]
    return [*chain(*lists), *chain(*map(_ONE.findall, pages))]


def named(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def public(module):
    """Return the names in ``__all__`` except modules, which have their own lists.

    Only the package itself calls the `run` and `vjp` of an adapter.
    """
    found = importlib.import_module(module)
    names = set(found.__all__) if hasattr(found, "__all__") else set()
    if module.startswith("ndgather.arrays."):
        names -= {"run", "vjp"}
    return {
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(found, name), ModuleType)
    }


def without_entry(modules):
    """Return the public names of these modules whose object has no entry under any name."""
    entries = list(map(named, filter(importable, documented())))
    names = [f"{module}.{name}" for module in modules for name in sorted(public(module))]
    return [name for name in names if not any(named(name) is each for each in entries)]


def importable(name):
    """Return whether the module of a name can be imported, because its library is installed."""
    try:
        importlib.import_module(name.rpartition(".")[0])
    except ImportError:
        return False
    return True
