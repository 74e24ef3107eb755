"""Calls that the core does not take: they are converted and made again, or an error is raised.

The core takes NumPy arrays in native byte order. Adapters take the arrays of other libraries;
lists, subclasses and other byte orders are converted here. Object arrays, ``reduction="mean"`` and
``use_init_val=False`` go by rows (`ndgather.arrays.rows`); the last two take several scatters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndgather import arguments, dtypes, exchange, windows
from ndgather.array_call import Call, Kind, _core, with_padding

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

_UFUNCS: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_QUOTIENTS = 2**12  # that are computed at a time
_IDENTITIES = {"add": False, "sub": False, "mul": True, "mean": False}  # of all dtypes: 0 or 1


def handle_refusal(kind: str, refusal: _core.Refusal, *values: Any) -> Array:
    """Return the result of a call that the core refused, or raise the error that says why."""
    fast_path = exchange.FAST_PATHS.get(type(values[0]))
    if fast_path is not None and refusal.rule != "out_of_bounds":
        result = fast_path(kind, *values)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # an array of its library
    call = Call(kind, Kind(kind), *values)
    if refusal.rule not in ("fallback", "out_overlaps_input", "out_type"):
        arguments.raise_error(call, refusal)
    return run(call)


def run(call: Call) -> Array:
    """Carry out a call with arguments of any type."""
    call = arguments.check_storage_options(call)
    adapter = exchange.adapter(call.data, call.indices, call.updates, call.out)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # an array of its library
    plain = plain_scatter(call, any_start=True) if call.scatters else _plain_gather(call)
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=arguments.plain_array(call.caller, "out", call.out))
    references = plain.data.dtype.hasobject or plain.data.itemsize == 0
    if references or (call.scatters and not _is_one_step(plain)):
        result: Array = exchange.by_rows().run(plain)
    else:
        result = run_plain(plain)
    return result if call.out is None else call.out


def run_plain(call: Call) -> Array:
    """Make a call whose arguments the core takes."""
    result = windows.run(call) if call.kind.windows else call.run()
    if isinstance(result, _core.Refusal):
        if result.rule != "out_overlaps_input":
            arguments.raise_error(call, result)
        overlapping = {
            name: value.copy()
            for name in ("indices", "updates")
            if (value := getattr(call, name)) is not None and np.may_share_memory(value, call.out)
        }
        if call.scatters and overlapping:  # else `out` overlaps data in another place
            return run_plain(replace(call, **overlapping))
        result = run_plain(replace(call, out=None))
    return deliver(call, result)


def deliver(call: Call, result: Array) -> Array:
    """Return a result, in `out` if there is one."""
    if call.out is None or result is call.out:
        return result
    arguments.check_plain_out(call, result.shape)
    np.copyto(with_padding(call.out), with_padding(result))
    return call.out  # type: ignore[no-any-return]  # an array, as the core has checked


def _is_one_step(call: Call) -> bool:
    """Whether the core can carry out a scatter of NumPy arrays at once."""
    if call.reduction == "none":
        return True
    return bool(call.use_init_val and call.reduction != "mean" and call.data.dtype.isnative)


def scatter_in_steps(call: Call) -> Array:
    """Reduce in a copy of data, in native byte order."""
    dtype = call.data.dtype
    native = dtype.newbyteorder("=")
    data: Array = call.data.astype(native, order="C")
    updates: Array = call.updates.astype(native, copy=False)

    def apply(data: Array, updates: Array, reduction: str) -> None:
        arithmetic = core_arithmetic(data.dtype, reduction)
        step = replace(call, data=data, updates=updates, out=data, reduction=reduction)
        run_plain(replace(step, arithmetic=arithmetic, use_init_val=True))

    library = InPlace(apply)
    in_steps(library, data, updates, call.reduction, call.use_init_val)
    return data.astype(dtype, copy=False)


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices or windows that `call` names; only shapes are used."""
    if call.kind.windows:
        windows.check_shapes(call)
        window = call.window_shape
        return (*call.indices.shape[:-1], *window, *call.data.shape[len(window) :])
    axis, batch_dims = (arguments.integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, call.data.shape, call.indices.shape, axis, batch_dims)
    if refusal.rule != "none":
        arguments.raise_error(call, refusal)
    return refusal.slices


def _plain_gather(call: Call) -> Call:
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call.caller, call.indices, call.indices_name)
    return arguments.checked(replace(call, data=data, indices=indices), data.dtype)


def plain_scatter(call: Call, *, any_start: bool = False) -> Call:
    """Return a scatter with NumPy arrays, and with its options checked by `arguments.checked`."""
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call.caller, call.indices)
    updates = arguments.plain_updates(call.caller, call.updates, data.dtype, call.updates_name)
    call = replace(call, data=data, indices=indices, updates=updates)
    call = arguments.checked(call, data.dtype, any_start=any_start)
    return replace(call, arithmetic=core_arithmetic(data.dtype, call.reduction))


