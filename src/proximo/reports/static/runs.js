// The live view's list of runs. A click opens one or a folder of them; several can be chosen and opened as one report.

const SECONDS_BETWEEN_LOOKS = 5;
const chosen = new Set();

function runRow(run) {
  const box = element("input", { type: "checkbox", "aria-label": `choose ${run.name}`, checked: chosen.has(run.name) });
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(run.name);
    else chosen.delete(run.name);
    showButton();
  });
  const name = run.address ? element("a", { href: run.address }, run.name) : run.name;
  const cell = (label, text, className = "number") => element("td", { class: className, "data-label": label }, text);
  return element(
    "tr", { class: "one" },
    element("th", { scope: "row" }, run.address ? box : "", name, element("span", { class: "note" }, run.note)),
    cell("steps", run.steps), cell("training return", run.training), cell("evaluation", run.evaluation),
    cell("steps per second", run.speed),
    cell("state", element("span", { class: `state ${run.state}` }, run.state), ""),
  );
}

// runs of one folder, such as the seeds of a training, under its name
function rows(runs) {
  const parent = (run) => run.name.slice(0, Math.max(0, run.name.lastIndexOf("/")));
  return runs.flatMap((run, index) => {
    const folder = parent(run);
    if (!folder || (index && parent(runs[index - 1]) === folder)) return [runRow(run)];
    const members = runs.filter((each) => parent(each) === folder && each.address);
    const link = element("a", { href: reportOf(members.map((each) => each.name)) }, `${folder} (${members.length})`);
    return [element("tr", { class: "mean" }, element("th", { colspan: "6", scope: "rowgroup" }, link)), runRow(run)];
  });
}

const reportOf = (names) => `/report?${names.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;

function showButton() {
  const button = document.getElementById("open");
  if (!button) return;
  button.disabled = chosen.size === 0;
  button.textContent = chosen.size > 1 ? `open ${chosen.size} runs as one report` : "open as a report";
}

function show(content) {
  document.title = document.getElementById("folder").textContent = content.title;
  const columns = ["run", "steps", "training return", "evaluation", "steps per second", "state"].map((name, index) =>
    element("th", { scope: "col", class: index > 0 && index < 5 ? "number" : "" }, name));
  const open = element("button", { type: "button", id: "open" });
  open.addEventListener("click", () => {
    location.href = reportOf([...chosen]);
  });
  const focused = document.activeElement?.getAttribute("aria-label");
  document.getElementById("runs").replaceChildren(...(content.runs.length
    ? [
      element(
        "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" },
        element("table", { class: "results" }, element("thead", {}, element("tr", {}, columns)), element("tbody", {}, rows(content.runs))),
      ),
      element("p", {}, open),
    ]
    : [element("p", { class: "quiet" }, "There are no runs in this folder yet.")]));
  if (focused) document.querySelector(`input[aria-label="${CSS.escape(focused)}"]`)?.focus();
  showButton();
}

async function look() {
  const state = document.getElementById("live");
  try {
    const answer = await fetch(document.body.dataset.content);
    if (!answer.ok) throw new Error(await answer.text());
    const content = await answer.json();
    const text = JSON.stringify(content);
    if (text !== look.shown) show(content);
    look.shown = text;
    state.textContent = `${content.runs.length} run${content.runs.length === 1 ? "" : "s"}, looked at ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    state.textContent = `not refreshed: ${error.message}`;
  }
  setTimeout(look, 1000 * SECONDS_BETWEEN_LOOKS);
}

look();
