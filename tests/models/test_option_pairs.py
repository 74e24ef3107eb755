"""Conversions preserve results for every pair of options of calls, indices and targets."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from onnx import helper

from ndgather.errors import ModelError
from ndgather.models import onnx as onnx_models
from tests.definitions.calls import assert_same_elements, expected
from tests.definitions.covering import compare_covering_calls
from tests.definitions.draws import SCATTERS
from tests.models.test_targets import (
    REDUCTIONS,
    SMALL,
    TARGETS,
    assert_fits,
    build_model,
    runs_of,
    small_target,
)
from tests.models.test_version_steps import NEEDS_ONNXRUNTIME

pytestmark = pytest.mark.runtimes

OPERATORS = {
    "gather": "Gather",
    "gather_elements": "GatherElements",
    "gather_nd": "GatherND",
    "scatter_elements": "ScatterElements",
    "scatter_nd": "ScatterND",
}
FIXED = {
    "mode": ("raise",),
    "dtype": ("f4",),
    "index dtype": ("i8",),
    "strays": (False,),
    "layout": ("C",),
    "index layout": ("C",),
    "sizes": ("several", "one indexed", "one other", "one point", "no point"),
}


@NEEDS_ONNXRUNTIME
@pytest.mark.parametrize("function", OPERATORS)
def test_pairs_of_options_keep_their_meaning(function, tmp_path, draws):
    targets = ("basic", *SMALL, *draws.sample(TARGETS, 2))
    more = FIXED | {
        "indices": ("expanded", "input", "constant"),
        "way": ("opset 11", "opset 16", *targets),
        "known": (True, False),
        "checked": (False, True),
        "narrow": (False, True),
    }
    more |= {"batch": (0,)} if function == "gather" else {}
    more |= {"depth": (1, 2, 3)} if function.endswith("_nd") else {}
    if function in SCATTERS:
        more |= {"reduction": REDUCTIONS, "use_init_val": (True,), "update layout": ("C",)}
    paths = {name: small_target(tmp_path, name) for name in SMALL}
    together = ("indices", "fewer", "known", "way")
    if function in SCATTERS:
        together += ("places", "before", "reduction")
    compare_covering_calls(partial(compare, paths), draws, function, together, **more)


def compare(paths, row, call):
    model, inputs, call = model_of(row, call)
    desired = expected(call)
    opset, target = None, paths.get(row["way"], row["way"])
    if row["way"].startswith("opset"):
        opset, target = int(row["way"].split()[1]), None
    try:
        if opset:
            conversion = onnx_models.conversion(model, opset=opset)
        else:
            conversion = onnx_models.conversion(model, target=target, checked=row["checked"])
    except ModelError as error:  # an opset that lacks the reduction
        text = str(error)
        assert row["reduction"] != "none"
        node, why = model.graph.node[-1], f"reduction is {row['reduction']} (allowed: "
        where, was = f"node {node.name!r} ({node.op_type})", f"ai.onnx {node.op_type}-18"
        assert text.startswith(f"{where}: {was} cannot become opset {opset}: {why}"), text
        assert "matmul" not in text  # an option for targets only
        return
    *_, run = runs_of(
        conversion.model
    )  # the onnx evaluator requires equal sizes for GatherElements
    (found,) = run(inputs)
    assert_same_elements(found, desired)
    if target and conversion.nodes and not any(node.stays for node in conversion.nodes):
        assert_fits(onnx_models.conversion(conversion.model, target=target))


def model_of(row, call):
    """Return a model with one call, its inputs, and the call with the indices in the model."""
    attributes = {
        name: call.options[name] for name in ("axis", "reduction") if name in call.options
    }
    if call.function == "gather_nd":
        attributes["batch_dims"] = call.options["batch_dims"]
    indices = np.array(call.indices, order="C")
    if row["narrow"] and not call.function.endswith("_nd"):
        indices = indices.astype(np.int32)
    inputs = {"data": np.array(call.data, order="C"), "indices": indices}
    if call.scatters:
        inputs["updates"] = np.array(call.updates, order="C")
    nodes, constants = [], {}
    if row["indices"] == "expanded" and indices.ndim and indices.size:
        first = tuple(
            slice(None) if axis == expanded_along(call) else slice(1)
            for axis in range(indices.ndim)
        )
        narrow = inputs.pop("indices")[first]
        inputs["narrow"] = np.array(narrow, order="C")
        constants["whole"] = np.array(indices.shape)
        nodes.append(helper.make_node("Expand", ["narrow", "whole"], ["indices"]))
        indices = np.broadcast_to(narrow, indices.shape)
    elif row["indices"] == "constant":
        constants["indices"] = inputs.pop("indices")
    names = ["data", "indices", *["updates"] * call.scatters]
    nodes.append(helper.make_node(OPERATORS[call.function], names, ["out"], **attributes))
    shapes = {}
    if not row["known"]:
        shapes = {name: [None] * array.ndim for name, array in inputs.items()}
        if "indices" in shapes and call.function.endswith("_nd"):
            shapes["indices"][-1] = indices.shape[-1]
    rank = [None] * expected(call).ndim
    model = build_model(nodes, inputs, rank, constants, shapes=shapes, opset=18)
    return model, inputs, replace(call, indices=indices)


def expanded_along(call):
    """Return the axis of indices that keeps its entries if the others are expanded."""
    if call.function.endswith("_elements"):
        return call.options["axis"] % call.data.ndim
    return call.indices.ndim - 1
