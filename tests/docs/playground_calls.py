"""Random calls as users type them into the playground, and Python's answers.

Results come from `tests.definitions.reference`, and errors from `ndgather`.
"""

from __future__ import annotations

import html
import random
import re

import numpy as np

import ndgather
from ndgather import show
from ndgather.errors import NdgatherError
from tests.definitions import reference

COUNT = 2000
GATHERS = ("gather_nd", "gather_elements", "gather", "gather_windows")
MODES = ("wrap", "fill", "drop", "edge")
WINDOW_MODES = ("raise", "clip", "fill", "wrap", "edge", "reflect")
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")
SIZES = (0, 1, 1, 2, 2, 3, 3, 4)
FLOATS = (0.5, -1.25, 2.0, -0.0, 3e20, 1e-7, 1 / 3, float("nan"), float("inf"), 123456.75)
WHOLE = (0, 1, 2, 3, 5, -4, 10, 77, 2**40 + 1, -(2**63), 2**63 - 1)
HIDDEN = re.compile(r'<p class="n-unseen">(.*?)</p>', re.DOTALL)


def drawn_calls(count=COUNT, seed=48):
    """Yield calls: the name of a function, and its arguments as nested lists."""
    chance = random.Random(seed)
    for _ in range(count):
        yield _call(chance)


def _call(chance):
    function = chance.choice((*GATHERS[:3], *GATHERS, "scatter_nd", "scatter_elements") * 2)
    dtype = chance.choice(("int64", "int64", "float64", "bool"))
    rank = chance.choice((0, 1, 1, 2, 2, 2, 3))
    shape = _shape(chance, rank)
    call = {"function": function, "data": _values(chance, shape, dtype)}
    modes = ("raise", "wrap", "clip", "drop" if function.startswith("scatter") else "fill")
    if function == "gather_windows":
        modes = WINDOW_MODES
    mode = chance.choice(MODES if chance.random() < 0.02 else ("raise", *modes))
    if mode != "raise":
        call["mode"] = mode
    if function == "gather_windows":
        call["window_shape"] = (1,)
    indices_shape = _indices_shape(chance, function, shape, call)
    by_tuples = function in ("gather_nd", "scatter_nd", "gather_windows")
    if by_tuples and indices_shape[:1] == (0,) and chance.random() < 0.9:
        indices_shape = (1, *(indices_shape[1:] or (0,)))  # an empty list of tuples is refused
    off = 5 if chance.random() < 0.3 else 0  # how far indices may be out of bounds
    name = "starts" if function == "gather_windows" else "indices"
    call[name] = _indices(chance, indices_shape, max((*shape, 1)), off)
    if function.startswith("scatter"):
        call["updates"] = _updates(chance, call, dtype)
        if chance.random() < 0.7:
            call["reduction"] = chance.choice(REDUCTIONS)
        if chance.random() < 0.3:
            call["use_init_val"] = False
    elif chance.random() < (0.5 if "fill" in call.get("mode", "") else 0.02):
        call["fill_value"] = chance.choice((7, -1, 0.5, 2.0, True, 0, float("nan")))
    return call


def _shape(chance, rank):
    return tuple(chance.choice(SIZES) for _ in range(rank))


def _indices_shape(chance, function, shape, call):
    """Return a shape of indices that usually fits data, and add the options that it needs."""
    if chance.random() < 0.08:
        return _shape(chance, chance.choice((0, 1, 2, 3)))
    lead, rank = list(_shape(chance, chance.choice((0, 1, 1, 2)))), len(shape)
    if function in ("gather_nd", "scatter_nd"):
        batch = 0
        if function == "gather_nd" and chance.random() < 0.35:
            batch = call["batch_dims"] = chance.choice((0, 1, 1, 2, -1))
            if batch > 0 and chance.random() < 0.9:
                lead = [*shape[:batch], *lead]
        return (*lead, chance.randint(0, max(rank - batch, 0) + (chance.random() < 0.1)))
    if function == "gather_windows":
        depth = chance.randint(0, rank)
        wide = [chance.choice((0, 1, 1, 2, 2, 3)) for _ in range(depth)]
        call["window_shape"] = tuple(wide + [1] * (chance.random() < 0.05))
        if depth and chance.random() < 0.3:
            count = depth + (chance.random() < 0.1)
            call["mode"] = tuple(chance.choice(WINDOW_MODES) for _ in range(count))
        return (*lead, depth)
    if chance.random() < 0.6:
        call["axis"] = chance.randint(-rank - 1, rank) if rank else 0
    axis = call.get("axis", 0) % rank if rank else 0
    if function == "gather":
        if chance.random() < 0.35:
            batch = call["batch_dims"] = chance.choice((0, 1, 1, 2, -1))
            lead = [*shape[: max(batch, 0)], *lead]
        return tuple(lead)
    sizes = [max(size - (chance.random() < 0.2), 0) for size in shape]
    if rank:
        sizes[axis] = chance.choice(SIZES)
    return tuple(sizes)


