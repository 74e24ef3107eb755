"""Checks of IR: valid examples pass, and every error is reported."""

import numpy as np
import pytest

pytest.importorskip("defusedxml")

from ndgather.models.graph.diagnostics import Severity
from ndgather.models.openvino import Model, check


def port(number, shape, precision=None, names=""):
    dims = "".join(f"<dim>{size}</dim>" for size in shape)
    declared = f' precision="{precision}"' if precision else ""
    return f'<port id="{number}"{declared} names="{names}">{dims}</port>'


def layer(number, kind, inputs=(), output=None, precision=None, version="opset1", **data):
    """Return the XML of a layer with consecutive port numbers, inputs first."""
    attributes = "".join(f' {name}="{value}"' for name, value in data.items())
    ports = "".join(port(each, shape, precision) for each, shape in enumerate(inputs))
    out = "" if output is None else port(len(inputs), output, precision)
    return (
        f'<layer id="{number}" name="{kind.lower()}{number}" type="{kind}" version="{version}">'
        f"<data{attributes}/><input>{ports}</input><output>{out}</output></layer>"
    )


def net(layers, edges):
    wires = "".join(
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'
        for a, b, c, d in edges
    )
    return f'<net version="11"><layers>{"".join(layers)}</layers><edges>{wires}</edges></net>'


@pytest.fixture
def findings(tmp_path):
    def found(text, constants=b""):
        (tmp_path / "model.xml").write_text(text)
        (tmp_path / "model.bin").write_bytes(constants)
        return check(tmp_path / "model.xml")

    return found


# https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/
# operation-specs/movement/gather-nd-8.html: the last three layers
PAGE = (
    (0, (1000, 256, 10, 15), (25, 125, 3), (25, 125, 15)),
    (2, (30, 2, 100, 35), (30, 2, 3, 1), (30, 2, 3, 35)),
    (3, (1, 64, 64, 320), (1, 64, 64, 1, 1), (1, 64, 64, 1)),
)


def page_layer(batch_dims, data, indices, output):
    return f"""
    <layer id="1" type="GatherND" version="opset8">
        <data batch_dims="{batch_dims}" />
        <input>{port(0, data)}{port(1, indices)}</input>
        <output>{port(3, output)}</output>
    </layer>"""


@pytest.mark.parametrize("example", PAGE)
def test_examples_from_the_openvino_documentation_pass(findings, example):
    assert findings(page_layer(*example)) == ()


@pytest.mark.parametrize("example", PAGE)
def test_wrong_ports_are_reported_with_both_shapes(findings, example):
    *inputs, output = example
    wrong = (*output[:-1], output[-1] + 1)
    (finding,) = findings(page_layer(*inputs, wrong))
    assert finding.where == "layer 1"
    assert finding.operator == "openvino GatherND-8"
    assert finding.rule == "port"
    assert finding.what == f"output port 3 declares {wrong}; inferred {output}"
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ((25, 125), "output port 3 declares (25, 125); inferred (25, 125, 15)"),
        ((), "output port 3 declares (); inferred (25, 125, 15)"),
        ((25, 125, -1), None),
    ],
)
def test_ports_may_declare_less_but_not_another_rank(findings, output, what):
    found = findings(page_layer(*PAGE[0][:3], output))
    assert [each.what for each in found] == ([] if what is None else [what])


@pytest.mark.parametrize(
    ("change", "rule", "what"),
    [
        ({"batch_dims": 4}, "attributes", "batch_dims = 4 is out of range"),
        ({"batch_dims": -1}, "attributes", "batch_dims = -1 is out of range"),
        ({"batch_dims": "one"}, "types", "batch_dims = 'one' has the wrong type"),
        ({"axis": 1}, "attributes", "axis is not an attribute of this version"),
        ({"version": "opset4"}, "attributes", "opset = 4 has no openvino GatherND"),
        ({"version": "extension"}, "attributes", "version = 'extension' is not an operation set"),
        ({"inputs": [(3, 4), (5, 2)], "output": (5,)}, "shapes", "differs from data.shape[0]"),
        ({"inputs": [(3, 4)]}, "layer", "ports = 1 input and 1 output do not match"),
        ({"inputs": [(3, 4), (3, 2)]}, "shapes", "indices.shape[-1] = 2 is more than the 1 axes"),
        ({"precision": "FP33"}, "port", "port 0 declares precision FP33, which is unknown"),
        ({"precision": "&#10;"}, "port", r"port 0 declares precision '\n', which is unknown"),
        ({"precision": "FP32"}, "types", "indices.dtype = float32 is not supported"),
    ],
)
def test_operator_errors_are_findings(findings, change, rule, what):
    options = {"inputs": [(3, 4), (3, 1)], "output": (3,), "version": "opset8", "batch_dims": 1}
    assert findings(layer(0, "GatherND", **options)) == ()
    found = findings(layer(0, "GatherND", **{**options, **change}))
    assert found[0].rule == rule
    assert what in found[0].what
    assert not found[0].what.startswith("openvino")


