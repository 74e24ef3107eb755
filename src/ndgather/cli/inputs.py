"""Inputs of models, from files, archives, test data folders or a random generator."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ndgather import dtypes, messages
from ndgather.cli.terminal import Named
from ndgather.errors import DTypeError, FileError, ModelError
from ndgather.models import Array, tensor_files
from ndgather.models.graph import OutputArray, Port, fit_inputs, port_dtype_name

RTOL, ATOL = 1e-3, 1e-5

_LONGEST_SIZE = 19  # digits


def add_inputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--input",
        dest="inputs",
        metavar="NAME=FILE",
        action=Named,
        help="an input of the model: FILE.npy, FILE.pb, or a value such as sr=16000 or "
        "at=[0,2]; may be repeated",
    )
    add(
        "--inputs",
        dest="place",
        metavar="PLACE",
        type=Path,
        help="all inputs: FILE.npz with an array for each input, or a folder with input_0.pb, "
        "input_1.pb, ...; the outputs are compared with output_0.pb, ... if the folder has them",
    )
    add(
        "--random",
        metavar="SEED",
        nargs="?",
        type=int,
        const=0,
        help="generate random values, with valid indices, for inputs that are not passed",
    )
    add_sizes(parser, "a dynamic size of the model, for --random")
    for name, kind, default in (("--rtol", "relative", RTOL), ("--atol", "absolute", ATOL)):
        about = f"{kind} tolerance when outputs are compared (default: {default})"
        add(name, type=float, default=default, help=about)


def add_sizes(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument(
        "--size",
        dest="sizes",
        metavar="NAME=N",
        action=Named,
        read=_size,
        help=f"{about}: its name or INPUT[AXIS]",
    )


def _size(text: str) -> int:
    if not (text.isdecimal() and len(text) <= _LONGEST_SIZE):
        raise ValueError(f"{text!r} is not a size")
    return int(text)


def given_inputs(options: argparse.Namespace, ports: Sequence[Port]) -> dict[str, Array]:
    """Return the inputs, read from the files or the text that the options specify."""
    arrays: dict[str, Array] = {}
    place: Path | None = options.place
    if place is not None and place.is_dir():
        needed = [port.name for port in ports if not port.optional]
        files = _numbered(place, "input")
        if not files:
            raise FileError(
                f"{place}: holds no input_0.pb (allowed: a folder of input_N.pb, output_N.pb)"
            )
        names = needed if len(files) <= len(needed) else [port.name for port in ports]
        if len(files) > len(names):
            raise FileError(f"{place}: holds {len(files)} inputs, and the model has {len(names)}")
        arrays = dict(zip(names, map(tensor_files.read, files), strict=False))
    elif place is not None:
        arrays = tensor_files.read_archive(place)
    known = {port.name: port for port in ports}
    for name, text in options.inputs.items():
        arrays[name] = _read_input(name, text, known.get(name))
    missing = any(port.name not in arrays and not port.optional for port in ports)
    if options.random is None and missing and arrays.keys() <= known.keys():
        try:
            fit_inputs(ports, arrays)
        except ModelError as error:
            ways = "" if Path(options.model).suffix == ".xml" else ", --random"
            ways += ", --search 50" if "search" in options else ""
            error.args = (f"{error}; write --input NAME=FILE, --inputs PLACE{ways}",)
            raise
    return arrays


def drawn_inputs(options: argparse.Namespace, given: dict[str, Array]) -> dict[str, Array]:
    """Return `given`, and random values for the other inputs."""
    if Path(options.model).suffix == ".xml":
        raise messages.only_onnx("--random")
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.random_inputs(options.model, options.random, sizes=options.sizes, inputs=given)


def _read_input(name: str, text: str, port: Port | None) -> Array:
    """Read an input from a file, or parse a number or a short list."""
    is_file = Path(text).suffix in tensor_files.SUFFIXES
    try:
        readable = not is_file and port is not None and port.dtype is not None
        value = json.loads(text, parse_float=Decimal) if readable else None
        listed = dtypes.array_of(value)
    except (ValueError, RecursionError):  # raised for invalid JSON or ragged lists
        value = None
    if value is None or port is None or port.dtype is None or isinstance(value, dict):
        return tensor_files.read(Path(text))
    array, _ = dtypes.hold(listed, port.dtype)
    of_texts = port.dtype.hasobject
    if array is None or (of_texts and not all(isinstance(each, str) for each in array.flat)):
        allowed = "strings in double quotes" if of_texts else "numbers of that type"
        raise DTypeError(
            f"input {name!r}: {text} has values that are not {port_dtype_name(port.dtype)} "
            f"(allowed: {allowed})"
        )
    one = not array.ndim and port.shape is not None and port.shape != ()
    return array.reshape((1,) * len(port.shape or ())) if one else array


def keep_inputs(folder: Path, ports: Sequence[Port], inputs: Mapping[str, Array]) -> None:
    """Write inputs to a folder, as files that ``--inputs`` can read."""
    tensor_files.make_folder(folder)
    needed = [port.name for port in ports if port.name in inputs]
    tensor_files.write_all(
        {folder / f"input_{number}.pb": inputs[name] for number, name in enumerate(needed)}
    )


def compare_outputs(options: argparse.Namespace, outputs: Sequence[OutputArray]) -> int:
    """Compare outputs with files in the inputs folder, and return the number of files."""
    place: Path | None = options.place
    if place is None or not place.is_dir():
        return 0
    files = _numbered(place, "output")
    if len(files) > len(outputs):
        raise FileError(f"{place}: holds {len(files)} outputs, and the model has {len(outputs)}")
    for output, file in zip(outputs, files, strict=False):
        actual, expected = output.array, tensor_files.read(file)
        forms = [f"{port_dtype_name(array.dtype)} {array.shape}" for array in (actual, expected)]
        if forms[0] != forms[1]:
            raise ModelError(f"output {output.name!r} is {forms[0]}, and {forms[1]} in {file}")
        differs = np.argwhere(_differs(actual, expected, options.rtol, options.atol))
        if len(differs):
            position = tuple(map(int, differs[0]))
            where = f"{output.name}[{', '.join(map(str, position))}]"
            raise ModelError(
                f"output {output.name!r}: {where} = {actual[position]} differs from "
                f"{expected[position]} in {file}"
            )
    return len(files)


def _differs(actual: Array, expected: Array, rtol: float, atol: float) -> Any:
    if actual.dtype.kind in "OUST":
        return actual.astype(object) != expected.astype(object)
    if actual.dtype.kind in "biu":
        return actual != expected
    wide = np.result_type(actual, np.float64)
    return ~np.isclose(actual.astype(wide), expected.astype(wide), rtol, atol, equal_nan=True)


def _numbered(folder: Path, role: str) -> list[Path]:
    files: list[Path] = []
    while (file := folder / f"{role}_{len(files)}.pb").is_file():
        files.append(file)
    return files
