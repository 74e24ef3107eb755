"""The reference evaluator of `onnx`, extended with the operators of ndgather."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun, RuntimeContextError

from ndgather.api import own_errors
from ndgather.errors import AttributeValueError, ModelError, one_line
from ndgather.messages import LOGGER, foreign_errors, plural
from ndgather.models import Array, instance, named_arrays
from ndgather.models.graph import HasPorts, OutputArray, Run, fit_inputs, leave_out_sequences
from ndgather.models.onnx.files import IN_MEMORY, check_self_contained, with_dense_tensors
from ndgather.models.onnx.inference import check_functions
from ndgather.models.onnx.nodes import (
    PUBLISHED,
    file_domain,
    implementation,
    model_ports,
    named_by,
    repair,
    repairing_opset,
    row_domain,
    with_one_name,
)
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import TensorType, dtype_name
from ndgather.runtimes.onnx_reference import Scatter, check_operators, with_defaults


class Model(HasPorts):
    """An ONNX model that can be run many times.

    Parameters
    ----------
    proto : ModelProto
        The model in memory. Use `load` for files and bytes.
    path : str, default "model"
        The name of the model in error messages.

    Attributes
    ----------
    inputs, outputs : tuple of Port
        The declared names, dtypes and shapes.
    not_loaded : str
        Why a runtime could not load the model, or an empty string if no runtime was tried.

    Raises
    ------
    ModelError, FileError
        A function calls itself, or the folder of the external tensors is unknown.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> [str(port) for port in onnx.Model(model).inputs]
    ['data float32 (N, 2)', 'rows int64 (M, 1)']
    """

    def __init__(self, proto: onnx.ModelProto, path: str = IN_MEMORY) -> None:
        instance("Model", "proto", proto, onnx.ModelProto, "a model")
        proto = with_dense_tensors(proto, None, copies=True)
        check_self_contained(proto)
        check_functions(proto)
        self.not_loaded = ""
        self._path = path
        self._proto = proto
        self.inputs, self.outputs = model_ports(proto)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model.

        Parameters
        ----------
        inputs : mapping of str to array_like
            The inputs by name. See `run`.

        Returns
        -------
        Run
            The outputs, the elapsed time in seconds, and the number of nodes that ran in ndgather
            and elsewhere.

        Raises
        ------
        ModelError, ShapeError, DTypeError, IndexOutOfBoundsError
            See `run`.
        """
        start, fitted = time.perf_counter(), fit_inputs(self.inputs, named_arrays("run", inputs))
        names = [port.name for port in self.outputs]
        counts = Counter[bool]()
        token = _COUNTS.set(counts)
        try:
            with foreign_errors(ModelError, f"{self._path}: cannot be run"):
                proto = with_defaults(with_one_name(self._proto))
                check_operators(proto)
                with np.errstate(all="ignore"):  # Other runtimes do not warn about NaN or overflow.
                    values: Any = Evaluator(proto).run(names, fitted)
        finally:
            _COUNTS.reset(token)
        results = leave_out_sequences(self._path, dict(zip(names, values, strict=True)))
        seconds = time.perf_counter() - start
        own, other = plural(counts[True], "node"), plural(counts[False], "node")
        what = f"{own} ran in ndgather and {other} in the reference evaluator"
        LOGGER.info("%s: %s, %.3f s", self._path, what, seconds)
        return Run(
            outputs=tuple(OutputArray(name, array) for name, array in results.items()),
            seconds=seconds,
            gather_nodes=counts[True],
            remaining_nodes=counts[False],
        )


# The key True counts the nodes run by ndgather, and False the other nodes, including subgraphs.
_COUNTS: ContextVar[Counter[bool]] = ContextVar("counts")


class Evaluator(ReferenceEvaluator):
    """A reference evaluator that uses the operators of ndgather, including in subgraphs."""

    def __init__(self, proto: object, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": [*_OPS, Scatter]})
        self.rt_nodes_ = [_NamedNode(node) for node in self.rt_nodes_]

    def _load_impl(self, node: onnx.NodeProto, *types: Any, **options: Any) -> Any:
        try:
            return super()._load_impl(node, *types, **options)
        except (NotImplementedError, RuntimeContextError) as error:
            if isinstance(error, RuntimeContextError) and not types:
                raise  # The evaluator handles the error by calling `_load_impl` with input types.
            why = f"the reference evaluator does not support {one_line(node.op_type)}"
            if row_domain(node.domain) != DEFAULT_DOMAIN:
                why = f"{why} of {one_line(node.domain)}"
            refusal = ModelError(f"{why} (allowed: another runtime=, such as 'onnxruntime')")
            raise named_by(refusal, node) from error


class _NamedNode:
    """A wrapper around an evaluator node that adds the name of the node to errors."""

    def __init__(self, node: OpRun) -> None:
        self.node = node

    def __getattr__(self, name: str) -> object:
        return getattr(self.node, name)

    def run(self, *inputs: object, **options: object) -> tuple[object, ...]:
        try:
            outputs: tuple[object, ...] = self.node.run(*inputs, **options)  # type: ignore[no-untyped-call]
        except Exception as error:
            cause: BaseException | None = error
            if isinstance(error, TypeError):  # The evaluator wraps a TypeError in a new TypeError.
                cause = error.__cause__ or error
            assert isinstance(cause, Exception)
            raise named_by(cause, self.node.onnx_node) from cause
        if not (self.node.has_subgraph or isinstance(self.node, OpFunction)):
            _COUNTS.get()[isinstance(self.node, _PublishedOp)] += 1
        return outputs


class _PublishedOp(OpRun):
    def _run(self, *inputs: Array, **attributes: object) -> tuple[Array]:
        opset = self.run_params["opsets"][self.domain]
        # Drop the defaults that the evaluator adds, because they may belong to another version.
        written = {item.name: attributes[item.name] for item in self.onnx_node.attribute}
        try:
            return (implementation(self.op_type, self.domain, opset)(*inputs, **written),)
        except AttributeValueError as error:
            types = (TensorType(dtype_name(item), item.shape) for item in inputs)
            later = repairing_opset(self.onnx_node, opset, types, error)
            if later is not None:
                error.args = (f"{error} (to repair it: {repair(self.onnx_node, later)})",)
            raise


_OPS = tuple(
    type(name, (_PublishedOp,), {"op_domain": file_domain(domain)})
    for name, domain in sorted(PUBLISHED)
)


@own_errors("reference_ops")
def reference_ops() -> list[type[OpRun]]:
    """Return the ndgather operators for the reference evaluator of `onnx`.

    Returns
    -------
    list of type
        The gather and scatter operators of ONNX and com.microsoft, as classes that
        ``onnx.reference.ReferenceEvaluator(model, new_ops=...)`` accepts.

    Examples
    --------
    >>> from ndgather.models import onnx
    >>> sorted({op.__name__ for op in onnx.reference_ops()})[:4]
    ['Gather', 'GatherBlockQuantized', 'GatherElements', 'GatherND']
    """
    return list(_OPS)
