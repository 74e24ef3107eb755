"""The page about exporters: made from the results that are kept, and true to them."""

import json

import numpy as np
import pytest
from bench.exports.lines import lines, values
from bench.exports.page import PAGE, RESULTS, page

EXPORTERS = {
    "torch-torchscript": "torch",
    "torch-dynamo": "torch",
    "tf2onnx": "tensorflow",
    "skl2onnx": "sklearn",
}
RUNTIMES = ("onnxruntime", "openvino", "openvino-1", "reference")


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def made(**outside):
    """Results of one line: no indices of it are a problem but those past the end."""
    refused = dict.fromkeys(("itself", "specification", *RUNTIMES), "refused")
    valid = {"itself": "value", **dict.fromkeys(("specification", *RUNTIMES), "same")}
    cases = {"valid": valid, "outside": {**refused, **outside}}
    return {
        "runtimes": {"onnxruntime": "1.0", "openvino": "2.0", "reference": "3.0"},
        "exporters": {"torch-torchscript": {"torch": "4.0"}, "torch-dynamo": {"torch": "4.0"}},
        "exports": {
            "torch-torchscript/rows": {"nodes": ["Gather-13", "Gather-13"], "cases": cases},
            "torch-dynamo/rows": {"refused": "ValueError: no"},
        },
    }


def test_the_page_is_what_its_results_give(kept):
    assert PAGE.read_text(encoding="utf-8") == page(kept)


def test_every_line_has_a_result_of_every_exporter_of_its_package(kept):
    wanted = {
        f"{exporter}/{line.name}": line
        for exporter, package in EXPORTERS.items()
        for line in lines(package)
    }
    assert kept["exports"].keys() == wanted.keys()
    for name, found in kept["exports"].items():
        assert "refused" in found or found["cases"].keys() == set(wanted[name].cases), name


def test_a_line_is_shown_with_the_nodes_of_each_exporter():
    assert "| `x[i]` | 2 Gather-13 | refuses: ValueError: no |" in page(made())


def test_a_runtime_that_takes_an_index_out_of_range_is_shown():
    row = "| refuses | refuses | refuses | **a value** | refuses | refuses | `x[i]` (TorchScript) |"
    assert row in page(made(openvino="value"))


def test_what_runtimes_do_as_the_framework_is_counted_and_not_shown():
    text = page(made())
    assert "`x[i]` (TorchScript)" not in text
    assert text.count("1 of 1 exports do in every runtime what their framework does.") == 2


def test_an_export_that_changes_the_value_is_named_first():
    assert "| TorchScript | outside |" not in page(made(specification="value"))
    text = page(made(itself="value", specification="other"))
    assert "| `x[i]` | TorchScript | outside | another value | 2 Gather-13 |  |" in text
    text = page(made(itself="value"))
    assert "| `x[i]` | TorchScript | outside | refuse | 2 Gather-13 |  |" in text


def test_a_crash_and_what_parts_from_the_specification_are_named():
    parts = [["openvino", "ai.onnx Gather-13", "differs", "index range"]]
    text = page(made(onnxruntime="crashed", parts=parts))
    assert "**crashes**" in text
    link = "[Gather-13](operators/ai.onnx-Gather-13.rst)"
    where = "`x[i]` (TorchScript, outside)"
    assert f"| openvino 2.0 | {link} | differs | index range | 1 | {where} |" in text


@pytest.mark.parametrize("package", sorted(set(EXPORTERS.values())))
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
