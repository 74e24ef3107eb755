"""``ndgather run``: run a model."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndgather import messages, set_num_threads
from ndgather.cli.inputs import (
    add_inputs,
    compare_outputs,
    drawn_inputs,
    given_inputs,
)
from ndgather.cli.terminal import (
    Named,
    add_common,
    add_loading,
    log_to_stderr,
    time_text,
    working,
)
from ndgather.errors import FileError, ModelError, NdgatherError, one_line
from ndgather.messages import did_you_mean, listed, plural, shown
from ndgather.models import tensor_files
from ndgather.models.graph import Run, aligned, port_dtype_name
from ndgather.runtimes import MODEL_NAMES
from ndgather.runtimes.children import call_isolated

DESCRIPTION = """\
Run an ONNX model or OpenVINO IR on arrays from files and print a table of the
shapes and dtypes of its outputs.

An ONNX model runs in onnxruntime if that is installed, and otherwise in the
reference evaluator of the onnx package (pip install 'ndgather[onnx]'). In the
evaluator, ndgather runs the gather and scatter nodes. In a runtime, ndgather
computes each of these nodes again, and an error names the first node whose
values differ from its specification.

The constants of an IR (pip install 'ndgather[ir]') are in the .bin file beside
it. ndgather runs gathers, scatters, constants and casts; models with other
layers need the openvino package.
"""

EXAMPLES = """\
examples:
  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
      run the model and print a table of its outputs

  ndgather run model.onnx --input data=dem.npy --input indices=points.pb \\
          --output heights=heights.npy
      read a NumPy array and an ONNX tensor; save the output 'heights'

  ndgather run model.onnx --random --size batch=2
      generate random inputs with valid indices

  ndgather run model.onnx --inputs test_data_set_0
      read input_0.pb, ... from a folder and compare with its output_0.pb, ...

  ndgather run model.onnx --runtime openvino --input data=dem.npy --json
      run the model in OpenVINO and print the report as JSON

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy \\
          --output-dir results
      save every output as results/NAME.npy

Inputs from .npy files are memory-mapped. Output files are written completely or
not at all.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """The outcome of a run, which a child process sends to its parent."""

    result: Run
    files: Mapping[str, Path]
    compared: int  # the number of outputs that matched a file in the inputs folder
    not_loaded: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    add_inputs(parser)
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument(
        "--output",
        dest="outputs",
        metavar="NAME=FILE",
        action=Named,
        help="save an output of the model as FILE.npy or FILE.pb; may be repeated",
    )
    outputs.add_argument(
        "--output-dir",
        metavar="DIR",
        type=Path,
        help="save every output as DIR/NAME.npy; DIR is created if it does not exist",
    )
    add(
        "--runtime",
        metavar="NAME",
        help="onnxruntime, openvino, reference, or a module of your own (default: onnxruntime if "
        "it is installed and loads the model, else reference)",
    )
    add(
        "--accept-runtime",
        action="store_true",
        help="report a node that differs from its specification, and continue",
    )
    add(
        "--own-results",
        action="store_true",
        help="report such a node, and continue with the result of ndgather",
    )
    add_loading(parser, "NAME", "FILE", "no limit")
    add("--json", action="store_true", help="print the report as JSON")
    add("--quiet", action="store_true", help="print only errors")
    add_common(parser)


def work(options: argparse.Namespace) -> None:
    start = time.perf_counter()
    run = _run_in_child(options) if _needs_child(options) else load_and_run(options)
    outputs = {output.name: output.array for output in run.result.outputs}
    for name in options.outputs:
        if name not in outputs:
            raise messages.not_a_tensor("output", name, "list")
    files = {file: outputs[name] for name, file in run.files.items() if name in outputs}
    tensor_files.write_all(files)
    seconds = time.perf_counter() - start
    if options.json:
        print(json.dumps(_as_json(run, seconds), indent=2))
    elif not options.quiet:
        _print_run(run, seconds)
        if run.compared:
            verb = "matches" if run.compared == 1 else "match"
            print(f"{plural(run.compared, 'output')} {verb} {options.place}.")


def _needs_child(options: argparse.Namespace) -> bool:
    """Return whether to isolate the model, because its runtime might crash or hang."""
    if options.debug:  # exceptions from a child have no traceback
        return False
    if options.timeout is not None:
        return True
    if Path(options.model).suffix == ".xml":
        return False
    default = "onnxruntime" if MODEL_NAMES["onnxruntime"].installed else "reference"
    return (options.runtime or default) != "reference"


