"""Calls shown by the map of conformance run unchanged and have the expected outcome."""

from __future__ import annotations

import ast

from conformance_calls import call

from conformance import Verdict, judge, load
from conformance.verdicts import refused, result
from ndgather.errors import NdgatherError


def test_every_call_has_the_expected_outcome():
    explicit = 0
    for case in load():
        *before, last = ast.parse(call(case)).body
        names = {}
        try:
            exec(compile(ast.Module(before, []), case.name, "exec"), names)
            found = result(eval(compile(ast.Expression(last.value), case.name, "eval"), names))
        except NdgatherError as error:
            found = refused(error)
        verdict, reason = judge(case, found)
        assert verdict is Verdict.RIGHT, f"{case.name}: {reason}\n{call(case)}"
        explicit += "load(" not in call(case)
    assert explicit > 300
