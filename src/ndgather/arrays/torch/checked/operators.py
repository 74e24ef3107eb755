"""The table of torch's operators that read indices, with the rules that find them in a call.

`OPERATORS` has an entry for every operator in `torch.ops.aten` that reads indices. Other operators
are not checked. A *position* is an index or another bounded value, such as a length.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from ndgather.arrays.torch.checked.positions import (
    MASKS,
    Entries,
    Found,
    Get,
    IndexRule,
    OrderRule,
    SumRule,
    ValueRule,
)

_DECORATION = re.compile(
    r"^_(?:unsafe_)?|_forward_only|_forward|_impl|_with_dims_and_tensors|_unsafe$"
)
_SPARSE_NAMES = ("self", "mat", "mat1", "mat2", "other", "mask", "A")  # arguments
Rule: TypeAlias = Callable[[Get], Found]  # yields the positions in a call's arguments


def find_subscripts(get: Get) -> Found:
    """Find the positions in ``self[indices]``, where a mask of rank n indexes n axes."""
    shape, axis = get("self").shape, 0
    given = tuple(values is not None for values in get("indices"))
    for number, values in enumerate(get("indices")):
        if values is not None and values.dtype not in MASKS:
            size = shape[axis]
            yield Entries(f"indices[{number}]", values, axis, "self", size, -size, subscripts=given)
        axis += values.dim() if values is not None and values.dtype in MASKS else 1


def find_group_ends(get: Get) -> Found:
    """Find the group ends in a grouped matrix product."""
    left, right = get("self").dim(), get("mat2").dim()
    axis, of = (-1, "mat2") if left == 3 else (-2 if right == 3 else -1, "self")
    return IndexRule("offs", axis, of, end=1)(get)


def find_labels(get: Get) -> Found:
    """Find the labels of `ctc_loss`; labels after the end of their target are padding."""
    targets, lengths = get("targets"), get("target_lengths")
    lengths = torch.as_tensor(lengths, device=targets.device)
    padding = torch.arange(targets.shape[-1], device=targets.device) >= (
        lengths[:, None] if targets.dim() > 1 else lengths.sum()
    )
    yield Entries("targets", targets, 2, "log_probs", get("log_probs").shape[2], passed=padding)


def find_coordinates(get: Get, of: str = "the result") -> Found:
    """Find the indices of a COO tensor, which have a row for each sparse axis."""
    for axis, (row, size) in enumerate(zip(get("indices"), get("size"), strict=False)):
        yield Entries("indices", row, axis, of, size, before=(axis,))


def find_compressed_indices(get: Get, of: str = "result") -> Found:
    layout, plain = get("layout"), get("plain_indices")
    if plain.numel() == 0:  # torch initializes the indices of an empty tensor later
        return
    by_rows = layout in (torch.sparse_csr, torch.sparse_bsr)
    first, second = ("crow", "col") if by_rows else ("ccol", "row")
    batch = plain.dim() - 1
    bounds = IndexRule("compressed_indices", batch, "plain_indices", end=1)
    for entries in OrderRule(bounds, is_whole=True)(get):
        yield entries._replace(argument=f"{first}_indices", of=f"{second}_indices")
    axis = batch + by_rows
    size = get("size")[axis]
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        size, of = size // get("values").shape[axis + 1], f"the blocks of {of}"
    yield Entries(f"{second}_indices", plain, axis, of, size)


def find_sparse_tensors(get: Get, names: tuple[str, ...] = _SPARSE_NAMES) -> Found:
    for name in names:
        tensor = get(name)
        if tensor is None or tensor.layout == torch.strided:
            continue
        shown, tensor = name.replace("self", "input"), tensor.detach()
        parts: dict[str, Any] = {"size": tensor.shape, "layout": tensor.layout}
        if tensor.layout == torch.sparse_coo:
            found = find_coordinates((parts | {"indices": tensor._indices()}).get, shown)
        elif tensor.layout in _COMPRESSED:
            starts, plain = _COMPRESSED[tensor.layout]
            parts["compressed_indices"], parts["plain_indices"] = starts(tensor), plain(tensor)
            found = find_compressed_indices((parts | {"values": tensor.values()}).get, shown)
        else:
            continue
        for entries in found:
            yield entries._replace(argument=f"{shown}.{entries.argument}()")


def find_pooled_indices(axes: int) -> Rule:
    """Return the rule for max-pooling indices, which address the input's flattened last axes."""

    def find(get: Get) -> Found:
        size, of = math.prod(get("self").shape[-axes:]), f"input.flatten(-{axes})"
        yield Entries("indices", get("indices"), -1, of, size)

    return find


