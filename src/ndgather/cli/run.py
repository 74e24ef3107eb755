"""``ndgather run``: run a model on arrays from files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather.cli.options import Named, add_command, add_common
from ndgather.cli.screen import columns, node_count, print_table, time_text
from ndgather.errors import file_errors, run_errors
from ndgather.models.tensors import tensor_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ndgather.models import onnx, openvino

DESCRIPTION = """\
Run a model, an ONNX file or an OpenVINO IR, on arrays from files. For each
output the shape, the dtype, the time of the nodes that lead to it and the bytes
per second are printed.

Gather and scatter nodes run in ndgather. All other nodes of an ONNX model run
in the reference evaluator of the onnx package (pip install 'ndgather[onnx]').
An IR (pip install 'ndgather[openvino]') has its constants in a .bin file beside
it; its other layers may be Parameter, Const, Convert and Result only.
"""

EXAMPLES = """\
examples:
  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
      run the model and print a table of its outputs

  ndgather run model.onnx --input data=dem.npz:elevation \\
          --input indices=points.pb --output heights=heights.npy
      take a member of an archive and an ONNX tensor; keep the output 'heights'

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy \\
          --output-dir results
      keep every output as results/NAME.npy

A .npy input is memory-mapped, not read at once. An output file is written only
when it is complete; an existing file stays as it is until then.
"""


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    run = add_command(commands, "run", "run a model on arrays from files", DESCRIPTION, EXAMPLES)
    run.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    run.add_argument(
        "--input",
        dest="inputs",
        action=Named,
        metavar="NAME=FILE",
        help="an input of the model: FILE.npy, FILE.npz:MEMBER or FILE.pb; repeat for each input",
    )
    keep = run.add_mutually_exclusive_group()
    keep.add_argument(
        "--output",
        dest="outputs",
        action=Named,
        metavar="NAME=FILE",
        help="keep an output of the model as FILE.npy or FILE.pb; repeat for each output",
    )
    keep.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="keep every output as DIR/NAME.npy; DIR is created if it does not exist",
    )
    add_common(run, _run)


def _run(options: argparse.Namespace) -> None:
    model = _load(options.model)
    names = [port.name for port in model.outputs]
    for name in options.outputs:
        if name not in names:
            raise run_errors.unknown_output(name, names)
    files = {name: Path(file) for name, file in options.outputs.items()}
    if options.output_dir is not None:
        files = _files_in(options.output_dir, names)
    targets: set[Path] = set()
    for name, file in files.items():
        tensor_files.check_place(file)
        if file.resolve() in targets:
            raise file_errors.same_file(name, file)
        targets.add(file.resolve())

    inputs = {name: tensor_files.read(place) for name, place in options.inputs.items()}
    result = model.run(inputs)
    tensor_files.write_all(
        {files[each.name]: each.array for each in result.outputs if each.name in files}
    )

    print_table(
        [
            columns(
                output.name,
                output.array.shape,
                output.array.dtype,
                output.seconds,
                files.get(output.name),
            )
            for output in result.outputs
        ]
    )
    others = f", {node_count(result.other_nodes)} in the reference evaluator of onnx"
    print(
        f"\n{node_count(result.own_nodes)} ran in ndgather{others if result.other_nodes else ''}; "
        f"{time_text(result.seconds)} in all."
    )


def _load(path: str) -> onnx.Model | openvino.Model:
    if Path(path).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        return openvino.Model.load(path)
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.Model.load(path)


def _files_in(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Give each output a file in `folder`, which is made; no name leads out of it."""
    files: dict[str, Path] = {}
    for name in names:
        file = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.npy"
        if file in files.values():
            raise file_errors.same_file(name, file)
        files[name] = file
    tensor_files.make_folder(folder)
    return files
