"""Write the calls of conformance cases as self-contained Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance import Case

_LARGEST = 24  # the maximum number of values in the code of a call


def call(case: Case) -> str:
    """Return the code for a case, which loads large and unusual arrays from the corpus."""
    name, domain, version = case.operator.name, case.operator.domain, case.operator.version
    function = f"ndgather.{name}"
    if version is not None:
        inside = "" if domain == "ai.onnx" else f"domain={domain!r}, "
        function = f"ndgather.operator({name!r}, {inside}version={version})"
    options = [f"{name}={value!r}" for name, value in case.attributes.items()]
    arrays = dict(_arrays(case))
    lines = ["import ndgather", "import numpy as np", ""]
    if len(arrays) < len(case.inputs):
        lines[1:] = [
            "from conformance import load  # in a clone",
            "",
            f"(case,) = load({case.name!r})",
            "inputs = {name: tensor.array() for name, tensor in case.inputs.items()}",
        ]
        return "\n".join((*lines, f"{function}({', '.join(['**inputs', *options])})"))
    lines += [f"{name} = {text}" for name, text in arrays.items()]
    arguments = [f"{name}={name}" for name in arrays]
    return "\n".join((*lines, f"{function}({', '.join(arguments + options)})"))


def _arrays(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the inputs that can be written concisely."""
    for name, tensor in case.inputs.items():
        array, record = tensor.array(), tensor.record
        plain = not {"layout", "sequence"} & record.keys() and array.dtype.kind in "biufU"
        plain &= "bits" not in record or array.dtype.kind in "iu"
        if plain and array.dtype.isbuiltin == 1 and array.size <= _LARGEST:
            text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
            reshape = f".reshape({array.shape})" if 0 in array.shape else ""
            yield name, f"np.array({text}, {str(array.dtype)!r}){reshape}"
