"""The package in the form that `onnx` gives to backends: `onnx.backend.base.Backend`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend import base

from ndgather.models import errors
from ndgather.models.onnx.domains import file_domain, row_domain
from ndgather.models.onnx.onnx_evaluation import Model
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[Any]

_DEVICE = "CPU"


class PreparedModel(base.BackendRep):
    """A model that is ready to be run many times."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Sequence[Array], **_options: Any) -> tuple[Array, ...]:
        """Run the model on its inputs in their order, and return its outputs in theirs.

        Inputs with a value in the model may be left out at the end.
        """
        ports = sorted(self.model.inputs, key=lambda port: port.optional)
        if len(inputs) > len(ports):
            raise errors.too_many_inputs(len(inputs), ports)
        given = {port.name: np.asarray(value) for port, value in zip(ports, inputs, strict=False)}
        return tuple(output.array for output in self.model.run(given).outputs)


class Backend(base.Backend):
    """Runs models and nodes as `run` does, for tools that ask for this form."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = _DEVICE, **_options: Any
    ) -> PreparedModel:
        """Check a model, and return what runs it.

        Raises
        ------
        ModelError
            The model is not valid, or `device` is not the CPU.
        """
        _check_device(device)
        try:
            onnx.checker.check_model(model)
        except (onnx.checker.ValidationError, ValueError) as error:  # ValueError: no UTF-8 text
            raise errors.invalid_model("model", error) from error
        return PreparedModel(Model(model))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Array],
        device: str = _DEVICE,
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        """Run one node, in the newest version of its domain or in `opset_version`."""
        _check_device(device)
        newest = onnx.defs.onnx_opset_version()
        versions = {DEFAULT_DOMAIN: newest, row_domain(node.domain): 1}
        if row_domain(node.domain) == DEFAULT_DOMAIN:
            versions = {DEFAULT_DOMAIN: options.get("opset_version", newest)}
            super().run_node(node, inputs, device, outputs_info, **options)  # it checks the node
        arrays = [np.asarray(value) for value in inputs]
        named = dict(zip((name for name in node.input if name), arrays, strict=True))
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in named.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        imports = [helper.make_opsetid(file_domain(key), value) for key, value in versions.items()]
        outputs = Model(helper.make_model(graph, opset_imports=imports)).run(named).outputs
        return tuple(output.array for output in outputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return bool(base.Device(device).type == base.DeviceType.CPU)


def _check_device(device: str) -> None:
    if not Backend.supports_device(device):
        raise errors.unknown_device(device, _DEVICE)
