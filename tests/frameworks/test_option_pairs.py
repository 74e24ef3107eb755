"""All pairs of options for arrays of each library give the results of the loops."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
import tensorflow as tf
import torch

import ndgather
from ndgather.arrays import standard
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import expected
from tests.definitions.covering import compare_covering_calls
from tests.definitions.draws import MODES, SCATTERS
from tests.definitions.environments import environment
from tests.frameworks.jax_calls import carried_out_by

NUMBERS = ("?", "i1", "u1", "i4", "i8", "f4", "f8", "F", "u2")
INTEGERS = ("i8", "i4", "i1", "u1", "u2", "u8")
VERSIONS = ("2023.12", "2024.12", "2025.12")  # array API standard
#: The routes of JAX, and whether `jit` compiles the call. Eager calls on the native route compile
#: each step; `test_jax_definitions` draws them.
WAYS = (("handler", False), ("handler", True), ("native", True), ("callback", False))
#: Libraries choose their own layouts; the tests of mixed libraries draw NumPy's.
LAYOUTS = {"layout": ("C",), "index layout": ("C",)}


@dataclass(frozen=True, kw_only=True)
class Library:
    """How to create and read arrays of a library, and the dtypes that its calls support."""

    make: Callable[[np.ndarray], Any]
    kind: type
    read: Callable[[Any], np.ndarray] = np.asarray
    dtypes: tuple[str, ...] = NUMBERS
    reduced: tuple[str, ...] = ("i4", "i8", "f4", "f8")
    index_dtypes: tuple[str, ...] = INTEGERS
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)


STRICT = {"make": array_api_strict.asarray, "kind": type(array_api_strict.asarray(0))}
LIBRARIES = {
    "strict": Library(read=np.from_dlpack, **STRICT),
    "strict on a GPU": Library(read=np.from_dlpack, **STRICT),
    "torch": Library(make=torch.from_numpy, kind=torch.Tensor, reduced=NUMBERS),
    "TensorFlow": Library(make=tf.constant, kind=tf.Tensor, reduced=(*NUMBERS[1:7], "?")),
    "MLX": Library(make=mx.array, kind=mx.array, dtypes=NUMBERS[:6], reduced=("i8", "f4")),
    "JAX": Library(
        make=jnp.asarray,
        kind=jax.Array,
        dtypes=("?", "u1", "i4", "f4", "F"),  # each row is compiled
        reduced=("?", "u1", "i4", "f4", "F"),
        index_dtypes=("i8", "i4", "u1"),
        options={"way": WAYS},
    ),
}


@pytest.fixture
def library(request, monkeypatch):
    if request.param == "strict on a GPU":  # whose memory tensors share, as on the CPU
        monkeypatch.setattr(standard, "_ON_GPU", (1,))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return LIBRARIES[request.param]


@pytest.mark.parametrize("function", [name for name in MODES if name != "gather_ranges"])
@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
def test_option_pairs_follow_the_definition(library, function, draws):
    scatters = function in SCATTERS
    more = LAYOUTS | ({"update layout": ("C",)} if scatters else {})
    more["dtype"] = library.reduced if scatters else library.dtypes
    more["index dtype"] = library.index_dtypes
    more |= library.options
    if library.kind is STRICT["kind"]:
        more["version"] = VERSIONS
    # JAX compiles each row, so that its rows cover pairs alone.
    together = () if library.kind is jax.Array else ("mode", "sizes", "points")
    with jax.enable_x64(True):
        compare_covering_calls(partial(compare, library), draws, function, together, **more)


def compare(library, row, call):
    if row.get("way", "")[:1] == ("native",):  # XLA threads have their own environment
        call = replace(call, environment=None)
    if library.kind is jax.Array and "raise" in (mode := call.options["mode"]) and "fill" in mode:
        return  # JAX fills if it cannot raise
    (route, jit), version = row.get("way", ("handler", False)), row.get("version", VERSIONS[0])
    strict_version = array_api_strict.ArrayAPIStrictFlags(api_version=version)
    with strict_version, carried_out_by(route), np.errstate(all="ignore"):
        try:
            call.result()
        except IndexOutOfBoundsError as error:
            assert_same_refusal(library, call, error)
            return
        desired = expected(call)
        found = run(library, call, jit=jit)
    assert isinstance(found, library.kind)
    values = library.read(found)
    if call.computes and desired.dtype.kind in "fc":  # a library may add in another order
        assert values.dtype == desired.dtype
        tolerance = 64 * np.finfo(desired.dtype).eps
        scale = float(np.max(np.abs(desired[np.isfinite(desired)]), initial=1))
        np.testing.assert_allclose(values, desired, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(values, desired, strict=True)


def run(library, call, *, jit=False):
    arguments = [library.make(np.array(array)) for array in call.arguments()]
    if not jit:
        return call.result(*arguments)
    with environment(call.environment):
        return jax.jit(partial(getattr(ndgather, call.function), **call.options))(*arguments)


def assert_same_refusal(library, call, error):
    with pytest.raises(IndexOutOfBoundsError) as caught:
        run(library, call)
    assert str(caught.value) == str(error)
    assert caught.value.position == error.position
