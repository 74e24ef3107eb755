"""ONNX models in a runtime, with the gather and scatter nodes held to their specification."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    shape_inference,
)

from ndgather.errors import NdgatherError, input_errors, run_errors, runtime_errors
from ndgather.errors.runtime_errors import NotLoadedError
from ndgather.models.arguments import file_path, instance, named_arrays, names, whole_number
from ndgather.models.graph import NodeTime, Output, Run, fit_inputs
from ndgather.models.onnx.files import IN_MEMORY, opened, opened_in_place
from ndgather.models.onnx.inference import infer_to_fixpoint, without_functions
from ndgather.models.onnx.model import (
    JudgedNode,
    Model,
    given_sizes,
    judged,
    model_ports,
    open_sizes,
    refuse_unbounded,
)
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    check_tensors,
    declaration,
    external_tensors,
    is_ours,
    nodes,
    nodes_within,
    op_nodes,
    subgraphs,
)
from ndgather.published.schema import Kind, Role, TensorType
from ndgather.runtimes.runtime import MODEL_NAMES, LoadOptions, ModelSource, model_runtime
from ndgather.settings import LOGGER, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ndgather.models.graph import Port
    from ndgather.models.onnx.files import Source
    from ndgather.runtimes.runtime import Runtime, Session


Array = NDArray[Any]

_IF = "If"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedNode:
    """A gather or scatter node, and the names under which its values are given.

    `in_branch` are those that are there only where its branch was taken.
    """

    op_node: OpNode
    reads: tuple[str, ...]
    gives: str
    in_branch: frozenset[str]

    def inputs(self, values: Mapping[str, Array]) -> list[Array] | None:
        """Return what the node read in a run, or None where it was not run or cannot be told."""
        if self.gives in self.in_branch and set(values[self.gives].shape) == {0}:
            return None
        found = []
        for name, own in zip(self.reads, self.op_node.node.input, strict=True):
            value = values.get(name)
            value = self.op_node.scope.constant(own) if value is None else value
            if value is None:
                return None
            found.append(value)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedModel:
    """A model with more outputs.

    Attributes
    ----------
    proto : ModelProto
        With the outputs that were added.
    names : tuple of str
        Those outputs.
    nodes : tuple of ExposedNode
        In the order of the model.
    left : tuple of (str, str)
        The nodes that cannot be looked into, and why.
    """

    proto: ModelProto
    names: tuple[str, ...]
    nodes: tuple[ExposedNode, ...]
    left: tuple[tuple[str, str], ...]
    folder: str | None
    only_outputs: bool = False

    def source(self, path: str | None = None, *, whole: bool = False) -> ModelSource:
        """Return what a runtime loads; `path` is the file of the model as it was before.

        Two protobuf messages, one after the other, are one message with the fields of both: where
        only outputs were added, they are appended to the bytes of the file, unless `proto` is
        `whole`, lacking none of the values in it.
        """
        folder = self.folder if any(external_tensors(self.proto)) else None
        if path is not None and not self.names:
            return ModelSource(content=path, folder=folder)
        if path is not None and self.only_outputs and not whole:
            outputs = [ValueInfoProto(name=name) for name in self.names]
            more = ModelProto(graph=GraphProto(output=outputs)).SerializeToString()
            return ModelSource(content=b"".join((Path(path).read_bytes(), more)), folder=folder)
        return ModelSource(content=self.proto.SerializeToString(), folder=folder)


def exposed(model: ModelProto, folder: str | None) -> ExposedModel:
    """Have `model` give what its gather and scatter nodes read and give.

    It is changed; where functions have such nodes, it is a copy that is.

    Raises
    ------
    ModelError
        Its functions call themselves or come to too many nodes, which no runtime is given, or it
        does not import the domain of a gather or scatter node.
    """
    refuse_unbounded(model)
    inner = (node for function in model.functions for each in function.node
             for node in nodes_within(each))  # fmt: skip
    inlined = any(map(is_ours, inner))
    if inlined:
        model = without_functions(model)
    found = list(op_nodes(model, folder))
    for op_node in found:
        op_node.refuse_missing_import()
    if any(each.scope.around for each in found):  # branches have to declare what they give
        model = shape_inference.infer_shapes(model)
        found = list(op_nodes(model, folder))
    outputs = _Outputs(model.graph)
    nodes, left = [], []
    for op_node in found:
        why = _cannot_be_told(op_node)
        if why is None:
            try:
                nodes.append(outputs.exposed(op_node))
            except _NoTypeError as error:
                why = str(error)
        if why is not None:
            left.append((op_node.where, why))
    return ExposedModel(
        proto=model,
        names=tuple(outputs.added),
        nodes=tuple(nodes),
        left=tuple(left),
        folder=folder,
        only_outputs=not inlined and not any(each.op_node.scope.around for each in nodes),
    )


def _cannot_be_told(op_node: OpNode) -> str | None:
    """Return why the values of a node cannot be given, or None."""
    if not isinstance(op_node.scope.outermost.body, GraphProto):  # the inliner of onnx left it
        return "it stands in a function that imports another opset"
    loops = [each.op_type for each in op_node.scope.around if each.op_type != _IF]
    if loops:
        return f"it stands in the body of a {loops[-1]}, which gives a value for each turn"
    if not any(op_node.node.output):
        return "it gives nothing"
    return None


def _empty(name: str, element_type: int, rank: int) -> list[NodeProto]:
    """Return nodes that make an empty tensor; of an empty constant OpenVINO makes another one."""
    parts, shape = f"{name}:flat", f"{name}:shape"
    flat = TensorProto(data_type=element_type, dims=[0])
    sizes = TensorProto(data_type=TensorProto.INT64, dims=[rank], int64_data=[0] * rank)
    made = NodeProto(op_type="Expand", input=[parts, shape], output=[name])
    return [_constant(parts, flat), _constant(shape, sizes), made]


def _constant(name: str, tensor: TensorProto) -> NodeProto:
    node = NodeProto(op_type="Constant", output=[name])
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    return node


class _NoTypeError(Exception):
    """A branch cannot give a value of a type that is not known."""


class _Outputs:
    """The outputs that are added to a graph and to the branches in it."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._given = {each.name for each in graph.output}
        self._lifted: dict[tuple[int, str], str] = {}
        self.added: list[str] = []

    def exposed(self, op_node: OpNode) -> ExposedNode:
        names, in_branch = [], set()
        for own in (*op_node.node.input, op_node.node.output[0]):
            name, lifted = self._name_of(op_node.scope, own)
            names.append(name)
            if lifted:
                in_branch.add(name)
        return ExposedNode(
            op_node=op_node,
            reads=tuple(names[:-1]),
            gives=names[-1],
            in_branch=frozenset(in_branch),
        )

    def _name_of(self, scope: Scope, name: str) -> tuple[str, bool]:
        """Return under which name the model gives a value, and whether a branch makes it."""
        maker = scope.maker_of(name)
        if maker is None or scope.holds(name):
            return name, False  # an input of the model, or a value that it holds
        lifted, known = maker.outer is not None, maker.type_of(name)
        while maker.outer is not None:
            name = self._from_branch(maker, name, known)
            maker = maker.outer
        if name not in self._given:
            self._given.add(name)
            self.added.append(name)
            self._graph.output.add(name=name)
        return name, lifted

    def _from_branch(self, scope: Scope, name: str, known: TensorType) -> str:
        """Have a branch of an If give the value `name`, and return the name around the If."""
        key = (id(scope), name)
        if key in self._lifted:
            return self._lifted[key]
        node, body = scope.around[-1], scope.body
        if known.dtype is None:
            raise _NoTypeError(f"the type of {name!r}, a value of its branch, is not known")
        # Some runtimes take no If whose values have an unknown rank.
        rank = len(known.shape) if isinstance(known.shape, tuple) else 0
        shape = (None,) * rank if rank else None
        declared = declaration(TensorType(dtype=known.dtype, shape=shape))
        outer = self._lifted[key] = f"{name}:{len(self._lifted)}:exposed"
        node.output.append(outer)
        inner = f"{outer}:inside"
        body.node.add(op_type="Identity", input=[name], output=[inner])
        body.output.add(name=inner).type.CopyFrom(declared)
        for attribute in node.attribute:
            other = attribute.g
            if attribute.type == AttributeProto.GRAPH and other != body:
                other.node.extend(
                    _empty(f"{outer}:other", declared.tensor_type.elem_type, max(rank, 1))
                )
                other.output.add(name=f"{outer}:other").type.CopyFrom(declared)
        return outer


