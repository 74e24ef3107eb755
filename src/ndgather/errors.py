"""The exceptions that ndgather raises.

Messages have the form ``<function>: <argument>[<where>] = <value> <problem> (<what is allowed>)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "AttributeValueError",
    "CallError",
    "DTypeError",
    "ExtraMissingError",
    "FileError",
    "IndexOutOfBoundsError",
    "LabelError",
    "ModelError",
    "NdgatherError",
    "ShapeError",
    "StoredArrayError",
]


def one_line(text: str) -> str:
    """Escape newlines and terminal control characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class NdgatherError(Exception):
    """The base class of all ndgather exceptions."""

    if not TYPE_CHECKING:  # mypy would lose the parameter types
        __init__ = Exception.__init__  # so that `tf.function` extends messages and keeps the class


class ShapeError(NdgatherError, ValueError):
    """The shapes of two arguments do not match."""


class DTypeError(NdgatherError, TypeError):
    """An argument has a type that the operation does not support."""


class AttributeValueError(NdgatherError, ValueError):
    """An option (`batch_dims`, `axis`, `mode`, `out`, ...) has a value that is not allowed."""


class ModelError(NdgatherError, ValueError):
    """A model cannot be read, received invalid inputs, or failed in a node."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))  # paths and names may contain control characters


class NotLoadedError(ModelError):
    """A runtime cannot load a model."""


class FileError(NdgatherError, OSError):
    """A file of tensors or a model cannot be read or written."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))  # paths may contain control characters


class StoredArrayError(NdgatherError, OSError):
    """A chunk of a stored array cannot be read or written.

    The store's exception is available as ``__cause__``.

    Attributes
    ----------
    name : str
        The name of the array.
    chunk : tuple of int
        The index of the chunk along each axis.
    box : tuple of slice
        The region of the array that the chunk covers.
    written : tuple of tuple of int
        The chunks that a scatter had written before.
    """

    def __init__(
        self,
        text: str,
        *,
        name: str = "",
        chunk: tuple[int, ...] = (),
        box: tuple[slice, ...] = (),
    ) -> None:
        super().__init__(text)
        self.name = name
        self.chunk = chunk
        self.box = box
        self.written: tuple[tuple[int, ...], ...] = ()


class ExtraMissingError(NdgatherError, ImportError):
    """An optional package is not installed."""


class CallError(NdgatherError, TypeError):
    """An argument is missing, passed twice, or unknown."""


class LabelError(NdgatherError, KeyError):
    """A label is not on its axis, or the labels of an axis cannot be searched.

    Attributes
    ----------
    position : tuple of int
        The position of the first label that was not found, in C order.
    count : int
        The number of labels that were not found.
    """

    def __init__(self, text: str, *, position: tuple[int, ...] = (), count: int = 0) -> None:
        super().__init__(text)
        self.position = position
        self.count = count

    def __str__(self) -> str:  # `KeyError.__str__` would return the repr of the message
        return str(self.args[0])


class IndexOutOfBoundsError(NdgatherError, IndexError):
    """An entry of `indices` is out of bounds.

    Attributes
    ----------
    position : tuple of int
        The position in `indices` of the first bad entry, in C order.
    value : int or float
        The bad entry. A float if `checked_indices` found a value that an operator does not allow.
    axis : int
        The axis of data that the entry indexes; 0 in errors of xarray, whose messages name the
        dimension.
    size : int
        The size of that axis.
    count : int
        The number of out-of-bounds entries.
    operator, argument, module, file : str
        Set by `checked_indices`: the torch operator, its argument that contains the entry, the path
        of the module, and the source file that called the operator; empty if unknown.
    line : int
        The line in `file`.
    user_file : str
        The innermost calling file outside installed packages.
    user_line : int
        The line in `user_file`.
    """

    def __init__(
        self,
        text: str,
        *,
        position: tuple[int, ...] = (),
        value: float = 0,
        axis: int = 0,
        size: int = 0,
        count: int = 0,
        operator: str = "",
        argument: str = "",
        module: str = "",
        file: str = "",
        line: int = 0,
        user_file: str = "",
        user_line: int = 0,
    ) -> None:
        super().__init__(text)
        self.position = position
        self.value = value
        self.axis = axis
        self.size = size
        self.count = count
        self.operator = operator
        self.argument = argument
        self.module = module
        self.file = file
        self.line = line
        self.user_file = user_file
        self.user_line = user_line
