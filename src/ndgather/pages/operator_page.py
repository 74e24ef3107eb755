"""The page of one operator version, built from its row and from calls that are run."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING

from ndgather.pages import document
from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Section,
    Table,
    Text,
    code,
    link,
    plain,
    prose,
)
from ndgather.pages.examples import CALLS, TEXT_EXAMPLES, TEXT_LAYERS, applies, in_a_model, run
from ndgather.published import Operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN
from ndgather.published.schema import (
    BatchRule,
    Duplicates,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.pages.examples import Run
    from ndgather.published.callables import Difference
    from ndgather.published.schema import Attribute, Input


_BY_TUPLE = {Kind.GATHER_ND, Kind.SCATTER_ND}
_BY_ELEMENT = {Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS}


def rules(row: OperatorVersion) -> tuple[tuple[str, Text], ...]:
    """Return the rules that a call has to follow, and the shape of its result."""
    return tuple((label, prose(text)) for label, text in _rule_rows(row))


def _rule_rows(row: OperatorVersion) -> Iterator[tuple[str, str]]:
    batched = row.batch_rule is not BatchRule.NONE
    yield "ranks", _ranks(row)
    if batched:
        yield "batch axes", document.BATCH[row.batch_rule]
    if row.kind in _BY_TUPLE:
        most = "r - b" if batched else "r"
        yield "tuples", f"`k` indices each: `{row.lowest_depth} <= k <= {most}`"
    if row.off_axis_rule is not OffAxisRule.FREE:
        yield "sizes of indices", document.OFF_AXIS[row.off_axis_rule]
    if row.kind.scatters:
        yield "shape of updates", _updates(row)
    yield "shape of the result", _result(row)
    yield "index values", document.NEGATIVE[row.index_rule.negative]
    yield "indices out of bounds", document.OUTSIDE[row.index_rule.outside]
    if row.duplicates is not Duplicates.NOT_APPLICABLE:
        yield "duplicate indices", document.DUPLICATES[row.duplicates]


def _ranks(row: OperatorVersion) -> str:
    lowest = {each.role: each.lowest_rank for each in row.inputs}
    data = f"`data` has rank `r >= {lowest[Role.DATA]}`"
    if row.kind in _BY_ELEMENT:
        return f"{data}, `indices` have the same rank"
    text = f"{data}, `indices` have rank `q >= {lowest[Role.INDICES]}`"
    return text if row.batch_rule is BatchRule.NONE else f"{text}, `b` is `batch_dims`"


def _updates(row: OperatorVersion) -> str:
    if row.kind in _BY_ELEMENT:
        return "`indices.shape`"
    text = "`indices.shape[:-1] + data.shape[k:]`"
    return f"{text}; {document.ONE_ELEMENT_UPDATES[True]}" if row.one_element_updates else text


def _result(row: OperatorVersion) -> str:
    if row.kind.scatters:
        return "`data.shape`"
    if row.kind is Kind.GATHER_ELEMENTS:
        return "`indices.shape`"
    batched = row.batch_rule is not BatchRule.NONE
    if row.kind is Kind.GATHER:
        taken, less = ("indices.shape[b:]", " - b") if batched else ("indices.shape", "")
        shape = f"data.shape[:axis] + {taken} + data.shape[axis+1:]"
        return f"`{shape}`, of rank `r - 1 + q{less}`"
    after, less = ("b+k", " - b - k") if batched else ("k", " - k")
    shape = f"indices.shape[:-1] + data.shape[{after}:]"
    text = f"`{shape}`, of rank `q - 1 + r{less}`"
    if row.batch_rule is BatchRule.FUSED:
        return f"{text}; where `b > 1`, its first `b` axes become one"
    return text


_LABELS = {
    "index_rule.negative": "index values",
    "index_rule.outside": "indices out of bounds",
    "batch_rule": "batch axes",
    "off_axis_rule": "sizes of indices",
    "lowest_depth": "minimum length of a tuple",
    "duplicates": "duplicate indices",
    "one_element_updates": "shape of updates",
}
_GROUPS = {"inputs": "input", "attributes": "attribute"}
_FIELDS = {
    "types": "types",
    "lowest_rank": "minimum rank",
    "name": "name",
    "choices": "choices",
    "default": "default",
    "required": "required",
    "range": "range",
    "type": "type",
}
_LISTS = {"types", "choices"}
_OF_FLAG = {
    "index_rule.negative": document.NEGATIVE_IN_SHORT,
    "one_element_updates": document.ONE_ELEMENT_UPDATES,
}
_YES_OR_NO = {True: "yes", False: "no"}


def comparison(here: Operator, there: Operator) -> Section:
    """Return the differences of two operators of one kind as a section."""
    return Section(
        title=f"Differences from {there.row}",
        blocks=(_rules(here, there), *_telling_examples(here, there)),
    )


def changes(here: Operator, there: Operator) -> tuple[Text, ...]:
    """Say what `here` has changed since `there`, a text for each change."""
    return tuple(prose(_change(each)) for each in here.diff(there))


def _rules(here: Operator, there: Operator) -> Block:
    found = here.diff(there)
    if not found:
        return Paragraph(plain("The rules are the same; only the wording differs."))
    return Table(
        titles=("rule", str(here.row), str(there.row)),
        rows=tuple(
            (prose(_label(each)), prose(_side(each, each.here)), prose(_side(each, each.there)))
            for each in found
        ),
    )


def _telling_examples(here: Operator, there: Operator) -> Iterator[Block]:
    for call in CALLS[here.row.kind]:
        mine, other = run(call, here), run(call, there)
        if not mine.agrees(other):
            yield Example(title=f"{call.title}, in both", why=call.why, runs=(mine, other))


def _label(difference: Difference) -> str:
    group, _, rest = difference.what.partition(".")
    if group not in _GROUPS:
        return _LABELS[difference.what]
    name, _, field = rest.partition(".")
    return f"{_FIELDS[field]} of `{name}`" if field else f"{_GROUPS[group]} `{name}`"


def _is_list(difference: Difference) -> bool:
    return difference.what.rpartition(".")[2] in _LISTS


def _side(difference: Difference, value: object) -> str:
    """Say one side; for lists, each side says what the other does not have."""
    if isinstance(value, bool):
        return _OF_FLAG.get(difference.what, _YES_OR_NO)[value]
    if _is_list(difference):
        return f"also {document.said(value)}" if value else "none of these"
    return document.said(value)


def _change(difference: Difference) -> str:
    label = _label(difference)
    if _is_list(difference):
        gained = f"also {document.said(difference.here)}" if difference.here else ""
        lost = f"no longer {document.said(difference.there)}" if difference.there else ""
        return f"{label}: {'; '.join(filter(None, (gained, lost)))}"
    here, there = (_side(difference, value) for value in (difference.here, difference.there))
    if there == document.NONE:
        return f"{label}: {here}"
    if here == document.NONE:
        return f"{label}: removed"
    return f"{label}: {here} (before: {there})"


_CLAUSE_ENDS = re.compile(r"; |, (?=[a-z] = )")


def operator_document(operator: Operator, other: Operator | None = None) -> Document:
    """Return the page of `operator`; with `other`, it ends with the differences from that."""
    row = operator.row
    first, *examples = (
        Example(title=call.title, why=call.why, runs=(run(call, operator),))
        for call in CALLS[row.kind]
        if applies(call, row)
    )
    sections = (
        _formula(operator, first),
        Section(title="Rules", blocks=(Facts(rules(row)),)),
        _inputs(row),
        _attributes(row),
        *_reductions(row),
        _examples(examples),
        *_of_the_text(operator),
        _in_a_model(first.runs[0]),
        *_notes(row),
        *_errata(row),
        *_versions(operator),
        *_elsewhere(operator),
        *([comparison(operator, other)] if other is not None else []),
    )
    lead = (Paragraph(plain(row.summary)), _facts(operator), *_use(operator))
    return Document(title=str(row), lead=lead, sections=sections)


def _facts(operator: Operator) -> Facts:
    row = operator.row
    family = operators(row.name, row.domain)
    later = [each.version for each in family if each.version > row.since]
    until = f"until {min(later)} replaces it" if later else "the newest"
    aliases = [
        f"`{json.dumps(alias)}`" for alias, domain in ALIASES.items() if domain == row.domain
    ]
    also = f" (in models also {', '.join(aliases)})" if aliases else ""
    return Facts(
        (
            ("domain", prose(f"`{row.domain}`{also}")),
            ("version", plain(f"{row.since}, {until}")),
            *((label, plain(said)) for label, said in document.REGISTERED[row.domain]),
            ("reverse", prose(_reverse(row))),
            ("alike", prose(document.ALIKE[row.kind])),
            ("source", link(row.source)),
        )
    )


def _reverse(row: OperatorVersion) -> str:
    """Return which operator reads where this one writes, or writes where it reads."""
    kind = document.REVERSE.get(row.kind)
    if kind is None:
        return document.NONE
    found = {each.domain: each.name for each in operators() if each.row.kind is kind}
    domain = row.domain if row.domain in found else DEFAULT_DOMAIN
    return f"`{domain} {found[domain]}` {document.REVERSED[row.kind.scatters]}"


def _formula(operator: Operator, first: Example) -> Section:
    row = operator.row
    return Section(
        title="Formula",
        blocks=(
            Code(tuple(_CLAUSE_ENDS.split(row.formula))),
            Paragraph(prose(document.SYMBOLS[row.kind])),
            *_by_axis(row),
            first,
        ),
    )


def _by_axis(row: OperatorVersion) -> Iterator[Block]:
    lines = document.BY_AXIS.get(row.kind)
    if lines is not None:
        yield Paragraph(plain("Written out for data of rank 3:"))
        yield Code(tuple(f"{line}  # axis {axis}" for axis, line in enumerate(lines)))


def _inputs(row: OperatorVersion) -> Section:
    tensors = tuple(
        (code(each.name), _type(each.type_variable, each.types), plain(_about(row, each)))
        for each in row.inputs
    )
    variables = {each.type_variable: each.types for each in row.inputs}
    outputs = tuple(
        (
            code(each.name),
            _type(each.type_variable, variables[each.type_variable]),
            plain(each.summary or document.OUTPUTS[row.kind]),
        )
        for each in row.outputs
    )
    return Section(
        title="Inputs and output",
        blocks=(
            Table(titles=("tensor", "type", "what it is"), rows=(*tensors, *outputs)),
            Facts(
                tuple(
                    (variable, plain(", ".join(types)))
                    for variable, types in variables.items()
                    if len(types) > 1
                )
            ),
        ),
    )


def _type(variable: str, types: tuple[str, ...]) -> Text:
    return code(variable if len(types) > 1 else types[0])


def _about(row: OperatorVersion, given: Input) -> str:
    return given.summary or document.INPUTS[row.kind, given.role]


def _attributes(row: OperatorVersion) -> Section:
    blocks: tuple[Block, ...] = (Paragraph(plain("This version has no attributes.")),)
    if row.attributes:
        blocks = (
            Table(
                titles=("attribute", "type", "default", "allowed", "what it is"),
                rows=tuple(map(_attribute, row.attributes)),
            ),
        )
    return Section(title="Attributes", blocks=blocks)


def _attribute(attribute: Attribute) -> tuple[Text, ...]:
    default = plain("none (required)") if attribute.required else code(str(attribute.default))
    return (
        code(attribute.name),
        plain(attribute.type.value),
        default,
        prose(document.allowed(attribute)),
        plain(attribute.summary),
    )


def _reductions(row: OperatorVersion) -> Iterator[Section]:
    reduction = row.attribute("reduction")
    if reduction is not None:
        items = tuple(
            (each.word, plain(document.REDUCTIONS[each.reduction])) for each in reduction.choices
        )
        yield Section(title="Reductions", blocks=(Facts(items),))


def _use(operator: Operator) -> tuple[Block, ...]:
    arguments = [json.dumps(operator.name)]
    if operator.domain != DEFAULT_DOMAIN:
        arguments.append(f"domain={json.dumps(operator.domain)}")
    arguments.append(f"version={operator.version}")
    return (
        Code(
            (
                "import ndgather",
                f"op = ndgather.operator({', '.join(arguments)})",
            )
        ),
        Paragraph(
            prose(
                "`op` takes what this version allows and refuses everything else; "
                f"`ndgather.{operator.row.kind.value}` does the same without the limits of one "
                "version."
            )
        ),
    )


def _examples(examples: Sequence[Example]) -> Section:
    return Section(
        title="More examples",
        blocks=(
            Paragraph(
                plain(
                    "Each call was run when this page was made. The value of an element of data "
                    "shows its position: 12 is in row 1, column 2."
                )
            ),
            *examples,
        ),
    )


def _of_the_text(operator: Operator) -> Iterator[Section]:
    """Yield the examples of the published text, and the shapes of the layers in it."""
    row = operator.row
    examples = tuple(
        Example(title=call.title, why=call.why, runs=(run(call, operator),))
        for call in TEXT_EXAMPLES.get(str(row), ())
        if applies(call, row)
    )
    layers = (
        (data, indices, batch_dims, operator.infer_shape(data, indices, batch_dims=batch_dims))
        for data, indices, batch_dims in TEXT_LAYERS.get(str(row), ())
    )
    shapes = tuple(tuple(code(str(each)) for each in layer) for layer in layers)
    titles = ("shape of data", "shape of indices", "batch_dims", "shape of the result")
    tables = (Table(titles=titles, rows=shapes),) if shapes else ()
    if examples:
        yield Section(title="Examples of the published text", blocks=(*examples, *tables))


def _in_a_model(made: Run) -> Section:
    return Section(
        title="In a model",
        blocks=(
            Paragraph(plain("The first call of this page, as a model has it:")),
            Code(in_a_model(made)),
        ),
    )


def _notes(row: OperatorVersion) -> Iterator[Section]:
    if row.notes:
        yield Section(
            title="Notes",
            blocks=(Bullets(tuple(plain(note) for note in row.notes)),),
        )


def _errata(row: OperatorVersion) -> Iterator[Section]:
    if row.errata:
        yield Section(
            title="Errors in the published text",
            blocks=(
                Table(
                    titles=("where", "the text says", "correct"),
                    rows=tuple(
                        (plain(each.place), plain(each.quote), plain(each.truth))
                        for each in row.errata
                    ),
                ),
            ),
        )


def _versions(operator: Operator) -> Iterator[Section]:
    """Yield what each version changed, newest first, if there is more than one."""
    family = sorted(
        operators(operator.name, operator.domain), key=lambda each: each.version, reverse=True
    )
    if len(family) < 2:
        return
    rows = [
        (plain("" if position else str(newer.version)), change)
        for newer, older in itertools.pairwise(family)
        for position, change in enumerate(changes(newer, older) or (plain("wording only"),))
    ]
    rows.append((plain(str(family[-1].version)), plain("the first version here")))
    yield Section(title="Versions", blocks=(Table(titles=("version", "change"), rows=tuple(rows)),))


def _elsewhere(operator: Operator) -> Iterator[Section]:
    """Yield commands that compare with the operators of other domains that do the same."""
    others = [
        each
        for each in operators()
        if each.row.kind is operator.row.kind and each.domain != operator.domain
    ]
    if not others:
        return
    command = ["ndgather doc", operator.name]
    homes = {each.domain for each in operators(operator.name)}
    if DEFAULT_DOMAIN in homes and operator.domain != DEFAULT_DOMAIN:
        command += ["--domain", operator.domain]
    if operator.version != max(each.version for each in operators(operator.name, operator.domain)):
        command += ["--version", str(operator.version)]
    here = " ".join(command)
    yield Section(
        title="In other specifications",
        blocks=(
            Paragraph(plain("These commands show the differences:")),
            Code(tuple(f"{here} --diff {each.domain}:{each.version}" for each in others)),
        ),
    )
