"""Invalid calls: the class and the exact text of each error, and that `out` is unchanged."""

import inspect
import pickle
from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np
import pytest

import ndgather
import ndgather.vjp
from ndgather import messages
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from tests.definitions.calls import element_bytes

DATA = np.arange(6).reshape(2, 3)
DATA.flags.writeable = False
EMPTY = np.zeros((2, 0, 3), int)
WHOLE = "; if all are whole numbers, write np.asarray(indices).astype(int)"
A_MASK = (
    "gather_nd: indices.dtype = bool is not an integer type (allowed: int8..int64, uint8..uint64); "
    "the index tuples of a mask are np.argwhere(indices)"
)


@dataclass(frozen=True, kw_only=True)
class Bad:
    """An invalid call; `out_shape` is the shape of the result if the call were valid."""

    name: str
    error: type
    text: str
    function: str = "gather_nd"
    data: object = field(default_factory=lambda: DATA)
    indices: object = ((0, 1), (1, 2))
    options: dict = field(default_factory=dict)
    out_shape: tuple | None = (2,)

    def __str__(self):
        return self.name

    def __call__(self, **more):
        indices = list(self.indices) if isinstance(self.indices, tuple) else self.indices
        return getattr(ndgather, self.function)(self.data, indices, **{**self.options, **more})


def signature_of(name):
    """Return the parameters of a function of `ndgather.messages`, or nothing for other objects."""
    function = getattr(messages, name)
    own = inspect.isfunction(function) and function.__module__ == messages.__name__
    return inspect.signature(function).parameters if own else {}


def overlapping(shape, strides):
    return np.lib.stride_tricks.as_strided(np.zeros(16, int), shape, strides)


