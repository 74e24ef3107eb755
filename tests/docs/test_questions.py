"""The pages of questions: calls of all libraries on random inputs, and their differences."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import re
from contextlib import ExitStack
from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr

import ndgather
import ndgather.arrays.xarray
from ndgather.errors import IndexOutOfBoundsError

QUESTIONS = Path(__file__).parents[2] / "docs" / "questions"
SECTION = re.compile(r"^:::\{div\} calls\n(.*?)^:::$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```\{code-block\} python\n:caption: (.*?)\n\n(.*?)^```$", re.M | re.S)
DRAWN = 20


def arrays(rng):
    """Draw data, its numbers of rows and columns, and the number of indices."""
    rows, columns, count = rng.integers(2, 7, 3)
    return rng.integers(-99, 99, (rows, columns)), rows, columns, count


def tuples(rng):
    data, rows, columns, count = arrays(rng)
    pairs = rng.permutation(rows * columns)[:count]  # unique targets
    indices = np.stack(np.unravel_index(pairs, (rows, columns)), axis=-1)
    return {"data": data, "indices": indices, "updates": rng.integers(-9, 9, len(pairs))}


def batch(rng):
    data, rows, columns, _ = arrays(rng)
    return {"data": data, "indices": rng.integers(0, columns, (rows, 1))}


def elements(rng):
    data, rows, columns, count = arrays(rng)
    return {"data": data, "indices": rng.integers(0, columns, (rows, count))}


def repeated(rng):
    data, rows, columns, count = arrays(rng)
    pairs = rng.integers(0, 3, (3 * count, 2)) % (rows, columns)
    return {"data": data, "indices": pairs, "updates": rng.integers(-9, 9, len(pairs))}


def numbers(rng):
    data, rows, _, count = arrays(rng)
    indices = rng.integers(0, rows, 3 * count)
    updates = rng.integers(-9, 9, len(indices)) / 4
    return {"data": data[:, 0] / 4, "indices": indices, "updates": updates}


def columns_of_table(rng):
    data, _, columns, count = arrays(rng)
    return {"data": data, "indices": rng.integers(0, columns, count)}


def outside(rng):
    data, rows, _, count = arrays(rng)
    return {"data": data[:, 0], "indices": rng.integers(-2 * rows, 2 * rows, count)}


def pair(rng):
    drawn = repeated(rng)
    i, j = drawn.pop("indices").T
    return {**drawn, "i": i, "j": j}


def stored(rng):
    drawn = repeated(rng)
    store = zarr.create_array({}, shape=drawn["data"].shape, chunks=(2, 3), dtype="int64")
    store[:] = drawn["data"]
    return {"data": store, "indices": drawn["indices"]}


def labels(rng):
    data, rows, columns, count = arrays(rng)
    axes = {"lat": np.arange(rows) * 2.0, "lon": np.arange(columns) * 3.0}
    lats, lons = (rng.uniform(0, axis[-1], count) for axis in axes.values())
    return {"array": xr.DataArray(data, axes, ("lat", "lon")), "lats": lats, "lons": lons}


def patches(rng):
    data, rows, columns, count = arrays(rng)
    starts = [rng.integers(0, size - 1, count) for size in (rows, columns)]
    return {"data": data, "starts": np.stack(starts, axis=-1)}


INPUTS = {
    "deterministic-scatter-add": [],
    "gather-index-out-of-bounds": [outside],
    "gathernd-in-tensorrt-tflite-core-ml": [tuples],
    "jax-at-in-numpy-and-torch": [pair, pair],
    "np-add-at-is-slow": [numbers],
    "np-take-against-torch-index-select": [columns_of_table],
    "np-take-along-axis-against-torch-gather": [elements],
    "points-from-a-zarr-array": [stored],
    "random-patches-for-training": [patches],
    "scatter-nd-in-numpy": [tuples, repeated],
    "scatter-reduce-mean-in-numpy": [numbers, numbers],
    "scatternd-with-repeated-indices": [repeated, repeated],
    "onnxruntime-loses-scatternd-updates": [],
    "sel-many-points-in-xarray": [labels],
    "tf-gather-nd-in-pytorch": [tuples, batch],
    "torch-gather-explained": [elements],
}


def shown_calls(text):
    """Return the calls of ndgather in the examples of a page."""
    examples = doctest.DocTestParser().get_examples(text)
    return [each.source for each in examples if each.want and "ndgather." in each.source]


MODULES = {"np": "numpy", "torch": "torch", "tf": "tensorflow", "jax": "jax", "jnp": "jax.numpy"}
LIBRARIES = {
    "torch": ("torch", lambda module, array: module.tensor(array)),
    "TensorFlow": ("tensorflow", lambda module, array: module.constant(array)),
    "JAX": ("jax.numpy", lambda module, array: module.array(array)),
}
CALLS = [
    pytest.param(draw, caption, code, ours, id=f"{stem}-{number}-{caption}")
    for stem, draws in INPUTS.items()
    for text in [(QUESTIONS / f"{stem}.md").read_text()]
    for number, (draw, section) in enumerate(zip(draws, SECTION.findall(text), strict=True))
    for blocks in [BLOCK.findall(section)]
    for ours in [dict(blocks).get("ndgather") or f"result = {shown_calls(text)[number]}"]
    for caption, code in blocks
]


def evaluated(code, caption, drawn):
    """Return the result of a block with inputs of its library, or skip the test."""
    names, values = {"ndgather": ndgather, "xr": xr, "dask": dask}, dict(drawn)
    with ExitStack() as settings:
        if (library := LIBRARIES.get(caption.partition(",")[0])) is not None:
            module = pytest.importorskip(library[0])
            if library[0].startswith("jax"):
                settings.enter_context(importlib.import_module("jax").enable_x64(True))
            values = {name: library[1](module, value) for name, value in drawn.items()}
        for name, module in MODULES.items():
            if re.search(rf"\b{name}\.", code):
                names[name] = importlib.import_module(module)
        exec(code, names | values, kept := {})
        return np.asarray(kept["result"])


def test_all_pages_are_listed():
    assert set(INPUTS) == {page.stem for page in QUESTIONS.glob("*.md")} - {"index"}


def free_names(code):
    """Return the names that a call uses but does not define, except names of libraries."""
    nodes = list(ast.walk(ast.parse(code)))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return (
        names_in(nodes, ast.Load)
        - names_in(nodes, ast.Store)
        - own
        - {*MODULES, "ndgather", "dask", "xr"}
    )


def names_in(nodes, context):
    names = (node for node in nodes if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, context)} - {*dir(builtins)}


@pytest.mark.parametrize("stem", INPUTS)
def test_pages_define_the_names_that_calls_use(stem):
    """The tests of the guide run the examples themselves."""
    text = (QUESTIONS / f"{stem}.md").read_text()
    examples = doctest.DocTestParser().get_examples(text)
    calls = [code for section in SECTION.findall(text) for _, code in BLOCK.findall(section)]
    trees = [ast.parse(example.source) for example in examples]
    defined = names_in([node for tree in trees for node in ast.walk(tree)], ast.Store)
    assert {name for code in calls for name in free_names(code)} <= defined
    assert any(example.want for example in examples)


@pytest.mark.parametrize(("draw", "caption", "code", "ours"), CALLS)
def test_calls_of_a_page_return_the_same(draw, caption, code, ours):
    rng = np.random.default_rng(0)
    for _ in range(
        DRAWN // 4 if "jax" in code or "jnp" in code else DRAWN
    ):  # it compiles each call
        drawn = draw(rng)
        wanted = evaluated(ours, "ndgather", drawn)

        np.testing.assert_array_equal(evaluated(code, caption, drawn), wanted, err_msg=str(drawn))


DATA = np.array([[10, 11, 12], [20, 21, 22]])
BAD = np.array([[0, 2], [7, 0]])


def told(library):
    """Return the row of a library in the table of errors."""
    text = (QUESTIONS / "gather-index-out-of-bounds.md").read_text()
    return re.search(rf"^\| {library} \| (.*) \|$", text, re.MULTILINE)[1]


def test_numpy_and_ndgather_raise_the_errors_in_the_table():
    with pytest.raises(IndexError) as numpy:
        DATA[tuple(BAD.T)]
    with pytest.raises(IndexOutOfBoundsError) as ours:
        ndgather.gather_nd(DATA, BAD)

    assert told("NumPy") == f"`IndexError: {numpy.value}`"
    assert told("ndgather") == f"`IndexOutOfBoundsError: {ours.value}`"


def test_torch_raises_the_errors_in_the_table():
    torch = pytest.importorskip("torch")
    data, indices = torch.tensor(DATA), torch.tensor(BAD)
    with pytest.raises(IndexError) as caught:
        data[tuple(indices.T)]

    assert told("torch").startswith(f"`IndexError: {caught.value}`")
    with pytest.raises(RuntimeError, match="-1"):
        torch.gather(data, 0, torch.tensor([[-1]]))
    with pytest.raises(IndexError):
        torch.index_select(data, 0, torch.tensor([-1]))


def test_tensorflow_raises_the_errors_in_the_table():
    tf = pytest.importorskip("tensorflow")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.gather_nd(DATA, BAD)

    assert told("TensorFlow").partition(": ")[2].partition("`")[0] in str(caught.value)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.gather_nd(DATA, [[-1, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.tensor_scatter_nd_update(DATA, [[-1, 0]], [5])


def test_jax_clamps_and_drops_as_documented():
    jnp = pytest.importorskip("jax.numpy")
    data, (i, j) = jnp.array(DATA), BAD.T

    assert data.at[i, j].get().tolist() == [12, 20]
    assert data.at[i, j].add(1).tolist() == [[10, 11, 13], [20, 21, 22]]
    assert jnp.isnan(jnp.take(data * 1.0, jnp.array([7]), axis=1)).all()


def test_onnxruntime_raises_the_errors_in_the_table():
    ort = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> one (int64[2, 3] d, int64[2, 2] i)'
        " => (int64[2] r) { r = GatherND(d, i) }"
    )
    session = ort.InferenceSession(model.SerializeToString())
    with pytest.raises(Exception, match="invalid index found, index = 7"):
        session.run(None, {"d": DATA, "i": BAD})


def test_xarray_and_ndgather_raise_for_a_missing_label():
    array = xr.DataArray(DATA, {"lat": [0.0, 1.0], "lon": [0.0, 1.0, 2.0]}, ("lat", "lon"))
    points = {"lat": ("points", [0.5]), "lon": ("points", [1.0])}
    with pytest.raises(KeyError):
        array.sel({name: xr.DataArray(values, dims=dim) for name, (dim, values) in points.items()})
    with pytest.raises(KeyError):
        array.ndgather.sel(**points)
