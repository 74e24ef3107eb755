"""``ndgather run``: run a model on arrays from files."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ndgather.cli.inputs import (
    add_inputs,
    compare_outputs,
    given_inputs,
    random_candidates,
    size_options,
)
from ndgather.cli.options import (
    RATES,
    Named,
    add_command,
    add_common,
    add_loading,
    add_options,
    add_timeout,
    columns,
    node_bar,
    print_table,
    runtime_names,
    scaled,
    time_text,
)
from ndgather.errors import FileError, ModelError, NdgatherError, one_line
from ndgather.messages import did_you_mean, listed, plural
from ndgather.models.graph import Run, port_dtype_name
from ndgather.models.tensors import tensor_files

DESCRIPTION = """\
Run a model, an ONNX file or an OpenVINO IR, on arrays from files. The output is
a table of shapes and dtypes; with the reference evaluator also the time of the
nodes that lead to each output, and bytes per second.

An ONNX model runs in onnxruntime if that is installed, else in the reference
evaluator of the onnx package (pip install 'ndgather[onnx]'). In the evaluator
ndgather runs the gather and scatter nodes. In a runtime ndgather computes each
of them again, and a value that differs from the specification is an error that
names the node.

An IR (pip install 'ndgather[ir]') has its constants in a .bin file beside it.
ndgather runs its gathers, scatters, constants and casts; a file with other
layers runs in the package openvino (pip install 'ndgather[openvino]').
"""

EXAMPLES = """\
examples:
  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
      run the model and print a table of its outputs

  ndgather run model.onnx --input data=dem.npz:elevation \\
          --input indices=points.pb --output heights=heights.npy
      read a member of an archive and an ONNX tensor; save the output 'heights'

  ndgather run model.onnx --random --size batch=2
      generate inputs, with valid indices

  ndgather run model.onnx --inputs test_data_set_0
      read input_0.pb, ... from a folder, and compare with its output_0.pb, ...

  ndgather run model.onnx --runtime openvino --input data=dem.npy --json
      run it in OpenVINO, and print the results as JSON

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy \\
          --output-dir results
      save every output as results/NAME.npy

