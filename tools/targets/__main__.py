"""Rewrite exported models for restricted targets, and run them in other programs."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.backend.test.case import node as node_cases

from ndgather.errors import NdgatherError
from ndgather.models import onnx as models
from tools.child_process import ChildError, ChildProcess
from tools.exports.snippets import snippets
from tools.exports.write import EXPORTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).with_name("table.md")
LIMIT_S = 60  # per model
# The programs, the packages of their environments, and the target for which models are rewritten.
PROGRAMS = {
    "onnxsim": (["onnxsim==0.8.1"], "basic"),
    "opencv": (["opencv-python-headless==4.14.0.94"], "opencv"),
    "ncnn": (["--no-deps", "ncnn==1.0.20261020", "pnnx==20261020", "numpy==2.4.6"], "ncnn"),
    "onnx2tf": (["onnx2tf==1.29.24"], "tflite"),
}
_WHAT_STAYS = """\
OpenCV does not support NonZero, OneHot and SoftmaxCrossEntropyLoss; ncnn does not support indices \
that are inputs; onnx2tf ignores the reduction of ScatterND."""


_OPERATORS = {"GatherND", "GatherElements", "Gather", "ScatterND", "ScatterElements"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.targets", description=__doc__)
    parser.add_argument("--exports", type=Path, default=Path("build/exports/models"))
    parser.add_argument("--folder", type=Path, default=Path("build/targets"))
    options = parser.parse_args()
    count = write_exports(options.exports, options.folder / "exports")
    print(f"{count} exported models", flush=True)
    write_node_tests(options.folder / "node-tests")
    parts = [
        "Gathers and scatters that the target `basic` supports:",
        "",
        "| models | nodes | as exported | after `convert` | unsupported after onnxsim |",
        "| --- | --- | --- | --- | --- |",
        count_nodes("exported models", options.folder, "exports"),
        count_nodes(f"node tests of onnx {onnx.__version__}", options.folder, "node-tests"),
        "",
        takers(options.folder),
    ]
    TABLE.write_text("\n".join(parts), encoding="utf-8")
    return 0


def write_exports(exports: Path, folder: Path) -> int:
    """Write every exported model, and again with constant indices; return the number of models."""
    count = 0
    for exporter, row in EXPORTERS.items():
        for snippet in snippets(row.package):
            source = exports / exporter / snippet.name
            answers = source / "valid-answer.npz"
            if not (source / "model.onnx").exists() or not answers.exists():
                continue
            inputs, count = dict(np.load(source / "valid.npz")), count + 1
            model = onnx.load(source / "model.onnx")
            write(folder / exporter / snippet.name, model, inputs, answers)
            for name in snippet.indices:
                if name in inputs:
                    array = onnx.numpy_helper.from_array(inputs.pop(name), name)
                    model.graph.initializer.append(array)
                    ports = [item for item in model.graph.input if item.name != name]
                    del model.graph.input[:]
                    model.graph.input.extend(ports)
            frozen = folder.with_name("frozen") / exporter / snippet.name
            write(frozen, model, inputs, answers)
    return count


def write(folder: Path, model: onnx.ModelProto, inputs: dict[str, Any], answers: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    (folder / "answers.npz").write_bytes(answers.read_bytes())


def write_node_tests(folder: Path) -> None:
    """Write the models of the node tests of gathers and scatters."""
    for module in pkgutil.iter_modules(node_cases.__path__, f"{node_cases.__name__}."):
        if re.search("gather|scatter", module.name):
            importlib.import_module(module.name)
    cases = {
        case.name: case.model
        for case in node_cases._NodeTestCases
        if {node.op_type for node in case.model.graph.node} & _OPERATORS
    }
    for name, model in cases.items():
        (folder / "onnx" / name).mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "onnx" / name / "model.onnx")


def paths(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*/*/model.onnx"))


def program(name: str, folder: Path, scratch: str = "/tmp") -> ChildProcess:
    """Return a program in its own environment, which is created if it does not exist."""
    environment = (folder / "environments" / name).absolute()
    python, wanted = str(environment / "bin" / "python"), "\n".join(PROGRAMS[name][0])
    installed = environment / "requires.txt"
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        command = [python, "-m", "pip", "install", "--quiet", *PROGRAMS[name][0]]
        subprocess.run(command, check=True)
        installed.write_text(wanted, encoding="utf-8")
    names = {"PYTHONPATH": "", "TMPDIR": scratch, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return ChildProcess(
        "tools.targets.takers", name, python=python, environment=names, limit_s=LIMIT_S
    )


def count_nodes(what: str, folder: Path, part: str) -> str:
    """Return a row with the numbers of nodes that `basic` supports; print why others remain."""
    counts = Counter[str]()
    with program("onnxsim", folder) as onnxsim:
        for path in paths(folder / part):
            for node in models.conversion(path, target="basic").nodes:
                counts["nodes"] += 1
                counts["before"] += not node.why
                counts["after"] += not node.stays
                if node.stays:
                    print(f"{path}: {node.was} stays: {node.why}", flush=True)
            try:
                simple = models.conversion(onnxsim.ask(str(path)), target="basic")
            except (ChildError, NdgatherError):  # onnxsim wrote an invalid model
                simple = models.conversion(path, target="basic")
            counts["onnxsim"] += sum(bool(node.why) for node in simple.nodes)
    columns = ("nodes", "before", "after", "onnxsim")
    return f"| {what} | {' | '.join(str(counts[column]) for column in columns)} |"


def takers(folder: Path) -> str:
    """Return how many models other programs load and run correctly, before and after."""
    lines = [
        "Models that other programs load, and models whose results are correct:",
        "",
        "| program | models | load before | load after | correct before | correct after |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, (_, target) in PROGRAMS.items():
        if name == "onnxsim":
            continue
        for part in ("exports", "frozen"):
            before = outcomes(name, folder, folder / part)
            rewritten = folder / f"{part}-{target}"
            for path in paths(folder / part):
                place = rewritten / path.relative_to(folder / part)
                place.parent.mkdir(parents=True, exist_ok=True)
                models.save(models.conversion(path, target=target), place)
                for file in ("inputs.npz", "answers.npz"):
                    place.with_name(file).write_bytes(path.with_name(file).read_bytes())
            after = outcomes(name, folder, rewritten)
            loads = [sum(word in {"loads", "runs", "right"} for word in x) for x in (before, after)]
            right = [x.count("right") for x in (before, after)]
            what = len(before) if part == "exports" else f"{len(before)}, constant indices"
            cells = [name, what, *loads, *right]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    return "\n".join([*lines, "", _WHAT_STAYS, ""])


def outcomes(name: str, folder: Path, part: Path) -> list[str]:
    """Return the outcome of every model in a program, which is restarted after a crash.

    Outcomes are saved immediately, so that another run measures only new models.
    """
    place = folder / f"{name}.json"
    saved: dict[str, list[str]] = json.loads(place.read_text("utf-8")) if place.exists() else {}
    found: list[str] = []
    with ExitStack() as stack:
        scratch = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
        child = None
        for path in paths(part):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest not in saved:
                child = child or stack.enter_context(program(name, folder, scratch))
                try:
                    result = child.ask(name, str(path.absolute()))
                except ChildError as error:
                    late = f"took longer than {LIMIT_S} s" if child.timed_out else error
                    result, child = f"refused: {late}", None if error.ended else child
                saved[digest] = [str(path.parent.relative_to(folder)), result]
                place.write_text(json.dumps(saved, indent=0), encoding="utf-8")
            found.append(saved[digest][1])
    return found


if __name__ == "__main__":
    sys.exit(main())
