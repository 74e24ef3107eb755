"""Calls in which every pair of options occurs together: covering arrays, with a call for each row.

Random draws rarely combine three particular options. `cover` enumerates pairs, and triples of the
options named `together`; `covering_calls` makes a call for each row. Numbers and sizes that no
option determines are drawn anew for each seed. A new option is one entry of `options_of` and
reaches every adapter.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.definitions.calls import LAYOUTS, PublicCall
from tests.definitions.draws import (
    MODES,
    REDUCTIONS,
    SCATTERS,
    arranged,
    distinct,
    floats,
    kind_of,
    random_generator,
    stray_values,
)
from tests.definitions.environments import draw_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Row = dict[str, Any]

FUNCTIONS = tuple(MODES)

#: Sizes of axes; unnamed axes have two to four elements.
SIZES = ("several", "one indexed", "one other", "one point", "no point", "no other")
#: How the targets of a call repeat.
PLACES = ("any", "few", "one place", "rising")
CHUNKINGS = ("whole", "first axis", "last axis", "all axes")
DTYPES = ("f4", "f8", "i4", "u1", "i8", "F", "?", ">f8")
INDEX_DTYPES = ("i8", "i4", "i1", "u2", ">i4")
_LAYOUTS = (*(name for name in LAYOUTS if not name.startswith("stride 0")), "mixed")


def cover(
    random: Random, options: Mapping[str, Sequence[Any]], together: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield rows, each with a value of every option, until each pair of values has met.

    So have all triples of values of the options named `together`.

    Examples
    --------
    >>> from random import Random
    >>> from tests.definitions.covering import cover
    >>> rows = list(cover(Random(0), {"a": (1, 2), "b": "xy", "c": (True, False)}))
    >>> sorted({(row["a"], row["b"]) for row in rows})
    [(1, 'x'), (1, 'y'), (2, 'x'), (2, 'y')]
    """
    names, rng = [*options], random_generator(random)
    counts = np.array([len(options[name]) for name in names])
    groups = [*combinations(range(len(names)), 2)]
    groups += combinations(sorted(names.index(name) for name in together if name in options), 3)
    sizes = [prod(counts[[*group]].tolist()) for group in groups]
    starts = np.cumsum([0, *sizes])[:-1]
    # The number of a group's values in a row is starts[group] + the row @ weights[:, group].
    weights = np.zeros((len(names), len(groups)), np.int64)
    for number, group in enumerate(groups):
        for position, option in enumerate(group):
            weights[option, number] = prod(counts[[*group[position + 1 :]]].tolist())
    missing = np.ones(sum(sizes), bool)
    while missing.any():
        wanted = rng.choice(np.flatnonzero(missing))
        number = int(np.searchsorted(starts, wanted, "right")) - 1
        group, rest = groups[number], wanted - starts[number]
        row = rng.integers(0, counts)
        for option in group:
            row[option], rest = divmod(rest, weights[option, number])
        for option in rng.permutation(len(names)):
            if option not in group:
                changed = np.repeat(row[np.newaxis], counts[option], axis=0)
                # If no pair is missing, use the defaults, which come first.
                usual = rng.integers(0, 2) == 0
                changed[:, option] = (
                    np.arange(len(changed)) if usual else rng.permutation(len(changed))
                )
                row = changed[missing[changed @ weights + starts].sum(axis=1).argmax()]
        missing[row @ weights + starts] = False
        yield {name: options[name][value] for name, value in zip(names, row, strict=True)}


