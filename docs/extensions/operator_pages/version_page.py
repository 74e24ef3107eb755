"""The page of an operator version: the facts of its row, and example calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from ndgather.array_call import Kind
from ndgather.published import Operator, operators
from ndgather.published.callables import Difference
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN
from ndgather.published.schema import (
    BatchRule,
    Duplicates,
    Input,
    OffAxisRule,
    OperatorVersion,
    Output,
    Role,
)

from . import rule_texts
from .document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    FieldList,
    Paragraph,
    Section,
    Table,
    Text,
    literal,
)
from .examples import (
    ExampleCall,
    applies,
    calls_of,
    in_a_model,
    run_example,
)

_CLAUSE_ENDS = re.compile(r"; |, (?=[a-z] = )")


def version_document(operator: Operator) -> Document:
    """Return the full page of a version, from which the page of its kind selects sections."""
    row = operator.row
    calls = calls_of(row)
    if row.domain == "com.microsoft":  # start with int32, which ONNX GatherND does not accept
        calls = tuple(sorted(calls, key=lambda call: call.index_dtype))
    first, *examples = _examples(calls, operator)
    more: tuple[Block, ...] = (
        Paragraph(
            "Building this page runs each call."
            if row.definition
            else "Building this page runs each call. The elements of data show their positions: 12 "
            "is in row 1, column 2."
        ),
        *examples,
    )
    in_model = Paragraph("The first call on this page, in a model:")
    sections = [
        *_remarks(row),
        Section("Formula", tuple(_formula(row, first))),
        Section("Rules", (FieldList(tuple(rules(row))),)),
        Section("Inputs and output", _tensors(row)),
        Section("Attributes", (_attributes(row),)),
        *_reductions(row),
        Section("More examples", more),
        Section("In a model", (in_model, Code(in_a_model(first.runs[0])))),
    ]
    lead = (Paragraph(literal(row.summary)), _facts(operator), *_use(operator))
    return Document(str(row), lead, tuple(sections))


def _remarks(row: OperatorVersion) -> Iterator[Section]:
    if row.notes:
        yield Section("Notes", (Bullets(tuple(map(literal, row.notes))),))
    if row.errata:
        texts = ((error.place, error.quote, error.correction) for error in row.errata)
        errata = tuple(tuple(map(literal, cells)) for cells in texts)
        table = Table(("section", "published text", "correction"), errata)
        yield Section("Errors in the published text", (table,))


def _examples(calls: Sequence[ExampleCall], operator: Operator) -> list[Example]:
    return [
        Example(call.title, call.why, (run_example(call, operator),))
        for call in calls
        if applies(call, operator.row)
    ]


def _facts(operator: Operator) -> FieldList:
    row = operator.row
    later = [op.version for op in operators(row.name, row.domain) if op.version > row.since]
    until = f"replaced by version {min(later)}" if later else "the newest"
    aliases = ", ".join(
        f"`{json.dumps(a)}`" for a, domain in ALIASES.items() if domain == row.domain
    )
    counterpart = rule_texts.NONE
    if row.kind is not Kind.GATHER and row.definition is None:
        kind = row.kind.gather if row.kind.scatters else row.kind.scatter
        plain = (op for op in operators() if op.row.definition is None)
        names = {op.domain: op.name for op in plain if op.row.kind is kind}
        domain = row.domain if row.domain in names else DEFAULT_DOMAIN
        counterpart = f"`{domain} {names[domain]}`"
    return FieldList(
        (
            ("domain", f"`{row.domain}`{f' (in models also {aliases})' if aliases else ''}"),
            ("version", f"{row.since}, {until}"),
            *rule_texts.REGISTERED[row.domain],
            ("counterpart", counterpart),
            ("similar", row.definition.alike if row.definition else rule_texts.ALIKE[row.kind]),
            ("source", row.source),
        )
    )


def _use(operator: Operator) -> tuple[Block, ...]:
    arguments = [json.dumps(operator.name)]
    if operator.domain != DEFAULT_DOMAIN:
        arguments.append(f"domain={json.dumps(operator.domain)}")
    arguments.append(f"version={operator.version}")
    same = f"`ndgather.{operator.row.kind.value}` does the same without these restrictions."
    if operator.row.definition is not None:
        same = "it converts its inputs to NumPy arrays and returns a NumPy array."
    return (
        Code(("import ndgather", f"op = ndgather.operator({', '.join(arguments)})")),
        Paragraph(f"`op` accepts exactly the calls that this version allows; {same}"),
    )


def _formula(row: OperatorVersion, example: Example) -> Iterator[Block]:
    yield Code(tuple(_CLAUSE_ENDS.split(row.formula)))
    if row.definition is not None:
        yield example
        return
    yield Paragraph(rule_texts.SYMBOLS[row.kind])
    if row.kind in rule_texts.BY_AXIS:
        yield Paragraph("For example, for data of rank 3:")
        lines = enumerate(rule_texts.BY_AXIS[row.kind])
        yield Code(tuple(f"{line}  # axis {axis}" for axis, line in lines))
    yield example


def rules(row: OperatorVersion) -> Iterator[tuple[str, Text]]:
    """Yield the rules for calls and the shape of the result."""
    if row.definition is not None:
        yield from row.definition.rules
    else:
        yield from _rules_of_the_core(row)
    yield "index values", rule_texts.NEGATIVE[row.index_rule.negative]
    yield "out-of-bounds indices", rule_texts.OUTSIDE[row.index_rule.outside]
    if row.duplicates is not Duplicates.NOT_APPLICABLE:
        yield "duplicate indices", row.duplicates.value


def _rules_of_the_core(row: OperatorVersion) -> Iterator[tuple[str, Text]]:
    batched = row.batch_rule is not BatchRule.NONE
    yield "ranks", _ranks(row)
    if batched:
        yield "batch axes", row.batch_rule.value
    if row.kind.tuples:
        most = "r - b" if batched else "r"
        yield "index tuples", f"have length `k`: `{row.lowest_depth} <= k <= {most}`"
    if row.off_axis_rule is not OffAxisRule.FREE:
        yield "sizes of indices", row.off_axis_rule.value
    if row.kind.scatters:
        updates = "`indices.shape`"
        if not row.kind.elements:
            updates = "`indices.shape[:-1] + data.shape[k:]`"
        if row.one_element_updates:
            updates += f"; {rule_texts.ONE_ELEMENT_UPDATES[True]}"
        yield "shape of updates", updates
    yield "shape of the result", _result(row)


def _ranks(row: OperatorVersion) -> str:
    lowest = {tensor.role: tensor.lowest_rank for tensor in row.inputs}
    data = f"`data` has rank `r >= {lowest[Role.DATA]}`"
    if row.kind.elements:
        return f"{data}, `indices` have the same rank"
    text = f"{data}, `indices` have rank `q >= {lowest[Role.INDICES]}`"
    return text if row.batch_rule is BatchRule.NONE else f"{text}, `b` is `batch_dims`"


def _result(row: OperatorVersion) -> str:
    if row.kind.scatters:
        return "`data.shape`"
    if row.kind is Kind.GATHER_ELEMENTS:
        return "`indices.shape`"
    batched = row.batch_rule is not BatchRule.NONE
    if row.kind is Kind.GATHER:
        taken, less = ("indices.shape[b:]", " - b") if batched else ("indices.shape", "")
        return f"`data.shape[:axis] + {taken} + data.shape[axis+1:]`, of rank `r - 1 + q{less}`"
    after, less = ("b+k", " - b - k") if batched else ("k", " - k")
    text = f"`indices.shape[:-1] + data.shape[{after}:]`, of rank `q - 1 + r{less}`"
    if row.batch_rule is BatchRule.FUSED:
        return f"{text}; if `b > 1`, its first `b` axes are fused"
    return text


def _tensors(row: OperatorVersion) -> tuple[Block, ...]:
    types = {tensor.type_variable: tensor.types for tensor in row.inputs}
    about = [
        tensor.summary or rule_texts.INPUTS[row.kind, tensor.role]
        if not tensor.optional
        else f"{tensor.summary} (optional)"
        for tensor in row.inputs
    ]
    about += [tensor.summary or rule_texts.OUTPUTS[row.kind] for tensor in row.outputs]
    rows = []
    tensors: list[Input | Output] = [*row.inputs, *row.outputs]
    for tensor, text in zip(tensors, about, strict=True):
        variable, *others = types[tensor.type_variable]
        rows.append((f"`{tensor.name}`", f"`{tensor.type_variable if others else variable}`", text))
    several = ((name, ", ".join(some)) for name, some in types.items() if len(some) > 1)
    return Table(("tensor", "type", "description"), tuple(rows)), FieldList(tuple(several))


def _attributes(row: OperatorVersion) -> Block:
    if not row.attributes:
        return Paragraph("This version has no attributes.")
    return Table(
        ("attribute", "type", "default", "allowed", "description"),
        tuple(
            (
                f"`{attribute.name}`",
                attribute.type.value,
                "none (required)" if attribute.required else f"`{attribute.default}`",
                rule_texts.allowed(attribute),
                attribute.summary,
            )
            for attribute in row.attributes
        ),
    )


def _reductions(row: OperatorVersion) -> Iterator[Section]:
    reduction = row.attribute("reduction")
    if reduction is not None:
        items = (
            (choice.word, rule_texts.REDUCTIONS[choice.reduction]) for choice in reduction.choices
        )
        yield Section("Reductions", (FieldList(tuple(items)),))


_LABELS = {
    "index_rule.negative": "index values",
    "index_rule.outside": "out-of-bounds indices",
    "batch_rule": "batch axes",
    "off_axis_rule": "sizes of indices",
    "lowest_depth": "minimum length of an index tuple",
    "duplicates": "duplicate indices",
    "one_element_updates": "shape of updates",
}
_GROUPS = {"inputs": "input", "attributes": "attribute"}
_FIELDS = {"lowest_rank": "minimum rank"}  # the other field names are words
_LISTS = {"types", "choices"}
_FLAGS = {
    "index_rule.negative": rule_texts.NEGATIVE_IN_SHORT,
    "one_element_updates": rule_texts.ONE_ELEMENT_UPDATES,
}
_YES_OR_NO = {True: "yes", False: "no"}


def comparison(here: Operator, there: Operator) -> Section:
    """Return a section with the rules and examples in which two operators of a kind differ."""
    differences = here.diff(there)
    blocks: list[Block] = [Paragraph("The rules are the same; only the wording differs.")]
    if differences:
        rows = tuple((_label(d), _side(d, d.here), _side(d, d.there)) for d in differences)
        blocks = [Table(("rule", str(here.row), str(there.row)), rows)]
    for call in calls_of(here.row):
        runs = run_example(call, here), run_example(call, there)
        if not runs[0].agrees(runs[1]):
            blocks.append(Example(call.title, call.why, runs))
    return Section(f"Differences from {there.row}", tuple(blocks))


def changes(here: Operator, there: Operator) -> tuple[Text, ...]:
    """Describe each change from `there` to `here`."""
    return tuple(map(_change, here.diff(there)))


def _change(difference: Difference) -> Text:
    label = _label(difference)
    if _is_list(difference):
        gained = f"also {rule_texts.described(difference.here)}" if difference.here else ""
        lost = f"no longer {rule_texts.described(difference.there)}" if difference.there else ""
        return f"{label}: {'; '.join(filter(None, (gained, lost)))}"
    here, there = (_side(difference, value) for value in (difference.here, difference.there))
    if there == rule_texts.NONE:
        return f"{label}: {here}"
    if here == rule_texts.NONE:
        return f"{label}: removed"
    return f"{label}: {here} (before: {there})"


def _label(difference: Difference) -> Text:
    group, _, rest = difference.what.partition(".")
    if group not in _GROUPS:
        return _LABELS[difference.what]
    name, _, field = rest.partition(".")
    return f"{_FIELDS.get(field, field)} of `{name}`" if field else f"{_GROUPS[group]} `{name}`"


def _is_list(difference: Difference) -> bool:
    return difference.what.rpartition(".")[2] in _LISTS


def _side(difference: Difference, value: object) -> Text:
    """Describe the value on one side; for lists, only the entries that the other side lacks."""
    if isinstance(value, bool):
        return _FLAGS.get(difference.what, _YES_OR_NO)[value]
    if _is_list(difference):
        return f"also {rule_texts.described(value)}" if value else "none of these"
    return rule_texts.described(value)