BAD_INDEX = (
    Bad(
        name="one entry too large",
        error=IndexOutOfBoundsError,
        indices=((0, 1), (1, 3)),
        text="gather_nd: indices[1, 1] = 3 is outside axis 1 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
    Bad(
        name="several entries",
        error=IndexOutOfBoundsError,
        indices=((0, -4), (2, 5)),
        text="gather_nd: indices[0, 1] = -4 is outside axis 1 of data, which has size 3 "
        "(allowed: -3..2); 3 of 4 entries of indices are out of bounds",
    ),
    Bad(
        name="after a batch axis",
        error=IndexOutOfBoundsError,
        indices=((2,), (3,)),
        options={"batch_dims": 1},
        text="gather_nd: indices[1, 0] = 3 is outside axis 1 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
    Bad(
        name="uint64 above the int64 range",
        error=IndexOutOfBoundsError,
        indices=np.array([[0, 2**64 - 1]], np.uint64),
        out_shape=(1,),
        text="gather_nd: indices[0, 1] = 18446744073709551615 is outside axis 1 of data, which "
        "has size 3 (allowed: -3..2)",
    ),
    Bad(
        name="an empty axis",
        error=IndexOutOfBoundsError,
        data=EMPTY,
        indices=((0, 0),),
        out_shape=(1, 3),
        text="gather_nd: indices[0, 1] = 0 is outside axis 1 of data, which has size 0 "
        "(the axis is empty)",
    ),
    Bad(
        name="an empty axis, mode wrap",
        error=IndexOutOfBoundsError,
        data=EMPTY,
        indices=((0, 0),),
        options={"mode": "wrap"},
        out_shape=(1, 3),
        text="gather_nd: indices[0, 1] = 0 is outside axis 1 of data, which has size 0 "
        "(the axis is empty)",
    ),
    Bad(
        name="an empty result",
        error=IndexOutOfBoundsError,
        data=np.zeros((3, 0)),
        indices=((5,),),
        out_shape=(1, 0),
        text="gather_nd: indices[0, 0] = 5 is outside axis 0 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
)

BAD_SHAPE = (
    Bad(
        name="rank-0 indices",
        error=ShapeError,
        indices=np.int64(0),
        out_shape=None,
        text="gather_nd: indices.shape = () has rank 0 (allowed: rank 1 or more); index tuples are "
        "on the last axis, as argwhere returns them",
    ),
    Bad(
        name="batch sizes differ",
        error=ShapeError,
        indices=((0,), (1,), (2,)),
        options={"batch_dims": 1},
        text="gather_nd: indices.shape[0] = 3 differs from data.shape[0] = 2: batch axes must "
        "be equal in data (2, 3) and indices (3, 1) (allowed: 2)",
    ),
    Bad(
        name="too deep",
        error=ShapeError,
        indices=((0, 1, 2), (0, 1, 2)),
        text="gather_nd: indices.shape[-1] = 3 is more than the 2 axes that data (2, 3) has; "
        "indices.shape = (2, 3) (allowed: 0..2); index tuples are on the last axis, as argwhere "
        "returns them",
    ),
    Bad(
        name="too deep after a batch axis",
        error=ShapeError,
        indices=((0, 1), (0, 1)),
        options={"batch_dims": 1},
        text="gather_nd: indices.shape[-1] = 2 is more than the 1 axes that data (2, 3) has after "
        "1 batch axes; indices.shape = (2, 2) (allowed: 0..1); index tuples are on the last axis, "
        "as argwhere returns them",
    ),
    Bad(
        name="ranks of gather_elements differ",
        error=ShapeError,
        function="gather_elements",
        indices=(0, 1),
        text="gather_elements: indices.shape = (2,) has rank 1, but data.shape = (2, 3) has rank 2 "
        "(allowed: the same rank); to index whole slices, use gather or scatter_nd",
    ),
    Bad(
        name="longer off the axis",
        error=ShapeError,
        function="gather_elements",
        indices=np.zeros((1, 4), int),
        out_shape=(1, 4),
        text="gather_elements: indices.shape[1] = 4 is more than data.shape[1] = 3: indices (1, 4) "
        "may be larger than data (2, 3) only on axis 0 (allowed: 0..3)",
    ),
    Bad(
        name="rank-0 data of gather_elements",
        error=ShapeError,
        function="gather_elements",
        data=np.int64(1),
        indices=np.int64(0),
        out_shape=(),
        text="gather_elements: data.shape = () has rank 0 (allowed: rank 1 or more)",
    ),
    Bad(
        name="a result of too many axes",
        error=ShapeError,
        data=np.zeros((1,) * 40),
        indices=np.zeros((1,) * 30 + (0,), int),
        out_shape=None,
        text="gather_nd: the result would have rank 70 (allowed: at most 64)",
    ),
)

BAD_DTYPE = (
    *(
        Bad(
            name=f"{name} indices",
            error=DTypeError,
            indices=np.zeros((2, 2), dtype),
            text=f"gather_nd: indices.dtype = {shown} is not an integer type "
            f"(allowed: int8..int64, uint8..uint64){WHOLE if 'float' in shown else ''}",
        )
        for name, dtype, shown in (
            ("floating", "f8", "float64"),
            ("float16", "f2", "float16"),
            ("complex", "D", "complex128"),
            ("datetime", "M8[s]", "datetime64[s]"),
            ("timedelta", "m8[s]", "timedelta64[s]"),
            ("string", "S2", "|S2"),
            ("object", "O", "object"),
        )
    ),
    Bad(
        name="boolean indices",
        error=DTypeError,
        indices=np.zeros((2, 2), bool),
        text=A_MASK,
    ),
    Bad(
        name="a list of booleans",
        error=DTypeError,
        indices=((True, False),),
        out_shape=(1,),
        text=A_MASK,
    ),
    Bad(
        name="masked indices",
        error=DTypeError,
        indices=np.ma.array([[0, 1], [1, 2]], mask=[[0, 0], [1, 1]]),
        text="gather_nd: indices = masked array would lose its mask (allowed: a plain array with "
        "its masked elements filled)",
    ),
)

BAD_OPTION = (
    Bad(
        name="batch_dims too large",
        error=AttributeValueError,
        options={"batch_dims": 2},
        text="gather_nd: batch_dims = 2 is out of range for data of shape (2, 3) and "
        "indices of shape (2, 2) (allowed: 0..1)",
    ),
    Bad(
        name="batch_dims beyond 64 bits",
        error=AttributeValueError,
        options={"batch_dims": 2**64},
        text="gather_nd: batch_dims = 18446744073709551616 is out of range for data of "
        "shape (2, 3) and indices of shape (2, 2) (allowed: 0..1)",
    ),
    Bad(
        name="batch_dims beyond the axis of gather",
        error=AttributeValueError,
        function="gather",
        options={"axis": 0, "batch_dims": 1},
        out_shape=(2, 3),
        text="gather: batch_dims = 1 is out of range for data of shape (2, 3) and indices of "
        "shape (2, 2) (allowed: 0..0); batch axes come before axis",
    ),
    Bad(
        name="axis too large",
        error=AttributeValueError,
        function="gather_elements",
        options={"axis": 2},
        out_shape=(2, 2),
        text="gather_elements: axis = 2 is out of range for data of shape (2, 3) (allowed: -2..1)",
    ),
    Bad(
        name="axis no integer",
        error=DTypeError,
        function="gather_elements",
        options={"axis": 1.0},
        out_shape=(2, 2),
        text="gather_elements: axis = 1.0 is not an integer (allowed: an integer); the order is "
        "data, indices, axis",
    ),
    Bad(
        name="batch_dims no integer",
        error=DTypeError,
        options={"batch_dims": "0"},
        text="gather_nd: batch_dims = '0' is not an integer (allowed: an integer)",
    ),
    Bad(
        name="mode unknown",
        error=AttributeValueError,
        options={"mode": "Raise"},
        text="gather_nd: mode = 'Raise' is unknown (allowed: 'raise', 'wrap', 'clip', 'fill'); "
        "write 'raise'",
    ),
    Bad(
        name="mode no string",
        error=AttributeValueError,
        options={"mode": None},
        text="gather_nd: mode = None is unknown (allowed: 'raise', 'wrap', 'clip', 'fill')",
    ),
    Bad(
        name="fill_value without mode fill",
        error=AttributeValueError,
        options={"fill_value": 0},
        text="gather_nd: fill_value is given, but mode = 'raise' does not use it "
        "(allowed: mode='fill')",
    ),
    *(
        Bad(
            name=f"fill_value {value!r} of {dtype}",
            error=DTypeError,
            data=DATA.astype(dtype),
            options={"fill_value": value, "mode": "fill"},
            text=f"gather_nd: fill_value = {value!r} cannot be represented in data.dtype = {dtype} "
            "(allowed: one value of that type)",
        )
        for dtype, value in (
            ("int64", 0.5),
            ("int64", float("nan")),
            ("uint8", -1),
            ("uint8", 256),
            ("int8", 1000),
            ("int64", 2**63),
            ("int64", "x"),
            ("float64", 1j),
            ("int64", [1, 2]),
        )
    ),
)

BAD_OUT = (
    Bad(
        name="out no array",
        error=DTypeError,
        options={"out": [0, 0]},
        out_shape=None,
        text="gather_nd: out = list object is not an array (allowed: a NumPy array)",
    ),
    Bad(
        name="out of another dtype",
        error=DTypeError,
        options={"out": np.zeros(2, np.int32)},
        out_shape=None,
        text="gather_nd: out.dtype = int32 differs from data.dtype = int64 (allowed: int64)",
    ),
    Bad(
        name="out of the other byte order",
        error=DTypeError,
        options={"out": np.zeros(2, ">i8")},
        out_shape=None,
        text="gather_nd: out.dtype = >i8 differs from data.dtype = int64 (allowed: int64)",
    ),
    Bad(
        name="out of another shape",
        error=ShapeError,
        options={"out": np.zeros((2, 1), np.int64)},
        out_shape=None,
        text="gather_nd: out.shape = (2, 1) differs from the shape of the result (allowed: (2,))",
    ),
    Bad(
        name="out read-only",
        error=AttributeValueError,
        options={"out": np.broadcast_to(np.int64(0), (2,))},
        out_shape=None,
        text="gather_nd: out is read-only (allowed: a writeable array)",
    ),
    Bad(
        name="out repeats an element",
        error=AttributeValueError,
        options={"out": overlapping((2,), (0,))},
        out_shape=None,
        text="gather_nd: out.strides = (0,) let elements of out share memory "
        "(allowed: strides without overlap)",
    ),
    Bad(
        name="out overlaps itself in part",
        error=AttributeValueError,
        options={"out": overlapping((2,), (4,))},
        out_shape=None,
        text="gather_nd: out.strides = (4,) let elements of out share memory "
        "(allowed: strides without overlap)",
    ),
    Bad(
        name="rows of out overlap",
        error=AttributeValueError,
        indices=((0,), (1,)),
        options={"out": overlapping((2, 3), (16, 8))},
        out_shape=None,
        text="gather_nd: out.strides = (16, 8) let elements of out share memory "
        "(allowed: strides without overlap)",
    ),
)

BAD = (*BAD_INDEX, *BAD_SHAPE, *BAD_DTYPE, *BAD_OPTION, *BAD_OUT)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_class_and_text(bad):
    with pytest.raises(NdgatherError) as caught:
        bad()
    assert str(caught.value) == bad.text
    assert type(caught.value) is bad.error
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.out_shape is not None], ids=str)
def test_out_is_unchanged(bad):
    dtype = np.asarray(bad.data).dtype
    out = np.arange(np.prod(bad.out_shape, dtype=int), dtype=dtype).reshape(bad.out_shape) + 70
    before = element_bytes(out)
    with pytest.raises(bad.error):
        bad(out=out)
    assert element_bytes(out) == before


@pytest.mark.parametrize("bad", [bad for bad in BAD_OUT if bad.name != "out no array"], ids=str)
def test_refused_out_is_unchanged(bad):
    before = element_bytes(bad.options["out"])
    with pytest.raises(bad.error):
        bad()
    assert element_bytes(bad.options["out"]) == before


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (IndexOutOfBoundsError, IndexError),
        (DTypeError, TypeError),
        (AttributeValueError, ValueError),
    ],
)
def test_errors_are_also_builtin_errors(error, builtin):
    assert issubclass(error, builtin)
    assert issubclass(error, NdgatherError)


