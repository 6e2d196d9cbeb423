"use strict";
// The payload is written by page.py: figures with their tables, and nodes that can be looked into. Users' text enters the
// page only through textContent.
const payload = JSON.parse(document.getElementById("payload").textContent);
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
const ROWS_SHOWN = 1000;
const DARK_INK = "#1b1d21";
// In an SVG, currentColor follows the theme and the printer; a canvas must be told.
const INK = { svg: "currentColor", canvas: { expr: "ink" } };
const inkOfTheme = () => getComputedStyle(document.body).color;

function paint(ink) {
  for (const figure of payload.figures) {
    if (figure.view && figure.renderer === "canvas") figure.view.signal("ink", ink).run();
  }
}

function decode(column) {
  const bytes = Uint8Array.from(atob(column.bytes), (character) => character.charCodeAt(0));
  const values = new ARRAYS[column.type](bytes.buffer);
  return column.words === undefined ? values : Array.from(values, (code) => payload.words[column.words][code]);
}

function rowsOf(columns) {
  const decoded = Object.entries(columns).map(([name, column]) => [name, decode(column)]);
  const length = decoded.length ? decoded[0][1].length : 0;
  return Array.from({ length }, (_, row) =>
    Object.fromEntries(decoded.map(([name, values]) => [name, Number.isNaN(values[row]) ? null : values[row]])));
}

