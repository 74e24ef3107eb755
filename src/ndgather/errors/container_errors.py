"""Errors of tables and columns: what has no place in them."""

from __future__ import annotations

from ndgather.errors import AttributeValueError, DTypeError, ShapeError


def no_array(caller: str, argument: str, value: object, allowed: str) -> DTypeError:
    package = type(value).__module__.partition(".")[0]
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is of {package}, but no array "
        f"(allowed: {allowed})"
    )


def result_rank(caller: str, rank: int, data: object, instead: str) -> ShapeError:
    return ShapeError(
        f"{caller}: the result would have rank {rank}, which a {type(data).__name__} cannot hold "
        f"(allowed: indices that name whole rows, or single elements; write {instead} for an array)"
    )


def rows_alone(caller: str, data: object) -> ShapeError:
    return ShapeError(
        f"{caller}: data = {type(data).__name__} object gives whole rows alone (allowed: one index "
        f"for each row, along axis 0; write data.column(...) for one column)"
    )


def columns_twice(caller: str, data: object, rank: int) -> ShapeError:
    return ShapeError(
        f"{caller}: indices name columns of a {type(data).__name__} twice, or have rank {rank} "
        f"(allowed: each column once, in one axis; write data.to_numpy() for an array)"
    )


def mixed_cells(caller: str, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: data = {type(data).__name__} object has columns of several types, so its cells "
        f"have none (allowed: one type; write data.to_numpy() for an array)"
    )


def filled_columns(caller: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: mode = 'fill' along columns leaves columns without a type (allowed: positions "
        f"in bounds, or data.to_numpy())"
    )


def not_in_place(caller: str, data: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: out is given, but a {type(data).__name__} is not written in place "
        f"(allowed: None; a new one is returned)"
    )


def no_scatter(caller: str, data: object, dtypes: object, instead: str) -> DTypeError:
    return DTypeError(
        f"{caller}: data = {type(data).__name__} object of {dtypes} cannot be updated (allowed: "
        f"one type of numbers or booleans for all elements; write {instead})"
    )


def nulls(caller: str, argument: str, instead: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} has nulls, which are no positions (allowed: none; write {instead})"
    )
