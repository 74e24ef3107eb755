"""A model run in one runtime, in a process of its own, as far as it gives its values."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors.texts import bearable
from ndgather.log import LOGGER
from ndgather.models.onnx.compared import RuntimeRun
from ndgather.models.onnx.pruned_models import up_to
from ndgather.runtimes.apart import Answer, RuntimeProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.models.onnx.exposed_nodes import ExposedModel, ExposedNode
    from ndgather.runtimes.whole_model import LoadOptions

Array = NDArray[Any]
Values = dict[str, Array]


class ObservedRun:
    """One runtime: the values that it gave, and the node at which it stopped."""

    def __init__(
        self,
        model: ExposedModel,
        runtime: str,
        names: Sequence[str],
        inputs: Values,
        options: LoadOptions,
    ) -> None:
        self.runtime, self._model, self._options = runtime, model, options
        self._inputs = inputs
        self.stopped_at: ExposedNode | None = None
        self.stop = Answer()
        self.values: Values | None = None
        self.version, self.answer = self._ask(model, list(dict.fromkeys([*names, *model.names])))
        level = logging.INFO if self.answer.crashed is None else logging.WARNING
        how = self.answer.crashed or self.answer.refused or "ran"
        LOGGER.log(level, "%s %s: %s", runtime, self.version, bearable(how))
        if self.values is None:
            self.whole = False
            self._find_stop()
        else:
            self.whole = True

    def _ask(self, model: ExposedModel, names: Sequence[str]) -> tuple[str, Answer]:
        with RuntimeProcess(self.runtime, model.source(), self._options) as process:
            answer = process.run(names, self._inputs)
            version = process.version
        if answer.values is not None:
            self.values = {
                **self._inputs,
                **{
                    name: np.asarray(value)
                    for name, value in zip(names, answer.values, strict=True)
                },
            }
        return version, answer

    def _find_stop(self) -> None:
        """Find the first node of ours whose value the runtime does not give."""
        nodes = self._model.nodes
        done, failing = 0, len(nodes) + 1  # how many nodes it gives, and does not give
        while failing - done > 1:
            middle = (done + failing) // 2
            if middle > len(nodes):
                break
            wanted = {name for node in nodes[:middle] for name in (*node.reads, node.gives)}
            part = up_to(self._model, wanted)
            answer = self._ask(part, part.names)[1]
            if answer.values is None:
                failing, self.stop = middle, answer
            else:
                done = middle
        if failing <= len(nodes):
            node = nodes[failing - 1]
            wanted = {name for each in nodes[:done] for name in (*each.reads, each.gives)}
            part = up_to(self._model, wanted | set(node.reads))
            if self._ask(part, part.names)[1].values is not None or not part.names:
                self.values = {**self._inputs, **(self.values or {})}
                self.stopped_at = node

    def summary(self) -> RuntimeRun:
        status, text = "ran", ""
        if not self.whole and self.answer.crashed is not None:
            status, text = "crashed", self.answer.crashed
        elif not self.whole:
            status, text = "refused", self.answer.refused or ""
        return RuntimeRun(
            runtime=self.runtime,
            version=self.version,
            status=status,
            text=bearable(text),
        )
