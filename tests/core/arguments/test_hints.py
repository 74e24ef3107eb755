"""Errors for common mistakes suggest what to write, and the suggestion works."""

import inspect
import re
from typing import get_args

import numpy as np
import pytest

import ndgather
from ndgather import (
    _core,
    api,
    gather,
    gather_elements,
    gather_nd,
    gather_windows,
    operator,
    scatter_elements,
    scatter_nd,
)
from ndgather.arguments import raise_error
from ndgather.array_call import Kind
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from tests.definitions import reference

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)

SLIPS = {
    "the output of nonzero": (
        lambda: gather_nd(DATA, np.nonzero(DATA)),
        DTypeError,
        "; write np.stack(indices, axis=-1)",
    ),
    "one number for a tuple": (
        lambda: gather_nd(DATA, 2),
        ShapeError,
        "; index tuples are on the last axis, as argwhere returns them",
    ),
    "one start for a window of two axes": (
        lambda: gather_windows(DATA, [0, 1, 2], (2, 2)),
        ShapeError,
        "; index tuples are on the last axis, as argwhere returns them",
    ),
    "one value for all": (
        lambda: scatter_nd(DATA, [[0]], 1.0),
        ShapeError,
        "(allowed: (1, 3)); updates are not broadcast",
    ),
    "one index for a row": (
        lambda: scatter_elements(DATA, [0, 2], DATA[:2]),
        ShapeError,
        "; to index whole slices, use gather or scatter_nd",
    ),
    "the order of torch": (
        lambda: gather(DATA, 1, [[0], [2]]),
        DTypeError,
        "; the order is data, indices, axis; torch.gather is gather_elements",
    ),
    "the order of torch in a scatter": (
        lambda: scatter_elements(DATA, 1, [[0], [2]], [[1.0], [2.0]]),
        DTypeError,
        "; the order is data, indices, updates, axis",
    ),
    "batch axes behind the axis": (
        lambda: gather(DATA, [[0], [1], [2], [0]], batch_dims=1),
        AttributeValueError,
        "; batch axes come before axis",
    ),
    "GatherNd": (lambda: operator("GatherNd"), AttributeValueError, "did you mean 'GatherND'?"),
    "a misspelled mode": (
        lambda: gather_nd(DATA, [[9, 9]], mode="cilp"),
        AttributeValueError,
        "(allowed: 'raise', 'wrap', 'clip', 'fill'); did you mean 'clip'?",
    ),
    "a misspelled mode of a scatter": (
        lambda: scatter_nd(DATA, [[9]], DATA[:1], mode="dorp"),
        AttributeValueError,
        "did you mean 'drop'?",
    ),
    "a misspelled reduction": (
        lambda: scatter_nd(DATA, [[0]], DATA[:1], reduction="Maen"),
        AttributeValueError,
        "did you mean 'mean'?",
    ),
    "a misspelled argument": (
        lambda: gather_nd(DATA, [[0]], batchdims=1),
        CallError,
        "did you mean 'batch_dims'?",
    ),
    "a misspelled attribute": (
        lambda: operator("GatherND")(DATA, [[0]], batchdims=1),
        AttributeValueError,
        "(allowed: batch_dims); did you mean 'batch_dims'?",
    ),
    "a misspelled reduction of an operator": (
        lambda: operator("ScatterND")(DATA, np.array([[0]]), DATA[:1], reduction="mxa"),
        AttributeValueError,
        "did you mean 'max'?",
    ),
    "a misspelled domain": (
        lambda: operator("GatherND", domain="ai.onxx"),
        AttributeValueError,
        "did you mean 'ai.onnx'?",
    ),
}


@pytest.mark.parametrize(("call", "error", "hint"), SLIPS.values(), ids=SLIPS)
def test_error_gives_the_correct_spelling(call, error, hint):
    with pytest.raises(error) as caught:
        call()
    assert hint in str(caught.value)


@pytest.mark.parametrize("mode", ["zero", "", 3, None])
def test_dissimilar_names_get_no_hint(mode):
    with pytest.raises(NdgatherError) as caught:
        gather_nd(DATA, [[0]], mode=mode)
    assert str(caught.value).endswith(")")


