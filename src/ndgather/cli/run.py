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
Run a model, an ONNX file or an OpenVINO IR, on arrays from files. Printed for
each output: its shape, its dtype, the time of the nodes that lead to it, and
its bytes per second.

The nodes that gather or scatter run in ndgather. All others of an ONNX model
run in the reference evaluator of the onnx package
(pip install 'ndgather[onnx]'). An IR (pip install 'ndgather[openvino]') has its
constants in the .bin beside it, and no other layers than Parameter, Const,
Convert and Result.
"""

EXAMPLES = """\
examples:
  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
      run the model and say what came out

  ndgather run model.onnx --input data=dem.npz:elevation \\
          --input indices=points.pb --output heights=heights.npy
      take a member of an archive and an ONNX tensor; keep the output 'heights'

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy \\
          --output-dir results
      keep every output as results/NAME.npy

A .npy input is memory-mapped, not read at once. An output file appears only
when it is complete; until then a file of that name stays as it is.
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
        help="an input of the model: FILE.npy, FILE.npz:MEMBER or FILE.pb; once for each input",
    )
    keep = run.add_mutually_exclusive_group()
    keep.add_argument(
        "--output",
        dest="outputs",
        action=Named,
        metavar="NAME=FILE",
        help="keep an output of the model as FILE.npy or FILE.pb; once for each output to keep",
    )
    keep.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="keep every output as DIR/NAME.npy; DIR is made if need be",
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
