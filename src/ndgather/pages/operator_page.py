"""The page of one operator version, built from its row and from calls that are run."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING

from ndgather.pages import words
from ndgather.pages.comparison import changes, comparison
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
from ndgather.pages.examples import CALLS
from ndgather.pages.model_node import in_a_model
from ndgather.pages.rules import rules
from ndgather.pages.runs import applies, run
from ndgather.pages.text_examples import TEXT_EXAMPLES, TEXT_LAYERS
from ndgather.published import Operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.pages.runs import Run
    from ndgather.published.schema import Attribute, Input, OperatorVersion

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
            *((label, plain(said)) for label, said in words.REGISTERED[row.domain]),
            ("reverse", prose(_reverse(row))),
            ("alike", prose(words.ALIKE[row.kind])),
            ("source", link(row.source)),
        )
    )


def _reverse(row: OperatorVersion) -> str:
    """Return which operator reads where this one writes, or writes where it reads."""
    kind = words.REVERSE.get(row.kind)
    if kind is None:
        return words.NONE
    found = {each.domain: each.name for each in operators() if each.row.kind is kind}
    domain = row.domain if row.domain in found else DEFAULT_DOMAIN
    return f"`{domain} {found[domain]}` {words.REVERSED[row.kind.scatters]}"


def _formula(operator: Operator, first: Example) -> Section:
    row = operator.row
    return Section(
        title="Formula",
        blocks=(
            Code(tuple(_CLAUSE_ENDS.split(row.formula))),
            Paragraph(prose(words.SYMBOLS[row.kind])),
            *_by_axis(row),
            first,
        ),
    )


def _by_axis(row: OperatorVersion) -> Iterator[Block]:
    lines = words.BY_AXIS.get(row.kind)
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
            plain(each.summary or words.OUTPUTS[row.kind]),
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
    return given.summary or words.INPUTS[row.kind, given.role]


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
        prose(words.allowed(attribute)),
        plain(attribute.summary),
    )


def _reductions(row: OperatorVersion) -> Iterator[Section]:
    reduction = row.attribute("reduction")
    if reduction is not None:
        items = tuple(
            (each.word, plain(words.REDUCTIONS[each.reduction])) for each in reduction.choices
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