function config(ink, width) {
  const text = { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
  return {
    background: null, font: "system-ui, sans-serif", view: { stroke: null }, text: { color: ink },
    rule: { color: ink }, tick: { color: ink },
    axis: { ...text, domainColor: ink, tickColor: ink, gridColor: ink, gridOpacity: 0.15, labelLimit: 220 },
    axisXQuantitative: { tickCount: 5 }, // gives at most 8; the default is one every 40 pixels on any width
    legend: { ...text, orient: "bottom", symbolLimit: 24, labelLimit: 130, columns: Math.max(1, Math.floor(width / 170)) },
    header: text,
  };
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Quotes text so that a shell reads it as one word.
const quoted = (text) => /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const shown = (value) => value === null || value === undefined ? "" : typeof value === "number" && !Number.isInteger(value)
  ? value.toPrecision(4) : String(value);

function tableOf(rows) {
  const table = element("table");
  const names = Object.keys(rows[0] || {});
  const isText = (name) => typeof rows[0][name] === "string";
  table.createTHead().insertRow().append(...names.map((name) => element("th", name, isText(name) ? { class: "text" } : {})));
  const body = table.createTBody();
  for (const row of rows.slice(0, ROWS_SHOWN)) {
    body.insertRow().append(...names.map((name) => element("td", shown(row[name]), isText(name) ? { class: "text" } : {})));
  }
  return table;
}

function csvOf(rows) {
  const names = Object.keys(rows[0] || {});
  // A leading quote keeps a spreadsheet from reading text as a formula.
  const cell = (value) => typeof value === "string"
    ? `"${(/^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? "'" : "") + value.replaceAll('"', '""')}"` : value ?? "";
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(cell).join(",")).join("\n");
}

function save(address, name) {
  const link = element("a", "", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

async function saveFigure(kind, figure, name) {
  if (kind === "csv") return save(URL.createObjectURL(new Blob([csvOf(figure.rows)], { type: "text/csv" })), `${name}.csv`);
  paint(DARK_INK);
  figure.view.background("#fff").run();
  const drawn = kind === "png" ? await figure.view.toImageURL("png", 2) : await figure.view.toSVG();
  figure.view.background(null);
  paint(inkOfTheme());
  if (kind === "png") return save(drawn, `${name}.png`);
  save(URL.createObjectURL(new Blob([drawn.replaceAll("currentColor", DARK_INK)], { type: "image/svg+xml" })), `${name}.svg`);
}

async function draw(holder, figure) {
  const datasets = Object.fromEntries(Object.entries(figure.tables).map(([name, columns]) => [name, rowsOf(columns)]));
  const place = holder.querySelector(".chart");
  const params = [...figure.spec.params ?? [], { name: "ink", value: inkOfTheme() }];
  const spec = { ...figure.spec, params, datasets, config: config(INK[figure.renderer], place.clientWidth) };
  const options = { actions: false, renderer: figure.renderer, logLevel: 1, ast: true }; // errors only; expressions are interpreted, not evaluated
  const embedded = await vegaEmbed(place, spec, options);
  Object.assign(figure, { view: embedded.view, datasets, rows: Object.values(datasets)[0] });
  const title = holder.getAttribute("aria-label");
  for (const button of holder.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => saveFigure(button.dataset.save, figure, title.replace(/[^\w-]+/g, "-").toLowerCase()));
  }
  const details = holder.querySelector("details");
  details.addEventListener("toggle", () => {
    const place = details.querySelector("div");
    if (place.childNodes.length || !details.open) return;
    place.append(tableOf(figure.rows));
    if (figure.rows.length > ROWS_SHOWN) {
      place.append(element("p", `The first ${ROWS_SHOWN} of ${figure.rows.length} rows. The CSV file contains all.`));
    }
  });
}

// The range of positions in view, which wheel, drag, buttons and search move.
class Strips {
  constructor(view, length) {
    Object.assign(this, { view, length, low: 0, high: length, found: -1 });
    let held = null;
    view.addEventListener("wheel", (event) => {
      if (event.deltaY > 0 && this.high - this.low === length) return; // the wheel then scrolls the page
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(event));
    });
    view.addEventListener("mousedown", (event) => {
      held = { at: this.at(event), x: event.clientX };
      this.dragged = false;
    });
    window.addEventListener("mouseup", () => { held = null; });
    view.addEventListener("mousemove", (event) => {
      if (!held) return;
      this.dragged ||= Math.abs(event.clientX - held.x) > 3;
      const by = held.at - this.at(event);
      if (this.dragged) this.show(this.low + by, this.high + by);
    });
    view.addEventListener("dblclick", () => this.show(0, length));
  }
  // Returns the place of an event as shares of the width and height of the strips.
  shares(event) {
    const box = this.view.container().querySelector("canvas, svg").getBoundingClientRect();
    const [left, top] = this.view.origin(), padding = this.view.padding();
    return [(event.clientX - box.left - left - padding.left) / this.view.width(),
      (event.clientY - box.top - top - padding.top) / this.view.height()];
  }
  // Uses the requested range, which may not be drawn yet.
  at(event) {
    return this.low + this.shares(event)[0] * (this.high - this.low);
  }
  show(low, high) {
    const width = Math.min(this.length, Math.max(Math.min(10, this.length), high - low));
    this.low = Math.max(0, Math.min(low, this.length - width));
    this.high = this.low + width;
    this.view.signal("low", this.low).signal("high", this.high).runAsync();
  }
  zoom(factor, around = this.middle()) {
    this.show(around - (around - this.low) * factor, around + (this.high - around) * factor);
  }
  middle() {
    return this.found >= this.low && this.found < this.high ? this.found : (this.low + this.high) / 2;
  }
  pan(share) {
    const step = share * (this.high - this.low);
    this.show(this.low + step, this.high + step);
  }
  mark(position) {
    this.found = position + 0.5;
    this.view.signal("found", this.found);
    if (position < this.low || position >= this.high) this.pan((position - (this.low + this.high) / 2) / (this.high - this.low));
    else this.view.runAsync();
  }
}

// Nodes are rows of `list`; explanations exist for those in `explained`.
class Nodes {
  constructor(data, list, strips) {
    Object.assign(this, { data, list, strips, place: document.getElementById("node") });
    this.byName = new Map(this.list.map((node, row) => [String(node.node), row]));
    this.byPosition = new Map(this.list.map((node, row) => [node.position, row]));
    this.parts = Object.fromEntries(Object.entries(data.parts).map(([name, part]) => [name, decode(part)]));
    this.placeOf = new Map(Array.from(this.parts.explained, (row, place) => [row, place]));
    this.colours = Object.fromEntries(data.classes.map((name, label) => [name, data.colours[label % data.colours.length]]));
    this.current = null;
  }
  find(text) {
    const row = this.byName.get(text.trim());
    if (row !== undefined) return this.show(row);
    const named = typeof this.list[0].node === "string"; // numbers are not matched by their first digits
    const names = [...this.byName.keys()].filter((name) => name.toLowerCase().startsWith(text.trim().toLowerCase()));
    if (named && text.trim() && names.length) return this.show(this.byName.get(names[0]));
    this.place.replaceChildren(element("p", `No node “${text.trim()}” is on this page.`
      + (this.data.complete ? "" : " The page contains a sample of the nodes. nlgnn explain finds all.")));
  }
  step(by) {
    const positions = [...this.byPosition.keys()].sort((a, b) => a - b);
    const now = this.current === null ? -1 : positions.indexOf(this.list[this.current].position);
    this.show(this.byPosition.get(positions[Math.min(positions.length - 1, Math.max(0, now + by))]));
  }
  named(name) {
    const holder = document.createDocumentFragment();
    const chip = element("span", "", { class: "chip" });
    chip.style.background = this.colours[name] || "#bbb";
    holder.append(chip, name);
    return holder;
  }
  button(row) {
    const made = element("button", String(this.list[row].node), { type: "button", class: "link" });
    made.addEventListener("click", () => this.show(row));
    return made;
  }
  show(row) {
    this.current = row;
    const node = this.list[row];
    const heading = element("h3", `Node ${node.node}`);
    const facts = element("p");
    facts.append("Label ", this.named(node.label), `, ${node.part}. Predicted `, this.named(node.prediction),
      ` with probability ${node.probability.toFixed(3)}` + (node.wrong ? ": wrong." : "."));
    const parts = [heading, facts, element("p", `Position ${node.position} of 0 to ${this.data.length - 1}, score ${shown(node.score)}.`)];
    this.strips.mark(node.position);
    const place = this.placeOf.get(row);
    if (place === undefined) {
      parts.push(element("p", `The page contains no explanation of this node. This command prints it: ${this.data.command} -- ${quoted(String(node.node))}`));
    } else {
      parts.push(...this.reasons(row, place));
    }
    this.place.replaceChildren(...parts);
  }
  slice(name, place, width) {
    return Array.from(this.parts[name].subarray(place * width, (place + 1) * width));
  }
  reasons(row, place) {
    const { classes } = this.data;
    const neighbours = Array.from(this.parts.neighbours.subarray(this.parts.starts[place], this.parts.starts[place + 1]));
    const degree = this.parts.degrees[place];
    const inGraph = element("div");
    inGraph.append(element("h3", "Neighbours in the graph"));
    if (neighbours.length) inGraph.append(this.nodeTable(neighbours));
    inGraph.append(element("p", degree === 0 ? "The node has no neighbours." : degree > neighbours.length ? `${neighbours.length} of ${degree}.` : ""));
    const pair = element("div", undefined, { class: "pair" });
    const logits = this.slice("logits", place, classes.length);
    const silenced = this.slice("silenced", place, classes.length);
    const before = likeliest(silenced);
    const silence = element("p");
    silence.append("Without the non-local part, the prediction is ", this.named(classes[before.label]),
      ` with probability ${before.probability.toFixed(3)}` + (before.label === likeliest(logits).label ? ", the same class." : ", another class."));
    const choice = element("select", undefined, { "aria-label": "class" });
    classes.forEach((name, label) => choice.append(element("option", name, { value: label })));
    choice.value = likeliest(logits).label;
    const label = element("label", "Contributions to the logit of ");
    label.append(choice);
    const holder = element("div");
    const fill = () => holder.replaceChildren(this.contributions(place, Number(choice.value)));
    choice.addEventListener("change", fill);
    fill();
    const along = element("div");
    along.append(element("h3", "Window in the sorted order"), label, holder);
    pair.append(along, inGraph);
    return [silence, pair];
  }
  contributions(place, label) {
    const { classes, window: width } = this.data;
    const of = (name) => this.parts[name][place * classes.length + label];
    const lines = [["local part", null, of("own")]];
    for (let offset = 0; offset < width; offset++) {
      const row = this.parts.windows[place * width + offset];
      if (row < 0) continue;
      lines.push([offset - (width - 1) / 2, row, this.parts.contributions[(place * width + offset) * classes.length + label]]);
    }
    lines.push(["biases", null, of("bias")]);
    const most = Math.max(...lines.map((line) => Math.abs(line[2])), 1e-12);
    const table = element("table");
    table.createTHead().insertRow().append(...["place", "node", "label", "contribution", ""].map((name) => element("th", name, name && name !== "contribution" ? { class: "text" } : {})));
    const body = table.createTBody();
    for (const [where, row, value] of lines) {
      const cells = [element("td", typeof where === "number" ? (where > 0 ? `+${where}` : where === 0 ? "0, itself" : String(where).replace("-", "−")) : where, { class: "text" }),
        element("td", undefined, { class: "text" }), element("td", undefined, { class: "text" }), element("td", value.toFixed(3)), element("td", undefined, { class: "bar" })];
      if (row !== null) {
        cells[1].append(this.button(row));
        cells[2].append(this.named(this.list[row].label));
      }
      const bar = element("i");
      const share = 50 * Math.abs(value) / most;
      bar.style.cssText = `width:${share}%;margin-left:${value < 0 ? 50 - share : 50}%;background:${value < 0 ? "#D55E00" : "#0072B2"}`;
      cells[4].append(bar);
      body.insertRow().append(...cells);
    }
    body.insertRow().append(element("th", "sum = logit", { class: "text" }), element("th"), element("th"), element("th", of("logits").toFixed(3)), element("th"));
    return table;
  }
  nodeTable(rows) {
    const table = element("table");
    table.createTHead().insertRow().append(...["node", "label", "prediction"].map((name) => element("th", name, { class: "text" })));
    const body = table.createTBody();
    for (const row of rows) {
      const cells = [0, 1, 2].map(() => element("td", undefined, { class: "text" }));
      cells[0].append(this.button(row));
      cells[1].append(this.named(this.list[row].label));
      cells[2].append(this.named(this.list[row].prediction));
      body.insertRow().append(...cells);
    }
    return table;
  }
}

function likeliest(logits) {
  const label = logits.indexOf(Math.max(...logits));
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - logits[label]), 0);
  return { label, probability: 1 / total };
}

