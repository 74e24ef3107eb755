"""Errors of models in other runtimes: not there, refused, and another value than specified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import ExtraMissingError, ModelError
from ndgather.errors.shape_errors import shown
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def unknown(name: object, known: Sequence[str]) -> ModelError:
    return ModelError(
        f"runtime = {name!r} is not known (allowed: {listed(known)}, or a module of yours)"
        f"{did_you_mean(name, known)}"
    )


def not_installed(name: str, module: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"runtime = {name!r} needs the package {module}, which is not installed "
        f"(install it with: pip install {module})"
    )


class NotLoadedError(ModelError):
    """A runtime does not load a model."""


def not_loaded(path: object, runtime: str, error: BaseException) -> NotLoadedError:
    return NotLoadedError(f"{path}: {runtime} does not load it: {reason(error)}")


def nothing_to_load(runtime: str, names: Iterable[str]) -> ModelError:
    return ModelError(
        f"runtime = {runtime!r} takes no providers or libraries, as {listed(names)} "
        f"(allowed: a runtime that does)"
    )


def not_compared(caller: str, argument: str, name: object, runtimes: Sequence[str]) -> ModelError:
    return ModelError(
        f"{caller}: {argument} names the runtime {name!r}, which is not one of those that run the "
        f"model (allowed: {listed(runtimes)}){did_you_mean(name, runtimes)}"
    )


def not_run(path: object, runtime: str, error: BaseException) -> ModelError:
    return ModelError(f"{path}: {runtime} does not run it: {reason(error)}")


def ended(path: object, runtime: str | None, how: str) -> ModelError:
    who = runtime or "the runtime"
    return ModelError(f"{path}: {who} ended the process that ran it ({how})")


def refuses_allowed(runtime: str, operator: str, error: BaseException) -> ModelError:
    return ModelError(f"{runtime} refuses what {operator} allows: {reason(error)}")


def other_form(runtime: str, theirs: object, operator: str, ours: object) -> ModelError:
    return ModelError(f"{runtime} gives {theirs}, and {operator} gives {ours}")


def other_value(
    runtime: str, place: tuple[int, ...], theirs: object, operator: str, ours: object
) -> ModelError:
    return ModelError(
        f"{runtime} gives output[{', '.join(map(str, place))}] = {theirs}, and {operator} gives "
        f"{ours} (to go on with what the runtime gives: --accept-runtime, accept_runtime=True)"
    )


def form(dtype: object, shape: tuple[int, ...]) -> str:
    return f"{dtype} {shown(shape)}"


def only_onnx(option: str) -> ModelError:
    return ModelError(f"{option} is not taken for an IR (allowed: an ONNX model)")
