"""What a runtime is asked: one call of one operator, and its work in terms of no specification."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import ROWS, microsoft, onnx, openvino
from ndgather.published.schema import Kind, OperatorVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Array = NDArray[Any]


class CannotExpressError(Exception):
    """A runtime has no call that asks for this; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorName:
    """Which operator a call is of; the functions of this package have no version."""

    name: str
    domain: str
    version: int | None

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.domain}.{self.name}"
        return f"{self.domain} {self.name}-{self.version}"


class Tensor(Protocol):
    """An input: the name of its element type, and how to get it as a new array."""

    @property
    def dtype(self) -> str: ...

    def array(self) -> Array: ...


class OperatorCall(Protocol):
    """One call of one operator."""

    @property
    def operator(self) -> OperatorName: ...

    @property
    def inputs(self) -> Mapping[str, Tensor]: ...

    @property
    def attributes(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The work of a call, whoever specified it.

    Attributes
    ----------
    axis, batch_dims : int
        As the call gives them; 0 where it does not.
    reduction : str
        The name that this package has for it.
    mode : str
        What is to be done with an index out of bounds.
    """

    kind: Kind
    data: Array
    indices: Array
    updates: Array | None
    axis: int
    batch_dims: int
    reduction: str
    mode: str
    other: frozenset[str]


_KNOWN = frozenset({"axis", "batch_dims", "reduction", "mode"})


def row_of(call: OperatorCall) -> OperatorVersion:
    """Return the specification of the operator of a call."""
    wanted = (call.operator.name, call.operator.domain, call.operator.version)
    return next(row for row in ROWS if (row.name, row.domain, row.since) == wanted)


def arrays_of(call: OperatorCall) -> dict[str, Array]:
    """Return the inputs of a call.

    Raises
    ------
    CannotExpressError
        The package that brings an element type to NumPy is not installed.
    """
    try:
        return {name: tensor.array() for name, tensor in call.inputs.items()}
    except ModuleNotFoundError as missing:
        raise CannotExpressError(f"needs {missing.name}") from missing


def asked_of(call: OperatorCall) -> Asked:
    """Return what a call asks for, in terms that no specification owns."""
    arrays, attributes = arrays_of(call), call.attributes
    if call.operator.version is None:
        kind, word = Kind(call.operator.name), attributes.get("reduction", "none")
    else:
        row = row_of(call)
        kind = row.kind
        given = attributes.get("reduction", "none")
        attribute = row.attribute("reduction")
        words = {} if attribute is None else {c.word: c.reduction for c in attribute.choices}
        word = words[given].value if given in words else given
    axis = arrays.get("axis", attributes.get("axis", 0))
    if np.size(axis) != 1:
        raise CannotExpressError("takes one axis")
    return Asked(
        kind=kind,
        data=arrays["data"],
        indices=arrays["indices"],
        updates=arrays.get("updates"),
        axis=int(np.reshape(axis, ())),
        batch_dims=int(attributes.get("batch_dims", 0)),
        reduction=word,
        mode=attributes.get("mode", "raise"),
        other=frozenset(attributes) - _KNOWN,
    )


OWN_FUNCTIONS = "ndgather"
"""The domain of the functions of this package, which have no version."""

EVERY_DOMAIN = (onnx.DOMAIN, microsoft.DOMAIN, openvino.DOMAIN, OWN_FUNCTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One runtime.

    Attributes
    ----------
    module : str
        What has to be installed.
    adapter : str
        The module that makes its calls.
    domains : tuple of str
        The domains of the operators that it implements.
    runs_models : bool
        Whether its module runs whole ONNX models too: see `whole_model`.
    maps_tensors : bool
        Whether it maps the tensors that a model has in files, and so takes less memory for these.
    idiom : bool
        Whether it is asked for the same work by functions of its own: it implements no version
        of a published operator, so the rules of a version do not apply to it.
    """

    name: str
    module: str
    adapter: str
    domains: tuple[str, ...]
    runs_models: bool = False
    maps_tensors: bool = False
    idiom: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        """Import and return the adapter."""
        return import_module(self.adapter)


STRING = "string"


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the NumPy type of a name; strings are objects."""
    if name == STRING:
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        dtype: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return dtype


def in_native_order(array: Array) -> Array:
    """Return `array` in C order and in the byte order of this machine."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """An ONNX model: the path of its file or its bytes, and the folder of its other files."""

    content: str | bytes
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a runtime loads a model.

    Attributes
    ----------
    threads : int or None
        How many threads one operator may use; None leaves it to the runtime.
    providers : tuple of str
        Execution providers of onnxruntime, or the device of OpenVINO; empty for the CPU.
    libraries : tuple of str
        Paths of libraries of custom operators.
    profile : bool
        Whether the time of each node is wanted, as the session's `profile` gives it where it has
        that.
    """

    threads: int | None = None
    providers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    profile: bool = False


class Session(Protocol):
    """A model that is loaded."""

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        """Return the values of `names`, which the model gives as outputs, in their order."""
        ...


@cache
def _onnx() -> Any:
    return import_module("onnx")


def model_with_data(source: ModelSource) -> Any:
    """Return a model with every tensor in it."""
    if isinstance(source.content, str):
        return _onnx().load(source.content)
    model = _onnx().load_from_string(source.content)
    if source.folder is not None:
        helper = import_module("onnx.external_data_helper")
        helper.load_external_data_for_model(model, source.folder)
    return model


def check(asked: Asked) -> None:
    """Raise `CannotExpressError` where no key asks for this."""
    if asked.mode == "fill":
        raise CannotExpressError("has no value for an index out of bounds")
    if asked.other:
        raise CannotExpressError(f"has no {', '.join(sorted(asked.other))}")
    if asked.kind is Kind.GATHER_ND and not asked.indices.ndim:
        raise CannotExpressError("a number is not a tuple of indices")
    if asked.kind is Kind.GATHER_ND and not asked.indices.shape[-1]:
        raise CannotExpressError("a key of no indices has no positions")
    if asked.batch_dims < 0 or asked.batch_dims > min(asked.data.ndim, asked.indices.ndim):
        raise CannotExpressError("a key has no such batch axes")


def tuple_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather or scatter by index tuples."""
    grid = _grid(asked.data.shape[: asked.batch_dims], asked.indices.ndim - 1)
    depth = asked.indices.shape[-1]
    return (*grid, *(asked.indices[..., column] for column in range(depth)))


def element_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather or scatter of single elements along an axis."""
    grid = _grid(asked.indices.shape, asked.indices.ndim)
    axis = range(asked.indices.ndim)[asked.axis]
    return (*grid[:axis], asked.indices, *grid[axis + 1 :])


def batch_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather along the first axis after the batch axes."""
    return (*_grid(asked.data.shape[: asked.batch_dims], asked.indices.ndim), asked.indices)


def _grid(sides: tuple[int, ...], rank: int) -> list[Array]:
    return [
        np.arange(side).reshape((1,) * axis + (side,) + (1,) * (rank - axis - 1))
        for axis, side in enumerate(sides)
    ]


_LEAST_OPSET = 7  # older ones are not run by runtimes any more
_NEWEST_OPSET = 18
_IR_VERSION = 10


def model_of(call: OperatorCall) -> tuple[Any, dict[str, Array]]:
    """Return the model of a call, and its inputs."""
    arrays = arrays_of(call)
    domain = call.operator.domain
    helper = _onnx().helper
    values = [
        helper.make_tensor_value_info(name, element_type(call, name), array.shape)
        for name, array in arrays.items()
    ]
    node = helper.make_node(
        call.operator.name,
        list(arrays),
        ["output"],
        domain="" if domain == onnx.DOMAIN else domain,
        **call.attributes,
    )
    output = helper.make_tensor_value_info("output", element_type(call, "data"), None)
    imports = [helper.make_opsetid("", _opset(call))]
    if domain == microsoft.DOMAIN:
        imports.append(helper.make_opsetid(domain, 1))
    graph = helper.make_graph([node], "case", values, [output])
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION), arrays


def element_type(call: OperatorCall, name: str) -> int:
    """Return the number that ONNX has for the type of an input."""
    dtype = call.inputs[name].dtype
    if dtype == STRING:
        return int(_onnx().TensorProto.STRING)
    array = in_native_order(arrays_of(call)[name])
    try:
        return int(_onnx().helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError) as error:
        raise CannotExpressError(f"ONNX has no {dtype}") from error


def _opset(call: OperatorCall) -> int:
    """Return the newest opset in which the version of a call is in force."""
    asked = call.operator
    if asked.domain != onnx.DOMAIN or asked.version is None:
        return _NEWEST_OPSET
    later = [
        row.since
        for row in ROWS
        if (row.name, row.domain) == (asked.name, asked.domain) and row.since > asked.version
    ]
    newest = min(later) - 1 if later else max(asked.version, _LEAST_OPSET)
    return max(newest, _LEAST_OPSET)
