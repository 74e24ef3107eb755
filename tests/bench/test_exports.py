"""The page about exporters: made from the results that are kept, and true to them."""

import json

import numpy as np
import pytest
from bench.exports.lines import lines, values
from bench.exports.page import PAGE, RESULTS, page

PACKAGES = ("torch", "tensorflow", "sklearn")


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def made(**case):
    row = {"itself": "refused", "specification": "refused", "onnxruntime": "refused"}
    outside = {**row, "openvino": "value", "reference": "refused", **case}
    valid = dict.fromkeys(
        ("itself", "specification", "onnxruntime", "openvino", "reference"), "same"
    )
    return {
        "runtimes": {"onnxruntime": "1.0", "openvino": "2.0", "reference": "3.0"},
        "exporters": {
            "torch-torchscript": {"torch": "4.0"},
            "torch-dynamo": {"torch": "4.0"},
            "tf2onnx": {"tf2onnx": "5.0"},
            "skl2onnx": {"skl2onnx": "6.0"},
        },
        "exports": {
            "torch-torchscript/rows": {
                "nodes": ["Gather-13", "Gather-13"],
                "cases": {"valid": {**valid, "itself": "value"}, "outside": outside},
            },
            "torch-dynamo/rows": {"refused": "ValueError: no"},
        },
    }


def test_the_page_is_what_its_results_give(kept):
    assert PAGE.read_text(encoding="utf-8") == page(kept)


def test_every_line_has_a_result_of_every_exporter_of_its_package(kept):
    exporters = {"torch": ["torch-torchscript", "torch-dynamo"], "tensorflow": ["tf2onnx"]}
    wanted = [
        f"{exporter}/{line.name}"
        for package in PACKAGES
        for exporter in exporters.get(package, ["skl2onnx"])
        for line in lines(package)
    ]
    assert sorted(kept["exports"]) == sorted(wanted)
    for package in PACKAGES:
        for line in lines(package):
            found = [each for name, each in kept["exports"].items() if name in wanted
                     and name.endswith(f"/{line.name}") and "cases" in each]  # fmt: skip
            assert all(
                set(each["cases"]) <= {"valid", "negative", "outside", "repeated"} for each in found
            )


def test_a_line_is_shown_with_the_nodes_of_each_exporter():
    assert "| `x[i]` | 2 Gather-13 | refuses: ValueError: no |" in page(made())


def test_what_a_runtime_makes_of_an_index_out_of_range_is_shown():
    assert "| `x[i]` | TorchScript | refuses | refuses | refuses | **a value** | refuses |" in page(
        made()
    )


def test_lines_on_which_all_agree_are_counted_and_not_shown():
    text = page(made(openvino="refused"))
    assert "| `x[i]` | TorchScript |" not in text
    assert "All 1 exports" in text


def test_a_crash_and_what_parts_from_the_specification_are_named():
    part = [["openvino", "ai.onnx Gather-13", "differs", "index range"]]
    text = page(made(onnxruntime="crashed", parts=part))
    assert "**crashes**" in text
    assert "| openvino 2.0 | [Gather-13](" in text


@pytest.mark.parametrize("package", PACKAGES)
def test_indices_are_what_their_case_says(package):
    for line in lines(package):
        for name, sizes in line.indices.items():
            low, high = np.zeros_like(sizes), np.asarray(sizes)
            valid, negative = (values(line, case)[name] for case in ("valid", "negative"))
            assert ((valid >= low) & (valid < high)).all()
            assert ((negative >= -high) & (negative < high)).all()
            assert (negative < 0).any()
            outside = values(line, "outside")[name]
            assert (outside == high).any()
            assert (outside <= high).all()
            repeated = values(line, "repeated")[name]
            assert (repeated == 1).all()
            assert repeated.shape == valid.shape == tuple(line.inputs[name][1:])