A .npy input is memory-mapped. Output files are written completely or not at
all.
"""


def add_to(commands: Any) -> None:
    run = add_command(commands, "run", "run a model on arrays from files", DESCRIPTION, EXAMPLES)
    add_options(run, "MODEL  the model: FILE.onnx or FILE.xml")
    add_inputs(run)
    table = """
        --output NAME=FILE  save an output of the model as FILE.npy or FILE.pb; may be repeated
        --output-dir DIR    save every output as DIR/NAME.npy; DIR is created if it does not exist
    """
    output = {"dest": "outputs", "action": Named}
    keep = run.add_mutually_exclusive_group()
    add_options(keep, table, output=output, output_dir={"type": Path})
    table = """
        --runtime NAME    onnxruntime, openvino, reference, or a module (default: onnxruntime if it
                          is installed and loads the model, else reference)
        --accept-runtime  continue if a node of the runtime differs from its specification, and
                          report it
        --own-results     continue with the result of ndgather for such a node, and report it
    """
    add_options(run, table, runtime={"completer": runtime_names})
    add_loading(run, "NAME", "FILE")
    add_timeout(run, "end the command after this time, also inside a runtime")
    table = """
        --json   print the results as JSON
        --quiet  print nothing but errors
    """
    add_options(run, table)
    more = ", and print the time and the bytes of each node, the slowest first (onnxruntime and "
    add_common(run, _run, f"{more}reference)")


def _run(options: argparse.Namespace) -> None:
    start = time.perf_counter()
    with node_bar(options):
        model = _load(options)
    files = _output_files(options, [port.name for port in model.outputs])
    with node_bar(options) as progress:
        of_nodes = {} if Path(options.model).suffix == ".xml" else {"progress": progress}
        result, changed = _run_model(options, model, of_nodes)
    compared = compare_outputs(options, result.outputs)
    tensor_files.write_all(
        {files[output.name]: output.array for output in result.outputs if output.name in files}
    )
    seconds, not_loaded = time.perf_counter() - start, getattr(model, "not_loaded", "")
    if options.json:
        report = _as_json(result, seconds, files, not_loaded)
        print(json.dumps({**report, "sizes": changed}, indent=2))
    elif not options.quiet:
        _print(result, seconds, files)
        if changed:
            print(f"\nThe model did not run with the usual sizes: {size_options(changed)}")
        if not_loaded:
            print(f"\n{not_loaded}")
        if options.verbose:
            print()
            for node in sorted(result.nodes, key=lambda node: -node.seconds):
                size, name = scaled(node.bytes, RATES), one_line(node.name)
                print(f"{time_text(node.seconds):>8}  {size:>8}  {node.operator}  {name}")
        if compared:
            outputs = "1 output is that" if compared == 1 else f"{compared} outputs are those"
            print(f"{outputs} of {options.place}.")


def _output_files(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Path]:
    """Return the files of outputs, to which files can be written."""
    for name in options.outputs:
        if name not in names:
            raise ModelError(
                f"the model has no output {name!r} (the model gives: {listed(names)})"
                f"{did_you_mean(name, names)}"
            )
    files = {name: Path(file) for name, file in options.outputs.items()}
    if options.output_dir is not None:
        clean = {name: re.sub(r"[^A-Za-z0-9._-]", "_", name) for name in names}
        files = {name: options.output_dir / f"{stem}.npy" for name, stem in clean.items()}
    targets: set[Path] = set()
    for name, file in files.items():
        if file.resolve() in targets:
            raise FileError(
                f"{file}: cannot be written: output {name!r} and another one would both be "
                "written there (allowed: --output NAME=FILE for each)"
            )
        targets.add(file.resolve())
    if options.output_dir is not None:
        tensor_files.make_folder(options.output_dir)
    for file in files.values():
        tensor_files.check_place(file)
    return files


def _run_model(
    options: argparse.Namespace, model: Any, of_nodes: Mapping[str, Any]
) -> tuple[Run, Mapping[str, int]]:
    """Run a model, and return the open sizes that random inputs must have, too."""
    given = given_inputs(options, model.inputs)
    if options.random is None:
        return model.run(given, **of_nodes), {}
    candidates, refusals = random_candidates(options), list[NdgatherError]()  # the first one
    for drawn in candidates:
        try:
            return model.run({**drawn, **given}, **of_nodes), candidates.sizes
        except NdgatherError as error:
            if getattr(model, "runtime", "reference") != "reference" and error.__cause__ is None:
                raise  # it ran, and a node differs from its specification
            candidates.refused(str(error))
            refusals = refusals or [error]
    if candidates.open:
        hint = "(no other sizes were found; allowed: --size, --input)"
        refusals[0].args = (f"{refusals[0]} {hint}",)
    raise refusals[0]


def _print(result: Run, seconds: float, files: Mapping[str, Path]) -> None:
    rows = []
    for output in result.outputs:
        array, file = output.array, files.get(output.name)
        rows.append(columns(output.name, array.shape, array.dtype, output.seconds, file))
    print_table(rows)
    for difference in result.differences:
        print(f"\ndiffers: {difference}")
    for node, why in result.left:
        print(f"\nnot compared: {one_line(node)}, for {one_line(why)}")
    if result.runtime == "reference":
        others = f", {plural(result.remaining_nodes, 'node')} in the reference evaluator of onnx"
        who = f"{plural(result.gather_nodes, 'node')} ran in ndgather"
        who += others if result.remaining_nodes else ""
    else:
        total = result.gather_nodes + result.remaining_nodes
        who = (
            f"{plural(total, 'node')} ran in {result.runtime}, and {result.gather_nodes} of them, "
            "gathers and scatters, were compared with ndgather"
        )
    print(f"\n{who}; {time_text(seconds)} in all.")


def _as_json(
    result: Run, seconds: float, files: Mapping[str, Path], not_loaded: str
) -> dict[str, Any]:
    return {
        "runtime": result.runtime,
        "not_loaded": not_loaded or None,
        "seconds": seconds,
        "nodes": {"ndgather": result.gather_nodes, "others": result.remaining_nodes},
        "differences": list(result.differences),
        "not_compared": [{"node": node, "why": why} for node, why in result.left],
        "node_times": [asdict(node) for node in result.nodes],
        "outputs": [
            {
                "name": output.name,
                "dtype": port_dtype_name(output.array.dtype),
                "shape": list(output.array.shape),
                "seconds": output.seconds,
                "file": str(files[output.name]) if output.name in files else None,
            }
            for output in result.outputs
        ],
    }


def _load(options: argparse.Namespace) -> Any:
    if Path(options.model).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        if options.runtime is not None:
            raise ModelError(
                f"runtime = {options.runtime!r} is not taken for an IR, which runs in ndgather"
            )
        return openvino.Model.load(options.model)
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.load(
        options.model,
        runtime=options.runtime,
        accept_runtime=options.accept_runtime,
        own_results=options.own_results,
        threads=options.threads,
        providers=options.providers,
        libraries=options.libraries,
        profile=options.verbose,
        in_place=True,
    )