def find_probabilities(get: Get) -> Found:
    """Find the probabilities of `bernoulli`, which are `p` if given, otherwise the input."""
    yield from (_PROBABILITIES if get("p") is None else ValueRule("p", *_PROBABILITY))(get)


def find_weights(get: Get) -> Found:
    """Find the weights of `multinomial`; each row must have a positive sum."""
    yield from _WEIGHTS(get)
    total, allowed = get("self").detach().sum(-1), "a row with a weight above 0"
    entries = Entries("input.sum(-1)", total, 0, "", None, allowed=allowed)
    yield entries._replace(problem="is not positive", wrong=total <= 0)


def find_selected(get: Get) -> Found:
    """Find the number of elements that a mask selects; the source must have at least as many."""
    chosen, size = get("mask").expand_as(get("self")).sum(), get("source").numel()
    problem = "is more than the number of elements of source"
    yield Entries("mask.sum()", chosen, 0, "source", size, end=1, problem=problem)


def find_flat_positions(get: Get) -> Found:
    """Find the positions of `unravel_index` in a flattened array."""
    shape = get("shape")
    size = shape if isinstance(shape, int) else math.prod(shape)
    yield Entries("indices", get("indices"), 0, "the flattened array", size)


def find_packed_rows(get: Get) -> Found:
    """Find the rows of a packed embedding, whose size is known only after unpacking."""
    size = torch.ops.quantized.embedding_bag_unpack(get("weight")).shape[0]
    yield Entries("indices", get("indices"), 0, "weight", size)


def find_boxes(get: Get) -> Found:
    """Find the image indices, which are floats in the first column of the boxes."""
    boxes, size = get("rois"), get("input").shape[0]
    numbers = boxes.detach()[:, :1]
    wrong = ~((numbers > -1) & (numbers < size))  # NaN is wrong
    wrong = torch.cat([wrong, torch.zeros_like(boxes[:, 1:], dtype=torch.bool)], 1)
    yield Entries("rois", boxes, 0, "input", size, wrong=wrong)


_ROWS_OF = (torch.Tensor.crow_indices, torch.Tensor.col_indices)
_COLUMNS_OF = (torch.Tensor.ccol_indices, torch.Tensor.row_indices)
_COMPRESSED = {
    **dict.fromkeys((torch.sparse_csr, torch.sparse_bsr), _ROWS_OF),
    **dict.fromkeys((torch.sparse_csc, torch.sparse_bsc), _COLUMNS_OF),
}
_PROBABILITY = ("is not a probability", 1.0, "0..1")
_PROBABILITIES = ValueRule("self", *_PROBABILITY)
_WEIGHTS = ValueRule("self", "is not a weight", sys.float_info.max, "0 or more, finite")
_ALONG = IndexRule("index", "dim", "self")
_FLAT = IndexRule("index", None, "self", from_end=True)
_ROWS = IndexRule("indices", 0, "weight")
_ROWS_OF_GRADIENT = IndexRule("indices", 0, "weight", size="num_weights")
_CLASSES = IndexRule("target", -1, "self", passed="ignore_index")
_CLASSES_OF_PIXELS = IndexRule("target", 1, "self", passed="ignore_index")
_STEPS = IndexRule("input_lengths", 0, "log_probs", end=1)
_LABELS = IndexRule("target_lengths", -1, "targets", end=1)
_BAGS = IndexRule("offsets", 0, "indices", end=1)
_SEGMENTS = (
    IndexRule("lengths", "axis", "data", end=1),
    SumRule("lengths", "axis", "data"),
    OrderRule(IndexRule("offsets", "axis", "data", end=1)),
)