def _run_in_child(options: argparse.Namespace) -> ModelRun:
    model, limit_s = options.model, options.timeout or math.inf
    del options.parser  # it cannot be pickled
    kind, what = call_isolated(__name__, "run_as_child", (options,), limit_s, shows_errors=True)
    if kind == "raised":
        raise what
    if kind == "crashed":
        raise ModelError(f"{model}: the process that ran it has ended: {what}")
    run: ModelRun = what
    return run


def run_as_child(options: argparse.Namespace) -> ModelRun:
    if options.threads is not None:
        set_num_threads(options.threads)
    with log_to_stderr(options.verbose):
        return load_and_run(options)


def load_and_run(options: argparse.Namespace) -> ModelRun:
    """Load and run a model, and compare its outputs with files in the inputs folder."""
    with working(options.model, options.quiet):
        model = _load(options)
        files = _output_files(options, [port.name for port in model.outputs])
        result = _run_model(options, model)
    return ModelRun(
        result=result,
        files=files,
        compared=compare_outputs(options, result.outputs),
        not_loaded=getattr(model, "not_loaded", ""),
    )


def _output_files(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Path]:
    """Return the file for each output that is saved, after checking that it is writable."""
    for name in options.outputs:
        if name not in names:
            raise ModelError(
                f"the model has no output {name!r} (the model has: {listed(names)})"
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
                f"{file}: cannot be written: output {name!r} and another output would both be "
                "written there (allowed: --output NAME=FILE for each)"
            )
        targets.add(file.resolve())
    if options.output_dir is not None:
        tensor_files.make_folder(options.output_dir)
    for file in files.values():
        tensor_files.check_place(file, tensor_files.SUFFIXES)
    return files


def _run_model(options: argparse.Namespace, model: Any) -> Run:
    given = given_inputs(options, model.inputs)
    if options.random is None:
        return model.run(given)  # type: ignore[no-any-return]
    drawn = drawn_inputs(options, given)
    try:
        return model.run(drawn)  # type: ignore[no-any-return]
    except NdgatherError as error:
        refused = getattr(model, "runtime", "reference") == "reference" or error.__cause__
        if refused and any(isinstance(size, str) for x in model.inputs for size in x.shape or ()):
            error.args = (f"{error} (to change the sizes of random inputs: --size, --input)",)
        raise


TITLES = ("output", "shape", "dtype", "file")


def _print_run(run: ModelRun, seconds: float) -> None:
    result = run.result
    files = run.files
    rows = [
        (x.name, shown(x.array.shape), port_dtype_name(x.array.dtype), str(files.get(x.name, "")))
        for x in result.outputs
    ]
    table: list[list[str]] = []
    for title, *texts in zip(TITLES, *rows, strict=True):  # omit empty columns
        if any(texts):
            table.append([title, *map(one_line, texts)])
    print(aligned([*zip(*table, strict=True)]))
    for difference in result.differences:
        print(f"\ndiffers: {difference}")
    for node, why in result.left:
        print(f"\nnot compared: {one_line(node)}: {one_line(why)}")
    if result.runtime == "reference":
        others = f", {plural(result.remaining_nodes, 'node')} in the reference evaluator of onnx"
        who = f"{plural(result.gather_nodes, 'node')} ran in ndgather"
        who += others if result.remaining_nodes else ""
    else:
        total = result.gather_nodes + result.remaining_nodes
        who = (
            f"{plural(total, 'node')} ran in {result.runtime}; compared with ndgather: "
            f"{plural(result.gather_nodes, 'gather or scatter node')}"
        )
    print(f"\n{who}; {time_text(seconds)} in total.")
    if run.not_loaded:
        print(f"\n{run.not_loaded}")


def _as_json(run: ModelRun, seconds: float) -> dict[str, Any]:
    result = run.result
    return {
        "runtime": result.runtime,
        "not_loaded": run.not_loaded or None,
        "seconds": seconds,
        "nodes": {"ndgather": result.gather_nodes, "others": result.remaining_nodes},
        "differences": list(result.differences),
        "not_compared": [{"node": node, "why": why} for node, why in result.left],
        "outputs": [
            {
                "name": output.name,
                "dtype": port_dtype_name(output.array.dtype),
                "shape": list(output.array.shape),
                "file": str(run.files[output.name]) if output.name in run.files else None,
            }
            for output in result.outputs
        ],
    }


def _load(options: argparse.Namespace) -> Any:
    if Path(options.model).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        if options.runtime is not None:
            raise ModelError(
                f"runtime = {options.runtime!r} does not apply to an IR, which runs in ndgather "
                "(allowed: a .onnx file)"
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
        in_place=True,
    )