# Calls whose error ends with an expression for `indices`, and the result with this expression.
ROWS = np.array([2, 0, 1])
FOLLOWED = {
    "one index for a row": (gather_nd, (DATA, ROWS), DATA[[2, 0, 1]]),
    "one index for a row of a scatter": (
        scatter_nd,
        (DATA, ROWS, DATA[:3] + 100),
        np.vstack([DATA[[1, 2, 0]] + 100, DATA[3:]]),
    ),
    "as many indices as axes": (
        scatter_nd,
        (DATA, ROWS[:2], DATA[:2] + 100),
        np.vstack([DATA[1:2] + 100, DATA[1:2], DATA[:1] + 100, DATA[3:]]),
    ),
    "a mask": (gather_nd, (DATA, DATA > 5), DATA[DATA > 5]),
    "a mask of rows": (
        scatter_nd,
        (DATA, DATA[:, 0] > 5, DATA[:2] + 100),
        np.vstack([DATA[:2], DATA[:2] + 100]),
    ),
    "a mask for gather": (gather, (DATA, DATA > 5), DATA[DATA > 5]),
    "a mask of elements": (gather_elements, (DATA, DATA > 5), DATA[DATA > 5]),
    "a mask of a scatter of elements": (
        scatter_elements,
        (DATA, DATA > 5, DATA[2:].ravel()),
        DATA,
    ),
}
TUPLES = {
    "a tuple of index arrays for elements": (
        gather_elements,
        (DATA, (ROWS, ROWS)),
        DATA[ROWS, ROWS],
    ),
    "a tuple of index arrays whose common dtype is a float": (
        gather_nd,
        (DATA, (ROWS, ROWS.astype(np.uint64))),
        DATA[ROWS, ROWS],
    ),
    "a tuple of index arrays of a scatter of elements": (
        scatter_elements,
        (DATA, (ROWS, ROWS), DATA[ROWS, ROWS]),
        DATA,
    ),
}


def followed(function, arrays, **names):
    """Return the result of a call after following the hint of its error."""
    named = dict(zip(("data", "indices", "updates"), arrays, strict=False))
    with pytest.raises(NdgatherError) as caught:
        function(*arrays)
    text, _, other = str(caught.value).rpartition("; ")[2].partition(", for ")
    text = re.split(r"^write | (?:is|are) (?=\w+[.])", text)[1]
    named["indices"] = eval(text, {"np": np, **names, **named})
    return getattr(ndgather, other or function.__name__)(**named)


ALL_FOLLOWED = FOLLOWED | TUPLES


@pytest.mark.parametrize(("function", "arrays", "result"), ALL_FOLLOWED.values(), ids=ALL_FOLLOWED)
def test_followed_hints_give_the_intended_result(function, arrays, result):
    np.testing.assert_array_equal(followed(function, arrays), result, strict=True)
    lists = [each if isinstance(each, tuple) else each.tolist() for each in arrays]
    np.testing.assert_array_equal(followed(function, lists), result)


# Arguments named as in other libraries, and the result there.
COLUMNS, NEW = np.array([[2, 0], [1, 1]]), np.array([[10, 20], [30, 40]], np.float32)
ADDED = np.array([[20, 1, 10], [3, 70, 5], *DATA[2:]], np.float32)  # without the initial values
PUT = np.array([[20, 1, 10], [3, 40, 5], *DATA[2:]], np.float32)
MOVED = np.vstack([DATA[:2], DATA[:1], DATA[3:]])
TAKEN = {
    "torch.gather": (
        gather_elements,
        {"input": DATA, "dim": 1, "index": COLUMNS},
        DATA[[[0], [1]], COLUMNS],
    ),
    "torch.scatter_reduce": (
        scatter_elements,
        {
            "input": DATA,
            "dim": 1,
            "index": COLUMNS,
            "src": NEW,
            "reduce": "sum",
            "include_self": False,
        },
        ADDED,
    ),
    "torch.index_copy": (scatter_nd, {"input": DATA, "index": [[2]], "source": DATA[:1]}, MOVED),
    "torch.index_put": (scatter_nd, {"input": DATA, "indices": [[2]], "values": DATA[:1]}, MOVED),
    "torch.scatter": (
        scatter_elements,
        {"input": DATA, "dim": 1, "index": COLUMNS, "value": NEW},
        PUT,
    ),
    "numpy.take": (gather, {"a": DATA, "indices": ROWS, "axis": 0}, DATA[ROWS]),
    "numpy.put": (scatter_nd, {"a": DATA, "indices": [[2]], "v": DATA[:1]}, MOVED),
    "numpy.put_along_axis": (
        scatter_elements,
        {"arr": DATA, "indices": COLUMNS, "values": NEW, "axis": 1},
        PUT,
    ),
    "tf.gather": (gather, {"params": DATA, "indices": ROWS}, DATA[ROWS]),
    "tf.tensor_scatter_nd_update": (
        scatter_nd,
        {"tensor": DATA, "indices": [[2]], "updates": DATA[:1]},
        MOVED,
    ),
    "tf.lookup": (
        gather,
        {"params": DATA, "indices": [9], "mode": "fill", "default_value": 7},
        np.full((1, 3), 7, np.float32),
    ),
    "jax.lax.gather": (
        gather,
        {"operand": DATA, "indices": [9], "mode": "promise_in_bounds"},
        None,
    ),
}