def gather_net(**change):
    """Return a Gather-8 with data (2, 3) and two constant indices; `change` replaces layers."""
    layers = {
        "data": layer(0, "Parameter", output=(2, 3), element_type="f32", shape="2,3"),
        "indices": layer(1, "Const", output=(2,), element_type="i32", shape="2", offset=0, size=8),
        "axis": layer(2, "Const", output=(), element_type="i64", shape="", offset=8, size=8),
        "gather": layer(3, "Gather", [(2, 3), (2,), ()], (2, 2), version="opset8", batch_dims=0),
        "result": layer(4, "Result", [(2, 2)]),
    }
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
    edges = change.pop("edges", edges)
    return net([text for text in {**layers, **change}.values() if text], edges)


CONSTANTS = np.array([2, 0], "<i4").tobytes() + np.array([1], "<i8").tobytes()


def test_complete_networks_pass(findings):
    assert findings(gather_net(), CONSTANTS) == ()


@pytest.mark.parametrize(
    ("change", "where", "rule", "what"),
    [
        (
            {"edges": [(0, 0, 3, 0), (1, 0, 3, 1), (3, 3, 4, 0)]},
            "layer 3 'gather3'",
            "edges",
            "no edge leads to input port 2",
        ),
        (
            {"edges": [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0), (1, 0, 3, 1)]},
            "layer 3 'gather3'",
            "edges",
            "two edges lead to input port 1",
        ),
        (
            {"edges": [(0, 7, 3, 0), (0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]},
            "edge 0:7 to 3:0",
            "edges",
            "there is no output port 0:7",
        ),
        (
            {"edges": [(0, 0, 9, 0), (0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]},
            "edge 0:0 to 9:0",
            "edges",
            "there is no input port 9:0",
        ),
        (
            {"axis": layer(0, "Const", output=(), element_type="i64", shape="", size=8, offset=8)},
            "layer 0 'const0'",
            "edges",
            "another layer has the id 0",
        ),
        (
            {"result": layer(4, "Result", [(2, 9)])},
            "layer 4 'result4'",
            "edges",
            "input port 0, fed by port 3 of layer 3 'gather3', declares (2, 9); that port has "
            "(2, 2)",
        ),
        (
            {"data": layer(0, "Parameter", output=(2, 4), element_type="f32", shape="2,3")},
            "layer 0 'parameter0'",
            "port",
            "output port 0 declares (2, 4); inferred (2, 3)",
        ),
        (
            {
                "data": layer(
                    0, "Parameter", output=(2, 3), precision="FP16", element_type="f32", shape="2,3"
                )
            },
            "layer 0 'parameter0'",
            "port",
            "output port 0 declares precision FP16; inferred FP32",
        ),
        (
            {"data": layer(0, "Parameter", output=(2, 3), element_type="f99", shape="2,3")},
            "layer 0 'parameter0'",
            "attributes",
            "element_type = 'f99' is unknown",
        ),
        (
            {
                "indices": layer(
                    1, "Const", output=(2,), element_type="i32", shape="2", offset=12, size=8
                )
            },
            "layer 1 'const1'",
            "layer",
            "offset = 12 and size = 8 extend past the end of",
        ),
        (
            {
                "gather": layer(
                    3, "Gather", [(2, 3), (2,), ()], (2, 2), version="opset7", batch_dims=3
                )
            },
            "layer 3 'gather3'",
            "attributes",
            "batch_dims = 3 is out of range",
        ),
    ],
)
def test_broken_networks_are_reported(findings, change, where, rule, what):
    found = findings(gather_net(**change), CONSTANTS)
    assert any((each.where, each.rule) == (where, rule) and what in each.what for each in found), (
        found
    )


def test_known_out_of_bounds_indices_are_found_if_the_version_raises(findings):
    constants = np.array([3, 0], "<i4").tobytes() + np.array([1], "<i8").tobytes()
    assert findings(gather_net(), constants) == ()  # Gather-8 fills with zeros
    gather = layer(3, "Gather", [(2, 3), (2,), ()], (2, 2), version="opset7", batch_dims=0)
    (finding,) = findings(gather_net(gather=gather), constants)
    assert finding.rule == "index range"
    assert finding.what.startswith("indices[0] = 3 is outside axis 1 of data")


def test_cycles_are_reported_without_later_layers(findings):
    relus = [layer(each, "Relu", [(2,)], (2,)) for each in range(3)]
    text = net(
        [*relus, layer(3, "Result", [(2,)])],
        [(0, 1, 1, 0), (1, 1, 0, 0), (1, 1, 2, 0), (2, 1, 3, 0)],
    )
    (finding,) = findings(text)
    assert finding.where == "layer 0 'relu0', layer 1 'relu1'"
    assert finding.what == "edges form a cycle"


def test_ports_of_other_layers_are_trusted(findings):
    gather = layer(2, "GatherND", [(3, 4), (2, 1)], (2, 4), version="opset8", batch_dims=0)
    other = [layer(0, "Relu", [(3, 4)], (3, 4)), layer(1, "NonZero", [(3, 4)], (2, 1))]
    edges = [(0, 1, 1, 0), (0, 1, 2, 0), (1, 1, 2, 1)]
    (missing,) = findings(net([*other, gather], edges))
    assert missing.what == "no edge leads to input port 0"
    wrong = layer(2, "GatherND", [(3, 4), (2, 1)], (2, 5), version="opset8", batch_dims=0)
    _, finding = findings(net([*other, wrong], edges))
    assert finding.what == "output port 2 declares (2, 5); inferred (2, 4)"


def test_ports_without_sizes_are_not_scalars_if_the_shape_is_known(findings):
    unknown = layer(3, "Gather", [(2, 3), (2,), ()], (), version="opset8", batch_dims=0)
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2)]
    (finding,) = findings(gather_net(gather=unknown, result="", edges=edges), CONSTANTS)
    assert finding.what == "output port 3 declares (); inferred (2, 2)"


