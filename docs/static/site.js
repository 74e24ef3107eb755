"use strict";
// The arrows of the sidebar have no name of their own: they open what their link is about.
for (const arrow of document.querySelectorAll("details > summary:not([aria-label])")) {
  const link = arrow.closest("li")?.querySelector("a");
  if (link) arrow.setAttribute("aria-label", `pages of ${link.textContent.trim()}`);
}

// Copy buttons. Of a session, the code without prompts and outputs; also with the blocks before it, which it needs.
const codeOf = (text) => {
  const lines = text.trimEnd().split("\n");
  const prompt = lines.some((line) => line.startsWith(">>> ")) ? /^(>>>|\.\.\.)( |$)/ : /^\$ /;
  if (!lines.some((line) => prompt.test(line))) return lines.join("\n");
  const first = lines.findIndex((line) => prompt.test(line)); // lines before it are code
  return lines
    .filter((line, n) => n < first || prompt.test(line))
    .map((line) => line.replace(prompt, ""))
    .join("\n");
};
// Without the statements that raise.
const runs = (text) => text.replace(/^>>> .*\n(\.\.\. .*\n)*Traceback[^]*?(?=^>>> |\s*$(?![^]))/gm, "");
const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    document.execCommand("copy"); // of a file, where browsers have no clipboard
    area.remove();
  }
};
// Return a button that copies a text, or what a function returns.
const button = (label, text) => {
  const made = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: label,
    className: "copy-code",
  });
  made.addEventListener("click", async () => {
    await copyText(typeof text === "function" ? text() : text);
    made.textContent = "copied";
    setTimeout(() => (made.textContent = label), 1500);
  });
  return made;
};
globalThis.copyButton = button;
const before = [];
for (const pre of document.querySelectorAll(".bd-article div.highlight pre")) {
  const text = pre.textContent,
    isSession = text.startsWith(">>> ");
  const bar = Object.assign(document.createElement("div"), { className: "copy-bar" });
  const call = pre.closest(".ndg-call"); // under a picture, whose names it needs
  const imports = call ? `import ndgather\n${/\bnp\./.test(text) ? "import numpy as np\n" : ""}` : "";
  bar.append(button("copy", imports + codeOf(text)));
  const open = call?.nextElementSibling;
  if (open?.matches(".ndg-open")) bar.prepend(open);
  if (isSession && before.length && !/\bimport .*ndgather/.test(text)) {
    bar.prepend(
      button("copy with the blocks before", [...before.map(runs), text].map(codeOf).filter(Boolean).join("\n")),
    );
  }
  if (isSession) before.push(text);
  pre.parentElement.append(bar);
}

// Rows of tables are cards on a phone, with the title of the column before each cell.
for (const table of document.querySelectorAll(".bd-article table.table")) {
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.innerText);
  table.setAttribute("role", "table");
  for (const row of table.querySelectorAll("tr")) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, n) => {
      cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
      if (titles[n] && cell.textContent.trim()) cell.dataset.title = titles[n];
    });
  }
}

// What is wider than its place says that it scrolls.
const hints = new Map();
const boxes = document.querySelectorAll(
  '.bd-article pre, .pst-scrollable-table-container, .n-part, p:has(> img[src$="benchmarks.svg"])',
);
const mark = () => {
  for (const box of boxes) {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    if (scrolls && !hints.has(box)) {
      const hint = Object.assign(document.createElement("p"), { className: "scroll-hint", textContent: "scroll →" });
      hint.setAttribute("aria-hidden", "true");
      box.before(hint);
      hints.set(box, hint);
    }
    if (hints.has(box)) hints.get(box).hidden = !scrolls;
    if (scrolls) box.tabIndex = 0;
  }
};
addEventListener("resize", mark);
addEventListener("load", mark);
mark();

// The map of conformance: the case that the address names is shown below its operator.
if (globalThis.conformance) {
  const { cases, verdicts } = globalThis.conformance;
  const panel = Object.assign(document.createElement("div"), { className: "conf-case" });
  panel.setAttribute("role", "region");
  panel.setAttribute("aria-live", "polite");
  panel.setAttribute("aria-label", "the case");
  const line = (label, ...parts) => {
    const made = document.createElement("p");
    made.append(Object.assign(document.createElement("b"), { textContent: `${label}: ` }), ...parts);
    return made;
  };
  const link = (href, text = href) => Object.assign(document.createElement("a"), { href, textContent: text });
  const show = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const column = cases[name] && document.getElementById(name);
    for (const open of document.querySelectorAll(".conf-cells .is-open")) open.classList.remove("is-open");
    panel.remove();
    if (!column) return;
    const { rule, source, seen, page, call, "must be": wanted } = cases[name];
    const libraries = [...column.closest(".conf-row").querySelectorAll(".conf-names span")];
    const found = libraries.map((library, n) => `${library.textContent} ${verdicts[column.dataset.verdicts[n]]}`);
    const code = document.createElement("pre");
    code.textContent = call;
    code.tabIndex = 0;
    const bar = Object.assign(document.createElement("div"), { className: "copy-bar" });
    bar.append(button("copy", call));
    const where = /^https:/.test(source) ? link(source, "source") : `(${source})`;
    panel.replaceChildren(
      line("case", name, ...(page ? [" of ", link(page, "this operator")] : [])),
      line("must be", wanted),
      line("rule", rule, " ", where),
      line("found", found.join("; ")),
      ...(seen ? [line("reported", link(seen))] : []),
      code,
      bar,
    );
    column.classList.add("is-open");
    column.closest(".conf-group").after(panel);
  };
  const only = document.getElementById("only-different");
  only.addEventListener("change", () => document.body.classList.toggle("only-different", only.checked));
  addEventListener("hashchange", show);
  show();
}
