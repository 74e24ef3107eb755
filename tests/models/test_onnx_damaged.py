"""Damaged ONNX models found by fuzzing give findings or a package error on one line."""

import re
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from ndgather.errors import AttributeValueError, ModelError, NdgatherError
from ndgather.models import onnx as models

DATA = helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3])
OUT = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)


def model_of(*nodes, opset=18):
    at = numpy_helper.from_array(np.array([[0, 1]]), "at")
    graph = helper.make_graph(nodes, "g", [DATA], [OUT], [at])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def gather(**attributes):
    return helper.make_node("GatherND", ["data", "at"], ["out"], name="pick", **attributes)


def test_constants_without_an_output():
    model = model_of(helper.make_node("Constant", [], [], value_int=1), gather())
    with pytest.raises(ModelError, match="Output 0 is out of bounds"):
        models.infer(model)
    assert [each.rule for each in models.check(model)] == ["model"]


@pytest.mark.parametrize("name", ["value_int", "value_ints"])
@pytest.mark.parametrize("kind", [AttributeProto.UNDEFINED, AttributeProto.STRING, 99])
def test_constants_with_a_wrong_declared_type(name, kind):
    node = helper.make_node("Constant", [], ["c"], value_int=1)
    node.attribute[0].name = name
    node.attribute[0].ClearField("type")
    if kind in AttributeProto.AttributeType.values():
        node.attribute[0].type = kind
    models.infer(model_of(node, gather()))
    assert {each.rule for each in models.check(model_of(node, gather()))} == {"onnx.checker"}


@pytest.mark.parametrize("work", [models.infer, partial(models.convert, operator="Gather")])
def test_attributes_without_a_type(work):
    node = helper.make_node("GatherElements", ["data", "at"], ["out"], name="pick", axis=1)
    node.attribute[0].ClearField("type")
    with pytest.raises(AttributeValueError) as refusal:
        work(model_of(node))
    assert str(refusal.value) == (
        "node 'pick' (GatherElements): attribute 'axis' has no value: it has no type"
    )
    assert [each.rule for each in models.check(model_of(node))] == ["attributes"]


def test_attribute_references_outside_functions():
    node = gather(batch_dims=0)
    node.attribute[0].ref_attr_name = "shared"
    with pytest.raises(AttributeValueError) as refusal:
        models.convert(model_of(node), opset=12)
    assert str(refusal.value).startswith(
        "node 'pick' (GatherND): attribute 'batch_dims' has no value: Cannot get value of "
    )
    assert "\n" not in str(refusal.value)


def test_nodes_with_duplicate_output_names():
    branch = helper.make_graph([gather()], "b", [], [OUT])
    double = helper.make_node("If", ["data"], ["out"], then_branch=branch, else_branch=branch)
    inferred = models.infer(model_of(double, helper.make_node("Identity", ["data"], ["out"])))
    assert [node.op_type for node in inferred.graph.node] == ["If", "Identity"]


def test_attributes_that_are_not_utf_8():
    node = helper.make_node("ScatterND", ["data", "at", "at"], ["out"], name="put", reduction="add")
    node.attribute[0].s = b"\xff\xfe"
    with pytest.raises(AttributeValueError) as refusal:
        models.infer(model_of(node))
    assert str(refusal.value).startswith(
        "node 'put' (ScatterND): attribute 'reduction' has no value: 'utf-8' codec"
    )


@pytest.mark.parametrize("opset", [2**31, 2**63 - 1, -(2**63)])
def test_versions_without_a_schema(opset):
    other = helper.make_node("Identity", ["data"], ["same"])
    with pytest.raises(NdgatherError):
        models.convert(model_of(other, gather(), opset=opset), opset=13)


@pytest.mark.parametrize("batch_dims", [-(2**31), -3, 2**32 - 5, 2**63 - 1])
@pytest.mark.parametrize("around", [False, True])
def test_negative_batch_dims_are_hidden_from_onnx(batch_dims, around):
    node = gather(batch_dims=batch_dims)
    if around:
        branch = helper.make_graph([node], "b", [], [OUT])
        node = helper.make_node("If", ["data"], ["out"], then_branch=branch, else_branch=branch)
    model = model_of(node)
    found = models.check(model)
    assert {each.rule for each in found if "GatherND" in each.operator} == {"attributes"}
    assert found[0].what.startswith(f"ai.onnx GatherND-13: batch_dims = {batch_dims} is out of")
    with pytest.raises(AttributeValueError):
        models.infer(model)
    assert model.opset_import == model_of(node).opset_import


def test_batch_dims_with_a_wrong_type_are_hidden_from_onnx():
    node = gather(batch_dims=-(2**31))
    node.attribute[0].type = AttributeProto.GRAPHS
    assert {each.rule for each in models.check(model_of(node))} == {"types"}


@pytest.mark.parametrize("batch_dims", [2**31, 2**63 - 1])
def test_huge_batch_dims_of_invalid_nodes_take_no_time(batch_dims):
    node = gather(batch_dims=batch_dims)
    model = model_of(node)
    for info in model.graph.input:
        info.type.tensor_type.ClearField("shape")
    del model.graph.initializer[:]
    model.graph.input.add(name="at").type.tensor_type.elem_type = TensorProto.INT64
    assert [each.rule for each in models.check(model)] == ["attributes"]