# All overloads and variants of an operator share an entry; `operator_name` returns the key.
OPERATORS: dict[str, tuple[Rule, ...]] = {
    # Positions on one axis of a tensor.
    "gather": (_ALONG,),
    "index_add": (_ALONG,),
    "index_copy": (_ALONG,),
    "index_fill": (IndexRule("index", "dim", "self", from_end=True),),
    "index_reduce": (_ALONG,),
    "index_select": (_ALONG, partial(find_sparse_tensors, names=("self",))),
    "scatter": (_ALONG,),
    "scatter_add": (_ALONG,),
    "scatter_reduce": (_ALONG,),
    "take_along_dim": (IndexRule("indices", "dim", "self", from_end=True),),
    # Positions in the flattened tensor.
    "put": (_FLAT,),
    "take": (_FLAT,),
    # Subscripts.
    "index": (find_subscripts,),
    "index_put": (find_subscripts,),
    # Embeddings.
    "embedding": (_ROWS,),
    "embedding_bag": (_ROWS, OrderRule(_BAGS)),
    "embedding_bag_backward": (_ROWS_OF_GRADIENT,),
    "embedding_bag_dense_backward": (_ROWS_OF_GRADIENT,),
    "embedding_bag_per_sample_weights_backward": (_ROWS,),
    "embedding_dense_backward": (_ROWS_OF_GRADIENT,),
    "embedding_renorm": (IndexRule("indices", 0, "self"),),
    # Losses.
    "multi_margin_loss": (IndexRule("target", -1, "self"),),
    "multi_margin_loss_backward": (IndexRule("target", -1, "self"),),
    "multilabel_margin_loss": (IndexRule("target", -1, "self", lowest=-1),),
    "multilabel_margin_loss_backward": (IndexRule("target", -1, "self", lowest=-1),),
    "nll_loss": (_CLASSES,),
    "nll_loss2d": (_CLASSES_OF_PIXELS,),
    "nll_loss2d_backward": (_CLASSES_OF_PIXELS,),
    "nll_loss_backward": (_CLASSES,),
    # Labels and lengths of CTC.
    "ctc_loss": (_STEPS, _LABELS, find_labels),
    "ctc_loss_backward": (_STEPS, _LABELS, find_labels),
    "cudnn_ctc_loss": (_STEPS, _LABELS, find_labels),
    "miopen_ctc_loss": (_STEPS, _LABELS, find_labels),
    # Pooling.
    "max_unpool2d": (IndexRule("indices", -1, "result.flatten(-2)", size="output_size"),),
    "max_unpool3d": (IndexRule("indices", -1, "result.flatten(-3)", size="output_size"),),
    "max_pool2d_with_indices_backward": (find_pooled_indices(2),),
    "max_pool3d_with_indices_backward": (find_pooled_indices(3),),
    "adaptive_max_pool2d_backward": (find_pooled_indices(2),),
    "adaptive_max_pool3d_backward": (find_pooled_indices(3),),
    "fractional_max_pool2d_backward": (find_pooled_indices(2),),
    "fractional_max_pool3d_backward": (find_pooled_indices(3),),
    # Counts, segments and sorted values.
    "bincount": (IndexRule("self", 0, "result", unlimited=True),),
    "one_hot": (IndexRule("self", -1, "result", size="num_classes"),),
    "repeat_interleave": (
        IndexRule("repeats", 0, "result", unlimited=True),
        SumRule("repeats", 0, "result", size="output_size"),
    ),
    "searchsorted": (IndexRule("sorter", -1, "sorted_sequence"),),
    "segment_reduce": _SEGMENTS,
    "segment_reduce_backward": _SEGMENTS,
    # Pivots, which start at 1.
    "linalg_lu_solve": (IndexRule("pivots", -2, "LU", lowest=1, end=1),),
    "lu_unpack": (IndexRule("LU_pivots", -2, "LU_data", lowest=1, end=1),),
    # Packed sequences.
    "pack_padded_sequence": (IndexRule("lengths", "batch_first", "input", lowest=1, end=1),),
    "pad_packed_sequence": (
        IndexRule("batch_sizes", 0, "data", end=1),
        SumRule("batch_sizes", 0, "data"),
    ),
    # Grouped matrix products.
    "grouped_mm": (find_group_ends,),
    "scaled_grouped_mm": (find_group_ends,),
    "scaled_grouped_mm_v2": (find_group_ends,),
    # Sparse tensors.
    "sparse_compressed_tensor": (find_compressed_indices,),
    "sparse_coo_tensor": (find_coordinates,),
    # Values that GPU kernels check with assertions.
    "bernoulli": (find_probabilities,),
    "binary_cross_entropy": (_PROBABILITIES, ValueRule("target", *_PROBABILITY)),
    "binary_cross_entropy_backward": (_PROBABILITIES,),
    "masked_scatter": (find_selected,),
    "multinomial": (find_weights,),
    "poisson": (ValueRule("self", "is not a rate", math.inf, "0 or more"),),
}

