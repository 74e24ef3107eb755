"""Vector-Jacobian products: the gradients of the gathers and scatters, as plain functions.

Each takes the cotangent of a result, the gradient of some number with respect to it, and returns
the cotangents of the inputs. All the functions here are linear, so nothing but shapes and indices
is needed besides. Sums are made in the type of the cotangent, in the order of the indices.

All take values of indices as ``mode="raise"`` does, and raise what the functions themselves raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ndgather import _core, arithmetic, calls, conversion
from ndgather.errors import argument_errors, option_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

_LINEAR = ("none", "add")


def gather_nd(
    cotangent: ArrayLike, data_shape: tuple[int, ...], indices: ArrayLike, batch_dims: int = 0
) -> Array:
    """Return the cotangent of `data` in ``gather_nd(data, indices, batch_dims)``.

    Every slice of the cotangent is added to zeros where the gather took it from.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of the result of the gather
    data_shape : tuple of int
    indices, batch_dims
        Those of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_nd([1.0, 10.0, 100.0], (4,), [[2], [0], [2]])
    array([ 10.,   0., 101.,   0.])
    """
    pair = _Pair("vjp.gather_nd", _core.gather_nd, _core.scatter_nd, "batch_dims", batch_dims)
    return pair.add_to_zeros(cotangent, data_shape, indices)


def gather_elements(
    cotangent: ArrayLike, data_shape: tuple[int, ...], indices: ArrayLike, axis: int = 0
) -> Array:
    """Return the cotangent of `data` in ``gather_elements(data, indices, axis)``.

    Every element of the cotangent is added to zeros where the gather took it from.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `indices`
    data_shape : tuple of int
    indices, axis
        Those of the gather.

    Returns
    -------
    array, shape `data_shape`, dtype of `cotangent`

    Examples
    --------
    >>> from ndgather import vjp
    >>> vjp.gather_elements([[1.0, 10.0], [100.0, 1000.0]], (2, 2), [[1, 0], [1, 1]])
    array([[   0.,   10.],
           [ 101., 1000.]])
    """
    caller = "vjp.gather_elements"
    pair = _Pair(caller, _core.gather_elements, _core.scatter_elements, "axis", axis)
    return pair.add_to_zeros(cotangent, data_shape, indices)


def scatter_nd(
    cotangent: ArrayLike, indices: ArrayLike, reduction: Literal["none", "add"] = "none"
) -> tuple[Array, Array]:
    """Return the cotangents of `data` and `updates` in `scatter_nd`.

    For ``add`` data passes as it is, and each update has the cotangent of its place. For ``none``
    an element that was replaced has none; of several updates of one place the last has all of it.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `data`
    indices : array_like
        Those of the scatter.
    reduction : {"none", "add"}, default "none"

    Returns
    -------
    array, shape of `data`, dtype of `cotangent`
    array, shape of `updates`, dtype of `cotangent`

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_nd([1.0, 10.0, 100.0], [[2], [0], [2]])
    >>> of_data
    array([ 0., 10.,  0.])
    >>> of_updates
    array([  0.,   1., 100.])
    """
    pair = _Pair("vjp.scatter_nd", _core.gather_nd, _core.scatter_nd, "batch_dims", 0)
    return pair.of_data_and_updates(cotangent, indices, reduction)


def scatter_elements(
    cotangent: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    reduction: Literal["none", "add"] = "none",
) -> tuple[Array, Array]:
    """Return the cotangents of `data` and `updates` in `scatter_elements`.

    For ``add`` data passes as it is, and each update has the cotangent of its place. For ``none``
    an element that was replaced has none; of several updates of one place the last has all of it.

    Parameters
    ----------
    cotangent : array_like of numbers, shape of `data`
    indices, axis
        Those of the scatter.
    reduction : {"none", "add"}, default "none"

    Returns
    -------
    array, shape of `data`, dtype of `cotangent`
    array, shape of `indices`, dtype of `cotangent`

    Examples
    --------
    >>> from ndgather import vjp
    >>> of_data, of_updates = vjp.scatter_elements([[1.0, 10.0, 100.0]], [[2, 2]], axis=1)
    >>> of_data
    array([[ 1., 10.,  0.]])
    >>> of_updates
    array([[  0., 100.]])
    """
    caller = "vjp.scatter_elements"
    pair = _Pair(caller, _core.gather_elements, _core.scatter_elements, "axis", axis)
    return pair.of_data_and_updates(cotangent, indices, reduction)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A gather and its scatter, for one caller and one value of their option."""

    caller: str
    core_gather: Callable[..., Array]
    core_scatter: Callable[..., Array]
    option_name: str
    option: int

    def gather(self, data: Array, indices: ArrayLike) -> Array:
        return calls.Gather(
            caller=self.caller,
            function=self.core_gather,
            data=data,
            indices=indices,
            options=(self.option,),
            option_names=(self.option_name,),
        ).run()

    def scatter(self, data: Array, indices: ArrayLike, updates: Array, reduction: str) -> Array:
        return calls.Scatter(
            caller=self.caller,
            function=self.core_scatter,
            data=data,
            indices=indices,
            updates=updates,
            updates_name="cotangent",
            options=(self.option,),
            option_names=(self.option_name,),
            reduction=reduction,
        ).run()

    def numbers(self, cotangent: ArrayLike) -> Array:
        array = conversion.plain_array(self.caller, "cotangent", cotangent)
        if arithmetic.number_kind(array.dtype) in ("", "b"):
            raise argument_errors.cotangent_dtype(self.caller, array.dtype)
        return array

    def add_to_zeros(
        self, cotangent: ArrayLike, data_shape: tuple[int, ...], indices: ArrayLike
    ) -> Array:
        cotangent = self.numbers(cotangent)
        return self.scatter(np.zeros(data_shape, cotangent.dtype), indices, cotangent, "add")

    def of_data_and_updates(
        self, cotangent: ArrayLike, indices: ArrayLike, reduction: str
    ) -> tuple[Array, Array]:
        if reduction not in _LINEAR:
            raise option_errors.unknown_choice(self.caller, "reduction", reduction, _LINEAR)
        cotangent = self.numbers(cotangent)
        indices = conversion.plain_indices(self.caller, indices)
        of_updates = self.gather(cotangent, indices)
        if reduction == "add":
            return cotangent.copy(), of_updates
        # Updates are numbered, by tuple or by element; the last of a place leaves its number.
        places, count = cotangent.shape, indices.shape
        if self.option_name == "batch_dims":
            places, count = places[: count[-1]], count[:-1]
        numbers = np.arange(np.prod(count, dtype=int)).reshape(count)
        last = self.scatter(np.zeros(places, int), indices, numbers, "none")
        of_updates[self.gather(last, indices) != numbers] = 0
        zeros = np.broadcast_to(np.zeros((), cotangent.dtype), of_updates.shape)
        return self.scatter(cotangent, indices, zeros, "none"), of_updates
