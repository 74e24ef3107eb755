"""Calls on tensors, and their results by `tests.definitions.reference`."""

import numpy as np
import torch

import ndgather
from ndgather.array_call import Call, Kind
from ndgather.arrays.torch import checks, operators
from tests.definitions import reference

GATHERS = (
    ("gather_nd", (4, 3), (5, 2), {}),
    ("gather_nd", (4, 3, 2), (5, 1), {}),
    ("gather_nd", (2, 4, 3), (2, 5, 1), {"batch_dims": 1}),
    ("gather_nd", (4, 3), (2, 0), {}),
    ("gather_nd", (0, 3), (0, 1), {}),
    ("gather_elements", (4, 3), (6, 3), {}),
    ("gather_elements", (4, 3), (2, 5), {"axis": -1}),
    ("gather_elements", (2, 4, 3), (2, 2, 3), {"axis": 1}),
    ("gather", (4, 3), (2, 2), {}),
    ("gather", (4, 3), (), {"axis": 1}),
    ("gather", (2, 3, 4), (2, 5), {"axis": 2, "batch_dims": 1}),
    ("gather", (2, 3, 4), (2, 5), {"axis": -1, "batch_dims": -1}),
    ("gather_windows", (6, 5), (3, 2), {"window_shape": (2, 3)}),
    ("gather_windows", (6, 5, 2), (2, 2, 1), {"window_shape": (3,)}),
)
SCATTERS = (
    ("scatter_nd", (4, 3), (7, 2), (7,), {}),
    ("scatter_nd", (4, 3), (6, 1), (6, 3), {}),
    ("scatter_nd", (4, 3, 2), (2, 3, 2), (2, 3, 2), {}),
    ("scatter_nd", (2, 3), (2, 0), (2, 2, 3), {}),
    ("scatter_elements", (4, 3), (6, 2), (6, 2), {}),
    ("scatter_elements", (2, 4), (2, 6), (2, 6), {"axis": -1}),
)
# The device of the kernels; without a GPU, Triton's interpreter runs them.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")


def axis_sizes(kind, shape, indices, options):
    """Return the sizes of the axes that index values address, along the last axis."""
    if kind == "gather_windows":
        return [s - w + 1 for s, w in zip(shape, options["window_shape"], strict=False)]
    if kind.endswith("_nd"):
        first = options.get("batch_dims", 0)
        return list(shape[first : first + indices[-1]])
    return shape[options.get("axis", 0)]


def indices_of(rng, kind, shape, indices, options, mode="raise"):
    """Return index values of all kinds that the mode allows."""
    sizes = np.array(axis_sizes(kind, shape, indices, options), np.int64)
    if mode == "raise":
        low, high = (0 * sizes if kind == "gather_windows" else -sizes), sizes
    else:
        low, high = -2 * sizes - 1, 2 * sizes + 1
    return rng.integers(low, high, indices)


def data_of(rng, shape, dtype=torch.float64, device="cpu"):
    """Return distinct values in random order, so that a misplaced value shows."""
    values = rng.permutation(int(np.prod(shape))).reshape(shape) + 1
    return torch.from_numpy(values).to(device, dtype)


def expected(kind, data, indices, *updates, **options):
    """Return the result of the plain loops as a tensor."""
    arrays = [each.detach().cpu().resolve_conj().resolve_neg().numpy() for each in (data, *updates)]
    window = options.pop("window_shape", None)
    if window is not None:
        options = {"window_shape": window} | options
    loop = getattr(reference, kind)
    result = loop(arrays[0], torch.as_tensor(indices).cpu().numpy(), *arrays[1:], **options)
    return torch.from_numpy(np.asarray(result))


def called(kind, data, indices, *updates, **options):
    return getattr(ndgather, kind)(data, indices, *updates, **options)


def same(result, wanted):
    """Assert that tensors are equal, on a GPU or in the memory of the CPU."""
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(result, wanted, **exact, check_device=False)


def by_core(kind, data, indices, updates=None, **options):
    """Run a call in the core."""
    given = [torch.as_tensor(each).cpu() for each in (data, indices)]
    updates = None if updates is None else updates.cpu()
    call = Call(kind, Kind(kind), *given, updates, **options)
    return operators.run(checks.checked(checks.with_nonnegative_axes(call)))


def same_bits(result, wanted):
    """A NaN may have other bits, because each device has its own."""
    result = result.cpu()
    assert result.dtype == wanted.dtype
    if result.dtype.is_floating_point:
        assert torch.equal(result.isnan(), wanted.isnan())
        result, wanted = (each.masked_fill(each.isnan(), 0) for each in (result, wanted))
    assert result.shape == wanted.shape
    same(result.contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8))
