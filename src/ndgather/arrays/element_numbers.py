"""Which elements a gather copies, as numbers: for containers that move their elements themselves.

A container with labels, or with elements that NumPy does not have, is asked for its elements by
number; the core checks the indices, which are arrays of NumPy here, and finds the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from ndgather import dispatch, fallback, plain_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Numbers = NDArray[np.int64]

NO_ELEMENT = -1  # the number of an element that is filled


def with_plain_arguments(call: Call) -> Call:
    """Return a call whose indices and updates are in the memory of the CPU, as data is.

    Raises
    ------
    NdgatherError
        They are of a library whose arrays are not converted unasked.
    """
    updates = call.updates
    if not isinstance(updates, np.ndarray) and dispatch.adapter_name(updates) is not None:
        updates = plain_arrays.plain_array(call.caller, call.updates_name, updates)
    indices = plain_arrays.native_indices(call.caller, call.indices, call.indices_name)
    return replace(call, indices=indices, updates=updates)


def element_numbers(call: Call, shape: tuple[int, ...]) -> Numbers:
    """Return the numbers in C order of the elements that a gather of data of `shape` copies."""
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    fill_value = NO_ELEMENT if call.mode == "fill" else call.fill_value
    return fallback.run(replace(call, data=numbers, fill_value=fill_value, out=None))


def row_numbers(call: Call, shape: tuple[int, int]) -> Numbers | None:
    """Return the numbers of rows of a table, if that is what a gather copies; else None."""
    if call.kind == "gather":
        whole = call.axis in (0, -2) and call.batch_dims == 0
    else:
        whole = call.kind == "gather_nd" and np.shape(call.indices)[-1:] == (1,)
        whole = whole and call.batch_dims == 0
    if not whole:
        return None
    fallback.result_shape(
        replace(
            call,
            data=SimpleNamespace(shape=shape),
            indices=SimpleNamespace(shape=np.shape(call.indices)),
        )
    )
    return element_numbers(replace(call, axis=0), shape[:1])
