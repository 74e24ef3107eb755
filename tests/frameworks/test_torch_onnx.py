"""torch models exported to ONNX: the operators, and the results of onnxruntime."""

import io

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

import ndgather.arrays.torch
from tests.definitions import reference
from tests.frameworks.drawn_calls import GATHERS as GATHER_NAMES
from tests.frameworks.drawn_calls import SCATTERS as SCATTER_NAMES
from tests.frameworks.drawn_calls import drawn_calls
from tests.frameworks.torch_calls import GATHERS, SCATTERS, called, data_of, indices_of, same
from tests.models.test_version_steps import OLDER_ONNXRUNTIME

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.onnx and onnxscript, about themselves

ONNX_NAMES = {
    "gather_nd": "GatherND",
    "gather_elements": "GatherElements",
    "gather": "Gather",
    "gather_windows": "GatherND",
    "scatter_nd": "ScatterND",
    "scatter_elements": "ScatterElements",
}
MODES = ("raise", "wrap", "clip", "fill")


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def exported(calls, dynamic_shapes=None, call_of=called):
    """Return an exported program of several calls, because an export takes a second."""

    class Model(torch.nn.Module):
        def forward(self, *given):
            rest = iter(given)
            return tuple(
                call_of(kind, *(next(rest) for _ in taken), **options)
                for kind, taken, options in calls
            )

    return torch.onnx.export(
        Model(),
        tuple(each for _, given, _ in calls for each in given),
        dynamo=True,
        verbose=False,
        dynamic_shapes=dynamic_shapes,
        custom_translation_table=ndgather.arrays.torch.onnx_translations(),
    )


def called_directly(kind, *tensors, **options):
    """Run a call without normalizing negative axes, as the operators receive it."""
    return getattr(torch.ops.ndgather, kind)(*tensors, **options)


def run(program, given):
    """Return the names of the nodes of a program, and its results."""
    file = io.BytesIO()
    program.save(file)
    model = onnx.load_from_string(file.getvalue())
    session = onnxruntime.InferenceSession(file.getvalue())
    names = [each.name for each in session.get_inputs()]
    feeds = {name: each.numpy() for name, each in zip(names, given, strict=True)}
    results = session.run(None, feeds)
    return [node.op_type for node in model.graph.node], list(map(torch.from_numpy, results))


def equal_to_eager(calls):
    """Check that exported calls equal eager calls; return the names of the nodes."""
    nodes, results = run(exported(calls), [each for _, given, _ in calls for each in given])
    for result, (kind, given, options) in zip(results, calls, strict=True):
        same(result, called(kind, *given, **options))
    return nodes


GATHER_CASES = (
    *[case for case in GATHERS if 0 not in case[1] and 0 not in case[2]],
    ("gather", (2, 4, 3), (2, 5), {"axis": 1, "batch_dims": -1}),
    ("gather", (2, 4, 3), (2, 4, 5), {"axis": -1, "batch_dims": -1}),
    ("gather", (2, 3, 4, 3), (2, 5), {"axis": 2, "batch_dims": 1}),
    ("gather", (3, 4, 2), (5, 2), {"axis": -2}),
    ("gather_windows", (1, 3), (4, 2), {"window_shape": (1, 1)}),
)


@pytest.mark.parametrize("name", ["gather_nd", "gather_elements", "gather", "gather_windows"])
def test_gathers(name, rng):
    calls = []
    for kind, shape, places, options in GATHER_CASES:
        for mode in (*MODES, "edge", "reflect") if kind == "gather_windows" else MODES:
            indices = torch.from_numpy(indices_of(rng, kind, shape, places, options, mode))
            filled = {"fill_value": 1.5} if mode == "fill" else {}
            given = [data_of(rng, shape).float(), indices]
            calls += [(kind, given, options | {"mode": mode} | filled)] if kind == name else []
    nodes = equal_to_eager(calls)
    assert sum(node in {ONNX_NAMES[name], "GatherND"} for node in nodes) >= len(calls)


