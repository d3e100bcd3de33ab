// A line chart in SVG: means with intervals, single runs behind them, hover, zoom and keyboard.
// Text enters the page as text nodes only, never as markup.

const COLOURS = 8;

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

const colourOf = (group) => `series-${group % COLOURS}`;

// 1234567 → 1.235M, as axes have room for
function shortNumber(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${Number((value / unit).toPrecision(4))}${letter}`;
  }
  return size !== 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

function fullNumber(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(3);
  return size < 1 ? String(Number(value.toPrecision(4))) : value.toFixed(2);
}

const wholeNumber = (value) => Math.round(value).toLocaleString("en-US");

function niceTicks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999) ?? 10 * power;
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) ticks.push(index * step);
  return ticks;
}

// the index of the number closest to `value` in a rising list
function nearest(list, value) {
  let low = 0;
  let high = list.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle;
    else high = middle;
  }
  return value - list[low] <= list[high] - value ? low : high;
}

class Chart {
  constructor(data) {
    this.hidden = new Set();
    this.zoom = null;
    this.cursor = null; // a step
    this.showsMembers = false;
    this.legend = element("div", { class: "legend" });
    this.title = element("h3");
    this.label = element("p", { class: "quiet small" });
    this.svg = shape("svg", { role: "img", focusable: "false" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.spoken = element("div", { class: "hidden", "aria-live": "polite" });
    this.plot = element(
      "div",
      { class: "plot", tabindex: "0", role: "group", keydown: (event) => this.onKey(event), blur: () => this.point(null) },
      this.svg, this.tip, this.spoken,
    );
    this.members = element("button", { type: "button", "aria-pressed": "false", click: () => this.toggleMembers() }, "seeds");
    const tool = (text, name, action) =>
      element("button", { type: "button", title: name, "aria-label": name, click: action }, text);
    this.back = tool("◀", "earlier steps", () => this.pan(-0.5));
    this.forth = tool("▶", "later steps", () => this.pan(0.5));
    this.whole = tool("all", "show all steps", () => this.setZoom(null));
    this.root = element(
      "figure",
      { class: "chart card" },
      element(
        "div", { class: "chart-head" },
        element("figcaption", {}, this.title, this.label),
        element(
          "div", { class: "tools" },
          this.members, this.back, this.forth, this.whole,
          tool("−", "zoom out", () => this.scale(2)), tool("+", "zoom in", () => this.scale(0.5)),
        ),
      ),
      this.legend,
      this.plot,
    );
    this.listen();
    this.update(data);
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  update(data) {
    this.data = data;
    this.title.textContent = data.title;
    this.label.textContent = data.label === data.title ? "" : data.label;
    this.members.hidden = !data.series.some((series) => series.members.length);
    this.plot.setAttribute("aria-label", `${data.title}. Arrow keys move along the steps, + and − zoom, 0 shows all.`);
    this.legend.replaceChildren(...data.series.map((series) => this.legendEntry(series)));
    this.draw();
  }

  legendEntry(series) {
    const toggle = (event) => {
      if (!this.hidden.delete(series.name)) this.hidden.add(series.name);
      event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
      this.draw();
    };
    const pressed = String(!this.hidden.has(series.name));
    return element(
      "button",
      { type: "button", class: colourOf(series.group), "aria-pressed": pressed, title: "show or hide", click: toggle },
      element("span", { class: "key" }), series.name, element("span", { class: "note" }, series.interval),
    );
  }

  get visible() {
    return this.data.series.filter((series) => !this.hidden.has(series.name) && series.x.length);
  }

  range() {
    const all = this.visible.flatMap((series) => [series.x[0], series.x.at(-1), ...series.members.map((member) => member.x.at(-1))]);
    const low = Math.min(...all);
    const high = Math.max(...all);
    return high > low ? [low, high] : [low - 1, high + 1];
  }

  get view() {
    return this.zoom ?? this.range();
  }

  // values within the view; intervals may leave the picture rather than rule it
  heights([from, to]) {
    const lines = [];
    const bands = [];
    const gather = (target, x, y) => x.forEach((step, index) => step >= from && step <= to && y[index] !== null && target.push(y[index]));
    for (const series of this.visible) {
      gather(lines, series.x, series.mean);
      if (this.showsMembers) series.members.forEach((member) => gather(lines, member.x, member.y));
      if (series.low.length) [series.low, series.high].forEach((bound) => gather(bands, series.x, bound));
    }
    if (!lines.length) return [0, 1];
    const extreme = (list, choose, start) => list.reduce((best, value) => choose(best, value), start);
    let low = extreme(lines, Math.min, Infinity);
    let high = extreme(lines, Math.max, -Infinity);
    const margin = 0.25 * (high - low) || Math.abs(high) * 0.1 || 1;
    low = Math.max(Math.min(low, extreme(bands, Math.min, Infinity)), low - margin);
    high = Math.min(Math.max(high, extreme(bands, Math.max, -Infinity)), high + margin);
    const air = 0.04 * (high - low) || margin;
    return [low - air, high + air];
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width || !this.data) return;
    const height = Math.round(Math.min(340, Math.max(210, width * 0.5)));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.svg.setAttribute("aria-label", this.summary());
    if (!this.visible.length) {
      this.svg.replaceChildren(shape("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "rule" }, "nothing is selected"));
      return this.showTools();
    }
    const view = this.view;
    const [bottom, top] = this.heights(view);
    const yTicks = niceTicks(bottom, top, height / 55);
    const left = 14 + 7 * Math.max(...yTicks.map((tick) => shortNumber(tick).length));
    this.box = { left, right: width - 14, top: 8, bottom: height - 24 };
    const { right } = this.box;
    this.xAt = (step) => left + ((step - view[0]) / (view[1] - view[0])) * (right - left);
    this.yAt = (value) => this.box.bottom - ((value - bottom) / (top - bottom)) * (this.box.bottom - this.box.top);
    this.stepAt = (x) => view[0] + ((x - left) / (right - left)) * (view[1] - view[0]);
    this.marks = shape("g");
    const clip = `clip-${(Chart.count = (Chart.count ?? 0) + 1)}`;
    this.svg.replaceChildren(
      shape("clipPath", { id: clip }, shape("rect", { x: left - 6, y: 2, width: right - left + 12, height: this.box.bottom + 4 })),
      this.axes(yTicks, view),
      shape("g", { "clip-path": `url(#${clip})` }, this.visible.map((series) => this.paths(series))),
      this.marks,
    );
    this.showTools();
    this.point(this.cursor);
  }

  axes(yTicks, view) {
    const { left, right, bottom } = this.box;
    const group = shape("g", { class: "axis" });
    for (const tick of yTicks) {
      const y = this.yAt(tick);
      group.append(
        shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        shape("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, shortNumber(tick)),
      );
    }
    for (const tick of niceTicks(...view, (right - left) / 90)) {
      const x = this.xAt(tick);
      const anchor = x > right - 14 ? "end" : "middle";
      group.append(shape("text", { x: Math.min(x, right), y: bottom + 18, "text-anchor": anchor }, shortNumber(tick)));
    }
    return group;
  }

  paths(series) {
    const group = shape("g", { class: colourOf(series.group) });
    if (series.low.length) group.append(shape("path", { class: "band", d: this.band(series) }));
    if (this.showsMembers) {
      series.members.forEach((member) => group.append(shape("path", { class: "member", d: this.path(member.x, member.y) })));
    }
    const dashed = series.group >= COLOURS ? " dashed" : "";
    group.append(shape("path", { class: `line${dashed}`, d: this.path(series.x, series.mean) }));
    if (series.x.length <= 40) {
      series.x.forEach((step, index) => group.append(
        shape("circle", { class: "dot", cx: this.xAt(step), cy: this.yAt(series.mean[index]), r: series.x.length === 1 ? 5 : 3.5 }),
      ));
    }
    return group;
  }

  path(x, y) {
    let pen = "M";
    let text = "";
    x.forEach((step, index) => {
      if (y[index] === null) { pen = "M"; return; }
      text += `${pen}${this.xAt(step).toFixed(1)} ${this.yAt(y[index]).toFixed(1)}`;
      pen = "L";
    });
    return text;
  }

  band(series) {
    const known = series.x.map((_, index) => index).filter((index) => series.low[index] !== null && series.high[index] !== null);
    const corner = (bound) => (index) => `${this.xAt(series.x[index]).toFixed(1)} ${this.yAt(bound[index]).toFixed(1)}`;
    if (!known.length) return "";
    return `M${known.map(corner(series.high)).join("L")}L${known.reverse().map(corner(series.low)).join("L")}Z`;
  }

  summary() {
    const parts = this.visible.map((series) =>
      `${series.name}: ${fullNumber(series.mean[0])} at step ${wholeNumber(series.x[0])}, ` +
      `${fullNumber(series.mean.at(-1))} at step ${wholeNumber(series.x.at(-1))}`);
    return `${this.data.title} over steps. ${parts.join("; ")}`;
  }

  showTools() {
    [this.back, this.forth, this.whole].forEach((button) => { button.hidden = !this.zoom; });
  }

  toggleMembers() {
    this.showsMembers = !this.showsMembers;
    this.members.setAttribute("aria-pressed", String(this.showsMembers));
    this.draw();
  }

  // -- pointing

  point(step) {
    this.cursor = step;
    const series = this.visible.filter((each) => step !== null && step >= each.x[0] - 1e-9 && step <= each.x.at(-1) + 1e-9);
    if (!this.marks || !series.length) {
      this.tip.hidden = true;
      this.marks?.replaceChildren();
      return;
    }
    const rows = series.map((each) => ({ each, index: nearest(each.x, step) }));
    const x = this.xAt(step);
    this.marks.replaceChildren(
      shape("line", { class: "rule", x1: x, x2: x, y1: this.box.top, y2: this.box.bottom }),
      ...rows.filter(({ each, index }) => each.mean[index] !== null).map(({ each, index }) =>
        shape("circle", { class: `dot ${colourOf(each.group)}`, cx: this.xAt(each.x[index]), cy: this.yAt(each.mean[index]), r: 4.5 })),
    );
    this.tip.replaceChildren(
      element("b", {}, `${wholeNumber(step)} steps`),
      element("ul", {}, rows.map(({ each, index }) => this.row(each, index))),
    );
    this.tip.hidden = false;
    const room = this.plot.clientWidth - this.tip.offsetWidth;
    const beside = x + 14 > room ? x - this.tip.offsetWidth - 14 : x + 14;
    this.tip.style.left = `${Math.max(0, Math.min(beside, room))}px`;
  }

  row(series, index) {
    const bounds = series.low.length && series.low[index] !== null
      ? ` [${fullNumber(series.low[index])}, ${fullNumber(series.high[index])}]` : "";
    return element(
      "li", { class: colourOf(series.group) },
      element("span", { class: "key" }), element("b", {}, fullNumber(series.mean[index])), bounds,
      this.visible.length > 1 ? element("span", { class: "name" }, ` ${series.name}`) : "",
    );
  }

  // the step of a point near the pointer
  snapped(step) {
    const near = this.visible.map((series) => series.x[nearest(series.x, step)]);
    return near.reduce((best, each) => (Math.abs(each - step) < Math.abs(best - step) ? each : best), near[0] ?? null);
  }

  listen() {
    let start = null;
    const position = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType !== "touch") {
        start = position(event);
        this.svg.setPointerCapture(event.pointerId);
      }
      if (this.box) this.point(this.snapped(this.stepAt(position(event))));
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.box) return;
      const here = position(event);
      this.point(this.snapped(this.stepAt(here)));
      if (start !== null && Math.abs(here - start) > 6) {
        const { top, bottom } = this.box;
        this.marks.append(shape("rect", { class: "brush", x: Math.min(start, here), y: top, width: Math.abs(here - start), height: bottom - top }));
      }
    });
    this.svg.addEventListener("pointerup", (event) => {
      const here = position(event);
      if (start !== null && Math.abs(here - start) > 6) {
        this.setZoom([this.stepAt(Math.min(start, here)), this.stepAt(Math.max(start, here))]);
      }
      start = null;
    });
    this.svg.addEventListener("pointerleave", () => { if (start === null) this.point(null); });
    this.svg.addEventListener("dblclick", () => this.setZoom(null));
  }

  onKey(event) {
    if (event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1), "+": () => this.scale(0.5), "=": () => this.scale(0.5),
      "-": () => this.scale(2), 0: () => this.setZoom(null), Escape: () => this.point(null),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  move(direction) {
    const steps = [...new Set(this.visible.flatMap((series) => series.x))].sort((a, b) => a - b);
    if (!steps.length) return;
    const at = this.cursor === null ? (direction > 0 ? -1 : steps.length) : nearest(steps, this.cursor);
    this.point(steps[Math.max(0, Math.min(steps.length - 1, at + direction))]);
    this.spoken.textContent = this.tip.textContent;
  }

  // -- zoom

  setZoom(view) {
    if (!this.visible.length) return;
    const [low, high] = this.range();
    if (view) view = [Math.max(low, view[0]), Math.min(high, view[1])];
    const all = !view || view[1] - view[0] >= (high - low) * 0.999 || view[1] <= view[0];
    this.zoom = all ? null : view;
    this.draw();
  }

  scale(factor) {
    const [from, to] = this.view;
    const middle = this.cursor !== null && this.cursor > from && this.cursor < to ? this.cursor : (from + to) / 2;
    const smallest = (this.range()[1] - this.range()[0]) / 1e4;
    const half = Math.max(smallest, ((to - from) * factor) / 2);
    this.setZoom([middle - half, middle + half]);
  }

  pan(share) {
    const [low, high] = this.range();
    const [from, to] = this.view;
    const shift = Math.max(low - from, Math.min(high - to, share * (to - from)));
    this.setZoom([from + shift, to + shift]);
  }
}
