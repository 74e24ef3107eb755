"""The package in the form that `onnx` gives to backends: `onnx.backend.base.Backend`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend import base

from ndgather.errors import onnx_errors, run_errors
from ndgather.models.entry_checks import array, instance, sequence
from ndgather.models.onnx.domains import file_domain, row_domain
from ndgather.models.onnx.model_files import IN_MEMORY, loaded
from ndgather.models.onnx.onnx_evaluation import Model
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from ndgather.models.onnx.model_files import Source

Array = NDArray[Any]

_DEVICE = "CPU"
_CPU = re.compile("CPU(:[0-9]+)?")


class PreparedModel(base.BackendRep):
    """A model that is ready to be run many times."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Sequence[object], **_options: Any) -> tuple[Array, ...]:
        """Run the model on its inputs in their order, and return its outputs in theirs.

        Inputs with a value in the model may be left out at the end.
        """
        inputs = sequence("run", "inputs", inputs)
        ports = sorted(self.model.inputs, key=lambda port: port.optional)
        if len(inputs) > len(ports):
            raise run_errors.too_many_inputs(len(inputs), ports)
        given = {
            port.name: array(f"input {port.name!r}", value)
            for port, value in zip(ports, inputs, strict=False)
        }
        return tuple(output.array for output in self.model.run(given).outputs)


class Backend(base.Backend):
    """Runs models and nodes as `run` does, for tools that ask for this form."""

    @classmethod
    def prepare(cls, model: Source, device: str = _DEVICE, **_options: Any) -> PreparedModel:
        """Check a model, and return what runs it.

        Raises
        ------
        ModelError
            The model is not valid, or `device` is not the CPU.
        """
        _check_device(device)
        proto = loaded(model, "prepare")
        try:
            onnx.checker.check_model(proto)
        except (onnx.checker.ValidationError, ValueError) as error:  # ValueError: no UTF-8 text
            raise onnx_errors.invalid_model(IN_MEMORY, error) from error
        return PreparedModel(Model(proto))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[object],
        device: str = _DEVICE,
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        """Run one node, in the newest version of its domain or in `opset_version`."""
        _check_device(device)
        instance("run_node", "node", node, onnx.NodeProto, "a node")
        inputs = sequence("run_node", "inputs", inputs)
        newest = onnx.defs.onnx_opset_version()
        version = options.get("opset_version", newest)
        instance("run_node", "opset_version", version, int, "a version")
        versions = {DEFAULT_DOMAIN: newest, row_domain(node.domain): 1}
        if row_domain(node.domain) == DEFAULT_DOMAIN:
            versions = {DEFAULT_DOMAIN: version}
            try:
                super().run_node(node, inputs, device, outputs_info, **options)  # it checks it
            except Exception as error:  # it has no version of that number, or is not valid
                raise onnx_errors.invalid_node(node.op_type, error) from error
        names = [name for name in node.input if name]
        if len(names) != len(inputs):
            raise onnx_errors.node_inputs(len(inputs), names)
        named = {
            name: array(f"input {name!r}", value) for name, value in zip(names, inputs, strict=True)
        }
        graph = helper.make_graph(
            [node],
            "node",
            [_value_info(name, value) for name, value in named.items()],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        imports = [helper.make_opsetid(file_domain(key), value) for key, value in versions.items()]
        outputs = Model(helper.make_model(graph, opset_imports=imports)).run(named).outputs
        return tuple(output.array for output in outputs)

    @classmethod
    def supports_device(cls, device: object) -> bool:
        return isinstance(device, str) and _CPU.fullmatch(device) is not None


def _value_info(name: str, value: Array) -> onnx.ValueInfoProto:
    try:
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
    except (KeyError, ValueError, TypeError) as error:
        raise onnx_errors.no_onnx_type(name, value.dtype) from error
    return helper.make_tensor_value_info(name, element, value.shape)


def _check_device(device: str) -> None:
    if not Backend.supports_device(device):
        raise run_errors.unknown_device(device, _DEVICE)
