"""The logger ``ndgather``: silent until a program gives it a handler, as ``--verbose`` does.

INFO says which model or store is worked on, where, and how long that took; WARNING, what somebody
may not expect: another runtime than the usual one, a difference that was accepted, a runtime that
crashed. Nothing is logged of a call on arrays in memory.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("ndgather")
LOGGER.addHandler(logging.NullHandler())


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
