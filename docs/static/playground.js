"use strict";
// The page: fields, the picture and the calls below them, and the address that holds the fields.
(() => {
  const { playground, copyButton } = globalThis;
  const root = document.getElementById("playground");
  const form = root.querySelector("form");
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [example, slider, status] = ["example", "step", "status"].map(part);
  const DEFAULTS = {
    axis: "0",
    batch_dims: "0",
    mode: "raise",
    fill_value: "",
    reduction: "none",
    use_init_val: "True",
  };
  let steps = null; // how many updates are applied: null for all

  /** Fill in the fields, from an address or an example. */
  function fill(address) {
    form.reset();
    for (const field of form.elements) if (address.has(field.name)) field.value = address.get(field.name);
    steps = address.has("step") ? Number(address.get("step")) : null;
    update();
  }

  /** Show what the function, its mode and its reduction have; the others are not in the form. */
  function showFields() {
    const { function: name, mode, modes, reduction } = form.elements;
    for (const select of [name, mode, reduction]) if (select.selectedIndex < 0) select.selectedIndex = 0;
    const state = [name.value, mode.value, mode.value === "axes" ? modes.value : "", reduction.value].join(" ");
    for (const element of form.querySelectorAll("[data-when]")) {
      element.hidden = !new RegExp(element.dataset.when).test(state);
      (element.control ?? element).disabled = element.hidden;
    }
    if (!mode.selectedOptions[0].disabled) return;
    mode.value = "raise";
    showFields();
  }

  function update() {
    showFields();
    const filled = [...new FormData(form)].filter(([name, value]) => value !== DEFAULTS[name]);
    const values = Object.fromEntries(filled);
    const address = new URLSearchParams(values);
    if (steps !== null) address.set("step", steps);
    history.replaceState(null, "", `#${address}`);
    part("doc").href = part("doc").dataset.base.replace("NAME", values.function);
    try {
      show(playground.read(values));
    } catch (error) {
      if (!(error instanceof playground.SyntaxProblem)) throw error;
      status.textContent = error.message;
      status.className = "pg-typing";
    }
  }

  function show(given) {
    const outcome = playground.run(given, steps ?? Infinity);
    const { call, entries, applied, result, error } = outcome;
    const count = call?.scatters && result ? entries.length : 0;
    const isPart = applied < count;
    part("steps").hidden = count < 2;
    Object.assign(slider, { max: count, value: applied });
    const number = isPart ? `${applied} of ${count}` : `all ${count}`;
    part("step-text").textContent = `${number} updates are applied`;
    part("picture").innerHTML = playground.picture(outcome, isPart ? applied - 1 : Infinity);
    status.className = error ? "pg-error" : "pg-result";
    const text = (array) => `${playground.written(array)}  ${array.dtype} ${playground.shown(array.shape)}`;
    status.textContent = error ? `${error.name}: ${error.message}` : text(result);
    part("calls").hidden = !call;
    for (const [library, code] of Object.entries(call ? playground.code(call, entries) : {})) {
      const section = root.querySelector(`[data-library="${library}"]`);
      section.querySelector("code").textContent = code;
      section.querySelector("button").hidden = code.startsWith("# ");
    }
  }

  function moveTo(step) {
    steps = step >= Number(slider.max) ? null : Math.max(step, 0);
    update();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    if (target === slider) return moveTo(Number(slider.value));
    steps = null;
    if (target !== example) return update();
    fill(new URLSearchParams(example.value));
  });
  for (const button of part("steps").querySelectorAll("button"))
    button.addEventListener("click", () => moveTo(Number(slider.value) + Number(button.value)));
  for (const section of root.querySelectorAll("section")) {
    const button = copyButton("copy", () => section.querySelector("code").textContent);
    button.ariaLabel = `copy the call for ${section.dataset.library}`;
    section.querySelector("h3").after(button);
  }
  const share = copyButton("copy the link to this call", () => location.href);
  part("links").prepend(share, " ");
  const open = () =>
    fill(new URLSearchParams(location.hash.length > 1 ? location.hash.slice(1) : example.options[1].value));
  window.addEventListener("hashchange", open);
  open();
})();