def test_models_in_memory_with_names_that_are_not_utf_8():
    node = helper.make_node("GatherND", ["absent", "at"], ["out"])
    model = model_of(node)
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    content = model.SerializeToString().replace(b"absent", b"abs\xfbnt")
    with pytest.raises(ModelError, match="model: cannot be run: "):
        models.run(
            ModelProto.FromString(content),
            {"data": np.zeros((2, 3), np.float32)},
            runtime="reference",
        )


def test_other_invalid_nodes_are_hidden_from_onnx():
    node = gather(batch_dims=-(2**31))
    model = model_of(node)
    model.graph.initializer[0].raw_data += b"more than its dims say"
    assert [each.where for each in models.check(model)] == ["pick"]


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31m"])
def test_names_in_errors_are_escaped(name):
    model = model_of(gather())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = name
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 5
    texts = [each.what for each in models.check(model)]
    model.opset_import.add(domain=name, version=1)
    model.opset_import.add(domain=name, version=2)
    texts += [each.what for each in models.check(model)]
    assert len(texts) == 2
    assert all(text.isprintable() for text in texts)


def tuples_of(sizes):
    return helper.make_tensor_type_proto(TensorProto.INT64, sizes)


MADE_BY = {
    "an input": None,
    "an unknown node": helper.make_node("Mystery", ["source"], ["at"], domain="elsewhere"),
    "a sequence": helper.make_node("SequenceAt", ["source", "first"], ["at"]),
    "an optional value": helper.make_node("OptionalGetElement", ["source"], ["at"]),
}
WRAPPED = {
    "a sequence": helper.make_sequence_type_proto,
    "an optional value": helper.make_optional_type_proto,
}


@pytest.mark.parametrize("size", [-2, -(2**31), -(2**63)])
@pytest.mark.parametrize("maker", MADE_BY)
@pytest.mark.parametrize("within", [False, True])
def test_negative_sizes_are_hidden_from_onnx(maker, size, within):
    wrap = WRAPPED.get(maker, lambda declared: declared)
    source = helper.make_value_info("source", wrap(tuples_of(["N", size])))
    at = helper.make_value_info("at", tuples_of(["N", size]))
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, "N"])
    first = helper.make_tensor_value_info("first", TensorProto.INT64, [])
    made = MADE_BY[maker]
    body = [*([made] if made else []), helper.make_node("GatherND", ["data", "at"], ["out"])]
    values = [at] if maker == "an unknown node" else []
    inputs = [data, source, first] if made else [data, at]
    if within:
        branch = helper.make_graph(body, "b", [], [OUT], value_info=values)
        condition = helper.make_tensor_value_info("so", TensorProto.BOOL, [])
        body = [helper.make_node("If", ["so"], ["out"], then_branch=branch, else_branch=branch)]
        inputs, values = [*inputs, condition], []
    graph = helper.make_graph(body, "g", inputs, [OUT], value_info=values)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("elsewhere", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    before = model.SerializeToString()
    models.infer(model)
    models.convert(model, opset=18)
    assert "the length of the index tuples is not known" in models.check(model)[0].what
    assert model.SerializeToString() == before


MODEL = model_of(gather())
MODEL.graph.output[0].type.tensor_type.shape.dim.add(dim_value=1)
NO_MODELS = {
    "ort": b"\x20\0\0\0ORTM" + bytes(40),
    "html": b"<!DOCTYPE html>\n<html></html>",
    "zip": b"PK\x03\x04" + bytes(40),
    "gzip": b"\x1f\x8b" + bytes(40),
    "text": b"<ir_version: 8>",
}
WORKS = [models.check, models.infer, models.load]


@pytest.mark.parametrize("name", NO_MODELS)
@pytest.mark.parametrize("work", WORKS)
def test_files_that_are_not_models_are_refused(name, work, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(NO_MODELS[name])
    with pytest.raises(ModelError, match=rf"{path}: is not an ONNX model, or is incomplete"):
        work(path)


@pytest.mark.parametrize("work", WORKS)
def test_git_lfs_pointers_are_recognized(work, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    for model, name in ((path, path), (path.read_bytes(), "model")):
        with pytest.raises(ModelError, match=rf"^{name}: is a pointer of Git LFS \(allowed: "):
            work(model)


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental")
@pytest.mark.parametrize("form", ["onnxtxt", "textproto", "json"])
def test_hint_for_text_models_works(form, tmp_path):
    path, binary = tmp_path / f"model.{form}", tmp_path / "model.onnx"
    onnx.save(MODEL, path, format=form)
    with pytest.raises(ModelError) as refusal:
        models.check(path)
    advice = re.search(r"onnx\.save\(.*, new_path\)", str(refusal.value))[0]
    advice = advice.replace("...", repr(form))
    eval(advice, {"onnx": onnx, "path": path, "new_path": binary})
    assert not models.check(binary)


def test_truncated_files_are_recognized(tmp_path):
    content, path = MODEL.SerializeToString(), tmp_path / "model.onnx"
    without_imports = ModelProto(ir_version=8, graph=MODEL.graph).SerializeToString()
    whole_fields = {2, len(without_imports)}  # cut after the version or after the graph
    for size in range(1, len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(NdgatherError) as refusal:
            models.infer(path)
        cut = "or is incomplete" in str(refusal.value)
        assert cut or size in whole_fields, (size, str(refusal.value))