@pytest.mark.parametrize(("function", "options", "result"), TAKEN.values(), ids=TAKEN)
def test_arguments_of_other_libraries(function, options, result):
    """Each error names our argument or value. Together they lead to a correct call."""
    while True:
        try:
            found = function(**options)
        except (CallError, AttributeValueError) as error:
            name, hint = re.fullmatch(r"\w+: (\w+) = .*; write (.*)", str(error)).groups()
            value = options.pop(name)
            options |= {hint[:-1]: value} if hint.endswith("=") else {name: eval(hint)}
        except IndexOutOfBoundsError:
            assert result is None
            break
        else:
            np.testing.assert_array_equal(found, result, strict=True)
            break


def test_arguments_without_an_equivalent_get_no_hint():
    for name in ("src", "reduce", "include_self", "dim"):
        with pytest.raises(CallError, match=rf"{name} = 0 is not an argument .*\)$"):
            gather_nd(DATA, [[0]], **{name: 0})


# What a reduction makes of an element and an update.
MEANT = {
    "assign overwrite replace set update =": lambda old, new: new,
    "sum plus + +=": lambda old, new: old + new,
    "subtract minus - -=": lambda old, new: old - new,
    "multiply times prod product * *=": lambda old, new: old * new,
    "minimum amin": min,
    "maximum amax": max,
    "average avg": lambda old, new: (old + new) / 2,
}


@pytest.mark.parametrize(
    ("word", "meant"), [(word, meant) for words, meant in MEANT.items() for word in words.split()]
)
def test_reductions_of_other_libraries(word, meant):
    with pytest.raises(AttributeValueError) as caught:
        scatter_nd([4.0], [[0]], [2.5], reduction=word.upper())
    reduction = eval(re.search(r"; write (.*)$", str(caught.value))[1])
    for old, new in ((4.0, 2.5), (2.5, 4.0)):
        assert scatter_nd([old], [[0]], [new], reduction=reduction) == [meant(old, new)]


# Calls of functions with the names of other libraries, and the results there.
AT = COLUMNS[:1]
FUNCTIONS = {
    "take index_select embedding": ((DATA, ROWS), DATA[ROWS]),
    "take_along_axis take_along_dim": ((DATA, AT), np.array([[6, 1]], np.float32)),
    "vindex": ((DATA, COLUMNS), DATA[[2, 1], [0, 1]]),
    "scatter scatter_reduce put_along_axis": (
        (np.zeros((3, 2)), AT, np.array([[5.0, 6.0]])),
        np.array([[0.0, 6.0], [0.0, 0.0], [5.0, 0.0]]),
    ),
    "scatter_add": (
        (np.ones(3), np.array([1, 1]), np.array([5.0, 6.0])),
        np.array([1.0, 12.0, 1.0]),
    ),
    "index_put tensor_scatter_nd_update": (
        (np.ones(3), np.array([[1]]), np.array([5.0])),
        np.array([1.0, 5.0, 1.0]),
    ),
    "add_at bincount index_add segment_sum tensor_scatter_nd_add": (
        (np.ones(3), np.array([[1], [1]]), np.array([5.0, 6.0])),
        np.array([1.0, 12.0, 1.0]),
    ),
}


@pytest.mark.parametrize(
    ("name", "arrays", "result"),
    [(name, *each) for names, each in FUNCTIONS.items() for name in names.split()],
)
def test_functions_of_other_libraries(name, arrays, result):
    with pytest.raises(AttributeError) as caught:
        getattr(ndgather, name)
    hint = re.search(r"; write (.*)$", str(caught.value))[1]
    call = f"{hint[:-1]})" if hint.endswith(")") else f"{hint}(...)"
    found = eval(call.replace("...", "*arrays"), {"ndgather": ndgather, "arrays": arrays})
    np.testing.assert_array_equal(found, result, strict=True)


MODULES = {
    "checked": "ndgather.checked_indices",
    "sel isel xarray": "import ndgather.arrays.xarray, and array.ndgather.sel",
    "check compare convert infer load models onnx run": "from ndgather.models import onnx",
}