function wireNodes(figure) {
  const strips = new Strips(figure.view, payload.nodes.length);
  const nodes = new Nodes(payload.nodes, figure.datasets.nodes, strips);
  // By place and not by mark: Vega reports no mark for a touch, and one mark may stand for many nodes.
  figure.view.addEventListener("click", (event) => {
    const [across, down] = strips.shares(event);
    if (strips.dragged || across < 0 || across > 1 || down < 0 || down > 1) return;
    const order = down < 1 / payload.nodes.strips ? "position before" : "position";
    const place = Math.floor(strips.at(event));
    const row = nodes.list.findIndex((node) => node[order] === place);
    if (row >= 0) nodes.show(row);
  });
  document.getElementById("find").addEventListener("submit", (event) => {
    event.preventDefault();
    nodes.find(document.getElementById("sought").value);
  });
  for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => nodes.step(Number(button.dataset.step)));
  for (const button of document.querySelectorAll("[data-pan]")) button.addEventListener("click", () => strips.pan(Number(button.dataset.pan)));
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => button.dataset.zoom === "whole" ? strips.show(0, strips.length) : strips.zoom(Number(button.dataset.zoom)));
  }
  nodes.show(payload.nodes.first);
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  paint(inkOfTheme());
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(inkOfTheme()));
addEventListener("beforeprint", () => paint(DARK_INK));
addEventListener("afterprint", () => paint(inkOfTheme()));
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    getSelection().selectAllChildren(code);
    // Pages opened as files may have no clipboard; the selected text can then be copied by hand.
    try { await navigator.clipboard.writeText(code.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "Copied";
  });
}
(async () => {
  const holders = [...document.querySelectorAll("[data-figure]")];
  for (const [number, holder] of holders.entries()) {
    await draw(holder, payload.figures[number]);
    if (holder.closest("#nodes")) wireNodes(payload.figures[number]);
  }
  document.documentElement.dataset.drawn = "yes";
})();
