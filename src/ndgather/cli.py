"""The command ``ndgather``: arguments in, text out.

Exit status: 0 done, 1 the work could not be done (one line on standard error says why),
2 the command was not understood, 130 interrupted. What a command needs is imported when it
runs, so that ``--help`` does not wait for it.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import __version__, api, set_num_threads
from ndgather.errors import NdgatherError, shown
from ndgather.models import errors
from ndgather.models.graph import diagnostics
from ndgather.models.graph.ports import dtype_name
from ndgather.models.tensors import tensor_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from numpy.typing import NDArray

    from ndgather.models import onnx, openvino

    Array = NDArray[Any]

TITLES = ("output", "shape", "dtype", "time", "rate", "file")
NUMBERS = ("time", "rate")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
RATES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

MODES = ("raise", "wrap", "clip", "fill")
FORMATS = ("text", "md", "rst", "html", "json")
WIDTHS = (40, 100)  # of text: narrower breaks every line, wider is hard to read

SUMMARY = """\
Gather N-dimensional arrays, exactly as each published specification says.

Start with one of these:

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
  ndgather gather-nd dem.npy points.npy -o heights.npy
  ndgather doc GatherND

Each command explains itself, with examples: ndgather run --help
"""

RUN_DESCRIPTION = """\
Run a model, an ONNX file or an OpenVINO IR, on arrays from files. Printed for
each output: its shape, its dtype, the time of the nodes that lead to it, and
its bytes per second.

The nodes that gather or scatter run in ndgather. All others of an ONNX model
run in the reference evaluator of the onnx package
(pip install 'ndgather[onnx]'). An IR (pip install 'ndgather[openvino]') has its
constants in the .bin beside it, and no other layers than Parameter, Const,
Convert and Result.
"""

RUN_EXAMPLES = """\
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

CHECK_DESCRIPTION = """\
Say what is wrong in a model, an ONNX file or an OpenVINO IR. Each gather and
scatter operator is held against its specification in the version that the model
asks for, with all that can be inferred of its inputs. A finding is one of

  error     the specification does not allow it
  differs   allowed, and runtimes give different results
  portable  it runs, and some runtimes or versions do not take it
"""

CHECK_EXAMPLES = """\
examples:
  ndgather check model.onnx
      print a table, the worst first

  ndgather check model.onnx --json > findings.json
      print a list of objects with the same content

The exit status is 1 if there are errors.
"""

CONVERT_DESCRIPTION = """\
Write an ONNX model in another version of ONNX, or with its gather and scatter
nodes as others that do exactly the same; or write it as an OpenVINO IR, or an
IR as an ONNX model, as the names of the files say. What the target lacks is
built from nodes that it has; what cannot be exact is refused with the node and
the reason. Where runs of the two may part, a table says so.
"""

CONVERT_EXAMPLES = """\
examples:
  ndgather convert model.onnx --opset 11 -o old.onnx
      batch_dims, which GatherND-11 does not have, become coordinates

  ndgather convert model.onnx --domain ai.onnx -o portable.onnx
      onnxruntime's own GatherND becomes that of ONNX; int32 indices get a Cast

  ndgather convert model.onnx --operator GatherND -o one.onnx
      Gather and GatherElements become GatherND

  ndgather convert model.onnx -o model.xml
      an IR of gather and scatter layers, its constants in model.bin

  ndgather convert model.xml --opset 13 -o model.onnx
      and back (default: opset 18)

OUT appears only when it is complete; until then a file of that name stays as it
is.
"""

GATHER_FILES = """\

DATA and INDICES are .npy files (memory-mapped), .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). Neither data nor result has to fit in
memory. OUT.npy appears only when it is complete; until then a file of that name
stays as it is.
"""

OPS_DESCRIPTION = """\
List the operator versions that ndgather knows, one line for each.
"""

OPS_EXAMPLES = """\
examples:
  ndgather ops
      list all of them

  ndgather ops GatherND
      list those of one name, in every specification

  ndgather ops --domain openvino --format md
      list one specification, as a Markdown table
"""

DOC_DESCRIPTION = """\
Show the page of an operator: its formula, rules, types and attributes, examples
that are run as the page is made, the errors of the published text, and what
differs from another version.
"""

