"""Operators to call: one version of one published operator, and exactly what it allows."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather import _core, arithmetic, calls, conversion, errors, shapes
from ndgather.dialects import ALIASES, DEFAULT_DOMAIN, ROWS
from ndgather.differences import Difference, differences
from ndgather.spec import (
    Attribute,
    AttributeType,
    Inference,
    Kind,
    OperatorVersion,
    RankAtLeast,
    Reduction,
    Role,
    Shape,
    TensorType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

AttributeValue: TypeAlias = int | str | bool

_NATIVE: dict[Kind, tuple[Callable[..., Any], tuple[str, ...]]] = {
    Kind.GATHER_ND: (_core.gather_nd, ("batch_dims",)),
    Kind.GATHER_ELEMENTS: (_core.gather_elements, ("axis",)),
    Kind.GATHER: (_core.gather, ("axis", "batch_dims")),
    Kind.SCATTER_ND: (_core.scatter_nd, ("batch_dims",)),
    Kind.SCATTER_ELEMENTS: (_core.scatter_elements, ("axis",)),
}


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
        values, attributes = self._bind(inputs, named)
        arrays = {
            each.role: self._array(each.name, values[each.name])
            for each in self.row.inputs
            if each.name in values
        }
        if len(arrays) < len(self.row.inputs):
            raise errors.wrong_inputs(str(self.row), len(arrays), self._input_names())
        shape = self._result_shape(arrays, attributes)
        axis = arrays.pop(Role.AXIS, None)
        if axis is not None:
            attributes["axis"] = int(axis.item())
        call = self._call(arrays, attributes)
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
        given, attributes = self._bind(types, named)
        known = dict(constants or {})
        declared: list[TensorType] = []
        values: dict[Role, Array] = {}
        for each in self.row.inputs:
            tensor = given.get(each.name)
            if each.name in known:
                values[each.role] = self._array(each.name, known.pop(each.name))
            elif tensor is not None and not isinstance(tensor, TensorType):
                values[each.role] = self._array(each.name, tensor)
            if isinstance(tensor, TensorType):
                declared.append(_checked_type(str(self.row), each.name, tensor))
            elif each.role in values:
                declared.append(TensorType(dtype_name(values[each.role]), values[each.role].shape))
            elif each.role is Role.AXIS:
                declared.append(TensorType())
            else:
                raise errors.wrong_inputs(str(self.row), len(given), self._input_names())
        for name in known:
            raise errors.unknown_attribute(str(self.row), name, self._input_names())
        return shapes.infer(self.row, declared, attributes, values=values)

    def infer_shape(self, *given: Shape | Sequence[int | str | None], **named: Any) -> Shape:
        """Return the shape of the result for shapes of the inputs; see `infer`."""
        types = (TensorType(None, shape) for shape in given)  # type: ignore[arg-type]  # infer checks
        return self.infer(*types, **named).outputs[0].shape

    def diff(self, other: Operator) -> tuple[Difference, ...]:
        """Return the rules in which this version differs from another operator."""
        return differences(self.row, other.row)

    def _input_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.row.inputs)

    def _bind(
        self, inputs: Sequence[object], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, AttributeValue]]:
        """Tell inputs from attributes; check the attributes and fill in their defaults."""
        caller, names = str(self.row), self._input_names()
        if len(inputs) > len(names):
            raise errors.wrong_inputs(caller, len(inputs), names)
        given = dict(zip(names, inputs, strict=False))
        known = {each.name for each in self.row.attributes}
        for name, value in named.items():
            if name in given:
                raise errors.input_given_twice(caller, name)
            if name in names:
                given[name] = value
            elif name not in known:
                raise errors.unknown_attribute(caller, name, sorted(known))
        attributes = {
            each.name: self._attribute(each, named.get(each.name)) for each in self.row.attributes
        }
        return given, attributes

    def _attribute(self, attribute: Attribute, value: object) -> AttributeValue:
        caller, name = str(self.row), attribute.name
        if value is None:
            if attribute.default is None:
                raise errors.missing_attribute(caller, name)
            return attribute.default
        if attribute.type is AttributeType.BOOL and isinstance(value, (bool, np.bool_)):
            return bool(value)
        if attribute.type is AttributeType.STRING and isinstance(value, str):
            words = [choice.word for choice in attribute.choices]
            if value not in words:
                raise errors.unknown_choice(caller, name, value, words)
            return value
        integral = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if attribute.type is AttributeType.INT and integral:
            return int(value)  # type: ignore[call-overload, no-any-return]  # it is integral
        raise errors.attribute_type(caller, name, value, attribute.type.value)

    def _array(self, name: str, value: object) -> Array:
        if name == Role.INDICES:
            return conversion.plain_indices(str(self.row), value)
        return conversion.plain_array(str(self.row), name, value)

    def _result_shape(
        self, arrays: Mapping[Role, Array], attributes: Mapping[str, AttributeValue]
    ) -> tuple[int, ...]:
        """Check all of a call but its index values, and return the shape of its result."""
        types = [TensorType(dtype_name(each), each.shape) for each in arrays.values()]
        values = {Role.AXIS: arrays[Role.AXIS]} if Role.AXIS in arrays else None
        inferred = shapes.infer(self.row, types, attributes, values=values, check_empty_axes=False)
        return inferred.outputs[0].shape  # type: ignore[return-value]  # every size is known

    def _remember(
        self, key: tuple[object, ...], call: calls.Call, count: int, shape: tuple[int, ...]
    ) -> None:
        """Keep what calls with the same types, shapes and options hand to the core."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (call.function, count, call.arguments()[count:], shape)

    def _call(
        self, arrays: Mapping[Role, Array], attributes: Mapping[str, AttributeValue]
    ) -> calls.Call:
        """Return the native call that does what the row says."""
        row = self.row
        data, indices = arrays[Role.DATA], arrays[Role.INDICES]
        batch_dims = int(attributes.get("batch_dims", 0))
        batch_dims += indices.ndim if batch_dims < 0 else 0
        options = {"axis": int(attributes.get("axis", 0)) % data.ndim, "batch_dims": batch_dims}
        function, names = _NATIVE[row.kind]
        if row.kind.scatters:
            return calls.Scatter(
                caller=str(row),
                function=function,
                data=data,
                indices=indices,
                updates=self._updates(data, indices, arrays[Role.UPDATES]),
                options=tuple(options[name] for name in names),
                option_names=names,
                reduction=self._reduction(attributes, data.dtype).value,
                use_init_val=bool(attributes.get("use_init_val", True)),
                negative=row.index_rule.negative,
            )
        fills = not row.index_rule.raises
        return calls.Gather(
            caller=str(row),
            function=function,
            data=data,
            indices=indices,
            options=tuple(options[name] for name in names),
            option_names=names,
            mode="fill" if fills else "raise",
            fill_value="" if fills and data.dtype.kind == "O" else None,
            negative=row.index_rule.negative,
        )

    def _updates(self, data: Array, indices: Array, updates: Array) -> Array:
        """Return `updates` in the shape of the rule; a single element may come in another."""
        if self.row.kind is Kind.SCATTER_ND and updates.size == 1:
            return updates.reshape(indices.shape[:-1] + data.shape[indices.shape[-1] :])
        return updates

    def _reduction(
        self, attributes: Mapping[str, AttributeValue], dtype: np.dtype[Any]
    ) -> Reduction:
        attribute = self.row.attribute("reduction")
        if attribute is None:
            return Reduction.NONE
        word = attributes["reduction"]
        meaningful = arithmetic.reductions(dtype)
        allowed = {
            each.word: each.reduction
            for each in attribute.choices
            if each.reduction.value in meaningful
        }
        if word not in allowed:
            raise errors.reduction_type(str(self.row), str(word), dtype, tuple(allowed))
        return allowed[str(word)]


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


