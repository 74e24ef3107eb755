"""The draws of `tests.definitions.draws` as Hypothesis strategies, so that failures shrink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.definitions import draws

if TYPE_CHECKING:
    from tests.definitions.calls import PublicCall

_CHOICES = st.randoms(use_true_random=False)


def calls(function: str, **limits: Any) -> st.SearchStrategy[PublicCall]:
    """Draw small calls; `limits` are the named arguments of `draw_call`.

    Examples
    --------
    >>> from hypothesis import find
    >>> from tests.definitions.strategies import calls
    >>> find(calls("gather", flavours=["value"]), lambda call: call.data.ndim == 2).data.shape
    (1, 1)
    """
    return _CHOICES.map(lambda random: draws.draw_call(random, function, **limits))


def arranged(values: draws.Array, *layouts: Any) -> st.SearchStrategy[draws.Array]:
    """Draw an array equal to `values` in another layout; see `draws.arranged`."""
    return _CHOICES.map(lambda random: draws.arranged(random, values, *layouts))


@st.composite
def overlapping_calls(draw: st.DrawFn, function: str) -> tuple[PublicCall, draws.Array]:
    """Draw a call whose arrays, including `out`, lie in one block of memory and mostly overlap."""
    kind = np.dtype(draw(st.sampled_from(("i1", "u2", "i4", "i8", "c16"))))
    index_kind = np.dtype(draw(st.sampled_from(("i1", "u2", "i4", "i8"))))
    call = draw(calls(function, dtypes=[kind], index_dtypes=[index_kind]))
    memory = np.arange(4096).astype(np.uint8)

    def placed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> draws.Array:
        made = draws.arranged_in(draw(_CHOICES), memory, shape, dtype)
        assume(made is not None)
        assert made is not None
        return made

    data, updates, indices = placed(call.data.shape, kind), call.updates, call.indices
    out = data if call.scatters and draw(st.booleans()) else placed(call.result_shape(), kind)
    if updates is not None:
        updates = placed(updates.shape, kind)
    if draw(st.booleans()):
        indices = placed(call.indices.shape, index_kind)
        indices[...] = call.indices
    options = call.options
    if options.get("mode") == "fill" and out.size and draw(st.booleans()):
        # A fill value in `out`, which must be read before it is overwritten.
        at: Any = np.unravel_index(draw(st.integers(0, out.size - 1)), out.shape)
        options = {**options, "fill_value": out[(*at, ...)]}
    return replace(call, data=data, indices=indices, updates=updates, options=options), out
