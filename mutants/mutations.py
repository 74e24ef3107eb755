"""The mutants of a Python source: each differs from it in one comparison, number or statement."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_REMOVABLE = (ast.AugAssign, ast.Break, ast.Continue, ast.Raise)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A source with one change: where and what it is, by node and by change of that node."""

    source: str
    line: int
    change: str
    node: int
    number: int

    def mutated(self) -> str:
        """Return the source with the change."""
        tree = ast.parse(self.source)
        node = list(_changeable(tree))[self.node]
        _, apply = list(_changes(node))[self.number]
        parents = {child: each for each in ast.walk(tree) for child in ast.iter_child_nodes(each)}
        parent = parents[node]
        _put(parent, node, apply(node))
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants(source: str) -> Iterator[Mutant]:
    """Yield the mutants of a source, in the order of its nodes."""
    for place, node in enumerate(_changeable(ast.parse(source))):
        for number, (change, _) in enumerate(_changes(node)):
            yield Mutant(source, node.lineno, change, place, number)


def _changeable(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the expressions and statements that run; annotations and docstrings do not."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list"}:
            continue
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, ast.AST) or _is_for_types(each):
                continue
            if isinstance(each, ast.expr | ast.stmt):
                yield each
            yield from _changeable(each)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """Yield what can be done to a node: its words, and what makes the new node."""
    text = " ".join(ast.unparse(node).split())[:60] if isinstance(node, ast.expr | ast.stmt) else ""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for new in _COMPARISONS[type(operator)]:
                yield f"{text}: {type(operator).__name__} -> {new.__name__}", _compared(at, new)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield f"{text} -> {not node.value}", _valued(not node.value)
        elif isinstance(node.value, int):
            yield f"{text} -> {node.value + 1}", _valued(node.value + 1)
            yield f"{text} -> {node.value - 1}", _valued(node.value - 1)
    elif isinstance(node, ast.BoolOp):
        yield f"{text}: and <-> or", _joined
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{text}: without not", _affirmed
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        new_operator = _OPERATIONS[type(node.op)]
        yield f"{text}: {type(node.op).__name__} -> {new_operator.__name__}", _operated
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        if not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            yield f"{text}: first two arguments swapped", _swapped
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield f"{ast.unparse(node.test)[:60]}: negated", _negated
    elif isinstance(node, _REMOVABLE) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield f"{text}: removed", lambda _: ast.Pass()


def _compared(at: int, new: type[ast.cmpop]) -> Callable[[ast.AST], ast.AST]:
    def apply(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)
        node.ops[at] = new()
        return node

    return apply


def _valued(value: int) -> Callable[[ast.AST], ast.AST]:
    return lambda _: ast.Constant(value)


def _joined(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _affirmed(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.UnaryOp)
    return node.operand


def _operated(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BinOp)
    node.op = _OPERATIONS[type(node.op)]()
    return node


def _swapped(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.args[:2] = node.args[1::-1]
    return node


def _negated(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _put(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Let `parent` have `new` where it has `old`."""
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list):
            value[:] = [new if each is old else each for each in value]