def test_scatters(rng):
    calls = []
    for kind, shape, places, sizes, options in SCATTERS[1::3]:
        for reduction in ("none", "add", "sub", "mul", "min", "max"):
            indices = torch.from_numpy(indices_of(rng, kind, shape, places, options))
            given = [data_of(rng, shape).float(), indices, data_of(rng, sizes).float()]
            if reduction == "none":
                given = [given[0], indices[:2] * 0 + torch.tensor([[0], [2]]), given[2][:2]]
            calls.append((kind, given, options | {"reduction": reduction}))
    nodes, results = run(exported(calls), [each for _, given, _ in calls for each in given])
    assert sum(node in ("ScatterND", "ScatterElements") for node in nodes) >= len(calls)
    for result, (kind, given, options_of) in zip(results, calls, strict=True):
        torch.testing.assert_close(result, called(kind, *given, **options_of))


def has_one_result(call):
    """Return whether a call can be exported and ONNX defines its result.

    Without a reduction, ONNX may keep any of several updates of one element.
    """
    options = call.options
    if call.error() is not None:
        return False
    arrays = (call.data, call.indices, call.updates, call.expected())
    if OLDER_ONNXRUNTIME and any(each is not None and not each.size for each in arrays):
        return False
    if call.name not in SCATTER_NAMES:
        return True
    if options["mode"] == "drop" or options["reduction"] == "mean":
        return False
    if options["reduction"] != "none":
        return options["use_init_val"]
    counts = getattr(reference, call.name)(
        np.zeros_like(call.data),
        call.indices,
        np.ones_like(call.updates),
        **options | {"reduction": "add", "use_init_val": True},
    )
    return counts.max(initial=0) <= 1


DTYPES = ("float32", "float64", "int64")
CALLS = drawn_calls([*GATHER_NAMES, *SCATTER_NAMES], DTYPES).filter(has_one_result)


def tensors_of(call):
    arrays = (call.data, call.indices, call.updates)
    return [torch.from_numpy(each) for each in arrays if each is not None]


