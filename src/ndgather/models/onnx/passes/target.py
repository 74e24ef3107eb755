"""Targets of a conversion, which list the supported operators and limit gathers and scatters.

A target is a TOML file or an ONNX opset. In a file, ``operators`` lists the operators that new
nodes may use, and ``open_sizes`` lists additional operators for models with dynamic sizes. A table
``limits.NAME`` allows a gather or scatter, and its keys are the fields of `Limits`.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from ndgather.array_call import Kind
from ndgather.errors import FileError, ModelError
from ndgather.messages import did_you_mean, listed, reason
from ndgather.models.onnx.nodes import Scope, is_published, nodes_in, row_domain
from ndgather.models.onnx.passes.calls import Meaning
from ndgather.models.onnx.value_ranges import may_be_negative
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Reduction, Role, TensorType
from ndgather.reductions import ROWS

if TYPE_CHECKING:
    from ndgather.models.onnx.passes.calls import GatherCall

NEGATIVE_IF_OUTSIDE = "only an out-of-bounds index may be negative"
_FOLDER = files("ndgather.models.onnx").joinpath("targets")
_TUPLES_FROM = 11  # the first opset that has GatherND and GatherElements
_COMPARES_FROM = 9  # the first opset that has Where and integer comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that a target sets for a gather or scatter. None means no limit."""

    axes: tuple[int, ...] | None = None  # the allowed axes, as non-negative numbers
    ranks: tuple[int, int] | None = None  # the lowest and the highest rank of data
    index_ranks: tuple[int, int] | None = None  # the lowest and the highest rank of indices
    index_types: tuple[str, ...] | None = None
    data_types: tuple[str, ...] | None = None
    depths: tuple[int, ...] | None = None  # the allowed lengths of index tuples
    batch_dims: int | None = None  # the maximum value of the attribute
    reductions: tuple[str, ...] | None = None
    negative: bool = True  # True if indices may be negative
    constant: bool = False  # True if indices must be constant
    constant_data: bool | None = None  # True if data must be constant, False if it must not be
    open: bool = True  # True if data and indices may have dynamic sizes

    def refusal(
        self,
        kind: Kind,
        meaning: Meaning,
        data: TensorType,
        indices: TensorType,
        *,
        constant: bool,
        constant_data: bool,
        negative: str = "",
    ) -> str | None:
        """Return the reason why the target does not support a call, or None.

        `negative` explains when indices may be negative, and is empty if they are never negative.
        """
        axis = depth = None
        for name, known, ranks in (
            ("data", data, self.ranks),
            ("indices", indices, self.index_ranks),
        ):
            shape = known.dims
            rank = "not known" if shape is None else len(shape)
            if ranks is not None and (shape is None or not ranks[0] <= len(shape) <= ranks[1]):
                return f"the rank of {name} is {rank} (allowed: {ranks[0]}..{ranks[1]})"
            if not self.open and not all(isinstance(size, int) for size in shape or (None,)):
                return f"{name} has a dynamic size (allowed: numbers, which infer can set)"
            if shape and name == "data" and not kind.tuples:
                axis = (meaning.axis or 0) % len(shape)
            if shape and name == "indices" and kind.tuples:
                depth = shape[-1]
        if self.axes is not None and not kind.tuples and (meaning.axis or 0) < 0:
            return "axis is negative"
        tests = (
            ("axis", axis, None if kind.tuples else self.axes),
            ("the type of indices", indices.dtype, self.index_types),
            ("the type of data", data.dtype, self.data_types),
            ("the length of the index tuples", depth, self.depths),
            ("reduction", meaning.reduction.value, self.reductions),
        )
        for what, value, allowed in tests:
            if allowed is not None and value not in allowed:
                shown = "not known" if value is None else value
                return f"{what} is {shown} (allowed: {listed(map(str, allowed))})"
        if self.batch_dims is not None and meaning.batch_dims > self.batch_dims:
            return f"batch_dims is {meaning.batch_dims} (allowed: 0..{self.batch_dims})"
        if self.constant and not constant:
            return "indices are not a constant"
        if self.constant_data is not None and self.constant_data is not constant_data:
            return f"data are {'a' if constant_data else 'not a'} constant"
        return negative or None if not self.negative else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The operators that a runtime or an opset supports, with the source of the information.

    `operators` is None if all operators are supported. `opset` is None unless the target is an
    ONNX opset.
    """

    name: str
    limits: Mapping[str, Limits]
    operators: frozenset[str] | None = None
    open_sizes: frozenset[str] = frozenset()
    what: str = ""
    source: str = ""
    date: str = ""
    opset: int | None = None

    def has(self, op_type: str) -> bool:
        known = self.operators is None or op_type in self.operators
        return known or op_type in self.open_sizes or op_type in self.limits

    def refusal(self, call: GatherCall, scope: Scope, *, normalized: bool = False) -> str | None:
        """Return why the target does not support a gather or scatter, or None."""
        if self.opset is not None and call.row.domain != DEFAULT_DOMAIN:
            return None
        if call.row.domain != DEFAULT_DOMAIN or call.row.name not in self.limits:
            return f"{self.name} does not support {call.row.name}"
        return self.limits[call.row.name].refusal(
            call.row.kind,
            Meaning.from_attributes(call.row, call.attributes),
            call.types[Role.DATA],
            call.types[Role.INDICES],
            constant=Role.INDICES in call.constants,
            constant_data=scope.has_constant(call.inputs[Role.DATA]),
            negative="" if normalized else _negative(scope, call.inputs[Role.INDICES]),
        )


def _negative(scope: Scope, indices: str) -> str:
    """Return a description of when indices may be negative, or "" if they are never negative."""
    if not may_be_negative(scope, indices):
        return ""
    always = may_be_negative(scope, indices, in_bounds=True)
    return "an index may be negative" if always else NEGATIVE_IF_OUTSIDE


def opset_target(opset: int, model: ModelProto) -> Target | None:
    """Return an older opset as a target, or None if no gather or scatter is rewritten for it.

    Opsets before 11 support only Gather with non-negative indices.
    """
    nodes = [node for node in nodes_in(model) if is_published(node)]
    if opset < _TUPLES_FROM:
        own = any(row_domain(node.domain) == DEFAULT_DOMAIN for node in nodes)
        if not own or opset < _COMPARES_FROM:
            return None
        return Target(name=f"opset {opset}", limits={"Gather": Limits(negative=False)}, opset=opset)
    since = {name: row.onnx[1] for name, row in ROWS.items() if row.onnx[1]}
    later = {word.encode() for word, first in since.items() if first > opset}
    attributes = (item for node in nodes for item in node.attribute)
    if not any(item.name == "reduction" and item.s in later for item in attributes):
        return None
    words = tuple(word for word, first in since.items() if first <= opset)
    limits = dict.fromkeys(("Gather", "GatherElements", "GatherND"), Limits())
    limits |= dict.fromkeys(("ScatterElements", "ScatterND"), Limits(reductions=words))
    return Target(name=f"opset {opset}", limits=limits, opset=opset)


@cache
def target_names() -> tuple[str, ...]:
    names = (item.name for item in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_target(value: str | Path) -> Target:
    """Return the target in a ``.toml`` file, or the built-in target with the name `value`."""
    text = str(value)
    if not text.endswith(".toml"):
        return _packaged_target(text)
    try:
        content = Path(text).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{text}: cannot be read: {reason(error)}") from error
    try:
        return _target(tomllib.loads(content), text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{text}: is not TOML: {reason(error)}") from error


@cache
def _packaged_target(name: str) -> Target:
    if name not in target_names():
        versions = [x for x in target_names() if x.rpartition("-")[0] == name.casefold()]
        newest = max(versions, key=lambda item: int(item.rpartition("-")[2]), default=None)
        hint = f"; the newest is {newest!r}" if newest else did_you_mean(name, target_names())
        raise ModelError(
            f"target = {name!r} is not a possible target (allowed: {listed(target_names())}, "
            f"or a file that ends in .toml){hint}"
        )
    return _target(tomllib.loads(_FOLDER.joinpath(f"{name}.toml").read_text("utf-8")), name)


def _target(content: Mapping[str, Any], place: str) -> Target:
    kinds: dict[str, Any] = {"name": str, "what": str, "source": str, "date": datetime.date}
    kinds |= {"operators": list, "open_sizes": list, "limits": dict}
    _check_keys(place, content, kinds)
    for key, value in content.items():
        if not isinstance(value, kinds[key]):
            raise ModelError(f"{place}: {key} = {value!r} is not of type {kinds[key].__name__}")
    rows = (op.row for op in operators(domain=DEFAULT_DOMAIN))
    known = {row.name for row in rows if row.definition is None}
    _check_keys(f"{place}: limits", content.get("limits", {}), known)
    limits = {
        name: _limits(f"{place}: limits.{name}", row)
        for name, row in content.get("limits", {}).items()
    }
    for key in ("name", "what", "source", "date", "operators"):
        if key not in content:
            raise ModelError(f"{place}: {key} is missing (allowed: a target that sets it)")
    return Target(
        name=content["name"],
        what=content["what"],
        source=content["source"],
        date=str(content["date"]),
        operators=frozenset(content["operators"]),
        open_sizes=frozenset(content.get("open_sizes", ())),
        limits=limits,
    )


def _limits(place: str, row: Mapping[str, Any]) -> Limits:
    flags = ("negative", "constant", "constant_data", "open")
    _check_keys(place, row, [item.name for item in fields(Limits)])
    values: dict[str, Any] = {}
    for key, value in row.items():
        kind: Any = bool if key in flags else int if key == "batch_dims" else list
        pair = key in {"ranks", "index_ranks"}
        if type(value) is not kind or (pair and len(value) != 2):
            what = "a list of two numbers" if pair else f"a {kind.__name__}"
            raise ModelError(f"{place}.{key} = {value!r} is not valid (allowed: {what})")
        values[key] = tuple(value) if kind is list else value
    words = {item.value for item in Reduction}
    for word in values.get("reductions", ()):
        if word not in words:
            what = f"{place}.reductions = {word!r} is unknown (allowed: {listed(words)})"
            raise ModelError(what)
    return Limits(**values)


def _check_keys(place: str, content: Mapping[str, Any], known: Any) -> None:
    for key in content:
        if key not in known:
            raise ModelError(
                f"{place}: {key!r} is not a key of a target (allowed: {listed(sorted(known))})"
                f"{did_you_mean(key, known)}"
            )
