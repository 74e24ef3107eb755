"""Operators to call: one version of one published operator, and exactly what it allows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather import _core, calls
from ndgather.errors import operator_errors
from ndgather.published import arguments, execution
from ndgather.published.diff import Difference, differences
from ndgather.published.inference import infer
from ndgather.published.schema import OperatorVersion, Role
from ndgather.published.tensor_types import Inference, Shape, TensorType, dtype_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]


# The function, how many inputs it takes as arrays, the arguments after them, the shape it gives.
_Known: TypeAlias = tuple[Callable[..., Any], int, tuple[Any, ...], tuple[int, ...]]
_MOST_KNOWN = 512


class Operator:
    """One version of one operator, callable.

    A call takes what the text of this version allows and refuses everything else: other
    types, attributes, ranks and sizes, and index values that the text forbids.

    Attributes
    ----------
    row : OperatorVersion
        The specification of this version, as data.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather.published import operator
    >>> op = operator("GatherND", version=13)
    >>> op(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), batch_dims=1)
    array([2, 3])
    >>> op.infer_shape(("N", 3, 4), ("N", 2, 1), batch_dims=1)
    ('N', 2, 4)
    >>> op(np.array([1, 2]), np.array([[0]], np.int32))
    Traceback (most recent call last):
    ...
    ndgather.errors.DTypeError: ai.onnx GatherND-13: indices.dtype = int32 is not taken \
(allowed: int64)
    """

    def __init__(self, row: OperatorVersion) -> None:
        self.row = row
        self._known: dict[tuple[object, ...], _Known] = {}
        roles = [each.role for each in row.inputs]
        self._axis_place = roles.index(Role.AXIS) if Role.AXIS in roles else -1

    def __repr__(self) -> str:
        return f"operator({self.name!r}, domain={self.domain!r}, version={self.version})"

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def domain(self) -> str:
        return self.row.domain

    @property
    def version(self) -> int:
        return self.row.since

    def __call__(self, *inputs: ArrayLike, **named: Any) -> Array:
        """Run the operator on arrays.

        Parameters
        ----------
        *inputs : array_like
            The inputs in the order of the specification: data, indices, and what follows.
        **named
            Attributes, and inputs by their names.

        Returns
        -------
        array
            A new array of the type of data.

        Raises
        ------
        DTypeError, ShapeError, AttributeValueError, IndexOutOfBoundsError
            This version does not allow the call.
        """
        key = _key(inputs, named, self._axis_place)
        known = None if key is None else self._known.get(key)
        if known is not None:
            function, count, rest, shape = known
            # What the core refuses is answered below, and a shape that is another one by now.
            with suppress(_core.Refused, ValueError):
                return function(*inputs[:count], *rest).reshape(shape)  # type: ignore[no-any-return]  # an array
        if key is not None:
            # What is remembered below holds for what is looked at here.
            inputs = _held(inputs, self._axis_place)
            key = _key(inputs, named, self._axis_place)
        values, attributes = arguments.bind(self.row, inputs, named)
        arrays = {
            each.role: arguments.plain_input(self.row, each.name, values[each.name])
            for each in self.row.inputs
            if each.name in values
        }
        if len(arrays) < len(self.row.inputs):
            raise operator_errors.wrong_inputs(
                str(self.row), len(arrays), arguments.input_names(self.row)
            )
        shape = execution.result_shape(self.row, arrays, attributes)
        axis = arrays.pop(Role.AXIS, None)
        if axis is not None:
            attributes["axis"] = int(axis.item())
        call = execution.native_call(self.row, arrays, attributes)
        result = call.run().reshape(shape)
        if key is not None:
            self._remember(key, call, len(arrays), shape)
        return result

    def infer(
        self,
        *types: TensorType,
        constants: Mapping[str, ArrayLike] | None = None,
        **named: Any,
    ) -> Inference:
        """Return the types of the outputs, and what was learnt about the inputs.

        Parameters
        ----------
        *types : TensorType
            One for each input; sizes may be numbers, names or None.
        constants : mapping, optional
            Values of inputs that are known, by name. Known indices are checked.
        **named
            Attributes, and known values of inputs such as an axis.

        Raises
        ------
        DTypeError, ShapeError, AttributeValueError, IndexOutOfBoundsError
            No call of these types can run.
        """
        given, attributes = arguments.bind(self.row, types, named)
        known = dict(constants or {})
        declared: list[TensorType] = []
        values: dict[Role, Array] = {}
        for each in self.row.inputs:
            tensor = given.get(each.name)
            if each.name in known:
                values[each.role] = arguments.plain_input(self.row, each.name, known.pop(each.name))
            elif tensor is not None and not isinstance(tensor, TensorType):
                values[each.role] = arguments.plain_input(self.row, each.name, tensor)
            if isinstance(tensor, TensorType):
                declared.append(arguments.checked_type(str(self.row), each.name, tensor))
            elif each.role in values:
                declared.append(TensorType(dtype_name(values[each.role]), values[each.role].shape))
            elif each.role is Role.AXIS:
                declared.append(TensorType())
            else:
                raise operator_errors.wrong_inputs(
                    str(self.row), len(given), arguments.input_names(self.row)
                )
        for name in known:
            raise operator_errors.unknown_attribute(
                str(self.row), name, arguments.input_names(self.row)
            )
        return infer(self.row, declared, attributes, values=values)

    def infer_shape(self, *given: Shape | Sequence[int | str | None], **named: Any) -> Shape:
        """Return the shape of the result for shapes of the inputs; see `infer`."""
        types = (TensorType(None, shape) for shape in given)  # type: ignore[arg-type]  # infer checks
        return self.infer(*types, **named).outputs[0].shape

    def diff(self, other: Operator) -> tuple[Difference, ...]:
        """Return the rules in which this version differs from another operator."""
        return differences(self.row, other.row)

    def _remember(
        self, key: tuple[object, ...], call: calls.Call, count: int, shape: tuple[int, ...]
    ) -> None:
        """Keep what calls with the same types, shapes and options hand to the core."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (call.function, count, call.arguments()[count:], shape)


def _key(
    inputs: Sequence[object], named: Mapping[str, object], axis_place: int
) -> tuple[object, ...] | None:
    """Return what the check of a call depends on, or None where it takes the values.

    The input at `axis_place` is an axis: of it alone the value counts.
    """
    key: list[object] = []
    for place, each in enumerate(inputs):
        if type(each) is np.ndarray and each.dtype.kind != "O":
            key += (each.dtype, each.shape)
            if place == axis_place:
                key.append(each.tobytes())
        elif type(each) is int:
            key += (int, each)
        else:
            return None
    for name, value in named.items():
        if type(value) not in (int, str, bool):
            return None
        key += (name, type(value), value)
    return tuple(key)


def _held(inputs: Sequence[ArrayLike], axis_place: int) -> tuple[ArrayLike, ...]:
    """Return the inputs with shapes, and a value of the axis, that no other thread can set."""
    return tuple(
        each
        if not isinstance(each, np.ndarray)
        else (each.copy() if place == axis_place else each.view())
        for place, each in enumerate(inputs)
    )
