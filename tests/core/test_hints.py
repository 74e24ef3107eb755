"""What the errors of common slips say to write, and that it works."""

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
from ndgather.errors import AttributeValueError, CallError, DTypeError, NdgatherError, ShapeError
from tests.definitions import reference

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)

SLIPS = {
    "1-d indices": (
        lambda: gather_nd(DATA, np.arange(4)),
        ShapeError,
        "np.reshape(indices, (-1, 1))",
    ),
    "1-d indices of a scatter": (
        lambda: scatter_nd(DATA, np.array([0, 2]), DATA[:2]),
        ShapeError,
        "np.reshape(indices, (-1, 1))",
    ),
    "the output of nonzero": (
        lambda: gather_nd(DATA, np.nonzero(DATA)),
        ShapeError,
        "np.argwhere(mask)",
    ),
    "dim": (lambda: gather(DATA, [0], dim=1), CallError, "write axis="),
    "index": (lambda: gather_elements(DATA, axis=0, index=[[0]]), CallError, "write indices="),
    "sum": (
        lambda: scatter_nd(DATA, [[0]], DATA[:1], reduction="sum"),
        AttributeValueError,
        "'add'",
    ),
    "amax": (
        lambda: scatter_nd(DATA, [[0]], DATA[:1], reduction="amax"),
        AttributeValueError,
        "write 'max'",
    ),
    "float64 updates": (
        lambda: scatter_nd(DATA, [[0]], np.zeros((1, 3))),
        DTypeError,
        "updates.astype(data.dtype)",
    ),
    "one value for all": (
        lambda: scatter_nd(DATA, [[0]], 1.0),
        ShapeError,
        "np.full((1, 3), updates, 'float32')",
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
def test_the_error_says_what_to_write(call, error, hint):
    with pytest.raises(error) as caught:
        call()
    assert hint in str(caught.value)


@pytest.mark.parametrize("mode", ["zero", "", 3, None])
def test_a_name_that_is_like_none_of_the_list_gets_no_hint(mode):
    with pytest.raises(NdgatherError) as caught:
        gather_nd(DATA, [[0]], mode=mode)
    assert str(caught.value).endswith(")")


# Calls with an error, the expression for one of their arguments that the error ends with, and what
# the call then gives; `indices` and `updates` are those of the call.
ROWS = np.array([0, 2])
SIX = DATA[:2] + 100
FOLLOWED = {
    "a scalar for a tuple": (gather_nd, "indices", (DATA, 2), DATA[2]),
    "a scalar in a scatter": (
        scatter_nd,
        "indices",
        (DATA, 2, SIX[0]),
        np.vstack([DATA[:2], SIX[:1], DATA[3:]]),
    ),
    "a scalar in a scatter of a row": (
        scatter_nd,
        "indices",
        (DATA, 2, SIX[:1]),
        np.vstack([DATA[:2], SIX[:1], DATA[3:]]),
    ),
    "indices of a gather without their last axis": (
        gather_nd,
        "indices",
        (DATA, np.array([2, 0, 1])),
        DATA[[2, 0, 1]],
    ),
    "indices without their last axis": (
        scatter_nd,
        "indices",
        (DATA, ROWS, SIX),
        np.vstack([SIX[:1], DATA[1:2], SIX[1:], DATA[3:]]),
    ),
    "one index for a row": (
        scatter_elements,
        "indices",
        (DATA, ROWS, SIX),
        np.vstack([SIX[:1], DATA[1:2], SIX[1:], DATA[3:]]),
    ),
    "one index for a row, of the same rank": (
        scatter_elements,
        "indices",
        (DATA, ROWS[:, None], SIX),
        np.vstack([SIX[:1], DATA[1:2], SIX[1:], DATA[3:]]),
    ),
    "one index for all": (
        scatter_elements,
        "indices",
        (DATA, 2, SIX[:1]),
        np.vstack([DATA[:2], SIX[:1], DATA[3:]]),
    ),
    "one value for all": (
        scatter_nd,
        "updates",
        (DATA, ROWS[:, None], 7),
        np.vstack([np.full((1, 3), 7), DATA[1:2], np.full((1, 3), 7), DATA[3:]]),
    ),
}


def followed(function, name, arrays, **names):
    """Return the result of a call in which the hint of its error is followed."""
    named = dict(zip(("data", "indices", "updates"), arrays, strict=False))
    with pytest.raises(ShapeError) as caught:
        function(*arrays)
    text = re.split(r" (?:is|are) (?=\w+[.\[])", str(caught.value).rpartition("; ")[2])[1]
    named[name] = eval(text, {"np": np, **names, **named})
    return function(**named)


@pytest.mark.parametrize(("function", "name", "arrays", "result"), FOLLOWED.values(), ids=FOLLOWED)
def test_a_hint_that_is_followed_works(function, name, arrays, result):
    done = followed(function, name, arrays)
    np.testing.assert_array_equal(done, result.astype(DATA.dtype), strict=True)


@pytest.mark.parametrize(("function", "name", "arrays", "result"), FOLLOWED.values(), ids=FOLLOWED)
def test_a_hint_that_is_followed_works_for_lists(function, name, arrays, result):
    done = followed(function, name, [np.asarray(each).tolist() for each in arrays])
    np.testing.assert_array_equal(done, result)


def test_a_hint_for_a_type_without_a_name_works():
    for data in (np.zeros((4, 3), "i4,S2"), np.zeros((4, 3), "S2"), np.zeros((4, 3), ">i4")):
        value = data[0, 0] if data.dtype.names else np.zeros((), data.dtype)
        done = followed(scatter_nd, "updates", (data, [[0]], value))
        np.testing.assert_array_equal(done, data, strict=True)


ORDERS = {
    "gather": (
        lambda data: gather(data, 1, [[0], [2]]),
        DTypeError,
        "write gather(data, indices, axis=1), or gather_elements(data, indices, axis=1) for "
        "torch.gather",
    ),
    "gather_elements": (
        lambda data: gather_elements(data, 1, [[0], [2]]),
        DTypeError,
        "write gather_elements(data, indices, axis=1)",
    ),
    "scatter_elements": (
        lambda data: scatter_elements(data, 1, [[0], [2]], [[1.0], [2.0]]),
        DTypeError,
        "write scatter_elements(data, indices, updates, axis=1)",
    ),
    "batch_dims": (
        lambda data: gather(data, [[0], [1], [2], [0]], batch_dims=1),
        AttributeValueError,
        "batch axes stand before axis = 0: write axis=1",
    ),
    "include_self": (
        lambda data: scatter_elements(data, [[0]], [[1.0]], include_self=False),
        CallError,
        "write use_init_val=",
    ),
}


@pytest.mark.parametrize(("call", "error", "hint"), ORDERS.values(), ids=ORDERS)
def test_arguments_as_other_libraries_have_them(call, error, hint):
    with pytest.raises(error) as caught:
        call(DATA)
    assert str(caught.value).endswith(f"; {hint}")


# What NumPy, torch, JAX, TensorFlow and ONNX call an argument.
ELSEWHERE = {
    **dict.fromkeys(("input", "params", "a", "arr", "operand", "tensor"), "data"),
    **dict.fromkeys(("src", "source", "value", "values", "v"), "updates"),
    "dim": "axis",
    "index": "indices",
    "reduce": "reduction",
    "include_self": "use_init_val",
    "default_value": "fill_value",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_names_of_arguments_in_other_libraries(name):
    for function, arguments in (
        (gather, "data indices axis batch_dims mode fill_value out"),
        (gather_elements, "data indices axis mode fill_value out"),
        (scatter_elements, "data indices updates axis mode reduction use_init_val out"),
    ):
        given = {each: [[0]] for each in ("data", "indices", "updates") if each in arguments}
        with pytest.raises(CallError, match=f"{name} = 1 is not an argument") as caught:
            function(**given, **{name: 1})
        hint = f"; write {ELSEWHERE[name]}="
        assert str(caught.value).endswith(hint) == (ELSEWHERE[name] in arguments.split())


def test_the_order_of_torch_then_works():
    assert gather(DATA, [0, 2], axis=1).shape == (4, 2)
    assert gather_elements(DATA, [[0], [2]], axis=1).tolist() == [[0.0], [5.0]]
    assert gather(DATA, [[0], [1], [2], [0]], batch_dims=1, axis=1).tolist() == [
        [0.0],
        [4.0],
        [8.0],
        [9.0],
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("take", "write ndgather.gather"),
        ("take_along_axis", "write ndgather.gather_elements"),
        ("scatter_add", "write ndgather.scatter_elements(..., reduction='add')"),
        ("sel", "write import ndgather.arrays.xarray, and array.ndgather.sel"),
        ("xarray", "write import ndgather.arrays.xarray, and array.ndgather.sel"),
        ("onnx", "write from ndgather.models import onnx"),
        ("bincount", "write ndgather.scatter_nd(..., reduction='add')"),
        ("checked", "write ndgather.checked_indices"),
        ("gathernd", "did you mean 'gather_nd'?"),
    ],
)
def test_names_of_other_libraries(name, hint):
    with pytest.raises(AttributeError) as caught:
        getattr(ndgather, name)
    assert str(caught.value) == f"module 'ndgather' has no attribute {name!r}; {hint}"


def test_a_hint_about_starts_is_for_windows_of_one_axis():
    with pytest.raises(ShapeError, match=r"one start for each window is np.reshape\(starts, "):
        gather_windows(DATA, [0, 1, 2], (2,))
    assert gather_windows(DATA, np.reshape([0, 1, 2], (-1, 1)), (2,)).shape == (3, 2, 3)
    for starts in ([], [0, 1, 2]):
        with pytest.raises(ShapeError, match=r"\(allowed: 2, as window_shape has\)$"):
            gather_windows(DATA, starts, (2, 2))


def test_what_the_hints_say_works():
    mask = DATA > 5
    np.testing.assert_array_equal(gather_nd(DATA, np.argwhere(mask)), DATA[mask])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_an_empty_float_array_of_indices_counts_as_empty(dtype):
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
            "gather_nd: 4 positional arguments are given (allowed: 3, data, indices, batch_dims)",
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
def test_calls_that_do_not_fit_the_signature(call, text):
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


def test_the_lists_of_the_core_are_those_of_the_annotations():
    assert (*_core.REDUCTIONS, "mean") == ("none", "add", "sub", "mul", "min", "max", "mean")
    assert get_args(reference.Reduction) == (*_core.REDUCTIONS, "mean")
    assert _core.GATHER_MODES == ("raise", "wrap", "clip", "fill")
    assert _core.SCATTER_MODES == ("raise", "wrap", "clip", "drop")
    assert set(get_args(reference.Mode)) == {*_core.GATHER_MODES, *_core.SCATTER_MODES}
    kinds = "gather_nd gather_elements gather scatter_nd scatter_elements gather_windows"
    assert " ".join(_core.KINDS) == " ".join(Kind) == kinds
    for kind in _core.KINDS:
        parameters = set(inspect.signature(getattr(ndgather, kind)).parameters)
        assert parameters <= {*_core.ARGUMENTS, "starts"}  # what gather_windows has as indices
    fields = list(api.Call.__dataclass_fields__)
    assert tuple(fields[2 : 2 + len(_core.ARGUMENTS)]) == _core.ARGUMENTS
