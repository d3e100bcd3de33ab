// The page of a report: sections made from the content that the page carries, or that the live view fetches.

const SECONDS_BETWEEN_LOOKS = 5;
const ACTIVITIES = ["rollouts", "updates", "checkpoints", "evaluation", "film", "other"];
const charts = new Map(); // by task and title, so that a refresh keeps zoom and hidden lines
const chosen = new Map(); // the metric that is shown, by task
const drawn = new Map(); // the content that each section shows, as text

function table(className, columns, rows, label) {
  const head = columns.length ? element("thead", {}, element("tr", {}, columns)) : null;
  return element(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    element("table", { class: className }, head, element("tbody", {}, rows)),
  );
}

const heading = (text, className = "") => element("th", { scope: "col", class: className }, text);
const empty = (text) => element("p", { class: "quiet" }, text);
const key = (group) => element("span", { class: `key ${colourOf(group)}` });

/** A note that may take two lines, though not within an interval: "1.00 … 2.00, " and "20 episodes". */
function unbroken(note) {
  const pieces = note.split(", ");
  return pieces.map((piece, index) => element("span", { class: "piece" }, piece + (index < pieces.length - 1 ? ", " : "")));
}

function resultsSection({ results }) {
  const columns = results.columns.map((name, index) => heading(name, index > 0 && index < 6 ? "number" : ""));
  const rows = results.rows.map((row) => {
    const cells = row.cells.map((cell, index) => {
      const note = cell.note ? element("span", { class: "note" }, cell.note) : "";
      if (index === 0) return element("th", { scope: "row" }, row.inner ? "" : key(row.group), cell.text, note);
      const label = { "data-label": results.columns[index] };
      if (index === 6) return element("td", label, element("span", { class: `state ${cell.state}` }, cell.text), note);
      const pieces = cell.note ? element("span", { class: "note" }, unbroken(cell.note)) : "";
      return element("td", { class: cell.text === "–" ? "number none" : "number", ...label }, cell.text, pieces);
    });
    return element("tr", { class: row.mean ? "mean" : row.inner ? "inner" : "one" }, cells);
  });
  return [
    table("results", columns, rows, "results"),
    element("p", { class: "quiet small" }, "Training return: mean of the latest 100 episodes. Intervals hold 95 %: of one run over its episodes, of a mean over seeds."),
  ];
}

function chartFor(id, data) {
  if (charts.has(id)) charts.get(id).update(data);
  else charts.set(id, new Chart(data));
  return charts.get(id).root;
}

function curvesSection({ tasks }) {
  if (!tasks.some((task) => task.charts.length || task.metrics.length)) return [empty("No episode has ended yet.")];
  return tasks.map((task) => element(
    "div", { class: "task" },
    tasks.length > 1 ? element("h3", {}, task.env) : "",
    element(
      "div", { class: task.charts.length > 1 ? "charts two" : "charts" },
      task.charts.map((chart) => chartFor(`${task.env}\n${chart.title}`, chart)),
    ),
    task.metrics.length ? otherMetrics(task) : "",
  ));
}

function otherMetrics(task) {
  const id = `${task.env}\nmetric`;
  const select = element("select", { "aria-label": "metric" }, task.metrics.map((metric) => element("option", {}, metric.title)));
  const place = element("div", { class: "charts" });
  const show = () => {
    charts.delete(id);
    place.replaceChildren(chartFor(id, task.metrics[select.selectedIndex]));
  };
  select.addEventListener("change", show);
  const before = chosen.get(id);
  if (before !== undefined && task.metrics.some((metric) => metric.title === before)) select.value = before;
  select.addEventListener("change", () => chosen.set(id, select.value));
  const title = task.columns > task.metrics.length
    ? `The first ${task.metrics.length} of ${task.columns} metrics` : `All metrics (${task.columns})`;
  const details = element("details", { "data-id": id }, element("summary", {}, title), element("p", {}, select), place);
  details.addEventListener("toggle", () => details.open && !place.firstChild && show());
  return details;
}

function filmsSection({ films }) {
  return [element("div", { class: "films" }, films.map((film) => film.address ? filmFigure(film) : empty(`${film.caption}: ${film.note}`)))];
}

function filmFigure(film) {
  if (film.video) {
    const video = element("video", { src: film.address, controls: true, loop: true, muted: true, playsinline: true, "aria-label": film.caption });
    return element("figure", { class: "film card" }, video, element("figcaption", { class: "small" }, film.caption));
  }
  // a GIF cannot be stopped: its first picture stands in for it
  const image = element("img", { src: film.address, alt: `film: ${film.caption}` });
  const still = element("canvas", { hidden: true, role: "img", "aria-label": `first picture of ${film.caption}` });
  const button = element("button", { type: "button" }, "pause");
  const stop = (stopped) => {
    if (stopped && image.naturalWidth) {
      [still.width, still.height] = [image.naturalWidth, image.naturalHeight];
      still.getContext("2d").drawImage(image, 0, 0);
    }
    image.hidden = stopped;
    still.hidden = !stopped;
    button.textContent = stopped ? "play" : "pause";
  };
  button.addEventListener("click", () => stop(still.hidden));
  image.addEventListener("load", () => matchMedia("(prefers-reduced-motion: reduce)").matches && stop(true));
  return element("figure", { class: "film card" }, image, still, element("figcaption", { class: "small" }, film.caption, button));
}