def _checked_type(caller: str, name: str, given: TensorType) -> TensorType:
    """Return `given` with its sizes as plain integers, names and None in a tuple."""
    if given.shape is None:
        return given
    partial = isinstance(given.shape, RankAtLeast)
    dims: object = given.shape.first if isinstance(given.shape, RankAtLeast) else given.shape
    if not isinstance(dims, (tuple, list)) or not all(_is_dim(dim) for dim in dims):
        raise errors.not_a_shape(caller, name, given.shape)
    plain = tuple(int(dim) if isinstance(dim, numbers.Integral) else dim for dim in dims)
    return TensorType(given.dtype, RankAtLeast(plain) if partial else plain)


def _is_dim(dim: object) -> bool:
    if isinstance(dim, numbers.Integral) and not isinstance(dim, bool):
        return int(dim) >= 0
    return dim is None or (isinstance(dim, str) and dim != "")


def dtype_name(array: Array) -> str:
    """Return the name that the specifications' rows have for the type of `array`."""
    kind = array.dtype.kind
    if kind in "UST" or (
        kind == "O" and all(isinstance(each, (str, bytes)) for each in array.flat)
    ):
        return "string"
    return array.dtype.name


_OPERATORS = tuple(Operator(row) for row in ROWS)


def operators(name: str | None = None, domain: str | None = None) -> tuple[Operator, ...]:
    """Return every operator of the table, or those of a name, of a domain, or of both."""
    if domain is not None:
        domain = ALIASES.get(domain, domain)
    return tuple(
        each for each in _OPERATORS if name in {None, each.name} and domain in {None, each.domain}
    )


def operator(
    name: str,
    *,
    domain: str = DEFAULT_DOMAIN,
    version: int | None = None,
    opset: int | None = None,
) -> Operator:
    """Return one version of an operator.

    Parameters
    ----------
    name : str
        The name of the operator, such as ``"GatherND"``.
    domain : str
        The specification it is from.
    version : int, optional
        The version that brought it. Without it the newest is returned.
    opset : int, optional
        The newest version that this version of the domain has.

    Raises
    ------
    AttributeValueError
        There is no such operator.
    """
    found = {each.version: each for each in operators(name, domain)}
    if not found:
        known = sorted({each.name for each in operators(domain=domain)})
        raise errors.unknown_operator(name, domain, known)
    if version is not None and opset is not None:
        raise errors.version_and_opset(version, opset)
    if version is not None and version not in found:
        raise errors.unknown_version(name, domain, "version", version, sorted(found))
    if opset is not None and opset < min(found):
        raise errors.unknown_version(name, domain, "opset", opset, sorted(found)[:1])
    if version is None:
        version = max(each for each in found if opset is None or each <= opset)
    return found[version]
