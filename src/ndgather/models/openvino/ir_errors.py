"""What can be wrong with an OpenVINO IR: the texts, in the form of those in `ndgather.errors`.

The functions build exceptions; they never raise them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, NdgatherError, ShapeError
from ndgather.errors.shape_errors import shown
from ndgather.models.errors import ModelError, listed, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST_QUOTE = 40


def quoted(text: str) -> str:
    """Write a text from a file on one line of bearable length."""
    return repr(text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}...")


def plain(text: str) -> str:
    """Write a text from a file as it is, if that is one line of bearable length."""
    return text if text.isprintable() and len(text) <= LONGEST_QUOTE else quoted(text)


def beyond_limit(path: object, what: str, limit: str) -> ModelError:
    return ModelError(f"{path}: {what} is beyond what is read (allowed: at most {limit})")


def document_type(path: object) -> ModelError:
    return ModelError(
        f"{path}: has a document type or an entity, which can grow without end or name other "
        f"files (allowed: elements, attributes and text)"
    )


def not_xml(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be read as XML: {reason(error)}")


def not_ir(path: object, tag: str) -> ModelError:
    return ModelError(
        f"{path}: is no OpenVINO IR: its root is {quoted(tag)} (allowed: net, or a single layer)"
    )


def bad_element(path: object, where: str, name: str, text: str, allowed: str) -> ModelError:
    return ModelError(f"{path}: {where}: {name} = {quoted(text)} is no value (allowed: {allowed})")


def in_layer(error: NdgatherError, layer: str, kind: str) -> NdgatherError:
    """Say in which layer an exception arose; it stays what it is."""
    error.args = (f"{layer} ({kind}): {error}",)
    return error


def layer_not_run(layer: str, kind: str, version: str, kinds: Iterable[str]) -> ModelError:
    return ModelError(
        f"{layer}: type = {quoted(kind)}{f' of {quoted(version)}' if version else ''} is not run "
        f"(allowed: {listed(kinds)})"
    )


def broken_wiring(where: str, what: str) -> ModelError:
    return ModelError(f"{where}: {what}")


def wrong_ports(inputs: int, outputs: int, inputs_wanted: int, outputs_wanted: int) -> ModelError:
    return ModelError(
        f"ports = {inputs} input and {outputs} output are not those of the operation "
        f"(allowed: {inputs_wanted} input and {outputs_wanted} output)"
    )


def no_operation_set(version: str) -> AttributeValueError:
    return AttributeValueError(
        f"version = {quoted(version)} is no operation set (allowed: opset1, opset2, ...)"
    )


def bad_attribute(name: str, text: str, allowed: Iterable[str]) -> AttributeValueError:
    return AttributeValueError(f"{name} = {quoted(text)} is unknown (allowed: {listed(allowed)})")


def constant_size(size: int, needed: int, shape: Sequence[int], element: str) -> ModelError:
    return ModelError(
        f"size = {size} is not the bytes of {element} {shown(shape)} (allowed: {needed})"
    )


def no_constants() -> ModelError:
    return ModelError(
        "the file of constants is not known (allowed: the path of the model, or of its constants)"
    )


def constant_too_large(shape: Sequence[int], element: str) -> ShapeError:
    return ShapeError(f"shape = {shown(shape)} of {element} is more than an array can have")


def beyond_constants(path: object, offset: int, size: int, file_bytes: int) -> ModelError:
    return ModelError(
        f"offset = {offset} and size = {size} lead beyond the end of {path} "
        f"(allowed: at most {file_bytes} bytes)"
    )


def constant_type(element: str) -> DTypeError:
    return DTypeError(
        f"element_type = {element} is not read in constants (allowed: booleans, integers of 2, 4, "
        f"and 8 to 64 bits, floats of 4 to 64 bits)"
    )


def not_writable(name: str) -> ModelError:
    return ModelError(
        f"name = {name!r} has a character that XML cannot hold (allowed: printable characters)"
    )


def no_element_type(name: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{name}: dtype = {dtype} is no element type that is written (allowed: "
        f"booleans, integers, floats)"
    )
