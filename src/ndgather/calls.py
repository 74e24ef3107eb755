"""A call on its way to the core, and what follows when the core refuses it.

The core takes plain NumPy arrays and nothing else, and answers a call that it does not carry out
with a rule and a few numbers. Here a refused call is converted and made again, carried out another
way, or explained: the words are those of `errors`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ndgather import _core, arithmetic, conversion, refusals
from ndgather.errors import argument_errors, option_errors, shape_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(ABC):
    """The arguments of one call, for one function of the core."""

    modes: ClassVar[tuple[str, ...]]
    array_names: ClassVar[tuple[str, ...]]

    caller: str  # the name that error texts begin with
    function: Callable[..., Array]
    data: Any
    indices: Any
    options: tuple[Any, ...]  # the numbers among the arguments
    option_names: tuple[str, ...]
    mode: Any = "raise"
    out: Any = None
    negative: bool = True  # whether negative values count from the end
    held: bool = False  # whether the shapes of the arrays are out of the reach of other threads

    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments in the order of the core."""

    @abstractmethod
    def convert(self) -> Array:
        """Make the call with plain arrays in native byte order, as the core takes them."""

    @abstractmethod
    def move_references(self) -> Array:
        """Make the call for elements that are references, or have no bytes.

        The core works on places; NumPy copies the elements, and counts the references.
        """

    @abstractmethod
    def result_shape(self) -> tuple[int, ...]:
        """Return the shape of the result of a call whose shapes fit."""

    def run(self) -> Array:
        """Make the call; whatever the core refuses is converted, or raised with its reason."""
        try:
            return self.function(*self.arguments())
        except _core.Refused as refused:
            return self.answer(refused)

    def answer(self, refused: _core.Refused) -> Array:
        """Carry out a refused call another way, or raise the exception that says why not."""
        rule, *facts = refused.args
        if rule == _core.CONVERT:
            if isinstance(self.out, np.ndarray) and type(self.out) is not np.ndarray:
                out = conversion.plain_array(self.caller, "out", self.out)
                replace(self, out=out).run()
                return self.out
            return self.convert()
        if rule == _core.REFERENCES:
            return self.move_references()
        if rule == _core.OUT_OVERLAPS_INPUT:
            return self.deliver(replace(self, out=None).run())
        held = self.hold()
        if rule == _core.OUT_OF_BOUNDS or self.held:
            raise refusals.explain(rule, facts, held) from None
        # Another thread may have set a shape since: what does not fit is looked at once more.
        result = held.run()
        return result if self.out is None else self.out

    def hold(self) -> Self:
        """Return this call with views of its arrays, which have shapes of their own."""
        given = ((name, getattr(self, name)) for name in self.array_names)
        views: dict[str, Any] = {
            name: array.view() for name, array in given if type(array) is np.ndarray
        }
        return replace(self, held=True, **views)

    def slices_shape(self) -> tuple[int, ...]:
        """Return the shape of all slices that the indices name."""
        data, indices = self.data.shape, self.indices.shape
        if self.option_names == ("axis",):
            return indices  # type: ignore[no-any-return]  # Call.indices is an array by now
        if self.option_names == ("batch_dims",):
            (batch_dims,) = self.options
            return (*indices[:-1], *data[batch_dims + indices[-1] :])
        axis, batch_dims = self.options
        axis %= len(data)
        batch_dims += len(indices) if batch_dims < 0 else 0
        return (*data[:axis], *indices[batch_dims:], *data[axis + 1 :])

    def deliver(self, result: Array) -> Array:
        """Copy a result to `out`, if there is one and it can take it."""
        if self.out is None:
            return result
        if not isinstance(self.out, np.ndarray):
            raise argument_errors.out_not_an_array(self.caller, self.out)
        out = self.out.view(np.ndarray)
        if out.dtype != result.dtype:
            raise argument_errors.out_dtype(self.caller, out.dtype, result.dtype)
        if out.shape != result.shape:
            raise shape_errors.out_shape(self.caller, out.shape, result.shape)
        if not out.flags.writeable:
            raise argument_errors.out_read_only(self.caller)
        if _may_overlap_itself(out):
            raise argument_errors.out_overlaps_itself(self.caller, out.strides)
        np.copyto(out, result)
        return self.out


