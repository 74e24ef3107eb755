"""The package in the form that `onnx` gives to backends: `onnx.backend.base.Backend`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend import base

from ndgather.errors import onnx_errors, run_errors
from ndgather.models.arguments import array, instance, sequence
from ndgather.models.onnx.files import IN_MEMORY, loaded
from ndgather.models.onnx.model import Model
from ndgather.models.onnx.nodes import file_domain, row_domain
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from ndgather.models.onnx.files import Source

Array = NDArray[Any]

_DEVICE = "CPU"
_CPU = re.compile("CPU(:[0-9]+)?")


class PreparedModel(base.BackendRep):
    """A model that is ready to be run many times."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Sequence[object], **_options: Any) -> tuple[Array, ...]:
        """Run the model.

        Parameters
        ----------
        inputs : sequence of array_like
            In the order of the model; those with a default in it come last, and may be left
            out.

        Returns
        -------
        tuple of array
            The outputs, in the order of the model.

        Raises
        ------
        NdgatherError
            As in `Model.run`.
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
    """Runs models and nodes for tools that use `onnx.backend.base.Backend`.

    Only the CPU is a device. Models and nodes run as in `run`.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> onnx.Backend.run_model(model, [np.ones((2, 2), np.float32), np.array([[1]])])
    (array([[1., 1.]], dtype=float32),)
    """

    @classmethod
    def prepare(cls, model: Source, device: str = _DEVICE, **_options: Any) -> PreparedModel:
        """Check a model, and return what runs it.

        Parameters
        ----------
        model : ModelProto, bytes, str or os.PathLike
            The model in memory, its bytes, or the path of its file.
        device : str, default "CPU"

        Returns
        -------
        PreparedModel
            Its method `run` takes the inputs as a list, and returns the outputs as a tuple.

        Raises
        ------
        FileError, ModelError
            The model cannot be read or is not valid, or `device` is not the CPU.
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
        """Run one node, in the newest version of its domain or in `opset_version`.

        Parameters
        ----------
        node : NodeProto
        inputs : sequence of array_like
            The inputs of the node, without those that it leaves out.
        device : str, default "CPU"
        outputs_info
            Ignored.
        **options
            `opset_version`, the version of ONNX that the node is of; others are ignored.

        Returns
        -------
        tuple of array
            The outputs of the node.

        Raises
        ------
        NdgatherError
            The node is not valid, or cannot run on these inputs.
        """
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
        """Return whether `device` is the CPU."""
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
