"""Hypothesis strategies that draw calls of the scatter functions.

`expected_scatter` computes the expected result of a call by the loops of
`tests.definitions.reference`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.definitions import reference
from tests.definitions.calls import Call, assert_same_elements, assert_same_form, elements_at
from tests.definitions.strategies import (
    FLAVOURS,
    INDEX_DTYPES,
    arranged,
    distinct,
    draw_case,
    kind_of,
    with_indices,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NUMBER_DTYPES",
    "SCATTER_MODES",
    "ScatterCall",
    "assert_same_numbers",
    "expected_scatter",
    "numbers",
    "scatter_calls",
]

Array = NDArray[Any]

#: The names of the modes of scatters.
# Written out, so that a word that the package drops is missed.
SCATTER_MODES = ("raise", "wrap", "clip", "drop")
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")
_NOT_OF = {"b": ("mean",), "i": (), "f": (), "c": ("min", "max"), "": REDUCTIONS[1:]}

#: Types that some reductions accept, some of them in the other byte order.
NUMBER_DTYPES: tuple[np.dtype[Any], ...] = (
    *(np.dtype(char) for char in "?bhiqBHIQefdgFDG"),
    *map(np.dtype, (">i2", ">u4", ">i8", ">f2", ">f4", ">f8", ">c8")),
)

_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterCall(Call):
    """One call of a scatter: the name of a function of `ndgather`, and its arguments.

    Parameters
    ----------
    function : {"scatter_nd", "scatter_elements"}
        The name of the function.
    data, indices, updates : array
        The arguments of that name.
    options : dict
        The other arguments by their names: `reduction`, and optionally `axis`, `mode` and
        `use_init_val`.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.scatter_strategies import ScatterCall, expected_scatter
    >>> call = ScatterCall(
    ...     function="scatter_nd",
    ...     data=np.zeros(3, int),
    ...     indices=np.array([[2], [2]]),
    ...     updates=np.array([5, 6]),
    ...     options={"reduction": "add"},
    ... )
    >>> expected_scatter(call)
    array([ 0,  0, 11])
    """

    updates: Array


def numbers(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Return random elements of a type: small ones, all of its range, zeros, infinities, NaN.

    Parameters
    ----------
    shape : tuple of int
        The shape of the result.
    dtype : numpy.dtype
        A type of numbers or booleans, one of the `ml_dtypes` package too.
    seed : int
        Equal seeds give equal elements.
    """
    rng = np.random.default_rng(seed)
    kind = kind_of(dtype)
    if dtype.isbuiltin == 2 and dtype.itemsize == 1:
        # By value: several bytes may hold the same number of less than eight bits.
        values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64).astype(dtype)
        return values[rng.integers(0, 256, (*shape, 1))][..., 0]
    if kind == "c":
        result = np.empty(shape, dtype)
        result.real = numbers(shape, result.real.dtype, seed)
        result.imag = numbers(shape, result.imag.dtype, seed + 1)
        return result
    small = np.asarray(rng.integers(0, 2, shape) == 0)
    if kind == "b":
        return small.astype(dtype)
    if kind == "i":
        bounds = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        wide = rng.integers(bounds.min, bounds.max, shape, native, endpoint=True)
        return np.where(small, rng.integers(0, 4, shape).astype(native), wide).astype(dtype)
    wide = np.where(small, rng.integers(-4, 5, shape), rng.standard_normal(shape))
    wide = wide * np.exp2(np.where(small, 0, rng.integers(-30, 16, shape)))
    special = rng.choice(_SPECIAL, shape)
    with np.errstate(all="ignore"):
        return np.where(rng.integers(0, 4, shape) == 0, special, wide).astype(dtype)


@st.composite
def scatter_calls(
    draw: st.DrawFn,
    function: str,
    *,
    dtypes: Sequence[np.dtype[Any]] = NUMBER_DTYPES,
    index_dtypes: Sequence[np.dtype[Any]] = INDEX_DTYPES,
    modes: Sequence[str] = SCATTER_MODES,
    flavours: Sequence[str] = FLAVOURS,
    reductions: Sequence[str] = REDUCTIONS,
) -> ScatterCall:
    """Draw a well-shaped call of `function` with a reduction that its type has.

    Parameters
    ----------
    function : {"scatter_nd", "scatter_elements"}
        The name of the function.
    dtypes, index_dtypes, modes, flavours
        What to draw from; see `tests.definitions.strategies.calls`.
    reductions : sequence of str
        The reductions to draw from; those that a type does not have are left out.

    Returns
    -------
    ScatterCall
        With ``reduction="none"`` the elements of data and updates all differ.
    """
    case = draw_case(draw, function, dtypes, index_dtypes, modes, flavours)
    data_shape, shape, dtype = case.data_shape, case.indices.shape, case.dtype
    allowed = [name for name in reductions if name not in _NOT_OF[kind_of(dtype)]]
    reduction = draw(st.sampled_from(allowed))
    options = {**case.options, "reduction": reduction}
    if reduction != "none" and draw(st.booleans()):
        options["use_init_val"] = False
    updates_shape = shape
    if function == "scatter_nd":
        updates_shape = shape[:-1] + data_shape[shape[-1] :]
    if reduction == "none":
        both = distinct((int(np.prod(data_shape)) + int(np.prod(updates_shape)),), dtype)
        split_at = int(np.prod(data_shape))
        data, updates = both[:split_at].reshape(data_shape), both[split_at:].reshape(updates_shape)
    else:
        seed = draw(st.integers(0, 2**32))
        data, updates = numbers(data_shape, dtype, seed), numbers(updates_shape, dtype, seed + 7)
    call = ScatterCall(
        function=function,
        data=draw(arranged(data)),
        indices=case.indices,
        updates=draw(arranged(updates)),
        options=options,
    )
    return with_indices(draw, call, case.flavour)


def expected_scatter(call: ScatterCall) -> Array:
    """Return the answer by the definition as a new array in C order.

    Parameters
    ----------
    call : ScatterCall
        A call whose shapes fit. Updates are applied in C order of `indices`.

    Returns
    -------
    array, shape and dtype of ``call.data``
        Bit for bit; of a NaN that a reduction makes, the payload is open.

    Raises
    ------
    IndexError
        An entry of `indices` is out of bounds.
    """
    loops = getattr(reference, call.function)
    data, updates = call.data, call.updates
    if call.options["reduction"] != "none":
        result: Array = loops(data, call.indices, updates, **call.options)
        return result
    # Elements are only copied: the loops run on their numbers.
    of_data = np.arange(data.size).reshape(data.shape)
    of_updates = data.size + np.arange(updates.size).reshape(updates.shape)
    return elements_at(loops(of_data, call.indices, of_updates, **call.options), data, updates)


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
    if desired.dtype.char == "g":  # some of its bytes hold nothing
        np.testing.assert_array_equal(actual[~nan], desired[~nan], strict=True)
        np.testing.assert_array_equal(np.signbit(actual[~nan]), np.signbit(desired[~nan]))
    else:
        without_nan = actual.copy()
        without_nan[nan] = desired[nan]
        assert_same_elements(without_nan, desired)
