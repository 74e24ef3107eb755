"""What is wrong in a model, what runs differently elsewhere, and what does not run everywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import onnx

from ndgather.errors import (
    NdgatherError,
)
from ndgather.errors.texts import reason
from ndgather.models.graph.call_conditions import Facts
from ndgather.models.graph.diagnostics import Finding, Severity, has_errors, rule_of
from ndgather.models.graph.runtime_notes import finding, remarks
from ndgather.models.onnx.fixpoint import Judged, settle
from ndgather.models.onnx.model_files import Source, opened
from ndgather.published import operators
from ndgather.published.schema import Role
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.models.onnx.op_nodes import Site
    from ndgather.published import Operator


def check(model: Source) -> tuple[Finding, ...]:
    """Return what is to be said about the nodes of our operators in a model.

    Each node is held against the version of its operator that the model imports, with all that
    inference finds out about its inputs; nodes in functions are looked at once for each call.
    What runtimes do with what is allowed is in `ndgather.models.graph.runtime_notes`.

    Parameters
    ----------
    model : ModelProto or path

    Returns
    -------
    tuple of Finding
        In the order of the nodes; empty where there is nothing to say.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is no ONNX model.
    """
    proto, folder = opened(model, "check")
    findings: tuple[Finding, ...] = ()
    try:
        settled = settle(proto, folder)
        findings = tuple(found for each in settled.judged for found in _findings(each))
    except NdgatherError as error:
        findings = (_about_the_model(str(error)),)
    if not has_errors(findings):
        findings = (
            *findings,
            *_invalid(os.fspath(model) if isinstance(model, str | os.PathLike) else proto),
        )
    return findings


def _about_the_model(what: str) -> Finding:
    return Finding(where="model", operator="", rule="model", what=what, severity=Severity.ERROR)


def _invalid(model: onnx.ModelProto | str) -> Iterator[Finding]:
    """Yield what the checker of onnx refuses."""
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        yield _about_the_model(reason(error))


def _findings(judged: Judged) -> Iterator[Finding]:
    site, refusal = judged.site, judged.refusal
    try:
        operator = site.operator()
    except NdgatherError as error:
        yield _finding(site, "", "opset", str(error), Severity.ERROR)
        return
    name = str(operator.row)
    try:
        known = [] if site.is_open else list(remarks(_facts(judged, operator)))
    except NdgatherError:  # an attribute has no value, as the refusal says
        known = []
    if refusal is not None:
        rule = rule_of(refusal, "model")
        parts = [str(refusal), *(remark.what for remark, _ in known)]
        others = _versions_that_take(site, operator)
        if others and judged.inference is None:
            parts.append(f"{others} takes it")
        runtimes = tuple(dict.fromkeys(each for remark, _ in known for each in remark.runtimes))
        yield _finding(site, name, rule, "; ".join(parts), Severity.ERROR, runtimes)
        return
    for remark, detail in known:
        yield finding(site.where, name, remark, detail, remark.runtimes)


def _finding(
    site: Site,
    operator: str,
    rule: str,
    what: str,
    severity: Severity,
    runtimes: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        where=site.where,
        operator=operator,
        rule=rule,
        what=what,
        severity=severity,
        runtimes=runtimes,
    )


def _facts(judged: Judged, operator: Operator) -> Facts:
    site, row = judged.site, operator.row
    missing = (TensorType(),) * len(row.inputs)
    declared = dict(
        zip((each.role for each in row.inputs), (*site.types(), *missing), strict=False)
    )
    inferred = declared
    if judged.inference is not None:
        inferred = dict(zip(declared, judged.inference.inputs, strict=True))
    indices = site.constants().get(Role.INDICES.value)
    return Facts.of(
        row,
        declared=declared,
        inferred=inferred,
        attributes=site.attributes(),
        indices=None if indices is None else np.asarray(indices),
        refusal=judged.refusal,
    )


def _versions_that_take(site: Site, refusing: Operator) -> str:
    """Return the other versions of a refused operator in which the node could run."""
    taking = []
    for other in operators(refusing.name, refusing.domain):
        if other is refusing:
            continue
        try:
            other.infer(*site.types(), constants=site.constants(), **site.attributes())
        except NdgatherError:
            continue
        taking.append(str(other.row))
    return " or ".join(taking)
