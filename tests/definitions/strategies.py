"""The draws of `tests.definitions.draws` as Hypothesis strategies: failures are shrunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.definitions import draws

if TYPE_CHECKING:
    import numpy as np

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


def arranged_in(
    memory: draws.Array, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> st.SearchStrategy[draws.Array]:
    """Draw a view near the beginning of `memory`; see `draws.arranged_in`."""

    def placed(random: Any) -> draws.Array:
        made = draws.arranged_in(random, memory, shape, dtype)
        assume(made is not None)
        assert made is not None
        return made

    return _CHOICES.map(placed)
