"use strict";
// The same call written for other libraries, as Python.
(() => {
  const { playground } = globalThis;
  const { cast, identity, product, repr, shown, written } = playground;

  const python = (value) =>
    typeof value === "number" && !Number.isFinite(value) ? `float("${repr(value)}")` : repr(value);
  const list = (values) => `[${values.join(", ")}]`;
  const named = (options) => Object.entries(options).reduce((text, [name, value]) => `${text}, ${name}=${value}`, "");
  const nones = (count) => Array(count).fill("None");

  /** How the libraries write the same steps; JAX does as NumPy. */
  const NUMPY = {
    module: "np",
    array: (text) => `np.array(${text})`,
    clip: (name, most) => `np.clip(${name}, 0, ${most})`,
    all: (condition) => `(${condition}).all(-1)`,
    grid: (shape) => `np.indices(${shown(shape)})`,
    columns: "np.moveaxis(indices, -1, 0)",
    elements: (data, axis) => `np.take_along_axis(${data}, indices, axis=${axis})`,
  };
  const TORCH = {
    ...NUMPY,
    module: "torch",
    array: (text, dtype) => `torch.tensor(${text}${dtype === "float64" ? ", dtype=torch.float64" : ""})`,
    clip: (name, most) =>
      `${name}.clamp(min=0).${typeof most === "number" ? `clamp(max=${most})` : `minimum(${most})`}`,
    grid: (shape) => `torch.meshgrid(${shape.map((size) => `torch.arange(${size})`).join(", ")}, indexing="ij")`,
    columns: "indices.unbind(-1)",
    elements: (_, axis) => `torch.gather(data, ${axis}, indices)`,
  };
  const TENSORFLOW = {
    module: "tf",
    array: (text, dtype) => `tf.constant(${text}${dtype === "bool" ? "" : `, tf.${dtype}`})`,
    clip: (name, most) => `tf.clip_by_value(${name}, 0, ${most})`,
    all: (condition) => `tf.reduce_all(${condition}, -1)`,
    grid: (shape) =>
      `tf.meshgrid(${shape.map((size) => `tf.range(${size}, dtype=tf.int64)`).join(", ")}, indexing="ij")`,
  };
  /** What the libraries call a reduction. */
  const REDUCTIONS = {
    NumPy: { none: "", mean: "add", add: "add", sub: "subtract", mul: "multiply", min: "minimum", max: "maximum" },
    torch: { none: "", add: "sum", sub: "sum", mul: "prod", min: "amin", max: "amax", mean: "mean" },
    JAX: { none: "set", mean: "add", add: "add", sub: "add", mul: "multiply", min: "min", max: "max" },
    TensorFlow: { none: "update", add: "add", sub: "sub", min: "min", max: "max" },
    ONNX: { none: "none", add: "add", mul: "mul", min: "min", max: "max" },
  };

  // ---- steps that several libraries share

  /** Write the arrays of a call, with `array` for a literal and a dtype. */
  function arrays({ data, indices, updates }, array) {
    const line = (name, each, dtype) => `${name} = ${array(written(each, python), dtype, each.shape)}`;
    const lines = [line("data", data, data.dtype), line(indices.name, indices, "int64")];
    return updates ? [...lines, line("updates", updates, data.dtype)] : lines;
  }

  /** Return lines that bring index values into bounds, by the mode; `inside` is kept for fill and drop. */
  function bounded(call, lib, positive = false) {
    const { mode, tuples, windows, window_shape: window } = call;
    const sizes = call.data.shape.slice(call.batch_dims, call.batch_dims + call.depth);
    const array = (values) => lib.array(list(values), "int64");
    const where = (condition, yes, no) => `${lib.module}.where(${condition}, ${yes}, ${no})`;
    const lines = [];
    const set = (value) => lines.push(`indices = ${value}`);
    if (windows) {
      const most = array(sizes.map((size, n) => size - window[n]));
      if (mode === "clip") lines.push(`starts = ${lib.clip("starts", most)}`);
      set(`starts[..., ${nones(window.length).join(", ")}, :] + ${lib.module}.stack(${lib.grid(window)}, -1)`);
      if (["raise", "clip"].includes(mode)) return lines;
    }
    const usesSize = mode !== "raise" || (positive && call.indices.values.some((value) => value < 0n));
    if (tuples && usesSize) lines.push(`sizes = ${array(sizes)}`);
    const size = tuples ? "sizes" : call.data.shape[call.axis];
    const last = tuples ? "sizes - 1" : size - 1;
    if (mode === "wrap") set(`indices % ${size}`);
    else if (mode === "clip" || mode === "edge") set(lib.clip("indices", last));
    else if (mode === "reflect") {
      lines.push(`period = ${array(sizes.map((each) => Math.max(2 * each - 2, 1)))}`);
      set(`sizes - 1 - abs(sizes - 1 - indices % period)`);
    } else if (mode !== "raise") {
      const inside = `(indices >= ${windows ? 0 : `-${size}`}) & (indices < ${size})`;
      lines.push(`inside = ${tuples ? lib.all(inside) : inside}`);
      if (mode === "fill") set(`${where(tuples ? "inside[..., None]" : "inside", "indices", "0")} % ${size}`);
    } else if (usesSize) set(where("indices < 0", `indices + ${size}`, "indices"));
    return lines;
  }

  /** Return the line that fills what is out of bounds. */
  function filled(call, lib) {
    if (call.mode !== "fill") return [];
    const { axis, batch_dims: batch, data, shape, lead, window_shape: window } = call;
    const isGather = call.function === "gather";
    const before = isGather ? [...Array(batch).fill(":"), ...nones(axis - batch)] : [];
    const after = isGather ? data.shape.length - axis - 1 : shape.length - lead.length - window.length;
    const index = [...before, "...", ...nones(after)];
    const inside = index.length > 1 ? `inside[${index.join(", ")}]` : "inside";
    const fill = python(call.fill_value ?? cast(0n, data.dtype));
    return [`result = ${lib.module}.where(${inside}, result, ${fill})`];
  }

  /** Return lines that gather in a library that indexes like NumPy. */
  function gathered(call, lib) {
    const { axis, batch_dims: batch, lead } = call;
    const isElements = call.function === "gather_elements";
    const columns = call.tuples ? lib.columns : "[indices]";
    let index = batch ? `(*${lib.grid(lead)}[:${batch}], *${columns})` : `tuple(${columns})`;
    if (!call.tuples && !batch) index = `${":, ".repeat(axis)}indices`;
    const result = isElements ? lib.elements(part(call), axis) : `data[${index}]`;
    return [...bounded(call, lib, isElements && lib === TORCH), `result = ${result}`, ...filled(call, lib)];
  }

  /** Write data without what lies beyond indices on the other axes. */
  function part({ data, lead, axis }) {
    const slices = data.shape.map((size, n) => (n === axis || size === lead[n] ? ":" : `:${lead[n]}`));
    return slices.every((slice) => slice === ":") ? "data" : `data[${slices.join(", ")}]`;
  }

  // ---- scatters

  /** Return lines that make an index of the targets of updates. */
  const targets = ({ tuples, lead, axis }) =>
    tuples
      ? [`index = tuple(${NUMPY.columns})`]
      : [`index = list(${NUMPY.grid(lead)})`, `index[${axis}] = indices`, "index = tuple(index)"];
  const first = ({ reduction, data }) => python(identity(reduction === "mean" ? "add" : reduction, data.dtype));
  const mean = ({ data, keeps }) =>
    `result = result ${data.dtype === "int64" ? "//" : "/"} ${keeps ? "count" : "np.maximum(count, 1)"}`;

  function numpyScatter(call) {
    const { reduction, keeps, data } = call;
    const lines = [...bounded(call, NUMPY), ...targets(call)];
    if (call.mode === "drop") lines.push("index, updates = tuple(each[inside] for each in index), updates[inside]");
    lines.push("result = data.copy()");
    if (reduction === "none") return [...lines, "result[index] = updates"];
    if (!keeps) lines.push(`result[index] = ${first(call)}`);
    const ufunc = data.dtype === "bool" && reduction === "sub" ? "logical_xor" : REDUCTIONS.NumPy[reduction];
    lines.push(`np.${ufunc}.at(result, index, updates)`);
    if (reduction !== "mean") return lines;
    const count = `count = np.${keeps ? "ones" : "zeros"}(data.shape, int)`;
    return [...lines, count, "np.add.at(count, index, 1)", mean(call)];
  }

  function jaxScatter(call) {
    const { reduction, keeps, mode } = call;
    const at = (array, method, value) =>
      `${array}.at[index].${method}(${value}${mode === "drop" ? ', mode="drop"' : ""})`;
    const data = keeps ? "data" : at("data", "set", first(call));
    const updates = reduction === "sub" ? "-updates" : "updates";
    const lines = [...(mode === "drop" ? [] : bounded(call, NUMPY)), ...targets(call)];
    lines.push(`result = ${at(data, REDUCTIONS.JAX[reduction], updates)}`);
    if (reduction !== "mean") return lines;
    const counts = `np.${keeps ? "ones" : "zeros"}(data.shape, int)`;
    return [...lines, `count = ${at(counts, "add", 1)}`, mean(call)];
  }

  function torchScatter(call) {
    const { reduction, keeps, tuples, axis, data } = call;
    const isPut = tuples && (reduction === "none" || (keeps && ["add", "sub"].includes(reduction)));
    const updates = reduction === "sub" ? "-updates" : "updates";
    const reduce = (target, dim, index, source) =>
      `${target}.scatter_reduce(${dim}, ${index}, ${source}, "${REDUCTIONS.torch[reduction]}"${keeps ? "" : ", include_self=False"})`;
    const lines = bounded(call, TORCH, !isPut);
    if (!tuples && reduction === "none") return [...lines, `result = data.scatter(${axis}, indices, updates)`];
    if (!tuples) return [...lines, `result = ${reduce("data", axis, "indices", updates)}`];
    if (call.mode === "drop") lines.push("indices, updates = indices[inside], updates[inside]");
    const accumulate = reduction === "none" ? "" : ", accumulate=True";
    if (isPut) return [...lines, `result = data.index_put(${TORCH.columns}, ${updates}${accumulate})`];
    const sizes = data.shape.slice(0, call.depth);
    const slice = product(data.shape.slice(call.depth));
    const strides = sizes.map((_, n) => product(sizes.slice(n + 1)));
    return [
      ...lines,
      ...(call.mode === "drop" ? ["indices = indices % sizes"] : []),
      `rows = (indices * torch.tensor(${list(strides)})).sum(-1).flatten()  # the number of each slice`,
      `slices, source = data.reshape(-1, ${slice}), ${updates}.reshape(-1, ${slice})`,
      `result = ${reduce("slices", 0, "rows[:, None].expand_as(source)", "source")}.reshape(data.shape)`,
    ];
  }

  function tensorflow(call) {
    const { axis, lead, reduction, batch_dims: batch } = call;
    const lines = bounded(call, TENSORFLOW, true);
    if (call.function.endsWith("_elements"))
      lines.push(`grid = ${TENSORFLOW.grid(lead)}`, `grid[${axis}] = indices`, "indices = tf.stack(grid, -1)");
    if (!call.scatters) {
      const batches = batch ? `, batch_dims=${batch}` : "";
      const gather = call.function === "gather" ? `gather(data, indices, axis=${axis}` : "gather_nd(data, indices";
      return [...lines, `result = tf.${gather}${batches})`, ...filled(call, TENSORFLOW)];
    }
    const pair = lead.length ? "indices, updates" : "[indices], [updates]";
    return [...lines, `result = tf.tensor_scatter_nd_${REDUCTIONS.TensorFlow[reduction]}(data, ${pair})`];
  }

  // ---- all libraries

  function options(call) {
    const given = {};
    for (const name of ["axis", "batch_dims"]) if (call[name]) given[name] = call[name];
    if (call.reduction !== "none") given.reduction = `"${call.reduction}"`;
    return given;
  }

  function ndgather(call) {
    const literal = (text, dtype, shape) =>
      product(shape) ? `np.array(${text})` : `np.zeros(${shown(shape)}, np.${dtype})`;
    const given = options(call);
    if (!call.keeps) given.use_init_val = "False";
    if (call.mode.includes(",")) given.mode = shown(call.modes.map((mode) => `"${mode}"`));
    else if (call.mode !== "raise") given.mode = `"${call.mode}"`;
    if (call.fill_value !== undefined) given.fill_value = python(call.fill_value);
    const last = call.windows ? `, ${shown(call.window_shape)}` : call.scatters ? ", updates" : "";
    const made = `result = ndgather.${call.function}(data, ${call.indices.name}${last}${named(given)})`;
    return ["import numpy as np, ndgather", "", ...arrays(call, literal), made];
  }

  function onnx(call) {
    const name = call.function.replace("_nd", "ND").replace(/(^|_)[a-z]/g, (match) => match.at(-1).toUpperCase());
    const [inputs, opset] = call.scatters ? ['"data", "indices", "updates"', 18] : ['"data", "indices"', 13];
    const node = `node = helper.make_node("${name}", [${inputs}], ["result"]${named(options(call))})`;
    return ["from onnx import helper", "", `# opset ${opset} or newer`, node];
  }

  const steps = (call, lib, gather, scatter) => [
    ...arrays(call, lib.array),
    ...(call.scatters ? scatter : gather)(call, lib),
  ];
  const WRITERS = {
    ndgather,
    NumPy: (call) => ["import numpy as np", "", ...steps(call, NUMPY, gathered, numpyScatter)],
    torch: (call) => ["import torch", "", ...steps(call, TORCH, gathered, torchScatter)],
    TensorFlow: (call) => ["import tensorflow as tf", "", ...steps(call, TENSORFLOW, tensorflow, tensorflow)],
    JAX: (call) => [
      "import jax.numpy as jnp  # int32 and float32, unless jax_enable_x64 is set",
      call.mode === "raise" ? "# JAX clamps indices that are out of bounds, or drops their updates" : "",
      ...steps(call, NUMPY, gathered, jaxScatter).map((line) => line.replaceAll("np.", "jnp.")),
    ],
    ONNX: onnx,
  };

  /** Return what a library has not got of a call, or undefined. */
  function missing(call, library) {
    const { data, indices, reduction, keeps, mode, tuples, axis, batch_dims: batch } = call;
    const is = (...names) => names.includes(library);
    const isEmpty = ![data.shape, indices.shape, call.shape].every((shape) => product(shape));
    const reasons = {
      "is left out: it treats arrays without elements otherwise": isEmpty,
      "has no call for empty tuples": tuples && !call.depth,
      "has no operator for windows": call.windows && is("ONNX"),
      "has no mode for every axis": mode.includes(","),
      [`has no mode ${mode}`]: is("ONNX") && mode !== "raise",
      "has no scatter that drops updates": mode === "drop" && (is("TensorFlow") || (is("torch") && !tuples)),
      "has no reductions of booleans": data.dtype === "bool" && reduction !== "none" && !is("NumPy"),
      [`has no scatter for the reduction ${reduction}`]: call.scatters && !(reduction in REDUCTIONS[library]),
      "has no scatter that ignores the elements of data": !keeps && is("TensorFlow", "ONNX"),
      "has no gather of batches along such an axis":
        !tuples && batch > 0 && (is("ONNX") || (axis > batch && !is("TensorFlow"))),
      "has no node for these ranks": is("ONNX") && tuples && batch >= Math.min(data.shape.length, indices.shape.length),
    };
    return Object.keys(reasons).find((reason) => reasons[reason]);
  }

  /** Return the text for every library, of a call and its entries that `playground.run` returns. */
  function code(call, entries) {
    const regions = entries.flatMap(({ region }) => (region ? [JSON.stringify(region)] : []));
    const repeats = call.scatters && call.reduction === "none" && new Set(regions).size < regions.length;
    const texts = Object.entries(WRITERS).map(([library, write]) => {
      const reason = library === "ndgather" ? undefined : missing(call, library);
      if (reason) return [library, `# ${library} ${reason}`];
      const isUndefined = repeats && !["ndgather", "NumPy"].includes(library);
      return [
        library,
        write(call).join("\n") + (isUndefined ? "\n# indices repeat: any of their updates may stay" : ""),
      ];
    });
    return Object.fromEntries(texts);
  }

  Object.assign(playground, { code });
})();