def up_to(model: ExposedModel, wanted: Iterable[str]) -> ExposedModel:
    """Return `model` with `wanted` as its outputs, as far as nodes of its graph make them."""
    needed, kept = set(wanted), []
    made = {name for node in model.proto.graph.node for name in node.output if name}
    names = tuple(dict.fromkeys(name for name in needed if name in made))
    for node in reversed(model.proto.graph.node):
        if needed.isdisjoint(filter(None, node.output)):
            continue
        kept.append(node)
        for each in nodes_within(node):
            needed.update(each.input)
        for graph in (each.g for each in node.attribute if each.HasField("g")):
            needed.update(output.name for output in graph.output)
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(kept))
    del proto.graph.output[:]
    for name in names:
        proto.graph.output.add(name=name)
    unused = [each for each in proto.graph.initializer if each.name not in needed]
    for tensor in unused:
        proto.graph.initializer.remove(tensor)
    return replace(model, proto=proto, names=names)


def without_unused_values(model: ModelProto) -> ModelProto:
    """Return `model` without the values of the tensors that none of our nodes reads.

    What is left says as much about its gather and scatter nodes, in a fraction of the memory. A
    model whose graphs or functions have to be changed is returned as it is.
    """
    bodies = [node for node in model.graph.node if any(subgraphs(node))]
    if bodies or model.functions:
        return model
    read = {name for node in model.graph.node if is_ours(node) for name in node.input}
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    graph = light.graph
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if tensor.name in read:
            graph.initializer.append(tensor)
        else:
            graph.initializer.add(
                name=tensor.name, dims=tensor.dims, data_type=tensor.data_type,
                data_location=tensor.data_location, external_data=tensor.external_data,
            )  # fmt: skip
    return light