@pytest.mark.parametrize(
    ("name", "hint"), [(name, hint) for names, hint in MODULES.items() for name in names.split()]
)
def test_names_of_our_modules(name, hint):
    with pytest.raises(AttributeError, match=re.escape(f"; write {hint}")):
        ndgather.__getattr__(name)  # as if ndgather.models were not imported yet
    if hint.startswith(("import ", "from ")):
        exec(hint.partition(", and ")[0])
    else:  # needs torch
        assert hint.removeprefix("ndgather.") in ndgather.__all__


def test_misspelled_function():
    with pytest.raises(
        AttributeError, match=r"has no attribute 'gathernd'; did you mean 'gather_n"
    ):
        _ = ndgather.gathernd


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_empty_float_indices_count_as_empty(dtype):
    indices = np.empty((0, 2), dtype)
    assert gather_nd(DATA, indices).shape == (0,)
    np.testing.assert_array_equal(scatter_nd(DATA, indices, np.empty(0, "f4")), DATA)
    with pytest.raises(DTypeError):
        operator("GatherND")(DATA, indices)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: gather_nd(DATA, [[0]], 0, "raise"),
            "gather_nd: 4 positional arguments are given (allowed: 3, data, indices, batch_dims; "
            "all others by name: mode=, fill_value=, out=, memory=, progress=, executor=)",
        ),
        (
            lambda: gather_nd(DATA),
            "gather_nd: indices is missing (allowed: gather_nd(data, indices, batch_dims=0, *, "
            "mode='raise', fill_value=None, out=None, memory=None, progress=None, "
            "executor=None))",
        ),
        (
            lambda: gather_nd(DATA, [[0]], data=DATA),
            "gather_nd: data is given by position and by name (allowed: one of them)",
        ),
        (
            lambda: gather_nd(DATA, [[0]], axis=1),
            "gather_nd: axis = 1 is not an argument of this function (allowed: data, indices, "
            "batch_dims, mode, fill_value, out, memory, progress, executor)",
        ),
    ],
)
def test_calls_that_do_not_match_the_signature(call, text):
    with pytest.raises(CallError) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, TypeError)


def test_every_refusal_has_a_text():
    arrays = DATA, np.zeros((1, 1), int)
    call = api.Call("gather_nd", Kind.GATHER_ND, *arrays, out=DATA, window_shape=(2,))
    internal = {"none", "raised", "fallback", "gradient", "signature", "out_overlaps_input"}
    bad_index = ((0, 0), 9, 0, 4, -4, 1, 1)
    for rule in set(_core.RULES) - internal:
        facts = bad_index if rule == "out_of_bounds" else (0, 0)
        refusal = _core.Refusal((rule, facts, (4, 3), (1, 1), (1, 3), ()))
        with pytest.raises((NdgatherError, MemoryError), match=r"^gather_nd: "):
            raise_error(call, refusal)


def test_kinds_have_their_properties():
    assert [kind for kind in Kind if kind.scatters] == ["scatter_nd", "scatter_elements"]
    assert [kind for kind in Kind if kind.tuples] == ["gather_nd", "scatter_nd", "gather_windows"]
    assert [kind for kind in Kind if kind.elements] == ["gather_elements", "scatter_elements"]
    assert [kind for kind in Kind if kind.windows] == ["gather_windows"]
    gathers = "gather_nd gather_elements gather gather_nd gather_elements gather_windows"
    assert " ".join(kind.gather for kind in Kind) == gathers
    assert Kind.GATHER_ND.scatter is Kind.SCATTER_ND
    assert Kind.GATHER_ELEMENTS.scatter is Kind.SCATTER_ELEMENTS


def test_names_of_the_core_match_the_annotations():
    assert (*_core.REDUCTIONS, "mean") == ("none", "add", "sub", "mul", "min", "max", "mean")
    assert get_args(reference.Reduction) == (*_core.REDUCTIONS, "mean")
    assert get_args(api.Mode) == _core.GATHER_MODES == ("raise", "wrap", "clip", "fill")
    assert get_args(api.ScatterMode) == _core.SCATTER_MODES == ("raise", "wrap", "clip", "drop")
    assert set(get_args(reference.Mode)) == {*_core.GATHER_MODES, *_core.SCATTER_MODES}
    kinds = "gather_nd gather_elements gather scatter_nd scatter_elements gather_windows"
    assert " ".join(_core.KINDS) == " ".join(Kind) == kinds
    for kind in _core.KINDS:
        parameters = set(inspect.signature(getattr(ndgather, kind)).parameters)
        assert parameters <= {*_core.ARGUMENTS, "starts"}  # the indices of gather_windows
    fields = list(api.Call.__dataclass_fields__)
    assert tuple(fields[2 : 2 + len(_core.ARGUMENTS)]) == _core.ARGUMENTS
