"""The repr of models, findings and reports is the text of the commands."""

import numpy as np
import pytest
from onnx.parser import parse_model

from ndgather.cli import main
from ndgather.models import onnx, openvino

MODEL = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    { picked = GatherND(data, rows) }""")


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a command on the model and return its output."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)

    def run(line):
        main(line.split())
        return capsys.readouterr().out.rstrip("\n")

    return run


@pytest.mark.parametrize("module", [onnx, openvino])
def test_only_public_names_are_listed(module):
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in dir(module))


def test_models_are_shown_as_inputs_and_outputs(printed):
    loaded = onnx.load(MODEL)
    assert repr(loaded) == printed("infer model.onnx")


def test_findings_are_shown_as_a_table(printed):
    wrong = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        pick (float[N, 2] data, int32[M, 1] rows) => (float[M, 2] picked)
        { picked = GatherND(data, rows) }""")
    onnx.save(wrong, "model.onnx")
    findings = onnx.check(wrong)
    assert isinstance(findings, tuple)
    assert " ".join(repr(findings).split()) == " ".join(printed("check model.onnx").split())
    assert repr(onnx.check(MODEL)) == "nothing found"
    assert onnx.check(MODEL) == ()


def test_conversions_are_shown_as_nodes(printed):
    result = onnx.conversion(MODEL, opset=11)
    line = printed("convert model.onnx --opset 11 -o old.onnx")
    assert line == f"old.onnx: {result!r}"
    for result, options in (
        (onnx.conversion(MODEL, operator="GatherElements"), "--operator GatherElements"),
        (onnx.conversion(MODEL, target="basic"), "--target basic --dry-run"),
    ):
        words = repr(result).split()
        assert words[1] in {"node", "nodes"}
        text = printed(f"convert model.onnx -o new.onnx {options}")
        assert set(words) <= {*text.split(), words[0], words[1]}


def test_comparisons_are_shown_as_a_report(printed):
    inputs = {"data": np.zeros((3, 2), np.float32), "rows": np.array([[7]])}
    np.savez("all.npz", **inputs)
    report = onnx.compare(MODEL, inputs, runtimes=["reference"])
    assert repr(report) == printed("compare model.onnx --inputs all.npz --runtime reference")
