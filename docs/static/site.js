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
globalThis.copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    document.execCommand("copy"); // of a file, where browsers have no clipboard
    area.remove();
  }
};
const button = (label, text) => {
  const made = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: label,
    className: "copy-code",
  });
  made.addEventListener("click", async () => {
    await copyText(text);
    made.textContent = "copied";
    setTimeout(() => (made.textContent = label), 1500);
  });
  return made;
};
const before = [];
for (const pre of document.querySelectorAll(".bd-article div.highlight pre")) {
  const text = pre.textContent,
    isSession = text.startsWith(">>> ");
  const bar = Object.assign(document.createElement("div"), { className: "copy-bar" });
  bar.append(button("copy", codeOf(text)));
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
      if (titles[n]) cell.dataset.title = titles[n];
    });
  }
}

// What is wider than its place says that it scrolls.
const hints = new Map();
const boxes = document.querySelectorAll(".bd-article pre, .pst-scrollable-table-container, .n-part");
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
