"""Callable versions of published operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ndgather import api, messages
from ndgather.api import Call
from ndgather.arguments import REDUCTIONS, supported_reductions
from ndgather.array_call import Array, Kind
from ndgather.errors import AttributeValueError, NdgatherError
from ndgather.published import binding
from ndgather.published.binding import AttributeValue
from ndgather.published.inference import infer
from ndgather.published.schema import (
    ELEMENTS,
    Attribute,
    IndexRule,
    Inference,
    Input,
    OperatorVersion,
    Reduction,
    Role,
    Shape,
    TensorType,
    reshaped,
    type_of,
)
from ndgather.show.picture import Picture, draw

Key: TypeAlias = tuple[object, ...]
_MOST_KNOWN = 512
_RULES = (
    "kind",
    "index_rule",
    "batch_rule",
    "off_axis_rule",
    "lowest_depth",
    "duplicates",
    "one_element_updates",
)


class KnownCalls:
    """A cache of checked calls of an operator, keyed by the types and shapes of arrays."""

    def __init__(self, row: OperatorVersion) -> None:
        self._caller = str(row)
        roles = [item.role for item in row.inputs]
        self._axis = roles.index(Role.AXIS) if Role.AXIS in roles else -1
        # Each value consists of a function, its number of arrays, and the shape of the result.
        self._known: dict[Key, tuple[Callable[..., Any], int, tuple[int, ...]]] = {}

    def key(self, inputs: Sequence[object], named: Mapping[str, object]) -> Key | None:
        """Return the cache key of a call, or None if the call cannot be cached."""
        key: list[object] = []
        for position, value in enumerate(inputs):
            if type(value) is np.ndarray and value.dtype.kind != "O":
                key += (value.dtype, value.shape)
                if position == self._axis:
                    key.append(value.tobytes())
            elif type(value) is int:
                key += (int, value)
            else:
                return None
        for name, option in named.items():
            if type(option) not in (int, str, bool):
                return None
            key += (name, type(option), option)
        return tuple(key)

    def result(self, key: Key, inputs: Sequence[ArrayLike]) -> Array | None:
        """Return the result of a known call, or None if the call must be checked.

        A call must be checked if it is new or if another thread has reshaped one of its inputs.
        """
        known = self._known.get(key)
        if known is None:
            return None
        function, count, shape = known
        result = function(*inputs[:count])
        if isinstance(result, np.ndarray):
            with suppress(ValueError):
                return result.reshape(shape)
        elif result.rule == "out_of_bounds":
            raise messages.index_out_of_bounds(self._caller, *result.facts)
        return None

    def held(self, inputs: Sequence[ArrayLike]) -> tuple[ArrayLike, ...]:
        """Return views of the inputs and a copy of the axis, which other threads cannot change."""
        return tuple(
            value
            if not isinstance(value, np.ndarray)
            else (value.copy() if position == self._axis else value.view())
            for position, value in enumerate(inputs)
        )

    def add(self, key: Key, call: Call, count: int, shape: tuple[int, ...]) -> None:
        """Cache a checked call, its number of arrays, and the shape of its result."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (call.repeatable(), count, shape)


def plan_call(
    row: OperatorVersion, arrays: Mapping[Role, Any], attributes: Mapping[str, AttributeValue]
) -> tuple[Call, tuple[Any, ...]]:
    """Check a call, except for index values, and return a core call and the shape of the result.

    The caller must reshape the result of the core to the returned shape.
    """
    types = {role: type_of(array) for role, array in arrays.items()}
    values = {Role.AXIS: arrays[Role.AXIS]} if Role.AXIS in arrays else {}
    inferred = infer(row, [*types.values()], attributes, values=values, check_empty_axes=False)
    data, indices = arrays[Role.DATA], arrays[Role.INDICES]
    data_rank, indices_shape = len(types[Role.DATA].shape), types[Role.INDICES].shape  # type: ignore[arg-type]  # known
    axis = values[Role.AXIS].item() if values else attributes.get("axis", 0)
    batch_dims = int(attributes.get("batch_dims", 0))
    batch_dims += len(indices_shape) if batch_dims < 0 else 0  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    if row.kind.scatters:
        options = _scatter_options(row, arrays, types, attributes)
    elif not row.index_rule.raises:
        # For Python strings, the core does not have a default fill value.
        objects = getattr(getattr(data, "dtype", None), "kind", "O") == "O"
        strings = objects and types[Role.DATA].dtype == "string"
        options = {"mode": "fill", "fill_value": "" if strings else None}
    call = Call(
        str(row),
        row.kind,
        data,
        indices,
        axis=int(axis) % max(data_rank, 1),
        batch_dims=batch_dims,
        negative=row.index_rule.negative,
        **options,
    )
    return call, inferred.outputs[0].shape  # type: ignore[return-value]  # every rank is known


