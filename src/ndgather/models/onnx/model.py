"""ONNX models that can be run: what goes in and comes out, and their results."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun

from ndgather.errors import NdgatherError, input_errors, onnx_errors, run_errors
from ndgather.models.arguments import instance, named_arrays, whole_number
from ndgather.models.graph import Port, Run, fit_inputs
from ndgather.models.graph.calls import Step, finished
from ndgather.models.onnx.files import IN_MEMORY, loaded
from ndgather.models.onnx.nodes import (
    OURS,
    dtype_of_number,
    file_domain,
    implementation,
    nodes_within,
    refuse_tensors,
    row_domain,
    subgraphs,
    with_one_name,
)
from ndgather.published.schema import Reduction
from ndgather.runtimes.corrected_ops import CORRECTED
from ndgather.settings import LOGGER, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

    from ndgather.models.arguments import Content, FilePath
    from ndgather.models.onnx.nodes import OpNode


MOST_NODES = 1_000_000
DEEPEST = 100

_Key: TypeAlias = tuple[str, str, str]


def refuse_unbounded(model: ModelProto) -> None:
    """Refuse a model whose functions come to too many nodes.

    Raises
    ------
    ModelError
        Functions call themselves, or their calls are more or deeper than what is run.
    """
    if not model.functions:
        return
    functions = {_key(function): function for function in model.functions}
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes: dict[_Key, int] = {}
    waiting = dict(calls)
    for _ in range(DEEPEST):
        ready = [key for key, called in waiting.items() if called.keys() <= sizes.keys()]
        for key in ready:
            called = waiting.pop(key)
            sizes[key] = len(functions[key].node) + sum(
                count * sizes[other] for other, count in called.items()
            )
        if not waiting:
            break
    for _, name, _ in waiting:
        raise onnx_errors.functions_call_themselves(name, DEEPEST)
    nodes = len(model.graph.node) + sum(
        count * sizes[key] for key, count in _calls(model.graph.node, functions).items()
    )
    if nodes > MOST_NODES:
        raise onnx_errors.too_many_nodes(nodes, MOST_NODES)


def _key(each: NodeProto | FunctionProto) -> _Key:
    name = each.op_type if hasattr(each, "op_type") else each.name
    return row_domain(each.domain), name, getattr(each, "overload", "")


def _calls(nodes: Iterable[NodeProto], functions: Mapping[_Key, FunctionProto]) -> Counter[_Key]:
    """Count the calls of each function, in subgraphs too."""
    keys = (_key(inner) for node in nodes for inner in nodes_within(node))
    return Counter(key for key in keys if key in functions)


Array = NDArray[Any]


class Model:
    """An ONNX model that can be run many times.

    Parameters
    ----------
    proto : ModelProto
        The model in memory. `Model.load` reads a file, or the bytes of one.
    path : str, default "model"
        What errors call the model.

    Attributes
    ----------
    inputs, outputs : tuple of Port
        What the model declares: names, dtypes and shapes.
    not_loaded : str
        Why the runtime that was to run it did not load it; empty where none was to.

    Raises
    ------
    ModelError, FileError
        Its functions call themselves, or it keeps tensors in files that are not known.

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
        refuse_tensors(proto)
        refuse_unbounded(proto)
        self.not_loaded = ""
        self._path = path
        self._proto = proto
        self.inputs, self.outputs = model_ports(proto)

    @classmethod
    def load(cls, path: FilePath | Content) -> Self:
        """Read and check a model.

        Parameters
        ----------
        path : str, os.PathLike or bytes
            The path of a file, or what such a file holds.

        Returns
        -------
        Model

        Raises
        ------
        FileError, ModelError
            The file cannot be read, or is not a valid ONNX model.
        """
        return cls._load(path, "Model.load")

    @classmethod
    def _load(cls, path: FilePath | Content, caller: str) -> Self:
        proto = loaded(path, caller)
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else IN_MEMORY
        try:
            onnx.checker.check_model(proto if name is IN_MEMORY else name)
        except (onnx.checker.ValidationError, ValueError) as error:
            raise onnx_errors.invalid_model(name, error) from error
        return cls(proto, name)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Run:
        """Run the model.

        Parameters
        ----------
        inputs : mapping of str to array_like
            The inputs by their names; see `run`.
        progress : callable, optional
            Is called after each node with the numbers of nodes that ran and in all.

        Returns
        -------
        Run
            `outputs`, each with its name, array and time; the time of all nodes; and how many of
            them ran in ndgather and elsewhere.

        Raises
        ------
        ModelError
            An input is missing or unknown, or a node failed; the text names the node.
        ShapeError, DTypeError, IndexOutOfBoundsError
            An input, or what a node was given, does not fit; the text names it.
        """
        # Not above: the evaluator of onnx takes 20 MB, which a runtime does without.

        fitted = fit_inputs(self.inputs, named_arrays("run", inputs))
        try:
            evaluator = Evaluator(with_one_name(self._proto))
        except Exception as error:  # whatever the evaluator finds it cannot do
            raise run_errors.cannot_run(self._path, error) from error
        if progress is not None:
            _report(evaluator, progress)
        names = [port.name for port in self.outputs]
        counts = Counter[bool]()
        token = tally.set(counts)
        try:
            with np.errstate(all="ignore"):  # a NaN or an infinity is a value, as in a runtime
                values = evaluator.run(names, fitted)
        except (NdgatherError, MemoryError):
            raise
        except Exception as error:  # an output that no node gives, or a node that it cannot call
            raise run_errors.cannot_run(self._path, error) from error
        finally:
            tally.reset(token)
        outputs = [
            (name, name, _tensor(name, value)) for name, value in zip(names, values, strict=True)
        ]
        run = finished(evaluator.steps, outputs, own_nodes=counts[True], other_nodes=counts[False])
        LOGGER.info(
            "%s: %s ran in ndgather and %s in the reference evaluator, %.3f s",
            self._path,
            counted(run.own_nodes, "node"),
            counted(run.other_nodes, "node"),
            run.seconds,
        )
        return run


