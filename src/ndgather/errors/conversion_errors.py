"""Errors of converting a model: to another version, to other operators, to another format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import ModelError, ShapeError, one_line
from ndgather.messages import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Sequence


def cannot_become(row: object, target: object, why: str) -> ModelError:
    return ModelError(f"{row} cannot become {target}: {why}")


def unknown_target(option: str, value: object, known: Sequence[str]) -> ModelError:
    return ModelError(
        f"{option} = {value!r} is not a possible target (allowed: {listed(known)})"
        f"{did_you_mean(value, known)}"
    )


def option_of_onnx(option: str, path: object) -> ModelError:
    return ModelError(f"{path}: {option} does not apply (allowed: for a result in an .onnx file)")


def not_in_graph(what: str, is_what: str, allowed: str) -> ModelError:
    return ModelError(f"{what} is {is_what}, which cannot be converted (allowed: {allowed})")


def other_operator(op_type: str, domain: str, allowed: str) -> ModelError:
    return ModelError(
        f"op_type = {op_type!r} of {one_line(domain)} is not a gather or scatter operator, which "
        f"cannot be converted (allowed: {allowed}; any, where the package openvino is installed)"
    )


def two_values(name: str) -> ModelError:
    return ModelError(
        f"name = {name!r} names an input and another result (allowed: one value for each name)"
    )


def no_known_rank(name: str) -> ShapeError:
    return ShapeError(f"value {name!r} has no known rank (allowed: a rank for inputs and results)")
