"""Errors of what an OpenVINO IR says: its XML, its layers and its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, ModelError, NdgatherError
from ndgather.errors.texts import listed, quoted, reason

if TYPE_CHECKING:
    from collections.abc import Iterable


def beyond_limit(path: object, what: str, limit: str) -> ModelError:
    return ModelError(f"{path}: {what} exceeds the limit (allowed: at most {limit})")


def not_xml(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be read as XML: {reason(error)}")


def bad_element(path: object, where: str, name: str, text: str, allowed: str) -> ModelError:
    return ModelError(
        f"{path}: {where}: {name} = {quoted(text)} is not a valid value (allowed: {allowed})"
    )


def in_layer(error: NdgatherError, layer: str, kind: str) -> NdgatherError:
    """Say in which layer an exception arose; it stays what it is."""
    error.args = (f"{layer} ({kind}): {error}",)
    return error


def layer_not_run(layer: str, kind: str, version: str, kinds: Iterable[str]) -> ModelError:
    title = f"{quoted(kind)} of {quoted(version)}" if version else quoted(kind)
    return ModelError(f"{layer}: type = {title} is not supported (allowed: {listed(kinds)})")


def bad_attribute(name: str, text: str, allowed: Iterable[str]) -> AttributeValueError:
    return AttributeValueError(f"{name} = {quoted(text)} is unknown (allowed: {listed(allowed)})")