function valuesTable(values, groups, label) {
  const columns = [heading(""), ...groups.map((name, group) => element("th", { scope: "col" }, key(group), name))];
  const row = ([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, name), cells.map((cell) => element("td", {}, cell)));
  const parts = [];
  if (values.different.length) parts.push(table("values", columns, values.different.map(row), `${label} that differ`));
  if (values.same.length) {
    const summary = values.different.length ? `The same in all runs (${values.same.length})` : `${values.same.length} ${label}`;
    const same = table("values", [], values.same.map(row), label);
    parts.push(element("details", { "data-id": label, open: groups.length === 1 }, element("summary", {}, summary), same));
  }
  return parts.length ? parts : [empty(`No ${label} were written down.`)];
}

function settingsSection({ settings, groups }) {
  const several = groups.length > 1;
  const lead = several && !settings.different.length ? [empty("All runs have the same settings.")] : [];
  return [...lead, ...valuesTable(settings, groups, "settings")];
}

function timesSection({ times }) {
  const columns = [heading("run"), heading("steps per second", "number"), heading("time", "number"), heading("spent on", "wide")];
  const rows = times.map((time) => element(
    "tr", {},
    element("th", { scope: "row" }, key(time.group), time.name),
    element("td", { class: "number", "data-label": "steps per second" }, time.speed),
    element("td", { class: "number", "data-label": "time" }, time.total),
    element("td", { class: "wide" }, time.shares.length ? shares(time.shares) : "–"),
  ));
  const spent = ACTIVITIES.filter((name) => times.some((time) => time.shares.some((share) => share.name === name)));
  const legend = spent.map((name) => element("span", {}, element("span", { class: `key ${activityColour(name)}` }), name));
  return [spent.length ? element("div", { class: "share-legend small" }, legend) : "", table("times", columns, rows, "speed and time")];
}

const activityColour = (name) => colourOf(ACTIVITIES.indexOf(name));

function shares(list) {
  const bar = element("div", { class: "shares", "aria-hidden": "true" });
  for (const { name, share, text, time } of list) {
    const part = element("span", { class: activityColour(name), title: `${text}, ${time}` });
    part.style.flexGrow = share;
    bar.append(part);
  }
  return [bar, element("span", { class: "note" }, list.map(({ text }) => text).join(", "))];
}

function warningsSection({ warnings, journals }) {
  if (warnings.length) {
    return [element("ul", { class: "warnings" }, warnings.map(({ text, runs }) =>
      element("li", {}, text, element("span", { class: "note" }, runs.join(", ")))))];
  }
  return [empty(journals ? "No warnings were raised." : "Nothing is known: these runs have no journal.")];
}

function versionsSection({ versions, groups }) {
  const parts = valuesTable(versions, groups, "versions");
  return versions.different.length ? parts : parts.map((part) => part.querySelector?.(".scroll") ?? part);
}

function repeatSection({ repeat }) {
  return repeat.map(({ name, command, config }) => element(
    "div", {},
    element("div", { class: "command" }, element("pre", { tabindex: "0" }, command), copyButton(command)),
    element(
      "details", { "data-id": `repeat ${name}` },
      element("summary", {}, `config.toml of ${name}`),
      element("div", { class: "command" }, element("pre", { tabindex: "0" }, config), copyButton(config)),
    ),
  ));
}

function copyButton(text) {
  const button = element("button", { type: "button" }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling); // no clipboard here: ready for the keyboard
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return button;
}

const SECTIONS = [
  ["results", "Results", resultsSection, ["results"], true],
  ["curves", "Curves", curvesSection, ["tasks"], false],
  ["film", "Film", filmsSection, ["films"], false],
  ["settings", "Configuration", settingsSection, ["settings", "groups"], true],
  ["time", "Speed and time", timesSection, ["times"], true],
  ["warnings", "Warnings", warningsSection, ["warnings", "journals"], true],
  ["versions", "Versions", versionsSection, ["versions", "groups"], true],
  ["repeat", "Repeat it", repeatSection, ["repeat"], true],
];

function show(content) {
  document.title = content.title;
  const facts = [content.subtitle, `made ${content.made}`, `Proximo ${content.proximo}`].map((fact) => element("span", {}, fact));
  if (content.running) facts.unshift(element("span", { class: "state running" }, "running"));
  document.getElementById("head").replaceChildren(
    element("h1", {}, content.title), element("div", { class: "facts small" }, facts),
  );
  const present = SECTIONS.filter(([name]) => name !== "film" || content.films.length);
  document.getElementById("links").replaceChildren(
    ...present.map(([name, title]) => element("li", {}, element("a", { href: `#${name}` }, title))),
  );
  const notes = document.getElementById("notes");
  notes.hidden = !content.notes.length;
  notes.replaceChildren(element("ul", {}, content.notes.map((note) => element("li", {}, note))));
  for (const [name, title, build, parts, framed] of SECTIONS) showSection(name, title, build, parts, framed, content);
}

function showSection(name, title, build, parts, framed, content) {
  const section = document.getElementById(name);
  section.hidden = name === "film" && !content.films.length;
  const text = JSON.stringify(parts.map((part) => content[part]));
  if (section.hidden || drawn.get(name) === text) return;
  drawn.set(name, text);
  const before = new Map([...section.querySelectorAll("details")].map((details) => [details.dataset.id, details.open]));
  section.replaceChildren(element("h2", {}, title), element("div", { class: framed ? "card" : "" }, build(content)));
  section.querySelectorAll("details").forEach((details) => { details.open = before.get(details.dataset.id) ?? details.open; });
}

async function look(address) {
  const state = document.getElementById("live");
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
    state.textContent = "";
  } catch (error) {
    state.textContent = `not refreshed: ${error.message}`;
  }
  setTimeout(() => look(address), 1000 * SECONDS_BETWEEN_LOOKS);
}

const carried = document.getElementById("content");
const address = document.body.dataset.content;
if (carried) show(JSON.parse(carried.textContent));
if (address) look(address);