# An export takes seconds, so an example has many calls and is not shrunk.
@settings(
    max_examples=min(max(settings.default.max_examples // 10, 4), 100),
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@drawn(st.lists(CALLS, min_size=24, max_size=40), st.sampled_from([called, called_directly]))
def test_drawn_calls(calls, call_of):
    written = [(call.name, tensors_of(call), call.options) for call in calls]
    program = exported(written, call_of=call_of)
    _, results = run(program, [tensor for _, each, _ in written for tensor in each])
    for call, result in zip(calls, results, strict=True):
        expected = call.expected()
        assert result.numpy().dtype == expected.dtype, call
        assert np.array_equal(result.numpy(), expected), call


def test_empty_axes():
    nothing, places = torch.zeros(2, 0, 3), torch.zeros(1, 2, 3, dtype=torch.int32)
    fill = {"mode": "fill", "fill_value": 1.5}
    calls = [
        ("gather_nd", [nothing, places[..., :2]], fill),
        ("gather_elements", [nothing, places], {"axis": 1} | fill),
        ("gather", [nothing, places], {"axis": 1} | fill),
        ("gather_windows", [nothing[0], places[0, :, :1]], {"window_shape": (2,)} | fill),
        *(("gather", [nothing, places[:, :0]], {"axis": 1, "mode": mode}) for mode in MODES),
        *(
            ("gather_elements", [nothing, places[:, :0]], {"axis": 1, "mode": mode})
            for mode in MODES
        ),
    ]
    equal_to_eager(calls)


def test_indices_of_several_calls(rng):
    class Model(torch.nn.Module):
        def forward(self, first, second, indices, far):
            return tuple(
                ndgather.gather(each, indices if mode == "raise" else far, mode=mode)
                for each in (first, second)
                for mode in MODES
            )

    indices, far = torch.tensor([1, 3, 0]), torch.tensor([1, 9, -3])
    given = data_of(rng, (4,)).float(), data_of(rng, (7,)).float(), indices, far
    table = ndgather.arrays.torch.onnx_translations()
    options = {"dynamo": True, "verbose": False, "custom_translation_table": table}
    _, results = run(torch.onnx.export(Model(), given, **options), given)
    for result, expected in zip(results, Model()(*given), strict=True):
        same(result, expected)


def test_windows_far_out_of_bounds(rng):
    ends = torch.iinfo(torch.int64)
    starts = torch.tensor([[ends.max], [ends.min], [4], [-4], [0]])
    calls = [
        (
            "gather_windows",
            [data_of(rng, (5,)).float(), starts],
            {"window_shape": (3,), "mode": mode},
        )
        for mode in ("clip", "fill", "edge", "wrap", "reflect")
    ]
    equal_to_eager(calls)


def test_dynamic_sizes(rng):
    given = [data_of(rng, (4, 3)).float(), torch.tensor([[1], [3]])]
    free = torch.export.Dim.DYNAMIC
    program = exported([("gather_nd", given, {})], (({0: free}, {0: free}),))
    more = [data_of(rng, (9, 3)).float(), torch.tensor([[8], [3], [0]])]
    nodes, (result,) = run(program, more)
    assert "GatherND" in nodes
    same(result, more[0][[8, 3, 0]])


def test_calls_that_onnx_cannot_express_raise(rng):
    given = [data_of(rng, (4,)).float(), torch.tensor([[1], [3]]), torch.ones(2)]
    no_values = {"reduction": "add", "use_init_val": False}
    for options in ({"reduction": "mean"}, {"mode": "drop"}, no_values):
        with pytest.raises(Exception, match=r"cannot be expressed in ONNX"):
            exported([("scatter_nd", given, options)])
    with pytest.raises(Exception, match=r"indices.dtype = torch.uint64 of a call cannot be"):
        exported([("gather_nd", [given[0], given[1].to(torch.uint64)], {})])
    for dtype, reduction in ((torch.uint8, "sub"), (torch.bool, "sub"), (torch.bool, "add")):
        few = [given[0].to(dtype), given[1], given[2].to(dtype)]
        with pytest.raises(
            Exception, match=rf"reduction = '{reduction}' of a scatter of .* cannot"
        ):
            exported([("scatter_nd", few, {"reduction": reduction})])
    given = [data_of(rng, (2, 4)).float(), torch.tensor([[[1]], [[3]]]), torch.ones(2, 1)]
    with pytest.raises(Exception, match=r"batch_dims = 1 of a scatter cannot be expressed"):
        exported([("scatter_nd", given, {"batch_dims": 1})], call_of=called_directly)
    given = [data_of(rng, (4, 4)).float(), torch.tensor([[1, 2]])]
    options = {"window_shape": (2, 2), "mode": ("wrap", "edge")}
    with pytest.raises(Exception, match=r"mode = .* of a gather of windows cannot be expressed"):
        exported([("gather_windows", given, options)])


def test_fill_values_and_zeros_keep_digits_and_signs():
    calls = []
    for dtype, value in (
        (torch.float64, 0.1),
        (torch.float32, 0.1),
        (torch.float32, float("nan")),
        (torch.int64, 2**53 + 1),
        (torch.int64, -(2**63)),
        (torch.uint8, 200),
        (torch.float64, None),
    ):
        given = [torch.tensor([-0.0, 2.0, 0.0]).to(dtype), torch.tensor([[0], [5], [1], [2]])]
        options = {"mode": "fill"} | ({} if value is None else {"fill_value": value})
        calls.append(("gather_nd", given, options))
    _, results = run(exported(calls), [each for _, given, _ in calls for each in given])
    for result, (_, given, options) in zip(results, calls, strict=True):
        expected = ndgather.gather_nd(*given, **options)
        assert result.dtype == expected.dtype
        assert result.numpy().tobytes() == expected.numpy().tobytes()