@pytest.mark.parametrize("index_dtype", ["i1", "u1", "i8", "u8", ">i4", ">u8"])
def test_attributes_of_the_first_bad_entry(index_dtype):
    """The first in C order of `indices`, in any memory order; all bad entries are counted."""
    indices = np.zeros((3, 4, 2), index_dtype, order="F")
    indices[2, 3, 1] = indices[1, 0, 1] = 100
    indices[1, 2, 0] = indices[0, 3, 1] = 101
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(np.zeros((7, 9, 2)), indices)
    error = caught.value
    assert error.position == (0, 3, 1)
    assert all(type(place) is int for place in error.position)
    assert (error.value, error.axis, error.size, error.count) == (101, 1, 9, 4)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_pickle_round_trip(bad):
    with pytest.raises(NdgatherError) as caught:
        bad()
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError):
        ndgather.gather_nd(DATA, [[0]], axis=0)
    with pytest.raises(TypeError):
        ndgather.gather_nd(DATA)
    with pytest.raises(TypeError):
        ndgather.gather_nd(DATA, [[0]], 0, "clip")
    with pytest.raises(TypeError):
        ndgather.gather_elements(DATA, [[0]], 0, mode="clip", modus="clip")


def test_masked_out_is_refused_for_data_without_a_mask():
    out = np.ma.zeros((1, 3))
    with pytest.raises(DTypeError, match=r"^gather_nd: out = masked array would lose its"):
        ndgather.gather_nd(np.eye(3), [[0]], out=out)
    assert not out.data.any()


