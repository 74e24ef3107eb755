"""Gather and scatter on arrays in files: one command for each function of the package."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ndgather import api, dtypes, slow_path
from ndgather.arguments import REDUCTIONS
from ndgather.array_call import Call, Kind, _core
from ndgather.cli.options import (
    add_command,
    add_common,
    add_options,
    add_reading,
    bar,
    columns,
    estimate_text,
    npy_file,
    print_table,
    require_output,
)
from ndgather.errors import FileError, NdgatherError, one_line
from ndgather.models import Array
from ndgather.models.tensors import tensor_files
from ndgather.stored import estimate, journal, missing_chunks, open_path

GATHER_FILES = """\

DATA and INDICES are .npy files (memory-mapped), .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). DATA may also be a stored array:
STORE.zarr/ARRAY, FILE.h5/ARRAY, FILE.tif, or a URL of zarr (s3://, https://,
...), with the credentials of the environment; only the chunks that INDICES
touch are read. Neither the data nor the result has to fit in memory. OUT.npy is
written only when it is complete; an existing file stays as it is until then.
"""

SCATTER_FILES = """\

DATA, INDICES and UPDATES are .npy files (memory-mapped), .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). OUT.npy is written only when it is
complete; an existing file stays as it is until then.

With --in-place DATA is a .npy file or a stored array: STORE.zarr/ARRAY,
FILE.h5/ARRAY, or a URL of zarr (s3://, ...), with the credentials of the
environment; only the chunks that INDICES touch are read and written. All
arguments are checked before anything is changed; a command that is then killed,
or a chunk that cannot be written, leaves some updates undone. The same command
with --journal FILE (zarr only) goes on where it was, so that all count once.
"""

_OPTIONS = {
    "axis": "--axis N  the axis of DATA that INDICES address (default: 0)",
    "batch_dims": "--batch-dims N  how many leading axes DATA and INDICES share (default: 0)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCommand:
    """A command that calls one function of the package on arrays from files."""

    kind: Kind
    summary: str
    description: str
    examples: str
    options: tuple[str, ...] = ()

    def add_to(self, commands: Any) -> None:
        scatters = self.kind.scatters
        parser = add_command(
            commands,
            self.kind.command,
            self.summary,
            self.description,
            self.examples + (SCATTER_FILES if scatters else GATHER_FILES),
        )
        add_options(
            parser,
            f"""
            DATA     the array to {"start" if scatters else "read"} from
            INDICES  the indices, an array of integers
            """,
        )
        where: Any = parser
        if scatters:
            add_options(parser, "UPDATES  the values, of the dtype of DATA")
            where = parser.add_mutually_exclusive_group()
        add_options(where, "-o --output OUT.npy  the result", output={"type": npy_file})
        if scatters:
            add_options(where, "--in-place  change DATA itself")
            about = "with --in-place, for a command that may be killed: note what is done in FILE"
            add_options(parser, f"--journal FILE  {about}, and go on from there")
        for option in self.options:
            number = {"type": int, "default": 0}
            add_options(parser, _OPTIONS[option], **{option: number})
        outside = "'drop' its update" if scatters else "'fill' with V"
        table = f"""
            --mode MODE  what to do with an index out of bounds: 'raise' an error (default), 'wrap'
                around, 'clip' to the nearest end, or {outside}; negative indices count from the
                end, except that 'clip' treats them as 0
        """
        modes = _core.SCATTER_MODES if scatters else _core.GATHER_MODES
        add_options(parser, table, mode={"choices": modes, "default": "raise"})
        if scatters:
            table = f"""
                --reduction NAME  how an update changes its element: 'none' replaces it (default),
                    others combine: {", ".join(REDUCTIONS[1:])}
                --no-init-val  leave the elements of DATA out of the reduction where they are
                    updated
            """
            reduction = {"choices": REDUCTIONS, "default": "none"}
            start = {"dest": "use_init_val", "action": "store_false"}
            add_options(parser, table, reduction=reduction, no_init_val=start)
        else:
            about = "the value that --mode fill writes (default: zero, empty or false)"
            add_options(parser, f"--fill-value V  {about}")
        add_reading(parser, scatters=scatters)
        add_common(parser, self.work)

    def work(self, options: argparse.Namespace) -> None:
        stored, in_place = open_path.is_stored(options.data), getattr(options, "in_place", False)
        if not in_place:
            require_output(options, "--in-place " if self.kind.scatters else "")
        if stored and self.kind.scatters and options.output is not None:
            raise FileError(
                f"{one_line(options.data)}: a stored array is changed where it is (allowed: "
                "--in-place)"
            )
        if options.output is not None:
            tensor_files.check_place(options.output)
        noted = getattr(options, "journal", None)
        if noted and not (stored and in_place):
            raise FileError(
                f"{one_line(options.data)}: a journal is of a stored array that is changed where "
                "it is (allowed: --in-place and STORE.zarr/ARRAY)"
            )
        named: dict[str, Any] = {name: getattr(options, name) for name in self.options}
        arguments = {**named, "mode": options.mode, "memory": options.memory}
        indices = tensor_files.read(options.indices)
        arrays = [indices]
        if options.dry_run:
            needed = estimate(self.kind.value, _data(options), indices, **arguments)
            subject = "the updates have" if self.kind.scatters else "the result has"
            print(estimate_text(needed, subject))
            return
        arguments["progress"] = bar(options) if stored else None
        if self.kind.scatters:
            arrays.append(tensor_files.read(options.updates))
            arguments |= {"reduction": options.reduction, "use_init_val": options.use_init_val}
        function: Callable[..., Array] = getattr(api, self.kind.value)
        seconds = 0.0

        def run(*arrays: Any, out: Any = None) -> Array:
            nonlocal seconds
            start = time.perf_counter()
            with (
                missing_chunks(getattr(options, "missing_chunks", "fill")),
                journal(noted) if noted else nullcontext(),
            ):
                result = function(*arrays, out=out, **arguments)
            seconds = time.perf_counter() - start
            return result

        file = Path(options.data) if in_place else options.output
        if in_place:
            place = options.data if stored else file
            with (open_path if stored else tensor_files).in_place(place) as data:
                run(data, *arrays, out=data)
                shape, dtype = data.shape, data.dtype
        else:
            data = _data(options)
            shape, dtype = data.shape if self.kind.scatters else None, data.dtype
            if not self.kind.scatters:
                if options.fill_value is not None:
                    arguments["fill_value"] = fill_value(options.fill_value, dtype)
                with suppress(NdgatherError):  # the call raises it again
                    call = Call(self.kind.value, self.kind, data, indices, **named)
                    shape = slow_path.result_shape(call)
            if shape is None or dtype.hasobject:  # strings of an ONNX tensor have no fixed width
                result = run(data, *arrays)
                shape = result.shape
                tensor_files.write(file, result)
            else:
                tensor_files.fill(file, shape, dtype, lambda out: run(data, *arrays, out=out))
        print_table([columns(file.stem, shape, dtype, seconds, file)])


def add_ranges(commands: Any) -> None:
    parser = add_command(
        commands,
        "gather-ranges",
        "copy ranges along one axis: rows of different lengths",
        """\
Copy ranges of DATA along one axis, one after another: from each of STARTS to
the one of STOPS beside it, which is not copied itself.
""",
        """\
examples:
  ndgather gather-ranges values.npy starts.npy stops.npy -o rows.npy
      starts (100,) and stops (100,) give rows, as long as all ranges together
  ndgather gather-ranges x.zarr/data a.npy b.npy -o rows.npy --offsets o.npy
      o (101,): where each range begins in rows.npy
"""
        + GATHER_FILES.replace("DATA and INDICES", "DATA, STARTS and STOPS")
        .replace("INDICES touch", "ranges touch")
        .replace(
            "Neither the data nor the result has to fit in memory.",
            "The result has to fit in memory.",
        ),
    )
    table = """
        DATA                   the array to read from
        STARTS                 the first position of each range, a vector of integers
        STOPS                  the position behind the last of each range, such a vector
        -o --output OUT.npy    the values
        --offsets OFFSETS.npy  where each range begins in the values, and where the last one ends
        --axis N               the axis of DATA that STARTS and STOPS address (default: 0)
        --mode MODE            what to do with positions out of bounds: 'raise' an error (default),
            'wrap' around, 'clip' to the nearest end, or 'fill' with V; a negative position is
            before the axis
        --fill-value V         the value that --mode fill writes (default: zero, empty or false)
    """
    add_options(
        parser,
        table,
        output={"type": npy_file},
        offsets={"type": npy_file},
        axis={"type": int, "default": 0},
        mode={"choices": _core.GATHER_MODES, "default": "raise"},
    )
    add_reading(parser)
    add_common(parser, _gather_ranges)


def _gather_ranges(options: argparse.Namespace) -> None:
    require_output(options)
    stored = open_path.is_stored(options.data)
    for place in filter(None, (options.output, options.offsets)):
        tensor_files.check_place(place)
    starts, stops = tensor_files.read(options.starts), tensor_files.read(options.stops)
    data = _data(options)
    named = {"axis": options.axis, "mode": options.mode, "memory": options.memory}
    if options.dry_run:
        needed = estimate("gather_ranges", data, starts, stops=stops, **named)
        print(estimate_text(needed, "the values have"))
        return
    if options.fill_value is not None:
        named["fill_value"] = fill_value(options.fill_value, data.dtype)
    start = time.perf_counter()
    progress = bar(options) if stored else None
    with missing_chunks(options.missing_chunks):
        arrays = api.gather_ranges(data, starts, stops, progress=progress, **named)
    seconds = time.perf_counter() - start
    rows = []
    for file, array in zip((options.output, options.offsets), arrays, strict=True):
        if file is not None:
            tensor_files.write(file, array)
            rows.append(columns(file.stem, array.shape, array.dtype, seconds, file))
    print_table(rows)


def _data(options: argparse.Namespace) -> Any:
    if open_path.is_stored(options.data):
        return open_path.opened(options.data)
    if options.dry_run:
        raise FileError(
            f"{one_line(options.data)}: is not stored in chunks, of which --dry-run says how many "
            "are read (allowed: STORE.zarr/ARRAY, FILE.h5/ARRAY, FILE.tif or a URL)"
        )
    return tensor_files.read(options.data)


def _date(text: str) -> object:
    if text.lower() in ("", "now", "today"):  # which NumPy reads, the last two by the clock
        raise ValueError(f"{text!r} is no date")
    return np.datetime64(text)


def fill_value(text: str, dtype: np.dtype[Any]) -> object:
    """Parse `text` for `dtype`; the call raises for text that cannot be parsed."""
    readers: dict[str, tuple[Callable[[str], object], ...]] = {
        "b": (lambda text: {"true": True, "false": False, "1": True, "0": False}[text.lower()],),
        "S": (str.encode,),
        "U": (str,),
        "M": (_date,),
        "m": (lambda text: np.array(text).astype(dtype)[()],),
    }
    for read in readers.get(dtype.kind, (int, Decimal, complex)):
        with suppress(KeyError, ValueError, ArithmeticError):
            value = read(text)
            overflows = isinstance(value, complex) and np.isinf(value) and "inf" not in text.lower()
            return text if overflows or dtypes.hold_one(value, dtype) is None else value
    return text


COMMANDS = (
    ArrayCommand(
        kind=Kind.GATHER_ND,
        summary="copy the elements or slices at index tuples",
        description="""\
Copy elements or slices of DATA. The last axis of INDICES holds index tuples of
length k, which address the first k axes of DATA after the batch axes. The
result has the shape INDICES.shape[:-1] + DATA.shape[batch_dims + k:].
""",
        examples="""\
examples:
  ndgather gather-nd dem.npy points.npy -o heights.npy
      dem (344, 403) and points (1000, 2) give heights (1000,)
  ndgather gather-nd images.npy frames.npy -o picked.npy --batch-dims 1
      images (8, 30, 64, 64) and frames (8, 5, 1) give picked (8, 5, 64, 64)
  ndgather gather-nd s3://bucket/era.zarr/t2m points.npy -o values.npy --dry-run
      how many chunks and bytes would be read
""",
        options=("batch_dims",),
    ),
    ArrayCommand(
        kind=Kind.GATHER_ELEMENTS,
        summary="copy single elements along one axis",
        description="""\
Copy single elements of DATA: each entry of INDICES replaces the coordinate of
its own position along one axis. The result has the shape of INDICES.
""",
        examples="""\
examples:
  ndgather gather-elements scores.npy order.npy -o best.npy --axis 1
      scores (100, 20) and order (100, 5), from argsort, give best (100, 5)
""",
        options=("axis",),
    ),
    ArrayCommand(
        kind=Kind.GATHER,
        summary="copy whole slices along one axis",
        description="""\
Copy the slices of DATA that INDICES select along one axis. The result has the
shape of DATA with that axis replaced by the axes of INDICES.
""",
        examples="""\
examples:
  ndgather gather embeddings.npy tokens.npy -o vectors.npy
      embeddings (32000, 256) and tokens (4, 128) give vectors (4, 128, 256)
""",
        options=("axis", "batch_dims"),
    ),
    ArrayCommand(
        kind=Kind.SCATTER_ND,
        summary="update the elements or slices at index tuples",
        description="""\
Replace elements or slices of DATA by UPDATES, or combine them. The last axis of
INDICES holds index tuples of length k, which address the first k axes of DATA.
UPDATES has the shape INDICES.shape[:-1] + DATA.shape[k:]. Where tuples repeat,
updates are applied in their order.
""",
        examples="""\
examples:
  ndgather scatter-nd map.npy cells.npy heights.npy -o new.npy
      map (344, 403), cells (1000, 2) and heights (1000,) give new (344, 403)
  ndgather scatter-nd counts.npy cells.npy ones.npy --in-place --reduction add
      a histogram: cells that repeat are added up
  ndgather scatter-nd era.zarr/t2m points.npy values.npy --in-place
      reads and writes only the chunks that contain points
""",
    ),
    ArrayCommand(
        kind=Kind.SCATTER_ELEMENTS,
        summary="update single elements along one axis",
        description="""\
Replace single elements of DATA by UPDATES, or combine them: each entry of
INDICES replaces the coordinate of its own position along one axis. UPDATES has
the shape of INDICES. Where positions repeat, the updates are applied in order.
""",
        examples="""\
examples:
  ndgather scatter-elements scores.npy order.npy best.npy -o new.npy --axis 1
      scores (100, 20), order (100, 5) and best (100, 5) give new (100, 20)
""",
        options=("axis",),
    ),
)