REFERENCE = "reference"
DEFAULT = "onnxruntime"

_NAMED = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


def default_runtime() -> str:
    """Return the runtime that models run in where none is named."""
    return DEFAULT if find_spec(DEFAULT) is not None else REFERENCE


class RuntimeModel:
    """An ONNX model in a runtime, which can be run many times.

    Its gather and scatter nodes give what they read and gave; each is computed again here.
    """

    def __init__(
        self,
        model: Source,
        runtime: str,
        options: LoadOptions,
        *,
        accept: bool = False,
        in_place: bool = False,
    ) -> None:
        start = time.perf_counter()
        self.runtime, self.accept, self._options = runtime, accept, options
        row = load_runtime(runtime)
        self._path = os.fspath(model) if isinstance(model, str | os.PathLike) else IN_MEMORY
        self._in_file = self._path is not IN_MEMORY
        in_place = in_place and self._in_file and row.maps_tensors
        if in_place:
            proto, folder = opened_in_place(file_path("run", "model", model), "run")
        else:
            proto, folder = opened(model, "run")
        if proto is model:
            proto = type(proto)()
            proto.CopyFrom(model)
        if folder is not None:
            check_tensors(proto, folder)
        self._adapter = row.load()
        self.inputs, self.outputs = model_ports(proto)
        self._nodes = sum(1 for _ in nodes(proto))
        if self._in_file and not in_place:
            proto = without_unused_values(proto)
        self._exposed = exposed(proto, folder)
        del proto  # the file is read again, by the runtime
        source = self._exposed.source(self._path if self._in_file else None, whole=in_place)
        try:
            self._session: Session = self._adapter.session(source, options)
        except MemoryError:
            raise
        except Exception as error:  # whatever the runtime finds that it cannot load
            raise runtime_errors.not_loaded(self._path, runtime, error) from error
        version = getattr(self._adapter, "version", str)()
        passed = time.perf_counter() - start
        LOGGER.info("%s: loaded in %s %s, %.3f s", self._path, runtime, version, passed)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Run:
        """Run the model; `progress` is called before and after, as all nodes run at once.

        Raises
        ------
        ModelError
            An input is missing or unknown, the runtime refused a node, or a gather or scatter node
            gave another value than its specification; the text names the node.
        ShapeError, DTypeError, IndexOutOfBoundsError
            An input, or what a gather or scatter node was given, does not fit.
        """
        start = time.perf_counter()
        fitted = fit_inputs(self.inputs, named_arrays("run", inputs))
        names = [port.name for port in self.outputs]
        wanted = list(dict.fromkeys([*names, *self._exposed.names]))
        if progress is not None:
            progress(0, self._nodes)
        try:
            found = self._session.run(wanted, fitted)
        except MemoryError:
            raise
        except Exception as error:
            raise self._refused(error, fitted) from error
        values = {**fitted, **dict(zip(wanted, found, strict=True))}
        differences, compared = [], 0
        for node in self._exposed.nodes:
            given = node.inputs(values)
            if given is None:
                continue
            compared += 1
            found_here = judged(node.op_node, given, np.asarray(values[node.gives]))
            if not found_here.same:
                difference = self._difference(node, found_here)
                if not self.accept:
                    raise difference
                differences.append(str(difference))
                LOGGER.warning("%s: accepted: %s", self._path, difference)
        if progress is not None:
            progress(self._nodes, self._nodes)
        outputs = [(name, _output_tensor(name, values[name])) for name in names]
        seconds = time.perf_counter() - start
        LOGGER.info(
            "%s: %s ran in %s, %s compared, %.3f s",
            self._path,
            counted(self._nodes, "node"),
            self.runtime,
            counted(compared, "node"),
            seconds,
        )
        return Run(
            outputs=tuple(Output(name=name, array=value, seconds=None) for name, value in outputs),
            seconds=seconds,
            own_nodes=compared,
            other_nodes=self._nodes - compared,
            runtime=self.runtime,
            differences=tuple(differences),
            left=self._exposed.left,
            nodes=self._times(),
        )

    def _times(self) -> tuple[NodeTime, ...]:
        if not self._options.profile or not hasattr(self._session, "profile"):
            return ()
        return tuple(
            NodeTime(name=name, operator=operator, seconds=seconds, bytes=size)
            for name, operator, seconds, size in self._session.profile()
        )

    def _difference(self, node: ExposedNode, found: JudgedNode) -> Exception:
        if found.refusal is not None:
            return node.op_node.named(found.refusal)
        operator, theirs, ours = str(node.op_node.operator().row), found.theirs, found.ours
        assert theirs is not None
        assert ours is not None
        if found.first is None:
            forms = [runtime_errors.form(each.dtype, each.shape) for each in (theirs, ours)]
            return node.op_node.named(
                runtime_errors.other_form(self.runtime, forms[0], operator, forms[1])
            )
        at = found.first
        return node.op_node.named(
            runtime_errors.other_value(self.runtime, at, theirs[at], operator, ours[at])
        )

    def _refused(self, error: Exception, fitted: Mapping[str, Array]) -> Exception:
        """Return what the specification says of the node that the runtime refused."""
        named = _NAMED.findall(str(error))
        alike = [
            node
            for node in self._exposed.nodes
            if named and _name_of(node.op_node.node) == named[-1] and not node.in_branch
        ]
        for node in alike:
            refusal = self._refusal_of(node, fitted)
            if refusal is not None:
                return node.op_node.named(refusal)
        of_that_name = [each for _, each in nodes(self._exposed.proto) if named
                        and _name_of(each) == named[-1]]  # fmt: skip
        if alike and len(of_that_name) == 1:
            operator = str(alike[0].op_node.operator().row)
            refused = runtime_errors.refuses_allowed(self.runtime, operator, error)
            return alike[0].op_node.named(refused)
        return runtime_errors.not_run(self._path, self.runtime, error)

    def _refusal_of(self, node: ExposedNode, fitted: Mapping[str, Array]) -> NdgatherError | None:
        """Return how the specification refuses a node, given what it reads in the runtime."""
        whole = self._exposed
        if self._in_file:
            whole = exposed(*opened(self._path, "run"))
        before = up_to(whole, [name for name in node.reads if name])
        known = dict(fitted)
        if before.names:  # what it reads may all be given
            try:
                session = self._adapter.session(before.source(), self._options)
                known.update(zip(before.names, session.run(before.names, fitted), strict=True))
            except MemoryError:
                raise
            except Exception:
                return None
        given = node.inputs(known)
        return None if given is None else judged(node.op_node, given, None).refusal


