"""What happens to a call that the core does not take: convert it and call again, or say why not.

The core takes plain NumPy arrays in native byte order. Lists, subclasses, other containers and
other byte orders are converted here once, and then the core is called. Elements that are
references, and reductions that the core does not know, take a few steps more.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import call_options, dispatch, plain_arrays, reductions, windows
from ndgather.array_call import Call, Refusal
from ndgather.compiled import _core
from ndgather.errors import argument_errors, index_errors, option_errors
from ndgather.explain import explain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def answer(kind: str, refusal: Refusal, *arguments: Any) -> Array | Exception:
    """Return the result of a call that the core refused, or the exception that says why.

    The core calls this for the public functions, and raises the exception. With an index out of
    bounds it gives no arguments: the facts of the refusal say all.
    """
    rule = refusal[0]
    if rule == "out_of_bounds":
        return index_errors.index_out_of_bounds(kind, *refusal[1])
    short_cut = dispatch.SHORT_CUTS.get(type(arguments[0]))
    if short_cut is not None:
        result = short_cut(kind, *arguments)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # as its library has it
    call = Call(kind, kind, *arguments)
    if rule in ("fallback", "out_overlaps_input", "out_type"):
        return run(call)
    return explain(call, refusal)


def run(call: Call) -> Array:
    """Carry out a call with arguments of any kind.

    Raises
    ------
    NdgatherError
        The core refuses the call, or an argument cannot be converted.
    """
    call = call_options.checked(call)
    adapter = dispatch.adapter(call)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # as the adapter has it
    plain = plain_scatter(call) if call.scatters else _with_plain_gather(call)
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=plain_arrays.plain_array(call.caller, "out", call.out))
    if plain.data.dtype.hasobject or plain.data.itemsize == 0:
        move = _scatter_references if call.scatters else _gather_references
        result = _deliver(plain, move(plain))
    elif call.scatters and not is_one_step(plain):
        result = _deliver(plain, _scatter_in_steps(plain))
    else:
        result = _run_plain(plain)
    return result if call.out is None else call.out


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices that `call` names, for plain arrays or a stand-in for them.

    Raises
    ------
    NdgatherError
        The shapes do not fit.
    """
    axis, batch_dims = (integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, call.data.shape, call.indices.shape, axis, batch_dims)
    if refusal[0] != "none":
        raise explain(call, refusal)
    return refusal[4]


def integer(call: Call, option: str) -> int:
    """Return an option that is an integer, one that is out of every range as one of 64 bits."""
    value = getattr(call, option)
    try:
        return min(max(operator.index(value), -(2**63)), 2**63 - 1)
    except TypeError:
        raise option_errors.option_not_integer(call.caller, option, value) from None


def _run_plain(call: Call) -> Array:
    result = windows.run(call) if call.kind == "gather_windows" else call.run()
    if not isinstance(result, tuple):
        return result
    if result[0] == "out_overlaps_input":
        np.copyto(call.out, _run_plain(replace(call, out=None)))
        return call.out  # type: ignore[no-any-return]  # an array, as the core found
    raise explain(call, result)


def _deliver(call: Call, result: Array) -> Array:
    """Copy a result to `out`, if there is one and it can take it."""
    if call.out is None:
        return result
    refusal = _core.check_out(call.out, result)
    if refusal[0] != "none":
        raise explain(call, refusal)
    np.copyto(call.out, result)
    return call.out  # type: ignore[no-any-return]  # an array, as the core found


def _with_plain_gather(call: Call) -> Call:
    data = plain_arrays.plain_array(call.caller, "data", call.data)
    indices = plain_arrays.native_indices(call.caller, call.indices, call.indices_name)
    mode, fill_value = call.mode, call.fill_value
    if fill_value is not None:
        mode = choice(call.caller, "mode", mode, _core.GATHER_MODES)
        if mode != "fill":
            raise argument_errors.fill_value_unused(call.caller, mode)
        fill_value = plain_arrays.fill_element(call.caller, fill_value, data.dtype)
    return replace(call, data=data, indices=indices, mode=mode, fill_value=fill_value)


