"""The constants of an IR, and the shapes and types that layers declare for them.

A constant is looked for only inside its file, and its size is held to its type and shape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import constant_errors, ir_errors
from ndgather.errors.file_errors import unreadable
from ndgather.models.openvino.element_types import BY_NAME, ElementType, array_from, stored_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from ndgather.models.openvino.network import Layer

Array = NDArray[Any]

HIGHEST_RANK = 64
LARGEST_SIZE = 2**63 - 1
SIZE = re.compile(r"[0-9]{1,19}")


def declared_shape(text: str) -> tuple[tuple[int, int | None], ...] | None:
    """Return the least and the greatest size of each axis that a `shape` attribute names.

    None is an unknown rank, and a greatest size of None is none. A size is ``4``, ``-1``,
    ``?``, or a range as ``1..5``, ``..5``, ``1..``.

    Raises
    ------
    ValueError
        The text is not a shape.
    """
    text = text.strip()
    if text == "...":
        return None
    return tuple(_bounds(each.strip()) for each in text.split(",")) if text else ()


def _bounds(text: str) -> tuple[int, int | None]:
    if text in {"?", "-1"}:
        return 0, None
    least, dots, most = text.partition("..")
    for part in (least, most):
        if part and not (SIZE.fullmatch(part) and int(part) <= LARGEST_SIZE):
            raise ValueError(text)
    if not dots:
        return int(least), int(least)
    low, high = int(least or 0), int(most) if most else None
    if high is not None and low > high:
        raise ValueError(text)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The file of constants of an IR; it is opened where a constant is asked for.

    Without a path there is no such file, and no constant that takes bytes can be read.
    """

    path: Path | None

    def find(self, layer: Layer) -> tuple[ElementType, tuple[int, ...], int]:
        """Return the type of a Const layer, its shape, and where it begins in the file.

        Raises
        ------
        FileError, ModelError, AttributeValueError
            The layer does not say where and what it is, or the file does not hold that.
        """
        element, shape = constant_type(layer)
        offset, size = (self._count(layer, name) for name in ("offset", "size"))
        needed = stored_bytes(element, shape)
        if element.bits and size != needed and not (needed == 0 and size <= 1):
            raise constant_errors.constant_size(size, needed, shape, element.name)
        path = self._file()
        try:
            file_bytes = path.stat().st_size
        except (OSError, ValueError) as error:  # ValueError: a NUL in its name
            raise unreadable(path, error) from error
        if offset + size > file_bytes:
            raise constant_errors.beyond_constants(path, offset, size, file_bytes)
        return element, shape, offset

    def read(self, layer: Layer) -> Array:
        """Return the array of a Const layer, memory-mapped where its type allows it.

        Raises
        ------
        FileError, ModelError, AttributeValueError, DTypeError, ShapeError
            The file does not hold it, or there is no such array.
        """
        element, shape, offset = self.find(layer)
        needed = stored_bytes(element, shape)
        try:
            content = (
                np.memmap(self._file(), np.uint8, "r", offset, (needed,))
                if needed
                else np.zeros(0, np.uint8)
            )
        except OSError as error:
            raise unreadable(self._file(), error) from error
        try:
            return array_from(element, shape, np.asarray(content))
        except ValueError as error:  # an empty array may have sizes that no array has
            raise constant_errors.constant_too_large(shape, element.name) from error

    def _file(self) -> Path:
        if self.path is None:
            raise constant_errors.no_constants()
        return self.path

    def _count(self, layer: Layer, name: str) -> int:
        text = layer.attributes.get(name, "")
        if not SIZE.fullmatch(text):
            raise ir_errors.bad_attribute(name, text, ("a whole number",))
        return int(text)


def constant_type(layer: Layer) -> tuple[ElementType, tuple[int, ...]]:
    """Return the element type and the shape that a Const layer declares."""
    element = BY_NAME.get(layer.attributes.get("element_type", ""))
    if element is None:
        raise ir_errors.bad_attribute(
            "element_type", layer.attributes.get("element_type", ""), BY_NAME
        )
    text = layer.attributes.get("shape", "")
    try:
        bounds = declared_shape(text)
    except ValueError:
        bounds = None
    if bounds is None or len(bounds) > HIGHEST_RANK or any(low != high for low, high in bounds):
        raise ir_errors.bad_attribute("shape", text, ("sizes with commas between them",))
    return element, tuple(low for low, _ in bounds)
