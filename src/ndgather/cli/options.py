"""Options that commands share, their completion in a shell, and text for the terminal."""

from __future__ import annotations

import argparse
import logging
import math
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndgather import messages
from ndgather.errors import one_line
from ndgather.messages import LOGGER, did_you_mean, plural, shown, similar
from ndgather.models.graph import aligned, port_dtype_name
from ndgather.stored import Estimate


class CommandLine(argparse.ArgumentParser):
    """A parser that suggests the similar name for a misspelled choice."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = did_you_mean(value, action.choices or ())
            raise argparse.ArgumentError(action, f"{error.message}{hint}") from None


def add_command(
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


def add_options(parser: Any, table: str, **settings: dict[str, Any]) -> None:
    """Add the arguments of a table that reads as the help does.

    A line has the syntax of an argument, two spaces or more, and its text, which indented lines
    continue. `settings` are what else `add_argument` takes, by the name of the argument.
    """
    for entry in re.split(r"\n(?=\S)", cleandoc(table)):
        syntax, text = re.split(r"\s{2,}", entry, maxsplit=1)
        *flags, metavar = syntax.split()
        options: dict[str, Any] = {"metavar": metavar}
        if metavar.startswith("-"):
            flags, options = [*flags, metavar], {"action": "store_true"}
        name = (flags or [metavar.lower()])[-1].lstrip("-").replace("-", "_")
        options |= settings.pop(name, {})
        completer = options.pop("completer", None)  # argcomplete reads this attribute
        argument = parser.add_argument(*flags or [name], help=" ".join(text.split()), **options)
        argument.completer = completer
    if settings:
        raise TypeError(f"settings of no argument: {', '.join(settings)}")


def add_common(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], int | None],
    more: str = "",
) -> None:
    """Add the options of every command; `more` is what it does for ``--verbose``."""
    table = f"""
        --threads N   how many threads to use (default: all that this process may use)
        -v --verbose  log to standard error{more}
        --debug       show the traceback of an error
    """
    add_options(parser, table, threads={"type": positive})
    parser.set_defaults(work=work, parser=parser)


def with_later_words(options: argparse.Namespace, unknown: Sequence[str]) -> list[str]:
    """Append words after options to the argument that takes any number of words.

    argparse ends such an argument at the first option.
    """
    if "words" not in options:
        return list(unknown)
    options.words += [word for word in unknown if not word.startswith("-")]
    return [word for word in unknown if word.startswith("-")]


def refuse_unknown(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    """Exit with the usage of `parser`; suggest the option with a similar name."""
    if not unknown:
        return
    words = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    known = list(parser._option_string_actions)  # argparse has no public list of them
    meant = next(filter(None, (similar(word, known) for word in words)), None)
    hint = f"; did you mean {meant}?" if meant else ""
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def add_reading(parser: argparse.ArgumentParser, *, scatters: bool = False) -> None:
    """Add the options of commands that read stored arrays, or write them too."""
    if not scatters:
        what = "for chunks that DATA does not have: 'fill' (default) or 'raise' an error"
        missing_chunks = {"choices": ("fill", "raise"), "default": "fill"}
        add_options(parser, f"--missing-chunks WHAT  {what}", missing_chunks=missing_chunks)
    table = f"""
        --memory SIZE  limit of the buffers for a stored array, as 512MiB; the result and 8 bytes
                       per point are extra
        --quiet        no progress bar (shown on terminals only)
        --dry-run      only say how much of DATA would be read{" and written" if scatters else ""}
    """
    add_options(parser, table)


def estimate_text(needed: Estimate, subject: str = "the result has") -> str:
    """Write what a call on a stored array would read and allocate."""
    about = "" if needed.stored_is_known else "about "
    return (
        f"{plural(needed.points, 'point')} in {plural(needed.chunks, 'chunk')}: "
        f"{scaled(needed.decoded_bytes, RATES)} to decode, "
        f"{about}{scaled(needed.stored_bytes, RATES)} as they are stored; "
        f"{subject} {scaled(needed.result_bytes, RATES)}; "
        f"memory at most {scaled(needed.memory_bytes, RATES)}"
    )


class Named(argparse.Action):
    """Collect ``NAME=VALUE`` options in a dict; `read` converts a value, or raises ValueError."""

    def __init__(self, read: Callable[[str], object] = str, **options: Any) -> None:
        super().__init__(default={}, **options)
        self._read = read

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        name, equals, text = values.partition("=")
        if not (name and equals and text):
            raise argparse.ArgumentError(self, f"{values!r} is not of the form {self.metavar}")
        named = getattr(namespace, self.dest)
        if name in named:
            raise argparse.ArgumentError(self, f"{name!r} is given twice")
        try:
            setattr(namespace, self.dest, {**named, name: self._read(text)})
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None


def require_output(options: argparse.Namespace, other: str = "") -> None:
    """Exit with the usage if a command has nowhere to write to; `other` is a place of its own."""
    if options.output is None and not options.dry_run:
        options.parser.error(f"one of the arguments -o/--output {other}--dry-run is required")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def add_timeout(parser: argparse.ArgumentParser, about: str) -> None:
    add_options(parser, f"--timeout SECONDS  {about}", timeout={"type": _seconds})


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def add_runtimes(parser: argparse.ArgumentParser, about: str) -> None:
    """Add ``--runtime``, which takes names with commas between them, and may be repeated."""
    collects = {"dest": "runtimes", "action": "extend", "type": _names, "default": []}
    runtime = {**collects, "completer": runtime_names}
    add_options(parser, f"--runtime NAME,...  {about}", runtime=runtime)


def add_loading(parser: argparse.ArgumentParser, name: str, file: str, more: str = "") -> None:
    table = f"""
        --provider {name}  an execution provider of onnxruntime, or the device of OpenVINO
            (default: the CPU){more}
        --library {file}  a library of custom operators that the runtime loads{more}
    """
    collects = {"action": "append", "default": []}
    provider, library = ({"dest": name, **collects} for name in ("providers", "libraries"))
    add_options(parser, table, provider=provider, library=library)


def _published(attribute: str, **_: object) -> list[str]:
    """Return the completions for an attribute of the published operators."""
    from ndgather.published import operators  # noqa: PLC0415 - only for the shell

    return sorted({getattr(operator, attribute) for operator in operators()})


operator_names, domain_names = partial(_published, "name"), partial(_published, "domain")


def runtime_names(**_: object) -> list[str]:
    from ndgather.runtimes import MODEL_NAMES  # noqa: PLC0415 - only for the shell

    return sorted(MODEL_NAMES)


SHELLS = ("bash", "zsh", "fish")


COMPLETION = """\
Print the code with which a shell completes the commands, options, names and
files of ndgather (pip install 'ndgather[completion]').
"""

COMPLETION_EXAMPLES = """\
examples, each for the file that the shell reads when it starts:
  ndgather completion bash >> ~/.bashrc
  ndgather completion zsh >> ~/.zshrc
      after the line compinit, which turns completion on in zsh
  ndgather completion fish > ~/.config/fish/completions/ndgather.fish
