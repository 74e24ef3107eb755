"""What can be wrong with a model or a tensor file: the exceptions and their texts.

The texts have the form of those in `ndgather.errors`. The functions build exceptions; they
never raise them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, NdgatherError, ShapeError
from ndgather.errors.shape_errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST_REASON = 300


class ModelError(NdgatherError, ValueError):
    """A model cannot be read, was given the wrong inputs, or failed in one of its nodes."""


class FileError(NdgatherError, OSError):
    """A tensor file cannot be read or written."""


class ExtraMissingError(NdgatherError, ImportError):
    """A package that only some work needs is not installed."""


def extra_missing(extra: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"this needs the package {extra}, which is not installed "
        f"(pip install 'ndgather[{extra}]' brings it)"
    )


def reason(error: BaseException) -> str:
    """Write the text of an exception of another library on one line of bearable length."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def one_line(text: str) -> str:
    """Write a text from a file so that it breaks no line and commands no terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def unreadable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be read: {reason(error)}")


def not_of_its_kind(path: object, kind: str, error: BaseException | None = None) -> FileError:
    why = f": {reason(error)}" if error else ""
    return FileError(f"{path}: is not a whole {kind} file{why}")


def not_a_file(path: object) -> FileError:
    return FileError(f"{path}: cannot be read: is not a regular file")


def too_large(path: object, most: int) -> FileError:
    return FileError(f"{path}: its size is beyond what is read (allowed: at most {most} bytes)")


def holds_objects(path: object) -> FileError:
    return FileError(
        f"{path}: holds pickled Python objects, which are never loaded "
        f"(allowed: numbers, booleans, dates, fixed-width strings and records)"
    )


def unknown_suffix(path: object, suffixes: Iterable[str]) -> FileError:
    return FileError(f"{path}: unknown kind of file (allowed: {listed(suffixes)})")


def no_member(path: object, member: str, members: Iterable[str]) -> FileError:
    return FileError(f"{path}: has no member {member!r} (allowed: {listed(members)})")


def no_arrays(path: object) -> FileError:
    return FileError(f"{path}: holds no arrays")


def member_twice(path: object, member: str) -> FileError:
    return FileError(f"{path}: has several members {member!r} (allowed: one of each name)")


def inflates(place: object, size: int, most: int) -> FileError:
    return FileError(
        f"{place}: would take {size} bytes in memory (allowed: at most {most} out of such an "
        f"archive; a .npy file may be of any size)"
    )


def other_compression(place: object, method: int) -> FileError:
    return FileError(
        f"{place}: is compressed by method {method} (allowed: 0, stored, and 8, deflated)"
    )


def ends_early(place: object, count: int, size: int) -> FileError:
    return FileError(f"{place}: ends after {count} of {size} bytes")


def member_not_named(path: object, members: Iterable[str]) -> FileError:
    return FileError(
        f"{path}: holds several arrays, name one as {path}:MEMBER (allowed: {listed(members)})"
    )


def unreadable_tensor(name: str, error: BaseException) -> FileError:
    return FileError(f"constant {name!r}: cannot be read: {reason(error)}")


def in_constant(name: str, error: FileError) -> FileError:
    return FileError(f"constant {name!r}: {error}")


def in_model(path: object, error: FileError) -> FileError:
    return FileError(f"{path}: {error}")


def tensor_elsewhere(name: str) -> FileError:
    return FileError(
        f"constant {name!r}: cannot be read: it is in another file, and the folder of the model "
        f"is not known (allowed: the path of the model)"
    )


def tensor_place(name: str, location: str) -> FileError:
    return FileError(
        f"constant {name!r}: location = {location!r} is not inside the folder of the model "
        f"(allowed: a file there)"
    )


def tensor_count(name: str, key: str, text: str) -> FileError:
    return FileError(f"constant {name!r}: {key} = {text!r} is not a whole number")


def tensor_dims(name: str, dims: Sequence[int]) -> FileError:
    return FileError(f"constant {name!r}: dims = {shown(dims)} has a negative size")


def tensor_beyond(name: str, path: object, offset: int, length: int, size: int) -> FileError:
    return FileError(
        f"constant {name!r}: bytes {offset}..{offset + length} are not in {path}, which has {size}"
    )


def tensor_length(name: str, length: int, needed: int) -> FileError:
    return FileError(
        f"constant {name!r}: has {length} bytes in its file (allowed: {needed}, by its type and "
        f"dims)"
    )


def functions_call_themselves(name: str, deepest: int) -> ModelError:
    return ModelError(
        f"function {one_line(name)} calls itself, or more functions in one another than are "
        f"followed (allowed: {deepest})"
    )


def too_many_nodes(count: int, most: int) -> ModelError:
    return ModelError(
        f"the model comes to {count} nodes with its functions in place of their calls "
        f"(allowed: at most {most})"
    )


def unwritable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be written: {reason(error)}")


def no_folder(path: object, folder: object) -> FileError:
    return FileError(f"{path}: cannot be written: there is no folder {folder}")


def not_a_regular_file(path: object) -> FileError:
    return FileError(f"{path}: cannot be written: exists and is not a regular file")


def keeps_tensors(path: object, model: object) -> FileError:
    return FileError(f"{path}: cannot be written: {model} keeps tensors there")


def option_of_onnx(option: str, path: object) -> ModelError:
    return ModelError(f"{path}: takes no {option} (allowed: with a result that is .onnx)")


def same_file(name: str, path: object) -> FileError:
    return FileError(
        f"{path}: cannot be written: output {name!r} and another one would both be written there "
        f"(allowed: --output NAME=FILE for each)"
    )


def not_storable(path: object, what: str, kind: str) -> FileError:
    return FileError(f"{path}: cannot be written: {what} cannot be stored in a {kind} file")


def not_a_model(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be read as an ONNX model: {reason(error)}")


def name_is_no_text(path: object, field: str, value: bytes) -> ModelError:
    return ModelError(
        f"{path}: cannot be read as an ONNX model: {field} = {value[:40]!r} is no UTF-8 text"
    )


def unknown_element_type(name: str, number: int) -> DTypeError:
    return DTypeError(f"value {name!r}: elem_type = {number} is no type of ONNX")


def invalid_model(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: is not a valid ONNX model: {reason(error)}")


def cannot_run(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be run: {reason(error)}")


def argument_kind(caller: str, argument: str, value: object, what: str, allowed: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is not {what} (allowed: {allowed})"
    )


def input_not_an_array(name: str, value: object, error: BaseException) -> DTypeError:
    return DTypeError(
        f"{name} is a {type(value).__name__} object, which gives no array: {reason(error)} "
        f"(allowed: an array)"
    )


def missing_inputs(names: Sequence[str], signature: Iterable[object]) -> ModelError:
    verb = "input {} is missing" if len(names) == 1 else "inputs {} are missing"
    return ModelError(
        f"{verb.format(listed(map(repr, names)))} (the model takes: {listed(map(str, signature))})"
    )


def unknown_input(name: str, signature: Iterable[object]) -> ModelError:
    return ModelError(
        f"the model has no input {name!r} (the model takes: {listed(map(str, signature))})"
    )


def unknown_output(name: str, names: Iterable[str]) -> ModelError:
    return ModelError(f"the model has no output {name!r} (the model gives: {listed(names)})")


def not_a_tensor(role: str, name: str, what: str) -> ModelError:
    return ModelError(f"{role} {name!r} is a {what} (allowed: a tensor)")


def input_dtype(name: str, dtype: object, declared: object) -> DTypeError:
    return DTypeError(
        f"input {name!r}: dtype = {dtype} is not what the model takes (allowed: {declared})"
    )


def input_shape(name: str, shape: Sequence[object], declared: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape = {shown(shape)} is not what the model takes "
        f"(allowed: {shown(declared)})"
    )


def input_size_differs(
    name: str, axis: int, size: int, symbol: str, known: int, other: str
) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape[{axis}] = {size} differs from {one_line(symbol)} = {known}, which "
        f"input {other!r} has set (allowed: {known})"
    )


def two_versions(domain: str, first: int, second: int) -> ModelError:
    return ModelError(
        f"the model imports versions {first} and {second} of {one_line(domain)} "
        f"(allowed: one version)"
    )


def in_node(error: Exception, name: str, op_type: str) -> Exception:
    """Say in which node an exception arose; one of ours, and MemoryError, stays what it is."""
    place = f"node {name!r} ({op_type})" if name else f"node {op_type} without a name"
    if isinstance(error, NdgatherError | MemoryError):
        error.args = (f"{place}: {error}",)
        return error
    return ModelError(f"{place}: {reason(error)}")


def too_many_inputs(count: int, signature: Iterable[object]) -> ModelError:
    return ModelError(f"{count} inputs are given (the model takes: {listed(map(str, signature))})")


def unknown_device(device: object, known: str) -> ModelError:
    shown_device = repr(device) if isinstance(device, str) else type(device).__name__
    return ModelError(f"device {shown_device} is not available (allowed: {known})")


def invalid_node(op_type: str, error: BaseException) -> ModelError:
    return ModelError(f"node {one_line(op_type)} is not valid: {reason(error)}")


def node_inputs(count: int, names: Sequence[str]) -> ModelError:
    return ModelError(f"{count} inputs are given (the node takes: {listed(names)})")


def no_onnx_type(name: str, dtype: object) -> DTypeError:
    return DTypeError(f"input {name!r}: dtype = {dtype} has no type of ONNX")


def domain_not_imported(domain: str) -> ModelError:
    return ModelError(f"the model imports no version of {one_line(domain)}, which the node is of")


def unreadable_attribute(name: str, why: str) -> AttributeValueError:
    return AttributeValueError(f"attribute {name!r} has no value: {why}")


def cannot_infer(error: BaseException) -> ModelError:
    return ModelError(f"the types of the model cannot be inferred: {reason(error)}")


def declared_dtype(name: str, dtype: object, declared: object) -> DTypeError:
    return DTypeError(
        f"value {name!r}: dtype = {dtype} is not what the model declares (allowed: {declared})"
    )


def declared_shape(name: str, shape: Sequence[object], declared: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"value {name!r}: shape = {shown(shape)} is not what the model declares "
        f"(allowed: {shown(declared)})"
    )


def cannot_become(row: object, target: str, why: str) -> ModelError:
    return ModelError(f"{row} cannot become {target}: {why}")


def unknown_target(option: str, value: object, known: Iterable[str]) -> ModelError:
    return ModelError(f"{option} = {value!r} is nothing to convert to (allowed: {listed(known)})")


def function_stays(domain: str, name: str) -> ModelError:
    function = one_line(f"{name} of {domain}")
    return ModelError(
        f"function {function} cannot be put in place of its calls, because it imports "
        f"other versions than the model (allowed: the same versions)"
    )


def others_differ(names: Sequence[str], opset: int, error: BaseException) -> ModelError:
    return ModelError(
        f"{one_line(listed(names))} cannot be expressed in opset {opset}: {reason(error)}"
    )


def other_type(op_type: str, name: str, value: str, dtype: str, opset: int) -> DTypeError:
    place = f"node {name!r} ({op_type})" if name else f"node {op_type} without a name"
    return DTypeError(f"{place}: {value}.dtype = {dtype} is not taken in opset {opset}")


def other_type_unknown(op_type: str, name: str, value: str, opset: int) -> ModelError:
    place = f"node {name!r} ({op_type})" if name else f"node {op_type} without a name"
    return ModelError(
        f"{place}: the type of {value!r} is not known, and opset {opset} takes fewer types"
    )


def invalid_result(error: BaseException) -> ModelError:
    return ModelError(f"the converted model would not be valid: {reason(error)}")
