"use strict";
// Gather and scatter as plain loops over the definitions, with the errors of ndgather. No DOM: node
// and browsers load this file.
(() => {
  const playground = (globalThis.playground ??= {});
  const MODES = {
    gather_nd: ["raise", "wrap", "clip", "fill"],
    gather_elements: ["raise", "wrap", "clip", "fill"],
    gather: ["raise", "wrap", "clip", "fill"],
    gather_windows: ["raise", "clip", "fill"],
    scatter_nd: ["raise", "wrap", "clip", "drop"],
    scatter_elements: ["raise", "wrap", "clip", "drop"],
  };
  const REDUCTIONS = ["none", "add", "sub", "mul", "min", "max", "mean"];
  const MEANINGLESS = { bool: ["mean"] };
  const LARGEST = 10_000; // elements of an array

  class CallError extends Error {
    constructor(name, message) {
      super(message);
      this.name = name;
    }
  }
  /** What is typed is not a literal yet: no call is made. */
  class SyntaxProblem extends Error {}

  // ---- literals

  /** Return the nested lists of a Python or JSON literal; numbers are BigInt, Number or Boolean. */
  function parse(text, name) {
    const made = constructed(text);
    if (made) return made;
    const inner = /^\s*(?:np\.)?array\(([^]*)\)\s*$/.exec(text);
    const source = inner ? inner[1] : text;
    const tokens = source.match(/[[\](),]|[^\s[\](),]+/g) ?? [];
    let at = 0;
    const fail = (what) => {
      throw new SyntaxProblem(`${name}: ${what}`);
    };
    const list = (end) => {
      const items = [];
      while (tokens[at] !== end) {
        if (at >= tokens.length) fail(`${end} is missing`);
        items.push(value());
        if (tokens[at] === ",") at++;
        else if (tokens[at] !== end)
          fail(at < tokens.length ? `a comma is missing before ${tokens[at]}` : `${end} is missing`);
      }
      at++;
      return items;
    };
    const value = () => {
      const token = tokens[at++];
      if (token === "[") return list("]");
      if (token === "(") return list(")");
      return token === undefined
        ? fail("a number or a list is missing")
        : (scalar(token) ?? fail(`${token} is not a number`));
    };
    const result = value();
    if (at < tokens.length) fail(`${tokens[at]} is left over`);
    return result;
  }

  function scalar(token) {
    if (/^(true|false)$/i.test(token)) return token.toLowerCase() === "true";
    if (/^[+-]?\d[\d_]*$/.test(token)) {
      const whole = BigInt(token.replace(/^\+|_/g, ""));
      return BigInt.asIntN(64, whole) === whole ? whole : undefined;
    }
    if (/^[+-]?(nan|inf)$/i.test(token)) {
      return /nan/i.test(token) ? NaN : token[0] === "-" ? -Infinity : Infinity;
    }
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(token) ? Number(token) : undefined;
  }

  /** Return the lists of `arange(12).reshape(3, 4)` and `zeros((3, 4))`, or undefined. */
  function constructed(text) {
    const range = /^\s*(?:np\.)?arange\((\d+)\)(?:\.reshape\(([\d, ]+)\))?\s*$/.exec(text);
    const zeros = /^\s*(?:np\.)?zeros\(\(?([\d, ]+)\)?\)\s*$/.exec(text);
    const shape = (range ? (range[2] ?? range[1]) : zeros?.[1])
      ?.split(",")
      .filter((size) => size.trim())
      .map(Number);
    if (!shape || product(shape) > LARGEST || (range && product(shape) !== Number(range[1]))) return undefined;
    const count = product(shape);
    const values = range ? [...Array(count).keys()].map(BigInt) : Array(count).fill(0);
    return shape
      .slice(1)
      .reduceRight(
        (flat, size) => Array.from({ length: flat.length / size }, (_, n) => flat.slice(n * size, (n + 1) * size)),
        values,
      );
  }

  /** Return what NumPy makes of nested lists: {dtype, shape, values}, or throw its error. */
  function toArray(nested, caller, name) {
    const shape = [];
    let level = [nested];
    while (level.length ? level.every(Array.isArray) : false) {
      const sizes = new Set(level.map((each) => each.length));
      if (sizes.size > 1) break;
      shape.push(level[0].length);
      level = level.flat(1);
    }
    if (level.some(Array.isArray)) {
      throw new CallError(
        "DTypeError",
        `${caller}: ${name} = list object is not an array: setting an array element with a sequence. ` +
          `The requested array has an inhomogeneous shape after ${shape.length} dimensions. The detected ` +
          `shape was ${shown(shape)} + inhomogeneous part. (allowed: an array, a number or nested lists of numbers)`,
      );
    }
    if (level.length > LARGEST) throw new SyntaxProblem(`${name}: more than ${LARGEST} elements`);
    const types = new Set(level.map((value) => typeof value));
    const dtype = !types.size || types.has("number") ? "float64" : types.has("bigint") ? "int64" : "bool";
    return { dtype, shape, values: level.map((value) => cast(value, dtype)) };
  }

  function cast(value, dtype) {
    if (dtype === "float64") return Number(value);
    return dtype === "int64" ? BigInt.asIntN(64, BigInt(value)) : Boolean(value);
  }

  // ---- texts

  const shown = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

  /** Write a number as Python does. */
  function repr(value) {
    if (typeof value === "boolean") return value ? "True" : "False";
    if (typeof value === "bigint") return String(value);
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    const [, sign, digits, power] = /^(-?)([\d.]+)e([+-]\d+)$/.exec(
      (Object.is(value, -0) ? "-" : "") + value.toExponential(),
    );
    const exponent = Number(power);
    if (exponent < -4 || exponent >= 16) {
      return `${sign}${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    }
    const all = digits.replace(".", "");
    if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${all}`;
    const whole = all.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    return `${sign}${whole}.${all.slice(exponent + 1) || "0"}`;
  }

  /** Write an array as nested lists. */
  function written(array, write = repr) {
    const { shape, values } = array;
    const nested = (axis, first, count) => {
      if (axis === shape.length) return write(values[first]);
      const step = count / (shape[axis] || 1);
      return `[${Array.from({ length: shape[axis] }, (_, n) => nested(axis + 1, first + n * step, step)).join(", ")}]`;
    };
    return nested(0, 0, product(shape));
  }

  // ---- shapes and positions

  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
  const offset = (shape, position) => position.reduce((at, coordinate, axis) => at * shape[axis] + coordinate, 0);
  const scatters = (call) => call.function.startsWith("scatter");
  const takesTuples = (call) => /_nd$|_windows$/.test(call.function);
  const indicesName = (call) => (call.function === "gather_windows" ? "starts" : "indices");

  /** Yield all positions in an array of this shape, in C order. */
  function* positions(shape) {
    const count = product(shape);
    for (let n = 0; n < count; n++) {
      const position = Array(shape.length);
      for (let axis = shape.length - 1, rest = n; axis >= 0; axis--) {
        position[axis] = rest % shape[axis];
        rest = Math.floor(rest / shape[axis]);
      }
      yield position;
    }
  }

  /** Return the position that an index value addresses, null to fill or drop it, undefined if bad. */
  function resolve(value, size, mode) {
    const whole = BigInt(size);
    if (mode === "wrap" && size) return Number(((value % whole) + whole) % whole);
    if (mode === "clip" && size) return value < 0n ? 0 : value >= whole ? size - 1 : Number(value);
    if (-whole <= value && value < whole) return Number(value < 0n ? value + whole : value);
    return mode === "fill" || mode === "drop" ? null : undefined;
  }

  function resolveStart(value, size, wide, mode) {
    const most = BigInt(size - wide);
    if (mode === "fill") return Number(value);
    if (mode === "clip") return value < 0n ? 0 : value > most ? size - wide : Number(value);
    return value >= 0n && value <= most ? Number(value) : undefined;
  }

  // ---- checks, in the order of ndgather

  function checked(given) {
    const caller = given.function;
    const refuse = (name, text) => {
      throw new CallError(name, `${caller}: ${text}`);
    };
    const call = {
      axis: 0,
      batch_dims: 0,
      mode: "raise",
      reduction: "none",
      use_init_val: true,
      fill_value: null,
      window_shape: [],
      ...given,
    };
    const choice = (option, choices) => {
      if (!choices.includes(call[option])) {
        refuse(
          "AttributeValueError",
          `${option} = '${call[option]}' is unknown (allowed: ${choices.map((each) => `'${each}'`).join(", ")})`,
        );
      }
    };
    const continued = caller === "gather_windows" ? ["wrap", "edge", "reflect"] : [];
    choice("mode", [...MODES[caller], ...continued]);
    if (continued.includes(call.mode)) {
      throw new SyntaxProblem(`mode: ${call.mode} is not drawn here (drawn: ${MODES[caller].join(", ")})`);
    }
    call.data = toArray(given.data, caller, "data");
    call.indices = toArray(given.indices, caller, indicesName(call));
    if (!call.indices.values.length) call.indices.dtype = "int64";
    const { dtype } = call.data;
    if (scatters(call)) {
      const updates = (call.updates = toArray(given.updates, caller, "updates"));
      const order = ["int64", "float64"];
      const kept =
        updates.dtype === dtype ||
        (updates.dtype !== "bool" && dtype !== "bool" && order.indexOf(updates.dtype) < order.indexOf(dtype));
      if (updates.values.length && !kept) {
        const object = Array.isArray(given.updates)
          ? "list"
          : { boolean: "bool", bigint: "int", number: "float" }[typeof given.updates];
        refuse(
          "DTypeError",
          `updates = ${object} object cannot be held by data.dtype = ${dtype} (allowed: values ` +
            "of that type, floating ones may be rounded)",
        );
      }
      call.updates = {
        dtype,
        typed: updates.dtype,
        shape: updates.shape,
        values: updates.values.map((value) => cast(value, dtype)),
      };
      choice("reduction", REDUCTIONS);
      if (MEANINGLESS[dtype]?.includes(call.reduction)) {
        const allowed = REDUCTIONS.filter((each) => !MEANINGLESS[dtype].includes(each)).map((each) => `'${each}'`);
        refuse(
          "DTypeError",
          `reduction = '${call.reduction}' has no meaning for data.dtype = ${dtype} (allowed: ${allowed.join(", ")})`,
        );
      }
    } else if (call.fill_value !== null) {
      if (call.mode !== "fill") {
        refuse(
          "AttributeValueError",
          `fill_value is given, but mode = '${call.mode}' fills nothing (allowed: mode='fill')`,
        );
      }
      const fill = call.fill_value;
      const kept =
        dtype === "float64" ||
        (dtype === "int64"
          ? Number.isInteger(Number(fill)) && (typeof fill !== "number" || Math.abs(fill) < 2 ** 63)
          : Number(fill) === 0 || Number(fill) === 1 || Number.isNaN(fill));
      if (!kept)
        refuse(
          "DTypeError",
          `fill_value = ${repr(fill)} cannot be held by data.dtype = ${dtype} (allowed: one value of that type)`,
        );
      call.fill_value = dtype === "bool" && Number.isNaN(fill) ? true : cast(fill, dtype);
    }
    const rest = [() => checkIndexType(call, refuse), () => (call.shape = denseShape(call, refuse))];
    for (const step of caller === "gather_windows" && call.mode === "fill" ? rest.reverse() : rest) step();
    if (scatters(call)) checkUpdates(call, refuse);
    return call;
  }

  function checkIndexType(call, refuse) {
    const { dtype } = call.indices;
    if (dtype !== "int64") {
      refuse(
        "DTypeError",
        `${indicesName(call)}.dtype = ${dtype} is ${dtype === "bool" ? "boolean" : "floating"} ` +
          "(allowed: int8..int64, uint8..uint64)",
      );
    }
  }

  /** Return the shape of the result of a gather, or of the updates of a scatter; resolve axis and batch_dims. */
  function denseShape(call, refuse) {
    const data = call.data.shape,
      indices = call.indices.shape,
      name = indicesName(call);
    const tooLow = (what, shape) =>
      refuse("ShapeError", `${what}.shape = ${shown(shape)} has rank ${shape.length} (allowed: rank 1 or more)`);
    const outOfRange = (option, value, low, high, why) =>
      refuse(
        "AttributeValueError",
        `${option} = ${value} is out of range for ${why} (allowed: ${low <= high ? `${low}..${high}` : "nothing"})`,
      );
    const ofBoth = `data of shape ${shown(data)} and indices of shape ${shown(indices)}`;
    const batches = (count) => {
      for (let axis = 0; axis < count; axis++) {
        if (data[axis] !== indices[axis]) {
          refuse(
            "ShapeError",
            `indices.shape[${axis}] = ${indices[axis]} differs from data.shape[${axis}] = ${data[axis]}: ` +
              `batch axes must be equal in data ${shown(data)} and indices ${shown(indices)} (allowed: ` +
              `${data[axis]})`,
          );
        }
      }
    };
    if (takesTuples(call)) {
      if (!indices.length) tooLow(name, indices);
      const lead = indices.slice(0, -1),
        depth = indices.at(-1),
        window = call.window_shape;
      if (call.function === "gather_windows") {
        if (depth !== window.length || window.length > data.length) {
          const allowed = window.length > data.length ? `0..${data.length}` : `${window.length}, as window_shape has`;
          refuse(
            "ShapeError",
            `starts.shape[-1] = ${depth} does not fit window_shape = ${shown(window)} and data ` +
              `${shown(data)}; starts.shape = ${shown(indices)} (allowed: ${allowed})${indices.length === 1 ? "; one start for each window is starts[:, None]" : ""}`,
          );
        }
        const axis = window.findIndex((size, n) => size > data[n]);
        if (axis >= 0 && call.mode !== "fill") {
          refuse(
            "ShapeError",
            `window_shape[${axis}] = ${window[axis]} is more than data.shape[${axis}] = ${data[axis]}: ` +
              `every window sticks out (allowed: 0..${data[axis]}, or mode='fill')`,
          );
        }
        return [...lead, ...window, ...data.slice(depth)];
      }
      const batch = call.batch_dims,
        most = Math.min(lead.length, data.length);
      if (batch < 0 || batch > most) outOfRange("batch_dims", batch, 0, most, ofBoth);
      batches(batch);
      const left = data.length - batch;
      if (depth > left) {
        let hint = "";
        if (indices.length === 1) hint = "; one index for each slice is indices[:, None]";
        else if (indices.length === 2 && indices[0] === left)
          hint = "; in place of np.nonzero(mask) use np.argwhere(mask)";
        refuse(
          "ShapeError",
          `indices.shape[-1] = ${depth} is more than the ${left} axes that data ${shown(data)} ` +
            `has${batch ? ` after ${batch} batch axes` : ""}; indices.shape = ${shown(indices)} ` +
            `(allowed: 0..${left})${hint}`,
        );
      }
      return [...lead, ...data.slice(batch + depth)];
    }
    if (!data.length) tooLow("data", data);
    const elements = call.function !== "gather";
    if (elements && data.length !== indices.length) {
      refuse(
        "ShapeError",
        `indices.shape = ${shown(indices)} has rank ${indices.length}, but data.shape = ${shown(data)} ` +
          `has rank ${data.length} (allowed: the same rank)`,
      );
    }
    if (call.axis < -data.length || call.axis >= data.length)
      outOfRange("axis", call.axis, -data.length, data.length - 1, `data of shape ${shown(data)}`);
    const axis = (call.axis += call.axis < 0 ? data.length : 0);
    if (elements) {
      const longer = indices.findIndex((size, n) => n !== axis && size > data[n]);
      if (longer >= 0) {
        refuse(
          "ShapeError",
          `indices.shape[${longer}] = ${indices[longer]} is more than data.shape[${longer}] = ` +
            `${data[longer]}: indices ${shown(indices)} may be larger than data ${shown(data)} only ` +
            `on axis ${axis} (allowed: 0..${data[longer]})`,
        );
      }
      return [...indices];
    }
    const asked = call.batch_dims,
      most = Math.min(axis, indices.length),
      low = -Math.min(data.length, indices.length);
    const batch = (call.batch_dims += asked < 0 ? indices.length : 0);
    if (asked < low || batch > most) outOfRange("batch_dims", asked, asked < 0 ? low : 0, most, ofBoth);
    batches(batch);
    return [...data.slice(0, axis), ...indices.slice(batch), ...data.slice(axis + 1)];
  }

  function checkUpdates(call, refuse) {
    const data = call.data.shape,
      indices = call.indices.shape,
      updates = call.updates.shape;
    const same = (one, other) => one.length === other.length && one.every((size, axis) => size === other[axis]);
    if (same(updates, call.shape)) return;
    let hint = "";
    if (indices.length === 1 && same(updates, [...indices, ...data.slice(1)]))
      hint = "; one index for each update is indices[:, None]";
    else if (!updates.length) hint = `; one value for all is np.broadcast_to(updates, ${shown(call.shape)})`;
    refuse(
      "ShapeError",
      `updates.shape = ${shown(updates)} does not fit indices and data (allowed: ${shown(call.shape)})${hint}`,
    );
  }

  // ---- entries of indices, and what they address

  /**
   * Return the entries of indices in C order. Each has its `values`, the `coordinates` that they
   * address (null: filled or dropped, undefined: bad), and two boxes of equal shape, [start, size]
   * for each axis: `source` in data (null where it addresses nothing), `dense` in result or updates.
   */
  function entriesOf(call) {
    const { data, indices, mode, axis, batch_dims: batch } = call;
    const tuples = takesTuples(call),
      windows = call.function === "gather_windows";
    const lead = tuples ? indices.shape.slice(0, -1) : indices.shape,
      depth = tuples ? indices.shape.at(-1) : 1;
    const elements = call.function.endsWith("_elements"),
      full = (size) => [0, size],
      at = (start) => [start, 1];
    return [...positions(lead)].map((position) => {
      const first = offset(lead, position) * depth;
      const values = indices.values.slice(first, first + depth);
      const coordinates = values.map((value, n) => {
        const size = data.shape[tuples ? batch + n : axis];
        return windows ? resolveStart(value, size, call.window_shape[n], mode) : resolve(value, size, mode);
      });
      const known = coordinates.every(Number.isInteger);
      let source, dense;
      if (elements) {
        source = position.map((coordinate, n) => at(n === axis ? coordinates[0] : coordinate));
        dense = position.map(at);
      } else if (!tuples) {
        source = data.shape.map((size, n) =>
          n === axis ? at(coordinates[0]) : n < batch ? at(position[n]) : full(size),
        );
        dense = [...source.slice(0, axis), ...position.slice(batch).map(at), ...data.shape.slice(axis + 1).map(full)];
      } else {
        const rest = data.shape.slice(batch + depth).map(full);
        const box = coordinates.map((start, n) => (windows ? [start, call.window_shape[n]] : at(start)));
        source = [...position.slice(0, batch).map(at), ...box, ...rest];
        dense = [...position.map(at), ...(windows ? call.window_shape.map(full) : []), ...rest];
      }
      const inside =
        known &&
        (!windows ||
          !depth ||
          source.every(([start, size], n) => Math.max(start, 0) < Math.min(start + size, data.shape[n])));
      return { position, values, coordinates, source: inside ? source : null, dense };
    });
  }

  /** Throw the error of the first bad entry of indices. */
  function checkBounds(call, entries) {
    const { indices, data } = call,
      tuples = takesTuples(call),
      windows = call.function === "gather_windows";
    const bad = entries.flatMap((entry) =>
      entry.coordinates.flatMap((at, n) => (at === undefined ? [[entry, n]] : [])),
    );
    if (!bad.length) return;
    const [entry, n] = bad[0],
      axis = tuples ? call.batch_dims + n : call.axis,
      size = data.shape[axis];
    const wide = call.window_shape[n];
    const allowed = windows
      ? `allowed: 0..${size - wide}`
      : size
        ? `allowed: ${-size}..${size - 1}`
        : "the axis is empty";
    const others =
      bad.length > 1
        ? `; ${bad.length} of ${indices.values.length} entries of ${indicesName(call)} are out of bounds`
        : "";
    const position = [...entry.position, ...(tuples ? [n] : [])];
    throw new CallError(
      "IndexOutOfBoundsError",
      `${call.function}: ${indicesName(call)}[${position.join(", ")}] = ${entry.values[n]} ` +
        `${windows ? `lets a window of size ${wide} stick out of` : "is outside"} axis ${axis} ` +
        `of data, which has size ${size} (${allowed})${others}`,
    );
  }

  // ---- the definitions

  /** Yield pairs of offsets: an element of the dense array, and its element of data or null. */
  function* pairs(call, entry) {
    const shape = call.data.shape;
    const boxes = entry.source ?? entry.dense.map(([, size]) => [0, size]);
    const wide = boxes.map(([, size]) => size),
      dense = entry.dense.map(([, size]) => size);
    const sources = positions(wide);
    for (const inDense of positions(dense)) {
      const to = offset(
        call.shape,
        inDense.map((step, axis) => entry.dense[axis][0] + step),
      );
      if (!entry.source) {
        yield [to, null];
        continue;
      }
      const from = sources.next().value.map((step, axis) => entry.source[axis][0] + step);
      yield [to, from.every((at, axis) => at >= 0 && at < shape[axis]) ? offset(shape, from) : null];
    }
  }

  /** result[dense element] = data[source element], or the fill value. */
  function gathered(call, entries) {
    const fill = call.fill_value ?? cast(0n, call.data.dtype);
    const values = Array(product(call.shape));
    for (const entry of entries) {
      for (const [to, from] of pairs(call, entry)) values[to] = from === null ? fill : call.data.values[from];
    }
    return { dtype: call.data.dtype, shape: call.shape, values };
  }

  /** result[source element] = f(result[source element], updates[dense element]), update by update. */
  function scattered(call, entries) {
    const { data, updates, reduction, use_init_val: keeps } = call;
    const values = [...data.values],
      counts = Array(values.length).fill(0);
    for (const entry of entries) {
      if (!entry.source) continue;
      for (const [from, to] of pairs(call, entry)) {
        if (!keeps && reduction !== "none" && !counts[to]) values[to] = identity(reduction, data.dtype);
        counts[to]++;
        values[to] = combine(reduction, values[to], updates.values[from], data.dtype);
      }
    }
    if (reduction === "mean") {
      counts.forEach((count, n) => {
        if (count) values[n] = quotient(values[n], count + (keeps ? 1 : 0));
      });
    }
    return { dtype: data.dtype, shape: data.shape, values };
  }

  function combine(reduction, old, update, dtype) {
    switch (reduction) {
      case "none":
        return update;
      case "min":
      case "max": {
        const wins = reduction === "min" ? update < old : update > old;
        return !Number.isNaN(old) && (wins || Number.isNaN(update)) ? update : old;
      }
      case "mul":
        return cast(dtype === "bool" ? old && update : old * update, dtype);
      case "sub":
        return dtype === "bool" ? old !== update : cast(old - update, dtype);
      default:
        return dtype === "bool" ? old || update : cast(old + update, dtype);
    }
  }

  /** The value that a reduction starts from where it ignores the elements of data. */
  function identity(reduction, dtype) {
    if (reduction !== "min" && reduction !== "max") return cast(reduction === "mul" ? 1n : 0n, dtype);
    const least = { int64: -(2n ** 63n), float64: -Infinity, bool: false }[dtype];
    const most = { int64: 2n ** 63n - 1n, float64: Infinity, bool: true }[dtype];
    return reduction === "min" ? most : least;
  }

  function quotient(total, count) {
    if (typeof total === "number") return total / count;
    const whole = BigInt(count),
      rest = ((total % whole) + whole) % whole;
    return (total - rest) / whole; // rounded down
  }

  /** Return the call that the fields of the page hold, as texts. */
  function read(fields) {
    const given = { function: fields.function, data: parse(fields.data ?? "", "data") };
    const name = indicesName(given);
    given.indices = parse(fields.indices ?? "", name);
    if (scatters(given)) given.updates = parse(fields.updates ?? "", "updates");
    for (const option of ["mode", "reduction"]) if (fields[option]) given[option] = fields[option];
    if (fields.use_init_val) given.use_init_val = fields.use_init_val !== "False";
    for (const option of ["axis", "batch_dims"]) {
      if (!/\S/.test(fields[option] ?? "")) continue;
      if (!/^\s*[+-]?\d{1,15}\s*$/.test(fields[option])) throw new SyntaxProblem(`${option}: an integer is missing`);
      given[option] = Number(fields[option]);
    }
    if (/\S/.test(fields.fill_value ?? "")) {
      given.fill_value = scalar(fields.fill_value.trim());
      if (given.fill_value === undefined) throw new SyntaxProblem("fill_value: a number is missing");
    }
    if (name === "starts") {
      const window = [parse(fields.window_shape ?? "", "window_shape")].flat();
      if (window.some((size) => typeof size !== "bigint" || size < 0n))
        throw new SyntaxProblem("window_shape: sizes such as (2, 2) are missing");
      given.window_shape = window.map(Number);
    }
    return given;
  }

  /**
   * Make a call {function, data, indices, updates, axis, ...} with nested lists. Return {call,
   * entries, result, error}; with `steps`, a scatter applies that many updates only.
   */
  function run(given, steps = Infinity) {
    let call = null,
      entries = [];
    try {
      call = checked(given);
      entries = entriesOf(call);
      checkBounds(call, entries);
      const result = scatters(call) ? scattered(call, entries.slice(0, steps)) : gathered(call, entries);
      return { call, entries, applied: Math.min(steps, entries.length), result, error: null };
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      return { call, entries, result: null, error };
    }
  }

  Object.assign(playground, {
    MODES,
    REDUCTIONS,
    SyntaxProblem,
    cast,
    identity,
    indicesName,
    offset,
    pairs,
    parse,
    positions,
    product,
    read,
    repr,
    run,
    scatters,
    shown,
    takesTuples,
    written,
  });
})();
