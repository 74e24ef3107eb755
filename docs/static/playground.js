"use strict";
// The page: fields, the picture and the calls below them, and the address that holds the fields.
(() => {
  const { playground } = globalThis;
  const root = document.getElementById("playground");
  const form = root.querySelector("form");
  const field = (name) => form.elements[name];
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const DEFAULTS = {
    axis: "0",
    batch_dims: "0",
    mode: "raise",
    fill_value: "",
    reduction: "none",
    use_init_val: "True",
    window_shape: "(2, 2)",
  };
  const USED = {
    gather_nd: ["batch_dims", "fill_value"],
    gather_elements: ["axis", "fill_value"],
    gather: ["axis", "batch_dims", "fill_value"],
    gather_windows: ["window_shape", "fill_value"],
    scatter_nd: ["updates", "reduction", "use_init_val"],
    scatter_elements: ["updates", "axis", "reduction", "use_init_val"],
  };
  const OPTIONAL = ["updates", "axis", "batch_dims", "window_shape", "fill_value", "reduction", "use_init_val"];
  let steps = null; // how many updates are applied: null for all

  function options(select, names, chosen) {
    select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    if (!names.includes(chosen)) select.value = names[0];
  }

  /** Return the fields that the function has, without those at their defaults. */
  function fields() {
    const name = field("function").value;
    const values = {
      function: name,
      data: field("data").value,
      indices: field("indices").value,
      mode: field("mode").value,
    };
    for (const option of USED[name]) values[option] = field(option).value;
    if (values.mode !== "fill") delete values.fill_value;
    if (values.reduction === "none") delete values.use_init_val;
    return Object.fromEntries(
      Object.entries(values).filter(([option, value]) => value !== DEFAULTS[option] || option === "window_shape"),
    );
  }

  /** Show the fields that the function has, filled in. */
  function fill(values) {
    const name = values.function in playground.MODES ? values.function : "gather_nd";
    field("function").value = name;
    options(field("mode"), playground.MODES[name], values.mode ?? "raise");
    for (const option of ["data", "indices", ...OPTIONAL])
      field(option).value = values[option] ?? DEFAULTS[option] ?? "";
    showFields();
  }

  function showFields() {
    const name = field("function").value;
    for (const option of OPTIONAL) field(option).closest("label").hidden = !USED[name].includes(option);
    field("fill_value").closest("label").hidden ||= field("mode").value !== "fill";
    field("use_init_val").closest("label").hidden ||= field("reduction").value === "none";
    part("indices-name").textContent = name === "gather_windows" ? "starts" : "indices";
  }

  function update() {
    const values = fields();
    const address = new URLSearchParams(values);
    if (steps !== null) address.set("step", steps);
    history.replaceState(null, "", `#${address}`);
    part("doc").href = part("doc").dataset.base.replace("NAME", values.function);
    let given;
    try {
      given = playground.read(values);
      show(playground.run(given, steps ?? Infinity), given);
    } catch (error) {
      if (!(error instanceof playground.SyntaxProblem)) throw error;
      part("status").textContent = error.message;
      part("status").className = "pg-typing";
      part("picture").classList.add("pg-stale");
    }
  }

  function show(outcome, given) {
    const { call, entries, result, error } = outcome;
    const count = call && playground.scatters(call) && result ? entries.length : 0;
    const step = Math.min(steps ?? count, count);
    part("steps").hidden = count < 2;
    Object.assign(field("step"), { max: count, value: step });
    part("step-text").textContent =
      step < count ? `${step} of ${count} updates are applied` : `all ${count} updates are applied`;
    part("picture").classList.remove("pg-stale");
    part("picture").innerHTML = playground.picture(outcome, step < count ? step - 1 : Infinity);
    part("status").className = error ? "pg-error" : "pg-result";
    part("status").textContent = error
      ? `${error.name}: ${error.message}`
      : `${playground.written(result)}  ${result.dtype} ${playground.shown(result.shape)}`;
    const whole = count && step < count ? playground.run(given) : outcome;
    part("calls").hidden = !whole.call;
    if (whole.call) calls(playground.code(whole.call));
  }

  function calls(texts) {
    for (const [library, text] of Object.entries(texts)) {
      const block = part(`call-${library}`);
      block.querySelector("code").textContent = text;
      block.querySelector("button").hidden = text.startsWith("# ");
    }
  }

  async function copy(button, text) {
    const before = button.textContent;
    await copyText(text);
    button.focus();
    button.textContent = "copied";
    setTimeout(() => (button.textContent = before), 1500);
  }

  function start() {
    options(field("function"), Object.keys(playground.MODES), "gather_nd");
    options(field("reduction"), playground.REDUCTIONS, "none");
    for (const library of ["ndgather", "NumPy", "torch", "TensorFlow", "JAX", "ONNX"]) {
      const block = document.createElement("section");
      block.dataset.part = `call-${library}`;
      block.innerHTML = `<h3>${library}</h3><button type="button" aria-label="copy the call for ${library}">copy</button><pre tabindex="0" aria-label="${library}"><code></code></pre>`;
      block
        .querySelector("button")
        .addEventListener("click", ({ target }) => copy(target, block.querySelector("code").textContent));
      part("calls").append(block);
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", ({ target }) => {
      if (target === field("example")) {
        if (target.value) fill(Object.fromEntries(new URLSearchParams(target.value)));
        target.value = "";
      } else if (target === field("function")) {
        const { mode } = fields();
        options(field("mode"), playground.MODES[target.value], mode ?? "raise");
      }
      steps = target === field("step") && Number(target.value) < Number(target.max) ? Number(target.value) : null;
      showFields();
      update();
    });
    for (const button of part("steps").querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const slider = field("step");
        const next = Number(slider.value) + Number(button.dataset.by);
        steps = next >= Number(slider.max) ? null : Math.max(next, 0);
        update();
      });
    }
    part("share").addEventListener("click", ({ target }) => copy(target, location.href));
    window.addEventListener("hashchange", open);
    open();
  }

  function open() {
    const address = new URLSearchParams(
      location.hash.length > 1 ? location.hash.slice(1) : field("example").options[1].value,
    );
    steps = address.has("step") ? Number(address.get("step")) : null;
    fill(Object.fromEntries(address));
    update();
  }

  start();
})();