def _report(evaluator: Evaluator, progress: Callable[[int, int], object]) -> None:
    """Have each node of the main graph say that it ran."""
    done, total = itertools.count(1), len(evaluator.steps)
    for step in evaluator.steps:
        step.ended = lambda: progress(next(done), total)


def model_ports(proto: onnx.ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return what a model declares of its inputs and outputs."""
    initial = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(_port(info, initial) for info in proto.graph.input)
    return inputs, tuple(_port(info, set(), "output") for info in proto.graph.output)


def _port(info: onnx.ValueInfoProto, initial: set[str], role: str = "input") -> Port:
    kind = info.type.WhichOneof("value")
    if role == "input" and kind not in {"tensor_type", None}:
        raise run_errors.not_a_tensor(role, info.name, kind.removesuffix("_type"))
    tensor = info.type.tensor_type
    shape = tuple(_size(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    dtype = dtype_of_number(tensor.elem_type, info.name) if tensor.elem_type else None
    return Port(name=info.name, dtype=dtype, shape=shape, optional=info.name in initial)


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """Return a declared size; one below 0 says that it is not known."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else "?"
    return dim.dim_param or "?"


def _tensor(name: str, value: object) -> Array:
    if not isinstance(value, np.ndarray):
        raise run_errors.not_a_tensor("output", name, type(value).__name__)
    return value


class _OwnOp(OpRun):
    """A gather or scatter node, as the reference evaluator wants it."""

    def _run(self, *inputs: Array, **attributes: object) -> tuple[Array]:
        opset = self.run_params["opsets"][self.domain]
        # The evaluator adds defaults by the operator's bare name; ndgather has its own.
        given = {item.name: attributes[item.name] for item in self.onnx_node.attribute}
        return (implementation(self.op_type, self.domain, opset)(*inputs, **given),)


def reference_ops() -> list[type[OpRun]]:
    """Return the operators of ndgather for the reference evaluator of `onnx`.

    Returns
    -------
    list of type
        Classes for ``onnx.reference.ReferenceEvaluator(model, new_ops=...)``: the gather and
        scatter operators of ONNX and com.microsoft.

    Examples
    --------
    >>> from ndgather.models import onnx
    >>> sorted({each.__name__ for each in onnx.reference_ops()})
    ['Gather', 'GatherElements', 'GatherND', 'ScatterElements', 'ScatterND']
    """
    return list(_OPS)


_OPS = tuple(
    type(name, (_OwnOp,), {"op_domain": file_domain(domain)}) for name, domain in sorted(OURS)
)


# How many nodes of one run ran in ndgather (True) and elsewhere (False), in subgraphs too.
tally: ContextVar[Counter[bool]] = ContextVar("tally")


class _Step(Step):
    """A node of an evaluator in the form that the evaluator calls."""

    def __init__(self, node: OpRun) -> None:
        proto = node.onnx_node
        reads, gives = tuple(_names_read(proto)), tuple(proto.output)
        super().__init__(name=proto.name, title=node.op_type, reads=reads, gives=gives)
        self.node = node
        self.ended: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.node, name)

    def run(self, *inputs: object, **options: object) -> tuple[object, ...]:
        with self.running():
            try:
                # onnx leaves it untyped
                outputs: tuple[object, ...] = self.node.run(*inputs, **options)  # type: ignore[no-untyped-call]
            except TypeError as error:  # it hides a TypeError of a node behind one of its own
                if error.__cause__ is None:
                    raise
                raise error.__cause__ from error
        self.bytes += sum(getattr(each, "nbytes", 0) for each in outputs)
        if self.ended is not None:
            self.ended()
        if not (self.node.has_subgraph or isinstance(self.node, OpFunction)):
            tally.get()[isinstance(self.node, _OwnOp)] += 1
        return outputs


