"""Models converted to another version of ONNX, another domain, or equivalent operators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import ModelError, NdgatherError, one_line
from ndgather.messages import did_you_mean, foreign_errors, listed
from ndgather.models import file_path, instance
from ndgather.models.graph.conversion import fit
from ndgather.models.graph.diagnostics import Finding, Findings, Severity
from ndgather.models.onnx.domains import may_be_negative
from ndgather.models.onnx.files import Source, inferable, messages_in, open_model
from ndgather.models.onnx.inference import (
    InferredGraph,
    InferredNode,
    PlacedNode,
    infer_types,
    with_names,
    without_functions,
)
from ndgather.models.onnx.nodes import (
    CONSTANTS_FROM,
    DOMAINS,
    OpNode,
    ReadNode,
    Scope,
    attribute_value,
    constant_tensor,
    declaration,
    drop_unread,
    file_domain,
    implementation,
    is_published,
    nodes_in,
    opsets,
    row_domain,
    tensor_type,
    unread,
    value_names,
    with_one_name,
)
from ndgather.models.onnx.rewriting.calls import EQUIVALENCES, GatherCall
from ndgather.models.onnx.rewriting.deployment import deploy
from ndgather.models.onnx.rewriting.report import Conversion, RewrittenNode
from ndgather.models.onnx.rewriting.sized_nodes import SizedNodes
from ndgather.models.onnx.rewriting.target import Limits, load_target
from ndgather.models.onnx.versions import (
    INTEGERS_FROM,
    INVALID_RESULT,
    convert_node,
    from_oldest,
)
from ndgather.published import Operator, operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import OperatorVersion, TensorType
from ndgather.reductions import ROWS

# The first opset with every reduction of a scatter.
_REDUCTIONS = {name: row.onnx[1] for name, row in ROWS.items() if row.onnx[1]}
_TUPLES_FROM = 11  # the first opset with other gathers than Gather, and with negative indices
_COMPARES_FROM = 9  # the first opset that compares integers, and chooses


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
    """Convert a model to another version of ONNX, or to other operators, with the same results.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As in `run`. A model in memory is not changed.
    opset : int, optional
        The target opset: the version of ONNX that the result imports. Every node is converted
        one version after the other. An operator that the target does not have is replaced by the
        function that defines it, whose results may differ in their last bits. A scatter with a
        reduction that the target does not have becomes a chain of nodes, if its indices are
        constants or it has at most 16 updates.
    domain : str, optional
        The domain of the gather and scatter nodes, if it has their operators: ``"ai.onnx"`` or
        ``"com.microsoft"``.
    operator : str, optional
        The operator that replaces gather nodes: ``"GatherND"``, ``"GatherElements"`` or
        ``"Gather"``; ``"ScatterND"`` replaces ScatterElements nodes.
    target : str or os.PathLike, optional
        Where the model has to run: the name of a target of the package, such as ``"basic"``, or
        the path of a file that ends in ``.toml``. Gathers and scatters that it does not take are
        rewritten by operators that it takes. Other nodes are not looked at.
    checked : bool, default False
        Add nodes for the target so that an index that is out of range stays out of range in the
        rewritten model, and does not become that of another element.
    allow_matmul : bool, default False
        Let a scatter that adds many updates become a MatMul, which takes as many operations as
        data has rows times updates, adds in another order, and spreads NaN and infinities.

    Returns
    -------
    ModelProto
        A new model without local functions, which are inlined.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node has no exact counterpart, or none that the target takes. The message contains its
        name and the reason.

    See Also
    --------
    conversion : The same, with findings about the nodes.

    Notes
    -----
    The converted model returns the same for all inputs that the model accepts, and raises an error
    for all others too, with one exception: if `batch_dims` was replaced, a batch axis of size 1 of
    data is broadcast to that of indices.

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
    result = _convert(model, "convert", opset, domain, operator, strict=True)
    return _deployed(result, "convert", target, checked, allow_matmul, strict=True).model


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
    """Convert a model as `convert` does, and return findings about its nodes as well.

    Parameters
    ----------
    model, opset, domain, operator, target, checked, allow_matmul
        As in `convert`.
    strict : bool, default False
        Raise an error if a node cannot become `operator`, or one that `target` takes. Otherwise the
        node keeps its operator, and a finding, or the report of the node, contains the reason.

    Returns
    -------
    Conversion
        Its `model`, and its `findings` about nodes that kept their operator or were repaired. A
        node with an attribute value that only a later version of its operator has is repaired by
        converting it as a node of that version, if `opset` has it. With a target, its `nodes`
        report what became of every gather and scatter.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node has no exact counterpart. The message contains its name and the reason.

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
    result = _convert(model, "conversion", opset, domain, operator, strict=strict)
    return _deployed(result, "conversion", target, checked, allow_matmul, strict=strict)


def _convert(
    model: Source,
    caller: str,
    opset: int | None,
    domain: str | None,
    operator: str | None,
    *,
    strict: bool,
) -> Conversion:
    original, folder = open_model(model, caller)
    newest = onnx.defs.onnx_opset_version()
    if opset is not None:
        instance(caller, "opset", opset, int, "a version")
    for name, value in ("domain", domain), ("operator", operator):
        if value is not None:
            instance(caller, name, value, str, "a name")
    if domain is not None and row_domain(domain) not in DOMAINS:
        raise unknown_target("domain", domain, DOMAINS)
    targets = sorted({target for _, target in EQUIVALENCES})
    if operator is not None and operator not in targets:
        raise unknown_target("operator", operator, targets)
    if opset is not None and not 1 <= opset <= newest:
        raise unknown_target("opset", opset, (f"1..{newest}",))
    proto = from_oldest(with_one_name(original), opset)
    source = opsets(proto.opset_import)
    unrolled: tuple[RewrittenNode, ...] = ()
    if opset is not None and opset < source.get(DEFAULT_DOMAIN, opset):
        proto, unrolled = _as_of(opset, proto, folder)
    typed = infer_types(proto, folder)
    for function in typed.model.functions:
        name = one_line(f"{function.name} of {function.domain}")
        raise ModelError(
            f"function {name} cannot be inlined, because it imports other versions than the model "
            "(allowed: the same versions)"
        )
    result = without_functions(proto)
    kept = unread(result.graph)
    converter = _Converter(
        source=source,
        opset=opset or source.get(DEFAULT_DOMAIN, newest),
        domain=None if domain is None else row_domain(domain),
        operator=operator,
        strict=strict,
        taken=value_names(result.graph),
        sizes=typed.sizes,
    )
    converter.convert(typed.of(result.graph))
    if converter.opset < INTEGERS_FROM:
        _constants_as_initializers(result.graph)
    converter.import_domains(result)
    drop_unread(result.graph, kept)
    for node in unrolled:
        what = f"{node.why}; became {node.became}"
        finding = Finding(node.where, node.was, "reduction", what, Severity.PORTABLE)
        converter.findings.append(finding)
    if inferable(original) is original and _is_valid(original):
        with foreign_errors(ModelError, INVALID_RESULT):
            onnx.checker.check_model(result)
    return Conversion(model=result, findings=Findings(converter.findings), folder=folder)


def _as_of(
    opset: int, model: ModelProto, folder: str | None
) -> tuple[ModelProto, tuple[RewrittenNode, ...]]:
    """Return a model whose gathers and scatters `opset` has, and the nodes that were rewritten.

    Before opset 11, only Gather is left, whose indices count from the front. What no rule expresses
    stays.
    """
    words = tuple(word for word, since in _REDUCTIONS.items() if since <= opset)
    published = [node for node in nodes_in(model) if is_published(node)]
    attributes = (item for node in published for item in node.attribute)
    found = {attribute_value(item) for item in attributes if item.name == "reduction"}
    basic, limits = load_target("basic"), {"Gather": Limits(negative=False)}
    if opset >= _TUPLES_FROM:
        if not found & (_REDUCTIONS.keys() - {*words}):
            return model, ()
        limits = dict.fromkeys(("Gather", "GatherElements", "GatherND"), Limits())
        limits |= dict.fromkeys(("ScatterElements", "ScatterND"), Limits(reductions=words))
    elif opset < _COMPARES_FROM or not any(
        row_domain(node.domain) == DEFAULT_DOMAIN for node in published
    ):
        return model, ()
    target = replace(
        basic,
        name=f"opset {opset}",
        operators=basic.operators | basic.open_sizes,
        limits=limits,
    )
    result, nodes = deploy(
        without_functions(model), folder, target, checked=True, allow_matmul=False
    )
    return result, tuple(node for node in nodes if node.why and not node.stays)


def _deployed(
    result: Conversion,
    caller: str,
    target: str | os.PathLike[str] | None,
    checked: object,
    allow_matmul: object,
    *,
    strict: bool,
) -> Conversion:
    """Return a conversion whose model is rewritten for a target, if there is one."""
    if target is None:
        return result
    flags = {
        name: instance(caller, name, value, bool, "a choice")
        for name, value in (("checked", checked), ("allow_matmul", allow_matmul))
    }
    known = load_target(file_path(caller, "target", target))
    model, nodes = deploy(result.model, result.folder, known, **flags)
    for node in nodes if strict else ():
        if node.stays:
            raise ModelError(
                f"node {node.where!r}: {node.was} cannot become {known.name}: {node.why}"
            )
    with foreign_errors(ModelError, INVALID_RESULT):
        if _is_valid(result.model):
            onnx.checker.check_model(model)
    return replace(result, model=model, nodes=nodes, target=known)


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


@dataclass(slots=True, kw_only=True)
class _Converter:
    """Converts nodes.

    `source` are the versions that the model imports; `opset`, `domain`, `operator` and `strict` the
    targets; `taken` are the names of values, and `sizes` those of sizes.
    """

    source: dict[str, int]
    opset: int
    domain: str | None
    operator: str | None
    strict: bool
    taken: set[str]
    sizes: set[str]
    findings: list[Finding] = field(default_factory=list)
    _found: dict[Operator, Operator | None] = field(default_factory=dict)

    def convert(self, body: InferredGraph) -> None:
        """Convert the nodes of a graph and of its subgraphs."""
        source = self.source.get(DEFAULT_DOMAIN, self.opset)
        for place in body:
            for inner in place.bodies:
                self.convert(inner)
            if place.inferred is not None:
                place.nodes = self._gather_nodes(body.graph, place, place.inferred)
                continue
            scope = place.scope
            _set_output_types(scope, place.read)
            try:
                place.nodes = convert_node(place.node, scope, self.taken, source, self.opset)
            except Exception as error:  # also of invalid nodes, which onnx has not checked
                raise OpNode(place.read, scope).named(error) from error

    def _gather_nodes(
        self, graph: GraphProto, place: PlacedNode, inferred: InferredNode
    ) -> list[NodeProto]:
        """Return a gather or scatter node in the target, after the nodes that it needs."""
        node, typed, op_node = place.node, place.scope, inferred.op_node
        if inferred.refusal is not None:
            inferred = self._repaired(op_node, inferred.refusal)
        try:
            if self._stays(inferred.op_node.operator()):
                return [node]
            if op_node.operator().row.definition is not None:
                self._check_defined(op_node)
                return [node]
            call = self._call(op_node, inferred, typed)
            if self.domain is not None and operators(call.name, self.domain):
                call.domain = self.domain
            target = implementation(call.name, call.domain, self.version(call.domain)).row
            if call.name != call.row.name:
                call.row = target  # the attributes are those of the new operator
            for loss in fit(call, target):
                negative = loss.rule == "index range"
                if not negative or may_be_negative(typed, op_node.node.input[1]):
                    raise call.cannot_become(target, f"{loss.source}, and there {loss.target}")
        except NdgatherError as error:
            raise op_node.named(error) from error
        for name in call.indices:
            declared = declaration(with_names(typed.type_of(name), self.sizes))
            graph.value_info.add(name=name).type.CopyFrom(declared)
        node = deepcopy(node)
        node.op_type = call.name
        if node.domain != file_domain(call.domain):
            node.domain = file_domain(call.domain)
        node.input[:] = call.inputs.values()
        if call.attributes != op_node.attributes():
            del node.attribute[:]
            for name, value in call.attributes.items():
                node.attribute.append(helper.make_attribute(name, value))
        return [*call.new.before, node]

    def _check_defined(self, op_node: OpNode) -> None:
        """Raise for an operator with a definition, which only its own versions equal."""
        row = op_node.operator().row
        domain = self.domain or row.domain
        version = self.version(domain)
        if domain != row.domain or version < row.since:
            why = "there is no such operator"
            raise messages.cannot_become(row, f"one of {domain} {version}", why)

    def _stays(self, function: Operator) -> bool:
        """Return whether a node of a version of an operator stays as it is."""
        if self.operator is not None or self.domain not in {None, function.domain}:
            return False
        if function not in self._found:
            version = self.version(function.domain)
            self._found[function] = None
            with suppress(NdgatherError):  # there is no such operator, as converting it says
                self._found[function] = implementation(function.name, function.domain, version)
        return self._found[function] is function

    def _repaired(self, op_node: OpNode, refusal: NdgatherError) -> InferredNode:
        """Return the node as one of a later version, if its attributes are valid there."""
        opset = op_node.repairing_opset(refusal)
        if opset is not None and opset <= self.opset:
            later = op_node.in_opset(opset)
            what = f"{refusal}; converted as {later.operator().row}"
            self._add_finding(op_node, op_node.operator().row, what, "repair")
            return InferredNode(later, later.infer())
        raise op_node.named(refusal)

    def _call(self, op_node: OpNode, inferred: InferredNode, typed: Scope) -> GatherCall:
        """Return a node as the target operator, or as it is if `strict` does not require that."""
        name = inferred.op_node.node.input[1]
        new = SizedNodes(scope=typed, taken=self.taken, prefix=name)
        call = GatherCall.of(inferred, new)
        if self.operator in {None, call.name} or call.origin.kind.scatters != any(
            item.row.kind.scatters for item in operators(self.operator)
        ):
            return call
        try:
            call.change_operator(self.operator)
        except NdgatherError as refusal:
            if self.strict:
                raise
            self._add_finding(op_node, call.origin, f"kept: {refusal}", "operator")
            new = SizedNodes(scope=typed, taken=self.taken, prefix=name)
            return GatherCall.of(inferred, new)
        return call

    def _add_finding(self, op_node: OpNode, row: OperatorVersion, what: str, rule: str) -> None:
        self.findings.append(Finding(op_node.where, str(row), rule, what, Severity.PORTABLE))

    def version(self, domain: str) -> int:
        """Return the version of a domain that the result imports."""
        if domain == DEFAULT_DOMAIN:
            return self.opset
        newest = max(item.version for item in operators(domain=domain))
        return self.source.get(domain, newest)

    def import_domains(self, model: ModelProto) -> None:
        """Import the domains of all nodes, and those of published operators only if used."""
        used: set[str] = set()
        if any(domain in self.source or domain == self.domain for domain in DOMAINS[1:]):
            used = {row_domain(node.domain) for node in nodes_in(model)}
        imports = {
            domain: version
            for domain, version in self.source.items()
            if domain in used or domain not in DOMAINS
        }
        for domain in (DEFAULT_DOMAIN, *DOMAINS):
            if domain in used or domain == DEFAULT_DOMAIN:
                imports[domain] = self.version(domain)
        del model.opset_import[:]
        for domain, version in imports.items():
            model.opset_import.add(domain=file_domain(domain), version=version)
        if self.opset != (source := self.source.get(DEFAULT_DOMAIN, 0)):
            needed = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
            inputs = {item.name for item in model.graph.input}
            if any(tensor.name not in inputs for tensor in model.graph.initializer):
                needed = max(needed, CONSTANTS_FROM)
            choose = max if self.opset > source else min
            model.ir_version = choose(model.ir_version, needed)


def _constants_as_initializers(graph: GraphProto) -> None:
    """Move constants where their type may be any."""
    for body in list(messages_in(graph, GraphProto)):
        for number in reversed(range(len(body.node))):
            tensor = constant_tensor(body.node[number])
            if tensor is not None:
                body.initializer.add().CopyFrom(tensor)
                body.initializer[-1].name = body.node[number].output[0]
                del body.node[number]


def _set_output_types(scope: Scope, node: ReadNode) -> None:
    """Set the types of outputs that onnx does not infer, but the subgraphs of the node declare."""
    for graph in node.graphs:
        outputs = graph.output[1:] if node.op_type == "Loop" else graph.output
        for name, inner in zip(node.outputs, outputs, strict=False):
            dtype, known = tensor_type(inner.type).dtype, scope.type_of(name)
            if dtype is not None and known.dtype is None:
                scope.set_type(name, TensorType(dtype, known.shape))