def core_arithmetic(dtype: np.dtype[Any], reduction: str) -> Array | str | None:
    """Return the argument `arithmetic` of the core: `byte_results`, the name bfloat16, or None."""
    if dtype.name == dtypes.BFLOAT16:
        return dtypes.BFLOAT16
    if dtype.isbuiltin == dtypes.REGISTERED and reduction not in ("none", "mean"):
        return byte_results(dtype, reduction)
    return None


@lru_cache(maxsize=64)
def byte_results(dtype: np.dtype[Any], reduction: str) -> NDArray[np.uint8]:
    """Return the byte of the result for the byte of an element (row) and of an update (column)."""
    old, update = (
        dtypes.every_element(dtype)[:, np.newaxis],
        dtypes.every_element(dtype)[np.newaxis, :],
    )
    with np.errstate(all="ignore"):
        if reduction in _UFUNCS:
            result = _UFUNCS[reduction](old, update)
        elif reduction in ("min", "max"):  # a NaN wins, and of equal elements the old one stays
            a, b = old.astype(np.float64), update.astype(np.float64)
            wins = b < a if reduction == "min" else b > a
            result = np.where(~np.isnan(a) & (wins | np.isnan(b)), update, old)
        else:
            raise AssertionError(f"reduction {reduction!r} has no results for pairs of bytes")
    results = np.ascontiguousarray(result).view(np.uint8).reshape(-1)
    results.setflags(write=False)
    return results


def identity(dtype: np.dtype[Any], reduction: str) -> Array:
    """Return the identity of a reduction: combined with an element, it gives that element."""
    if reduction in ("min", "max"):
        return dtypes.extremes(dtype)[1 if reduction == "min" else 0, ...]
    if reduction not in _IDENTITIES:
        raise AssertionError(f"reduction {reduction!r} has no identity")
    return np.array(_IDENTITIES[reduction]).astype(dtype)


def quotient(totals: Array, counts: NDArray[np.int64]) -> Array:
    """Return ``totals / counts`` in the dtype of `totals`; integers are rounded down."""
    dtype = totals.dtype
    kind = dtypes.number_kind(dtype)
    if kind == "c":
        result = np.empty_like(totals)
        result.real = quotient(totals.real, counts)
        result.imag = quotient(totals.imag, counts)
        return result
    with np.errstate(all="ignore"):
        if kind == "i":
            wide = np.dtype("u8" if dtype.kind == "u" else "i8")
            result = totals.astype(wide) // counts.astype(wide)
        else:
            result = totals.astype("g" if dtype.char == "g" else "d") / counts.astype("d")
        return result.astype(dtype)


class StepLibrary(Protocol):
    """What `in_steps` needs of a library of arrays."""

    def scatter(self, data: Any, updates: Any, reduction: str) -> Any:
        """Return `data` with `updates` at the indices of the call; `data` may be changed."""

    def identity(self, updates: Any, reduction: str) -> Any:
        """Return an array like `updates` that is filled with the identity of a reduction."""

    def counts(self, data: Any, count: int) -> Any:
        """Return integers of the shape of `data`, all equal to `count`, to scatter into."""

    def ones(self, updates: Any) -> Any:
        """Return integers of the shape of `updates`, all 1."""

    def quotient(self, totals: Any, counts: Any, where: Any) -> Any:
        """Return ``totals / counts`` as `quotient` does, where `where` is true, else `totals`."""


def in_steps(
    library: StepLibrary, data: Any, updates: Any, reduction: str, use_init_val: bool
) -> Any:
    """Reduce by several scatters: to a mean, or from the identity of the reduction."""
    if not use_init_val:
        data = library.scatter(data, library.identity(updates, reduction), "none")
    if reduction != "mean":
        return library.scatter(data, updates, reduction)
    totals = library.scatter(data, updates, "add")
    first = int(use_init_val)
    counts = library.scatter(library.counts(data, first), library.ones(updates), "add")
    return library.quotient(totals, counts, counts > first)


@dataclass(frozen=True, slots=True)
class InPlace:
    """Arrays of NumPy, which `apply(data, updates, reduction)` changes by one scatter."""

    apply: Callable[[Array, Array, str], None]

    def scatter(self, data: Array, updates: Array, reduction: str) -> Array:
        self.apply(data, updates, reduction)
        return data

    def identity(self, updates: Array, reduction: str) -> Array:
        return np.broadcast_to(identity(updates.dtype, reduction), updates.shape)

    def counts(self, data: Array, count: int) -> Array:
        return np.full(data.shape, count)

    def ones(self, updates: Array) -> Array:
        return np.broadcast_to(np.int64(1), updates.shape)

    def quotient(self, totals: Array, counts: Array, where: Array) -> Array:
        writes: Any = [["readwrite"], ["readonly"], ["readonly"]]
        flags: Any = ["external_loop", "buffered", "zerosize_ok"]
        blocks = np.nditer([totals, counts, where], flags, writes, buffersize=_QUOTIENTS)
        with blocks:
            for total, count, is_counted in blocks:
                total[is_counted] = quotient(total[is_counted], count[is_counted])
        return totals
