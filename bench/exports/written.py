"""What an exporter leaves behind: a model, its inputs and what its framework itself gives.

Imported in the environments of the exporters, which have no ndgather.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .lines import Array


def keep(
    folder: Path,
    write: Callable[[Path], None],
    inputs: dict[str, dict[str, Array]],
    answer: Callable[[dict[str, Array]], list[Any]],
) -> str:
    """Write the model and, for each case, its inputs and the answers; return "" or what it refused.

    The folder has ``model.onnx``, ``CASE.npz`` with the inputs, and ``CASE-answer.npz`` with the
    outputs 0, 1, ... or ``CASE-refused.txt``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for case, given in inputs.items():
        np.savez(folder / f"{case}.npz", allow_pickle=False, **given)
        try:
            found = answer(given)
        except Exception as error:  # whatever a framework refuses by
            (folder / f"{case}-refused.txt").write_text(_first_line(error), encoding="utf-8")
        else:
            kept = {str(at): np.asarray(each) for at, each in enumerate(found)}
            np.savez(folder / f"{case}-answer.npz", allow_pickle=False, **kept)
    try:
        write(folder / "model.onnx")
    except Exception as error:  # an exporter that cannot
        return _first_line(error)
    return ""


def say(folder: Path, versions: dict[str, str], refused: dict[str, str]) -> None:
    """Write which versions exported, and what they did not."""
    text = json.dumps({"versions": versions, "refused": refused})
    (folder / "exporter.json").write_text(text, encoding="utf-8")


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
