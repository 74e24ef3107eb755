"""The page about exporters is written from the saved results and agrees with them."""

import json

import numpy as np
import pytest

from tools.exports.page import PAGE, RESULTS, page
from tools.exports.snippets import snippets
from tools.exports.write import EXPORTERS

RUNTIMES = ("onnxruntime", "openvino", "openvino-1", "reference")


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def results_of(**outside):
    """Results of a snippet for which only indices past the end are a problem."""
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


def test_page_is_written_from_its_results(kept):
    assert PAGE.read_text(encoding="utf-8") == page(kept)


def test_every_snippet_has_a_result_per_exporter(kept):
    wanted = {
        f"{name}/{snippet.name}": snippet
        for name, exporter in EXPORTERS.items()
        for snippet in snippets(exporter.package)
    }
    assert kept["exports"].keys() == wanted.keys()
    for name, found in kept["exports"].items():
        assert "refused" in found or found["cases"].keys() == set(wanted[name].cases), name


def test_snippets_are_shown_with_the_nodes_of_each_exporter():
    assert "| `x[i]` | 2 Gather-13 | raises ValueError |" in page(results_of())


def test_runtime_that_accepts_out_of_bounds_indices_is_shown():
    row = "| raises | raises | raises | **a value** | raises | raises | `x[i]` (TorchScript) |"
    assert row in page(results_of(openvino="value"))


def test_correct_exports_are_only_counted():
    text = page(results_of())
    assert "`x[i]` (TorchScript)" not in text
    assert text.count("1 of 1 exports agree with their framework in every runtime.") == 2


def test_wrong_exports_are_named_first():
    assert "| TorchScript | out of bounds |" not in page(results_of(specification="value"))
    text = page(results_of(itself="value", specification="other"))
    assert "| `x[i]` | TorchScript | out of bounds | another value |  |" in text
    text = page(results_of(itself="value"))
    assert "| `x[i]` | TorchScript | out of bounds | error |  |" in text


def test_crashes_and_deviations_are_named():
    differences = [["openvino", "ai.onnx Gather-13", "differs", "index range"]]
    text = page(results_of(onnxruntime="crashed", differences=differences))
    assert "**crashes**" in text
    link = "[Gather-13](operators/Gather.md#ai-onnx-gather-13)"
    where = "`x[i]` (TorchScript, out of bounds)"
    assert f"| openvino 2.0 | {link} | differs | index range | 1 | {where} |" in text


@pytest.mark.parametrize("package", ["torch", "tensorflow", "sklearn"])
def test_indices_match_their_case(package):
    for snippet in snippets(package):
        for name, sizes in snippet.indices.items():
            low, high = np.zeros_like(sizes), np.asarray(sizes)
            valid, negative = (snippet.values(case)[name] for case in ("valid", "negative"))
            assert ((valid >= low) & (valid < high)).all()
            assert ((negative >= -high) & (negative < high)).all()
            assert (negative < 0).any()
            outside = snippet.values("outside")[name]
            assert (outside == high).any()
            assert (outside <= high).all()
            repeated = snippet.values("repeated")[name]
            assert (repeated == 1).all()
            assert repeated.shape == valid.shape == tuple(snippet.inputs[name][1:])
