"use strict";
// Gather and scatter as plain loops over the definitions, with the errors of ndgather. No DOM: node
// and browsers load this file.
(() => {
  const playground = (globalThis.playground ??= {});
  const MODES = {
    gather: ["raise", "wrap", "clip", "fill"],
    windows: ["raise", "clip", "fill", "wrap", "edge", "reflect"],
    scatter: ["raise", "wrap", "clip", "drop"],
  };
  /** What a reduction makes of an element and an update, before it is cast to the type of data. */
  const REDUCTIONS = {
    none: (_, update) => update,
    add: (old, update) => old + update,
    sub: (old, update) => old - update,
    mul: (old, update) => old * update,
    min: (old, update) => (Number.isNaN(old) || old <= update ? old : update),
    max: (old, update) => (Number.isNaN(old) || old >= update ? old : update),
    mean: (old, update) => old + update,
  };
  const LARGEST = 10_000; // elements of an array

  class CallError extends Error {}
  /** What is typed is not a literal yet: no call is made. */
  class SyntaxProblem extends Error {}
  const problem = (name, what) => {
    throw new SyntaxProblem(`${name}: ${what}`);
  };
  const failure = (name, call, text) => Object.assign(new CallError(`${call.function}: ${text}`), { name });
  const error = (name, call, what, allowed, hint = "") => failure(name, call, `${what} (allowed: ${allowed})${hint}`);

  // ---- shapes and positions

  const shown = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const quoted = (words) => words.map((word) => `'${word}'`).join(", ");
  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
  const range = (size) => [...Array(size).keys()];
  const offset = (shape, position) => position.reduce((at, coordinate, axis) => at * shape[axis] + coordinate, 0);
  const modulo = (value, size) => ((value % size) + size) % size;
  const clipped = (value, low, high) => (value < low ? low : value > high ? high : value);
  const whole = (value) => typeof value === "bigint";

  /** Return all combinations of one element of each list, in C order. */
  const combinations = (lists) =>
    lists.reduce((heads, list) => heads.flatMap((head) => list.map((item) => [...head, item])), [[]]);

  // ---- literals

  /** Return nested lists of values that are in C order. */
  function nested(shape, values) {
    if (!shape.length) return values[0];
    const step = values.length / shape[0];
    return range(shape[0]).map((n) => nested(shape.slice(1), values.slice(n * step, (n + 1) * step)));
  }

  /** Return the nested lists of a Python or JSON literal; numbers are BigInt, Number or Boolean. */
  function parse(text, name) {
    const made = /^\s*(?:np\.)?(arange|zeros)\(\(?([\d, ]+)\)?\)(?:\.reshape\(\(?([\d, ]+)\)?\))?\s*$/.exec(text);
    if (made) {
      const shape = (made[3] ?? made[2]).match(/\d+/g).map(Number);
      const count = made[1] === "arange" ? Number(made[2]) : product(shape);
      if (count !== product(shape)) problem(name, `${text.trim()} is no array`);
      if (count > LARGEST) problem(name, `more than ${LARGEST} elements`);
      const values = range(count).map((n) => (made[1] === "arange" ? BigInt(n) : 0));
      return nested(shape, values);
    }
    const source = text
      .replace(/^\s*(?:np\.)?array\(([^]*)\)\s*$/, "$1")
      .replaceAll("(", "[")
      .replaceAll(")", "]");
    const numbers = (value) =>
      Array.isArray(value) ? value.map(numbers) : (number(value) ?? problem(name, `${value} is not a number`));
    let lists;
    try {
      lists = JSON.parse(source.replace(/[^\s[\],]+/g, (token) => JSON.stringify(token)).replace(/,\s*\]/g, "]"));
    } catch {
      const missing = source.split("[").length - source.split("]").length;
      if (!/\S/.test(source)) problem(name, "a number or a list is missing");
      problem(name, missing > 0 ? "] is missing" : "a comma or a [ is missing");
    }
    return numbers(lists);
  }

  function number(token) {
    if (/^(true|false)$/i.test(token)) return token.toLowerCase() === "true";
    if (/^[+-]?(inf|nan)$/i.test(token)) return Number(token.toLowerCase().replace("inf", "Infinity"));
    if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(token) && /\D/.test(token.slice(1))) return Number(token);
    if (!/^[+-]?\d[\d_]*$/.test(token)) return undefined;
    const value = BigInt(token.replace(/^\+|_/g, ""));
    return BigInt.asIntN(64, value) === value ? value : undefined;
  }

  /** Return what NumPy makes of nested lists: {dtype, shape, values}, or throw its error. */
  function toArray(call, name, lists) {
    const shape = [];
    let level = [lists];
    while (level.length && level.every(Array.isArray) && new Set(level.map((list) => list.length)).size === 1) {
      shape.push(level[0].length);
      level = level.flat(1);
    }
    if (level.some(Array.isArray)) {
      const what =
        "is not an array: setting an array element with a sequence. The requested array has an " +
        `inhomogeneous shape after ${shape.length} dimensions. The detected shape was ${shown(shape)} + inhomogeneous part.`;
      throw error("DTypeError", call, `${name} = list object ${what}`, "an array, a number or nested lists of numbers");
    }
    if (level.length > LARGEST) problem(name, `more than ${LARGEST} elements`);
    const types = new Set(level.map((value) => typeof value));
    const dtype = !types.size || types.has("number") ? "float64" : types.has("bigint") ? "int64" : "bool";
    if (name !== "updates" && types.has("boolean") && types.size > 1) {
      const what = `${name} = list object would become an array of ${dtype}, which changes some of its elements`;
      const hint = name === "data" ? "; write numpy.array(data, object), for NumPy alone" : "";
      throw error("DTypeError", call, what, "elements of one kind", hint);
    }
    return { dtype, shape, values: level.map((value) => cast(value, dtype)), given: level, types };
  }

  function cast(value, dtype) {
    if (dtype === "float64") return Number(value);
    return dtype === "int64" ? BigInt.asIntN(64, BigInt(value)) : Boolean(value);
  }

  // ---- texts

  /** Write a number as Python does. */
  function repr(value) {
    if (typeof value === "boolean") return value ? "True" : "False";
    if (typeof value === "bigint") return String(value);
    if (!Number.isFinite(value)) return String(value).replace("Infinity", "inf").replace("NaN", "nan");
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e16)) return value.toExponential().replace(/(?<=e[+-])\d$/, "0$&");
    const text = (Object.is(value, -0) ? "-" : "") + value;
    return text.includes(".") ? text : `${text}.0`;
  }

  /** Write an array as nested lists. */
  function written({ shape, values }, write = repr) {
    const text = (value) => (Array.isArray(value) ? `[${value.map(text).join(", ")}]` : write(value));
    return text(nested(shape, values));
  }

  // Hints, as ndgather has them.
  const TUPLES = "; index tuples are on the last axis, as argwhere returns them";
  const COLUMN = "; one index for each slice is np.asarray(indices)[:, None]";

  // ---- checks, in the order of ndgather

  /** Return the call with its arrays, checked options, and what follows from them. */
  function checked(given) {
    const call = { axis: 0, batch_dims: 0, mode: "raise", reduction: "none", ...given };
    call.scatters = call.function.startsWith("scatter");
    call.windows = call.function === "gather_windows";
    call.tuples = call.windows || call.function.endsWith("_nd");
    call.window_shape ??= [];
    checkMode(call);
    call.data = toArray(call, "data", given.data);
    const name = call.windows ? "starts" : "indices";
    if (call.tuples && Array.isArray(given.indices) && !given.indices.length) {
      const what = `${name} = [] does not give the length of an index tuple`;
      const hint = "; for no tuples of length k, write np.empty((0, k), int)";
      throw error("ShapeError", call, what, "an array of integers", hint);
    }
    call.indices = toArray(call, name, given.indices);
    call.indices.name = name;
    if (!call.indices.values.length) call.indices.dtype = "int64";
    call.lead = call.tuples ? call.indices.shape.slice(0, -1) : call.indices.shape;
    call.depth = call.tuples ? call.indices.shape.at(-1) : 1;
    if (call.scatters) checkUpdates(call, given.updates);
    else if (call.fill_value !== undefined) checkFillValue(call);
    call.keeps = call.use_init_val !== false || call.reduction === "none"; // the elements of data count
    const shapesFirst = call.windows && !["raise", "clip"].includes(call.mode);
    if (!shapesFirst) checkIndexType(call);
    call.shape = denseShape(call);
    if (shapesFirst) checkIndexType(call);
    if (product(call.shape) > LARGEST) problem("result", `more than ${LARGEST} elements`);
    if (call.scatters) checkUpdatesShape(call);
    return call;
  }

  function checkChoice(call, option, value, choices) {
    if (!choices.includes(value))
      throw error("AttributeValueError", call, `${option} = '${value}' is unknown`, quoted(choices));
  }

  /** Check the mode; windows may have one for every axis. */
  function checkMode(call) {
    const modes = call.modes ?? [call.mode];
    const depth = call.window_shape.length;
    const known = MODES[call.windows ? "windows" : call.scatters ? "scatter" : "gather"];
    for (const mode of modes) checkChoice(call, "mode", mode, known);
    if (call.windows && ![1, depth].includes(modes.length)) {
      const what = `mode = (${quoted(modes)}) has ${modes.length} modes for windows with ${depth} axes`;
      throw error("AttributeValueError", call, what, "one mode for all axes, or one per axis");
    }
    call.modes = modes.length === depth ? modes : Array(depth).fill(modes[0]);
    call.mode = new Set(modes).size > 1 ? modes.join(",") : modes[0];
  }

  function checkUpdates(call, lists) {
    const { dtype } = call.data;
    const { dtype: typed, shape, values, given, types } = toArray(call, "updates", lists);
    const kinds = ["boolean", "bigint", "number"];
    const kind = ["bool", "int64", "float64"].indexOf(dtype);
    const isOther = (value) => kinds.indexOf(typeof value) > kind || (typeof value === "boolean") !== (kind === 0);
    const isLost = (value) => dtype !== "float64" && !isHeld(value, dtype);
    const elements = types.has("boolean") && types.size > 1 ? given : values;
    if (elements.some(isOther)) {
      const lost = elements.findIndex(isLost); // the value that says most
      let position = lost < 0 ? elements.findIndex(isOther) : lost;
      const value = repr(elements[position]);
      const where = [];
      for (const size of [...shape].reverse()) {
        where.unshift(position % size);
        position = Math.floor(position / size);
      }
      const what = `updates${where.length ? `[${where.join(", ")}]` : ""} = ${value} cannot be represented in data.dtype = ${dtype}`;
      throw error("DTypeError", call, what, "values of that type, floats may be rounded");
    }
    call.updates = { dtype, typed, shape, values: values.map((value) => cast(value, dtype)) };
    checkChoice(call, "reduction", call.reduction, Object.keys(REDUCTIONS));
    if (dtype === "bool" && call.reduction === "mean") {
      const allowed = quoted(Object.keys(REDUCTIONS).filter((reduction) => reduction !== "mean"));
      throw error("DTypeError", call, "reduction = 'mean' is not defined for data.dtype = bool", allowed);
    }
  }

  /** Return whether a dtype has the value of a number. */
  function isHeld(value, dtype) {
    if (dtype === "bool") return Number(value) === 0 || Number(value) === 1;
    const isWhole = Number.isInteger(Number(value)) && (typeof value !== "number" || (value >= -(2 ** 63) && value < 2 ** 63));
    return dtype === "float64" || isWhole;
  }

  function checkFillValue(call) {
    const { dtype } = call.data;
    const fill = call.fill_value;
    if (!call.mode.includes("fill")) {
      const modes = new Set(call.modes).size > 1 ? `(${quoted(call.modes)})` : `'${call.mode}'`;
      const what = `fill_value is given, but mode = ${modes} does not use it`;
      throw error("AttributeValueError", call, what, "mode='fill'");
    }
    if (!isHeld(fill, dtype)) {
      const what = `fill_value = ${repr(fill)} cannot be represented in data.dtype = ${dtype}`;
      throw error("DTypeError", call, what, "one value of that type");
    }
    call.fill_value = cast(fill, dtype);
  }

  function checkIndexType(call) {
    const { dtype, name } = call.indices;
    if (dtype === "int64") return;
    const takesTuples = ["gather_nd", "scatter_nd", "gather_windows"].includes(call.function);
    const target = takesTuples ? "" : `, for ${call.function.startsWith("scatter") ? "scatter_nd" : "gather_nd"}`;
    const whole = dtype === "float64" ? `; if all are whole numbers, write np.asarray(${name}).astype(int)` : "";
    const hint = dtype === "bool" ? `; the index tuples of a mask are np.argwhere(${name})${target}` : whole;
    throw error("DTypeError", call, `${name}.dtype = ${dtype} is not an integer type`, "int8..int64, uint8..uint64", hint);
  }

  /** Return the shape of the result of a gather, or of the updates of a scatter; resolve axis and batch_dims. */
  function denseShape(call) {
    const data = call.data.shape;
    const indices = call.indices.shape;
    const [name, needed] = call.tuples ? [call.indices.name, indices] : ["data", data];
    if (!needed.length) {
      throw error("ShapeError", call, `${name}.shape = () has rank 0`, "rank 1 or more", call.tuples ? TUPLES : "");
    }
    if (call.windows) return windowsShape(call, data, indices);
    if (call.tuples) {
      checkBatches(call, 0, Math.min(call.lead.length, data.length));
      const left = data.length - call.batch_dims;
      if (call.depth > left) {
        const batches = call.batch_dims ? ` after ${call.batch_dims} batch axes` : "";
        const what =
          `indices.shape[-1] = ${call.depth} is more than the ${left} axes that data ${shown(data)} ` +
          `has${batches}; indices.shape = ${shown(indices)}`;
        throw error("ShapeError", call, what, `0..${left}`, indices.length === 1 ? COLUMN : TUPLES);
      }
      return [...call.lead, ...data.slice(call.batch_dims + call.depth)];
    }
    const elements = call.function !== "gather";
    if (elements && data.length !== indices.length) {
      const what = `indices.shape = ${shown(indices)} has rank ${indices.length}, but data.shape = ${shown(data)} has rank ${data.length}`;
      throw error("ShapeError", call, what, "the same rank", "; to index whole slices, use gather or scatter_nd");
    }
    if (call.axis < -data.length || call.axis >= data.length)
      throw outOfRange(call, "axis", -data.length, data.length - 1, `data of shape ${shown(data)}`);
    const axis = (call.axis += call.axis < 0 ? data.length : 0);
    if (!elements) {
      const low = call.batch_dims < 0 ? -Math.min(data.length, indices.length) : 0;
      checkBatches(call, low, Math.min(axis, indices.length));
      return [...data.slice(0, axis), ...indices.slice(call.batch_dims), ...data.slice(axis + 1)];
    }
    const longer = indices.findIndex((size, n) => n !== axis && size > data[n]);
    if (longer >= 0) {
      const what =
        `indices.shape[${longer}] = ${indices[longer]} is more than data.shape[${longer}] = ${data[longer]}: ` +
        `indices ${shown(indices)} may be larger than data ${shown(data)} only on axis ${axis}`;
      throw error("ShapeError", call, what, `0..${data[longer]}`);
    }
    return [...indices];
  }

  function outOfRange(call, option, low, high, where) {
    const what = `${option} = ${call[option]} is out of range for ${where}`;
    const hint = option === "batch_dims" && call.function === "gather" ? "; batch axes come before axis" : "";
    return error("AttributeValueError", call, what, low <= high ? `${low}..${high}` : "nothing", hint);
  }

  /** Check batch_dims, count it from the first axis, and check that the batch axes are equal. */
  function checkBatches(call, low, high) {
    const [data, indices] = [call.data.shape, call.indices.shape];
    const given = call.batch_dims;
    const batch = given < 0 ? given + indices.length : given;
    const both = `data of shape ${shown(data)} and indices of shape ${shown(indices)}`;
    if (given < low || batch > high) throw outOfRange(call, "batch_dims", given < 0 ? low : 0, high, both);
    call.batch_dims = batch;
    const axis = data.slice(0, batch).findIndex((size, n) => size !== indices[n]);
    if (axis < 0) return;
    const what =
      `indices.shape[${axis}] = ${indices[axis]} differs from data.shape[${axis}] = ${data[axis]}: ` +
      `batch axes must be equal in data ${shown(data)} and indices ${shown(indices)}`;
    throw error("ShapeError", call, what, data[axis]);
  }

  function windowsShape(call, data, starts) {
    const { window_shape: window, depth } = call;
    if (depth !== window.length || depth > data.length) {
      const what =
        `starts.shape[-1] = ${depth} does not match window_shape = ${shown(window)} and data ` +
        `${shown(data)}; starts.shape = ${shown(starts)}`;
      const allowed = window.length > data.length ? `0..${data.length}` : `${window.length}, as window_shape has`;
      throw error("ShapeError", call, what, allowed, TUPLES);
    }
    const canBeLarger = (axis) => call.modes[axis] === "fill" || (data[axis] && call.modes[axis] in PADDED);
    const axis = window.findIndex((size, n) => size > data[n] && !canBeLarger(n));
    if (axis >= 0) {
      const what = `window_shape[${axis}] = ${window[axis]} is more than data.shape[${axis}] = ${data[axis]}: no window fits`;
      throw error("ShapeError", call, what, `0..${data[axis]}, or mode='fill'`);
    }
    return [...call.lead, ...window, ...data.slice(depth)];
  }

  function checkUpdatesShape(call) {
    const [data, indices, updates] = [call.data.shape, call.indices.shape, call.updates.shape];
    if (shown(updates) === shown(call.shape)) return;
    const fits = call.tuples && indices.length === 1 && shown(updates) === shown([...indices, ...data.slice(1)]);
    const what = `updates.shape = ${shown(updates)} does not match indices and data`;
    throw error("ShapeError", call, what, shown(call.shape), fits ? COLUMN : "; updates are not broadcast");
  }

  // ---- entries of indices, and what they address

  /** What continues an axis of data beyond its ends: from a position (all are BigInt) to one of data. */
  const PADDED = {
    wrap: (at, size) => modulo(at, size),
    edge: (at, size) => clipped(at, 0n, size - 1n),
    reflect: (at, size) => {
      const there = modulo(at, size > 1n ? 2n * size - 2n : 1n);
      return there < size ? there : 2n * size - 2n - there;
    },
  };

  /** Return the coordinate of a value of indices, null to fill or drop it, undefined if it is bad. */
  function coordinate(call, value, n) {
    const size = BigInt(call.data.shape[call.tuples ? call.batch_dims + n : call.axis]);
    if (call.windows) {
      const start = clipped(value, 0n, size - BigInt(call.window_shape[n]));
      if (call.modes[n] === "clip") return start;
      return call.modes[n] === "raise" && value !== start ? undefined : value;
    }
    if (call.mode === "wrap" && size) return modulo(value, size);
    if (call.mode === "clip" && size) return clipped(value, 0n, size - 1n);
    if (-size <= value && value < size) return value < 0n ? value + size : value;
    return call.mode === "fill" || call.mode === "drop" ? null : undefined;
  }

  /** Return the positions of data on the n-th axis that an entry addresses; null is outside. */
  function addressed(call, start, n) {
    if (!call.windows) return [whole(start) ? Number(start) : null];
    const size = BigInt(call.data.shape[n]);
    return range(call.window_shape[n]).map((step) => {
      const at = whole(start) ? start + BigInt(step) : -1n;
      const inData = at >= 0n && at < size ? at : PADDED[call.modes[n]]?.(at, size);
      return inData === undefined ? null : Number(inData);
    });
  }

  /**
   * Return the entries of indices in C order. Each has its `values`, their `coordinates`, and the
   * positions on each axis that it takes from data and puts into the result, or the other way round:
   * `source` in data, where null is outside, and `dense` in result or updates. `region` is what lies
   * in data, or null if that is nothing.
   */
  function entriesOf(call) {
    const { data, indices, axis, batch_dims: batch, lead, depth } = call;
    const all = data.shape.map((size) => range(size));
    return combinations(lead.map((size) => range(size))).map((position) => {
      const first = offset(lead, position) * depth;
      const values = indices.values.slice(first, first + depth);
      const coordinates = values.map((value, n) => coordinate(call, value, n));
      const taken = coordinates.map((start, n) => addressed(call, start, n));
      const at = position.map((step) => [step]);
      const windows = call.window_shape.map((size) => range(size));
      let source = [...at.slice(0, batch), ...taken, ...all.slice(batch + depth)];
      let dense = [...at, ...windows, ...all.slice(batch + depth)];
      if (call.function.endsWith("_elements")) [source, dense] = [at.with(axis, taken[0]), at];
      else if (!call.tuples) {
        source = [...at.slice(0, batch), ...all.slice(batch, axis), taken[0], ...all.slice(axis + 1)];
        dense = [...source.slice(0, axis), ...at.slice(batch), ...all.slice(axis + 1)];
      }
      const region = source.map((places) =>
        [...new Set(places)].filter((place) => place !== null).sort((a, b) => a - b),
      );
      const isKnown = coordinates.every(whole) && (!call.windows || !depth || region.every((places) => places.length));
      return { position, values, coordinates, source, dense, region: isKnown ? region : null };
    });
  }

  /** Throw the error of the first bad entry of indices. */
  function checkBounds(call, entries) {
    const bad = entries.flatMap((entry) =>
      entry.coordinates.flatMap((at, n) => (at === undefined ? [{ entry, n }] : [])),
    );
    if (!bad.length) return;
    const [{ entry, n }] = bad;
    const { name, values } = call.indices;
    const axis = call.tuples ? call.batch_dims + n : call.axis;
    const size = call.data.shape[axis];
    const wide = call.window_shape[n];
    const what = call.windows ? `makes a window of size ${wide} extend past` : "is outside";
    let allowed = size ? `allowed: ${-size}..${size - 1}` : "the axis is empty";
    if (call.windows) allowed = `allowed: 0..${size - wide}`;
    const others = bad.length > 1 ? `; ${bad.length} of ${values.length} entries of ${name} are out of bounds` : "";
    const position = [...entry.position, ...(call.tuples ? [n] : [])];
    const which = `${name}[${position.join(", ")}] = ${entry.values[n]}`;
    const where = `axis ${axis} of data, which has size ${size} (${allowed})`;
    throw failure("IndexOutOfBoundsError", call, `${which} ${what} ${where}${others}`);
  }

  // ---- the definitions

  /** Return pairs of offsets: an element of the dense array, and its element of data or null. */
  function pairs(call, entry) {
    const sources = combinations(entry.source);
    return combinations(entry.dense).map((place, n) => [
      offset(call.shape, place),
      sources[n].includes(null) ? null : offset(call.data.shape, sources[n]),
    ]);
  }

  /** result[dense element] = data[source element], or the fill value. */
  function gathered(call, entries) {
    const { dtype, values: data } = call.data;
    const values = Array(product(call.shape)).fill(call.fill_value ?? cast(0n, dtype));
    for (const [to, from] of entries.flatMap((entry) => pairs(call, entry))) if (from !== null) values[to] = data[from];
    return { dtype, shape: call.shape, values };
  }

  /** result[source element] = f(result[source element], updates[dense element]), update by update. */
  function scattered(call, entries) {
    const { dtype, shape } = call.data;
    const values = [...call.data.values];
    const counts = Array(values.length).fill(0);
    for (const [from, to] of entries.flatMap((entry) => pairs(call, entry))) {
      if (to === null) continue;
      if (!counts[to]++ && !call.keeps) values[to] = identity(call.reduction, dtype);
      values[to] = cast(REDUCTIONS[call.reduction](values[to], call.updates.values[from]), dtype);
    }
    if (call.reduction !== "mean") return { dtype, shape, values };
    const quotient = (total, count) =>
      dtype === "int64" ? (total - modulo(total, BigInt(count))) / BigInt(count) : total / count; // rounded down
    const means = values.map((total, n) => (counts[n] ? quotient(total, counts[n] + (call.keeps ? 1 : 0)) : total));
    return { dtype, shape, values: means };
  }

  const EXTREMES = {
    int64: { max: -(2n ** 63n), min: 2n ** 63n - 1n },
    float64: { max: -Infinity, min: Infinity },
    bool: { max: false, min: true },
  };

  /** Return the value that a reduction starts from where it ignores the elements of data. */
  const identity = (reduction, dtype) => EXTREMES[dtype][reduction] ?? cast(reduction === "mul" ? 1n : 0n, dtype);

  // ---- the fields of the page

  const integer = (text, name) =>
    /^[+-]?\d{1,15}$/.test(text) ? Number(text) : problem(name, "an integer is missing");
  const READERS = {
    data: parse,
    indices: parse,
    updates: parse,
    axis: integer,
    batch_dims: integer,
    modes: (text, name) => text.match(/\w+/g) ?? problem(name, "words such as edge, wrap are missing"),
    fill_value: (text, name) => number(text) ?? problem(name, "a number is missing"),
    use_init_val: (text) => text !== "False",
    window_shape: (text, name) => {
      const sizes = [parse(text, name)].flat();
      const areSizes = sizes.every((size) => whole(size) && size >= 0n);
      return areSizes ? sizes.map(Number) : problem(name, "sizes such as (2, 2) are missing");
    },
  };

  /** Return the call that fields hold as texts. */
  function read(fields) {
    const call = {};
    for (const [name, text] of Object.entries(fields)) {
      const label = name === "indices" && fields.function === "gather_windows" ? "starts" : name;
      call[name] = (READERS[name] ?? String)(text.trim(), label);
    }
    return call;
  }

  /**
   * Make a call that `read` returns. Return {call, entries, applied, result, error}; with `steps`, a
   * scatter applies that many updates only.
   */
  function run(given, steps = Infinity) {
    let call = null;
    let entries = [];
    try {
      call = checked(given);
      entries = entriesOf(call);
      checkBounds(call, entries);
      const result = call.scatters ? scattered(call, entries.slice(0, steps)) : gathered(call, entries);
      return { call, entries, applied: Math.min(steps, entries.length), result, error: null };
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      return { call, entries, result: null, error };
    }
  }

  Object.assign(playground, { SyntaxProblem, cast, identity, offset, pairs, product, range, combinations });
  Object.assign(playground, { read, repr, run, shown, whole, written });
})();
