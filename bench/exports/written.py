"""What an exporter leaves behind of each line: a model, its inputs and what its framework gives.

Imported in the environments of the exporters, which have no ndgather.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .lines import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .lines import Array, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """How a line is exported.

    Attributes
    ----------
    write : function
        Write the model to a path.
    inputs : dict
        For each case, the inputs by their names.
    answer : function
        Return what the framework itself gives for the inputs of a case.
    """

    write: Callable[[Path], None]
    inputs: dict[str, dict[str, Array]]
    answer: Callable[[dict[str, Array]], list[Any]]


def keep_all(
    folder: Path, package: str, export: Callable[[Line], Export], versions: dict[str, str]
) -> None:
    """Keep the export of each line of a package, and which versions exported what.

    A line has a folder with ``model.onnx``, ``CASE.npz`` with the inputs, and ``CASE-answer.npz``
    with the outputs 0, 1, ... or ``CASE-refused.txt``.
    """
    refused = {}
    for line in lines(package):
        why = _kept(folder / line.name, export(line))
        if why:
            refused[line.name] = why
    text = json.dumps({"versions": versions, "refused": refused})
    (folder / "exporter.json").write_text(text, encoding="utf-8")


def _kept(folder: Path, export: Export) -> str:
    """Write the model, its inputs and the answers; return "" or what the exporter refused by."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for case, given in export.inputs.items():
        np.savez(folder / f"{case}.npz", allow_pickle=False, **given)
        try:
            found = export.answer(given)
        except Exception as error:  # whatever a framework refuses by
            (folder / f"{case}-refused.txt").write_text(_first_line(error), encoding="utf-8")
        else:
            kept = {str(at): np.asarray(each) for at, each in enumerate(found)}
            np.savez(folder / f"{case}-answer.npz", allow_pickle=False, **kept)
    try:
        export.write(folder / "model.onnx")
    except Exception as error:  # an exporter that cannot
        return _first_line(error)
    return ""


def function_of(python: str, arguments: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Make a function of lines, which returns the last one."""
    *before, last = python.strip().splitlines()
    body = "\n".join(f"    {each}" for each in [*before, f"return {last}"])
    space: dict[str, Any] = dict(names)
    exec(f"def line({', '.join(arguments)}):\n{body}\n", space)
    made: Callable[..., Any] = space["line"]
    return made


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {''.join(text)}"[:200]
