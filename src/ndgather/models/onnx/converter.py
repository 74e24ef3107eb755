"""Models converted to another version of ONNX, another domain, or equivalent operators."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from ndgather.errors import AttributeValueError, ModelError, NdgatherError, one_line
from ndgather.messages import did_you_mean, foreign_errors, listed
from ndgather.models.arguments import Array, instance
from ndgather.models.graph.conversion import NodeCall, fit
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.onnx.files import Conversion, Source, inferable, messages_in, open_model
from ndgather.models.onnx.inference import (
    InferredNode,
    infer_types,
    size_names,
    with_names,
    without_functions,
)
from ndgather.models.onnx.nodes import (
    DOMAINS,
    OpNode,
    Scope,
    declaration,
    element_type,
    file_domain,
    graph_scope,
    implementation,
    is_published,
    nodes_within,
    opsets,
    row_domain,
    subgraphs,
    tensor_type,
    with_one_name,
)
from ndgather.models.onnx.steps import NewNodes
from ndgather.models.onnx.versions import INVALID_RESULT, convert_node, from_oldest
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import RankAtLeast, Role, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ndgather.published.schema import Dim, OperatorVersion, Shape


def convert(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
) -> ModelProto:
    """Convert a model to another version of ONNX, or to other operators, with the same results.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As in `run`. A model in memory is not changed.
    opset : int, optional
        The target opset: the version of ONNX that the result imports. Every node is converted
        one version after the other. An operator that the target does not have is replaced by the
        function that defines it, whose results may differ in their last bits.
    domain : str, optional
        The domain of the gather and scatter nodes, if it has their operators: ``"ai.onnx"`` or
        ``"com.microsoft"``.
    operator : str, optional
        The operator that replaces gather nodes: ``"GatherND"``, ``"GatherElements"`` or
        ``"Gather"``; ``"ScatterND"`` replaces ScatterElements nodes.

    Returns
    -------
    ModelProto
        A new model without local functions, which are inlined.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node has no exact counterpart. The message contains its name and the reason.

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
    return _convert(model, "convert", opset, domain, operator, strict=True).model


