"""What the commands that gather from files share."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import api
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
from ndgather.errors import NdgatherError
from ndgather.models.tensors import tensor_files
from ndgather.published.inference import infer
from ndgather.published.rows.functions import FUNCTIONS
from ndgather.published.schema import TensorType
from ndgather.stored import estimate, paths

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ndgather.published.schema import Kind

    Array = NDArray[Any]

BOOLEANS = {"true": True, "false": False, "1": True, "0": False}

FILES = """\

DATA and INDICES are .npy files (memory-mapped), .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). DATA may also be a stored array:
STORE.zarr/ARRAY, FILE.h5/ARRAY, or a URL of zarr (s3://, https://, ...), with
the credentials of the environment; only the chunks that INDICES touch are
read. Neither the data nor the result has to fit in memory. OUT.npy is written
only when it is complete; an existing file stays as it is until then.
"""

OPTION_HELP = {
    "axis": "the axis of DATA that INDICES address (default: 0)",
    "batch_dims": "how many leading axes DATA and INDICES share (default: 0)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherCommand:
    """A command that calls one function of the package on two files."""

    kind: Kind
    summary: str
    description: str
    examples: str
    options: tuple[str, ...]

    def add_to(self, commands: Any) -> None:
        """Add this command to the command line."""
        name = self.kind.value.replace("_", "-")
        parser = add_command(commands, name, self.summary, self.description, self.examples + FILES)
        parser.add_argument("data", metavar="DATA", help="the array to read from")
        parser.add_argument("indices", metavar="INDICES", help="the indices, an array of integers")
        parser.add_argument(
            "-o", "--output", required=True, type=npy_file, metavar="OUT.npy", help="the result"
        )
        for option in self.options:
            flag = f"--{option.replace('_', '-')}"
            parser.add_argument(
                flag, dest=option, type=int, default=0, metavar="N", help=OPTION_HELP[option]
            )
        parser.add_argument(
            "--mode",
            choices=_core.GATHER_MODES,
            default="raise",
            metavar="MODE",
            help="what to do with an index out of bounds: 'raise' an error (default), 'wrap' "
            "around, 'clip' to the nearest end, or 'fill' with V; negative indices count from "
            "the end, except that 'clip' treats them as 0",
        )
        parser.add_argument(
            "--fill-value",
            metavar="V",
            help="the value that --mode fill writes (default: zero, empty or false)",
        )
        add_reading(parser)
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only say how much of a stored array would be read",
        )
        add_common(parser, self.work)

    def work(self, options: argparse.Namespace) -> None:
        tensor_files.check_place(options.output)
        stored = paths.is_stored(options.data)
        data = (paths.opened if stored else tensor_files.read)(options.data)
        indices = tensor_files.read(options.indices)
        given = {name: getattr(options, name) for name in self.options}
        if options.dry_run:
            print_estimate(
                estimate(
                    self.kind.value,
                    data,
                    indices,
                    **given,
                    mode=options.mode,
                    memory=options.memory,
                )
            )
            return
        filling = None
        if options.fill_value is not None:
            filling = fill_value(options.fill_value, data.dtype)
        function = getattr(api, self.kind.value)
        seconds = 0.0

        def work(out: Array | None) -> Array:
            nonlocal seconds
            start = time.perf_counter()
            result: Array = function(
                data,
                indices,
                **given,
                mode=options.mode,
                fill_value=filling,
                out=out,
                memory=options.memory,
                progress=bar(options) if stored else None,
            )
            seconds = time.perf_counter() - start
            return result

        shape = self._result_shape(data, indices, given)
        if shape is None or data.dtype.hasobject:  # strings of an ONNX tensor have no fixed width
            result = work(None)
            shape = result.shape
            tensor_files.write(options.output, result)
        else:
            tensor_files.fill(options.output, shape, data.dtype, work)
        print_table([columns(options.output.stem, shape, data.dtype, seconds, options.output)])

    def _result_shape(
        self, data: Array, indices: Array, given: dict[str, int]
    ) -> tuple[int, ...] | None:
        """Return the shape of the result, or None where the call has to say what does not fit."""
        types = [TensorType(shape=array.shape) for array in (data, indices)]
        with suppress(NdgatherError):
            inferred = infer(FUNCTIONS[self.kind], types, given, check_empty_axes=False)
            return inferred.outputs[0].shape  # type: ignore[return-value]  # every size is known
        return None


def fill_value(text: str, dtype: np.dtype[Any]) -> object:
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
