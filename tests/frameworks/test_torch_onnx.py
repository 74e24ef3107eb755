"""Models of torch exported to ONNX: the names of the operators, the numbers of onnxruntime."""

import io

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import ndgather.arrays.torch
from tests.frameworks.torch_calls import GATHERS, SCATTERS, called, data_of, indices_of, same

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.onnx and onnxscript, about themselves

ONNX_NAMES = {
    "gather_nd": "GatherND",
    "gather_elements": "GatherElements",
    "gather": "Gather",
    "gather_windows": "GatherND",
    "scatter_nd": "ScatterND",
    "scatter_elements": "ScatterElements",
}


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def exported(kind, given, options, dynamic_shapes=None):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return called(kind, *given, **options)

    return torch.onnx.export(
        Model(),
        tuple(given),
        dynamo=True,
        verbose=False,
        dynamic_shapes=dynamic_shapes,
        custom_translation_table=ndgather.arrays.torch.onnx_translations(),
    )


def run(program, given):
    file = io.BytesIO()
    program.save(file)
    model = onnx.load_from_string(file.getvalue())
    session = onnxruntime.InferenceSession(file.getvalue())
    names = [each.name for each in session.get_inputs()]
    feeds = {name: each.numpy() for name, each in zip(names, given, strict=True)}
    return {node.op_type for node in model.graph.node}, torch.from_numpy(
        session.run(None, feeds)[0]
    )


GATHERED = [
    (kind, shape, places, options, mode)
    for kind, shape, places, options in GATHERS
    for mode in ("raise", "wrap", "clip", "fill", "edge", "reflect")
    if 0 not in shape and 0 not in places
    if kind == "gather_windows" or mode not in ("edge", "reflect")
]


@pytest.mark.parametrize(("kind", "shape", "places", "options", "mode"), GATHERED)
def test_gathers(kind, shape, places, options, mode, rng):
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options, mode))
    options = options | {"mode": mode} | ({"fill_value": 1.5} if mode == "fill" else {})
    given = [data_of(rng, shape).float(), indices]
    nodes, result = run(exported(kind, given, options), given)
    assert nodes & {ONNX_NAMES[kind], "GatherND"}
    same(result, called(kind, *given, **options))


@pytest.mark.parametrize("reduction", ["none", "add", "sub", "mul", "min", "max"])
@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS[1::3])
def test_scatters(kind, shape, places, sizes, options, reduction, rng):
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options))
    given = [data_of(rng, shape).float(), indices, data_of(rng, sizes).float()]
    if reduction == "none":
        given = [given[0], indices[:2] * 0 + torch.tensor([[0], [2]]), given[2][:2]]
    options = options | {"reduction": reduction}
    nodes, result = run(exported(kind, given, options), given)
    assert ONNX_NAMES[kind] in nodes
    torch.testing.assert_close(result, called(kind, *given, **options))


def test_sizes_stay_open(rng):
    given = [data_of(rng, (4, 3)).float(), torch.tensor([[1], [3]])]
    free = torch.export.Dim.DYNAMIC
    program = exported("gather_nd", given, {}, (({0: free}, {0: free}),))
    more = [data_of(rng, (9, 3)).float(), torch.tensor([[8], [3], [0]])]
    nodes, result = run(program, more)
    assert "GatherND" in nodes
    same(result, more[0][[8, 3, 0]])


def test_what_onnx_cannot_express_raises(rng):
    given = [data_of(rng, (4,)).float(), torch.tensor([[1], [3]]), torch.ones(2)]
    for options in ({"reduction": "mean"}, {"mode": "drop"}):
        with pytest.raises(Exception, match=r"cannot be expressed in ONNX"):
            exported("scatter_nd", given, options)