def _scatter_options(
    row: OperatorVersion,
    arrays: Mapping[Role, Any],
    types: Mapping[Role, TensorType],
    attributes: Mapping[str, AttributeValue],
) -> dict[str, Any]:
    updates, data = arrays[Role.UPDATES], types[Role.DATA]
    data_rank = len(data.shape)  # type: ignore[arg-type]  # known
    if row.kind is Kind.SCATTER_ND and types[Role.INDICES].shape == (data_rank,):
        updates = reshaped(updates, ())  # an update of a single element may have any rank
    return {
        "updates": updates,
        "reduction": _reduction(row, attributes, arrays[Role.DATA], data).value,
        "use_init_val": bool(attributes.get("use_init_val", True)),
    }


def _computed(
    row: OperatorVersion, arrays: Mapping[Role, Array], attributes: Mapping[str, AttributeValue]
) -> Array:
    """Check a call and compute its result, using the definition of the operator."""
    assert row.definition is not None
    # Other threads may change inputs, so protect checked values with copies and shapes with views.
    arrays = {role: x.view() if role in ELEMENTS else x.copy() for role, x in arrays.items()}
    types = [type_of(arrays[x.role]) if x.role in arrays else None for x in row.inputs]
    infer(row, types, attributes, values=arrays)
    return row.definition.compute(row, arrays, attributes)


def _reduction(
    row: OperatorVersion, attributes: Mapping[str, AttributeValue], data: Any, known: TensorType
) -> Reduction:
    attribute = row.attribute("reduction")
    if attribute is None:
        return Reduction.NONE
    word = str(attributes["reduction"])
    dtype: Any = getattr(data, "dtype", known.dtype)
    # Adapters of other libraries raise an error for reductions that they do not support.
    names = REDUCTIONS
    if isinstance(dtype, np.dtype):
        names = supported_reductions(dtype)
    words = {x.word: x.reduction for x in attribute.choices if x.reduction.value in names}
    if word not in words:
        raise messages.reduction_type(str(row), word, dtype, tuple(words))
    return words[word]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A rule such as ``"attributes.axis.required"`` in which two operators differ."""

    what: str
    here: object  # the value of the rule, or only the types or choices that `there` lacks
    there: object


def differences(here: OperatorVersion, there: OperatorVersion) -> Iterator[Difference]:
    """Yield the rules in which `here` and `there` differ, in a fixed order."""
    inputs = [{item.role.value: item for item in row.inputs} for row in (here, there)]
    attributes = [{item.name: item for item in row.attributes} for row in (here, there)]
    for group, (mine, other) in (("inputs", inputs), ("attributes", attributes)):
        for name in dict.fromkeys([*mine, *other]):
            yield from _compared(f"{group}.{name}", mine.get(name), other.get(name))
    for rule in _RULES:
        yield from _compared(rule, getattr(here, rule), getattr(there, rule))


def _compared(what: str, here: Any, there: Any) -> Iterator[Difference]:
    if here == there:
        return
    if isinstance(here, Attribute | IndexRule | Input) and there is not None:
        for field in fields(here):
            if field.name not in {"summary", "type_variable"}:
                sides = getattr(here, field.name), getattr(there, field.name)
                yield from _compared(f"{what}.{field.name}", *sides)
        return
    if what.endswith((".types", ".choices")):
        common = {*here} & {*there}
        here, there = (tuple(x for x in side if x not in common) for side in (here, there))
        if not here and not there:
            return
    yield Difference(what=what, here=here, there=there)


class Operator:
    """A callable version of a published operator, as returned by `ndgather.operator`.

    An operator accepts exactly the types, attributes, ranks, sizes and index values that the
    specification of its version allows, and raises an error for all others.

    Parameters
    ----------
    row : OperatorVersion
        The specification of this version as data; ``row.source`` is the URL of its text.

    See Also
    --------
    ndgather.operator : Find an operator by its name, domain, and version or opset.

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
    ndgather.errors.DTypeError: ai.onnx GatherND-13: indices.dtype = int32 is not supported \
