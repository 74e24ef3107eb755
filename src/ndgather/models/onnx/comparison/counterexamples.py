"""Search for small inputs on which runtimes disagree: random values with a few edge cases."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import NotLoadedError
from ndgather.models.arguments import Array, whole_number
from ndgather.models.graph import fit_inputs
from ndgather.models.onnx.comparison import Comparer
from ndgather.models.onnx.files import IN_MEMORY
from ndgather.models.onnx.inference import checked_sizes, open_sizes
from ndgather.models.onnx.random_inputs import highest_indices, random_inputs
from ndgather.runtimes.children import RuntimeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ndgather.models.onnx.comparison import Comparison
    from ndgather.models.onnx.files import Source
    from ndgather.models.onnx.runs import ForRuntimes

Inputs = dict[str, Array]

_MOST_CHANGES = 3
_SIZES = (0, 1, 2, 3)  # for sizes that the model leaves open, in every second try


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Inputs on which runtimes disagree, as `search` returns them.

    Attributes
    ----------
    inputs : dict of str to array
        The inputs by their names.
    what : str
        Their edge cases.
    tries : int
        How many inputs were run, these included.
    report : Comparison
        The result of `compare` for them.
    """

    inputs: Inputs
    what: str
    tries: int
    report: Comparison


def search(
    model: Source,
    tries: int = 50,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    runtimes: Sequence[str] = ("onnxruntime", "openvino"),
    rtol: float = 1e-3,
    atol: float = 1e-5,
    threads: int | None = None,
    providers: ForRuntimes = (),
    libraries: ForRuntimes = (),
    timeout: float | None = None,
) -> Parting | None:
    """Search for inputs on which a runtime disagrees with the specification or another runtime.

    Every try takes random inputs and sets a few elements of one of them to edge cases: negative
    indices, the ends of an axis, indices out of bounds, repeated indices, NaN, infinities and huge
    values. Every second try also sets the sizes that the model leaves open to 0, 1, 2 or 3. The
    first inputs on which the runtimes disagree are reduced to smaller ones on which they still do.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As in `run`.
    tries : int, default 50
        The largest number of inputs to run.
    seed, sizes
        As in `random_inputs`.
    runtimes, rtol, atol, threads, providers, libraries, timeout
        As in `compare`.

    Returns
    -------
    Parting or None
        None if the runtimes agree on all inputs.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        As in `compare`, or no runtime loads the model.
    """
    tries, seed = whole_number("search", "tries", tries, 1), whole_number("search", "seed", seed, 0)
    chosen_sizes = checked_sizes("search", sizes)
    comparer = Comparer(
        "search", model, runtimes, rtol, atol, threads, providers, libraries, timeout
    )
    required = [port for port in comparer.ports if not port.optional]
    open_names = sorted(set(open_sizes(required).values()))
    with ExitStack() as processes:
        runtime_processes = _Processes(comparer, processes)
        for number in range(tries):
            rng = np.random.default_rng([seed, number])
            chosen = dict(chosen_sizes)
            if number % 2:
                for name in open_names:
                    chosen.setdefault(name, int(rng.choice(_SIZES)))
            base = random_inputs(model, seed + number, sizes=chosen)
            shapes = {name: array.shape for name, array in base.items()}
            highest = highest_indices(comparer.proto, comparer.folder, shapes)
            what, name, changes = _draw_changes(base, highest, rng)
            inputs = _with_changes(base, name, changes)
            if not runtime_processes.disagree(inputs):
                continue
            for smaller in _smaller(model, name, changes, seed + number, chosen, open_names):
                fewer = _element_count(smaller) < _element_count(inputs)
                if fewer and runtime_processes.disagree(smaller):
                    inputs = smaller
            report = comparer.compare(inputs)
            return Parting(inputs=inputs, what=what, tries=number + 1, report=report)
        runtime_processes.require_loaded(IN_MEMORY if comparer.folder is None else model)
    return None


