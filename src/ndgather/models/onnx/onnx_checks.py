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
    """Check the gather and scatter nodes of a model.

    Each node is compared with the version of its operator that the model imports, with all that
    inference knows about its inputs. A node in a function is checked for each call of it.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.

    Returns
    -------
    tuple of Finding
        What the specification forbids, what gives other results in other runtimes, and what does
        not run everywhere, in the order of the nodes; empty where nothing was found. A finding has
        `where`, `operator`, `rule`, `what`, `severity` and `runtimes`.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> model.graph.input[1].type.tensor_type.elem_type = 6  # int32
    >>> [finding.what for finding in onnx.check(model)]
    ['ai.onnx GatherND-13: indices.dtype = int32 is not taken (allowed: int64)']
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
