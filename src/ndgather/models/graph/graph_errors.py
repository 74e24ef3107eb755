"""What can be wrong with a graph, whatever format it came from or goes to: the texts.

They have the form of those in `ndgather.errors`. The functions build exceptions; they never
raise them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import DTypeError, ShapeError
from ndgather.models.errors import ExtraMissingError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence


def package_missing(package: str, extra: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"this needs the package {package}, which is not installed "
        f"(pip install 'ndgather[{extra}]' brings it)"
    )


def dtype_needs_package(dtype: str, package: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"dtype = {dtype} needs the package {package}, which is not installed "
        f"(pip install {package} brings it)"
    )


def no_dtype(dtype: str) -> DTypeError:
    return DTypeError(f"dtype = {dtype!r} has no arrays (allowed: types of NumPy and ml_dtypes)")


def no_conversion(source: str, target: str) -> DTypeError:
    return DTypeError(
        f"dtype = {source} cannot be converted to {target} (allowed: booleans, integers, floats)"
    )


def value_lost(position: Sequence[int], value: object, dtype: str) -> DTypeError:
    return DTypeError(
        f"input[{', '.join(map(str, position))}] = {value} cannot be held by {dtype} "
        f"(allowed: values of that type)"
    )


def not_translatable(node: str, source: str, target: str, why: str) -> ModelError:
    return ModelError(f"node {node!r}: {source} has no exact counterpart in {target}: {why}")


def not_in_graph(what: str, is_what: str, allowed: str) -> ModelError:
    return ModelError(f"{what} is {is_what}, and no part of a graph (allowed: {allowed})")


def two_values(name: str) -> ModelError:
    return ModelError(
        f"name = {name!r} is that of an input and of another result (allowed: one value of a name)"
    )


def no_known_rank(name: str) -> ShapeError:
    return ShapeError(f"value {name!r} has no known rank (allowed: a rank for inputs and results)")
