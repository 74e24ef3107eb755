"""Every exception that ndgather raises.

A text reads ``<function>: <argument>[<where>] = <value> <what is wrong> (<what is allowed>)``.
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
    """The base class of the exceptions of this package."""

    if not TYPE_CHECKING:  # mypy would forget the classes
        __init__ = Exception.__init__  # so that `tf.function`, which adds a text, keeps the class


class ShapeError(NdgatherError, ValueError):
    """The shapes of two arguments do not fit each other."""


class DTypeError(NdgatherError, TypeError):
    """An argument has a type that the operation does not support."""


class AttributeValueError(NdgatherError, ValueError):
    """An option (`batch_dims`, `axis`, `mode`, `out`, ...) has a value that is not allowed."""


class ModelError(NdgatherError, ValueError):
    """A model cannot be read, got wrong inputs, or failed in one of its nodes."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))  # paths and names from files may hold anything


class NotLoadedError(ModelError):
    """A runtime does not load a model."""


class FileError(NdgatherError, OSError):
    """A file of tensors or a model cannot be read or written."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))  # it begins with a path, which may hold anything


class StoredArrayError(NdgatherError, OSError):
    """A chunk of a stored array cannot be read or written; its cause is ``__cause__``.

    Attributes
    ----------
    name : str
        What the array is called.
    chunk : tuple of int
        The number of the chunk along each axis.
    box : tuple of slice
        The part of the array that the chunk holds.
    written : tuple of tuple of int
        The numbers of the chunks that a scatter wrote before.
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
    """An argument is missing, passed twice, or not one of the function."""


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

    def __str__(self) -> str:  # that of KeyError is the repr of the text
        return str(self.args[0])


class IndexOutOfBoundsError(NdgatherError, IndexError):
    """An entry of `indices` is out of bounds of the axis of data that it addresses.

    Attributes
    ----------
    position : tuple of int
        The position in `indices` of the first bad entry, in C order.
    value : int or float
        The entry; a float where `checked_indices` finds a value that an operator does not allow.
    axis : int
        The axis of data that it addresses; 0 in errors of xarray, whose texts name the dimension.
    size : int
        The size of that axis.
    count : int
        The number of entries of `indices` that are out of bounds.
    operator, argument, module, file : str
        Set by `checked_indices`: the operator of torch, its argument with the entry, the path of
        the module, and the file of the program that called it; empty where unknown.
    line : int
        The line of that file.
    user_file : str
        The innermost file that is not in an installed package: `file`, or what called it.
    user_line : int
        The line of that file.
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
