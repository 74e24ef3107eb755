"""What a model declares of its values, and what it comes to with what was inferred of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import onnx_errors
from ndgather.models.onnx.domains import subgraphs
from ndgather.published.tensor_types import RankAtLeast, TensorType

if TYPE_CHECKING:
    from onnx import GraphProto

    from ndgather.published.tensor_types import Dim, Shape


def with_names(known: TensorType, names: set[str]) -> TensorType:
    """Return a type without the names of sizes that are not in `names`."""

    def kept(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(dim if not isinstance(dim, str) or dim in names else None for dim in dims)

    shape = known.shape
    if isinstance(shape, RankAtLeast):
        return TensorType(known.dtype, RankAtLeast(kept(shape.first)))
    return known if shape is None else TensorType(known.dtype, kept(shape))


def merged(name: str, declared: TensorType, known: TensorType) -> TensorType:
    """Return what both say; a declared name stays, except where the size is known."""
    if None not in {declared.dtype, known.dtype} and declared.dtype != known.dtype:
        raise onnx_errors.declared_dtype(name, known.dtype, declared.dtype)
    if not _fits(declared.shape, known.shape):
        raise onnx_errors.declared_shape(name, _shown(known.shape), _shown(declared.shape))
    return TensorType(declared.dtype or known.dtype, _merged_shape(declared.shape, known.shape))


def _fits(declared: Shape, known: Shape) -> bool:
    """Return whether a tensor can have both shapes."""
    if not isinstance(declared, tuple) or known is None:
        return True
    dims = known if isinstance(known, tuple) else known.first
    if len(dims) > len(declared) or (isinstance(known, tuple) and len(dims) < len(declared)):
        return False
    pairs = zip(declared, dims, strict=False)
    return all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)


def _merged_shape(declared: Shape, known: Shape) -> Shape:
    if not isinstance(declared, tuple):
        return known if isinstance(known, tuple) else None
    dims = known.first if isinstance(known, RankAtLeast) else known or ()
    merged = [
        dim if before is None or isinstance(dim, int) else before
        for before, dim in zip(declared, dims, strict=False)
    ]
    return (*merged, *declared[len(merged) :])


def _shown(shape: Shape) -> tuple[object, ...]:
    dims = shape.first if isinstance(shape, RankAtLeast) else shape or ()
    rest = ("...",) if isinstance(shape, RankAtLeast) else ()
    return (*("?" if dim is None else dim for dim in dims), *rest)


def size_names(graph: GraphProto) -> set[str]:
    """Return the names of sizes that a graph declares."""
    infos = (*graph.input, *graph.output, *graph.value_info)
    names = {dim.dim_param for info in infos for dim in info.type.tensor_type.shape.dim}
    for node in graph.node:
        for inner in subgraphs(node):
            names |= size_names(inner)
    return names
