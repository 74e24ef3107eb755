"""The cases are correct, and the package is right on all of them."""

import re
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest

from conformance import Refusal, Undefined, Value, Verdict, load
from conformance.libraries import arrays_of, library
from conformance.libraries.calls import FUNCTIONS, call_of
from conformance.runner import run_here
from conformance.verdicts import result
from ndgather.array_call import Kind
from ndgather.published.rows import ROWS
from ndgather.published.schema import OPERATOR_KINDS
from tests.definitions import reference
from tests.definitions.calls import PublicCall, bad_entries, expected
from tests.operators.loops import LOOPS

pytest.importorskip("ml_dtypes")  # for cases with narrow dtypes

CASES = load()
MOST_FOR_LOOPS = 50_000


def is_native(case):
    return case.operator.version is None


def row_of(case):
    """Return the row of the operator of a case."""
    wanted = (case.operator.name, case.operator.domain, case.operator.version)
    return next(row for row in ROWS if (row.name, row.domain, row.since) == wanted)


def test_there_are_at_least_120_cases_and_their_names_are_unique():
    counts = Counter(case.name for case in CASES)
    assert len(CASES) >= 120
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_expectation_and_error_kind_has_cases():
    kinds = Counter(type(case.expected) for case in CASES)
    refusals = Counter(case.expected.kind for case in CASES if isinstance(case.expected, Refusal))
    assert set(kinds) == {Value, Refusal, Undefined}
    assert set(refusals) == {"index", "shape", "type", "attribute"}
    assert min(kinds[Value], kinds[Refusal]) >= 100


def test_every_kind_of_operator_has_cases():
    kinds = {Kind(case.operator.name) if is_native(case) else row_of(case).kind for case in CASES}
    assert kinds == set(OPERATOR_KINDS)


def test_every_rule_has_a_text_and_a_source():
    address = re.compile(r"https://\S+|help\(ndgather\.\w+\)")
    bad = [
        str(case)
        for case in CASES
        if len(case.rule.text.split()) < 3 or not address.fullmatch(case.rule.source)
    ]
    assert bad == []


def test_every_report_is_a_public_url():
    bad = [str(case) for case in CASES if case.report and not case.report.startswith("https://")]
    assert bad == []


def test_quotations_are_in_the_specification():
    onnx = pytest.importorskip("onnx")
    quoted = {(case.rule.source, case.rule.text): case for case in CASES if case.rule.quoted}
    assert len(quoted) >= 20
    missing = []
    for (source, text), case in quoted.items():
        name, _, version = source.partition("#")[2].partition("-")
        schema = onnx.defs.get_schema(name, int(version), "")
        parts = [schema.doc, *(each.description for each in (*schema.inputs, *schema.outputs))]
        parts += [attribute.description for attribute in schema.attributes.values()]
        written = " ".join(" ".join(parts).split())
        if " ".join(text.split()) not in written:
            missing.append((case.name, text))
    assert missing == []


def indices_of(case):
    return [tensor for name, tensor in case.inputs.items() if name == "indices"]


def loops_of(case):
    """Return the result of the plain loops for a case, and its out-of-bounds entries, if any."""
    row = None if is_native(case) else row_of(case)
    if row is not None and row.definition is not None:
        return LOOPS[row.name](**arrays_of(case), **case.attributes)
    asked = call_of(case)
    mode = asked.mode if row is None or row.index_rule.raises else "fill"
    if asked.scatters:
        function = getattr(reference, asked.function)
        updates, options = asked.updates, {"reduction": asked.reduction}
        if asked.function == "scatter_nd":
            depth = asked.indices.shape[-1]
            updates = updates.reshape(asked.indices.shape[:-1] + asked.data.shape[depth:])
        else:
            options["axis"] = asked.axis
        if "use_init_val" in case.attributes:
            options["use_init_val"] = case.attributes["use_init_val"]
        return function(asked.data, asked.indices, updates, **options)
    options = {"mode": mode}
    if asked.function != "gather_nd":
        options["axis"] = asked.axis
    if asked.function != "gather_elements":
        options["batch_dims"] = asked.batch_dims
    if "fill_value" in case.attributes:
        options["fill_value"] = asked.data.dtype.type(case.attributes["fill_value"])
    call = PublicCall(
        function=asked.function, data=asked.data, indices=asked.indices, options=options
    )
    if isinstance(case.expected, Refusal):
        assert bad_entries(call), "every index names a place"
    answer = expected(call)
    if row is not None and row.batch_rule.name == "FUSED" and asked.batch_dims > 1:
        answer = answer.reshape(-1, *answer.shape[asked.batch_dims :])
    return answer


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if isinstance(case.expected, Value)
        and all(np.size(each.array()) <= MOST_FOR_LOOPS for each in indices_of(case))
    ],
    ids=str,
)
def test_expected_values_match_plain_loops(case):
    wanted = [result(choice.array()) for choice in case.expected.choices]
    assert result(loops_of(case)) in wanted


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.expected == Refusal(kind="index")],
    ids=str,
)
def test_expected_index_errors_match_plain_loops(case):
    if not is_native(case) and row_of(case).definition is not None:
        with pytest.raises(IndexError):
            loops_of(case)
        return
    asked = call_of(case)
    if not is_native(case) and not row_of(case).index_rule.negative and (asked.indices < 0).any():
        return  # the loops accept negative indices
    if asked.scatters:
        with pytest.raises(IndexError):
            loops_of(case)
    elif asked.indices.size <= MOST_FOR_LOOPS:
        with suppress(IndexError):
            loops_of(case)  # asserts that an index is out of bounds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ndgather_is_right(case):
    (answer,) = run_here(library("ndgather"), [case]).answers
    assert (answer.verdict, answer.reason) == (Verdict.RIGHT, "")


def test_functions_match_the_kinds_of_the_rows():
    wanted = {row.name: row.kind.value for row in ROWS if row.definition is None}
    assert wanted == FUNCTIONS
