"""Operators: lookup by name, strict calls, comparison as data."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import ndgather
from ndgather import errors, vjp
from ndgather.errors import CallError, DTypeError
from ndgather.published import Operator, operator, operators
from ndgather.published.callables import Difference
from ndgather.published.schema import TensorType

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def version_of(*args, **options):
    return operator(*args, **options).version


def test_newest_version_is_the_default():
    assert version_of("GatherND") == 13
    assert version_of("GatherND", domain="openvino") == 8
    assert version_of("GatherND", domain="com.microsoft") == 1


def test_version_is_exact():
    assert version_of("GatherND", version=12) == 12
    with pytest.raises(errors.AttributeValueError, match=r"version = 14 .*11, 12, 13"):
        operator("GatherND", version=14)


@pytest.mark.parametrize(("opset", "since"), [(11, 11), (12, 12), (13, 13), (15, 13), (26, 13)])
def test_opset_finds_the_newest_version_in_it(opset, since):
    assert version_of("GatherND", opset=opset) == since


def test_opset_before_the_first_version_is_refused():
    with pytest.raises(errors.AttributeValueError, match=r"opset = 10 .*at least 11"):
        operator("GatherND", opset=10)


def test_version_and_opset_exclude_each_other():
    with pytest.raises(errors.AttributeValueError, match="both given"):
        operator("GatherND", version=13, opset=13)


@pytest.mark.parametrize("option", ["version", "opset"])
@pytest.mark.parametrize("value", ["13", 13.0, [13]], ids=str)
def test_versions_are_integers(option, value):
    text = re.escape(f"operator: {option} = {value!r} is not an integer (allowed: an integer)")
    with pytest.raises(errors.DTypeError, match=f"^{text}$"):
        operator("GatherND", **{option: value})


def test_empty_domain_is_an_alias():
    assert operator("GatherND", domain="") is operator("GatherND")
    assert operators(domain="") == operators(domain="ai.onnx")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: operator(13), "operator: name = 13"),
        (lambda: operator("Gather", domain=b"ai"), "operator: domain = b'ai'"),
        (lambda: operators(None, 3), "operators: domain = 3"),
    ],
)
def test_name_must_be_a_string(call, text):
    with pytest.raises(errors.DTypeError) as caught:
        call()
    assert str(caught.value) == f"{text} is not a string (allowed: a string)"


def test_unknown_names_are_refused_with_similar_names():
    with pytest.raises(errors.AttributeValueError, match="Gather, GatherElements, GatherND"):
        operator("GatherNd")
    with pytest.raises(errors.AttributeValueError, match="domain = 'caffe' is unknown"):
        operator("GatherND", domain="caffe")


def test_operators_are_filtered_by_name_and_domain():
    assert len(operators()) == 32
    assert [str(each.row) for each in operators("GatherND", "openvino")] == [
        "openvino GatherND-5",
        "openvino GatherND-8",
    ]
    assert operators("GatherND", "caffe") == ()


def test_repr_can_be_read_back():
    op = operator("GatherND", domain="com.microsoft")
    assert repr(op) == "operator('GatherND', domain='com.microsoft', version=1)"
    assert eval(repr(op), {"operator": operator}) is op


# binding


def test_inputs_may_be_given_by_name():
    op = operator("GatherND")
    np.testing.assert_array_equal(op(ROWS, indices=[[1]]), op(data=ROWS, indices=[[1]]))
    with pytest.raises(errors.AttributeValueError, match="by position and by name"):
        op(ROWS, [[1]], data=ROWS)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_count_of_inputs_is_checked(count):
    with pytest.raises(errors.AttributeValueError, match="2, data, indices"):
        operator("GatherND")(*[ROWS, [[1]], [1]][:count])


def test_lists_are_converted_and_empty_lists_have_no_dtype():
    assert operator("GatherND")([[1, 2]], [[0]]).tolist() == [[1, 2]]
    assert operator("Gather")([[1, 2]], []).shape == (0, 2)


def test_result_is_new_and_of_the_type_of_data():
    taken = operator("Gather")(ROWS, [0, 1])
    assert taken.dtype == ROWS.dtype
    assert not np.shares_memory(taken, ROWS)


def test_shape_checks_are_repeated_for_each_type_and_option():
    op = operator("GatherND")
    assert op(ROWS, [[1]]).shape == (1, 3)
    assert op(ROWS, [[1], [0]], batch_dims=1).shape == (2,)
    assert op(ROWS, [[1]]).shape == (1, 3)
    with pytest.raises(errors.DTypeError):
        op(ROWS, np.array([[1]], np.int32))


def test_repeated_calls_are_checked_like_the_first():
    op, rows = operator("GatherND"), np.arange(6.0).reshape(2, 3)
    indices = np.array([[1], [0]])
    assert op(rows, indices, batch_dims=1).tolist() == [1, 3]
    assert op(rows, indices, batch_dims=1).tolist() == [1, 3]
    with pytest.raises(errors.DTypeError, match=r"batch_dims = True"):
        op(rows, indices, batch_dims=True)
    for _ in range(2):
        with pytest.raises(errors.IndexOutOfBoundsError, match=r"indices\[1, 0\] = 3"):
            op(rows, np.array([[1], [3]]), batch_dims=1)
    assert op(rows.astype(">f8"), indices, batch_dims=1).tolist() == [1, 3]
    assert op(rows[:, ::-1], indices, batch_dims=1).tolist() == [1, 5]


def test_repeated_scatter_uses_its_own_reduction_and_updates():
    op = operator("ScatterND")
    data, indices, updates = np.arange(3), np.array([[1], [1]]), np.array([5, 7])
    for _ in range(2):
        assert op(data, indices, updates, reduction="add").tolist() == [0, 13, 2]
        assert op(data, indices, updates, reduction="max").tolist() == [0, 7, 2]
    assert data.tolist() == [0, 1, 2]


def test_message_names_the_operator_and_the_position():
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        operator("GatherND")(ROWS, np.array([[0, 1], [1, 3]]))
    assert str(caught.value) == (
        "ai.onnx GatherND-13: indices[1, 1] = 3 is outside axis 1 of data, which has size 3 "
        "(allowed: -3..2)"
    )


# type inference


def test_infer_gives_the_type_of_data():
    found = operator("GatherND").infer(TensorType("bfloat16", ("N", 3)), TensorType("int64", None))
    assert found.outputs[0].dtype == "bfloat16"
    assert operator("GatherND").infer(TensorType(), TensorType()).outputs == (TensorType(),)


def test_infer_refuses_the_same_types_as_a_call():
    op = operator("GatherND", version=12)
    with pytest.raises(errors.DTypeError, match="bfloat16 is not supported"):
        op.infer(TensorType("bfloat16"), TensorType("int64"))
    with pytest.raises(errors.DTypeError, match="int32 is not supported"):
        op.infer(TensorType("float32"), TensorType("int32"))


def test_infer_takes_the_type_of_updates_from_data_and_back():
    op = operator("ScatterND")
    found = op.infer(TensorType(), TensorType(), TensorType("float16"))
    assert found.outputs[0].dtype == "float16"
    with pytest.raises(errors.DTypeError, match="differs"):
        op.infer(TensorType("float32"), TensorType(), TensorType("float16"))


def test_infer_requires_every_input_except_axis():
    with pytest.raises(errors.AttributeValueError, match="1 input given"):
        operator("GatherND").infer(TensorType("float32", (2, 3)))
    with pytest.raises(errors.AttributeValueError, match="weights"):
        operator("GatherND").infer(TensorType(), TensorType(), constants={"weights": 1})


# differences


def test_diff_of_12_and_13_is_bfloat16():
    found = operator("GatherND", version=12).diff(operator("GatherND", version=13))
    assert found == (Difference(what="inputs.data.types", here=(), there=("bfloat16",)),)


def test_diff_of_11_and_12_is_batch_dims():
    found = operator("GatherND", version=11).diff(operator("GatherND", version=12))
    assert [each.what for each in found] == ["attributes.batch_dims", "batch_rule"]
    assert found[0].here is None
    assert found[0].there.default == 0


def test_diff_between_dialects():
    found = operator("GatherElements").diff(operator("GatherElements", domain="openvino"))
    whats = {each.what: (each.here, each.there) for each in found}
    assert whats["attributes.axis.required"] == (False, True)
    assert whats["attributes.axis.default"] == (0, None)
    assert "off_axis_rule" in whats
    assert whats["inputs.data.types"][0] == ("complex64", "complex128")


def test_diff_of_index_rules_names_the_part():
    found = operator("Gather", domain="openvino", version=7).diff(
        operator("Gather", domain="openvino", version=8)
    )
    assert [each.what for each in found] == ["index_rule.negative", "index_rule.outside"]


def test_diff_lists_every_rule_of_a_row():
    other = operator("ScatterNDUpdate", domain="openvino", version=3)
    found = [each.what for each in operator("ScatterND", version=11).diff(other)]
    assert found[-3:] == ["index_rule.negative", "duplicates", "one_element_updates"]
    found = [each.what for each in operator("Gather").diff(operator("GatherND", version=12))]
    assert found[-3:] == ["kind", "batch_rule", "lowest_depth"]


def test_diff_with_itself_is_empty():
    for op in operators():
        assert op.diff(op) == ()


def test_operator_is_made_from_any_row():
    row = operator("GatherND").row
    assert Operator(row)(ROWS, [[1]]).shape == (1, 3)


def test_input_given_twice_is_named():
    with pytest.raises(errors.AttributeValueError) as caught:
        operator("GatherND")(ROWS, [[0]], data=ROWS)
    assert str(caught.value) == (
        "ai.onnx GatherND-13: data is given by position and by name (allowed: one of them)"
    )


@pytest.mark.parametrize("name", ["GatherND", "ScatterND"])
def test_bad_index_of_a_repeated_call_needs_one_core_call(name):
    op = operator(name, domain="ai.onnx", opset=18)
    data, good, bad = np.arange(4.0), np.array([[1], [3]]), np.array([[1], [4]])
    updates = [np.zeros(2)] * (name == "ScatterND")
    with pytest.raises(errors.IndexOutOfBoundsError) as first:
        op(data, bad, *updates)
    op(data, good, *updates)
    called = set()

    def profile(frame, event, _):
        if event == "call":
            called.add(Path(frame.f_code.co_filename).name)

    sys.setprofile(profile)
    try:
        with pytest.raises(errors.IndexOutOfBoundsError) as later:
            op(data, bad, *updates)
    finally:
        sys.setprofile(None)
    assert "slow_path.py" not in called  # would call the core again
    assert str(later.value) == str(first.value)
    assert vars(later.value) == vars(first.value)


STRINGS = {
    "wide": np.array,
    "objects": lambda texts: np.array(texts, object),
    "of any length": lambda texts: np.array(texts, np.dtypes.StringDType()),
}


@pytest.mark.parametrize("of_updates", STRINGS.values(), ids=STRINGS)
@pytest.mark.parametrize("of_data", STRINGS.values(), ids=STRINGS)
def test_strings_of_any_width_are_one_type(of_data, of_updates):
    scatter = ndgather.operator("ScatterND", version=18)
    elements = ndgather.operator("ScatterElements", version=18)
    cache = ndgather.operator("TensorScatter")
    for given, updates in ((["aaa", "b"], ["z"]), (["a", "b"], ["zzz"]), (["é", "b"], ["z"])):
        data, wanted = of_data(given), [given[0], updates[0]]
        for _ in range(2):  # the second call is cached
            result = scatter(data, np.array([[1]]), of_updates(updates))
            assert result.tolist() == wanted
            assert result.dtype.kind == data.dtype.kind
        assert elements(data, np.array([1]), of_updates(updates)).tolist() == wanted
        rows, one = data.reshape(1, 2, 1), of_updates(updates).reshape(1, 1, 1)
        assert cache(rows, one, np.array([1])).reshape(-1).tolist() == wanted
        assert data.tolist() == given
        drawn = scatter.show(data, np.array([[1]]), of_updates(updates))
        assert drawn.error is None


def test_bytes_are_not_strings():
    scatter = ndgather.operator("ScatterND", version=18)
    result = scatter(np.array([b"a", b"b"]), np.array([[1]]), np.array([b"zzz"]))
    assert result.tolist() == [b"a", b"zzz"]
    for data, updates in ((["a"], [b"z"]), ([b"a"], ["z"])):
        with pytest.raises(DTypeError, match=r"^ai\.onnx ScatterND-18: updates\.dtype = "):
            scatter(np.array(data), np.array([[0]]), np.array(updates))


MISUSED = {
    "operator": ndgather.operator,
    "operators": lambda: ndgather.operators("GatherND", "ai.onnx", 13),
    "gather_nd": ndgather.gather_nd,
    "gather_ranges": lambda: ndgather.gather_ranges([1], no=2),
    "vjp.gather_nd": lambda: vjp.gather_nd(1, 2, 3, 4, 5),
    "vjp.gather_elements": vjp.gather_elements,
    "vjp.gather_windows": lambda: vjp.gather_windows(1, cotangent=2),
    "vjp.gather_ranges": lambda: vjp.gather_ranges(1, dim=2),
    "vjp.scatter_nd": vjp.scatter_nd,
    "vjp.scatter_elements": vjp.scatter_elements,
    "cached": ndgather.cached,
    "set_num_threads": ndgather.set_num_threads,
    "set_memory_limit": ndgather.set_memory_limit,
    "show_versions": lambda: ndgather.show_versions(1, 2),
}


@pytest.mark.parametrize("name", MISUSED)
def test_mismatched_arguments_raise_our_error(name):
    with pytest.raises(CallError, match=rf"^{name}: .* \(allowed: "):
        MISUSED[name]()


def test_positional_version_error_gives_the_keyword():
    with pytest.raises(CallError, match=r"\(allowed: 1, name; all others by name: .*version="):
        ndgather.operator("GatherND", 13)
