"""Conversion of ONNX models to another opset, another domain, or equivalent operators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import onnx
from onnx import ModelProto

from ndgather.api import own_errors
from ndgather.errors import ModelError
from ndgather.messages import did_you_mean, foreign_errors, listed
from ndgather.models import file_path, instance
from ndgather.models.graph.diagnostics import Findings
from ndgather.models.onnx.conversion_report import Conversion
from ndgather.models.onnx.files import Source, inferable, open_model, restore_sparse_tensors
from ndgather.models.onnx.nodes import DOMAINS, NEWEST_OPSET, opsets, row_domain, with_one_name
from ndgather.models.onnx.passes.calls import EQUIVALENCES
from ndgather.models.onnx.passes.draft import (
    Draft,
    Pass,
    check_nodes,
    drop_unread_nodes,
    settle_declarations,
)
from ndgather.models.onnx.passes.gathers import RewriteGathers, measured_nodes
from ndgather.models.onnx.passes.known_sizes import fold_known_sizes
from ndgather.models.onnx.passes.target import Target, load_target, opset_target
from ndgather.models.onnx.passes.versions import ConvertVersions, check_oldest
from ndgather.published.rows import DEFAULT_DOMAIN


@own_errors("convert")
def convert(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
    target: str | os.PathLike[str] | None = None,
    checked: bool = False,
    allow_matmul: bool = False,
) -> ModelProto:
    """Convert a model to another opset or to other operators without changing its results.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`. A model in memory is not modified.
    opset : int, optional
        The ONNX opset that the converted model imports. Nodes are converted one opset at a time.
        An operator that does not exist in this opset is replaced by its function body, so results
        may differ in the last bits. A scatter whose reduction does not exist in this opset becomes
        a chain of nodes if its indices are constant or it has at most 16 updates.
    domain : str, optional
        The domain of gather and scatter nodes, ``"ai.onnx"`` or ``"com.microsoft"``. A node keeps
        its domain if the new domain does not define its operator.
    operator : str, optional
        The operator that replaces gather nodes: ``"GatherND"``, ``"GatherElements"`` or
        ``"Gather"``. ``"ScatterND"`` replaces ScatterElements nodes.
    target : str or os.PathLike, optional
        The environment in which the model must run: a built-in target like ``"basic"``, or the
        path of a ``.toml`` file. Gathers and scatters that the target does not support are
        rewritten using supported operators. Other nodes are not checked.
    checked : bool, default False
        Add nodes for the target so that an out-of-bounds index stays out of bounds in the rewritten
        model instead of selecting another element.
    allow_matmul : bool, default False
        Allow a scatter that adds many updates to become a MatMul. The MatMul needs O(rows of data *
        updates) operations, adds in a different order, and propagates NaN and infinities to other
        rows.

    Returns
    -------
    ModelProto
        A new model with its local functions inlined.

    Raises
    ------
    FileError, ModelError
        The file cannot be read or is not an ONNX model.
    NdgatherError
        A node has no exact counterpart, or the target does not support it. The message names the
        node and gives the reason.

    See Also
    --------
    conversion : Also returns findings about the nodes.

    Notes
    -----
    The converted model returns the same results for every input that the original accepts, and
    raises an error for every input that the original rejects. There is one exception: if
    `batch_dims` was replaced, a batch axis of data of size 1 is broadcast to the size of the
    corresponding axis of indices.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> [node.op_type for node in onnx.convert(model, operator="Gather").graph.node][-1]
    'Gather'
    """
    options = _Options(
        "convert", opset, domain, operator, target, checked, allow_matmul, strict=True
    )
    return _convert(model, options)[0].model


@own_errors("conversion")
def conversion(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
    target: str | os.PathLike[str] | None = None,
    checked: bool = False,
    allow_matmul: bool = False,
    strict: bool = False,
) -> Conversion:
    """Convert a model, and return the converted model with findings about its nodes.

    Parameters
    ----------
    model, opset, domain, operator, target, checked, allow_matmul
        See `convert`.
    strict : bool, default False
        Raise an error if a node cannot be converted to `operator` or to operators that `target`
        supports. By default, the node keeps its operator, and a finding or the report on the node
        gives the reason.

    Returns
    -------
    Conversion
        The converted `model`, and `findings` about nodes that kept their operator or were repaired.
        A node is repaired if only a later version of its operator allows its attributes. The node
        is then converted as a node of the later version, provided that `opset` has this version. If
        a target was given, `nodes` reports on every gather and scatter.

    Raises
    ------
    FileError, ModelError
        The file cannot be read or is not an ONNX model.
    NdgatherError
        A node has no exact counterpart. The message names the node and gives the reason.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 2] rows) => (float[M] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> onnx.conversion(model, operator="Gather").findings[0].what
    'kept: ai.onnx GatherND-13 cannot become Gather: the length of the index tuples is 2, not 1'
    """
    instance("conversion", "strict", strict, bool, "a choice")
    options = _Options("conversion", opset, domain, operator, target, checked, allow_matmul, strict)
    draft, known = _convert(model, options)
    return Conversion(
        model=draft.model,
        findings=Findings(draft.findings),
        folder=draft.folder,
        nodes=tuple(measured_nodes(draft)),
        target=known,
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """The arguments of a conversion. Error messages start with `caller`."""

    caller: str
    opset: int | None
    domain: str | None
    operator: str | None
    target: str | os.PathLike[str] | None
    checked: bool
    allow_matmul: bool
    strict: bool

    def check(self) -> None:
        if self.opset is not None:
            instance(self.caller, "opset", self.opset, int, "a version")
        for name, value in ("domain", self.domain), ("operator", self.operator):
            if value is not None:
                instance(self.caller, name, value, str, "a name")
        if self.domain is not None and row_domain(self.domain) not in DOMAINS:
            raise unknown_target("domain", self.domain, DOMAINS)
        operators = sorted({after for _, after in EQUIVALENCES})
        if self.operator is not None and self.operator not in operators:
            raise unknown_target("operator", self.operator, operators)
        if self.opset is not None and not 1 <= self.opset <= NEWEST_OPSET:
            raise unknown_target("opset", self.opset, (f"1..{NEWEST_OPSET}",))

    def load_target(self) -> Target | None:
        if self.target is None:
            return None
        for name, value in ("checked", self.checked), ("allow_matmul", self.allow_matmul):
            instance(self.caller, name, value, bool, "a choice")
        return load_target(file_path(self.caller, "target", self.target))


def _convert(model: Source, options: _Options) -> tuple[Draft, Target | None]:
    original, folder = open_model(model, options.caller)
    options.check()
    target = options.load_target()
    source = with_one_name(original)
    if options.opset is not None:
        check_oldest(source, options.opset)
    draft = Draft.from_source(source, folder)
    for convert_model in _passes(draft.model, target, options):
        draft = convert_model(draft)
    settle_declarations(draft, source)
    if inferable(original) is original and _is_valid(original):
        with foreign_errors(ModelError, "the converted model would not be valid"):
            onnx.checker.check_model(draft.model)
    restore_sparse_tensors(draft.model)
    return draft, target


def _passes(model: ModelProto, target: Target | None, options: _Options) -> Sequence[Pass]:
    """Return the passes of a conversion in the order in which they run.

    Gathers and scatters that an older opset does not support are rewritten before all nodes are
    converted to this opset. Rewriting for the target is the last step.
    """
    versions = opsets(model.opset_import)
    source = versions.get(DEFAULT_DOMAIN, NEWEST_OPSET)
    opset = source if options.opset is None else options.opset
    passes: list[Pass] = []
    if opset <= source:  # Invalid nodes may be valid in a newer opset.
        passes.append(check_nodes)
    older = opset_target(opset, model) if opset < source else None
    if older is not None:
        passes += _target_passes(RewriteGathers(target=older, checked=True, strict=True))
    named = (options.opset, options.domain, options.operator)
    if target is None or named != (None, None, None) or DEFAULT_DOMAIN not in versions:
        convert_versions = ConvertVersions(
            source=versions,
            opset=opset,
            domain=None if options.domain is None else row_domain(options.domain),
            operator=options.operator,
            strict=options.strict,
        )
        passes += [convert_versions, drop_unread_nodes]
    if target is not None:
        rewrite = RewriteGathers(
            target=target,
            checked=options.checked,
            allow_matmul=options.allow_matmul,
            strict=options.strict,
        )
        passes += _target_passes(rewrite)
    return passes


def _target_passes(rewrite: RewriteGathers) -> Sequence[Pass]:
    """Return the passes for a target. Constant folding leaves fewer nodes to rewrite."""
    return partial(fold_known_sizes, target=rewrite.target), rewrite, drop_unread_nodes


def unknown_target(option: str, value: object, known: Sequence[str]) -> ModelError:
    return ModelError(
        f"{option} = {value!r} is not a possible target (allowed: {listed(known)})"
        f"{did_you_mean(value, known)}"
    )


def _is_valid(model: ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError):
        return False
    return True
