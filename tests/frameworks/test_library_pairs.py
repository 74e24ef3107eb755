"""Calls with arguments from every pair of libraries, compared with plain loops.

According to `docs/kinds.md`, the result has the library, device and dtype of data, or the call is
refused.
"""

import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace

import array_api_strict
import dask.array
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import torch
import zarr

import ndgather
from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from tests.definitions import calls
from tests.definitions.covering import FUNCTIONS, INDEX_DTYPES, cover, make_call, options_of
from tests.definitions.draws import DATA_DTYPES, SCATTERS

NATIVE = {np.dtype(each).newbyteorder(order) for each in "?bhiqBHIQefdFD" for order in "<>"}
NUMBERS = tuple(np.dtype(char) for char in "?bhiqBHIQefdFD")
DTYPES = [dtype for dtype in DATA_DTYPES if dtype.char != "O"]
INTEGERS = (*INDEX_DTYPES, "u8", "u1")


def listed(array):
    made = array.tolist()
    same = np.asarray(made)
    return made if same.shape == array.shape and same.dtype == array.dtype else None


def in_chunks(array):
    chunks = tuple(max(1, size // 2) for size in array.shape)
    return dask.array.from_array(array, chunks=chunks, name=False)


def stored(array):
    made = zarr.create_array(
        {}, shape=array.shape, dtype=array.dtype, chunks=tuple(max(1, n // 2) for n in array.shape)
    )
    made[...] = array
    return made


def column(array):
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or array.dtype.char == "e":
        return None
    if array.ndim == 1:
        return pd.Series(array)
    return pd.DataFrame(array) if array.size else None


MAKERS = {
    "numpy": lambda array: array,
    "list": listed,
    "memoryview": lambda array: memoryview(array) if array.dtype.char not in "eFD" else None,
    "torch": lambda array: torch.from_numpy(array.copy()),
    "jax": jnp.asarray,
    "dask": in_chunks,
    "zarr": stored,
    "strict": lambda array: array_api_strict.asarray(array.copy()),
    "pandas": column,
}
KINDS = {
    "numpy": np.ndarray,
    "torch": torch.Tensor,
    "jax": jax.Array,
    "dask": dask.array.Array,
    "zarr": zarr.Array,
    "strict": type(array_api_strict.asarray(0)),
}
HIGHEST_RANK = dict.fromkeys(MAKERS, 64) | {"zarr": 32}
FRAMEWORKS = ("torch", "jax", "strict")


def make(library, array):
    """Return an array of a library with these elements, or None if it cannot have them."""
    if library != "numpy":
        if array.dtype not in NATIVE:
            return MAKERS[library](array) if library == "dask" else None
        array = array.astype(np.dtype(array.dtype.str).newbyteorder("="), order="C")
        if (library == "strict" and array.dtype.char == "e") or array.ndim > HIGHEST_RANK[library]:
            return None
    made = MAKERS[library](array)
    if library == "jax" and made.dtype != array.dtype:
        return None
    return made


def values_of(result):
    """Return a result as a NumPy array; lazy results are computed."""
    if isinstance(result, dask.array.Array):
        return np.asarray(result.compute(scheduler="synchronous"))
    if isinstance(result, KINDS["strict"]):
        return np.from_dlpack(result)
    return np.asarray(result[...] if isinstance(result, zarr.Array) else result)


@dataclass(kw_only=True)
class Mixed:
    """A drawn call and the libraries of its arguments."""

    call: calls.PublicCall
    axes: int  # the number of leading axes of size 1 that its arrays have in addition
    libraries: dict
    arguments: dict
    out: object = None
    differs: bool = False  # whether updates and data have different dtypes

    def run(self):
        more = {} if self.out is None else {"out": self.out}
        call = self.call
        if call.options.get("axis", -1) >= 0:
            call = replace(call, options={**call.options, "axis": call.options["axis"] + self.axes})
        return call.result(*self.arguments.values(), **more)

    @property
    def kind(self):
        """The library of the result, if the call is not refused."""
        data = self.libraries["data"]
        others = {self.libraries[name] for name in self.libraries if name != "out"}
        if data == "zarr" and self.call.scatters:
            return "zarr"
        if "dask" in others:
            return "dask"
        return data if data in FRAMEWORKS else "numpy"

    @property
    def may_refuse(self):
        """Whether the call may raise an error other than for an index."""
        libraries, call = self.libraries, self.call
        data = libraries["data"]
        others = [libraries[name] for name in libraries if name not in ("data", "out")]
        if data == "pandas" or self.differs or "dask" in others:
            return True
        if data == "dask" and self.axes > 20:
            return True
        if libraries.get("out") not in (None, self.kind) or (
            self.out is not None and data in ("jax", "dask")
        ):
            return True
        if data == "jax" and call.function == "gather_windows":
            return True
        return data == "zarr" and call.scatters and self.out is not self.arguments["data"]

    def __str__(self):
        return f"{self.libraries} differs={self.differs} out={type(self.out)}\n{self.call}"


def mixed_of(choose, row, call):
    """Return a call whose arguments have the libraries of a row."""
    axes = 0
    if call.function.endswith("_elements") and not call.data.dtype.names and row["many axes"]:
        axes = choose.choice((64, 63, 33, 32)) - call.data.ndim
    differs = call.scatters and row["dtype of updates"] != "of data"
    if differs:
        width, kind = call.data.dtype.itemsize, call.data.dtype.kind
        others = [d for d in NUMBERS if d != native(call.data.dtype)]
        if row["dtype of updates"] == "of another width":
            others = [d for d in others if d.itemsize != width and d.kind == kind] or others
        else:
            others = [d for d in others if d.itemsize == width] or others
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = replace(call, updates=call.updates.astype(choose.choice(others)))
    libraries, arguments = {}, {}
    for name in ("data", "indices", "stops", "updates"):
        array = getattr(call, name)
        if array is None:
            continue
        array = array.reshape((1,) * axes + array.shape)
        library = row["indices" if name == "stops" else name]
        made = make(library, array)
        if made is None:
            library, made = "numpy", array
        libraries[name], arguments[name] = library, made
    mixed = Mixed(call=call, axes=axes, libraries=libraries, arguments=arguments, differs=differs)
    out = row["out"]
    if call.scatters and (out == "data" or (out is None and libraries["data"] == "zarr")):
        mixed.out, libraries["out"] = arguments["data"], libraries["data"]
        if isinstance(mixed.out, np.ndarray):
            mixed.out = arguments["data"] = own_memory(mixed.out)
    elif out is not None and (shape := shape_of_result(call)) is not None:
        shape = (1,) * axes + shape
        library = {"data": libraries["data"], "other": choose.choice([*MAKERS])}.get(out, out)
        room = blank(shape, call.data.dtype)
        made = room if library == "numpy" else make(library, np.zeros(shape, call.data.dtype))
        if made is not None:
            libraries["out"], mixed.out = library, made
    for name in ("axis", "batch_dims"):
        if name in call.options and choose.random() < 0.1:
            convert = choose.choice((np.int64, torch.tensor, jnp.asarray, np.array))
            call.options[name] = convert(call.options[name])
    return mixed


def blank(shape, dtype):
    """Return an array of bytes 0xA5, if its elements may have any bytes."""
    room = np.empty(shape, dtype)
    if calls.moves_as_bytes(dtype) and dtype.itemsize:
        room.view(f"V{dtype.itemsize}")[...] = b"\xa5" * dtype.itemsize
    return room


def own_memory(array):
    """Return a writable, row-major copy with all bytes."""
    if not calls.moves_as_bytes(array.dtype) or not array.dtype.itemsize:
        return array.copy()
    return array.view(f"V{array.dtype.itemsize}").copy().view(array.dtype)


def shape_of_result(call):
    if call.scatters:
        return call.data.shape
    try:
        with np.errstate(all="ignore"):
            return calls.expected(call).shape
    except IndexError:
        return None


def compare(mixed):
    call, out = mixed.call, mixed.out
    untouched, bad, desired = gaps_of(out), [], None
    if call.function not in ("gather_windows", "gather_ranges"):
        bad = calls.bad_entries(plain_options(call))
    if not bad:
        with np.errstate(all="ignore"), suppress(IndexError):
            desired = calls.expected(plain_options(held(call)))
            desired = desired.reshape((1,) * mixed.axes + desired.shape)
    result, error = outcome(mixed)
    if isinstance(error, IndexOutOfBoundsError):
        assert desired is None, f"no entry is out of bounds: {error}"
        if bad:
            assert error.count == len(bad), f"{len(bad)} entries: {error}"
            assert error.position[mixed.axes :] == bad[0].position, error
    elif error is not None:
        assert str(error).startswith(call.function), error
        assert mixed.may_refuse or desired is None, error
    else:
        assert desired is not None, "an index is out of bounds"
        assert isinstance(result, KINDS[mixed.kind]), f"{type(result)}, not {mixed.kind}"
        assert out is None or result is out
        assert not mixed.differs or mixed.libraries["updates"] == "list", "rounded"
        values, wanted = values_of(result), desired.dtype
        if mixed.kind == "dask":  # concatenation uses native byte order
            values, wanted = values.astype(native(values.dtype)), native(wanted)
        assert values.dtype == wanted, f"{values.dtype}, not {wanted}"
        assert_same(mixed, values, desired)
    assert gaps_of(out) == untouched, "bytes between fields were written"


def outcome(mixed):
    """Return the computed result of a call, or its ndgather error."""
    try:
        result = mixed.run()
        if isinstance(result, dask.array.Array):
            result = result.persist(scheduler="synchronous")
    except (NdgatherError, MemoryError) as error:
        return None, error
    return result, None


def native(dtype):
    return dtype if dtype.char == "T" or dtype.names else dtype.newbyteorder("=")


def held(call):
    """Return a call with updates in the dtype of data, even if their values change."""
    if call.updates is None or call.updates.dtype == call.data.dtype:
        return call
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replace(call, updates=call.updates.astype(call.data.dtype))


def plain_options(call):
    options = {
        name: int(value) if name in ("axis", "batch_dims") else value
        for name, value in call.options.items()
    }
    return replace(call, options=options)


def gaps_of(out):
    if not isinstance(out, np.ndarray) or not out.dtype.names:
        return b""
    stored = np.frombuffer(calls.element_bytes(out), np.uint8)
    stored = stored.reshape(out.size, out.itemsize)
    return stored[:, calls.byte_roles(out.dtype) == "gap"].tobytes()


def assert_same(mixed, values, desired):
    assert values.shape == desired.shape
    if desired.dtype.names:
        for name in desired.dtype.names:
            np.testing.assert_array_equal(values[name], desired[name])
    elif desired.dtype.kind in "biufc" and mixed.libraries["data"] == "jax" and mixed.call.computes:
        with np.errstate(all="ignore"):
            tolerance = 0 if desired.dtype.kind in "biu" else 64 * np.finfo(desired.dtype).eps
        np.testing.assert_allclose(values, desired, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(values, desired)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_of_several_libraries_follow_the_definition_or_raise(function, draws):
    libraries = [*MAKERS]
    options = {
        "data": libraries,
        "indices": libraries,
        "dtype": ("f8", "f4", "i8", *draws.sample(DTYPES, 5)),
        "index dtype": INTEGERS,
        "out": (None, "data", "numpy", "other"),
        "x64": (True, False),
        "many axes": (False, True),
    }
    if function in SCATTERS:
        options["updates"] = libraries
        options["dtype of updates"] = ("of data", "of another width", "of another kind")
    together = ("data", "updates", "dtype of updates")
    for row in cover(draws, options_of(function) | options, together):
        if row["data"] not in ("numpy", "dask"):
            row["dtype"] = draws.choice("?qdD" if row["data"] == "list" else NUMBERS)
        elif row.get("dtype of updates", "of data") != "of data":
            row["dtype"] = draws.choice(NUMBERS)
        call = make_call(draws, function, row)
        with jax.enable_x64(row["x64"]):
            mixed = mixed_of(draws, row, call)
            try:
                compare(mixed)
            except BaseException as error:
                error.add_note(f"{row}\n{mixed}")
                raise


# Arrays with elements, sizes or values that another library does not have.
ODD = {
    "key of JAX": lambda: jax.random.split(jax.random.key(0), 3),
    "int4 of JAX": lambda: jnp.array([1, 0, 1], "int4"),
    "float4 of JAX": lambda: jnp.array([1, 0, 1], "float4_e2m1fn"),
    "float8 of JAX": lambda: jnp.array([1, 0, 1], jnp.float8_e4m3fn),
    "shape of JAX": lambda: jax.ShapeDtypeStruct((3,), "int32"),
    "deleted": lambda: deleted(jnp.ones(3)),
    "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "bits": lambda: torch.zeros(3, dtype=torch.uint8).view(torch.bits8),
    "gradient": lambda: torch.ones(3, requires_grad=True),
    "conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "sparse": lambda: torch.ones(3).to_sparse(),
    "meta": lambda: torch.zeros(3, device="meta", dtype=torch.int64),
    "zeros": lambda: torch._efficientzerotensor(3),
    "fake": lambda: torch._subclasses.FakeTensorMode().from_tensor(torch.ones(3)),
    "functional": lambda: torch._to_functional_tensor(torch.ones(3)),
    "uninitialized": torch.nn.parameter.UninitializedParameter,
    "70 axes": lambda: torch.ones((1,) * 70),
    "strings": lambda: np.array(["a", "b", "c"], "T"),
    "objects": lambda: np.array([1, 0, 1], object),
    "records": lambda: np.zeros(3, "i4,f4"),
    "no bytes": lambda: np.zeros(3, "V0"),
    "long double": lambda: np.ones(3, "g"),
    "mask": lambda: np.ma.array([1, 0, 1], mask=[1, 0, 0]),
    "another device": lambda: array_api_strict.asarray(
        [1, 0, 1], device=array_api_strict.Device("device1")
    ),
    "unknown size": lambda: in_chunks(DATA)[in_chunks(DATA) > 0],
    "group": lambda: zarr.create_group({}),
    "missing": lambda: pd.Series([1, None, 1], dtype="Int64"),
    "numbers of two libraries": lambda: [jnp.int32(1), torch.tensor(0)],
}
DATA = np.arange(3.0)
USES = {
    "data": lambda data, odd: ndgather.gather(odd, [0]),
    "indices": ndgather.gather,
    "tuples": ndgather.gather_nd,
    "starts": lambda data, odd: ndgather.gather_windows(data, odd, (1,)),
    "ranges": lambda data, odd: ndgather.gather_ranges(data, odd, lengths=1)[0],
    "updates": lambda data, odd: ndgather.scatter_elements(data, [0, 1, 2], odd),
    "added": lambda data, odd: ndgather.scatter_elements(odd, [0], data, reduction="add"),
    "out": lambda data, odd: ndgather.gather(data, [0, 1, 2], out=odd),
    "out of a scatter": lambda data, odd: ndgather.scatter_elements(data, [0], [1.0], out=odd),
    "fill": lambda data, odd: ndgather.gather(data, [9], mode="fill", fill_value=odd),
    "axis": lambda data, odd: ndgather.gather(data, [0], axis=odd),
    "batch_dims": lambda data, odd: ndgather.gather_nd(data, [[0]], batch_dims=odd),
    "mode": lambda data, odd: ndgather.gather(data, [0], mode=odd),
    "window": lambda data, odd: ndgather.gather_windows(data, [[0]], odd),
    "start": lambda data, odd: ndgather.scatter_elements(
        data, [0], [1.0], reduction="add", use_init_val=odd
    ),
    "cotangent": lambda data, odd: ndgather.vjp.gather_nd(odd, (3,), [[0], [1], [2]]),
    "cotangent of a scatter": lambda data, odd: ndgather.vjp.scatter_elements(odd, [0]),
    "shape": lambda data, odd: ndgather.vjp.gather_nd(data, odd, [[0], [1], [2]]),
}


def deleted(array):
    array.delete()
    return array


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", [*MAKERS])
def test_unusual_arrays_give_a_result_or_an_error(library, draws):
    pairs = [(name, use) for name in ODD for use in USES]
    for name, use in draws.sample(pairs, 120):
        print(name, "as", use)
        try:
            values_of(USES[use](make(library, DATA), ODD[name]()))
        except (NdgatherError, MemoryError):
            continue
        except (TypeError, RuntimeError, ValueError) as error:
            # Some results cannot be read here, for example on `meta` or with a gradient.
            if any("/src/ndgather/" in each.filename for each in frames_of(error)):
                raise


@pytest.mark.parametrize("use", ["updates", "fill", "cotangent"])
def test_tensor_with_a_gradient_is_converted_unless_gradients_are_recorded(use):
    tensor = torch.arange(3.0, dtype=torch.float64).requires_grad_()
    odd = tensor[1] if use == "fill" else tensor
    with torch.no_grad():
        values = values_of(USES[use](DATA, odd))
    assert values.tolist() == ([1.0] if use == "fill" else [0.0, 1.0, 2.0])


def frames_of(error):
    return traceback.extract_tb(error.__traceback__)