def options_of(function: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of every option of a function."""
    modes: tuple[str, ...] = MODES[function]
    options: dict[str, tuple[Any, ...]] = {
        "mode": (*modes, *["filled"] * ("fill" in modes)),  # "filled" gives a fill value
        "dtype": DTYPES,
        "index dtype": INDEX_DTYPES,
        "sizes": SIZES,
        "places": PLACES,
        "signs": ("both", "front", "end"),
        "strays": (False, True),
        "before": (0, 1, 2),
        "behind": (0, 1, 2),
        "layout": _LAYOUTS,
        "index layout": _LAYOUTS,
    }
    if function.endswith("_nd") or function == "gather_windows":
        options["depth"] = (1, 2, 3, 0)
    else:
        options["counted from the end"] = (False, True)
    if function in ("scatter_nd", "gather_windows"):
        del options["before"]
    if function in ("gather_windows", "gather_ranges"):
        del options["signs"], options["strays"]
    if function == "gather":
        options["batch"] = (0, 1, 2)
    if function != "gather_ranges":
        options["points"] = (1, 2, 0)
    if function.endswith("_elements"):
        options["fewer"] = (False, True)  # of the axes that are not indexed
        del options["points"]
    if function == "gather_windows":
        options["modes differ"] = (False, True)
    if function in SCATTERS:
        options["reduction"] = REDUCTIONS
        options["use_init_val"] = (True, False)
        options["update layout"] = _LAYOUTS
    return options


def covering_calls(
    random: Random,
    function: str,
    together: Sequence[str] = (),
    **options: Sequence[Any],
) -> Iterator[tuple[Row, PublicCall]]:
    """Yield the rows that cover the options of a function, each with a call.

    `options` are more options, or other values for those of `options_of`. The floating-point
    environment, and whether defaults are left out, are drawn.
    """
    for row in cover(random, options_of(function) | options, together):
        call = make_call(random, function, row)
        omits = random.random() < 0.5
        yield row, replace(call, environment=draw_environment(random), omits_defaults=omits)


def compare_covering_calls(
    compare: Callable[[Row, PublicCall], None],
    random: Random,
    function: str,
    together: Sequence[str] = (),
    **options: Sequence[Any],
) -> None:
    """Compare each of the `covering_calls`; a failure shows the row and the call."""
    for row, call in covering_calls(random, function, together, **options):
        try:
            compare(row, call)
        except BaseException as error:
            error.add_note(f"{row}\n{call}")
            raise


def make_call(random: Random, function: str, row: Row) -> PublicCall:
    """Return a call with the options of a row; the rest is random."""
    mode, options = row["mode"], {}
    reduction = row.get("reduction")
    dtype = np.dtype(row["dtype"])
    if reduction not in (None, "none") and not has_reduction(dtype, reduction):
        dtype = np.dtype(random.choice(("f4", "f8", "i4")))
    if mode == "filled":
        # A number for floats, whose bits every library keeps; an array keeps padding.
        has_padding = dtype.char in "gG"
        number = kind_of(dtype) in ("f", "c") and not has_padding
        fill = dtype.type(7.5) if number else distinct((3,), dtype)[[2]].reshape(())
        mode, options["fill_value"] = "fill", fill if number or has_padding else fill[()]
    options["mode"] = mode
    if function in ("gather_windows", "gather_ranges"):
        return _of_windows_or_ranges(random, function, row, dtype, options)
    shape, addressed, points, dense = _shapes(random, function, row, options)
    index_dtype = np.dtype(row["index dtype"])
    rng = random_generator(random)
    values = np.empty((*points, len(addressed)), index_dtype)
    places = _places(rng, row["places"], points, addressed)
    for axis, size in enumerate(addressed):
        values[..., axis] = _index_values(
            random, rng, row, mode, places[..., axis], size, index_dtype
        )
    if not function.endswith("_nd"):
        values = values[..., 0]
    if reduction is not None:
        options |= {"reduction": reduction, "use_init_val": row["use_init_val"]}
    scatters = function in SCATTERS
    shapes = [shape, dense] if scatters else [shape]
    if reduction in (None, "none"):
        elements = distinct((sum(map(prod, shapes)),), dtype)
        parts = np.split(elements, [prod(shape)])
        arrays = [part.reshape(each) for part, each in zip(parts, shapes, strict=False)]
    else:
        arrays = [_numbers(rng, each, dtype, reduction == "mul") for each in shapes]
    layouts = row["layout"], row.get("update layout", "C")
    data, *updates = (
        arranged(random, each, [layout]) for each, layout in zip(arrays, layouts, strict=False)
    )
    return PublicCall(
        function=function,
        data=data,
        indices=arranged(random, values, [row["index layout"]]),
        updates=updates[0] if updates else None,
        options=options,
    )


def has_reduction(dtype: np.dtype[Any], reduction: str) -> bool:
    """Return whether a dtype supports a reduction other than "none"."""
    kind = kind_of(dtype)
    return kind != "" and (kind, reduction) not in (("b", "mean"), ("c", "min"), ("c", "max"))


def _shapes(
    random: Random, function: str, row: Row, options: Row
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of data, of the indexed axes, of index tuples, and of updates."""
    sizes = row["sizes"]

    def axes(count: int, kind: str) -> tuple[int, ...]:
        # More points than positions: some repeat, with others in between.
        low, high = (3, 5) if kind == "point" and function in SCATTERS else (2, 4)
        drawn = [random.randint(low, high) for _ in range(count)]
        if sizes == f"one {kind}":
            drawn = [1] * count
        elif sizes == f"no {kind}" and count:
            drawn[random.randrange(count)] = 0
        return tuple(drawn)

    before, behind = axes(row.get("before", 0), "other"), axes(row["behind"], "other")
    points = axes(row.get("points", 0), "point")
    if function.endswith("_nd"):
        addressed = axes(row["depth"], "indexed")
        if function == "gather_nd":
            options["batch_dims"] = len(before)
        points = before + points
        return before + addressed + behind, addressed, points, points + behind
    (size,) = addressed = axes(1, "indexed")
    shape, axis = (*before, size, *behind), len(before)
    options["axis"] = axis - len(shape) * row["counted from the end"]
    if function == "gather":
        batch = min(row["batch"], axis)
        places = before[:batch] + points
        options["batch_dims"] = batch
        if row["counted from the end"] and len(shape) >= len(places) > batch:
            options["batch_dims"] -= len(places)
        return shape, addressed, places, ()
    places_along = axes(1, "point")
    others = [*before, *behind]
    if row["fewer"]:  # at least one for each axis that has several
        others = [random.randint(min(1, n), max(n - 1, min(1, n))) for n in others]
    places = (*others[:axis], places_along[0] * random.choice((1, 3)), *others[axis:])
    return shape, addressed, places, places


def _places(
    rng: np.random.Generator, repeat: str, shape: tuple[int, ...], sizes: Sequence[int]
) -> Array:
    """Return positions on axes of these `sizes`, with duplicates according to `PLACES`.

    The last axis of the result has a position for each size.
    """
    known = {"few": 2, "one place": 1}.get(repeat, prod(shape))
    sizes = [max(size, 1) for size in sizes]
    if repeat == "rising":
        which = np.arange(prod(shape)).reshape(shape)
        places = [np.arange(known) % size for size in sizes]
    else:
        which = rng.integers(0, max(known, 1), shape)
        places = [rng.integers(0, size, known) for size in sizes]
    columns = [each[which] if known else np.zeros(shape, np.int64) for each in places]
    return np.stack(columns, axis=-1) if columns else np.zeros((*shape, 0), np.int64)


def _index_values(
    random: Random,
    rng: np.random.Generator,
    row: Row,
    mode: str,
    values: Array,
    size: int,
    dtype: np.dtype[Any],
) -> Array:
    """Return indices for an axis of `size`, some negative or out of bounds as the row requires."""
    shape = values.shape
    if row["signs"] != "front" and dtype.kind == "i":
        negative = rng.random(shape) < 0.5 if row["signs"] == "both" else True
        values = np.where(negative, values - size, values)
    values, strays = values.astype(dtype), np.array(stray_values(size, dtype), dtype)
    if row["strays"] and strays.size:
        # Most are near the bounds, to reveal wrong comparisons; others reveal lost bits.
        near = strays[np.abs(strays.astype("f8")) <= 3 * size + 2]
        some = near if near.size and random.randrange(3) else strays
        one_in = 2 if mode != "raise" else 6
        values = np.where(rng.integers(0, one_in, shape) == 0, rng.choice(some, shape), values)
    return values


def _numbers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], factor: bool
) -> Array:
    """Return elements whose sum or product reveals the order in which they were combined."""
    if kind_of(dtype) in "bi":
        low, high = (0, 2) if kind_of(dtype) == "b" else (1, 100)
        return rng.integers(low, high, shape).astype(dtype)
    if factor:
        return (1 + floats(rng, shape, "d") / 2**8).astype(dtype)
    if kind_of(dtype) == "c":
        return (floats(rng, shape, "d") + 1j * floats(rng, shape, "d")).astype(dtype)
    return floats(rng, shape, "d").astype(dtype)