class Evaluator(ReferenceEvaluator):
    """The reference evaluator with the operators of ndgather, in subgraphs and functions too."""

    def __init__(self, proto: object, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": [*_OPS, *CORRECTED]})
        self.steps = [_Step(node) for node in self.rt_nodes_]
        self.rt_nodes_ = self.steps


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the inputs of a node, with those of every node of its subgraphs."""
    yield from node.input
    for graph in subgraphs(node):
        yield from (output.name for output in graph.output)
        for inner in graph.node:
            yield from _names_read(inner)


def given_sizes(caller: str, sizes: object) -> dict[str, int]:
    """Return sizes by their names, each of them a number."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping) or not all(isinstance(name, str) for name in sizes):
        raise run_errors.argument_kind(caller, "sizes", sizes, "a mapping", "numbers by names")
    return {name: whole_number(caller, f"sizes[{name!r}]", size, 0) for name, size in sizes.items()}


def open_sizes(ports: Iterable[Port]) -> set[str]:
    """Return how the sizes that are no numbers can be named."""
    known = set()
    for port in ports:
        for axis, size in enumerate(port.shape or ()):
            if not isinstance(size, int):
                known.update({size, f"{port.name}[{axis}]"} - {"?"})
    return known


def with_sizes(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    """Return a copy of `model` in which sizes that it leaves open are numbers.

    Raises
    ------
    ModelError
        It has no such size.
    """
    known = open_sizes(model_ports(model)[0])
    for name in sizes:
        if name not in known:
            raise input_errors.unknown_size(name, sorted(known))
    copy = type(model)()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if f"{info.name}[{axis}]" in sizes:
                dim.dim_value = sizes[f"{info.name}[{axis}]"]
    for info in _declared(copy.graph):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return copy


def _declared(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _declared(inner)


_ORDERED = {Reduction.NONE.value, Reduction.MIN.value, Reduction.MAX.value}
_ROUNDINGS = 64  # how many units in the last place a sum may be off for its order of additions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedNode:
    """What a node gave in a runtime and what its specification gives for the same inputs.

    Attributes
    ----------
    ours : array or None
        None where the specification does not allow the call, as `refusal` says.
    theirs : array or None
        None where the runtime gave nothing.
    first : tuple of int or None
        The first element that differs; None where none does, or `ours` or `theirs` is no array of
        the same shape.
    """

    inputs: tuple[Array, ...]
    theirs: Array | None
    ours: Array | None = None
    refusal: NdgatherError | None = None
    first: tuple[int, ...] | None = None

    @property
    def same(self) -> bool:
        both = self.ours is not None and self.theirs is not None
        return both and self.first is None and _alike(self.ours, self.theirs)


def judged(op_node: OpNode, inputs: Sequence[Array], theirs: Array | None) -> JudgedNode:
    """Compute a node by the version of its operator, and compare."""
    given = tuple(np.asarray(each) for each in inputs)
    attributes = op_node.attributes()
    try:
        ours = op_node.operator()(*given, **attributes)
    except NdgatherError as refusal:
        return JudgedNode(inputs=given, theirs=theirs, refusal=refusal)
    first = None
    if theirs is not None and _alike(ours, theirs):
        rounds = attributes.get("reduction", "none") not in _ORDERED
        first = first_difference(ours, theirs, rounds=rounds)
    return JudgedNode(inputs=given, theirs=theirs, ours=ours, first=first)


def first_difference(
    ours: Array, theirs: Array, *, rounds: bool = False, rtol: float = 0.0, atol: float = 0.0
) -> tuple[int, ...] | None:
    """Return the first place at which two arrays of one shape differ, or None.

    NaN equals NaN, and 0.0 differs from -0.0. With `rounds`, sums of floats may differ by what
    another order of additions makes of them; `rtol` and `atol` are those of `numpy.isclose`.
    """
    if (rounds or rtol or atol) and np.issubdtype(ours.dtype, np.inexact):
        if rounds:
            unit = _ROUNDINGS * float(np.finfo(ours.dtype).eps)
            finite = np.abs(ours[np.isfinite(ours)])
            rtol, atol = unit, unit * float(finite.max(initial=0))
        differs = ~np.isclose(ours, theirs, rtol, atol, equal_nan=True)
    elif ours.dtype.kind in "OUST":
        differs = np.asarray(ours.astype(object) != theirs.astype(object))
    elif ours.tobytes() == theirs.tobytes():
        return None
    else:
        bits = [np.ascontiguousarray(each)[..., None].view(np.uint8) for each in (ours, theirs)]
        differs = np.asarray((bits[0] != bits[1]).any(axis=-1))
        with np.errstate(invalid="ignore"):
            differs &= ~np.asarray((ours != ours) & (theirs != theirs), bool)  # noqa: PLR0124 - NaN
    if not differs.any():
        return None
    return tuple(map(int, np.unravel_index(int(differs.argmax()), differs.shape)))


def _alike(ours: Array | None, theirs: Array | None) -> bool:
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return False
    return ours.dtype == theirs.dtype or {ours.dtype.kind, theirs.dtype.kind} <= set("OUST")
