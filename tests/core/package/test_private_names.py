"""Private names of other packages in the sources, which new versions may remove."""

import ast
import re
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(str(files("ndgather")))
PACKAGES = ("dask", "h5py", "onnx", "torch", "xarray", "zarr")

# Undocumented modules without an underscore.
INTERNAL = (
    "onnx.reference.op_run",
    "onnx.reference.ops",
    "xarray.coding",
    "xarray.core",
    "zarr.core",
)
# Private attributes of objects -> an object that has them.
OF_OBJECTS = {
    "_base": "torch.Tensor",
    "_can_decompose": "torch.ops.aten.index.Tensor",
    "_is_zerotensor": "torch.Tensor",
    "_meta": "dask.array.Array",
    "_schema": "torch.ops.aten.index.Tensor",
}
OF_PYTHON = {"_asdict", "_fields", "_make", "_option_string_actions", "_replace"}


def is_private(name):
    parts = name.split(".")
    hidden = any(part.startswith("_") and not part.endswith("__") for part in parts)
    return hidden or any(f"{name}.".startswith(f"{module}.") for module in INTERNAL)


def chain(node):
    """Return the name that a chain of attributes begins with, and the attributes."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return (node.id, parts) if isinstance(node, ast.Name) else ("", parts)


def imported(tree):
    """Yield the line of each import, the name that it binds, and the imported object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                yield node.lineno, item.asname or item.name.split(".")[0], item.name, item.asname
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                yield node.lineno, item.asname or item.name, f"{node.module}.{item.name}", True


def names_in(tree):
    """Yield the line and the name of each object of another package that a module uses."""
    bound = {}
    for line, name, target, is_whole in imported(tree):
        bound[name] = target if is_whole else name
        yield line, target
    for node in ast.walk(tree):  # breadth-first: assignments of the module come first
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            first, rest = chain(node.value)
            if rest and first in bound:
                bound.setdefault(node.targets[0].id, ".".join([bound[first], *rest]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, rest = chain(node)
            if first in bound:
                yield node.lineno, ".".join([bound[first], *rest])
            elif first not in ("self", "cls"):
                yield node.lineno, f"?.{node.attr}"
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[a-z]\w*(\.\w+)+", f"{node.value}"):
            yield node.lineno, node.value


def own_names(tree):
    """Yield the private names that a module gives to functions, classes and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@cache
def private_names():
    """Return the locations of all private names of other packages."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in SOURCE.rglob("*.py")}
    own = OF_PYTHON.union(*map(own_names, trees.values()))
    ours = {"ndgather", "__future__", *sys.stdlib_module_names}
    found = {}
    for file, tree in trees.items():
        for line, name in names_in(tree):
            root, _, rest = name.partition(".")
            if rest in OF_OBJECTS or (root == "?" and is_private(rest) and rest not in own):
                used = f"{OF_OBJECTS.get(rest, '?')}.{rest}"
            elif root not in ours and root != "?" and is_private(name) and find(root):
                used = name
            else:
                continue
            found.setdefault(used, set()).add(f"{file.relative_to(SOURCE)}:{line}")
    return found


@cache
def find(package):
    """Return whether a name belongs to a package, and is not part of other text."""
    return package in PACKAGES or find_spec(package) is not None


def is_there(name):
    """Return whether a dotted name exists, importing modules as needed."""
    parts = name.split(".")
    found = import_module(parts[0])
    for count, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            try:
                import_module(".".join(parts[:count]))
            except ImportError:
                return False
        found = getattr(found, part)
    return True


def test_every_private_name_belongs_to_a_known_package():
    """Private attributes of objects are listed in OF_OBJECTS with an object that has them."""
    others = {
        name: places
        for name, places in private_names().items()
        if name.partition(".")[0] not in PACKAGES
    }
    assert not others


@pytest.mark.parametrize("package", PACKAGES)
def test_no_private_name_is_lost(package):
    pytest.importorskip(package)
    lost = [
        f"{package} {version(package)} has no {name}, which {', '.join(sorted(places))} uses"
        for name, places in sorted(private_names().items())
        if name.startswith(f"{package}.") and not is_there(name)
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize(
    "text",
    [
        "from torch._C import _gone",
        "from torch import _C as core\ncore._gone",
        "import torch._C\ntorch._C._gone()",
        "import torch as t\nUSED = t._C\ndef late():\n    USED._gone",
        "find('torch._C._gone')",
    ],
)
def test_every_use_of_a_name_is_found(text):
    assert "torch._C._gone" in {name for _, name in names_in(ast.parse(text))}
