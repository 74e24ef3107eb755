"""What the commands that scatter into files share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather import api, reductions
from ndgather.array_call import _core
from ndgather.cli.options import (
    add_command,
    add_common,
    add_reading,
    bar,
    columns,
    npy_file,
    print_estimate,
    print_table,
)
from ndgather.errors import FileError
from ndgather.errors.texts import one_line
from ndgather.models.tensors import tensor_files
from ndgather.stored import estimate, paths

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from ndgather.published.schema import Kind

    Array = NDArray[Any]


FILES = """\

DATA, INDICES and UPDATES are .npy files (memory-mapped), .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). OUT.npy is written only when it is
complete; an existing file stays as it is until then.

With --in-place DATA is a .npy file or a stored array: STORE.zarr/ARRAY,
FILE.h5/ARRAY, or a URL of zarr (s3://, ...), with the credentials of the
environment; only the chunks that INDICES meet are read and written. All
arguments are checked before anything is changed; a command that is then ended
from outside, or a chunk that cannot be written, leaves some updates undone.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterCommand:
    """A command that calls one function of the package on three files."""

    kind: Kind
    summary: str
    description: str
    examples: str
    has_axis: bool = False

    def add_to(self, commands: Any) -> None:
        """Add this command to the command line."""
        name = self.kind.value.replace("_", "-")
        parser = add_command(commands, name, self.summary, self.description, self.examples + FILES)
        parser.add_argument("data", metavar="DATA", help="the array to start from")
        parser.add_argument("indices", metavar="INDICES", help="the indices, an array of integers")
        parser.add_argument("updates", metavar="UPDATES", help="the values, of the dtype of DATA")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("-o", "--output", type=npy_file, metavar="OUT.npy", help="the result")
        where.add_argument("--in-place", action="store_true", help="change DATA itself")
        if self.has_axis:
            parser.add_argument(
                "--axis",
                type=int,
                default=0,
                metavar="N",
                help="the axis of DATA that INDICES address (default: 0)",
            )
        parser.add_argument(
            "--reduction",
            choices=reductions.NAMES,
            default="none",
            metavar="NAME",
            help="what becomes of an element that is updated: 'none' replaces it (default), others "
            f"combine: {', '.join(reductions.NAMES[1:])}",
        )
        parser.add_argument(
            "--mode",
            choices=_core.SCATTER_MODES,
            default="raise",
            metavar="MODE",
            help="what to do with an index out of bounds: 'raise' an error (default), 'wrap' "
            "around, 'clip' to the nearest end, or 'drop' its update; negative indices count from "
            "the end, except that 'clip' treats them as 0",
        )
        parser.add_argument(
            "--no-init-val",
            dest="use_init_val",
            action="store_false",
            help="let the elements of DATA take no part in the reduction where they are updated",
        )
        add_reading(parser)
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only say how much of a stored array would be read and written",
        )
        add_common(parser, self.work)

    def work(self, options: argparse.Namespace) -> None:
        stored = paths.is_stored(options.data)
        if stored and not options.in_place:
            raise FileError(
                f"{one_line(options.data)}: a stored array is changed where it is (allowed: "
                "--in-place)"
            )
        if not options.in_place:
            tensor_files.check_place(options.output)
        indices, updates = map(tensor_files.read, (options.indices, options.updates))
        given = {"axis": options.axis} if self.has_axis else {}
        if options.dry_run:
            data = (paths.opened if stored else tensor_files.read)(options.data)
            found = estimate(
                self.kind.value, data, indices, **given, mode=options.mode, memory=options.memory
            )
            print_estimate(found, "the updates have")
            return
        function = getattr(api, self.kind.value)
        seconds = 0.0

        def work(data: Any, out: Any) -> Array:
            nonlocal seconds
            start = time.perf_counter()
            result: Array = function(
                data,
                indices,
                updates,
                **given,
                reduction=options.reduction,
                mode=options.mode,
                use_init_val=options.use_init_val,
                out=out,
                memory=options.memory,
                progress=bar(options) if stored else None,
            )
            seconds = time.perf_counter() - start
            return result

        if options.in_place:
            place = options.data if stored else Path(options.data)
            with (paths if stored else tensor_files).in_place(place) as data:
                work(data, data)
                form = data.shape, data.dtype
        else:
            data = tensor_files.read(options.data)
            form = data.shape, data.dtype
            if data.dtype.hasobject:  # strings of an ONNX tensor have no fixed width
                tensor_files.write(options.output, work(data, None))
            else:
                tensor_files.fill(options.output, *form, lambda out: work(data, out))
        file = Path(options.data) if options.in_place else options.output
        print_table([columns(file.stem, *form, seconds, file)])