@pytest.mark.parametrize("dtype", [np.dtype(object), np.dtypes.StringDType()])
@pytest.mark.parametrize("function", ["gather_nd", "scatter_nd"])
def test_out_that_cannot_store_references_is_named(function, dtype):
    data, indices = np.array(["a", "b"], dtype), np.array([[0], [1]])
    arguments = (data, indices) if function == "gather_nd" else (data, indices, data)
    refusals = {
        "out = list object is not an array (allowed: a NumPy array)": ["a", "b"],
        f"out.dtype = float64 differs from data.dtype = {dtype} (allowed: {dtype})": np.zeros(2),
        "out.shape = (3,) differs from the shape of the result (allowed: (2,))": np.zeros(3, dtype),
    }
    for text, out in refusals.items():
        with pytest.raises(ndgather.errors.NdgatherError) as caught:
            getattr(ndgather, function)(*arguments, out=out)
        assert str(caught.value) == f"{function}: {text}"


RECORDS = [
    np.dtype([("a", "i4"), ("b", "i4")]),
    np.dtype([("a", "f4"), ("b", "i4")]),
    np.dtype([("b", "i4"), ("a", "i4")]),
    np.dtype([("a", "i1"), ("b", "i4")], align=True),
    np.dtype("i8"),
]


@pytest.mark.parametrize("function", ["gather_nd", "scatter_nd"])
def test_out_must_have_the_fields_of_data(function):
    pairs = permutations(RECORDS, 2)
    for (one, other), indices in product(pairs, ([[0], [1]], np.array([[0], [1]]))):
        data, out = np.ones(2, one), np.zeros(2, other)
        arguments = (data, indices) if function == "gather_nd" else (data, indices, data)
        with pytest.raises(DTypeError) as caught:
            getattr(ndgather, function)(*arguments, out=out)
        assert str(caught.value) == (
            f"{function}: out.dtype = {other} differs from data.dtype = {one} (allowed: {one})"
        )
        assert out.tolist() == np.zeros(2, other).tolist()


