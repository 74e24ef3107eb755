"""Inputs on which runtimes part: drawn, one hard value at a time, and made as small as they get."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import runtime_errors
from ndgather.models.arguments import tolerance, whole_number
from ndgather.models.graph import fit_inputs
from ndgather.models.onnx.comparison import checked_runtimes, compare, values_differ
from ndgather.models.onnx.files import IN_MEMORY, opened
from ndgather.models.onnx.model import given_sizes, judged, model_ports
from ndgather.models.onnx.runs import (
    ExposedModel,
    exposed,
    highest_indices,
    options_by_runtime,
    random_inputs,
)
from ndgather.runtimes.children import RuntimeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import ModelProto

    from ndgather.models.onnx.comparison import Comparison
    from ndgather.models.onnx.files import Source
    from ndgather.models.onnx.runs import ForRuntimes
    from ndgather.runtimes.runtime import LoadOptions


Array = NDArray[Any]
Inputs = dict[str, Array]

_MOST_CHANGED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An element of an input, by its place in order, and its new value."""

    name: str
    place: int
    value: Any


def drawn(
    base: Inputs, bounds: Mapping[str, int], rng: np.random.Generator
) -> tuple[str, list[Change]]:
    """Draw which elements of which input become what, and say so."""
    names = [name for name, each in base.items() if each.size and each.dtype.kind in "iuf"]
    names = [name for name in names if name in bounds] * 3 + names  # indices more often
    if not names:
        return "made-up inputs", []
    name = str(rng.choice(names))
    array = base[name]
    kinds = _hard_values(array.dtype, bounds.get(name))
    what = str(rng.choice(list(kinds)))
    count = int(rng.integers(1, min(_MOST_CHANGED, array.size) + 1))
    places = rng.choice(array.size, count, replace=False)
    values = kinds[what]
    return f"{what} in {name}", [
        Change(name=name, place=int(place), value=values[int(rng.integers(len(values)))])
        for place in places
    ]


def _hard_values(dtype: np.dtype[Any], highest: int | None) -> dict[str, list[Any]]:
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        return {
            "NaN": [np.nan],
            "an infinity": [np.inf, -np.inf],
            "a huge value": [largest, -largest],
            "a negative zero": [-0.0],
        }
    limits = np.iinfo(dtype)
    size = (1 if highest is None else highest) + 1
    wanted = {
        "a negative index": [-1, -size],
        "an end of the axis": [0, size - 1],
        "an index out of bounds": [size, -size - 1],
        "a huge value": [int(limits.max), int(limits.min), 2**31],
    }
    if highest is None:
        del wanted["an end of the axis"]
    kept = {
        what: [each for each in values if limits.min <= each <= limits.max]
        for what, values in wanted.items()
    }
    return {what: values for what, values in kept.items() if values}


def with_changes(base: Inputs, changes: Sequence[Change]) -> Inputs:
    changed = {name: each.copy() for name, each in base.items()}
    for change in changes:
        array = changed[change.name]
        if change.place < array.size:
            array.reshape(-1)[change.place] = change.value
    return changed


_SIZES = (0, 1, 2, 3)  # that open sizes are tried with, beside those of `random_inputs`


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Inputs on which runtimes part, what is special about them, and the report.

    `tries` is how many inputs were run before these.
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
) -> Parting | None:
    """Look for inputs on which a runtime and a specification, or two runtimes, part.

    Each try takes made-up inputs and changes a few elements of one of them to hard values: negative
    indices, the ends of an axis, what lies beyond them, repeats, NaN, infinities, huge values; and
    it makes sizes that the model leaves open 0, 1, 2 or 3. The first inputs that part are made
    smaller as long as they do.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file.
    tries : int, default 50
        How many inputs are run at most until some are found.
    seed, sizes
        As in `random_inputs`.
    runtimes, rtol, atol, threads, providers, libraries
        As in `compare`.

    Returns
    -------
    Parting or None
        None where no inputs were found.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        As in `compare`, or no runtime loaded the model.
    """
    runtimes = checked_runtimes("search", runtimes)
    tries, seed = whole_number("search", "tries", tries, 1), whole_number("search", "seed", seed, 0)
    rtol, atol = tolerance("search", "rtol", rtol), tolerance("search", "atol", atol)
    options = options_by_runtime("search", runtimes, threads, providers, libraries)
    given = given_sizes("search", sizes)
    with ExitStack() as processes:
        trial = _Trial(model, options, rtol, atol, processes)
        for number in range(tries):
            rng = np.random.default_rng([seed, number])
            chosen = dict(given)
            if number % 2:
                for name in trial.open_sizes:
                    chosen.setdefault(name, int(rng.choice(_SIZES)))
            base = random_inputs(model, seed + number, sizes=chosen)
            what, changes = drawn(base, trial.bounds(base), rng)
            if not trial.parts(with_changes(base, changes)):
                continue
            inputs = with_changes(base, changes)
            for smaller in _smaller(model, changes, seed + number, chosen, trial.open_sizes):
                if sum(each.size for each in smaller.values()) < sum(
                    each.size for each in inputs.values()
                ) and trial.parts(smaller):
                    inputs = smaller
            report = compare(
                model,
                inputs,
                runtimes=runtimes,
                rtol=rtol,
                atol=atol,
                threads=threads,
                providers=providers,
                libraries=libraries,
            )
            return Parting(inputs=inputs, what=what, tries=number + 1, report=report)
        trial.refuse_unloaded()
    return None


