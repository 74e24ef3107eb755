"""``ndgather draw``: a picture of a call, in a file or in the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather import reductions
from ndgather.cli.arrays import fill_value
from ndgather.cli.options import add_command, add_common, terminal
from ndgather.models.tensors import tensor_files
from ndgather.stored import open_path

if TYPE_CHECKING:
    from collections.abc import Callable

DESCRIPTION = """\
Draw a call: data with the elements that the entries of INDICES address, the
entries, and the result, linked by colours and letters. A large array is drawn
around the entries; of a large stored array no values are read. A call that
fails is drawn too, with the error in red.
"""

EXAMPLES = """\
examples:
  ndgather draw gather-nd data.npy indices.npy -o picture.svg
      one file, which follows the light or dark theme of its reader
  ndgather draw scatter-nd data.npy indices.npy updates.npy --reduction add
      as text, in the terminal
  ndgather draw gather-windows image.npy starts.npy --window 8,8 -o windows.png
      needs matplotlib: pip install 'ndgather[viz]'

DATA, INDICES and UPDATES are .npy files, .npz archives given as
FILE.npz:MEMBER, or ONNX tensors (.pb). DATA may also be a stored array:
STORE.zarr/ARRAY, FILE.h5/ARRAY, or a URL of zarr.
"""

FUNCTIONS = (
    "gather-nd",
    "gather-elements",
    "gather",
    "gather-windows",
    "scatter-nd",
    "scatter-elements",
)
ENDINGS = (".svg", ".png")


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    summary = "draw where every element of a result comes from"
    draw = add_command(commands, "draw", summary, DESCRIPTION, EXAMPLES)
    draw.add_argument(
        "function", choices=FUNCTIONS, metavar="FUNCTION", help=f"one of {', '.join(FUNCTIONS)}"
    )
    draw.add_argument("data", metavar="DATA", help="the array to read from, or to start from")
    draw.add_argument("indices", metavar="INDICES", help="the indices, or where windows start")
    draw.add_argument("updates", metavar="UPDATES", nargs="?", help="of a scatter: the values")
    draw.add_argument(
        "-o",
        "--output",
        type=_picture_file,
        metavar="FILE",
        help=f"{' or '.join(ENDINGS)} (default: text, in the terminal)",
    )
    draw.add_argument(
        "--theme",
        choices=("light", "dark"),
        metavar="NAME",
        help="light or dark (default: that of the reader)",
    )
    draw.add_argument("--axis", type=int, metavar="N", help="the axis that INDICES address")
    draw.add_argument(
        "--batch-dims", type=int, metavar="N", help="how many leading axes DATA and INDICES share"
    )
    draw.add_argument(
        "--window",
        dest="window_shape",
        type=_sizes,
        metavar="N,...",
        help="the sizes of a window",
    )
    draw.add_argument("--mode", metavar="MODE", help="what to do with an index out of bounds")
    draw.add_argument("--fill-value", metavar="V", help="the value that --mode fill writes")
    draw.add_argument(
        "--reduction",
        choices=reductions.NAMES,
        metavar="NAME",
        help=f"of a scatter: {', '.join(reductions.NAMES)}",
    )
    draw.add_argument(
        "--no-init-val",
        dest="use_init_val",
        action="store_const",
        const=False,
        help="leave the elements of DATA out of the reduction where they are updated",
    )
    add_common(draw, _draw)


_OPTIONS = ("axis", "batch_dims", "window_shape", "mode", "reduction", "use_init_val")


def _draw(options: argparse.Namespace) -> None:
    from ndgather import show  # noqa: PLC0415 - few commands draw

    stored = open_path.is_stored(options.data)
    data: Any = (open_path.opened if stored else tensor_files.read)(options.data)
    files = [options.indices] + [options.updates] * (options.updates is not None)
    arrays = [data, *map(tensor_files.read, files)]
    given = {name: getattr(options, name) for name in _OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if options.fill_value is not None:
        given["fill_value"] = fill_value(options.fill_value, data.dtype)
    function: Callable[..., show.Picture] = getattr(show, options.function.replace("-", "_"))
    picture = function(*arrays, **given)
    if options.output is None:
        print(picture.to_text(terminal()))
    else:
        picture.save(options.output, options.theme)


def _picture_file(text: str) -> Path:
    if Path(text).suffix.lower() not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {' or '.join(ENDINGS)}")
    return Path(text)


def _sizes(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers")
    return tuple(map(int, sizes))