def test_unknown_mode_is_reported_before_fill_value():
    with pytest.raises(AttributeValueError) as caught:
        ndgather.gather_nd([1, 2], [[5]], mode="bounce", fill_value=1)
    assert str(caught.value) == (
        "gather_nd: mode = 'bounce' is unknown (allowed: 'raise', 'wrap', 'clip', 'fill')"
    )


def test_invalid_cotangent_is_named():
    with pytest.raises(DTypeError) as caught:
        ndgather.vjp.gather_nd(object(), (3,), [[0]])
    assert str(caught.value) == (
        "vjp.gather_nd: cotangent = object object is not an array "
        "(allowed: an array, a number or nested lists of numbers)"
    )


SAMPLES = {
    "caller": "gather_nd",
    "argument": "data",
    "option": "axis",
    "name": "updates",
    "shape": (2, 3),
    "data": (2, 3),
    "indices": (2, 4),
    "updates": (5,),
    "expected": (2,),
    "out": (5,),
    "result": (2,),
    "choices": ("add", "mul"),
    "supported": ("none", "add"),
    "position": (0, 1),
    "lowest": -3,
}


@pytest.mark.parametrize(
    "name", [name for name in vars(messages) if "caller" in signature_of(name)]
)
def test_shared_texts_keep_their_form(name):
    """They name the function and the argument on one line, and list what is allowed."""
    parameters = signature_of(name)
    numbers = ("axis", "along", "value", "size", "count", "total", "rank", "highest", "batch_dims")
    samples = SAMPLES | dict.fromkeys(numbers, 1)
    required = [each for each in parameters.values() if each.default is each.empty]
    error = getattr(messages, name)(*(samples.get(each.name, "text") for each in required))
    assert isinstance(error, (NdgatherError, MemoryError))
    text = str(error)
    assert text.startswith("gather_nd: ")
    assert text.isprintable()
    assert "(allowed: " in text or isinstance(error, MemoryError)