def _values(chance, shape, dtype):
    numbers = {
        "int64": (*WHOLE[:8], *WHOLE[:8], *WHOLE),
        "float64": (*FLOATS, *range(-3, 4)),
        "bool": (True, False),
    }[dtype]
    return _nested(shape, lambda: chance.choice(numbers))


def _indices(chance, shape, size, off):
    if chance.random() < 0.03:
        return _nested(shape, lambda: chance.choice((0.0, 1.0, True)))
    low, high = (-size, size - 1) if chance.random() < 0.5 else (0, 0)
    if chance.random() < 0.01:
        return _nested(shape, lambda: chance.choice((2**63 - 1, -(2**63))))
    return _nested(shape, lambda: chance.randint(low - off, high + off))


def _updates(chance, call, dtype):
    """Return updates that usually have the shape of the selected elements."""
    options = {name: call[name] for name in ("axis",) if name in call}
    gather = getattr(ndgather, call["function"].replace("scatter", "gather"))
    try:
        zeros = np.zeros_like(np.array(call["indices"], np.int64))
        shape = gather(np.array(call["data"]), zeros, mode="fill", **options).shape
    except (NdgatherError, ValueError):
        shape = (2,)
    if chance.random() < 0.06:
        shape = _shape(chance, 1)
    return _values(chance, shape, dtype if chance.random() < 0.9 else "float64")


def _nested(shape, draw):
    if not shape:
        return draw()
    return [_nested(shape[1:], draw) for _ in range(shape[0])]


def answer(call):
    """Return Python's answer in the format of the playground."""
    arguments = dict(call)
    function = arguments.pop("function")
    try:
        getattr(ndgather, function)(**arguments)
    except NdgatherError as error:
        return {"error": [type(error).__name__, str(error)], "result": None}
    result = by_the_definition(function, arguments)
    values = [repr(value) for value in result.ravel().tolist()]
    return {"error": None, "result": [str(result.dtype), list(result.shape), values]}


def by_the_definition(function, arguments):
    """Return the result of the plain loops."""
    arguments = dict(arguments)
    data = np.array(arguments.pop("data"))
    name = "starts" if function == "gather_windows" else "indices"
    indices = np.array(arguments.pop(name))
    arrays = [data, indices if indices.size else indices.astype(np.int64)]
    if "updates" in arguments:
        arrays.append(np.array(arguments.pop("updates")).astype(data.dtype))
    if "fill_value" in arguments:
        arguments["fill_value"] = np.array(arguments["fill_value"]).astype(data.dtype)
    return np.asarray(getattr(reference, function)(*arrays, **arguments))


def description(call):
    """Return the sentences of the picture that `ndgather.show` draws."""
    arguments = dict(call)
    drawn = getattr(show, arguments.pop("function"))(**arguments).to_html(style=False)
    return html.unescape(HIDDEN.search(drawn)[1])


def typed(call):
    """Return a call as texts, as in the fields of the playground."""
    names = {name: "indices" if name == "starts" else name for name in call}
    if isinstance(call.get("mode"), tuple):
        call = {**call, "modes": ", ".join(call["mode"]), "mode": "axes"}
        names["modes"] = "modes"
    return {
        names[name]: value if isinstance(value, str) else repr(value)
        for name, value in call.items()
    }
