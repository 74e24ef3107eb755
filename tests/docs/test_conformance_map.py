"""The calls that the map of conformance shows run by themselves, with the expected outcome."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from ndgather.errors import NdgatherError
from ndgather.testing.conformance import Verdict, judge, load
from ndgather.testing.conformance.cases import refused, result


def written(case):
    """Return the call of a case, as the page writes it."""
    path = Path(__file__).parents[2] / "docs" / "extensions" / "conformance_calls.py"
    spec = importlib.util.spec_from_file_location("conformance_calls", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.call(case)


def test_every_call_has_the_expected_outcome():
    explicit = 0
    for case in load():
        *before, last = ast.parse(written(case)).body
        names = {}
        try:
            exec(compile(ast.Module(before, []), case.name, "exec"), names)
            found = result(eval(compile(ast.Expression(last.value), case.name, "eval"), names))
        except NdgatherError as error:
            found = refused(error)
        verdict, reason = judge(case, found)
        assert verdict is Verdict.RIGHT, f"{case.name}: {reason}\n{written(case)}"
        explicit += "load(" not in written(case)
    assert explicit > 300
