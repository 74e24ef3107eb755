"""ONNX models in a runtime, with the gather and scatter nodes held to their specification."""

from __future__ import annotations

import os
import re
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import NdgatherError, run_errors, runtime_errors
from ndgather.log import LOGGER, counted
from ndgather.models.entry_checks import file_path, instance, named_arrays
from ndgather.models.graph.ports import NodeTime, Output, Run, fit_inputs
from ndgather.models.onnx.exposed_nodes import ExposedNode, exposed
from ndgather.models.onnx.external_tensors import check_tensors
from ndgather.models.onnx.judged_nodes import JudgedNode, judged
from ndgather.models.onnx.mapped_models import opened_in_place
from ndgather.models.onnx.model_files import IN_MEMORY, opened
from ndgather.models.onnx.onnx_model import model_ports
from ndgather.models.onnx.op_nodes import nodes
from ndgather.models.onnx.pruned_models import up_to, without_unused_values
from ndgather.runtimes.known_runtimes import MODEL_NAMES, model_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx import NodeProto

    from ndgather.models.onnx.model_files import Source
    from ndgather.runtimes.runtime import Runtime
    from ndgather.runtimes.whole_model import LoadOptions, Session

Array = NDArray[Any]

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
        outputs = [(name, _tensor(name, values[name])) for name in names]
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


def _tensor(name: str, value: object) -> Array:
    """Return an output as an array; maps of one set of keys are the rows of a matrix."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        keys = list(value[0])
        if all(list(each) == keys for each in value):
            return np.array([[each[key] for key in keys] for each in value], np.float32)
    if not isinstance(value, np.ndarray | np.generic):
        raise run_errors.not_a_tensor("output", name, type(value).__name__)
    return np.asarray(value)
