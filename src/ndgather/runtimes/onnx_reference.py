"""The reference evaluator of ONNX, without its differences from the specification.

These operators replace its own:

- BatchNormalization up to opset 13: onnx assumes training wherever `momentum` is present.
- GlobalMaxPool: onnx assumes four axes.
- Softmax, LogSoftmax and Hardmax up to opset 12: they flatten their input to a matrix; onnx works
  along one axis, as from opset 13.
- Attention: onnx caps the products that are the fourth output in mode 0.
- NonMaxSuppression: onnx raises for limits that are scalars, and without the first limit.
- Loop: onnx joins what the iterations return along the first axis instead of a new one, raises for
  a loop that does not run, and does not run one without a condition.
- LRN: onnx normalises as many channels as the batch has elements, and takes four axes only.
- OneHot: onnx raises for a depth of shape (1,).
- Scan: onnx raises for axes other than 0, for the other direction, and for no steps.
- Scatter of opsets 9 and 10, which onnx does not have.
- Functions with attributes, which onnx does not give to all operators, nor their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, inliner
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op
from onnx.reference.ops.op_batch_normalization import BatchNormalization_14
from onnx.reference.ops.op_loop import Loop as _LoopOfOnnx
from onnx.reference.ops.op_non_max_suppression import NonMaxSuppression as _BoxesOfOnnx
from onnx.reference.ops.op_one_hot import OneHot as _OneHotOfOnnx
from onnx.reference.ops.op_scan import Scan as _ScanOfOnnx

from ndgather.errors import ModelError
from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource, model_with_data

_TRAINING_BY_ATTRIBUTE = 14  # from this opset on `training_mode` decides
_TEST_BY_OUTPUTS = 7  # from this opset on the number of outputs decides
_WITHOUT_SPATIAL = 9  # from this opset on there is no `spatial`
_EPSILON = 1e-5


class _OfOnnx(OpRun):
    """An operator of ONNX itself."""

    op_domain = ""


class BatchNormalization(_OfOnnx, BatchNormalization_14):
    """``scale * (x - mean) / sqrt(var + epsilon) + bias`` for every channel.

    Up to opset 13 it raises in training mode, where mean and variance are those of `x`.
    """

    def _run(  # type: ignore[override]  # onnx leaves it untyped
        self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: Any
    ) -> tuple[Array, ...]:
        present = {attribute.name: attribute for attribute in self.onnx_node.attribute}
        opset = self.run_params["opsets"][self.domain]
        if opset >= _TRAINING_BY_ATTRIBUTE:
            outputs: tuple[Array, ...] = super()._run(x, scale, bias, mean, var, **attributes)  # type: ignore[no-untyped-call]
            return outputs
        if opset >= _TEST_BY_OUTPUTS:
            trains = sum(map(bool, self.onnx_node.output)) > 1
        else:
            trains = "is_test" not in present or present["is_test"].i == 0
        if trains:
            raise ModelError(
                f"BatchNormalization of opset {opset} is in training mode (allowed: mean and "
                "variance as given)"
            )
        epsilon = present["epsilon"].f if "epsilon" in present else _EPSILON
        by_channel = (-1, *(1,) * (x.ndim - 2))
        if opset < _WITHOUT_SPATIAL and "spatial" in present and present["spatial"].i == 0:
            by_channel = x.shape[1:]  # every element of a channel has its own statistics
        arrays = (array.reshape(by_channel) for array in (scale, bias, mean, var))
        scale, bias, mean, var = arrays
        y = scale * ((x - mean) / np.sqrt(var + var.dtype.type(epsilon))) + bias
        return (y.astype(x.dtype),)


class GlobalMaxPool(_OfOnnx):
    """The largest element of every channel, over all axes after the first two."""

    def _run(self, x: Array, **_defaults: object) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


_ALONG_ONE_AXIS = 13  # from this opset on Softmax and the like work along one axis


def _by_rows(name: str, of_rows: Callable[[Array], Array]) -> type[OpRun]:
    """Return an operator that applies a function to every row of a matrix."""

    def _run(self: OpRun, x: Array, **_attributes: object) -> tuple[Array]:
        values = {attribute.name: attribute.i for attribute in self.onnx_node.attribute}
        if not x.size:
            return (x,)
        if self.run_params["opsets"][self.domain] >= _ALONG_ONE_AXIS:
            axis = values.get("axis", -1)
            rows = of_rows(np.moveaxis(x, axis, -1))
            return (np.ascontiguousarray(np.moveaxis(rows, -1, axis)),)
        axis = values.get("axis", 1)
        before = int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis]))
        return (of_rows(x.reshape(before, -1)).reshape(x.shape),)

    return type(name, (_OfOnnx,), {"_run": _run})


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _log_softmax(x: Array) -> Array:
    less = x - x.max(axis=-1, keepdims=True)
    return np.asarray(less - np.log(np.exp(less).sum(axis=-1, keepdims=True)))


def _hardmax(x: Array) -> Array:
    y = np.zeros_like(x)
    np.put_along_axis(y, x.argmax(axis=-1, keepdims=True), 1, axis=-1)
    return y


_PRODUCTS = 3  # the output of Attention that `qk_matmul_output_mode` selects


class Attention(_OfOnnx):
    """``softmax(softcap(q k) + mask) v``, and, as the fourth output in mode 0, ``q k``."""

    def _run(self, *inputs: Array, **_attributes: object) -> tuple[Array, ...]:
        node = self.onnx_node
        outputs = self._by_onnx(node, inputs)
        present = {attribute.name: attribute for attribute in node.attribute}
        caps = "softcap" in present and present["softcap"].f > 0
        mode = present["qk_matmul_output_mode"].i if "qk_matmul_output_mode" in present else 0
        if not caps or mode or not any(node.output[_PRODUCTS:]):
            return outputs
        uncapped = deepcopy(node)
        uncapped.attribute.remove(present["softcap"])
        return (*outputs[:_PRODUCTS], self._by_onnx(uncapped, inputs)[_PRODUCTS])

    def _by_onnx(self, node: NodeProto, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        attention = load_op("", "Attention", self.run_params["opsets"][self.domain])
        outputs: tuple[Array, ...] = attention(node, self.run_params).run(*inputs)
        return outputs


class NonMaxSuppression(_OfOnnx, _BoxesOfOnnx):
    """``[batch, class, box]`` of every box kept; limits are scalars, or have one element."""

    def _run(
        self, boxes: Array, scores: Array, *limits: Array | None, **attributes: Any
    ) -> tuple[Array]:
        most, *others = (None if n is None else n.reshape(-1) for n in limits or (None,))
        if most is None or most[0] <= 0:
            return (np.empty((0, 3), np.int64),)
        (kept,) = super()._run(boxes, scores, most, *others, **attributes)  # type: ignore[no-untyped-call]
        return (kept.reshape(-1, 3),)


class Loop(_OfOnnx, _LoopOfOnnx):
    """What the iterations return is stacked along a new axis; an omitted condition is true."""

    body: Any
    _run_body: Any

    def _run(  # type: ignore[override]  # onnx leaves it untyped
        self,
        trips: Array | None,
        condition: Array | None,
        *state: Array,
        context: Mapping[str, Array] | None = None,
        body: object = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        del body  # it is an attribute
        count, goes_on, rows = 0, condition is None or bool(condition), []
        while goes_on and (trips is None or count < trips):
            values = np.array(count, np.int64), np.array(goes_on), *state
            inputs = {**(context or {}), **dict(zip(self.body.input_names, values, strict=True))}
            going, *results = self._run_body(inputs, **options)
            state, row = tuple(results[: len(state)]), results[len(state) :]
            rows.append(row)
            count, goes_on = count + 1, condition is None or bool(going)
        if rows:
            return (*state, *(np.stack(column) for column in zip(*rows, strict=True)))
        types = self.body.output_types[1 + len(state) :]
        return (*state, *(_no_row(declared.tensor_type) for declared in types))


def _no_row(declared: onnx.TypeProto.Tensor, axis: int = 0) -> Array:
    dims = (dim.dim_value for dim in declared.shape.dim)
    row = np.empty((0, *dims), helper.tensor_dtype_to_np_dtype(declared.elem_type))
    return np.moveaxis(row, 0, axis)


class Scan(_OfOnnx, _ScanOfOnnx):
    """The body runs for every element of an axis, and its results are stacked along an axis."""

    body: Any
    num_scan_inputs: int
    _run_body: Any

    def __init__(self, node: NodeProto, params: dict[str, Any]) -> None:
        OpRun.__init__(self, node, params)  # that of onnx raises for other axes
        self.input_names = self.body.input_names

    def _listed(self, name: str, count: int) -> list[int]:
        return list(getattr(self, name, None) or [0] * count)

    def _run(
        self, *inputs: Array, context: Mapping[str, Array] | None = None, **options: Any
    ) -> tuple[Array, ...]:
        count = self.num_scan_inputs
        state, scanned = inputs[:-count], inputs[-count:]
        axes = self._listed("scan_input_axes", count)
        backwards = self._listed("scan_input_directions", count)
        columns = [
            np.moveaxis(array, axis, 0)[:: -1 if back else 1]
            for array, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        rows, bindings = [], options.get("bindings")
        for step in range(min(map(len, columns))):
            values = (*state, *(np.asarray(column[step]) for column in columns))
            inner = {**(context or {}), **dict(zip(self.input_names, values, strict=True))}
            results = self._run_body(inner, bindings=bindings)
            state, row = tuple(results[: len(state)]), results[len(state) :]
            rows.append(row)
        types = self.body.output_types[len(state) :]
        axes = self._listed("scan_output_axes", len(types))
        backwards = self._listed("scan_output_directions", len(types))
        if not rows:
            ends = (_no_row(kind.tensor_type, n) for kind, n in zip(types, axes, strict=True))
            return (*state, *ends)
        results = [
            np.stack(column[:: -1 if back else 1], axis)
            for column, axis, back in zip(zip(*rows, strict=True), axes, backwards, strict=True)
        ]
        return (*state, *results)


class LRN(_OfOnnx):
    """``x / (bias + alpha / size * s) ** beta``; s sums the squares of the nearest channels."""

    def _run(
        self, x: Array, alpha: float, beta: float, bias: float, size: int, **_: object
    ) -> tuple[Array]:
        below, above = (size - 1) // 2, size // 2
        sums = [
            (x[:, max(channel - below, 0) : channel + above + 1] ** 2).sum(axis=1)
            for channel in range(x.shape[1])
        ]
        squares = np.stack(sums, axis=1) if sums else x
        return ((x / (bias + alpha / size * squares) ** beta).astype(x.dtype),)


class OneHot(_OfOnnx, _OneHotOfOnnx):
    """The depth is a scalar, or has one element."""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int = -1) -> tuple[Array]:
        whole = np.asarray(indices).astype(np.int64), np.asarray(depth).reshape(()).astype(np.int64)
        off, on = values
        (hot,) = super()._run(*whole, np.array([0, 1]), axis=axis)  # type: ignore[no-untyped-call]
        return (np.where(hot, on, off).astype(values.dtype),)


class Scatter(_OfOnnx):
    """ScatterElements of opsets 9 and 10."""

    def _run(
        self, data: Array, indices: Array, updates: Array, axis: int | None = None, **_: object
    ) -> tuple[Array]:
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[axis or 0] = indices
        result = data.copy()
        result[tuple(places)] = updates
        return (result,)


def with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without functions that have attributes; those left out have their defaults."""
    functions = {(item.domain, item.name, item.overload): item for item in model.functions}
    if not any(item.attribute or item.attribute_proto for item in model.functions):
        return model
    result = deepcopy(model)
    bodies: list[Any] = [result.graph, *result.functions]
    while bodies:
        for node in bodies.pop().node:
            given = {attribute.name for attribute in node.attribute}
            bodies += [item.g for item in node.attribute if item.HasField("g")]
            called = functions.get((node.domain, node.op_type, node.overload))
            defaults = () if called is None else called.attribute_proto
            node.attribute.extend(item for item in defaults if item.name not in given)
    return inliner.inline_local_functions(result)


CORRECTED: tuple[type[OpRun], ...] = (
    Attention,
    BatchNormalization,
    GlobalMaxPool,
    LRN,
    Loop,
    NonMaxSuppression,
    OneHot,
    Scan,
    Scatter,
    _by_rows("Hardmax", _hardmax),
    _by_rows("LogSoftmax", _log_softmax),
    _by_rows("Softmax", _softmax),
)


def version() -> str:
    return onnx.__version__


class _Session:
    """A model in the evaluator, which has no threads and no devices to select."""

    def __init__(self, source: ModelSource, _options: LoadOptions) -> None:
        self._evaluator = ReferenceEvaluator(
            with_defaults(model_with_data(source)), new_ops=list(CORRECTED)
        )

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        return list(self._evaluator.run(list(names), dict(inputs)))


session = _Session