DOC_EXAMPLES = """\
examples:
  ndgather doc GatherND
      show the newest version of ONNX

  ndgather doc GatherND --opset 12 --diff 11
      show what opset 12 has, and what is different in version 11

  ndgather doc GatherND --diff openvino:8
      compare with version 8 of OpenVINO

  ndgather doc ScatterElementsUpdate --format html > page.html
      write a page for a browser; md, rst and json go the same way

Text is in colours where it goes to a terminal and NO_COLOR is not set.
"""

OPTION_HELP = {
    "axis": "the axis of DATA that INDICES address (default: 0)",
    "batch_dims": "how many leading axes DATA and INDICES share (default: 0)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gather:
    """A command that calls one function of the package on two files.

    `shape` gives the shape of the result from those of data and indices where they fit; where
    they do not, the call refuses them whatever the shape of `out`.
    """

    command: str
    function: str
    summary: str
    description: str
    examples: str
    options: tuple[str, ...]
    shape: Callable[..., tuple[int, ...]]


def _gather_nd_shape(
    data: tuple[int, ...], indices: tuple[int, ...], batch_dims: int = 0
) -> tuple[int, ...]:
    return indices[:-1] + data[batch_dims + sum(indices[-1:]) :]


def _gather_elements_shape(
    _data: tuple[int, ...], indices: tuple[int, ...], axis: int = 0
) -> tuple[int, ...]:
    del axis
    return indices


def _gather_shape(
    data: tuple[int, ...], indices: tuple[int, ...], axis: int = 0, batch_dims: int = 0
) -> tuple[int, ...]:
    axis += len(data) if axis < 0 else 0
    batch_dims += len(indices) if batch_dims < 0 else 0
    return data[:axis] + indices[batch_dims:] + data[axis + 1 :]


_GATHERS = (
    _Gather(
        command="gather-nd",
        function="gather_nd",
        summary="copy the elements or slices that index tuples name",
        description="""\
Copy elements or slices of DATA. The last axis of INDICES holds tuples; each
names a place in the leading axes of DATA (after the batch axes). The result has
the shape INDICES.shape[:-1] + the axes of DATA that the tuples leave over.
""",
        examples="""\
examples:
  ndgather gather-nd dem.npy points.npy -o heights.npy
      dem (344, 403) and points (1000, 2) give heights (1000,)
  ndgather gather-nd images.npy frames.npy -o picked.npy --batch-dims 1
      images (8, 30, 64, 64) and frames (8, 5, 1) give picked (8, 5, 64, 64)
""",
        options=("batch_dims",),
        shape=_gather_nd_shape,
    ),
    _Gather(
        command="gather-elements",
        function="gather_elements",
        summary="copy single elements along one axis",
        description="""\
Copy single elements of DATA: each entry of INDICES replaces its own coordinate
along one axis. The result has the shape of INDICES.
""",
        examples="""\
examples:
  ndgather gather-elements scores.npy order.npy -o best.npy --axis 1
      scores (100, 20) and order (100, 5), from argsort, give best (100, 5)
""",
        options=("axis",),
        shape=_gather_elements_shape,
    ),
    _Gather(
        command="gather",
        function="gather",
        summary="copy whole slices along one axis",
        description="""\
Copy slices of DATA along one axis: INDICES say which. The result has the shape
of DATA with that axis replaced by the axes of INDICES.
""",
        examples="""\
examples:
  ndgather gather embeddings.npy tokens.npy -o vectors.npy
      embeddings (32000, 256) and tokens (4, 128) give vectors (4, 128, 256)
""",
        options=("axis", "batch_dims"),
        shape=_gather_shape,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit status."""
    if sys.stdout is None:  # it was closed before Python began
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may be in letters that it has not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _carried_out(_parser(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # who read the text has gone; nobody is left to be told
        _drop_output()
    except OSError as error:
        _drop_output()
        print(f"ndgather: error: {errors.unwritable('standard output', error)}", file=sys.stderr)
    return 1


def _carried_out(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    options, rest = parser.parse_known_args(arguments)
    if options.command == "bench":
        options.arguments = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        with _terminating_cleanly():
            if options.threads is not None:
                set_num_threads(options.threads)
            status: int | None = options.work(options)
    except (NdgatherError, MemoryError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"ndgather {options.command}: error: {errors.one_line(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:  # of the place where the command runs, or of where its text goes
        _drop_output()
        print(f"ndgather {options.command}: error: {errors.reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"ndgather {options.command}: interrupted", file=sys.stderr)
        return 130
    return status or 0


def _drop_output() -> None:
    """Let what is left of the text go nowhere, so that the end of Python has no complaint."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Let a request to end unwind the stack, so that unfinished files are removed."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # only the main thread may
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ndgather",
        description=SUMMARY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ndgather {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    run = _add_command(
        commands, "run", "run a model on arrays from files", RUN_DESCRIPTION, RUN_EXAMPLES
    )
    run.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    run.add_argument(
        "--input",
        dest="inputs",
        action=_Named,
        metavar="NAME=FILE",
        help="an input of the model: FILE.npy, FILE.npz:MEMBER or FILE.pb; once for each input",
    )
    keep = run.add_mutually_exclusive_group()
    keep.add_argument(
        "--output",
        dest="outputs",
        action=_Named,
        metavar="NAME=FILE",
        help="keep an output of the model as FILE.npy or FILE.pb; once for each output to keep",
    )
    keep.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="keep every output as DIR/NAME.npy; DIR is made if need be",
    )
    _add_common(run, _run)

    check = _add_command(
        commands, "check", "say what is wrong in a model", CHECK_DESCRIPTION, CHECK_EXAMPLES
    )
    check.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    check.add_argument("--json", action="store_true", help="print the findings as data")
    _add_common(check, _check)

    convert = _add_command(
        commands, "convert", "write a model in another form", CONVERT_DESCRIPTION, CONVERT_EXAMPLES
    )
    convert.add_argument("model", metavar="MODEL", help="the model: FILE.onnx or FILE.xml")
    convert.add_argument(
        "--opset", type=_positive, metavar="N", help="the version of ONNX that it shall import"
    )
    convert.add_argument(
        "--domain", metavar="DOMAIN", help="where GatherND shall be from: ai.onnx, com.microsoft"
    )
    convert.add_argument(
        "--operator",
        metavar="NAME",
        help="what the nodes that gather shall be: GatherND, GatherElements or Gather; "
        "or ScatterND for those that scatter elements",
    )
    convert.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="the result: .onnx or .xml"
    )
    _add_common(convert, _convert)

    for row in _GATHERS:
        _add_gather(commands, row)

    ops = _add_command(commands, "ops", "list the operator versions", OPS_DESCRIPTION, OPS_EXAMPLES)
    ops.add_argument("name", nargs="?", metavar="NAME", help="only operators of this name")
    _add_page(ops, "only operators of this specification", _ops)

    doc = _add_command(
        commands, "doc", "show the page of an operator", DOC_DESCRIPTION, DOC_EXAMPLES
    )
    doc.add_argument("name", metavar="NAME", help="the operator, such as GatherND")
    which = doc.add_mutually_exclusive_group()
    which.add_argument(
        "--version", type=int, metavar="N", help="the version that brought it (default: newest)"
    )
    which.add_argument(
        "--opset", type=int, metavar="N", help="the newest version that this opset has"
    )
    doc.add_argument(
        "--diff",
        metavar="[DOMAIN:]VERSION",
        help="add the differences from this version, of the same specification or another",
    )
    _add_page(doc, "the specification (default: ai.onnx, or the one that has it)", _doc)

    # It reads its own arguments when it is loaded, --help among them.
    bench = commands.add_parser(
        "bench", help="measure against other libraries on this machine", add_help=False
    )
    bench.set_defaults(threads=None, debug=False, work=_bench)
    return parser


def _add_gather(commands: Any, row: _Gather) -> None:
    parser = _add_command(
        commands, row.command, row.summary, row.description, row.examples + GATHER_FILES
    )
    parser.add_argument("data", metavar="DATA", help="the array that is read")
    parser.add_argument("indices", metavar="INDICES", help="the integers that say where")
    parser.add_argument(
        "-o", "--output", required=True, type=_npy_file, metavar="OUT.npy", help="the result"
    )
    for name in row.options:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(
            flag, dest=name, type=int, default=0, metavar="N", help=OPTION_HELP[name]
        )
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="raise",
        metavar="MODE",
        help="what an index outside its axis does: 'raise' an error (default), 'wrap' around, "
        "'clip' to the nearest end, or 'fill' its place with V; negative indices count from "
        "the end, except that 'clip' takes them as 0",
    )
    parser.add_argument(
        "--fill-value",
        metavar="V",
        help="what --mode fill writes (default: zero, or its like in other dtypes)",
    )
    parser.set_defaults(row=row)
    _add_common(parser, _gather)


def _add_command(
    commands: Any, name: str, summary: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_page(
    parser: argparse.ArgumentParser, domain: str, work: Callable[[argparse.Namespace], None]
) -> None:
    parser.add_argument("--domain", metavar="DOMAIN", help=domain)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default: text)",
    )
    _add_common(parser, work)


