"""Search for small inputs on which runtimes disagree."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ndgather.api import own_errors
from ndgather.errors import IndexOutOfBoundsError, NotLoadedError
from ndgather.models import Array, instance, whole_number
from ndgather.models.graph import fit_inputs
from ndgather.models.onnx.comparison.comparer import Comparer
from ndgather.models.onnx.comparison.explanation import explain
from ndgather.models.onnx.comparison.report import Comparison
from ndgather.models.onnx.files import IN_MEMORY, Source
from ndgather.models.onnx.inference import checked_sizes, open_sizes
from ndgather.models.onnx.random_inputs import highest_indices, random_inputs
from ndgather.models.onnx.runs import ForRuntimes, RunSettings
from ndgather.runtimes.children import RuntimeProcess

Inputs: TypeAlias = dict[str, Array]
Kind: TypeAlias = tuple[str, ...]

_NUMBER = re.compile(r"-?\d+")
_MOST_CHANGES = 3
_SIZES = (0, 1, 2, 3)  # the values of dynamic sizes in every second try


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Counterexample:
    """Inputs on which runtimes disagree.

    Attributes
    ----------
    inputs : dict of str to array
        The inputs by name.
    what : str
        A description of the edge cases in the inputs.
    tries : int
        The number of tries until the inputs were found.
    report : Comparison
        The result of `compare` for the inputs.
    count : int
        The number of tries in which the runtimes disagree in the same way.
    """

    inputs: Inputs
    what: str
    tries: int
    report: Comparison
    count: int = 1

    def __repr__(self) -> str:
        return f"The runtimes disagree on input {self.tries} ({self.what}).\n\n{self.report!r}"

    @property
    def kind(self) -> tuple[str, str, str]:
        """The node or output that differs first, the rule, and the outcome in each runtime.

        The rule is "another operator" if the difference is not caused by a gather or scatter. The
        rule is "support" if a runtime rejects a valid model, and "crash" if a runtime crashes.
        """
        report = self.report
        node = next((node for node in report.nodes if not node.same), None)
        runs = report.runs if node is None else node.runs
        outcomes = ", ".join(f"{run.runtime} {run.status}" for run in runs)
        rule = "crash" if any(run.status == "crashed" for run in runs) else "support"
        if node is not None:
            rules = (run.explanation.rule for run in node.runs if run.explanation is not None)
            return node.where, next(rules, rule), outcomes
        if report.origins:
            return report.origins[0][0], "another operator", outcomes
        if report.outputs:
            return f"output {report.outputs[0][0]}", "another operator", outcomes
        return "the whole model", rule, outcomes


@own_errors("search")
def search(
    model: Source,
    tries: int = 50,
    *,
    most: int | None = None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    valid_indices: bool = False,
    runtimes: Sequence[str] = ("onnxruntime", "openvino"),
    rtol: float = 1e-3,
    atol: float = 1e-5,
    threads: int | None = None,
    providers: ForRuntimes = (),
    libraries: ForRuntimes = (),
    timeout: float | None = None,
) -> tuple[Counterexample, ...]:
    """Search for inputs on which a runtime disagrees with the specification or another runtime.

    Each try draws random inputs and sets a few elements of one input to edge cases: negative
    indices, the ends of an axis, out-of-bounds indices, duplicate indices, NaN, infinities or huge
    values. Every second try also sets the dynamic sizes of the model to 0, 1, 2 or 3.

    Two differences are of the same kind if they start at the same node, break the same rule and
    have the same outcome in each runtime. The first inputs that cause a kind of difference are
    reduced to the smallest sizes at which the difference remains.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`.
    tries : int, default 50
        The maximum number of inputs to run.
    most : int, optional
        Stop after this many kinds of differences.
    seed, sizes
        See `random_inputs`.
    valid_indices : bool, default False
        Draw only valid indices, and skip inputs for which a node receives an out-of-bounds index.
    runtimes, rtol, atol, threads, providers, libraries, timeout
        See `compare`.

    Returns
    -------
    tuple of Counterexample
        One counterexample for each kind of difference, most frequent first. The tuple is empty if
        the runtimes agree on all inputs.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        See `compare`. Also raised if no runtime can load the model.
    """
    settings = RunSettings(runtimes, rtol, atol, threads, providers, libraries, timeout)
    searcher = _Searcher(model, tries, seed, sizes, valid_indices, settings)
    limit = math.inf if most is None else whole_number("search", "most", most, 1)
    kinds: dict[tuple[str, str, str], Counterexample] = {}
    for example in searcher.counterexamples():
        known = kinds.setdefault(example.kind, example)
        if known is not example:
            searcher.counts[known.tries] += searcher.counts.pop(example.tries)
        if len(kinds) >= limit:
            break
    counted = [replace(item, count=searcher.counts[item.tries]) for item in kinds.values()]
    return tuple(sorted(counted, key=lambda item: -item.count))


class _Searcher:
    """A search that draws inputs and reuses a process for each runtime.

    `counts` maps the first try with each kind of difference to the number of tries with this kind.
    """

    def __init__(
        self,
        model: Source,
        tries: object,
        seed: object,
        sizes: object,
        valid_indices: object,
        settings: RunSettings,
    ) -> None:
        self._model, self._tries = model, whole_number("search", "tries", tries, 1)
        self._seed = whole_number("search", "seed", seed, 0)
        self._sizes = checked_sizes("search", sizes)
        self._valid = instance("search", "valid_indices", valid_indices, bool, "a choice")
        self._comparer = Comparer("search", model, settings)
        self._loaded: dict[str, RuntimeProcess] = {}
        self._processes = ExitStack()
        self.counts: Counter[int] = Counter()

    def counterexamples(self) -> Iterator[Counterexample]:
        """Yield the first inputs that cause each kind of difference, reduced in size."""
        comparer, model = self._comparer, self._model
        required = [port for port in comparer.ports if not port.optional]
        open_names = sorted(set(open_sizes(required).values()))
        first_tries: dict[Kind, int] = {}
        with self._processes:
            for number in range(self._tries):
                rng, seed = np.random.default_rng([self._seed, number]), self._seed + number
                chosen = dict(self._sizes)
                if number % 2:
                    for name in open_names:
                        chosen.setdefault(name, int(rng.choice(_SIZES)))
                base = random_inputs(model, seed, sizes=chosen)
                shapes = {name: array.shape for name, array in base.items()}
                highest = highest_indices(comparer.proto, comparer.folder, shapes)
                what, name, changes = _draw_changes(base, highest, rng, valid=self._valid)
                inputs = _with_changes(base, name, changes)
                kind = self._difference(inputs)
                if kind is None:
                    continue
                first = first_tries.setdefault(kind, number + 1)
                self.counts[first] += 1
                if first <= number:
                    continue
                for smaller in _smaller(model, name, changes, seed, chosen, open_names):
                    fewer = _element_count(smaller) < _element_count(inputs)
                    if fewer and self._difference(smaller) == kind:
                        inputs = smaller
                report = comparer.compare(inputs)
                yield Counterexample(inputs=inputs, what=what, tries=number + 1, report=report)
            if not first_tries:
                self._require_loaded(IN_MEMORY if comparer.folder is None else model)

    def _difference(self, inputs: Inputs) -> Kind | None:
        """Return a key that identifies how the runtimes disagree, or None."""
        comparer = self._comparer
        fitted = fit_inputs(comparer.ports, inputs)
        names = comparer.names
        answers = {name: self._process(name).run(names, fitted) for name in comparer.options}
        kinds: list[Kind] = []
        statuses = {answer.status for answer in answers.values()}
        if "crashed" in statuses or len(statuses) > 1:
            texts = ((name, x.status, _NUMBER.sub("", x.text)) for name, x in answers.items())
            kinds.append(tuple(text for item in texts for text in item))
        first: Inputs | None = None
        for runtime, answer in answers.items():
            if answer.values is None:
                continue
            arrays = map(np.asarray, answer.values)
            values = {**fitted, **dict(zip(comparer.names, arrays, strict=True))}
            first = first or values
            for node in comparer.traced.nodes:
                checked = node.check(values)
                if checked is None or checked.same:
                    continue
                if self._valid and isinstance(checked.refusal, IndexOutOfBoundsError):
                    return None
                kinds.append((runtime, node.op_node.where, explain(checked).rule))
            for name in comparer.outputs:
                if not kinds and comparer.difference(first[name], values[name]):
                    kinds.append((runtime, "output", name))
        return tuple(text for kind in kinds[:2] for text in kind) or None

    def _process(self, name: str) -> RuntimeProcess:
        process = self._loaded.get(name)
        if process is None or (process.failed is not None and process.version):
            process = self._comparer.start_process(name, self._comparer.traced)
            self._processes.enter_context(process)
            self._loaded[name] = process
        return process

    def _require_loaded(self, path: object) -> None:
        if any(process.version for process in self._loaded.values()):
            return
        for name, process in self._loaded.items():
            why = process.failed.text if process.failed is not None else ""
            raise NotLoadedError(f"{path}: {name} cannot load it: {why}")


def _draw_changes(
    base: Inputs, highest: Mapping[str, int], rng: np.random.Generator, *, valid: bool
) -> tuple[str, str, list[tuple[int, Any]]]:
    """Draw edge cases for some elements of a random input.

    Return a description, the name of the input, and a list of (flat position, new value) pairs.
    """
    numbers = [
        name
        for name, array in base.items()
        if array.size and array.dtype.kind in ("f" if valid and name not in highest else "iuf")
    ]
    # Inputs that are used as indices are drawn four times as often as other inputs.
    numbers = [name for name in numbers if name in highest] * 3 + numbers
    if not numbers:
        return "random inputs", "", []
    name = str(rng.choice(numbers))
    array = base[name]
    cases = _edge_cases(array.dtype, highest.get(name), valid=valid)
    what = str(rng.choice(list(cases)))
    count = int(rng.integers(1, min(_MOST_CHANGES, array.size) + 1))
    positions = rng.choice(array.size, count, replace=False)
    values = cases[what]
    changes = [(int(position), values[int(rng.integers(len(values)))]) for position in positions]
    return f"{what} in `{name}`", name, changes


def _edge_cases(dtype: np.dtype[Any], highest: int | None, *, valid: bool) -> dict[str, list[Any]]:
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
        "index out of bounds": [] if valid else [size, -size - 1],
        "huge value": [] if valid else [int(limits.max), int(limits.min), 2**31],
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
    """Yield smaller inputs with a single edge case, from the largest to the smallest."""
    for size in (3, 2, 1):
        small = random_inputs(model, seed, sizes={**chosen, **dict.fromkeys(open_names, size)})
        if not changes:
            yield small
        for _, value in changes:
            if small[name].size:
                yield _with_changes(small, name, [(0, value)])


def _element_count(inputs: Inputs) -> int:
    return sum(array.size for array in inputs.values())
