"""The class of operators: one version of one published operator, and exactly what it allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather import api
from ndgather.published import arguments, execution
from ndgather.published.array_types import reshaped
from ndgather.published.diff import Difference, differences
from ndgather.published.inference import infer
from ndgather.published.known_calls import KnownCalls
from ndgather.published.schema import OperatorVersion, Role
from ndgather.published.tensor_types import Inference, Shape, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ndgather.show.picture import Picture

    Array = NDArray[Any]


class Operator:
    """One version of one published operator, which can be called.

    An operator takes what the text of its version allows and refuses everything else: other
    types, attributes, ranks and sizes, and index values that the text forbids. Get one from
    `ndgather.operator`.

    Parameters
    ----------
    row : OperatorVersion
        The specification of this version, as data.

    Attributes
    ----------
    row : OperatorVersion
        The specification of this version, as data; ``row.source`` is the address of its text.

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
    ndgather.errors.DTypeError: ai.onnx GatherND-13: indices.dtype = int32 is not taken \
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
        """Whose specification it is, ``"ai.onnx"``, ``"com.microsoft"`` or ``"openvino"``."""
        return self.row.domain

    @property
    def version(self) -> int:
        """The version of the domain in which this text of the operator came into force."""
        return self.row.since

    def __call__(self, *inputs: ArrayLike, **named: Any) -> Array:
        """Run the operator on arrays.

        Parameters
        ----------
        *inputs : array_like
            The inputs in the order of the specification: data, indices, then updates or the axis
            where the operator has them. The shapes and dtypes that are allowed are those of the
            version: ``ndgather doc NAME`` shows them.
        **named
            Attributes by their names, and inputs by their names.

        Returns
        -------
        array, dtype of data
            A new C-contiguous array in the shape that the version defines; see `infer_shape`.

        Raises
        ------
        DTypeError
            An input has a type that this version does not allow, or is not an array.
        ShapeError
            The ranks or sizes of the inputs do not fit the rules of this version.
        AttributeValueError
            An attribute is unknown, missing or out of range, or the number of inputs is wrong.
        IndexOutOfBoundsError
            An index is out of bounds, and the text does not say what the result would be.
        MemoryError
            There is no memory for the result.

        Notes
        -----
        A call whose arrays have the types and shapes of an earlier call's is not checked anew but
        for its index values, and so costs little more than the work itself.

        Examples
        --------
        >>> import numpy as np
        >>> import ndgather
        >>> add = ndgather.operator("ScatterND", version=16)
        >>> add(np.zeros(4), np.array([[1], [1]]), np.array([2.0, 3.0]), reduction="add")
        array([0., 5., 0., 0.])
        >>> gather = ndgather.operator("Gather", domain="openvino", version=8)
        >>> gather(np.array([1, 2, 3]), np.array([0, 7]), 0)  # out of bounds: zeros, says the text
        array([1, 0])
        """
        key = self._known.key(inputs, named)
        if key is not None:
            known = self._known.result(key, inputs)
            if known is not None:
                return known
            # What is kept below holds for what is checked here.
            inputs = self._known.held(inputs)
            key = self._known.key(inputs, named)
        arrays, attributes = arguments.bind_arrays(self.row, inputs, named)
        call, shape = execution.planned(self.row, arrays, attributes)
        result: Any = api.run(call)
        if len(shape) != len(getattr(result, "shape", shape)):  # some versions join batch axes
            result = reshaped(result, shape)
        if key is not None:
            self._known.add(key, call, len(arrays.keys() - {Role.AXIS}), shape)
        return result  # type: ignore[no-any-return]  # an array, of the library of data

    def show(self, *inputs: ArrayLike, **named: Any) -> Picture:
        """Draw a call of the operator: where each element of its result comes from.

        Parameters
        ----------
        *inputs, **named
            The arguments of the call.

        Returns
        -------
        Picture
            It draws itself in a notebook and in a terminal, and can be saved as SVG and PNG. A call
            that fails is drawn too.

        Raises
        ------
        NdgatherError
            An input is missing or not an array, or an attribute is not allowed.

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
        from ndgather.published.pictures import operator_picture  # noqa: PLC0415 - few draw

        return operator_picture(self.row, inputs, named)

    def infer(
        self,
        *types: TensorType,
        constants: Mapping[str, ArrayLike] | None = None,
        **named: Any,
    ) -> Inference:
        """Return the types of the outputs, and what follows for the inputs.

        Parameters
        ----------
        *types : TensorType
            One for each input, in the order of the specification. Sizes may be numbers, names,
            or None where they are unknown; so may the whole shape and the dtype.
        constants : mapping of str to array_like, optional
            Values of inputs that are known, by the name of the input. Known indices are checked.
        **named
            Attributes by their names, and the values of inputs such as an axis.

        Returns
        -------
        Inference
            ``outputs`` and ``inputs`` are tuples of TensorType. Those of the inputs are the given
            ones with everything that follows from the call: sizes that must be equal to others,
            and ranks. ``equalities`` are the sizes that the call forces a name to have, and
            ``depth`` is the length of an index tuple where there is only one that fits.

        Raises
        ------
        DTypeError, ShapeError, AttributeValueError
            No call with inputs of these types can run.
        IndexOutOfBoundsError
            A known index is out of bounds of an axis of known size.

        Examples
        --------
        >>> import ndgather
        >>> from ndgather import TensorType
        >>> op = ndgather.operator("GatherND", version=13)
        >>> found = op.infer(TensorType("float32", ("N", "C")), TensorType("int64", (8, 2)))
        >>> found.outputs
        (TensorType(dtype='float32', shape=(8,)),)
        >>> op.infer(TensorType("float32", (5,)), TensorType(), constants={"indices": [[9]]})
        Traceback (most recent call last):
        ...
        ndgather.errors.IndexOutOfBoundsError: ai.onnx GatherND-13: indices[0, 0] = 9 is outside \
