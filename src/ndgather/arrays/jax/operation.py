"""What is done with arrays of JAX: an operation, the route that it takes, and a run in the core."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ndgather import messages, reductions, refusals
from ndgather.array_call import Call, _core
from ndgather.arrays.lowering import layout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is done with data, indices and updates. Axes count from 0, those of vmap included."""

    caller: str  # the name that error texts begin with
    kind: str  # one of _core.KINDS
    axis: int = 0
    batch_dims: int = 0
    mode: str = "raise"  # drop is fill
    reduction: str = "none"
    negative: bool = True  # whether negative index values count from the end
    fill: bytes = b""  # the element for mode fill; none are zeros
    window_shape: tuple[int, ...] = ()
    lead: int = 0  # so many leading axes are of vmap: an array of size 1 there is repeated
    skip: int = 0  # so many axes of data are not the caller's
    route: str = "handler"  # what carries it out on a CPU

    @property
    def scatters(self) -> bool:
        return self.kind.startswith("scatter")

    def batched(self) -> Operation:
        """Return the operation on arrays that have one more axis of vmap in front."""
        return replace(
            self,
            axis=self.axis + 1,
            batch_dims=self.batch_dims + 1,
            lead=self.lead + 1,
            skip=self.skip + 1,
        )

    def sizes_of_lead(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the sizes of the axes of vmap."""
        pairs = zip(data[: self.lead], indices[: self.lead], strict=True)
        return tuple(size if repeated == 1 else repeated for size, repeated in pairs)

    def slices_shape(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of the slices that indices name, for shapes that fit."""
        lead = self.sizes_of_lead(data, indices)
        return tuple(layout_of(self, data, (*lead, *indices[self.lead :])).result)

    def call(self, data: Any, indices: Any) -> Call:
        """Return the operation as a call, without updates."""
        return Call(
            self.caller,
            self.kind,
            data,
            indices,
            axis=self.axis,
            batch_dims=self.batch_dims,
            mode="drop" if self.scatters and self.mode == "fill" else self.mode,
            reduction=self.reduction,
            fill_value=np.frombuffer(self.fill, data.dtype)[0, ...] if self.fill else None,
            negative=self.negative,
            window_shape=self.window_shape,
        )


ROUTES = ("handler", "callback", "native")


def usable(handler: tuple[Any, int, int] | None) -> Any:
    """Return a handler if XLA takes it: with a newer one JAX does not start at all.

    A handler has the version of the interface that it was built for; that of the installed jaxlib
    is in its headers.
    """
    if handler is None:
        return None
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    text = header.read_text() if header.exists() else ""
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    made, major, minor = handler
    fits = int(found.get("MAJOR", -1)) == major and int(found.get("MINOR", -1)) >= minor
    return made if fits else None


HANDLER = usable(_core.jax_handler)
_AVAILABLE = ROUTES if HANDLER is not None else ROUTES[1:]


def _checked(name: str, value: str) -> str:
    if value not in _AVAILABLE:
        raise messages.unknown_choice("arrays.jax", name, value, _AVAILABLE)
    return value


_route = _checked("NDGATHER_JAX_ROUTE", os.environ.get("NDGATHER_JAX_ROUTE", _AVAILABLE[0]))


def get_route() -> str:
    """Return who carries out calls on a CPU; see `set_route`."""
    return _route


def set_route(route: str) -> None:
    """Choose who carries out the calls that JAX traces from now on, where they run on a CPU.

    The environment variable ``NDGATHER_JAX_ROUTE`` chooses it before the first call.

    Parameters
    ----------
    route : {"handler", "callback", "native"}
        ``handler`` is the function of the core that XLA calls, where the core was built with it;
        ``callback`` is `jax.pure_callback`, which calls the core through Python; ``native`` are
        the gather and scatter of XLA, as on a GPU or TPU.

    Raises
    ------
    AttributeValueError
        `route` is none of them, or the core has no handler for the installed jaxlib.

    Examples
    --------
    >>> from ndgather.arrays.jax import get_route, set_route
    >>> before = get_route()
    >>> set_route("native")
    >>> get_route()
    'native'
    >>> set_route(before)
    """
    global _route  # noqa: PLW0603 - one setting for the process, as settings.py has them
    _route = _checked("route", route)


def run(op: Operation, data: Array, indices: Array, updates: Array | None = None) -> Array:
    """Carry out an operation in the core; an error names no axis of vmap that repeats an array."""
    lead = op.sizes_of_lead(data.shape, indices.shape)

    def whole(array: Array) -> Array:
        return np.broadcast_to(array, (*lead, *array.shape[op.lead :]))

    call = op.call(whole(data), whole(indices))
    if updates is not None:
        arithmetic = reductions.for_core(data.dtype, op.reduction)
        call = replace(call, updates=whole(updates), arithmetic=arithmetic)
    result = call.run()
    if not isinstance(result, _core.Refusal):
        return result
    if result.rule != "out_of_bounds":
        refusals.raise_error(call, result)
    position, value, axis, size, lowest, count, total = result.facts
    repeated = [d for d in range(op.lead) if indices.shape[d] == 1]
    times = int(np.prod([lead[d] for d in repeated]))
    where = tuple(at for d, at in enumerate(position) if d not in repeated)
    facts = (where, value, axis - op.skip, size, lowest, count // times, total // times)
    raise refusals.out_of_bounds(call, facts)