def test_inferred_sizes_propagate(findings):
    """The first Gather declares dynamic sizes; the second is checked against inferred sizes."""
    first = layer(3, "Gather", [(2, 3), (2,), ()], (-1, -1), version="opset8", batch_dims=0)
    second = layer(5, "GatherND", [(-1, -1), (7, 1)], (7, 9), version="opset8", batch_dims=0)
    places = layer(6, "Parameter", output=(7, 1), element_type="i64", shape="7,1")
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 5, 0), (6, 0, 5, 1), (5, 2, 4, 0)]
    result = layer(4, "Result", [(7, 9)])
    found = findings(
        gather_net(gather=first, second=second, places=places, result=result, edges=edges),
        CONSTANTS,
    )
    assert [each.what for each in found] == ["output port 2 declares (7, 9); inferred (7, 2)"]


def test_bodies_are_checked_and_identified_by_their_layer(findings):
    body = gather_net(result=layer(4, "Result", [(2, 9)])).removeprefix('<net version="11">')
    outer = (
        '<net><layers><layer id="7" name="choose" type="If" version="opset8">'
        f"<then_body>{body.removesuffix('</net>')}</then_body></layer></layers><edges/></net>"
    )
    (finding,) = findings(outer, CONSTANTS)
    assert finding.where == "layer 7 'choose' then_body: layer 4 'result4'"


