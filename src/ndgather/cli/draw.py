"""``ndgather draw``: a picture of a call, in a file or in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ndgather import api
from ndgather.arguments import REDUCTIONS
from ndgather.cli.arrays import fill_value
from ndgather.cli.options import add_command, add_common, add_options, terminal
from ndgather.models.tensors import tensor_files
from ndgather.stored import open_path

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

FUNCTIONS = {name.replace("_", "-"): name for name in api.SIGNATURES}
ENDINGS = (".svg", ".png")


def add_to(commands: Any) -> None:
    summary = "draw where every element of a result comes from"
    draw = add_command(commands, "draw", summary, DESCRIPTION, EXAMPLES)
    table = f"""
        FUNCTION          one of {", ".join(FUNCTIONS)}
        DATA              the array to read from, or to start from
        INDICES           the indices, or where windows or ranges start
        UPDATES           of a scatter: the values; of ranges: where they stop
        -o --output FILE  {" or ".join(ENDINGS)} (default: text, in the terminal)
        --theme NAME      light or dark (default: that of the reader)
        --axis N          the axis that INDICES address
        --batch-dims N    how many leading axes DATA and INDICES share
        --window N,...    the sizes of a window
        --mode MODE       what to do with an index out of bounds; of windows: one for each axis,
                          such as edge,wrap
        --fill-value V    the value that --mode fill writes
        --reduction NAME  of a scatter: {", ".join(REDUCTIONS)}
        --no-init-val     leave the elements of DATA out of the reduction where they are updated
    """
    add_options(
        draw,
        table,
        function={"choices": FUNCTIONS},
        updates={"nargs": "?"},
        output={"type": _picture_file},
        theme={"choices": ("light", "dark")},
        axis={"type": int},
        batch_dims={"type": int},
        window={"type": _sizes, "dest": "window_shape"},
        reduction={"choices": REDUCTIONS},
        no_init_val={"action": "store_const", "const": False, "dest": "use_init_val"},
    )
    add_common(draw, _draw)


_OPTIONS = ("axis", "batch_dims", "window_shape", "mode", "reduction", "use_init_val")


def _draw(options: argparse.Namespace) -> None:
    from ndgather import show  # noqa: PLC0415 - few commands draw

    stored = open_path.is_stored(options.data)
    data: Any = (open_path.opened if stored else tensor_files.read)(options.data)
    files = [options.indices] + [options.updates] * (options.updates is not None)
    arrays = [data, *map(tensor_files.read, files)]
    arguments = {name: getattr(options, name) for name in _OPTIONS}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if options.fill_value is not None:
        arguments["fill_value"] = fill_value(options.fill_value, data.dtype)
    function: Callable[..., show.Picture] = getattr(show, FUNCTIONS[options.function])
    picture = function(*arrays, **arguments)
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
