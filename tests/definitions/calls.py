"""Calls of public functions with known answers.

A `PublicCall` holds the arguments of one call. `expected` computes its result by the plain loops of
`tests.definitions.reference`, to the last bit: the loops run on the numbers of the elements, and
the result consists of the bytes of these elements. `tests.definitions.draws` draws calls.

Examples
--------
A property of a function that gathers, here of `ndgather.gather_nd` itself::

    @given(calls("gather_nd"))
    def test_gather_nd_is_its_definition(call):
        if bad_entries(call):
            with pytest.raises(IndexError):
                call.result()
        else:
            assert_same_elements(call.result(), expected(call))
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import ndgather
from tests.definitions import reference
from tests.definitions.environments import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "BadEntry",
    "PublicCall",
    "assert_same_elements",
    "assert_same_numbers",
    "assert_taken",
    "bad_entries",
    "element_bytes",
    "expected",
]

Array = NDArray[Any]

FILLED = -1  # the number of an element that does not come from data


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCall:
    """One call: the name of a function of `ndgather`, and its arguments.

    Parameters
    ----------
    function : str
        The name of the function, such as "gather_nd" or "vjp.gather_nd".
    data, indices : array
        The arguments of that name; `indices` are the starts of windows and ranges, and `data` is
        the cotangent of a gradient.
    stops : array, optional
        The ends of ranges.
    updates : array, optional
        The updates of a scatter.
    options : dict, optional
        The other arguments by name: `axis`, `batch_dims`, `mode`, `fill_value`, `window_shape`,
        `reduction`, `use_init_val`.
    data_shape : tuple of int, optional
        The argument of that name of a gradient.
    environment : str, optional
        The floating-point environment of the caller, one of `environments.ENVIRONMENTS`.
    omits_defaults : bool, default False
        Whether `result` leaves out the options that equal the function's defaults.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.calls import PublicCall, bad_entries, expected
    >>> data, indices = np.array([10, 20, 30]), np.array([[2], [0]])
    >>> call = PublicCall(function="gather_nd", data=data, indices=indices)
    >>> expected(call)
    array([30, 10])
    >>> call.result()
    array([30, 10])
    >>> bad_entries(PublicCall(function="gather_nd", data=data, indices=indices + 1))
    [BadEntry(position=(0, 0), value=3, axis=0, size=3)]
    """

    function: str
    data: Array
    indices: Array
    stops: Array | None = None
    updates: Array | None = None
    options: dict[str, Any] = field(default_factory=dict)
    data_shape: tuple[int, ...] | None = None
    environment: str | None = None
    omits_defaults: bool = False

    @property
    def mode(self) -> reference.Mode:
        mode: reference.Mode = self.options.get("mode", "raise")
        return mode

    @property
    def scatters(self) -> bool:
        return self.updates is not None

    @property
    def computes(self) -> bool:
        """Whether elements are combined rather than only copied."""
        return self.data_shape is not None or self.options.get("reduction", "none") != "none"

    @property
    def arrays(self) -> tuple[Array, ...]:
        given = (self.data, self.indices, self.stops, self.updates)
        return tuple(array for array in given if array is not None)

    def arguments(self) -> tuple[Any, ...]:
        """Return the positional arguments of the function."""
        data, *rest = self.arrays
        return (data, *rest) if self.data_shape is None else (data, self.data_shape, *rest)

    def result(self, *arguments: Any, **more: Any) -> Any:
        """Make the call, optionally with other positional arguments; return values of ranges."""
        function, given = attrgetter(self.function)(ndgather), arguments or self.arguments()
        options = self.options
        if self.omits_defaults:
            defaults = inspect.signature(function).parameters
            options = {
                name: value
                for name, value in options.items()
                if not isinstance(value, int | str) or value != defaults[name].default
            }
        with environment(self.environment):
            made = function(*given, **options, **more)
        return made[0] if self.function == "gather_ranges" else made

    def result_shape(self) -> tuple[int, ...]:
        """Return the shape of the result of a gather by indices or of a scatter, by formula."""
        data, indices = self.data.shape, self.indices.shape
        if self.scatters or self.function == "gather_elements":
            return data if self.scatters else indices
        batch_dims = self.options["batch_dims"]
        if self.function == "gather_nd":
            return indices[:-1] + data[batch_dims + indices[-1] :]
        axis = self.options["axis"] % len(data)
        return data[:axis] + indices[batch_dims:] + data[axis + 1 :]

    def axis_of(self, position: tuple[int, ...]) -> int:
        """Return the axis of data that the entry of `indices` at `position` indexes."""
        if self.function.endswith("_nd"):
            return int(self.options.get("batch_dims", 0)) + position[-1]
        return int(self.options.get("axis", 0)) % self.data.ndim

    def __str__(self) -> str:
        arguments = [f"<{a.dtype} {a.shape} strides {a.strides}>" for a in self.arrays]
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        arguments += [f"data_shape={self.data_shape}"] * (self.data_shape is not None)
        arguments += ["without defaults"] * self.omits_defaults
        arguments += [f"environment={self.environment!r}"] * (self.environment is not None)
        lines = [repr(array) for array in self.arrays]
        return "\n".join([f"{self.function}({', '.join(arguments)})", *lines])


@dataclass(frozen=True, slots=True, kw_only=True)
class BadEntry:
    """An entry of `indices` that is out of bounds, as `IndexOutOfBoundsError` reports it.

    Attributes
    ----------
    position : tuple of int
        The position of the entry in `indices`.
    value : int
        The entry.
    axis, size : int
        The axis of data that it addresses, and the size of that axis.
    """

    position: tuple[int, ...]
    value: int
    axis: int
    size: int


def bad_entries(call: PublicCall) -> list[BadEntry]:
    """Return every entry of `indices` that is an error, in C order.

    The first one is reported by `IndexOutOfBoundsError`; the length is its `count`. With a mode
    other than "raise", an entry is an error only if the axis that it addresses is empty.
    """
    bad = []
    for position in np.ndindex(call.indices.shape):
        axis, value = call.axis_of(position), int(call.indices[position])
        size = call.data.shape[axis]
        try:
            reference.resolve(value, size, call.mode)
        except IndexError:
            bad.append(BadEntry(position=position, value=value, axis=axis, size=size))
    return bad


def expected(call: PublicCall) -> Array:
    """Return the result by definition as a new array in C order; for ranges, their values.

    Elements that are copied keep every bit, including padding and NaN payloads; the payload of a
    NaN that a reduction computes is not defined.

    Raises
    ------
    IndexError
        An entry of `indices` is out of bounds where the result needs it.
    """
    loops, data = getattr(reference, call.function), call.data
    options = {name: value for name, value in call.options.items() if name != "fill_value"}
    if call.computes:
        result: Array = loops(*call.arrays, **options)
        return result
    # Elements are only copied, so the loops run on their numbers.
    numbers = np.arange(data.size).reshape(data.shape)
    if call.updates is not None:
        of_updates = data.size + np.arange(call.updates.size).reshape(call.updates.shape)
        return elements_at(loops(numbers, call.indices, of_updates, **options), data, call.updates)
    positions = loops(numbers, *call.arrays[1:], **options, fill_value=FILLED)
    positions = positions[0] if call.function == "gather_ranges" else positions
    filled = call.options.get("fill_value")
    fill = np.zeros(1, data.dtype)
    if filled is not None and moves_as_bytes(data.dtype):
        fill = np.asarray(filled, data.dtype).reshape(1)
    elif filled is not None:
        fill[0] = filled
    return elements_at(positions, data, fill)


def elements_at(numbers: Array, *sources: Array) -> Array:
    """Return the elements with these numbers, counted across all sources, bit for bit."""
    dtype = sources[0].dtype
    if moves_as_bytes(dtype):
        elements = [element for source in sources for element in _split(source)]
        stored = b"".join(elements[number] for number in numbers.flat)
        return np.ndarray(numbers.shape, dtype, bytearray(stored))
    values = [value for source in sources for value in source.flat]
    result = np.empty(numbers.shape, dtype)
    for position, number in np.ndenumerate(numbers):
        result[position] = values[number]
    return result


def moves_as_bytes(dtype: np.dtype[Any]) -> bool:
    """Return whether an element consists of its bytes, rather than references to objects."""
    return not (dtype.hasobject or dtype.char == "T")


def element_bytes(array: Array) -> bytes:
    """Return the bytes of all elements in C order, with padding and NaN payloads.

    Parameters
    ----------
    array : array
        An array with any strides, without references to objects.

    Returns
    -------
    bytes
        Of length ``array.nbytes``.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.calls import element_bytes
    >>> element_bytes(np.array([[1, 2], [3, 4]], np.uint8).T).hex()
    '01030204'
    """
    if not array.dtype.itemsize:
        return b""
    return np.ascontiguousarray(array.view(f"V{array.dtype.itemsize}")).tobytes()


def _split(array: Array) -> list[bytes]:
    width, stored = array.dtype.itemsize, element_bytes(array)
    return [stored[width * k : width * (k + 1)] for k in range(array.size)]


def assert_same_elements(actual: object, desired: Array) -> None:
    """Raise AssertionError unless both have the same shape, dtype and bits.

    Parameters
    ----------
    actual : object
        The result of a function: a plain `numpy.ndarray` with any strides.
    desired : array
        The expected result. References to objects are compared by identity, then by value.

    Raises
    ------
    AssertionError
        They differ; the text names the first difference.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.calls import assert_same_elements
    >>> assert_same_elements(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    >>> assert_same_elements(np.array([0.0]), np.array([-0.0]))
    Traceback (most recent call last):
    ...
    AssertionError: 1 elements differ, the first at (0,): 0000000000000000, not 0000000000000080
    """
    actual = assert_same_form(actual, desired)
    if not moves_as_bytes(desired.dtype):
        for position, wanted in np.ndenumerate(desired):
            value = actual[position]
            assert value is wanted or (value == wanted) is True, (
                f"{position}: {value!r}, not {wanted!r}"
            )
        return
    stored = element_bytes(actual), element_bytes(desired)
    if stored[0] == stored[1]:
        return
    rows = [np.frombuffer(memory, np.uint8).reshape(desired.size, -1) for memory in stored]
    wrong = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    first = tuple(int(i) for i in np.unravel_index(wrong[0], desired.shape))
    got, want = (row[wrong[0]].tobytes().hex() for row in rows)
    raise AssertionError(f"{wrong.size} elements differ, the first at {first}: {got}, not {want}")


def assert_taken(out: Array, before: bytes, desired: Array) -> None:
    """Raise AssertionError unless `out` holds a result and kept the bytes between fields.

    `before` are the `element_bytes` of `out` before the call. The padding of long doubles may have
    any value.
    """
    if not moves_as_bytes(desired.dtype) or not desired.dtype.itemsize:
        assert_same_elements(out, desired)
        return
    assert_same_form(out, desired)
    memories = (before, element_bytes(desired), element_bytes(out))
    kept, wanted, found = (
        np.frombuffer(memory, np.uint8).reshape(desired.size, desired.itemsize)
        for memory in memories
    )
    roles = byte_roles(desired.dtype)
    np.testing.assert_array_equal(found[:, roles == "field"], wanted[:, roles == "field"])
    np.testing.assert_array_equal(found[:, roles == "gap"], kept[:, roles == "gap"])


def byte_roles(dtype: np.dtype[Any]) -> Array:
    """Return for each byte of an element whether it belongs to a "field" or is a "gap"."""
    base, shape = dtype.subdtype or (dtype, ())
    roles = np.full(base.itemsize, "field" if base.names is None else "gap", "U5")
    if base.char in "gG" and np.finfo(base).nmant == 63:  # 10 of 16 bytes
        roles.reshape(-1, 16)[:, 10:] = "any"
    for name in base.names or ():
        field, offset = base.fields[name][:2]  # type: ignore[index]  # it has fields
        roles[offset : offset + field.itemsize] = byte_roles(field)
    return np.tile(roles, int(np.prod(shape, dtype=int)))


def assert_same_numbers(actual: object, desired: Array) -> None:
    """Raise AssertionError unless both have the same bits, whatever the payloads of NaN.

    Parameters
    ----------
    actual : object
        What a function returned: it has to be a plain `numpy.ndarray`.
    desired : array of numbers or booleans
        What it should be.

    Raises
    ------
    AssertionError
        Their shapes, dtypes or elements differ, or only one of them has a NaN.
    """
    actual = assert_same_form(actual, desired)
    if desired.dtype.kind == "c":
        assert_same_numbers(actual.real.copy(), desired.real.copy())
        assert_same_numbers(actual.imag.copy(), desired.imag.copy())
        return
    nan = desired != desired  # noqa: PLR0124 - what a NaN is
    np.testing.assert_array_equal(actual != actual, nan, strict=True)  # noqa: PLR0124
    if desired.dtype.char == "g":  # some of its bytes are unused
        np.testing.assert_array_equal(actual[~nan], desired[~nan], strict=True)
        np.testing.assert_array_equal(np.signbit(actual[~nan]), np.signbit(desired[~nan]))
    else:
        without_nan = actual.copy()
        without_nan[nan] = desired[nan]
        assert_same_elements(without_nan, desired)


def assert_same_form(actual: object, desired: Array) -> Array:
    """Return `actual` if it is a base-class array with the shape and dtype of `desired`."""
    assert type(actual) is np.ndarray, f"a {type(actual).__name__} is no plain array"
    assert actual.shape == desired.shape, f"shape {actual.shape} is not {desired.shape}"
    assert actual.dtype == desired.dtype, f"dtype {actual.dtype} is not {desired.dtype}"
    return actual


def strided(
    values: Array, axes: Sequence[int], steps: Sequence[int], offset: int = 0, end: int = 0
) -> Array:
    """Return a copy whose memory has `axes` in this order, and a stride of `steps` elements.

    `offset` is the number of bytes before the first element, for arrays that are not aligned. If
    `end` is 1, no gap follows the last element of an axis, as in ``values[:, ::2]`` of odd rows.
    """
    room = [abs(step) * size for step, size in zip(steps, values.shape, strict=True)]
    room = [room[axis] - end * (abs(steps[axis]) - 1) * (room[axis] > 0) for axis in axes]
    if moves_as_bytes(values.dtype):
        width = values.dtype.itemsize
        memory = np.full(offset + width * int(np.prod(room, dtype=int)) + 1, 0xA5, np.uint8)
        whole: Array = np.ndarray(room, values.dtype, memory.data, offset)
    else:
        whole = np.empty(room, values.dtype)
    skips: tuple[Any, ...] = (*(slice(None, None, step) for step in steps), ...)
    view: Array = whole.transpose(np.argsort(axes))[skips]
    if moves_as_bytes(values.dtype):
        as_bytes = f"V{values.dtype.itemsize}"
        view.view(as_bytes)[...] = values.view(as_bytes)
    else:
        view[...] = values
    return view


def _with_step(values: Array, step: int = 1, offset: int = 0) -> Array:
    return strided(values, range(values.ndim), [step] * values.ndim, offset)


def _read_only(values: Array) -> Array:
    array = _with_step(values)
    array.flags.writeable = False
    return array


def _repeated(values: Array, first: Array) -> Array:
    return np.broadcast_to(_with_step(first), values.shape)


#: Functions that copy an array to another layout in memory, by the name of the layout.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": _with_step,
    "F": lambda values: strided(values, range(values.ndim)[::-1], [1] * values.ndim),
    "negative strides": lambda values: _with_step(values, -1),
    "every second": lambda values: _with_step(values, 2),
    "rows apart": lambda values: strided(
        values, range(values.ndim), [1 + (axis < values.ndim - 1) for axis in range(values.ndim)]
    ),
    "unaligned": lambda values: _with_step(values, offset=1),
    "read-only": _read_only,
    "stride 0, first axis": lambda values: _repeated(values, values[:1] if values.ndim else values),
    "stride 0, last axis": lambda values: _repeated(
        values, values[..., :1] if values.ndim else values
    ),
}