def test_other_layers_are_refused_when_run(tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(net([layer(5, "Relu", [(2,)], (2,), version="opset1")], []))
    with pytest.raises(ValueError, match=r"layer 5 .* 'Relu' of 'opset1' is not supported"):
        Model.load(path).run({})


OLD = "OpenVINO before June 2025"
CPU = "OpenVINO CPU"
ND = "layer 3 'gathernd3'"


@pytest.mark.parametrize(
    ("precision", "constants", "said"),
    [
        ("f32", (1, 0), []),
        ("f32", (1, -2), [("negative index", "portable", (OLD,), ND)]),
        ("i64", (1, 0), [("64-bit integers", "differs", (CPU,), ND)]),
        ("u64", (1, 0), [("64-bit integers", "differs", (CPU,), ND)]),
        ("f64", (1, 0), [("64-bit floats", "differs", (CPU,), ND)]),
        ("i32", (1, 0), []),
    ],
)
def test_openvino_differences_are_reported_for_gather_nd(findings, precision, constants, said):
    network = gather_net(
        data=layer(0, "Parameter", output=(2, 3), element_type=precision, shape="2,3"),
        indices=layer(1, "Const", output=(2, 1), element_type="i32", shape="2,1", offset=0, size=8),
        gather=layer(3, "GatherND", [(2, 3), (2, 1)], (2, 3), version="opset8", batch_dims=0),
        axis="",
        result="",
        edges=[(0, 0, 3, 0), (1, 0, 3, 1)],
    )
    found = findings(network, np.array(constants, "<i4").tobytes())
    assert [(each.rule, each.severity.value, each.runtimes, each.where) for each in found] == said
    assert all(each.operator == "openvino GatherND-8" for each in found)


def test_openvino_differences_are_reported_for_gather_elements(findings):
    network = gather_net(
        indices=layer(
            1, "Const", output=(1, 3), element_type="i32", shape="1,3", offset=0, size=12
        ),
        gather=layer(3, "GatherElements", [(2, 3), (1, 3)], (1, 3), version="opset6", axis=0),
        axis="",
        result="",
        edges=[(0, 0, 3, 0), (1, 0, 3, 1)],
    )
    (finding,) = findings(network, np.array([0, -1, 1], "<i4").tobytes())
    assert finding.severity is Severity.PORTABLE
    assert finding.what.startswith(
        "indices[0, 1] = -1 counts from the end: the specification of Open"
    )


@pytest.mark.parametrize(
    ("axis", "shape", "places", "said"),
    [
        (1, (1, 2), (0, 1), []),
        (1, (1, 2), (1, 1), ["duplicates"]),
        (1, (2, 1), (1, 1), []),
        (0, (2, 1), (1, 1), ["duplicates"]),
        (None, (2, 1), (1, 1), []),
    ],
)
def test_duplicate_indices_are_reported_along_an_axis_input(findings, axis, shape, places, said):
    sizes = ",".join(map(str, shape))
    kind, at = ("Parameter", {}) if axis is None else ("Const", {"offset": 8, "size": 8})
    network = gather_net(
        indices=layer(1, "Const", output=shape, element_type="i32", shape=sizes, offset=0, size=8),
        gather=layer(
            3, "ScatterElementsUpdate", [(2, 3), shape, shape, ()], (2, 3), version="opset12"
        ),
        axis=layer(2, kind, output=(), element_type="i64", shape="", **at),
        updates=layer(5, "Parameter", output=shape, element_type="f32", shape=sizes),
        result="",
        edges=[(0, 0, 3, 0), (1, 0, 3, 1), (5, 0, 3, 2), (2, 0, 3, 3)],
    )
    stored = np.array(places, "<i4").tobytes() + np.array([axis or 0], "<i8").tobytes()
    assert [each.rule for each in findings(network, stored)] == said


def test_onnx_frontend_differences_are_not_reported_for_ir(findings):
    network = gather_net(
        data=layer(0, "Parameter", output=(-1, 3), element_type="f32", shape="?,3"),
        indices=layer(1, "Parameter", output=(2, 1), element_type="i32", shape="2,1"),
        gather=layer(3, "GatherND", [(-1, 3), (2, 1)], (2,), version="opset8", batch_dims=1),
        axis="",
        result="",
        edges=[(0, 0, 3, 0), (1, 0, 3, 1)],
    )
    assert findings(network) == ()


@pytest.mark.parametrize(
    ("kind", "constant", "said"),
    [
        ("ShapeOf", 1, []),
        ("ShapeOf", 2**31 - 1, []),
        ("ShapeOf", 2**31, ["64-bit integers"]),
        ("Relu", 1, ["64-bit integers"]),
    ],
)
def test_sizes_and_small_constants_fit_in_32_bits(findings, kind, constant, said):
    layers = [
        layer(0, "Parameter", output=(2, 3), precision="I64", element_type="i64", shape="2,3"),
        layer(1, kind, [(2, 3)], (2,), "I64", output_type="i64"),
        layer(
            2,
            "Const",
            output=(1,),
            precision="I64",
            element_type="i64",
            shape="1",
            offset=0,
            size=8,
        ),
        layer(3, "Concat", [(2,), (1,)], (3,), "I64", axis=0),
        layer(
            4,
            "Const",
            output=(1,),
            precision="I64",
            element_type="i64",
            shape="1",
            offset=8,
            size=8,
        ),
        layer(
            5, "Const", output=(), precision="I64", element_type="i64", shape="", offset=8, size=8
        ),
        layer(6, "Gather", [(3,), (1,), ()], (1,), "I64", version="opset8", batch_dims=0),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 3, 1), (3, 2, 6, 0), (4, 0, 6, 1), (5, 0, 6, 2)]
    found = findings(net(layers, edges), np.array([constant, 0], "<i8").tobytes())
    assert [finding.rule for finding in found] == said