def _of_windows_or_ranges(
    random: Random, function: str, row: Row, dtype: np.dtype[Any], options: Row
) -> PublicCall:
    """Return a call with windows or ranges."""
    rng = random_generator(random)
    mode, index_dtype = options["mode"], np.dtype(row["index dtype"])
    sizes = row["sizes"]

    def axes(count: int, kind: str) -> tuple[int, ...]:
        if sizes == f"one {kind}":
            return (1,) * count
        drawn = [random.randint(2, 5 if kind == "indexed" else 3) for _ in range(count)]
        if sizes == f"no {kind}" and count:
            drawn[random.randrange(count)] = 0
        return tuple(drawn)

    behind = axes(row["behind"], "other")
    far = 0 if mode == "raise" else 4
    if function == "gather_ranges":
        before, (size,) = axes(row["before"], "other"), axes(1, "indexed")
        count = axes(1, "point")
        starts = _places(rng, row["places"], count, (size,))[..., 0] - far // 2 * (
            rng.integers(0, 2, count) * (index_dtype.kind == "i")
        )
        stops = starts + rng.integers(0, 4, count)
        if mode == "raise":
            stops = np.minimum(stops, size)
        axis, rank = len(before), len(before) + 1 + len(behind)
        options["axis"] = axis - rank * row["counted from the end"]
        shape = (*before, size, *behind)
        places = [starts, stops]
    else:
        depth = row["depth"]
        addressed = axes(depth, "indexed")
        modes = [mode] * depth
        if row["modes differ"] and depth:
            options["mode"] = modes = [random.choice(MODES[function]) for _ in range(depth)]
            modes[random.randrange(depth)] = mode
            if "fill" not in modes:
                options.pop("fill_value", None)
        window = [
            random.randint(1, size) if each in ("raise", "clip") else random.randint(1, size + 2)
            for size, each in zip(addressed, modes, strict=True)
        ]
        options["window_shape"] = tuple(window)
        points = axes(row["points"], "point")
        inside = [max(size - wide, 0) + 1 for size, wide in zip(addressed, window, strict=True)]
        columns = _places(rng, row["places"], points, inside)
        for axis in range(depth):
            moved = columns[..., axis]
            if modes[axis] != "raise":
                moved = moved + rng.integers(-4, 5, points) * (rng.integers(0, 2, points) == 0)
            columns[..., axis] = np.maximum(moved, 0) if index_dtype.kind == "u" else moved
        shape, places = addressed + behind, [columns]
    indices, *stops_of = (
        arranged(random, each.astype(index_dtype), [row["index layout"]]) for each in places
    )
    return PublicCall(
        function=function,
        data=arranged(random, distinct(shape, dtype), [row["layout"]]),
        indices=indices,
        stops=stops_of[0] if stops_of else None,
        options=options,
    )


def chunks_of(random: Random, shape: Sequence[int], chunking: str) -> tuple[tuple[int, ...], ...]:
    """Return chunk sizes along every axis; all axes, or one, are cut into two to four chunks."""
    last = len(shape) - 1
    cut = {"whole": (), "first axis": (0,), "last axis": (last,)}.get(chunking, range(last + 1))
    chunks = []
    for axis, size in enumerate(shape):
        ends = {size}
        if axis in cut and size > 1:
            ends.update(random.randint(1, size - 1) for _ in range(random.choice((1, 1, 3))))
        borders = [0, *sorted(ends)]
        chunks.append(tuple(stop - start for start, stop in pairwise(borders)))
    return tuple(chunks)