def _may_overlap_itself(array: Array) -> bool:
    """Whether elements may share memory, by the rule of the core."""
    if array.size == 0:
        return False
    covered = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1 and stride < covered:
            return True
        covered += (size - 1) * stride
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Call):
    """The arguments of one gather."""

    modes: ClassVar[tuple[str, ...]] = ("raise", "wrap", "clip", "fill")
    array_names: ClassVar[tuple[str, ...]] = ("data", "indices", "out")

    fill_value: Any = None

    def arguments(self) -> tuple[Any, ...]:
        return (
            self.data,
            self.indices,
            *self.options,
            self.mode,
            self.fill_value,
            self.out,
            self.negative,
        )

    def convert(self) -> Array:
        return self.converted().run()

    def converted(self) -> Gather:
        data = conversion.plain_array(self.caller, "data", self.data)
        indices = conversion.plain_indices(self.caller, self.indices)
        fill_value = self.fill_value
        if fill_value is not None:
            if self.mode not in self.modes:
                raise option_errors.unknown_choice(self.caller, "mode", self.mode, self.modes)
            if self.mode != "fill":
                raise argument_errors.fill_value_unused(self.caller, self.mode)
            fill_value = conversion.fill_element(self.caller, fill_value, data.dtype)
        return replace(self, data=data, indices=indices, fill_value=fill_value)

    def move_references(self) -> Array:
        call = self.converted()
        data = call.data
        places = np.arange(data.size).reshape(data.shape)
        filling = call.mode == "fill"
        where = replace(
            call, data=places, fill_value=np.array(-1, places.dtype) if filling else None, out=None
        ).run()
        flat_where = where.reshape(-1)
        flat = data.reshape(-1)
        if filling:
            result = np.empty(flat_where.shape, data.dtype)
            result[...] = np.zeros((), data.dtype) if call.fill_value is None else call.fill_value
            inside = flat_where >= 0
            result[inside] = flat[flat_where[inside]]
        else:
            result = flat[flat_where]
        return self.deliver(result.reshape(where.shape))

    def result_shape(self) -> tuple[int, ...]:
        return self.slices_shape()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(Call):
    """The arguments of one scatter."""

    modes: ClassVar[tuple[str, ...]] = ("raise", "wrap", "clip", "drop")
    array_names: ClassVar[tuple[str, ...]] = ("data", "indices", "updates", "out")

    updates: Any
    updates_name: str = "updates"  # what the caller calls them
    reduction: Any = "none"
    use_init_val: bool = True
    arithmetic: Any = None  # what the core has to be told about the type of data

    def arguments(self) -> tuple[Any, ...]:
        return (
            self.data,
            self.indices,
            self.updates,
            *self.options,
            # The core refuses None: the call is then carried out in steps.
            self.reduction if self.use_init_val else None,
            self.mode,
            self.out,
            self.negative,
            self.arithmetic,
        )

    def answer(self, refused: _core.Refused) -> Array:
        rule = refused.args[0]
        if rule in (_core.UPDATES_DTYPE, _core.REDUCTION, _core.REDUCTION_TYPE):
            return self.convert()
        if rule == _core.UPDATES_SHAPE and self.held:
            raise shape_errors.updates_do_not_fit(
                self.caller, self.updates.shape, self.slices_shape(), self.updates_name
            ) from None
        return Call.answer(self, refused)

    def convert(self) -> Array:
        call = self.converted()
        if call.reduction == "none":
            return replace(call, use_init_val=True).run()
        if call.in_one_step():
            return call.run()
        return self.deliver(call.run_steps())

    def converted(self) -> Scatter:
        data = conversion.plain_array(self.caller, "data", self.data)
        indices = conversion.plain_indices(self.caller, self.indices)
        updates = conversion.plain_updates(self.caller, self.updates, data.dtype)
        if not isinstance(self.reduction, str) or self.reduction not in arithmetic.REDUCTIONS:
            raise option_errors.unknown_choice(
                self.caller, "reduction", self.reduction, arithmetic.REDUCTIONS
            )
        meaningful = arithmetic.reductions(data.dtype)
        if self.reduction not in meaningful:
            raise argument_errors.reduction_type(
                self.caller, self.reduction, data.dtype, meaningful
            )
        return replace(
            self,
            data=data,
            indices=indices,
            updates=updates,
            arithmetic=arithmetic.for_core(data.dtype, self.reduction),
        )

    def in_one_step(self) -> bool:
        """Whether the core can do it, given plain arrays and a reduction that has a meaning."""
        return self.use_init_val and self.reduction != "mean" and self.data.dtype.isnative

    def run_steps(self) -> Array:
        """Reduce in a copy of data: in native order, from the identity, to the mean."""
        dtype = self.data.dtype
        native = dtype.newbyteorder("=")
        plain = replace(
            self,
            data=self.data.astype(native, order="C"),
            updates=self.updates.astype(native, copy=False),
            use_init_val=True,
        )
        data: Array = plain.data
        updates: Array = plain.updates
        plain = replace(plain, out=data)
        if not self.use_init_val:
            identity = arithmetic.identity(native, self.reduction)
            start = np.broadcast_to(identity, updates.shape)
            replace(plain, updates=start, reduction="none").run()
        if self.reduction != "mean":
            plain.run()
        else:
            replace(plain, reduction="add").convert()
            first = int(self.use_init_val)
            counts = np.full(data.shape, first)
            ones = np.broadcast_to(np.int64(1), updates.shape)
            replace(plain, data=counts, updates=ones, reduction="add", out=counts).run()
            touched = counts > first
            data[touched] = arithmetic.quotient(data[touched], counts[touched])
        return data.astype(dtype, copy=False)

    def move_references(self) -> Array:
        call = self.converted()
        data, updates = call.data, call.updates
        numbers = np.arange(updates.size).reshape(updates.shape)
        last = replace(call, data=np.full(data.shape, -1), updates=numbers, out=None).run()
        result = data.copy()
        written = last >= 0
        result[written] = updates.reshape(-1)[last[written]]
        return self.deliver(result)

    def result_shape(self) -> tuple[int, ...]:
        return self.data.shape  # type: ignore[no-any-return]  # Call.data is an array by now