(allowed: int64)
    """

    def __init__(self, row: OperatorVersion) -> None:
        self.row = row
        self._known = KnownCalls(row)

    def __repr__(self) -> str:
        return f"operator({self.name!r}, domain={self.domain!r}, version={self.version})"

    @property
    def name(self) -> str:
        """The name of the operator in its specification, such as ``"GatherND"``."""
        return self.row.name

    @property
    def domain(self) -> str:
        """The specification: ``"ai.onnx"``, ``"com.microsoft"`` or ``"openvino"``."""
        return self.row.domain

    @property
    def version(self) -> int:
        """The version of the operator, which is the first opset that contains it."""
        return self.row.since

    def __call__(self, *inputs: ArrayLike, **named: Any) -> Array:
        """Run the operator on arrays.

        Parameters
        ----------
        *inputs : array_like
            The inputs in the order of the specification: data, indices, then updates or the axis
            if the operator has them. The operator's page in the documentation lists the allowed
            shapes and dtypes.
        **named
            Attributes and inputs by name.

        Returns
        -------
        array, dtype of data
            A new C-contiguous array with the shape that `infer_shape` returns.
            TensorScatter, GatherBlockQuantized, ScatterUpdate, SliceScatter and GatherTree always
            return NumPy arrays.

        Notes
        -----
        If an earlier call had arrays of the same types and shapes, only the index values are
        checked again.

        Examples
        --------
        >>> import numpy as np
        >>> import ndgather
        >>> add = ndgather.operator("ScatterND", version=16)
        >>> add(np.zeros(4), np.array([[1], [1]]), np.array([2.0, 3.0]), reduction="add")
        array([0., 5., 0., 0.])
        >>> gather = ndgather.operator("Gather", domain="openvino", version=8)
        >>> gather(np.array([1, 2, 3]), np.array([0, 7]), 0)  # zero if out of bounds
        array([1, 0])
        """
        key = self._known.key(inputs, named) if self.row.definition is None else None
        if key is not None:
            known = self._known.result(key, inputs)
            if known is not None:
                return known
            # Other threads cannot reshape these views after the checks.
            inputs = self._known.held(inputs)
            key = self._known.key(inputs, named)
        arrays, attributes = binding.bind_arrays(self.row, inputs, named)
        if self.row.definition is not None:
            return _computed(self.row, arrays, attributes)
        call, shape = plan_call(self.row, arrays, attributes)
        result: Any = api.run(call)
        if len(shape) != len(getattr(result, "shape", shape)):  # some operators fuse the batch axes
            result = reshaped(result, shape)
        if key is not None:
            self._known.add(key, call, len(arrays.keys() - {Role.AXIS}), shape)
        return result  # type: ignore[no-any-return]  # an array, of the library of data

    def show(self, *inputs: ArrayLike, **named: Any) -> Picture:
        """Draw a call of the operator, showing the source of each element of the result.

        Parameters
        ----------
        *inputs, **named
            The arguments of the call.

        Returns
        -------
        Picture
            A picture that notebooks and terminals display, and that can be saved as SVG. A call
            that fails is drawn too.

        Raises
        ------
        AttributeValueError
            The operator, e.g. TensorScatter, is not a single call of a function.

        See Also
        --------
        ndgather.show : The same for the functions.

        Examples
        --------
        >>> import numpy as np
        >>> import ndgather
        >>> gather = ndgather.operator("GatherND", version=13)
        >>> print(gather.show(np.array([10, 11, 12]), np.array([[2], [0]])).to_text(width=80))
        ai.onnx GatherND-13(data, indices)
        <BLANKLINE>
        data  int64 (3,)    indices  int64 (2, 1)    result  int64 (2,)
           0   1     2           axis 0                 0     1
        10 b  11  12 a      [0]     2 a              12 a  10 b
                            [1]     0 b
        """
        if self.row.definition is not None:
            raise AttributeValueError(
                f"show: operator = {self.row} is not a single call of a function and cannot be "
                "drawn (allowed: operators that are)"
            )
        arrays, attributes = binding.bind_arrays(self.row, inputs, named)
        try:
            call, shape = plan_call(self.row, arrays, attributes)
        except NdgatherError as error:
            data, indices, updates = map(arrays.get, (Role.DATA, Role.INDICES, Role.UPDATES))
            call = Call(str(self.row), self.row.kind, data, indices, updates)
            return draw(call, error=error)
        return draw(call, shape)

    def infer(
        self,
        *types: TensorType | None,
        constants: Mapping[str, ArrayLike] | None = None,
        **named: Any,
    ) -> Inference:
        """Infer the types of the outputs and refine the types of the inputs.

        Parameters
        ----------
        *types : TensorType
            The types of the inputs, in the order of the specification. A size may be a number, a
            name, or None for unknown. The shape and dtype may be None as well. Pass None in place
            of a type to omit an optional input.
        constants : mapping of str to array_like, optional
            Known values of inputs, by input name. Known indices are checked.
        **named
            Attributes, and values of inputs such as the axis, by name.

        Returns
        -------
        Inference
            ``outputs`` and ``inputs`` are tuples of TensorType. The input types include ranks and
            sizes that follow from the call. ``equalities`` has the values that named sizes must
            have for the call to run, and ``depth`` is the length of an index tuple if it is
            determined.

        Raises
        ------
        DTypeError, ShapeError, AttributeValueError
            No call with inputs of these types can run.
        IndexOutOfBoundsError
            A known index is out of bounds for an axis of known size.

        Examples
        --------
        >>> import ndgather
        >>> from ndgather import TensorType
        >>> op = ndgather.operator("GatherND", version=13)
        >>> inferred = op.infer(TensorType("float32", ("N", "C")), TensorType("int64", (8, 2)))
        >>> inferred.outputs
        (TensorType(dtype='float32', shape=(8,)),)
        >>> op.infer(TensorType("float32", (5,)), TensorType(), constants={"indices": [[9]]})
        Traceback (most recent call last):
        ...
        ndgather.errors.IndexOutOfBoundsError: ai.onnx GatherND-13: indices[0, 0] = 9 is outside \