def conversion(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
    strict: bool = False,
) -> Conversion:
    """Convert a model as `convert` does, and return findings about its nodes as well.

    Parameters
    ----------
    model, opset, domain, operator
        As in `convert`.
    strict : bool, default False
        Raise an error if a node cannot become `operator`. Otherwise the node keeps its operator,
        and a finding contains the reason.

    Returns
    -------
    Conversion
        Its `model`, and its `findings` about nodes that kept their operator or were repaired. A
        node with an attribute value that only a later version of its operator has is repaired by
        converting it as a node of that version, if `opset` has it.

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
    return _convert(model, "conversion", opset, domain, operator, strict=strict)


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
    typed, inferred_nodes = infer_types(proto, folder)
    for function in typed.functions:
        name = one_line(f"{function.name} of {function.domain}")
        raise ModelError(
            f"function {name} cannot be inlined, because it imports other versions than the model "
            "(allowed: the same versions)"
        )
    result = without_functions(proto)
    taken: set[str] = set()
    for message in messages_in(result.graph):
        if isinstance(message, GraphProto):
            taken.update(value.name for value in (*message.input, *message.initializer))
        elif isinstance(message, NodeProto):
            taken.update(message.output)
    converter = _Converter(
        source=source,
        opset=opset or source.get(DEFAULT_DOMAIN, newest),
        domain=None if domain is None else row_domain(domain),
        operator=operator,
        strict=strict,
        inferred=iter(inferred_nodes),
        taken=taken,
        sizes=size_names(result.graph),
    )
    converter.convert_graph(result.graph, graph_scope(typed, folder))
    converter.import_domains(result)
    if inferable(original) is original and _is_valid(original):
        with foreign_errors(ModelError, INVALID_RESULT):
            onnx.checker.check_model(result)
    return Conversion(model=result, findings=tuple(converter.findings), folder=folder)


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
    """Converts the nodes of graphs in place.

    `source` are the versions that the model imports; `opset`, `domain`, `operator` and `strict` the
    targets. `inferred` are the gather and scatter nodes of the model with their types, in order;
    `taken` the names of values, and `sizes` those of sizes.
    """

    source: dict[str, int]
    opset: int
    domain: str | None
    operator: str | None
    strict: bool
    inferred: Iterator[InferredNode]
    taken: set[str]
    sizes: set[str]
    findings: list[Finding] = field(default_factory=list)

    def convert_graph(self, graph: GraphProto, typed: Scope) -> None:
        """Convert the nodes of a graph; `typed` is the same graph with the types of all values."""
        converted: list[NodeProto] = []
        for node, typed_node in zip(list(graph.node), typed.body.node, strict=True):
            if is_published(node):
                converted += self._gather_nodes(graph, next(self.inferred), typed)
                continue
            inner = zip(subgraphs(node), subgraphs(typed_node), strict=True)
            for inner_graph, typed_graph in inner:
                self.convert_graph(inner_graph, typed.within(typed_node, typed_graph))
            _set_output_types(typed, typed_node)
            source = self.source.get(DEFAULT_DOMAIN, self.opset)
            try:
                converted += convert_node(node, typed, self.taken, source, self.opset)
            except Exception as error:  # also of invalid nodes, which onnx has not checked
                raise OpNode(node=node, scope=typed).named(error) from error
        copies = list(map(deepcopy, converted))  # some of them are in `graph` itself
        del graph.node[:]
        graph.node.extend(copies)

    def _gather_nodes(
        self, graph: GraphProto, inferred: InferredNode, typed: Scope
    ) -> list[NodeProto]:
        """Return a gather or scatter node in the target, after the nodes that it needs."""
        op_node = inferred.op_node
        if inferred.refusal is not None:
            inferred = self._repaired(op_node, inferred.refusal)
        try:
            call = self._call(op_node, inferred, typed)
            if self.domain is not None and operators(call.name, self.domain):
                call.domain = self.domain
            target = implementation(call.name, call.domain, self.version(call.domain)).row
            if call.name != call.row.name:
                call.row = target  # the attributes are those of the new operator
            for difference in fit(call, target):
                if difference.loses:
                    why = f"{difference.source}, and there {difference.target}"
                    raise call.cannot_become(target, why)
        except NdgatherError as error:
            raise op_node.named(error) from error
        for name in call.indices:
            declared = declaration(with_names(typed.type_of(name), self.sizes))
            graph.value_info.add(name=name).type.CopyFrom(declared)
        node = deepcopy(op_node.node)
        node.op_type = call.name
        if node.domain != file_domain(call.domain):
            node.domain = file_domain(call.domain)
        node.input[:] = call.inputs.values()
        if call.attributes != op_node.attributes():
            del node.attribute[:]
            for name, value in call.attributes.items():
                node.attribute.append(helper.make_attribute(name, value))
        return [*call.new.before, node]

    def _repaired(self, op_node: OpNode, refusal: NdgatherError) -> InferredNode:
        """Return the node as one of a later version, if its attributes are valid there."""
        versions: range | tuple[()] = ()
        if (
            isinstance(refusal, AttributeValueError)
            and row_domain(op_node.node.domain) == DEFAULT_DOMAIN
        ):
            versions = range(self.source.get(DEFAULT_DOMAIN, 1) + 1, self.opset + 1)
        for version in versions:
            scope = replace(op_node.scope, opsets={DEFAULT_DOMAIN: version})
            later = OpNode(node=op_node.node, scope=scope)
            try:
                inference = later.infer()
            except NdgatherError:
                continue
            what = f"{refusal}; converted as {later.operator().row}"
            self._add_finding(op_node, op_node.operator().row, what, "repair")
            return InferredNode(later, inference)
        raise op_node.named(refusal)

    def _call(self, op_node: OpNode, inferred: InferredNode, typed: Scope) -> GatherCall:
        """Return a node as the target operator, or as it is if `strict` does not require that."""
        call = self._gather_call(inferred, typed)
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
            return self._gather_call(inferred, typed)
        return call

    def _gather_call(self, inferred: InferredNode, typed: Scope) -> GatherCall:
        op_node = inferred.op_node
        row = op_node.operator().row
        roles = [parameter.role for parameter in row.inputs]
        types = inferred.inference.inputs if inferred.inference else op_node.types()
        indices = op_node.constants().get(Role.INDICES.value)
        inputs = dict(zip(roles, op_node.node.input, strict=True))
        return GatherCall(
            origin=row,
            row=row,
            name=row.name,
            domain=row.domain,
            inputs=inputs,
            types=dict(zip(roles, types, strict=True)),
            constants={} if indices is None else {Role.INDICES: indices},
            attributes=op_node.attributes(),
            new=NewNodes(scope=typed, taken=self.taken, prefix=inputs[Role.INDICES]),
        )

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
        used = {
            row_domain(inner.domain) for node in model.graph.node for inner in nodes_within(node)
        }
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
        if self.opset > self.source.get(DEFAULT_DOMAIN, 0):
            needed = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
            model.ir_version = max(model.ir_version, needed)


def _set_output_types(scope: Scope, node: NodeProto) -> None:
    """Set the types of outputs that onnx does not infer, but the subgraphs of the node declare."""
    for graph in subgraphs(node):
        outputs = graph.output[1:] if node.op_type == "Loop" else graph.output
        for name, inner in zip(node.output, outputs, strict=False):
            dtype, known = tensor_type(inner.type).dtype, scope.type_of(name)
            if dtype is not None and known.dtype is None:
                scope.set_type(name, TensorType(dtype, known.shape))


@dataclass(slots=True, kw_only=True)
class GatherCall(NodeCall):
    """A gather or scatter node that becomes the operator `name` of `domain`.

    `new` are the nodes before it, and `indices` the names of their outputs that it may read.
    """

    name: str
    domain: str
    new: NewNodes
    indices: list[str] = field(default_factory=list)

    def change_operator(self, name: str) -> None:
        """Become an equivalent operator of ONNX."""
        change = (self.name, name)
        self.name, self.domain = name, DEFAULT_DOMAIN
        if change not in EQUIVALENCES:
            raise self.cannot_become(name, "no exact counterpart is known")
        function, kept = EQUIVALENCES[change]
        function(self)
        self.attributes = {key: value for key, value in self.attributes.items() if key in kept}

    def dims(self, role: Role) -> tuple[Dim, ...]:
        """Return the shape of an input, whose rank has to be known."""
        shape = self.types[role].shape
        if shape is None or isinstance(shape, RankAtLeast):
            raise self.cannot_become(self.name, f"the rank of {role.value} is not known")
        return shape

    def attribute(self, name: str) -> int:
        return int(self.attributes.get(name, 0))

    def cast(self, role: Role, dtype: str) -> None:
        known = replace(self.types[role], dtype=dtype)
        self._read(role, self.new.add("Cast", self.inputs[role], to=element_type(dtype)), known)
        if role in self.constants:
            self.constants[role] = self.constants[role].astype(dtype)

    def set_constant(self, role: Role, array: Array) -> None:
        self.inputs[role] = self.new.add("Constant", value=numpy_helper.from_array(array))
        self.constants[role] = array

    def set_indices(self, name: str, shape: Shape) -> None:
        self._read(Role.INDICES, name, TensorType("int64", shape))
        self.constants.pop(Role.INDICES, None)

    def _read(self, role: Role, name: str, known: TensorType) -> None:
        self.inputs[role], self.types[role] = name, known
        self.new.scope.set_type(name, known)
        self.indices.append(name)

    def sizes(self, role: Role, *, last: bool = True, ones: int = 0) -> str:
        """Return the shape of an input, with or without its last axis, and with axes of size 1."""
        sizes = self.new.add("Shape", self.inputs[role])
        if not last:
            sizes = self.new.add("Slice", sizes, self.new.constant([0]), self.new.constant([-1]))
        if ones:
            sizes = self.new.add("Concat", sizes, self.new.constant([1] * ones), axis=0)
        return sizes

    def reshaped(self, sizes: str) -> str:
        return self.new.add("Reshape", self.inputs[Role.INDICES], sizes)

    def coordinates(self, sizes: str, axis: int, rank: int, shape: str) -> str:
        """Return the position along `axis` of every element of a tensor of a shape."""
        new = self.new
        count = new.add("Gather", sizes, new.constant(axis), axis=0)
        numbers = new.add("Range", new.constant(0), count, new.constant(1))
        line = new.constant([-1 if number == axis else 1 for number in range(rank)])
        return new.add("Expand", new.add("Reshape", numbers, line), shape)

    def fold_batch_dims(self, _: OperatorVersion) -> None:
        """Put the coordinates of the batch axes before the index tuples."""
        *lead, depth = self.dims(Role.INDICES)
        count = self.attribute("batch_dims")
        shape = self.sizes(Role.INDICES, last=False, ones=1)
        # The sizes of data, so that indices with other batch sizes raise an error here too.
        sizes = self.sizes(Role.DATA)
        columns = [self.coordinates(sizes, axis, len(lead) + 1, shape) for axis in range(count)]
        joined = self.new.add("Concat", *columns, self.inputs[Role.INDICES], axis=-1)
        deeper = depth + count if isinstance(depth, int) else None
        self.set_indices(joined, (*lead, deeper))


def _gather_as_gather_nd(call: GatherCall) -> None:
    dims = call.dims(Role.DATA)
    axis = call.attribute("axis") % len(dims)
    if axis != 0:
        raise call.cannot_become(call.name, f"axis = {axis} is not 0")
    _cast_to_int64(call)
    dims = call.dims(Role.INDICES)
    call.set_indices(call.reshaped(call.sizes(Role.INDICES, ones=1)), (*dims, 1))


def _gather_nd_as_gather(call: GatherCall) -> None:
    if call.attribute("batch_dims"):
        raise call.cannot_become(call.name, f"batch_dims = {call.attribute('batch_dims')} is not 0")
    _drop_last_axis(call)


def _drop_last_axis(call: GatherCall) -> None:
    *dims, depth = call.dims(Role.INDICES)
    if depth != 1:
        why = f"the length of the index tuples is {depth or 'not known'}, not 1"
        raise call.cannot_become(call.name, why)
    call.set_indices(call.reshaped(call.sizes(Role.INDICES, last=False)), tuple(dims))


def _elements_as_tuples(call: GatherCall) -> None:
    """Make index tuples of single indices: the positions, and the indices along the axis."""
    axis = call.attribute("axis") % len(call.dims(Role.DATA))
    _cast_to_int64(call)
    dims = call.dims(Role.INDICES)
    sizes = call.sizes(Role.INDICES)
    shape = call.new.add("Concat", sizes, call.new.constant([1]), axis=0)
    columns = [
        call.reshaped(shape)
        if number == axis
        else call.coordinates(sizes, number, len(dims) + 1, shape)
        for number in range(len(dims))
    ]
    joined = columns[0] if len(columns) == 1 else call.new.add("Concat", *columns, axis=-1)
    call.set_indices(joined, (*dims, len(dims)))


def _cast_to_int64(call: GatherCall) -> None:
    if call.types[Role.INDICES].dtype != "int64":
        call.cast(Role.INDICES, "int64")


def _gather_nd_as_gather_elements(call: GatherCall) -> None:
    rank, indices = len(call.dims(Role.DATA)), call.dims(Role.INDICES)
    if indices[-1] == 1 and (call.attribute("batch_dims"), len(indices)) != (rank - 1, rank + 1):
        raise call.cannot_become(
            call.name,
            "only tuples along the last axis of data, with all axes before it as batch axes and "
            "one axis of positions, are indices of single elements",
        )
    _drop_last_axis(call)
    call.attributes["axis"] = rank - 1


def _check_one_axis(call: GatherCall) -> None:
    ranks = [len(call.dims(role)) for role in (Role.DATA, Role.INDICES)]
    if ranks != [1, 1]:
        why = f"data and indices have ranks {ranks[0]} and {ranks[1]}, not 1"
        raise call.cannot_become(call.name, why)


EQUIVALENCES: dict[tuple[str, str], tuple[Callable[[GatherCall], None], tuple[str, ...]]] = {
    ("Gather", "GatherND"): (_gather_as_gather_nd, ()),
    ("GatherND", "Gather"): (_gather_nd_as_gather, ()),
    ("GatherElements", "GatherND"): (_elements_as_tuples, ()),
    ("GatherND", "GatherElements"): (_gather_nd_as_gather_elements, ("axis",)),
    ("Gather", "GatherElements"): (_check_one_axis, ("axis",)),
    ("GatherElements", "Gather"): (_check_one_axis, ("axis",)),
    ("ScatterElements", "ScatterND"): (_elements_as_tuples, ("reduction",)),
}
"""Functions that replace an operator by another one exactly, and the attributes that are kept."""
