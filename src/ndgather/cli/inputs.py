"""Inputs of a model: from files, an archive, a folder of test data, or random."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import messages
from ndgather.cli.options import Named
from ndgather.errors import FileError, ModelError
from ndgather.models.graph import port_dtype_name
from ndgather.models.tensors import tensor_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ndgather.models.graph import Output, Port

    Array = NDArray[Any]


RTOL, ATOL = 1e-3, 1e-5

_LONGEST_SIZE = 19  # digits


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for the inputs of a model."""
    parser.add_argument(
        "--input",
        dest="inputs",
        action=Named,
        metavar="NAME=FILE",
        help="an input of the model: FILE.npy, FILE.npz:MEMBER or FILE.pb; may be repeated",
    )
    parser.add_argument(
        "--inputs",
        dest="place",
        type=Path,
        metavar="PLACE",
        help="all inputs: FILE.npz with a member for every input, or a folder with input_0.pb, "
        "input_1.pb, ... and output_0.pb, ..., which are compared",
    )
    parser.add_argument(
        "--random",
        nargs="?",
        type=int,
        const=0,
        metavar="SEED",
        help="generate the inputs that are not passed, with valid indices",
    )
    add_sizes(parser, "an open size of the model, for --random")
    parser.add_argument(
        "--rtol", type=float, default=RTOL, help=f"of outputs that are compared (default: {RTOL})"
    )
    parser.add_argument(
        "--atol", type=float, default=ATOL, help=f"of outputs that are compared (default: {ATOL})"
    )


def add_sizes(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument(
        "--size",
        dest="sizes",
        action=Sizes,
        metavar="NAME=N",
        help=f"{about}: by its name, or as INPUT[AXIS]",
    )


class Sizes(Named):
    """Collect ``NAME=N`` options in a dict of numbers."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        named = getattr(namespace, self.dest)
        for size in named.values():
            if not (str(size).isdecimal() and len(str(size)) <= _LONGEST_SIZE):
                raise argparse.ArgumentError(self, f"{size!r} is not a size")
        setattr(namespace, self.dest, {key: int(size) for key, size in named.items()})


def inputs_of(options: argparse.Namespace, ports: Sequence[Port]) -> dict[str, Array]:
    """Return the inputs that the options of a command describe."""
    found: dict[str, Array] = {}
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
        found = {
            name: tensor_files.read(str(file)) for name, file in zip(names, files, strict=False)
        }
    elif place is not None:
        found = tensor_files.read_all(place)
    found.update({name: tensor_files.read(file) for name, file in options.inputs.items()})
    if options.random is not None:
        if Path(options.model).suffix == ".xml":
            raise messages.only_onnx("--random")
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        made = onnx.random_inputs(options.model, options.random, sizes=options.sizes)
        found = {**made, **found}
    return found


def keep_inputs(folder: Path, ports: Sequence[Port], inputs: Mapping[str, Array]) -> None:
    """Write inputs as files that ``--inputs folder`` reads."""
    tensor_files.make_folder(folder)
    needed = [port.name for port in ports if port.name in inputs]
    tensor_files.write_all(
        {folder / f"input_{number}.pb": inputs[name] for number, name in enumerate(needed)}
    )


def compare_outputs(options: argparse.Namespace, outputs: Sequence[Output]) -> int:
    """Compare outputs with the folder that inputs come from, and return how many were compared.

    Raises
    ------
    FileError
        The folder holds more outputs than the model has.
    """
    place: Path | None = options.place
    if place is None or not place.is_dir():
        return 0
    files = _numbered(place, "output")
    if len(files) > len(outputs):
        raise FileError(f"{place}: holds {len(files)} outputs, and the model has {len(outputs)}")
    for output, file in zip(outputs, files, strict=False):
        _compare(output.name, output.array, tensor_files.read(str(file)), file, options)
    return len(files)


def _compare(
    name: str, found: Array, expected: Array, file: Path, options: argparse.Namespace
) -> None:
    forms = [f"{port_dtype_name(each.dtype)} {each.shape}" for each in (found, expected)]
    if forms[0] != forms[1]:
        raise ModelError(f"output {name!r} is {forms[0]}, and {forms[1]} in {file}")
    if found.dtype.kind in "OUST":
        differs = found.astype(object) != expected.astype(object)
    else:
        one, other = (each.astype(np.result_type(each, np.float64)) for each in (found, expected))
        differs = ~np.isclose(one, other, options.rtol, options.atol, equal_nan=True)
    if np.any(differs):
        at = tuple(int(each) for each in np.argwhere(differs)[0])
        where = f"[{', '.join(map(str, at))}]"
        raise ModelError(
            f"output {name!r}: {name}{where} = {found[at]} differs from {expected[at]} in {file}"
        )


def _numbered(folder: Path, role: str) -> list[Path]:
    files: list[Path] = []
    while (file := folder / f"{role}_{len(files)}.pb").is_file():
        files.append(file)
    return files
