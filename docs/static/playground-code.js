"use strict";
// The same call written for other libraries, as Python.
(() => {
  const { playground } = globalThis;
  const { cast, identity, product, repr, scatters, shown, takesTuples, written } = playground;
  const UFUNC = { add: "add", sub: "subtract", mul: "multiply", min: "minimum", max: "maximum" };
  const TORCH = { add: "sum", sub: "sum", mul: "prod", min: "amin", max: "amax", mean: "mean" };
  const JAX = { none: "set", add: "add", sub: "add", mul: "multiply", min: "min", max: "max" };
  const TENSORFLOW = { none: "update", add: "add", sub: "sub", min: "min", max: "max" };

  const python = (value) =>
    typeof value === "number" && !Number.isFinite(value) ? `float("${repr(value)}")` : repr(value);
  const list = (values) => `[${values.join(", ")}]`;
  const named = (options) =>
    Object.entries(options)
      .map(([name, value]) => `, ${name}=${value}`)
      .join("");

  /** The library has no such call: a comment says so. */
  class NoSuchCall extends Error {}
  const none = (what) => {
    throw new NoSuchCall(what);
  };

  /** What the generators need to know of a call. */
  function facts(call) {
    const windows = call.function === "gather_windows";
    const tuples = takesTuples(call);
    const depth = tuples ? call.indices.shape.at(-1) : 1;
    const batch = call.batch_dims;
    const sizes = call.data.shape.slice(batch, batch + depth);
    const rest = call.data.shape.slice(batch + depth);
    const options = {};
    for (const option of ["axis", "batch_dims"]) if (call[option]) options[option] = call[option];
    if (call.mode !== "raise") options.mode = `"${call.mode}"`;
    if (call.fill_value !== null) options.fill_value = python(call.fill_value);
    if (call.reduction !== "none") options.reduction = `"${call.reduction}"`;
    if (!call.use_init_val && call.reduction !== "none") options.use_init_val = "False";
    return {
      ...call,
      windows,
      tuples,
      depth,
      batch,
      rest,
      options,
      size: tuples ? null : call.data.shape[call.axis],
      sizes,
      lead: tuples ? call.indices.shape.slice(0, -1) : call.indices.shape,
      fill: python(call.fill_value ?? cast(0n, call.data.dtype)),
      negative: call.indices.values.some((value) => value < 0n),
      keeps: call.use_init_val || call.reduction === "none",
      isBool: call.data.dtype === "bool",
      start: python(call.reduction === "mean" ? cast(0n, call.data.dtype) : identity(call.reduction, call.data.dtype)),
    };
  }

  /** Write the arrays of a call, with `array` for a literal and a dtype. */
  function arrays(call, array) {
    const lines = [`data = ${array(written(call.data, python), call.data.dtype)}`];
    const name = call.windows ? "starts" : "indices";
    lines.push(`${name} = ${array(written(call.indices, python), "int64")}`);
    if (scatters(call)) lines.push(`updates = ${array(written(call.updates, python), call.data.dtype)}`);
    return lines;
  }

  // ---- steps that NumPy, torch, JAX and TensorFlow write nearly alike

  /** Return lines that bring index values into bounds, by the mode; `inside` is kept for fill and drop. */
  function bounded(call, lib, positive) {
    const { mode, tuples } = call;
    const name = call.windows ? "starts" : "indices";
    if (call.windows) {
      const most = call.sizes.map((size, n) => size - call.window_shape[n]);
      const clip = mode === "clip" ? [`starts = ${lib.clip("starts", lib.array(list(most), "int64"))}`] : [];
      const grid = `starts.reshape(${[...call.lead, ...call.window_shape.map(() => 1), call.depth].join(", ")})`;
      const lines = [...clip, `indices = ${lib.reshaped?.(grid) ?? grid} + ${lib.offsets(call.window_shape)}`];
      if (mode !== "fill") return lines;
      return [
        ...lines,
        `sizes = ${lib.array(list(call.sizes), "int64")}`,
        `inside = ${lib.all("(indices >= 0) & (indices < sizes)")}`,
        `indices = ${lib.where("inside[..., None]", "indices", "0")}`,
      ];
    }
    const size = tuples ? "sizes" : String(call.size);
    const sizes = tuples ? [`sizes = ${lib.array(list(call.sizes), "int64")}`] : [];
    if (mode === "wrap") return [...sizes, `indices = ${name} % ${size}`];
    if (mode === "clip") return [...sizes, `indices = ${lib.clip(name, tuples ? `sizes - 1` : call.size - 1)}`];
    if (mode === "fill" || mode === "drop") {
      const inside = `(${name} >= -${size}) & (${name} < ${size})`;
      const lines = [...sizes, `inside = ${tuples ? lib.all(inside) : inside}`];
      if (mode === "drop") return lines;
      return [...lines, `indices = ${lib.where(tuples ? "inside[..., None]" : "inside", name, "0")} % ${size}`];
    }
    if (positive && call.negative)
      return [...sizes, `indices = ${lib.where(`${name} < 0`, `${name} + ${size}`, name)}`];
    return [];
  }

  /** Return the line that fills what is out of bounds. */
  function filled(call, lib) {
    if (call.mode !== "fill") return [];
    const { axis, batch, lead, rest } = call;
    const mask = call.tuples
      ? [...lead, ...(call.windows ? call.window_shape : []), ...rest.map(() => 1)]
      : call.function === "gather"
        ? [
            ...lead.slice(0, batch),
            ...Array(axis - batch).fill(1),
            ...lead.slice(batch),
            ...call.data.shape.slice(axis + 1).map(() => 1),
          ]
        : lead;
    return [`result = ${lib.where(lib.reshape("inside", mask), "result", call.fill)}`];
  }

  /** Return an expression of index arrays along the batch axes and the tuples. */
  const index = (call, lib) => (call.batch ? `(${lib.batch(call)}, *${lib.columns})` : `tuple(${lib.columns})`);

  function gathered(call, lib) {
    const { axis, batch } = call;
    if (call.tuples) return [`result = data[${index(call, lib)}]`];
    if (call.function === "gather_elements") return [`result = ${lib.elements(call)}`];
    const along = (colons) => `${":, ".repeat(colons)}`;
    const nested = (level) =>
      level === batch
        ? `d[${along(axis - batch)}i]`
        : `${lib.name}.stack([${nested(level + 1)} for d, i in zip(${level ? "d, i" : "data, indices"})])`;
    return [`result = ${batch ? nested(0) : `data[${along(axis)}indices]`}`];
  }

  function gatherLines(call, lib, positive) {
    if (call.tuples && !call.depth) none("a call for empty tuples");
    return [...bounded(call, lib, positive), ...gathered(call, lib), ...filled(call, lib)];
  }

  const sliced = (call) => {
    const slices = call.data.shape.map((size, n) =>
      n === call.axis || size === call.lead[n] ? ":" : `:${call.lead[n]}`,
    );
    return slices.every((each) => each === ":") ? "data" : `data[${slices.join(", ")}]`;
  };

  // ---- NumPy

  const numpy = {
    name: "np",
    array: (text, dtype) => `np.array(${text}${dtype === "float64" && !/[.ef]/.test(text) ? ", float" : ""})`,
    clip: (name, most) => `np.clip(${name}, 0, ${most})`,
    all: (text) => `(${text}).all(axis=-1)`,
    where: (condition, yes, no) => `np.where(${condition}, ${yes}, ${no})`,
    reshape: (name, shape) => `${name}.reshape(${shown(shape)})`,
    columns: "np.moveaxis(indices, -1, 0)",
    batch: (call) =>
      `*np.indices(${shown([...call.lead, ...(call.window_shape ?? []).map(() => 1)])}, sparse=True)[:${call.batch}]`,
    elements: (call) => `np.take_along_axis(${sliced(call)}, indices, axis=${call.axis})`,
    offsets: (shape) => `np.stack(np.indices(${shown(shape)}), axis=-1)`,
  };

  function ofNumpy(call) {
    const lines = ["import numpy as np", "", ...arrays(call, numpy.array)];
    if (!scatters(call)) return [...lines, ...gatherLines(call, numpy, false)];
    const { reduction, tuples, axis } = call;
    lines.push(...bounded(call, numpy, false));
    if (tuples && !call.depth) none("a call for empty tuples");
    if (tuples) {
      if (call.mode === "drop") lines.push("indices, updates = indices[inside], updates[inside]");
      lines.push("index = tuple(np.moveaxis(indices, -1, 0))");
    } else {
      lines.push(
        `index = list(np.indices(${shown(call.lead)}, sparse=True))`,
        `index[${axis}] = indices`,
        "index = tuple(index)",
      );
      if (call.mode === "drop")
        lines.push("index = tuple(each[inside] for each in np.broadcast_arrays(*index))", "updates = updates[inside]");
    }
    lines.push("result = data.copy()");
    if (reduction === "none") return [...lines, "result[index] = updates"];
    if (!call.keeps) lines.push(`result[index] = ${call.start}`);
    if (reduction !== "mean") {
      const ufunc = call.isBool && reduction === "sub" ? "logical_xor" : UFUNC[reduction];
      return [...lines, `np.${ufunc}.at(result, index, updates)`];
    }
    lines.push(
      "np.add.at(result, index, updates)",
      `count = np.${call.keeps ? "ones" : "zeros"}(data.shape, int)`,
      "np.add.at(count, index, 1)",
    );
    return [
      ...lines,
      `result = result ${call.data.dtype === "int64" ? "//" : "/"} ${call.keeps ? "count" : "np.maximum(count, 1)"}`,
    ];
  }

  // ---- torch

  const torch = {
    name: "torch",
    array: (text, dtype) => `torch.tensor(${text}${dtype === "float64" ? ", dtype=torch.float64" : ""})`,
    clip: (name, most) =>
      `${name}.clamp(min=0).${typeof most === "number" ? `clamp(max=${most})` : `minimum(${most})`}`,
    all: (text) => `(${text}).all(-1)`,
    where: (condition, yes, no) => `torch.where(${condition}, ${yes}, ${no})`,
    reshape: (name, shape) => `${name}.reshape(${shown(shape)})`,
    columns: "indices.unbind(-1)",
    batch: (call) =>
      [...Array(call.batch).keys()]
        .map(
          (n) =>
            `torch.arange(${call.lead[n]})${`.reshape(${[call.lead[n], ...call.lead.slice(n + 1).map(() => 1)].join(", ")})`}`,
        )
        .join(", "),
    elements: (call) => `torch.gather(data, ${call.axis}, indices)`,
    offsets: (shape) =>
      `torch.stack(torch.meshgrid(${shape.map((size) => `torch.arange(${size})`).join(", ")}, indexing="ij"), -1)`,
  };

  function ofTorch(call) {
    const lines = ["import torch", "", ...arrays(call, torch.array)];
    if (!scatters(call)) return [...lines, ...gatherLines(call, torch, call.function === "gather_elements")];
    const { reduction, tuples, axis } = call;
    if (call.isBool && reduction !== "none") none("reductions of booleans");
    if (tuples && !call.depth) none("a call for empty tuples");
    if (!tuples && call.mode === "drop") none("a mode that drops updates");
    const updates = reduction === "sub" ? "-updates" : "updates";
    const simple = reduction === "none" || (call.keeps && (reduction === "add" || reduction === "sub"));
    lines.push(...bounded(call, torch, !(tuples && simple)));
    if (!tuples) {
      const options = named({ ...(call.keeps ? {} : { include_self: "False" }) });
      if (reduction === "none") return [...lines, `result = data.scatter(${axis}, indices, updates)`];
      return [...lines, `result = data.scatter_reduce(${axis}, indices, ${updates}, "${TORCH[reduction]}"${options})`];
    }
    if (call.mode === "drop") lines.push("indices, updates = indices[inside], updates[inside]");
    if (simple) {
      const options = reduction === "none" ? "" : ", accumulate=True";
      return [...lines, `result = data.index_put(tuple(indices.unbind(-1)), ${updates}${options})`];
    }
    const steps = call.sizes.map((_, n) => product(call.sizes.slice(n + 1)));
    if (call.mode === "drop") lines.push("indices = indices % sizes");
    return [
      ...lines,
      `rows = (indices * torch.tensor(${list(steps)})).sum(-1).flatten()  # the number of each slice`,
      `slices, source = data.reshape(${product(call.sizes)}, -1), ${updates}.reshape(len(rows), -1)`,
      `slices = slices.scatter_reduce(0, rows[:, None].expand_as(source), source, "${TORCH[reduction]}", include_self=${call.keeps ? "True" : "False"})`,
      "result = slices.reshape(data.shape)",
    ];
  }

  // ---- JAX

  const jax = {
    ...numpy,
    name: "jnp",
    array: (text, dtype) => `jnp.array(${text}${dtype === "float64" && !/[.ef]/.test(text) ? ", float" : ""})`,
    clip: (name, most) => `jnp.clip(${name}, 0, ${most})`,
    where: (condition, yes, no) => `jnp.where(${condition}, ${yes}, ${no})`,
    columns: "jnp.moveaxis(indices, -1, 0)",
    batch: (call) => numpy.batch(call).replace("np.", "jnp."),
    elements: (call) => `jnp.take_along_axis(${sliced(call)}, indices, axis=${call.axis})`,
    offsets: (shape) => `jnp.stack(jnp.indices(${shown(shape)}), axis=-1)`,
  };

  function ofJax(call) {
    const lines = [
      "import jax.numpy as jnp  # int32 and float32, unless jax_enable_x64 is set",
      "",
      ...arrays(call, jax.array),
    ];
    if (call.mode === "raise")
      lines.push("# JAX raises no error: it clamps an index that is out of bounds, or drops the update");
    if (!scatters(call)) return [...lines, ...gatherLines(call, jax, false)];
    const { reduction, axis } = call;
    if (call.isBool && reduction !== "none") none("reductions of booleans");
    if (call.tuples && !call.depth) none("a call for empty tuples");
    if (call.mode !== "drop") lines.push(...bounded(call, jax, false));
    if (call.tuples) lines.push("index = tuple(jnp.moveaxis(indices, -1, 0))");
    else
      lines.push(
        `index = list(jnp.indices(${shown(call.lead)}, sparse=True))`,
        `index[${axis}] = indices`,
        "index = tuple(index)",
      );
    const mode = call.mode === "drop" ? ', mode="drop"' : "";
    const updates = reduction === "sub" ? "-updates" : "updates";
    let data = "data";
    if (!call.keeps) data += `.at[index].set(${call.start}${mode})`;
    if (reduction !== "mean") return [...lines, `result = ${data}.at[index].${JAX[reduction]}(${updates}${mode})`];
    return [
      ...lines,
      `total = ${data}.at[index].add(updates${mode})`,
      `count = jnp.${call.keeps ? "ones" : "zeros"}(data.shape, int).at[index].add(1${mode})`,
      `result = total ${call.data.dtype === "int64" ? "//" : "/"} ${call.keeps ? "count" : "jnp.maximum(count, 1)"}`,
    ];
  }

  // ---- TensorFlow

  const tensorflow = {
    name: "tf",
    array: (text, dtype) => `tf.constant(${text}${dtype === "bool" ? "" : `, tf.${dtype}`})`,
    clip: (name, most) => `tf.clip_by_value(${name}, 0, ${most})`,
    all: (text) => `tf.reduce_all(${text}, axis=-1)`,
    where: (condition, yes, no) => `tf.where(${condition}, ${yes}, ${no})`,
    reshape: (name, shape) => `tf.reshape(${name}, ${list(shape)})`,
    reshaped: (text) => text.replace(/starts\.reshape\((.*)\)/, "tf.reshape(starts, [$1])"),
    offsets: (shape) => `tf.stack(tf.meshgrid(${shape.map(tensorflowRange).join(", ")}, indexing="ij"), axis=-1)`,
  };
  const tensorflowRange = (size) => `tf.range(${size}, dtype=tf.int64)`;

  function ofTensorflow(call) {
    const { axis, lead, reduction } = call;
    const lines = ["import tensorflow as tf", "", ...arrays(call, tensorflow.array)];
    if (call.tuples && !call.depth) none("a call for empty tuples");
    if (call.isBool && reduction !== "none") none("reductions of booleans");
    if (scatters(call) && (!call.keeps || !(reduction in TENSORFLOW)))
      none(`a scatter for reduction "${reduction}"${call.keeps ? "" : " without the elements of data"}`);
    lines.push(...bounded(call, tensorflow, true));
    if (call.function.endsWith("_elements")) {
      lines.push(
        `grid = tf.meshgrid(${lead.map(tensorflowRange).join(", ")}, indexing="ij")`,
        `grid[${axis}] = indices`,
        "indices = tf.stack(grid, axis=-1)",
      );
    }
    if (scatters(call)) {
      if (call.mode === "drop") {
        if (!lead.length) none("a mode that drops a single update");
        if (!call.tuples) lines.push("indices = tf.where(inside[..., None], indices, 0)");
        lines.push("indices, updates = tf.boolean_mask(indices, inside), tf.boolean_mask(updates, inside)");
        const full = call.tuples ? "sizes" : tensorflow.array(list(call.data.shape), "int64");
        lines.push(`indices = tf.where(indices < 0, indices + ${full}, indices)`);
      }
      return [
        ...lines,
        `result = tf.tensor_scatter_nd_${TENSORFLOW[reduction]}(data, ${lead.length ? "indices, updates" : "[indices], [updates]"})`,
      ];
    }
    const batch = call.batch ? `, batch_dims=${call.batch}` : "";
    if (call.function === "gather") lines.push(`result = tf.gather(data, indices, axis=${axis}${batch})`);
    else lines.push(`result = tf.gather_nd(data, indices${batch})`);
    return [...lines, ...filled(call, tensorflow)];
  }

  // ---- ndgather and ONNX

  function ofNdgather(call) {
    const array = (text, dtype) => numpy.array(text, dtype);
    const empty = (each, dtype) => (product(each.shape) ? null : `np.zeros(${shown(each.shape)}, np.${dtype})`);
    const lines = arrays(call, array);
    const given = [call.data, call.indices, call.updates];
    const whole = lines.map(
      (line, n) =>
        line.split(" = ")[0] +
        ` = ${empty(given[n], n === 1 ? "int64" : call.data.dtype) ?? line.slice(line.indexOf("=") + 2)}`,
    );
    const name = call.windows ? "starts" : "indices";
    const args = [
      `data, ${name}`,
      ...(scatters(call) ? ["updates"] : []),
      ...(call.windows ? [shown(call.window_shape)] : []),
    ];
    return [
      "import numpy as np, ndgather",
      "",
      ...whole,
      `result = ndgather.${call.function}(${args.join(", ")}${named(call.options)})`,
    ];
  }

  const NODES = {
    gather_nd: "GatherND",
    gather_elements: "GatherElements",
    gather: "Gather",
    scatter_nd: "ScatterND",
    scatter_elements: "ScatterElements",
  };

  function ofOnnx(call) {
    const { batch, axis, reduction } = call;
    const node = NODES[call.function];
    if (!node) none("an operator for windows");
    if (call.mode !== "raise") none(`a mode "${call.mode}"`);
    if (!["none", "add", "mul", "min", "max"].includes(reduction) || !call.keeps) none("this reduction");
    if (call.isBool && reduction !== "none") none("reductions of booleans");
    if (call.tuples && !call.depth) none("a node for empty tuples");
    if (call.function === "gather" && batch) none("batch axes for Gather");
    if (call.tuples && batch >= Math.min(call.data.shape.length, call.indices.shape.length))
      none("a node for that many batch axes");
    if (call.tuples && !call.data.shape.length) none("a node for data without axes");
    const options = {};
    if (call.function === "gather_nd" && batch) options.batch_dims = batch;
    if (!call.tuples && axis) options.axis = axis;
    if (reduction !== "none") options.reduction = `"${reduction}"`;
    const inputs = scatters(call) ? '"data", "indices", "updates"' : '"data", "indices"';
    const opset = scatters(call) ? 18 : 13;
    return [
      "from onnx import helper",
      "",
      `# opset ${opset} or newer`,
      `node = helper.make_node("${node}", [${inputs}], ["result"]${named(options)})`,
    ];
  }

  const WRITERS = {
    ndgather: ofNdgather,
    NumPy: ofNumpy,
    torch: ofTorch,
    TensorFlow: ofTensorflow,
    JAX: ofJax,
    ONNX: ofOnnx,
  };

  /** Return the text for every library, of a call that `playground.run` has checked. */
  function code(checked) {
    const call = facts(checked);
    const isEmpty = [call.data.shape, call.indices.shape, call.shape].some((shape) => !product(shape));
    return Object.fromEntries(
      Object.entries(WRITERS).map(([library, write]) => {
        try {
          if (isEmpty && library !== "ndgather")
            none("this call here: an array without elements is another case there");
          return [library, write(call).join("\n")];
        } catch (error) {
          if (!(error instanceof NoSuchCall)) throw error;
          return [library, `# ${library} has not got ${error.message}`];
        }
      }),
    );
  }

  Object.assign(playground, { code });
})();
