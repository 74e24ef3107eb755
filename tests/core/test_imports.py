"""The imports between modules, including those in functions, for types only and by name."""

import ast
import configparser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path

import pytest

SOURCE = Path(str(files("ndgather")))
CONTRACTS = Path(__file__).parents[2] / ".importlinter"

# The only exemption: this module lists the adapters, which import it, in this table.
EXCHANGE, ADAPTERS = "ndgather.exchange", "_ADAPTERS"


def module_name(file):
    *folders, stem = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(folders if stem == "__init__" else (*folders, stem))


def imports_in(tree, known, table=None):
    """Yield the modules that a module imports, or names in a string outside `table`."""
    data = {  # the folder of a data file, and the table
        id(part)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "files")
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == table)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (item.name for item in names)
            case ast.ImportFrom(module=module, names=names):
                for item in names:
                    inner = f"{module}.{item.name}"
                    yield inner if inner in known else module
            case ast.Constant(value=str(name)) if "." in name and id(node) not in data:
                yield name


@cache
def imports():
    known = {module_name(file): file for file in SOURCE.rglob("*.py")} | {"ndgather._core": None}
    found = {name: set() for name in known}
    for name, file in known.items():
        tree = ast.parse(file.read_text(encoding="utf-8") if file else "")
        named = imports_in(tree, known, ADAPTERS if name == EXCHANGE else None)
        found[name].update(other for other in named if other in known and other != name)
    return found


def layers():
    """Yield the layers of each contract, highest first, as sets of module prefixes."""
    contracts = configparser.ConfigParser()
    contracts.read(CONTRACTS)
    for section in contracts.values():
        if section.get("type") == "layers":
            for container in section.get("containers", "\n").split("\n")[1:]:
                yield [
                    {f"{container}.{name.strip()}".removeprefix(".") for name in line.split("|")}
                    for line in section["layers"].strip().split("\n")
                ]


def height(module, ordered):
    return next(
        (
            -number
            for number, names in enumerate(ordered)
            if any(f"{module}.".startswith(f"{name}.") for name in names)
        ),
        None,
    )


def test_imports_have_no_cycle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_module_imports_a_higher_layer():
    upwards = {
        (name, other)
        for ordered in layers()
        for name, others in imports().items()
        for other in others
        if None not in (own := height(name, ordered), theirs := height(other, ordered))
        if own < theirs
    }
    assert not upwards


@pytest.mark.parametrize(
    "text",
    [
        "import ndgather.api",
        "def late():\n    from ndgather import api",
        "if TYPE_CHECKING:\n    from ndgather.api import gather",
        "import_module('ndgather.api')",
    ],
)
def test_every_form_of_import_is_found(text):
    assert "ndgather.api" in imports_in(ast.parse(text), {"ndgather.api"})