def _draw_changes(
    base: Inputs, highest: Mapping[str, int], rng: np.random.Generator
) -> tuple[str, str, list[tuple[int, Any]]]:
    """Draw elements of one input that become edge cases.

    Return a description, the name of the input, and positions in C order with the new values.
    """
    numbers = [name for name, array in base.items() if array.size and array.dtype.kind in "iuf"]
    numbers = [name for name in numbers if name in highest] * 3 + numbers  # indices more often
    if not numbers:
        return "random inputs", "", []
    name = str(rng.choice(numbers))
    array = base[name]
    cases = _edge_cases(array.dtype, highest.get(name))
    what = str(rng.choice(list(cases)))
    count = int(rng.integers(1, min(_MOST_CHANGES, array.size) + 1))
    positions = rng.choice(array.size, count, replace=False)
    values = cases[what]
    changes = [(int(position), values[int(rng.integers(len(values)))]) for position in positions]
    return f"{what} in `{name}`", name, changes


def _edge_cases(dtype: np.dtype[Any], highest: int | None) -> dict[str, list[Any]]:
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        return {
            "NaN": [np.nan],
            "infinity": [np.inf, -np.inf],
            "huge value": [largest, -largest],
            "negative zero": [-0.0],
        }
    limits = np.iinfo(dtype)
    size = (1 if highest is None else highest) + 1
    cases = {
        "negative index": [-1, -size],
        "end of the axis": [] if highest is None else [0, size - 1],
        "index out of bounds": [size, -size - 1],
        "huge value": [int(limits.max), int(limits.min), 2**31],
    }
    possible = {
        what: [value for value in values if limits.min <= value <= limits.max]
        for what, values in cases.items()
    }
    return {what: values for what, values in possible.items() if values}


def _with_changes(base: Inputs, name: str, changes: Sequence[tuple[int, Any]]) -> Inputs:
    changed = {key: array.copy() for key, array in base.items()}
    for position, value in changes:
        changed[name].reshape(-1)[position] = value
    return changed


def _smaller(
    model: Source,
    name: str,
    changes: Sequence[tuple[int, Any]],
    seed: int,
    chosen: Mapping[str, int],
    open_names: Sequence[str],
) -> Iterator[Inputs]:
    """Yield inputs of smaller sizes with one of the changes, the smallest last."""
    for size in (3, 2, 1):
        small = random_inputs(model, seed, sizes={**chosen, **dict.fromkeys(open_names, size)})
        if not changes:
            yield small
        for _, value in changes:
            if small[name].size:
                yield _with_changes(small, name, [(0, value)])


def _element_count(inputs: Inputs) -> int:
    return sum(array.size for array in inputs.values())


class _Processes:
    """Processes in which the runtimes run a model with one input after the other."""

    def __init__(self, comparer: Comparer, processes: ExitStack) -> None:
        self._comparer, self._processes = comparer, processes
        self._loaded: dict[str, RuntimeProcess] = {}

    def disagree(self, inputs: Inputs) -> bool:
        """Return whether a runtime disagrees with the specification or with the first runtime."""
        comparer = self._comparer
        fitted = fit_inputs(comparer.ports, inputs)
        answers = [self._process(name).run(comparer.names, fitted) for name in comparer.options]
        statuses = {answer.status for answer in answers}
        if "crashed" in statuses or len(statuses) > 1:
            return True
        first: Inputs | None = None
        for answer in answers:
            if answer.values is None:
                continue
            arrays = map(np.asarray, answer.values)
            values = {**fitted, **dict(zip(comparer.names, arrays, strict=True))}
            first = first or values
            checks = (node.check(values) for node in comparer.traced.nodes)
            if any(check is not None and not check.same for check in checks) or any(
                comparer.differ(first[name], values[name]) for name in comparer.outputs
            ):
                return True
        return False

    def _process(self, name: str) -> RuntimeProcess:
        process = self._loaded.get(name)
        if process is None or (process.failed is not None and process.version):
            source, options = self._comparer.traced.source(), self._comparer.options[name]
            process = self._processes.enter_context(
                RuntimeProcess(name, source, options, limit_s=self._comparer.limit_s)
            )
            self._loaded[name] = process
        return process

    def require_loaded(self, path: object) -> None:
        """Raise an error if no runtime loaded the model, so that none could disagree."""
        if any(process.version for process in self._loaded.values()):
            return
        for name, process in self._loaded.items():
            why = process.failed.text if process.failed is not None else ""
            raise NotLoadedError(f"{path}: {name} does not load it: {why}")