axis 0 of data, which has size 5 (allowed: -5..4)
        """
        declared, attributes, values = binding.bind_types(
            self.row, types, dict(constants or {}), named
        )
        return infer(self.row, declared, attributes, values=values)

    def infer_shape(self, *shapes: Shape | Sequence[int | str | None], **named: Any) -> Shape:
        """Infer the shape of the result from the shapes of the inputs.

        Parameters
        ----------
        *shapes : tuple of int, str or None; RankAtLeast; or None
            The shapes of the inputs. A size may be a name, or None for unknown. `RankAtLeast` has
            only the leading sizes of a shape, and None is a shape of unknown rank.
        **named
            Attributes, and values of inputs such as the axis, by name.

        Returns
        -------
        tuple of int, str or None; RankAtLeast; or None
            The shape of the output, as far as it is known.

        See Also
        --------
        infer : Infer element types and input types as well.

        Examples
        --------
        >>> import ndgather
        >>> gather = ndgather.operator("Gather", version=13)
        >>> gather.infer_shape(("N", 32, 32), (5,), axis=1)
        ('N', 5, 32)
        >>> gather.infer_shape((4, 5), None)
        RankAtLeast(first=(None,))
        """
        types = (TensorType(None, shape) for shape in shapes)  # type: ignore[arg-type]  # infer checks
        return self.infer(*types, **named).outputs[0].shape

    def diff(self, other: Operator) -> tuple[Difference, ...]:
        """Return the rules in which this version differs from another operator.

        Parameters
        ----------
        other : Operator
            The other operator, usually another version or the same operator of another domain.

        Returns
        -------
        tuple of Difference
            The rules that differ, in a fixed order. Each has a name (``what``) and the values on
            both sides (``here`` and ``there``). The tuple is empty if the two texts differ only
            in wording.

        Examples
        --------
        >>> import ndgather
        >>> new = ndgather.operator("GatherND", version=13)
        >>> old = ndgather.operator("GatherND", version=12)
        >>> [(rule.what, rule.here, rule.there) for rule in new.diff(old)]
        [('inputs.data.types', ('bfloat16',), ())]
        """
        return tuple(differences(self.row, other.row))
