"use strict";
// The picture of a call, drawn as `ndgather.show` draws it, and its description in sentences.
(() => {
  const { playground } = globalThis;
  const { indicesName, offset, positions, product, repr, scatters, shown, takesTuples } = playground;
  const MOST_ENTRIES = 30;
  const MOST_ELEMENTS = 300;
  const MOST_NOTES = 4;
  const MOST_CHIPS = 4;
  const COLOURS = 5;
  const ADVANCE = 0.602; // width of a letter of a monospaced font, relative to its size
  const SIZES = { about: 11.5, value: 13, head: 10.5, note: 12 };
  const HEAD = 44,
    HEIGHT = 28,
    ROW_GAP = 13,
    COLUMN_GAP = 5,
    LEAST = 36,
    CHIP = 14,
    WIDEST_ROW = 340;

  const letter = (n) => (n >= 26 ? letter(Math.floor(n / 26) - 1) : "") + String.fromCharCode(97 + (n % 26));
  const width = (text, style) => text.length * ADVANCE * SIZES[style];
  const escaped = (text) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

  // ---- what each entry does, in sentences

  function region(name, box, shape) {
    const spans = box.map(([start, size], axis) => {
      const first = Math.max(start, 0);
      const last = Math.min(start + size, shape[axis]);
      if (last - first === shape[axis] && shape[axis] !== 1) return ":";
      return last - first === 1 ? String(first) : `${first}:${last}`;
    });
    return spans.length ? `${name}[${spans.join(", ")}]` : name;
  }

  function sentence(call, entry) {
    const raw = entry.values.join(", ");
    const tuple = entry.values.length === 1 ? `(${raw},)` : `(${raw})`;
    const at = entry.position.length ? `[${entry.position.join(", ")}]` : "";
    const subject = `${indicesName(call)}${at} = ${takesTuples(call) ? tuple : raw}`;
    const dense = region(scatters(call) ? "updates" : "result", entry.dense, call.shape);
    if (!entry.source) {
      const what = { drop: `: ${dense} is left out`, fill: `: ${dense} is filled` }[call.mode] ?? "";
      return `${subject} is out of bounds${what}`;
    }
    const data = region("data", entry.source, call.data.shape);
    return `${subject}: ${dense} ${scatters(call) ? "goes to" : "is"} ${data}`;
  }

  /** Explain the first index value that becomes another, and the order of repeated updates. */
  function notes(call, entries, count) {
    const texts = [];
    const changed = entries
      .flatMap((entry) => entry.values.map((raw, n) => [raw, entry.coordinates[n]]))
      .find(([raw, at]) => Number.isInteger(at) && Number(raw) !== at);
    if (changed) {
      const verb = { wrap: "wraps around", clip: "is clipped" }[call.mode] ?? "counts from the end of its axis";
      texts.push(`${changed[0]} ${verb}: it is ${changed[1]}`);
    }
    if (!scatters(call)) return texts;
    if (entries.length < count) return [...texts, "updates that are not drawn may have the same targets"];
    const repeated = [...targets(entries).values()].filter((numbers) => numbers.length > 1);
    for (const numbers of repeated.slice(0, MOST_NOTES)) {
      const { source } = entries[numbers[0]];
      const old = region("data", source, call.data.shape);
      texts.push(`${region("result", source, call.data.shape)}: ${combined(call, numbers.map(letter), old)}`);
    }
    const others = repeated.length - MOST_NOTES;
    return others > 0 ? [...texts, `and ${others} other places with several updates`] : texts;
  }

  /** Return the numbers of the entries that address each region of data. */
  function targets(entries) {
    const found = new Map();
    entries.forEach(({ source }, n) => {
      if (source) found.set(String(source), [...(found.get(String(source)) ?? []), n]);
    });
    return found;
  }

  function combined(call, letters, old) {
    const terms = call.use_init_val ? [old, ...letters] : letters;
    switch (call.reduction) {
      case "none":
        return `${letters.join(", then ")}; the last one stays`;
      case "add":
        return terms.join(" + ");
      case "mul":
        return terms.join(" * ");
      case "sub":
        return (call.use_init_val ? terms : ["0", ...letters]).join(" - ");
      case "mean":
        return `(${terms.join(" + ")}) / ${terms.length}`;
      default:
        return `${call.reduction}(${terms.join(", ")})`;
    }
  }

  // ---- panels: arrays as planes of cells, with a box for each entry

  /** Return {panels, entries, notes, error} of what `playground.run` has returned. */
  function scene({ call, entries, applied, result, error }) {
    const message = error && error.message;
    if (!call) return { panels: [], entries: [], notes: [], error: message };
    const drawn = entries.slice(0, MOST_ENTRIES);
    const labels = drawn.map((entry, n) => ({
      letter: letter(n),
      sentence: sentence(call, entry),
      bad: isBad(call, entry),
    }));
    const failed = error ? "there is none: the call fails" : "";
    const last = scatters(call) && call.reduction === "none" ? targets(drawn.slice(0, applied)) : new Map();
    const replaced = (n) => last.get(String(drawn[n].source))?.slice(0, -1).includes(n);
    const inData = (crosses) => drawn.map(({ source }, n) => ({ box: source, replaced: crosses && replaced(n) }));
    const inDense = (crosses) => drawn.map(({ dense }, n) => ({ box: dense, replaced: crosses && replaced(n) }));
    const plain = (array) => (at) => ({ text: brief(array.values[at]) });
    const panels = [panel(call, "data", call.data, plain(call.data), inData(false))];
    panels.push(takesTuples(call) ? tuplesPanel(call, drawn, entries.length) : integersPanel(call, drawn));
    if (scatters(call)) {
      panels.push(
        panel(call, "updates", { ...call.updates, dtype: call.updates.typed }, plain(call.updates), inDense(true)),
      );
      const cell = result ? plain(result) : () => ({ text: "", state: "absent" });
      panels.push({ ...panel(call, "result", call.data, cell, inData(true)), note: failed });
    } else {
      const shape = { dtype: call.data.dtype, shape: call.shape };
      panels.push({
        ...panel(call, "result", shape, gatheredCell(call, entries, result), inDense(false)),
        note: failed,
      });
    }
    return { panels, entries: labels, notes: notes(call, drawn, entries.length), error: message };
  }

  const isBad = (call, entry) => !entry.source && call.mode !== "fill" && call.mode !== "drop";

  function gatheredCell(call, entries, result) {
    const sources = new Map(entries.flatMap((entry) => [...playground.pairs(call, entry)]));
    return (at) => {
      const state = sources.get(at) === null ? (result ? "filled" : "bad") : result ? "" : "absent";
      return { text: result ? brief(result.values[at]) : "", state };
    };
  }

  /** Write a value in a few letters. */
  function brief(value) {
    if (typeof value === "bigint" && String(value).length > 10) return Number(value).toExponential(3);
    if (typeof value !== "number" || !Number.isFinite(value)) return repr(value);
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
    const text = repr(Number(value.toPrecision(6)));
    return text.length <= 8 || size >= 100 ? text : repr(Number(value.toPrecision(4)));
  }

  function panel(call, name, array, cell, marks) {
    const { shape } = array;
    const depth = Math.max(shape.length - 2, Math.min(call.batch_dims, shape.length - 1), 0);
    const missing = 2 - (shape.length - depth);
    const axes = [...Array(missing).fill(null), ...shape.slice(depth)];
    const [rows, columns] = axes.map((size) => (size === null ? [""] : [...Array(size).keys()].map(String)));
    const planes = [...(shape.includes(0) ? [] : positions(shape.slice(0, depth)))].map((head) => {
      const first = offset(shape.slice(0, depth), head) * rows.length * columns.length;
      const boxes = marks.flatMap(({ box, replaced }, entry) => {
        if (!box || !head.every((at, axis) => at >= box[axis][0] && at < box[axis][0] + box[axis][1])) return [];
        const spans = [...Array(missing).fill([0, 1]), ...box.slice(depth)].map(([start, size], n) => {
          const most = n === 0 ? rows.length : columns.length;
          return [Math.max(start, 0), Math.min(start + size, most) - 1];
        });
        return [{ entry, rows: spans[0], columns: spans[1], replaced }];
      });
      const cells = rows.map((_, row) => columns.map((__, column) => cell(first + row * columns.length + column)));
      return { heading: depth ? `${name}[${head.join(", ")}]` : "", rows, columns, cells, boxes };
    });
    return { name, about: `${array.dtype} ${shown(shape)}`, note: shape.includes(0) ? "no elements" : "", planes };
  }

  function indexCells(call, entry) {
    const what = { fill: "→fill", drop: "→drop" }[call.mode] ?? "";
    return entry.values.map((raw, n) => {
      const at = entry.coordinates[n];
      if (!Number.isInteger(at)) return { text: `${raw}${what}`, state: what ? "filled" : "bad" };
      return { text: Number(raw) === at ? String(raw) : `${raw}→${at}` };
    });
  }

  function integersPanel(call, entries) {
    const marks = entries.map((entry) => ({ box: entry.position.map((at) => [at, 1]) }));
    const cell = (at) => (entries[at] ? indexCells(call, entries[at])[0] : { text: String(call.indices.values[at]) });
    return { ...panel(call, "indices", call.indices, cell, marks), isEntries: true };
  }

  /** Return the panel of index tuples: a row for each. */
  function tuplesPanel(call, entries, count) {
    const { dtype, shape } = call.indices;
    const depth = shape.at(-1);
    const columns = depth ? [...Array(depth).keys()].map((n) => `axis ${call.batch_dims + n}`) : [""];
    const rows = entries.map(({ position }) => (position.length ? `[${position.join(", ")}]` : ""));
    const cells = entries.map((entry) => (depth ? indexCells(call, entry) : [{ text: "( )" }]));
    const boxes = entries.map((_, entry) => ({ entry, rows: [entry, entry], columns: [0, columns.length - 1] }));
    const planes = entries.length ? [{ heading: "", rows, columns, cells, boxes }] : [];
    const note = !count ? "no entries" : entries.length < count ? `${entries.length} of ${count} entries` : "";
    return { name: indicesName(call), about: `${dtype} ${shown(shape)}`, note, planes, isEntries: true };
  }

  function description({ panels, entries, notes: texts, error }) {
    return (
      [
        panels.map(({ name, about }) => `${name} ${about}`).join("; "),
        ...entries.map((entry) => `${entry.letter}: ${entry.sentence}`),
        ...texts,
        ...(error ? [`The call fails: ${error}`] : []),
      ].join(". ") + "."
    );
  }

  // ---- SVG

  const rect = (x, y, wide, high, style, round = 4) =>
    `<rect class="n-${style}" x="${x}" y="${y}" width="${wide}" height="${high}" rx="${round}"/>`;
  const line = (x, y, dx, dy, style) => `<line class="n-${style}" x1="${x}" y1="${y}" x2="${x + dx}" y2="${y + dy}"/>`;
  const label = (x, y, text, style, anchor = "start") =>
    `<text class="n-${style}" x="${x}" y="${y}" text-anchor="${anchor}">${escaped(text)}</text>`;
  const hidden = (shapes) => `<g aria-hidden="true">${shapes}</g>`;
  const chipText = ({ letter: name, bad }) => name + (bad ? "✗" : "");
  const chipWidth = (entry) => 10 + 6.1 * chipText(entry).length;

  function panelSvg(drawn, entries, current) {
    let body = hidden(
      label(0, 13, drawn.name, "name") +
        label(0, 31, drawn.about, "about") +
        (drawn.note ? label(0, 48, drawn.note, "note") : ""),
    );
    let x = 0,
      y = HEAD + (drawn.note ? 16 : 0),
      tallest = 0;
    let widest = Math.max(0.9 * width(drawn.note, "note"), width(drawn.about, "about"));
    const side = Math.max(
      0,
      ...drawn.planes.flatMap(({ rows }) => rows.map((row) => (row ? width(row, "head") + 8 : 0))),
    );
    const widths = columnWidths(drawn, entries);
    for (const plane of drawn.planes) {
      const wide = Math.max(side + widths.reduce((all, each) => all + each, 0), width(plane.heading, "head"));
      if (x && x + wide > WIDEST_ROW) [x, y, tallest] = [0, y + tallest + 14, 0];
      const above = (plane.heading ? 18 : 0) + (plane.columns.some(Boolean) ? 18 : 2) + CHIP / 2 + 1;
      const cell = (row, column) => ({
        left: x + side + widths.slice(0, column).reduce((all, each) => all + each, 0),
        top: y + above + row * (HEIGHT + ROW_GAP),
        wide: widths[column] - COLUMN_GAP,
      });
      body += planeSvg(plane, cell, { x, y, side, entries, current, isEntries: drawn.isEntries });
      tallest = Math.max(tallest, above + plane.rows.length * (HEIGHT + ROW_GAP) - ROW_GAP + 4);
      x += wide + 22;
      widest = Math.max(widest, x - 22);
    }
    const [wide, high] = [Math.ceil(widest) + 4, Math.ceil(y + tallest) + 4];
    const name = escaped(`${drawn.name} ${drawn.about}`);
    return `<svg role="group" aria-label="${name}" width="${wide}" height="${high}" viewBox="-2 0 ${wide} ${high}">${body}</svg>`;
  }

  /** Return the widths of columns, with the gap to the next: all planes of a panel have the same. */
  function columnWidths(drawn, entries) {
    const widths = (drawn.planes[0]?.columns ?? []).map((name) => Math.max(LEAST, width(name, "head") + 4));
    for (const { cells, boxes } of drawn.planes) {
      cells.forEach((row) =>
        row.forEach(({ text }, n) => (widths[n] = Math.max(widths[n], width(text, "value") + 14))),
      );
      const chips = new Map();
      for (const { entry, rows, columns } of boxes) {
        const corner = `${rows[0]},${columns[0]}`;
        const others = chips.get(corner) ?? { count: 0, wide: (columns[0] - columns[1]) * LEAST + 8 };
        if (others.count++ <= MOST_CHIPS) others.wide += chipWidth(entries[entry]);
        chips.set(corner, others);
        widths[columns[0]] = Math.max(widths[columns[0]], others.wide);
      }
    }
    return widths.map((wide) => wide + COLUMN_GAP);
  }

  function planeSvg(plane, cell, { x, y, side, entries, current, isEntries }) {
    let shapes = plane.heading ? label(x, y + 10, plane.heading, "head") : "",
      texts = "";
    plane.columns.forEach((name, column) => {
      const { left, wide } = cell(0, column);
      shapes += name ? label(left + wide / 2, y + (plane.heading ? 27 : 9), name, "head", "middle") : "";
    });
    plane.cells.forEach((row, r) => {
      shapes += plane.rows[r] ? label(x + side - 7, cell(r, 0).top + 18, plane.rows[r], "head", "end") : "";
      row.forEach(({ text, state }, c) => {
        const { left, top, wide } = cell(r, c);
        shapes += rect(left, top, wide, HEIGHT, text ? "cell" : "absent");
        for (let start = 6; state === "filled" && start < wide + HEIGHT; start += 9) {
          const begin = Math.max(0, start - HEIGHT);
          const end = Math.min(wide, start);
          shapes += line(left + begin, top + start - begin, end - begin, begin - end, "hatch");
        }
        texts += text ? label(left + wide / 2, top + 19, text, state === "bad" ? "bad" : "value", "middle") : "";
      });
    });
    return hidden(shapes) + boxesSvg(plane, cell, entries, current, isEntries) + hidden(texts);
  }

  /** Draw the boxes of a plane; those that share cells are drawn inside one another. */
  function boxesSvg(plane, cell, entries, current, isEntries) {
    const inside = new Map(),
      corners = new Map();
    let all = "";
    for (const { entry, rows, columns, replaced } of plane.boxes) {
      const cells = [...positions([rows[1] - rows[0] + 1, columns[1] - columns[0] + 1])].map(
        ([r, c]) => `${rows[0] + r},${columns[0] + c}`,
      );
      const level = Math.max(...cells.map((each) => inside.get(each) ?? 0));
      cells.forEach((each) => inside.set(each, level + 1));
      const corner = corners.get(cells[0]) ?? { used: 0, count: 0, ...cell(rows[0], columns[0]) };
      corners.set(cells[0], corner);
      if (++corner.count > MOST_CHIPS) continue;
      const { bad, sentence: text } = entries[entry];
      const last = cell(rows[1], columns[1]),
        inset = Math.min(level, 3) * 3;
      const [left, top] = [corner.left + inset, corner.top + inset];
      const [wide, high] = [last.left + last.wide - left - inset, last.top + HEIGHT - top - inset];
      const [x, y, chip] = [corner.left + 4 + corner.used, corner.top - CHIP / 2 - 1, chipWidth(entries[entry]) - 2];
      corner.used += chip + 2;
      const shapes =
        rect(left, top, wide, high, bad ? "outside" : "box") +
        rect(x, y, chip, CHIP, bad ? "alarm" : replaced ? "gone" : "chip", 3) +
        (replaced ? line(x - 2, y + CHIP / 2, chip + 4, 0, "cross") : "") +
        label(
          x + chip / 2,
          y + 10.5,
          chipText(entries[entry]),
          bad ? "wrong" : replaced ? "replaced" : "letter",
          "middle",
        );
      const known = isEntries ? `role="img" tabindex="0" aria-label="${escaped(text)}"` : 'aria-hidden="true"';
      const step = entry === current ? " n-now" : entry > current ? " n-later" : "";
      all += `<g class="n-e n-k${entry} n-c${entry % COLOURS}${step}" ${known}><title>${escaped(text)}</title>${shapes}</g>`;
    }
    for (const { count, left, top, used } of corners.values()) {
      if (count > MOST_CHIPS) all += hidden(label(left + 6 + used, top - 3, `+${count - MOST_CHIPS}`, "head"));
    }
    return all;
  }

  /** Return the picture as HTML; the entry with the number `current` is the last that is applied. */
  function picture(outcome, current = Infinity) {
    const { call } = outcome;
    if (!call) return "";
    const arrays = [call.data.shape, call.indices.shape, call.shape];
    const largest = Math.max(...arrays.map(product));
    if (largest > MOST_ELEMENTS)
      return `<p class="n-note-below">Arrays of ${largest} elements are not drawn: at most ${MOST_ELEMENTS}.</p>`;
    const drawn = scene(outcome);
    const parts = drawn.panels.map((each, n) => {
      const arrow = n && n === drawn.panels.length - 1 ? '<span class="n-to" aria-hidden="true">→</span>' : "";
      return `<div class="n-part" tabindex="0" role="group" aria-label="${each.name}">${arrow}${panelSvg(each, drawn.entries, current)}</div>`;
    });
    const below = drawn.notes.map((note) => `<p class="n-note-below">${escaped(note)}</p>`);
    return `<p class="n-unseen">${escaped(description(drawn))}</p><div class="n-parts">${parts.join("")}</div>${below.join("")}`;
  }

  Object.assign(playground, { description, picture, scene });
})();
