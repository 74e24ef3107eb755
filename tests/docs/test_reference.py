"""The reference has an entry for every public name and for no other name."""

import importlib
import pkgutil
import re

import ndgather
from tests.docs.reference_names import REFERENCE, documented, importable, public, without_entry


def modules():
    """Return the importable modules of the package."""
    for found in pkgutil.walk_packages(ndgather.__path__, "ndgather.", onerror=lambda _: None):
        if found.name in ("ndgather.__main__", "ndgather.api"):  # a program; names of ndgather
            continue
        try:
            importlib.import_module(found.name)
        except ImportError:  # what it adapts is not installed
            continue
        yield found.name


def test_every_public_name_has_an_entry():
    assert without_entry(["ndgather", *modules()]) == []


def test_every_entry_is_a_public_name():
    split = [name.rpartition(".") for name in documented() if importable(name)]
    assert [(module, name) for module, _, name in split if name not in public(module)] == []


def test_guarantees_name_the_modules_of_the_reference():
    page = (REFERENCE.parent / "guarantees.md").read_text()
    paragraph = page[page.index("lists the public names") :].partition("the commands")[0]
    named = set(re.findall(r"`(ndgather[\w.]*)`", paragraph)) - {"ndgather.__all__"}
    assert named == {name.rpartition(".")[0] for name in documented()}