class _Trial:
    """Runtimes that have the model loaded, and are asked whether they part."""

    def __init__(
        self,
        model: Source,
        options: Mapping[str, LoadOptions],
        rtol: float,
        atol: float,
        processes: ExitStack,
    ) -> None:
        proto, self._folder = opened(model, "search")
        self._path = IN_MEMORY if self._folder is None else model
        self._proto = proto
        self._model: ExposedModel = exposed(_copied(proto), self._folder)
        self._ports, results = model_ports(proto)
        self.open_sizes = sorted(
            {
                f"{port.name}[{axis}]" if size == "?" else size
                for port in self._ports
                for axis, size in enumerate(port.shape or ())
                if isinstance(size, str) and not port.optional
            }
        )
        self._outputs = [port.name for port in results]
        self._names = list(dict.fromkeys([*self._outputs, *self._model.names]))
        self._tolerances = rtol, atol
        self._processes, self._options = processes, options
        self._loaded: dict[str, RuntimeProcess] = {}

    def bounds(self, inputs: Inputs) -> dict[str, int]:
        shapes = {name: each.shape for name, each in inputs.items()}
        return highest_indices(self._proto, self._folder, shapes)

    def parts(self, inputs: Inputs) -> bool:
        """Return whether a runtime differs from a specification, or from the first runtime."""
        fitted = fit_inputs(self._ports, inputs)
        answers = [self._process(name).run(self._names, fitted) for name in self._options]
        if len({each.values is None for each in answers}) > 1 or any(
            each.crashed is not None for each in answers
        ):
            return True
        first: Inputs | None = None
        for answer in answers:
            if answer.values is None:
                continue
            given = map(np.asarray, answer.values)
            values = {**fitted, **dict(zip(self._names, given, strict=True))}
            if not self._obeys(values):
                return True
            first = values if first is None else first
            if any(
                values_differ(first[name], values[name], *self._tolerances)
                for name in self._outputs
            ):
                return True
        return False

    def refuse_unloaded(self) -> None:
        """Refuse a model that no runtime loaded, on which they part as little as they agree."""
        failed = {name: each.failed for name, each in self._loaded.items() if not each.version}
        if len(failed) == len(self._loaded):
            for name, answer in failed.items():
                why = RuntimeError((answer and (answer.refused or answer.crashed)) or "")
                raise runtime_errors.not_loaded(self._path, name, why)

    def _process(self, name: str) -> RuntimeProcess:
        process = self._loaded.get(name)
        if process is None or (process.failed is not None and process.version):
            made = RuntimeProcess(name, self._model.source(), self._options[name])
            process = self._loaded[name] = self._processes.enter_context(made)
        return process

    def _obeys(self, values: Inputs) -> bool:
        for node in self._model.nodes:
            given = node.inputs(values)
            if given is not None and not judged(node.op_node, given, values[node.gives]).same:
                return False
        return True


def _copied(proto: ModelProto) -> ModelProto:
    copy = type(proto)()
    copy.CopyFrom(proto)
    return copy


def _smaller(
    model: Source,
    changes: Sequence[Change],
    seed: int,
    chosen: Mapping[str, int],
    names: Sequence[str],
) -> Iterator[Inputs]:
    """Yield inputs of smaller sizes with one of the changes, the smallest last."""
    for side in (3, 2, 1):
        sizes = {**chosen, **dict.fromkeys(names, side)}
        small = random_inputs(model, seed, sizes=sizes)
        for change in changes:
            if small[change.name].size:
                yield with_changes(small, [Change(name=change.name, place=0, value=change.value)])
        if not changes:
            yield small