def _name_of(node: NodeProto) -> tuple[str, str]:
    return node.op_type, node.name


def load_runtime(name: str) -> Runtime:
    """Return the runtime of a name, which has to be installed."""
    instance("load", "runtime", name, str, "the name of a runtime")
    try:
        runtime = model_runtime(name)
    except LookupError as error:
        raise runtime_errors.unknown(name, list(MODEL_NAMES)) from error
    if not runtime.installed:
        raise runtime_errors.not_installed(name, runtime.module)
    return runtime


def _output_tensor(name: str, value: object) -> Array:
    """Return an output as an array; maps of one set of keys are the rows of a matrix."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        keys = list(value[0])
        if all(list(each) == keys for each in value):
            return np.array([[each[key] for key in keys] for each in value], np.float32)
    if not isinstance(value, np.ndarray | np.generic):
        raise run_errors.not_a_tensor("output", name, type(value).__name__)
    return np.asarray(value)


ForRuntimes: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
"""For every runtime, or for those that are named."""


def options_by_runtime(
    caller: str, runtimes: Sequence[str], threads: object, providers: object, libraries: object
) -> dict[str, LoadOptions]:
    """Return the options of each runtime.

    Raises
    ------
    DTypeError, ModelError
        An argument is of another type, names another runtime, or one that takes no such things.
    """
    given = None if threads is None else whole_number(caller, "threads", threads, 1)
    of_each = _by_runtime(caller, runtimes, "providers", providers)
    loaded = _by_runtime(caller, runtimes, "libraries", libraries)
    for found in (of_each, loaded):
        if found.get(REFERENCE):
            raise runtime_errors.nothing_to_load(REFERENCE, found[REFERENCE])
    return {
        name: LoadOptions(
            threads=given, providers=of_each.get(name, ()), libraries=loaded.get(name, ())
        )
        for name in runtimes
    }


def _by_runtime(
    caller: str, runtimes: Sequence[str], argument: str, value: object
) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        for_all = names(caller, argument, value)
        able = [name for name in runtimes if name != REFERENCE] or runtimes
        return dict.fromkeys(able, for_all)
    for name in value:
        if name not in runtimes:
            raise runtime_errors.not_compared(caller, argument, name, runtimes)
    return {name: names(caller, f"{argument}[{name!r}]", each) for name, each in value.items()}


def load(
    model: Source,
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    profile: bool = False,
    in_place: bool = False,
) -> Model | RuntimeModel:
    """Load a model to be run many times; the arguments are those of `run`.

    With `profile`, `Run.nodes` of the first run has the time of each node of onnxruntime. With
    `in_place`, onnxruntime maps the large tensors of a model file where they are, which takes less
    than half of the memory, and time; nobody may then write into the file while the model is used.

    Returns
    -------
    Model or RuntimeModel
        What it declares as its `inputs` and `outputs`, and its method `run`.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        As in `run`.
    """
    if runtime is not None:
        instance("load", "runtime", runtime, str, "the name of a runtime")
    if threads is not None:
        threads = whole_number("load", "threads", threads, 1)
    providers = names("load", "providers", providers)
    libraries = names("load", "libraries", libraries)
    why = ""
    options = LoadOptions(
        threads=threads, providers=providers, libraries=libraries, profile=profile
    )
    if (runtime or default_runtime()) != REFERENCE:
        try:
            return RuntimeModel(
                model,
                runtime or default_runtime(),
                options,
                accept=accept_runtime,
                in_place=in_place,
            )
        except NotLoadedError as error:
            if runtime is not None or providers or libraries:
                raise
            why = str(error)
            LOGGER.warning("%s; it runs in %s", why, REFERENCE)
    elif providers or libraries:
        raise runtime_errors.nothing_to_load(REFERENCE, [*providers, *libraries])
    ready = Model(model) if isinstance(model, onnx.ModelProto) else Model._load(model, "run")
    ready.not_loaded = why
    return ready


def run(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> dict[str, Array]:
    """Run an ONNX model and return its outputs by name.

    In the runtime ``"reference"``, nodes of gather and scatter operators run in ndgather, all
    others in the reference evaluator of the `onnx` package. In any other runtime all nodes run
    there; each gather and scatter node is then computed again by ndgather from what it read, and
    the two values are compared: copies bit by bit, sums of floats up to the order of additions.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.
    inputs : mapping of str to array_like
        The inputs of the model by their names, of the dtypes and shapes that it declares. Inputs
        with a default in the model may be left out.
    runtime : str or None, default "reference"
        ``"reference"``, ``"onnxruntime"``, ``"openvino"``, or a module of your own; None stands for
        onnxruntime where it is installed and loads the model, and for the reference evaluator
        otherwise (but not where providers or libraries are named), as on the command line. It
        is not the default here, since a runtime works in the process of the caller, which it may
        end for a hostile model; a command has a process of its own for it.
    accept_runtime : bool, default False
        Go on where a node of the runtime gives another value than its specification.
    threads : int, optional
        How many threads an operator of the runtime may use.
    providers : sequence of str
        Execution providers of onnxruntime, or the device of OpenVINO. Default: the CPU.
    libraries : sequence of str
        Paths of libraries of custom operators that the runtime is to load.

    Returns
    -------
    dict of str to array
        The outputs, in the order of the model. Of a runtime, a sequence of maps from classes to
        numbers, as classifiers give it, becomes a matrix with a column for each class.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        It is not a valid ONNX model, an input is missing or unknown, a node failed, or it gave
        another value in the runtime than its specification; the text names the node.
    ExtraMissingError
        The runtime is not installed.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input, or what a node was given, does not fit; the text names it.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> onnx.run(model, {"data": data, "rows": [[1], [-2]]})
    {'picked': array([[20., 21.],
           [10., 11.]], dtype=float32)}
    >>> onnx.run(model, {"data": data, "rows": [[2]]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: node GatherND of 'picked': ...
    """
    ready = load(
        model,
        runtime=runtime,
        accept_runtime=accept_runtime,
        threads=threads,
        providers=providers,
        libraries=libraries,
        in_place=True,
    )
    return {output.name: output.array for output in ready.run(inputs).outputs}


_KEEPS_VALUES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape"}
    | {"Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
_TUPLES = frozenset({Kind.GATHER_ND, Kind.SCATTER_ND})
_SIDE_OF_IMAGES, _SIDE = 64, 16
_IMAGES = 4  # axes: batch, channels, height, width
_COLOURS = 3
_MOST = 2**40  # elements


def random_inputs(
    model: Source, seed: int = 0, *, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Make up the inputs of a model.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file.
    seed : int, default 0
        The same seed gives the same arrays.
    sizes : mapping of str to int, optional
        Sizes that the model leaves open: by their names, or as ``"input[axis]"``. The others
        become 1 on the first axis, 64 on the last two of four axes, and else 16.

    Returns
    -------
    dict of str to array
        The inputs that have no default, by their names.

    Raises
    ------
    ModelError
        The model does not say how many axes an input has, or a size is not one of it.
    DTypeError
        An argument is of another type.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[3, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> made = onnx.random_inputs(model, sizes={"M": 50})
    >>> made["rows"].shape, int(made["rows"].max())
    ((50, 1), 2)
    """
    proto, folder = opened(model, "random_inputs")
    ports = [port for port in model_ports(proto)[0] if not port.optional]
    seed = whole_number("random_inputs", "seed", seed, 0)
    chosen = given_sizes("random_inputs", sizes)
    shapes = {port.name: _shape(port, chosen) for port in ports}
    known = open_sizes(ports)
    for name in sizes or {}:
        if name not in known:
            raise input_errors.unknown_size(name, sorted(known))
    for name, shape in shapes.items():
        if math.prod(max(size, 1) for size in shape) > _MOST:
            raise input_errors.too_large(name, shape)
    highest = highest_indices(proto, folder, shapes)
    rng = np.random.default_rng(seed)
    return {port.name: _drawn(port, shapes[port.name], highest, rng) for port in ports}


def _shape(port: Port, chosen: dict[str, int]) -> tuple[int, ...]:
    if port.shape is None:
        raise input_errors.no_rank(port.name)
    shape = []
    for axis, size in enumerate(port.shape):
        if isinstance(size, int):
            shape.append(size)
            continue
        place = f"{port.name}[{axis}]"
        name = place if size == "?" or place in chosen else size
        shape.append(chosen.setdefault(name, _side(axis, len(port.shape))))
    return tuple(shape)


def _side(axis: int, rank: int) -> int:
    if axis == 0:
        return 1
    if rank == _IMAGES:
        return _COLOURS if axis == 1 else _SIDE_OF_IMAGES
    return _SIDE


def _drawn(
    port: Port, shape: tuple[int, ...], highest: Mapping[str, int], rng: np.random.Generator
) -> Array:
    dtype = np.dtype(np.float32) if port.dtype is None else port.dtype
    if dtype.kind == "O":
        letters = np.array(list("abcdefgh"), object)
        return np.asarray(letters[rng.integers(0, len(letters), shape)], object).reshape(shape)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, highest.get(port.name, 1) + 1, shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    return np.asarray(rng.random(shape)).astype(dtype)


def highest_indices(
    proto: ModelProto, folder: str | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Return the highest valid value of each input that is used as indices."""
    try:
        typed = infer_to_fixpoint(_with_shapes(proto, shapes), folder).model
    except NdgatherError:  # of such a model nothing more is known
        typed = proto
    makers = {name: node for node in typed.graph.node for name in node.output if name}
    found: dict[str, int] = {}
    for op_node in op_nodes(typed, folder):
        if op_node.scope.outer is not None or len(op_node.node.input) < 2:
            continue
        waiting, seen = [op_node.node.input[1]], set()
        while waiting:
            name = waiting.pop()
            if name in shapes:
                found[name] = min(found.get(name, _bound(op_node)), _bound(op_node))
            maker = makers.get(name)
            if maker is not None and name not in seen and maker.op_type in _KEEPS_VALUES:
                seen.add(name)
                waiting.extend(maker.input if maker.op_type == "Concat" else maker.input[:1])
    return found


def _bound(op_node: OpNode) -> int:
    """Return the highest index that is valid on every axis that a node addresses, at least 0."""
    try:
        row, attributes = op_node.operator().row, op_node.attributes()
    except NdgatherError:
        return 0
    data, indices = (each.shape for each in op_node.types()[:2])
    if not isinstance(data, tuple) or not data:
        return 0
    first = int(attributes.get("batch_dims", 0)) if row.kind in _TUPLES else 0
    last = first + 1
    if row.kind in _TUPLES:
        depth = indices[-1] if isinstance(indices, tuple) and indices else None
        last = first + depth if isinstance(depth, int) else len(data)
    else:
        first = int(attributes.get("axis", 0)) % len(data)
        if any(each.role is Role.AXIS for each in row.inputs):
            first = 0
        last = first + 1
    return _least(data[first:last])


def _least(sizes: Iterable[object]) -> int:
    return min((size - 1 if isinstance(size, int) and size else 0 for size in sizes), default=0)


def _with_shapes(proto: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """Return a copy that declares the sizes that were chosen."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for info in copy.graph.input:
        for dim, size in zip(
            info.type.tensor_type.shape.dim, shapes.get(info.name, ()), strict=False
        ):
            dim.Clear()
            dim.dim_value = size
    return copy
