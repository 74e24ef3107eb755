"""What changed in operators of ONNX from one version to the next, besides types: rows of data.

A step is known by the operator and the newer of its two versions. Steps of which nothing is said
here, and whose versions have the same inputs, outputs and attributes, differ in types only. The
gather and scatter operators are not here: the published rows say what changed in them.
"""

from __future__ import annotations

from typing import TypeAlias

Step: TypeAlias = tuple[str, int]

ABSENT = None
"""An attribute that has no value with which the newer version does what the older does."""

ONES = (1,)
"""A list of any length, of ones alone."""

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
REDUCTIONS = frozenset((*(f"Reduce{name}" for name in _REDUCTIONS), "ReduceSum"))

UNCHANGED_WITHOUT_AXES = frozenset(
    {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
)
"""Reductions that over no axes are their input; the others do something to each element."""

ADDED: dict[Step, dict[str, object]] = {
    ("ArgMax", 12): {"select_last_index": 0},
    ("ArgMin", 12): {"select_last_index": 0},
    ("AveragePool", 7): {"count_include_pad": 0},
    ("AveragePool", 10): {"ceil_mode": 0},
    ("AveragePool", 19): {"dilations": ONES},
    ("BatchNormalization", 14): {"training_mode": 0},
    ("Cast", 19): {"saturate": 1},
    ("Cast", 24): {"round_mode": "up"},
    ("CastLike", 19): {"saturate": 1},
    ("CastLike", 24): {"round_mode": "up"},
    ("Constant", 11): {"sparse_value": ABSENT},
    ("Constant", 12): {},
    ("DepthToSpace", 11): {"mode": "DCR"},
    ("DequantizeLinear", 13): {},
    ("DequantizeLinear", 21): {"block_size": 0},
    ("DequantizeLinear", 23): {"output_dtype": 0},
    ("Dropout", 12): {},
    ("GRU", 14): {"layout": 0},
    ("LSTM", 14): {"layout": 0},
    ("RNN", 14): {"layout": 0},
    ("LpPool", 18): {"ceil_mode": 0, "dilations": ONES},
    ("MaxPool", 8): {"storage_order": 0},
    ("MaxPool", 10): {"ceil_mode": 0, "dilations": ONES},
    ("QuantizeLinear", 13): {},
    ("QuantizeLinear", 19): {"saturate": 1},
    ("QuantizeLinear", 21): {"block_size": 0, "output_dtype": 0},
    ("QuantizeLinear", 23): {"precision": 0},
    ("Range", 27): {"stash_type": 1},
    ("Reshape", 14): {"allowzero": 0},
    ("Resize", 11): {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
        "exclude_outside": 0,
        "cubic_coeff_a": -0.75,
        "extrapolation_value": 0.0,
    },
    ("Resize", 18): {
        "antialias": 0,
        "axes": ABSENT,
        "keep_aspect_ratio_policy": "stretch",
    },
    ("RoiAlign", 16): {"coordinate_transformation_mode": "output_half_pixel"},
    ("Shape", 15): {"start": 0, "end": ABSENT},
    ("SpaceToDepth", 28): {"mode": "DCR"},
    ("Split", 18): {},
    ("TopK", 11): {"largest": 1, "sorted": 1},
    **{(name, 13 if name == "ReduceSum" else 18): {} for name in sorted(REDUCTIONS)},
}
"""Attributes that came, each with its value that says what the older version does without it.

Those of a step that are not named are the business of a change in `version_changes`.
"""

REMOVED: dict[Step, dict[str, object]] = {
    ("BatchNormalization", 9): {"spatial": 1},
}
"""Attributes that went, each with its value that says what the newer version does without it."""

MOVED: dict[Step, dict[str, int]] = {
    ("Clip", 11): {"min": 1, "max": 2},
    ("DFT", 20): {"axis": 2},
    ("Dropout", 12): {"ratio": 1},
    ("Pad", 11): {"pads": 1, "value": 2},
    ("Slice", 10): {"starts": 1, "ends": 2, "axes": 3},
    ("Split", 13): {"split": 1},
    ("Squeeze", 13): {"axes": 1},
    ("TopK", 10): {"k": 1},
    ("Unsqueeze", 13): {"axes": 1},
    ("Upsample", 9): {"scales": 1},
    **{(name, 13 if name == "ReduceSum" else 18): {"axes": 1} for name in sorted(REDUCTIONS)},
}
"""Attributes that became inputs, each with the place of the input."""

LISTS = frozenset({("TopK", "k")})
"""Numbers that stand as lists of one where they are inputs."""

WORDS: dict[tuple[str, int, str], dict[str, str | None]] = {
    ("GridSample", 20, "mode"): {"bilinear": "linear", "bicubic": "cubic"},
}
"""Words of an attribute that changed, the older first."""

NEW_WORDS: dict[tuple[str, int, str], frozenset[str]] = {
    ("Pad", 19, "mode"): frozenset({"wrap"}),
    ("Resize", 19, "coordinate_transformation_mode"): frozenset({"half_pixel_symmetric"}),
}
"""Words of an attribute that only the newer version has."""

OLD_WORDS: dict[tuple[str, int, str], frozenset[str]] = {
    ("Resize", 13, "coordinate_transformation_mode"): frozenset({"tf_half_pixel_for_nn"}),
}
"""Words of an attribute that only the older version has."""

COUNTED_FROM_THE_END: dict[Step, str] = {
    **{(name, 11): "axis" for name in ("ArgMax", "ArgMin", "Compress", "Concat", "Flatten")},
    **{(name, 11): "axis" for name in ("Hardmax", "LogSoftmax", "Softmax", "Split", "OneHot")},
    **{(name, 11): "axes" for name in ("Squeeze", "Unsqueeze", *sorted(REDUCTIONS))},
}
"""Axes that only the newer version lets count from the end."""

BROADCAST: frozenset[Step] = frozenset((name, 8) for name in ("Max", "Mean", "Min", "Sum"))
"""Operators whose inputs have to be of one shape in the older version."""

RENAMED: dict[Step, str] = {
    ("Scatter", 11): "ScatterElements",
    ("Upsample", 10): "Resize",
}
"""Operators that go on under another name."""

OLDEST = 7
"""The oldest opset whose operators are known here; `onnx_adapters` lead to it from older ones."""
