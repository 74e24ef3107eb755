"use strict";
// The picture of a call, drawn as `ndgather.show` draws it, and its description in sentences.
(() => {
  const { playground } = globalThis;
  const { combinations, pairs, product, range, repr, shown, whole } = playground;
  const [MOST_ENTRIES, MOST_ELEMENTS, MOST_NOTES, MOST_CHIPS, COLOURS] = [30, 300, 4, 4, 5];
  const ADVANCE = 0.602; // width of a letter of a monospaced font, relative to its size
  const SIZES = { about: 11.5, value: 13, head: 10.5, note: 12 };
  const [HEAD, HEIGHT, ROW_GAP, COLUMN_GAP, LEAST, CHIP] = [44, 28, 13, 5, 36, 14];
  const WIDEST_ROW = globalThis.innerWidth > 700 ? 640 : 310; // of planes side by side

  const letter = (n) => (n >= 26 ? letter(Math.floor(n / 26) - 1) : "") + String.fromCharCode(97 + (n % 26));
  const escaped = (text) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

  // ---- what each entry does, in sentences

  /** Write positions on every axis as an index, such as data[:, 2]. */
  function indexed(name, places, shape) {
    const spans = places.map((span, axis) => {
      if (span.length === shape[axis] && span.length !== 1) return ":";
      if (span.length === 1) return span[0];
      const isRange = span.at(-1) - span[0] === span.length - 1;
      return isRange ? `${span[0]}:${span.at(-1) + 1}` : `(${span.join(", ")})`;
    });
    return spans.length ? `${name}[${spans.join(", ")}]` : name;
  }

  /** Return what becomes of an entry that is out of bounds. */
  function outside({ mode }) {
    if (mode === "drop") return { state: "filled", arrow: "→drop", verb: "left out" };
    const fills = mode.includes("fill") && !mode.includes("raise");
    return fills ? { state: "filled", arrow: "→fill", verb: "filled" } : { state: "bad", arrow: "" };
  }

  function sentence(call, entry) {
    const value = call.tuples ? shown(entry.values) : entry.values[0];
    const at = entry.position.length ? `[${entry.position.join(", ")}]` : "";
    const subject = `${call.indices.name}${at} = ${value}`;
    const dense = indexed(call.scatters ? "updates" : "result", entry.dense, call.shape);
    if (entry.region) {
      const data = indexed("data", entry.region, call.data.shape);
      return `${subject}: ${dense} ${call.scatters ? "goes to" : "is"} ${data}`;
    }
    const { verb } = outside(call);
    return `${subject} is out of bounds${verb ? `: ${dense} is ${verb}` : ""}`;
  }

  /** Explain the first index value that becomes another, and the order of repeated updates. */
  function notes(call, entries, count) {
    const texts = [];
    const changed = entries
      .flatMap(({ values, coordinates }) => values.map((raw, n) => [raw, coordinates[n]]))
      .find(([raw, at]) => whole(at) && raw !== at);
    if (changed) {
      const mode = call.windows ? "clip" : call.mode;
      const verb = { wrap: "wraps around", clip: "is clipped" }[mode] ?? "counts from the end of its axis";
      texts.push(`${changed[0]} ${verb}: it is ${changed[1]}`);
    }
    if (!call.scatters) return texts;
    if (entries.length < count) return [...texts, "updates that are not drawn may have the same targets"];
    const keys = entries.map(({ region }) => region && JSON.stringify(region));
    const repeated = keys.filter((key, n) => key && keys.indexOf(key) === n && keys.lastIndexOf(key) > n);
    for (const key of repeated.slice(0, MOST_NOTES)) {
      const letters = keys.flatMap((each, n) => (each === key ? [letter(n)] : []));
      const place = indexed("", JSON.parse(key), call.data.shape);
      texts.push(`result${place}: ${formula(call, letters, `data${place}`)}`);
    }
    const others = repeated.length - MOST_NOTES;
    return others > 0 ? [...texts, `and ${others} other places with several updates`] : texts;
  }

  function formula({ reduction, keeps }, letters, old) {
    if (reduction === "none") return `${letters.join(", then ")}; the last one stays`;
    const terms = keeps ? [old, ...letters] : letters;
    if (reduction === "mean") return `(${terms.join(" + ")}) / ${terms.length}`;
    if (reduction === "sub") return (keeps ? terms : ["0", ...letters]).join(" - ");
    const sign = { add: " + ", mul: " * " }[reduction];
    return sign ? terms.join(sign) : `${reduction}(${terms.join(", ")})`;
  }

  // ---- panels: arrays as planes of cells, with a box for each entry

  /** Return {panels, entries, notes, error} of what `playground.run` has returned. */
  function scene({ call, entries, applied, result, error }) {
    const drawn = entries.slice(0, MOST_ENTRIES);
    const isReplaced = ({ region }, n) =>
      region && drawn.slice(n + 1, applied).some((later) => JSON.stringify(later.region) === JSON.stringify(region));
    const replaced = call.scatters && call.reduction === "none" ? drawn.map(isReplaced) : [];
    const regions = drawn.map(({ region }) => region);
    const dense = drawn.map((entry) => entry.dense);
    const values = (array) => (at) => (array ? { text: brief(array.values[at]) } : { text: "", state: "absent" });
    const panels = [
      panel(call, "data", call.data, values(call.data), regions),
      call.tuples ? tuplesPanel(call, drawn, entries.length) : integersPanel(call, drawn),
    ];
    if (call.scatters) {
      const updates = { ...call.updates, dtype: call.updates.typed };
      panels.push(panel(call, "updates", updates, values(updates), dense, replaced));
      panels.push(panel(call, "result", call.data, values(result), regions, replaced));
    } else {
      const sources = new Map(entries.flatMap((entry) => pairs(call, entry)));
      const outsideState = result ? "filled" : "bad";
      const cell = (at) => ({ ...values(result)(at), ...(sources.get(at) === null ? { state: outsideState } : {}) });
      panels.push(panel(call, "result", { ...call.data, shape: call.shape }, cell, dense));
    }
    if (error) panels.at(-1).note = "there is none: the call fails";
    const labels = drawn.map((entry, n) => ({
      letter: letter(n),
      sentence: sentence(call, entry),
      bad: !entry.region && outside(call).state === "bad",
    }));
    return { panels, entries: labels, notes: notes(call, drawn, entries.length), error: error?.message };
  }

  /** Write a value in a few letters. */
  function brief(value) {
    if (whole(value) && String(value).length > 10) return Number(value).toExponential(3);
    if (typeof value !== "number" || !Number.isFinite(value)) return repr(value);
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
    const text = repr(Number(value.toPrecision(6)));
    return text.length <= 8 || size >= 100 ? text : repr(Number(value.toPrecision(4)));
  }

  /** Return the panel of an array; `regions` are the positions that each entry addresses in it. */
  function panel(call, name, { dtype, shape }, cell, regions, replaced = []) {
    const depth = Math.max(shape.length - 2, Math.min(call.batch_dims, shape.length - 1), 0);
    const missing = range(2 - (shape.length - depth));
    const [rows, columns] = [...missing.map(() => [""]), ...shape.slice(depth).map((size) => range(size).map(String))];
    const heads = shape.includes(0) ? [] : combinations(shape.slice(0, depth).map(range));
    const planes = heads.map((head, number) => {
      const boxes = regions.flatMap((region, entry) => {
        if (!region || !head.every((at, axis) => region[axis].includes(at))) return [];
        const ends = [...missing.map(() => [0]), ...region.slice(depth)].map((span) => [span[0], span.at(-1)]);
        return [{ entry, rows: ends[0], columns: ends[1], replaced: replaced[entry] }];
      });
      const at = (row, column) => (number * rows.length + row) * columns.length + column;
      const cells = rows.map((_, row) => columns.map((__, column) => cell(at(row, column))));
      return { heading: depth ? `${name}[${head.join(", ")}]` : "", rows, columns, cells, boxes };
    });
    return { name, about: `${dtype} ${shown(shape)}`, note: shape.includes(0) ? "no elements" : "", planes };
  }

  function indexCells(call, { values, coordinates }) {
    const { state, arrow } = outside(call);
    return values.map((raw, n) => {
      if (!whole(coordinates[n])) return { text: `${raw}${arrow}`, state };
      return { text: raw === coordinates[n] ? String(raw) : `${raw}→${coordinates[n]}` };
    });
  }

  function integersPanel(call, entries) {
    const cell = (at) => (entries[at] ? indexCells(call, entries[at])[0] : { text: String(call.indices.values[at]) });
    const regions = entries.map(({ position }) => position.map((at) => [at]));
    return { ...panel(call, "indices", call.indices, cell, regions), isEntries: true };
  }

  /** Return the panel of index tuples: a row for each. */
  function tuplesPanel(call, entries, count) {
    const { dtype, shape, name } = call.indices;
    const columns = call.depth ? range(call.depth).map((n) => `axis ${call.batch_dims + n}`) : [""];
    const rows = entries.map(({ position }) => (position.length ? `[${position.join(", ")}]` : ""));
    const cells = entries.map((entry) => (call.depth ? indexCells(call, entry) : [{ text: "( )" }]));
    const boxes = entries.map((_, entry) => ({ entry, rows: [entry, entry], columns: [0, columns.length - 1] }));
    const planes = entries.length ? [{ heading: "", rows, columns, cells, boxes }] : [];
    const note = !count ? "no entries" : entries.length < count ? `${entries.length} of ${count} entries` : "";
    return { name, about: `${dtype} ${shown(shape)}`, note, planes, isEntries: true };
  }

  function description({ panels, entries, notes, error }) {
    const arrays = panels.map(({ name, about }) => `${name} ${about}`).join("; ");
    const sentences = entries.map((entry) => `${entry.letter}: ${entry.sentence}`);
    return `${[arrays, ...sentences, ...notes, ...(error ? [`The call fails: ${error}`] : [])].join(". ")}.`;
  }

  // ---- SVG

  const width = (text, style) => text.length * ADVANCE * SIZES[style];
  const total = (sizes) => sizes.reduce((sum, size) => sum + size, 0);
  const rect = (x, y, wide, high, style, round = 4) =>
    `<rect class="n-${style}" x="${x}" y="${y}" width="${wide}" height="${high}" rx="${round}"/>`;
  const line = (x, y, dx, dy, style) => `<line class="n-${style}" x1="${x}" y1="${y}" x2="${x + dx}" y2="${y + dy}"/>`;
  const label = (x, y, text, style, anchor = "start") =>
    text && `<text class="n-${style}" x="${x}" y="${y}" text-anchor="${anchor}">${escaped(text)}</text>`;
  const hidden = (shapes) => `<g aria-hidden="true">${shapes}</g>`;
  const chipText = ({ letter: name, bad }) => name + (bad ? "✗" : "");
  const chipWidth = (entry) => 10 + 6.1 * chipText(entry).length;

  function panelSvg(drawn, entries, current) {
    const { name, about, note, planes, isEntries } = drawn;
    const widths = columnWidths(drawn, entries);
    const side = Math.max(0, ...planes.flatMap(({ rows }) => rows.map((row) => row && width(row, "head") + 8)));
    let body = hidden(label(0, 13, name, "name") + label(0, 31, about, "about") + label(0, 48, note, "note"));
    let [x, y, tallest] = [0, HEAD + (note ? 16 : 0), 0];
    let widest = Math.max(0.9 * width(note, "note"), width(about, "about"));
    for (const plane of planes) {
      const wide = Math.max(side + total(widths), width(plane.heading, "head"));
      if (x && x + wide > WIDEST_ROW) [x, y, tallest] = [0, y + tallest + 14, 0];
      const above = (plane.heading ? 18 : 0) + (plane.columns.some(Boolean) ? 18 : 2) + CHIP / 2 + 1;
      const [left, top] = [x + side, y + above];
      const place = (row, column) => ({
        left: left + total(widths.slice(0, column)),
        top: top + row * (HEIGHT + ROW_GAP),
        wide: widths[column] - COLUMN_GAP,
      });
      const [cells, values] = cellsSvg(plane, place, left - 7);
      const boxes = boxesSvg(plane, place, entries, current, isEntries);
      body += hidden(label(x, y + 10, plane.heading, "head")) + cells + boxes + values;
      tallest = Math.max(tallest, above + plane.rows.length * (HEIGHT + ROW_GAP) - ROW_GAP + 4);
      widest = Math.max(widest, x + wide);
      x += wide + 22;
    }
    const [wide, high] = [Math.ceil(widest) + 4, Math.ceil(y + tallest) + 4];
    const title = escaped(`${name} ${about}`);
    return `<svg role="group" aria-label="${title}" width="${wide}" height="${high}" viewBox="-2 0 ${wide} ${high}">${body}</svg>`;
  }

  /** Return the boxes of a plane by their first cell, as "row,column": their letters stand there. */
  function corners({ boxes }) {
    const found = {};
    for (const box of boxes) (found[`${box.rows[0]},${box.columns[0]}`] ??= []).push(box);
    return found;
  }

  /** Return the widths of columns, with the gap to the next: all planes of a panel have the same. */
  function columnWidths({ planes }, entries) {
    const widths = (planes[0]?.columns ?? []).map((name) => Math.max(LEAST, width(name, "head") + 4));
    const widen = (column, wide) => (widths[column] = Math.max(widths[column], wide));
    for (const plane of planes) {
      for (const row of plane.cells) row.forEach(({ text }, column) => widen(column, width(text, "value") + 14));
      for (const boxes of Object.values(corners(plane))) {
        const [first, last] = boxes[0].columns;
        const letters = boxes.slice(0, MOST_CHIPS + 1).map(({ entry }) => chipWidth(entries[entry]));
        widen(first, total(letters) + 8 - (last - first) * LEAST);
      }
    }
    return widths.map((wide) => wide + COLUMN_GAP);
  }

  /** Return the cells of a plane, and the values, which are drawn over the boxes. */
  function cellsSvg({ rows, columns, cells }, place, right) {
    let shapes = rows.map((name, row) => label(right, place(row, 0).top + 18, name, "head", "end")).join("");
    let values = "";
    columns.forEach((name, column) => {
      const { left, top, wide } = place(0, column);
      shapes += label(left + wide / 2, top - CHIP / 2 - 10, name, "head", "middle");
      cells.forEach((row, r) => {
        const { text, state } = row[column];
        const y = place(r, column).top;
        shapes += rect(left, y, wide, HEIGHT, text ? "cell" : "absent");
        shapes += state === "filled" ? rect(left, y, wide, HEIGHT, "hatched") : "";
        values += label(left + wide / 2, y + 19, text, state === "bad" ? "bad" : "value", "middle");
      });
    });
    return [hidden(shapes), hidden(values)];
  }

  /** Draw the boxes of a plane; those that share cells are drawn inside one another. */
  function boxesSvg(plane, place, entries, current, isEntries) {
    const levels = {};
    let all = "";
    for (const boxes of Object.values(corners(plane))) {
      const { left, top } = place(boxes[0].rows[0], boxes[0].columns[0]);
      let x = left + 4; // of the next letter
      const y = top - CHIP / 2 - 1;
      for (const { entry, rows, columns, replaced } of boxes.slice(0, MOST_CHIPS)) {
        const spans = [rows, columns].map(([first, last]) => range(last - first + 1).map((n) => first + n));
        const cells = combinations(spans).map(String);
        const level = Math.max(...cells.map((cell) => levels[cell] ?? 0));
        for (const cell of cells) levels[cell] = level + 1;
        const inset = Math.min(level, 3) * 3;
        const end = place(rows[1], columns[1]);
        const [wide, high] = [end.left + end.wide - left - 2 * inset, end.top + HEIGHT - top - 2 * inset];
        const { bad, sentence: title } = entries[entry];
        const letterStyle = replaced ? ["gone", "replaced"] : ["chip", "letter"];
        const [outline, back, text] = bad ? ["outside", "alarm", "wrong"] : ["box", ...letterStyle];
        const chip = chipWidth(entries[entry]) - 2;
        const shapes =
          rect(left + inset, top + inset, wide, high, outline) +
          rect(x, y, chip, CHIP, back, 3) +
          (replaced ? line(x - 2, y + CHIP / 2, chip + 4, 0, "cross") : "") +
          label(x + chip / 2, y + 10.5, chipText(entries[entry]), text, "middle");
        const known = isEntries ? `role="img" tabindex="0" aria-label="${escaped(title)}"` : 'aria-hidden="true"';
        const step = entry === current ? " n-now" : entry > current ? " n-later" : "";
        all += `<g class="n-e n-k${entry} n-c${entry % COLOURS}${step}" ${known}><title>${escaped(title)}</title>${shapes}</g>`;
        x += chip + 2;
      }
      if (boxes.length > MOST_CHIPS) all += hidden(label(x + 2, top - 3, `+${boxes.length - MOST_CHIPS}`, "head"));
    }
    return all;
  }

  /** Return the picture as HTML; the entry with the number `current` is the last that is applied. */
  function picture(outcome, current = Infinity) {
    const { call } = outcome;
    if (!call) return "";
    const note = (text) => `<p class="n-note-below">${escaped(text)}</p>`;
    const largest = Math.max(...[call.data.shape, call.indices.shape, call.shape].map(product));
    if (largest > MOST_ELEMENTS) return note(`Arrays of ${largest} elements are not drawn: at most ${MOST_ELEMENTS}.`);
    const drawn = scene(outcome);
    const parts = drawn.panels.map((each, n) => {
      const arrow = n && n === drawn.panels.length - 1 ? '<span class="n-to" aria-hidden="true">→</span>' : "";
      return `<div class="n-part" tabindex="0" role="group" aria-label="${each.name}">${arrow}${panelSvg(each, drawn.entries, current)}</div>`;
    });
    const unseen = `<p class="n-unseen">${escaped(description(drawn))}</p>`;
    return `${unseen}<div class="n-parts">${parts.join("")}</div>${drawn.notes.map(note).join("")}`;
  }

  Object.assign(playground, { description, picture, scene });
})();