axis 0 of data, which has size 5 (allowed: -5..4)
        """
        declared, attributes, values = arguments.bind_types(
            self.row, types, dict(constants or {}), named
        )
        return infer(self.row, declared, attributes, values=values)

    def infer_shape(self, *given: Shape | Sequence[int | str | None], **named: Any) -> Shape:
        """Return the shape of the result for shapes of the inputs.

        Parameters
        ----------
        *given : tuple of int, str or None; RankAtLeast; or None
            One shape for each input. A size may be a name or None (unknown). `RankAtLeast` gives
            the first sizes of a shape, and None stands for a shape of unknown rank.
        **named
            Attributes by their names, and the values of inputs such as an axis.

        Returns
        -------
        tuple of int, str or None; RankAtLeast; or None
            What is known of the shape of the output.

        Raises
        ------
        ShapeError, AttributeValueError, DTypeError
            No call with inputs of these shapes can run.

        See Also
        --------
        infer : Infer element types too, and what follows for the inputs.

        Examples
        --------
        >>> import ndgather
        >>> gather = ndgather.operator("Gather", version=13)
        >>> gather.infer_shape(("N", 32, 32), (5,), axis=1)
        ('N', 5, 32)
        >>> gather.infer_shape((4, 5), None)
        RankAtLeast(first=(None,))
        """
        types = (TensorType(None, shape) for shape in given)  # type: ignore[arg-type]  # infer checks
        return self.infer(*types, **named).outputs[0].shape

    def diff(self, other: Operator) -> tuple[Difference, ...]:
        """Return the rules in which this version differs from another operator.

        Parameters
        ----------
        other : Operator
            Any operator, usually another version of this one or that of another domain.

        Returns
        -------
        tuple of Difference
            One for each rule that differs, in a fixed order, with the name of the rule (``what``)
            and its value on both sides (``here`` and ``there``). It is empty if only the wording
            of the two texts differs.

        Examples
        --------
        >>> import ndgather
        >>> new = ndgather.operator("GatherND", version=13)
        >>> old = ndgather.operator("GatherND", version=12)
        >>> [(each.what, each.here, each.there) for each in new.diff(old)]
        [('inputs.data.types', ('bfloat16',), ())]
        """
        return differences(self.row, other.row)