def plain_scatter(call: Call) -> Call:
    """Return a scatter with plain arrays, and with its reduction checked.

    Raises
    ------
    NdgatherError
        An argument cannot be converted, or the reduction has no meaning for the elements of data.
    """
    caller = call.caller
    data = plain_arrays.plain_array(caller, "data", call.data)
    indices = plain_arrays.native_indices(caller, call.indices)
    updates = plain_arrays.plain_updates(caller, call.updates, data.dtype, call.updates_name)
    reduction = choice(caller, "reduction", call.reduction, reductions.NAMES)
    meaningful = reductions.meaningful(data.dtype)
    if reduction not in meaningful:
        raise argument_errors.reduction_type(caller, reduction, data.dtype, meaningful)
    return replace(
        call,
        data=data,
        indices=indices,
        updates=updates,
        reduction=reduction,
        use_init_val=reduction == "none" or truth(caller, "use_init_val", call.use_init_val),
        arithmetic=reductions.for_core(data.dtype, reduction),
    )


def choice(caller: str, option: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the choice that a string names; one of a subclass may compare as it likes."""
    word = str.__str__(value) if isinstance(value, str) else ""
    if word not in choices:
        raise option_errors.unknown_choice(caller, option, value, choices)
    return word


def truth(caller: str, option: str, value: object) -> bool:
    """Return an option that is true or false."""
    try:
        return bool(value)
    except MemoryError:
        raise
    except Exception as error:
        raise option_errors.option_not_boolean(caller, option, value) from error


def _gather_references(call: Call) -> Array:
    """Gather elements that are references or have no bytes.

    The core finds the positions; NumPy copies the elements and counts the references.
    """
    data = call.data
    positions = np.arange(data.size).reshape(data.shape)
    fills = choice(call.caller, "mode", call.mode, _core.GATHER_MODES) == "fill"
    fill = np.array(-1, positions.dtype) if fills else None
    where = _run_plain(replace(call, data=positions, fill_value=fill, out=None))
    flat, flat_where = data.reshape(-1), where.reshape(-1)
    if not fills:
        return flat[flat_where].reshape(where.shape)  # type: ignore[no-any-return]  # an array
    result = np.empty(flat_where.shape, data.dtype)
    result[...] = np.zeros((), data.dtype) if call.fill_value is None else call.fill_value
    inside = flat_where >= 0
    result[inside] = flat[flat_where[inside]]
    return result.reshape(where.shape)


def _scatter_references(call: Call) -> Array:
    """Scatter elements that are references or have no bytes; of several updates the last counts."""
    data, updates = call.data, call.updates
    numbers = np.arange(updates.size).reshape(updates.shape)
    last = _run_plain(replace(call, data=np.full(data.shape, -1), updates=numbers, out=None))
    result: Array = data.copy()
    written = last >= 0
    result[written] = updates.reshape(-1)[last[written]]
    return result


def is_one_step(call: Call) -> bool:
    """Whether the core can carry out a scatter of plain arrays at once."""
    if call.reduction == "none":
        return True
    return bool(call.use_init_val and call.reduction != "mean" and call.data.dtype.isnative)


def _scatter_in_steps(call: Call) -> Array:
    """Reduce in a copy of data, in native byte order."""
    dtype = call.data.dtype
    native = dtype.newbyteorder("=")
    data: Array = call.data.astype(native, order="C")
    updates: Array = call.updates.astype(native, copy=False)

    def apply(data: Array, updates: Array, reduction: str, arithmetic: object) -> None:
        _run_plain(
            replace(
                call,
                data=data,
                updates=updates,
                out=data,
                reduction=reduction,
                arithmetic=arithmetic,
                use_init_val=True,
            )
        )

    reductions.in_steps(data, updates, call.reduction, call.use_init_val, apply)
    return data.astype(dtype, copy=False)
