"""``ndgather compare``: find the first node whose results differ between runtimes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather import messages
from ndgather.cli.inputs import (
    add_inputs,
    drawn_inputs,
    given_inputs,
    keep_inputs,
)
from ndgather.cli.terminal import add_common, add_loading, add_runtimes, positive
from ndgather.errors import one_line
from ndgather.models.graph import Port, aligned
from ndgather.runtimes.children import LIMIT_S

if TYPE_CHECKING:
    from ndgather.models.onnx import Comparison, Counterexample

DESCRIPTION = """\
Run an ONNX model in several runtimes, each in its own process, and recompute
every gather and scatter node from the inputs that it received in the runtime.
For a node that differs, print the first element that differs, the index values
that select it, the rule of the specification, the runtimes that follow it, and
a portable replacement. Nodes whose inputs already differ are marked.
"""

EXAMPLES = """\
examples:
  ndgather compare model.onnx --runtime onnxruntime --runtime openvino --random
      compare two runtimes on random inputs

  ndgather compare model.onnx --inputs test_data_set_0 --json > report.json
      read the inputs from a folder and write the report as JSON

  ndgather compare model.onnx --search 50 --keep found
      search for inputs on which the runtimes disagree and save them to found/;
      --inputs found reproduces the difference

  ndgather compare model.onnx --search 200 --all --valid-indices
      list every kind of difference that occurs with valid indices

The exit status is 1 if the runtimes differ.
"""

RUNTIMES = ("onnxruntime", "openvino")
_AGREE = "The runtimes agree on all {} inputs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model: FILE.onnx")
    add_runtimes(
        parser,
        "onnxruntime, openvino, reference, or a module of your own (default: "
        f"{','.join(RUNTIMES)})",
    )
    add_inputs(parser)
    more = "; for all runtimes unless RUNTIME= is given"
    add_loading(parser, "[RUNTIME=]NAME", "[RUNTIME=]FILE", f"{LIMIT_S:g}", more)
    add(
        "--search",
        metavar="N",
        type=positive,
        help="try up to N random inputs with edge cases until the runtimes disagree",
    )
    add(
        "--all",
        action="store_true",
        help="continue after the first difference and print a table of all kinds of differences",
    )
    add("--valid-indices", action="store_true", help="generate only valid indices")
    add(
        "--keep",
        metavar="FOLDER",
        type=Path,
        default=Path("found"),
        help="the folder in which --search saves inputs for --inputs (default: found)",
    )
    add("--json", action="store_true", help="print the report as JSON")
    add_common(parser)


def work(options: argparse.Namespace) -> int:
    if Path(options.model).suffix == ".xml":
        raise messages.only_onnx("compare")
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra
    from ndgather.models.onnx.files import open_model  # noqa: PLC0415 - as above
    from ndgather.models.onnx.nodes import model_ports  # noqa: PLC0415 - as above

    proto, _ = open_model(options.model, "compare")
    _check_together(options)
    runtimes, ports = options.runtimes or RUNTIMES, model_ports(proto)[0]
    how: dict[str, Any] = {
        "runtimes": runtimes,
        "rtol": options.rtol,
        "atol": options.atol,
        "threads": options.threads,
        "timeout": options.timeout,
        "providers": _by_runtime(options.providers, runtimes),
        "libraries": _by_runtime(options.libraries, runtimes),
    }
    if options.search is None:
        return _print(options, _compare_on_inputs(options, ports, how))
    how |= {"seed": options.random or 0, "sizes": options.sizes}
    how |= {"valid_indices": options.valid_indices}
    most = None if options.all else 1
    found = onnx.search(options.model, options.search, most=most, **how)
    if options.all:
        _print_kinds(options, ports, found)
        return int(bool(found))
    if not found:
        nothing = {"tries": options.search, "what": None, "kept": None}
        same = json.dumps({"same": True, "search": nothing}, indent=2)
        print(same if options.json else _AGREE.format(options.search))
        return 0
    (example,) = found
    keep_inputs(options.keep, ports, example.inputs)
    if not options.json:
        print(
            f"The runtimes disagree on input {example.tries} ({one_line(example.what)}); "
            f"saved to {options.keep}/.\n"
        )
    searched = {"tries": example.tries, "what": example.what, "kept": str(options.keep)}
    return _print(options, example.report, search=searched)


def _check_together(options: argparse.Namespace) -> None:
    """Exit with a usage error if an option that requires ``--search`` is given without it."""
    for name in ("all", "valid_indices"):
        if getattr(options, name) and options.search is None:
            options.parser.error(f"--{name.replace('_', '-')} does not apply (allowed: --search)")


def _compare_on_inputs(
    options: argparse.Namespace, ports: Sequence[Port], how: Mapping[str, Any]
) -> Comparison:
    from ndgather.models import onnx  # noqa: PLC0415 - as above

    given = given_inputs(options, ports)
    if options.random is not None:
        given = drawn_inputs(options, given)
    return onnx.compare(options.model, given, **how)


def _print(options: argparse.Namespace, result: Comparison, **more: object) -> int:
    from ndgather.models.onnx.comparison import report as reports  # noqa: PLC0415 - as above

    if options.json:
        print(json.dumps({**reports.to_json(result), **more}, indent=2))
    else:
        print(reports.to_text(result))
    return int(not result.same)


def _print_kinds(
    options: argparse.Namespace, ports: Sequence[Port], kinds: Sequence[Counterexample]
) -> None:
    """Save example inputs for each kind of difference, and print a table of all kinds."""
    from ndgather.models.onnx.comparison import report as reports  # noqa: PLC0415 - as below

    rows: list[tuple[str, ...]] = [("inputs", "node", "rule", "runtimes", "edge case", "saved to")]
    objects = []
    for number, example in enumerate(kinds):
        folder = options.keep / str(number)
        keep_inputs(folder, ports, example.inputs)
        node, rule, runtimes = example.kind
        rows.append(
            (str(example.count), *map(one_line, (node, rule, runtimes, example.what)), f"{folder}/")
        )
        about = {"count": example.count, "what": example.what, "kept": str(folder)}
        objects.append({**about, **reports.to_json(example.report)})
    if options.json:
        print(json.dumps({"same": not kinds, "tries": options.search, "kinds": objects}, indent=2))
    elif kinds:
        print(aligned(rows))
        count = sum(example.count for example in kinds)
        print(f"\nThe runtimes disagree on {count} of {options.search} inputs.")
    else:
        print(_AGREE.format(options.search))


def _by_runtime(texts: Sequence[str], runtimes: Sequence[str]) -> dict[str, list[str]]:
    """Group ``RUNTIME=VALUE`` by runtime; a bare value applies to all runtimes but `reference`."""
    by_runtime: dict[str, list[str]] = {}
    able = [name for name in runtimes if name != "reference"] or runtimes
    for text in texts:
        name, equals, value = text.partition("=")
        named = bool(equals) and name in runtimes
        for runtime in [name] if named else able:
            by_runtime.setdefault(runtime, []).append(value if named else text)
    return by_runtime
