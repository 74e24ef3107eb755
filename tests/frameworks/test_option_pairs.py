"""For arrays of each library, every pair of options meets; the result is that of the loops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict
import mlx.core as mx
import numpy as np
import pytest
import tensorflow as tf
import torch

from ndgather.arrays import standard
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import expected
from tests.definitions.covering import covering_calls
from tests.definitions.draws import MODES, SCATTERS

NUMBERS = ("?", "i1", "u1", "i4", "i8", "f4", "f8", "F", "u2")
INTEGERS = ("i8", "i4", "i1", "u1", "u2", "u8")
VERSIONS = ("2023.12", "2024.12", "2025.12")  # of the array API standard
#: Libraries make NumPy's layouts their own; the tests of mixed libraries draw them.
LAYOUTS = {"layout": ("C",), "index layout": ("C",)}


@dataclass(frozen=True, kw_only=True)
class Library:
    """How arrays of a library are made and read, and which dtypes its calls take."""

    make: Callable[[np.ndarray], Any]
    kind: type
    read: Callable[[Any], np.ndarray] = np.asarray
    dtypes: tuple[str, ...] = NUMBERS
    reduced: tuple[str, ...] = ("i4", "i8", "f4", "f8")
    index_dtypes: tuple[str, ...] = INTEGERS


STRICT = {"make": array_api_strict.asarray, "kind": type(array_api_strict.asarray(0))}
LIBRARIES = {
    "strict": Library(read=np.from_dlpack, **STRICT),
    "strict on a GPU": Library(read=np.from_dlpack, **STRICT),
    "torch": Library(make=torch.from_numpy, kind=torch.Tensor, reduced=NUMBERS),
    "TensorFlow": Library(make=tf.constant, kind=tf.Tensor, reduced=(*NUMBERS[1:7], "?")),
    "MLX": Library(make=mx.array, kind=mx.array, dtypes=NUMBERS[:6], reduced=("i8", "f4")),
}


@pytest.fixture
def library(request, monkeypatch):
    if request.param == "strict on a GPU":  # whose memory tensors share, as they share the CPU's
        monkeypatch.setattr(standard, "_ON_GPU", (1,))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return LIBRARIES[request.param]


@pytest.mark.parametrize("function", [name for name in MODES if name != "gather_ranges"])
@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
def test_options_that_meet_give_the_definition(library, function, draws):
    scatters = function in SCATTERS
    more = LAYOUTS | ({"update layout": ("C",)} if scatters else {})
    more["dtype"] = library.reduced if scatters else library.dtypes
    more["index dtype"] = library.index_dtypes
    more["version"] = VERSIONS
    for row, call in covering_calls(draws, function, ("mode", "sizes", "points"), **more):
        try:
            with array_api_strict.ArrayAPIStrictFlags(api_version=row["version"]):
                compare(library, call)
        except BaseException as error:
            error.add_note(f"{row}\n{call}")
            raise


def compare(library, call):
    refused = None
    try:
        call.result()
    except IndexOutOfBoundsError as error:
        refused = error
    arguments = [library.make(np.array(array)) for array in call.arguments()]
    if refused is not None:
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(*arguments)
        assert str(caught.value) == str(refused)
        assert caught.value.position == refused.position
        return
    with np.errstate(all="ignore"):
        desired = expected(call)
    found = call.result(*arguments)
    assert isinstance(found, library.kind)
    values = library.read(found)
    if call.computes and desired.dtype.kind in "fc":  # a library may add in another order
        assert values.dtype == desired.dtype
        tolerance = 64 * np.finfo(desired.dtype).eps
        scale = float(np.max(np.abs(desired[np.isfinite(desired)]), initial=1))
        np.testing.assert_allclose(values, desired, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(values, desired, strict=True)