"""


def add_completion(commands: Any) -> None:
    summary = "print the code that completes command lines in a shell"
    parser = add_command(commands, "completion", summary, COMPLETION, COMPLETION_EXAMPLES)
    add_options(parser, f"SHELL  {', '.join(SHELLS)}", shell={"choices": SHELLS})
    add_common(parser, _completion)


def _completion(options: argparse.Namespace) -> None:
    messages.need("argcomplete", "completion")
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - an extra

    print(shellcode(["ndgather"], shell=options.shell))


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and exit, if the shell asks for completions."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    with suppress(ModuleNotFoundError):
        import argcomplete  # noqa: PLC0415 - an extra, and only for the shell

        argcomplete.autocomplete(parser)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return names


def npy_file(text: str) -> Path:
    if Path(text).suffix != ".npy":
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .npy")
    return Path(text)


TITLES = ("output", "shape", "dtype", "time", "rate", "file")
NUMBERS = ("time", "rate")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
RATES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
WIDTHS = (40, 100)  # of text


def terminal() -> int:
    """Return the width of text for the terminal."""
    narrowest, widest = WIDTHS
    return min(max(shutil.get_terminal_size().columns, narrowest), widest)


def page_width() -> int:
    """Return the limit of lines: that of a terminal, and 0, no limit, for a file or a program."""
    return terminal() if sys.stdout.isatty() else 0


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@contextmanager
def log_to_stderr(verbose: bool) -> Iterator[None]:
    """Write the log to standard error with ``--verbose``."""
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("ndgather: %(message)s"))
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)


def columns(
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    seconds: float | None,
    file: Path | None,
) -> tuple[str, ...]:
    count = math.prod(shape) * dtype.itemsize
    rate = f"{scaled(count / seconds, RATES)}/s" if count and seconds else ""
    passed = "" if seconds is None else time_text(seconds)
    return (name, shown(shape), port_dtype_name(dtype), passed, rate, str(file or ""))


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows in columns, numbers right-aligned, without empty columns."""
    table: list[list[str]] = []
    for title, *texts in zip(TITLES, *rows, strict=True):
        if any(texts):
            column = [title, *map(one_line, texts)]
            width = max(map(len, column)) if title in NUMBERS else 0
            table.append([text.rjust(width) for text in column])
    print(aligned([*zip(*table, strict=True)]))


def time_text(seconds: float) -> str:
    return scaled(seconds, TIMES)


def scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Format `value` in the largest unit below it, with at least three digits."""
    size, unit = next((item for item in units if value >= item[0]), units[-1])
    return f"{value / size:#.3g} {unit}".replace(". ", " ")


PATIENCE_S = 1.0  # before a bar of nodes is shown
_STEP_S = 0.25


def bar(options: argparse.Namespace) -> Literal[True] | None:
    """Return True if a call shows its progress: on a terminal, with tqdm installed."""
    seen = sys.stderr.isatty() and not options.quiet and find_spec("tqdm") is not None
    return True if seen else None


@contextmanager
def node_bar(options: argparse.Namespace) -> Iterator[Callable[[int, int], object] | None]:
    """Show how many nodes of a model have run, and the time."""
    if bar(options) is None:
        yield None
        return
    from tqdm import tqdm  # noqa: PLC0415 - an optional package

    with (
        tqdm(
            desc=one_line(Path(options.model).name),
            unit="node",
            leave=False,
            delay=PATIENCE_S,
            ncols=shutil.get_terminal_size().columns,
        ) as shown_bar,
        _moving(shown_bar),
    ):

        def progress(done: int, total: int) -> None:
            shown_bar.total = total
            shown_bar.update(done - shown_bar.n)

        yield progress


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal how long a command has worked, if it takes more than a second."""
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        yield
        return
    from tqdm import tqdm  # noqa: PLC0415 - an optional package

    text = one_line(what).replace("{", "{{").replace("}", "}}") + ": {elapsed}"
    with tqdm(bar_format=text, leave=False, delay=PATIENCE_S) as shown_bar, _moving(shown_bar):
        yield


@contextmanager
def _moving(shown_bar: Any) -> Iterator[None]:
    """Refresh the time of a bar while no node finishes."""
    ended = threading.Event()

    def move() -> None:
        if ended.wait(PATIENCE_S):
            return
        while not ended.wait(_STEP_S):
            shown_bar.refresh()

    thread = threading.Thread(name="ndgather-bar", target=move, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