def _add_common(
    parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], int | None]
) -> None:
    parser.add_argument(
        "--threads",
        type=_positive,
        metavar="N",
        help="how many threads to use (default: as many as this process may)",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(work=work)


class _Named(argparse.Action):
    """Collect ``NAME=FILE`` options in a dict."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, default={}, **options)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del parser, option_string
        name, equals, file = str(values).partition("=")
        if not (name and equals and file):
            raise argparse.ArgumentError(self, f"{values!r} is not of the form NAME=FILE")
        named = getattr(namespace, self.dest)
        if name in named:
            raise argparse.ArgumentError(self, f"{name!r} is given twice")
        setattr(namespace, self.dest, {**named, name: file})


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _npy_file(text: str) -> Path:
    if Path(text).suffix != ".npy":
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .npy")
    return Path(text)


def _run(options: argparse.Namespace) -> None:
    model = _load(options.model)
    names = [port.name for port in model.outputs]
    for name in options.outputs:
        if name not in names:
            raise errors.unknown_output(name, names)
    files = {name: Path(file) for name, file in options.outputs.items()}
    if options.output_dir is not None:
        files = _files_in(options.output_dir, names)
    targets: set[Path] = set()
    for name, file in files.items():
        tensor_files.check_place(file)
        if file.resolve() in targets:
            raise errors.same_file(name, file)
        targets.add(file.resolve())

    inputs = {name: tensor_files.read(place) for name, place in options.inputs.items()}
    result = model.run(inputs)
    tensor_files.write_all(
        {files[each.name]: each.array for each in result.outputs if each.name in files}
    )

    _print_table(
        [
            _columns(
                output.name,
                output.array.shape,
                output.array.dtype,
                output.seconds,
                files.get(output.name),
            )
            for output in result.outputs
        ]
    )
    others = f", {_nodes(result.other_nodes)} in the reference evaluator of onnx"
    print(
        f"\n{_nodes(result.own_nodes)} ran in ndgather{others if result.other_nodes else ''}; "
        f"{_time(result.seconds)} in all."
    )


def _load(path: str) -> onnx.Model | openvino.Model:
    if Path(path).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        return openvino.Model.load(path)
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.Model.load(path)


def _check(options: argparse.Namespace) -> int:
    if Path(options.model).suffix == ".xml":
        from ndgather.models import openvino  # noqa: PLC0415 - slow, and an extra

        found = openvino.check(options.model)
    else:
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        found = onnx.check(options.model)
    if options.json:
        print(json.dumps(diagnostics.to_json(diagnostics.worst_first(found)), indent=2))
    else:
        print(diagnostics.table(found, _terminal()[0] if sys.stdout.isatty() else 0))
    return int(diagnostics.has_errors(found))


def _convert(options: argparse.Namespace) -> None:
    from_ir, to_ir = Path(options.model).suffix == ".xml", options.output.suffix == ".xml"
    tensor_files.check_place(options.output, (".onnx",) if from_ir else (".onnx", ".xml"))
    given = {name: getattr(options, name) for name in ("opset", "domain", "operator")}
    parting: Sequence[diagnostics.Finding] = ()
    if from_ir or to_ir:
        from ndgather.models import interchange  # noqa: PLC0415 - slow, and two extras

        if from_ir:
            count, parting = interchange.openvino_to_onnx(options.model, options.output, **given)
        else:
            for name in (name for name, value in given.items() if value is not None):
                raise errors.option_of_onnx(f"--{name}", options.output)
            tensor_files.check_place(options.output.with_suffix(".bin"), (".bin",))
            count, parting = interchange.onnx_to_openvino(options.model, options.output)
    else:
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        result = onnx.convert(options.model, **given)
        onnx.save(result, options.output, str(Path(options.model).parent))
        count = len(result.graph.node)
    print(f"{errors.one_line(str(options.output))}: {_nodes(count)}")
    if parting:
        print(diagnostics.table(parting, _terminal()[0] if sys.stdout.isatty() else 0))


def _files_in(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Give each output a file in `folder`, which is made; no name leads out of it."""
    files: dict[str, Path] = {}
    for name in names:
        file = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.npy"
        if file in files.values():
            raise errors.same_file(name, file)
        files[name] = file
    tensor_files.make_folder(folder)
    return files


def _gather(options: argparse.Namespace) -> None:
    tensor_files.check_place(options.output)
    data = tensor_files.read(options.data)
    indices = tensor_files.read(options.indices)
    row: _Gather = options.row
    given = {name: getattr(options, name) for name in row.options}
    fill_value = None
    if options.fill_value is not None:
        fill_value = _fill_value(options.fill_value, data.dtype)
    function = getattr(api, row.function)
    shape = row.shape(data.shape, indices.shape, **given)
    seconds = 0.0

    def work(out: Array | None) -> Array:
        nonlocal seconds
        start = time.perf_counter()
        result: Array = function(
            data, indices, **given, mode=options.mode, fill_value=fill_value, out=out
        )
        seconds = time.perf_counter() - start
        return result

    if data.dtype.hasobject:  # strings of an ONNX tensor: no file holds them as they are
        tensor_files.write(options.output, work(None))
    else:
        tensor_files.fill(options.output, shape, data.dtype, work)
    _print_table([_columns(options.output.stem, shape, data.dtype, seconds, options.output)])


def _ops(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    width, color = _terminal()
    text = pages.operator_table(
        options.name, options.domain, format=options.format, width=width, color=color
    )
    print(text, end="")


def _doc(options: argparse.Namespace) -> None:
    from ndgather import pages  # noqa: PLC0415 - no other command needs it

    width, color = _terminal()
    text = pages.operator_page(
        options.name,
        options.domain,
        options.version,
        opset=options.opset,
        diff=options.diff,
        format=options.format,
        width=width,
        color=color,
    )
    print(text, end="")


def _bench(options: argparse.Namespace) -> int:
    # In a checkout the benchmark is a folder of its own, which only the install puts here.
    bench = import_module("ndgather.bench.__main__")
    status: int = bench.main(options.arguments, prog="ndgather bench")
    return status


def _terminal() -> tuple[int, bool]:
    """Return how long a line of text may be, and whether it may have colours."""
    narrowest, widest = WIDTHS
    width = min(max(shutil.get_terminal_size().columns, narrowest), widest)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return width, sys.stdout.isatty() and not plain


def _fill_value(text: str, dtype: np.dtype[Any]) -> object:
    """Read `text` as `dtype` wants it; what cannot be read stays text, for the call to refuse."""

    def time_value(text: str) -> object:
        return np.array(text).astype(dtype)[()]

    readers: dict[str, tuple[Callable[[str], object], ...]] = {
        "b": (lambda text: BOOLEANS[text.lower()],),
        "S": (str.encode,),
        "U": (str,),
        "M": (time_value,),
        "m": (time_value,),
    }
    for read in readers.get(dtype.kind, (int, float, complex)):
        with suppress(KeyError, ValueError):
            return read(text)
    return text


def _columns(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], seconds: float, file: Path | None
) -> tuple[str, ...]:
    count = math.prod(shape) * dtype.itemsize
    rate = f"{_scaled(count / seconds, RATES)}/s" if count and seconds else ""
    return (name, shown(shape), dtype_name(dtype), _time(seconds), rate, str(file or ""))


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of texts in columns, numbers to the right; an empty column is left out."""
    lines = [""] * (len(rows) + 1)
    for title, *texts in zip(TITLES, *rows, strict=True):
        if any(texts):
            column = [title, *map(errors.one_line, texts)]
            width = max(map(len, column))
            lines = [
                f"{line}  {text.rjust(width) if title in NUMBERS else text.ljust(width)}"
                for line, text in zip(lines, column, strict=True)
            ]
    print("\n".join(line[2:].rstrip() for line in lines))


def _time(seconds: float) -> str:
    return _scaled(seconds, TIMES)


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Write `value` in the largest unit that it reaches, three digits at least."""
    size, unit = next((item for item in units if value >= item[0]), units[-1])
    return f"{value / size:#.3g} {unit}".replace(". ", " ")


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"
