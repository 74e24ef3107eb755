"""Who carries out a call on a CPU: the handler in the core, Python called back by XLA, or XLA."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import jax

from ndgather.compiled import _core
from ndgather.errors import option_errors

ROUTES = ("handler", "callback", "native")


def usable(handler: tuple[Any, int, int] | None) -> Any:
    """Return a handler, if XLA takes it: a newer one would keep JAX from starting at all.

    A handler comes with the version of the interface that it was built for, and the installed
    jaxlib has its own version in its headers.
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
        raise option_errors.unknown_choice("arrays.jax", name, value, _AVAILABLE)
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