# Operators that read the indices of sparse tensors.
# Checks run in torch's kernels for sparse tensors, so that dense calls have no overhead.
SPARSE = (
    # Products.
    *("addmm", "addmv", "bmm", "hspmm", "mm", "mv", "sparse_sampled_addmm"),
    *("sparse_mm_reduce", "sparse_sparse_matmul", "sspaddmm", "triangular_solve"),
    # Reductions.
    *("sum", "sparse_sum", "sparse_softmax", "sparse_log_softmax"),
    # Conversions and masks.
    *("coalesce", "sparse_mask", "to_dense", "to_sparse", "to_sparse_bsc", "to_sparse_bsr"),
    *("to_sparse_csc", "to_sparse_csr"),
)

# Operators of other libraries, which may be imported later.
FOREIGN: dict[str, tuple[Rule, ...]] = {
    # If an image index is out of bounds, torchvision reads the memory of other tensors.
    "torchvision::ps_roi_align": (find_boxes,),
    "torchvision::ps_roi_pool": (find_boxes,),
    "torchvision::roi_align": (find_boxes,),
    "torchvision::roi_pool": (find_boxes,),
    # Quantized embeddings, whose first offset may be greater than 0.
    "quantized::embedding_4bit": (),
    "quantized::embedding_bag_2bit_rowwise_offsets": (_ROWS, _BAGS),
    "quantized::embedding_bag_4bit": (_BAGS,),
    "quantized::embedding_bag_4bit_rowwise_offsets": (_ROWS, _BAGS),
    "quantized::embedding_bag_byte": (_BAGS,),
    "quantized::embedding_bag_byte_rowwise_offsets": (_ROWS, _BAGS),
    "quantized::embedding_byte": (),
}

# Operators whose bounds are costly to compute. Check indices only after torch raises an error.
REFUSED: dict[str, tuple[Rule, ...]] = dict.fromkeys(
    (f"quantized::embedding_{kind}" for kind in ("4bit", "bag_4bit", "bag_byte", "byte")),
    (find_packed_rows,),
)

# Operators that raise an IndexError on the CPU.
# All other operators, and all operators on a GPU, raise a RuntimeError at least in some cases.
RAISE_INDEX_ERROR = (
    *("embedding", "embedding_renorm", "nll_loss", "nll_loss2d", "put", "take"),
    *("index", "index_copy", "index_fill", "index_put", "index_reduce"),
)

# Composite operators that modify indices before they call other operators.
# For example, take_along_dim reduces its indices modulo the axis size.
WHOLE = ("one_hot", "take_along_dim")


def operator_name(schema_name: str) -> str:
    """Return an operator's name without the prefixes and suffixes of its variants."""
    return _DECORATION.sub("", schema_name.removeprefix("aten::")).rstrip("_")
