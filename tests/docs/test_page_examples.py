"""Examples on the pages: results are compared with plain loops, and errors with a list."""

import re

import numpy as np
import pytest
from operator_pages.document import Example, as_markdown
from operator_pages.examples import CALLS
from operator_pages.version_page import version_document

from ndgather.published import operators
from ndgather.published.schema import OPERATOR_KINDS, BatchRule, Outside
from tests.definitions import reference

OF_THE_CORE = [op for op in operators() if op.row.definition is None]
EVERY = pytest.mark.parametrize("op", OF_THE_CORE, ids=lambda op: str(op.row))
DEFINED = [op for op in operators() if op.row.definition is not None]
NATIVE_WORDS = {"sum": "add", "prod": "mul"}

# The rows that refuse an example, as patterns of `domain name-version`. Others run it.
REFUSED = {
    "A negative index": (
        "IndexOutOfBoundsError",
        r"ai.onnx Gather-1|openvino (GatherND-5|Gather-[17]|Scatter\w+-3)",
    ),
    "An axis that data does not have": ("AttributeValueError", r".*"),
    "An out-of-bounds index": ("IndexOutOfBoundsError", r"(?!openvino Gather-8).*"),
    "An out-of-bounds index and an empty result": ("IndexOutOfBoundsError", r".*"),
    "Batch axes of different sizes": ("ShapeError", r".*"),
    "Fewer rows than data": ("ShapeError", r"openvino GatherElements-6"),
    "Indices of type int32": ("DTypeError", r"ai.onnx .*"),
    "Indices of type int8": ("DTypeError", r"ai.onnx .*|openvino GatherElements-6"),
    "More rows than data": ("ShapeError", r".*"),
    "Empty tuples": ("ShapeError", r"ai.onnx .*"),
    "Updates with the wrong shape": ("ShapeError", r".*"),
}


def examples(op):
    """Return the examples of a version as (title, run)."""
    return [
        (block.title, run)
        for section in version_document(op).sections
        for block in section.blocks
        if isinstance(block, Example)
        for run in block.runs
    ]


def by_the_loops(op, run):
    options = dict(run.options)
    if "reduction" in options:
        options["reduction"] = NATIVE_WORDS.get(options["reduction"], options["reduction"])
    if op.row.index_rule.outside is Outside.ZEROS:
        options["mode"] = "fill"
    tensors = (tensor for _, tensor in run.tensors)
    result = getattr(reference, op.row.kind.value)(*tensors, **options)
    if op.row.batch_rule is BatchRule.FUSED and options.get("batch_dims", 0) > 1:
        result = result.reshape(-1, *result.shape[options["batch_dims"] :])
    return result


@EVERY
def test_results_equal_the_plain_loops(op):
    found = [run for _, run in examples(op) if run.result is not None]

    assert len(found) >= 3
    for run in found:
        np.testing.assert_array_equal(run.result, by_the_loops(op, run), strict=True)


@EVERY
def test_errors_match_the_version(op):
    for title, run in examples(op):
        error, rows = REFUSED.get(title, ("", r"(?!)"))
        if re.fullmatch(rows, str(op.row)):
            assert (run.result, run.error[0]) == (None, error), title
            assert run.error[1].startswith(f"{op.row}: ")
        else:
            assert (run.result is None, run.error) == (False, None), title


@EVERY
def test_pages_have_an_error_and_unique_examples(op):
    found = examples(op)

    assert any(run.error is not None for _, run in found)
    assert len({title for title, _ in found}) == len(found)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_every_example_is_on_a_page(kind):
    shown = {title for op in OF_THE_CORE if op.row.kind is kind for title, _ in examples(op)}

    assert shown == {call.title for call in CALLS[kind]}


@pytest.mark.parametrize("op", DEFINED, ids=lambda op: str(op.row))
def test_operators_with_a_definition_show_results_and_an_error(op):
    *results, last = [run for _, run in examples(op)]

    assert len(results) >= 3
    assert all(run.error is None for run in results)
    assert last.error[1].startswith(f"{op.row}: ")


def test_shown_call_is_the_executed_call():
    (op,) = (op for op in operators("ScatterElementsUpdate") if op.version == 12)

    calls = {title: run.call for title, run in examples(op)}

    assert calls["Updates without the original element"] == (
        "op(data, indices, updates, axis=1, reduction='sum', use_init_val=False)"
    )
    assert calls["Along axis 0"] == "op(data, indices, updates, axis=0)"


def test_first_call_shows_the_characteristic_indices():
    (op,) = operators("GatherND", domain="com.microsoft")

    (_, run), *_ = examples(op)

    assert "int32" in op.row.summary
    assert dict(run.tensors)["indices"].dtype == "int32"


@EVERY
def test_results_are_formatted_as_in_python(op):
    page = as_markdown(version_document(op))

    wanted = [run.result for _, run in examples(op) if run.result is not None]
    printed = re.findall(r"^>>> op\(.*\)\n(array\((?:.*\n)+?)(?=\n|```)", page, re.MULTILINE)
    names = {"array": np.array} | {name: np.dtype(name) for name in ("int32", "float32", "int64")}
    found = [eval(text, names) for text in printed]
    assert len(found) == len(wanted)
    for result, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)
