"""Nodes of other operators, each brought to another version of ONNX, or replaced by its function.

An operator that the target does not have, or that does not take there what the node has, is
replaced by the nodes that its schema defines it by, if it has any; these are converted in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onnx import NodeProto

from ndgather.errors import ModelError, NdgatherError, conversion_errors
from ndgather.models.onnx.domains import row_domain, subgraphs
from ndgather.models.onnx.operator_functions import function_of
from ndgather.models.onnx.other_node import OtherNode, Values
from ndgather.models.onnx.version_walk import schema_of, walk
from ndgather.published.rows import DEFAULT_DOMAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNodes:
    """Converts nodes to the version `opset`; `taken` are the names of values that are in use."""

    opset: int
    taken: set[str]

    def converted(self, node: NodeProto, values: Values, opset: int) -> list[NodeProto]:
        """Return the nodes that do in the target what `node` does in `opset`.

        Raises
        ------
        NdgatherError
            There are none; the text says why.
        """
        if row_domain(node.domain) != DEFAULT_DOMAIN or opset == self.opset:
            return [node]
        schema = schema_of(node.op_type, opset)
        if schema is None:
            raise conversion_errors.no_operator(node.op_type, opset)
        copy = NodeProto.FromString(node.SerializeToString())
        other = OtherNode(node=copy, schema=schema, values=values, taken=self.taken)
        try:
            walk(other, self.opset)
        except NdgatherError as refusal:
            return self._function(node, values, opset, refusal)
        return [*other.before, other.node, *other.after]

    def _function(
        self, node: NodeProto, values: Values, opset: int, refusal: NdgatherError
    ) -> list[NodeProto]:
        function = function_of(node, values, opset, self.opset, self.taken)
        if function is None:
            raise refusal
        within = replace(values, made={**values.made, **function.types})
        result: list[NodeProto] = []
        for each in function.nodes:
            within.see(each)
            try:
                if any(True for _ in subgraphs(each)):
                    raise ModelError(f"{each.op_type} has graphs in it")
                result += self.converted(each, within, function.opset)
            except NdgatherError as error:
                raise conversion_errors.function_refused(refusal, error) from error
        return result
