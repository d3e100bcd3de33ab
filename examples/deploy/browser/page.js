import * as ort from "./ort/ort.wasm.min.mjs";
import { LIMIT, hasFallen, reset, step } from "./cartpole.js";

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.logLevel = "error";
ort.env.wasm.numThreads = 1; // a small network gains nothing from threads, and they need special headers

const find = (id) => document.getElementById(id);
const canvas = find("scene");
const PAUSE = 900; // milliseconds between two episodes
const game = { state: reset(), steps: 0, best: 0, episodes: 0, action: 0, push: 0, running: true, speed: 1 };
window.game = game; // for whoever looks through the console

/** Ask the policy: 0 pushes the cart to the left, 1 to the right. */
async function decide(session, state) {
  const observation = new ort.Tensor("float32", Float32Array.from(state), [1, 4]);
  const { action } = await session.run({ observation });
  return Number(action.data[0]);
}

async function advance(session) {
  game.action = await decide(session, game.state);
  game.state = step(game.state, game.action, game.push);
  game.push *= 0.8;
  if (Math.abs(game.push) < 0.1) game.push = 0;
  game.steps += 1;
  game.best = Math.max(game.best, game.steps);
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const unit = width / 5.4; // pixels of a metre: the track of 4.8 m and a margin
  const [position, , angle] = game.state;
  const ground = height * 0.78, x = width / 2 + position * unit;
  const cart = { width: 0.5 * unit, height: 0.28 * unit }, wheel = 0.05 * unit;
  pen.lineCap = "round";
  pen.strokeStyle = colour("--line");
  pen.lineWidth = 3;
  pen.beginPath();
  pen.moveTo(width / 2 - LIMIT.position * unit, ground);
  pen.lineTo(width / 2 + LIMIT.position * unit, ground);
  for (const side of [-1, 0, 1]) {
    const mark = width / 2 + side * LIMIT.position * unit;
    pen.moveTo(mark, ground - 6);
    pen.lineTo(mark, ground + 6);
  }
  pen.stroke();
  pen.fillStyle = colour("--cart");
  pen.beginPath();
  pen.roundRect(x - cart.width / 2, ground - cart.height - 8, cart.width, cart.height, 6);
  pen.fill();
  for (const side of [-1, 1]) {
    pen.beginPath();
    pen.arc(x + (side * cart.width) / 4, ground - wheel, wheel, 0, 2 * Math.PI);
    pen.fill();
  }
  const top = ground - cart.height - 8;
  pen.strokeStyle = colour("--pole");
  pen.lineWidth = Math.max(8, 0.09 * unit);
  pen.beginPath();
  pen.moveTo(x, top);
  pen.lineTo(x + Math.sin(angle) * 1.0 * unit, top - Math.cos(angle) * 1.0 * unit);
  pen.stroke();
  pen.fillStyle = colour("--joint");
  pen.beginPath();
  pen.arc(x, top, 5, 0, 2 * Math.PI);
  pen.fill();
  const arrow = (game.action === 1 ? 1 : -1) * 0.24 * unit, from = x + (Math.sign(arrow) * cart.width) / 2;
  const level = ground - cart.height / 2 - 8;
  pen.strokeStyle = colour("--joint");
  pen.lineWidth = 3;
  pen.beginPath();
  pen.moveTo(from + Math.sign(arrow) * 6, level);
  pen.lineTo(from + arrow, level);
  pen.lineTo(from + arrow - Math.sign(arrow) * 6, level - 6);
  pen.moveTo(from + arrow, level);
  pen.lineTo(from + arrow - Math.sign(arrow) * 6, level + 6);
  pen.stroke();
}

function tell() {
  find("steps").textContent = game.steps;
  find("best").textContent = game.best;
  find("angle").textContent = `${((game.state[2] * 180) / Math.PI).toFixed(1)}°`;
}

async function play(session) {
  let before = performance.now(), owed = 0;
  for (;;) {
    const now = await new Promise(requestAnimationFrame);
    owed = Math.min(owed + ((now - before) / 20) * game.speed, 40); // 50 steps a second, and none for a hidden page
    before = now;
    let over = false;
    while (game.running && owed >= 1 && !over) {
      owed -= 1;
      await advance(session);
      over = hasFallen(game.state) || game.steps >= LIMIT.steps;
    }
    draw();
    tell();
    if (over) {
      find("status").textContent = hasFallen(game.state) ? "It fell. Once more." : "500 steps: solved. Once more.";
      await new Promise((done) => setTimeout(done, PAUSE));
      Object.assign(game, { state: reset(), steps: 0, push: 0, episodes: game.episodes + 1 });
      find("status").textContent = "The exported policy is balancing.";
      before = performance.now();
      owed = 0;
    }
  }
}

function listen() {
  find("left").addEventListener("click", () => { game.push -= 12; });
  find("right").addEventListener("click", () => { game.push += 12; });
  find("pause").addEventListener("click", (event) => {
    game.running = !game.running;
    event.target.textContent = game.running ? "Pause" : "Go on";
  });
  const chosen = new URLSearchParams(location.search).get("speed");
  if ([...find("speed").options].some((option) => option.value === chosen)) find("speed").value = chosen;
  const follow = () => { game.speed = Number(find("speed").value); };
  find("speed").addEventListener("change", follow);
  follow();
}

listen();
draw();
try {
  const session = await ort.InferenceSession.create(new URL("./policy.onnx", import.meta.url).href);
  find("status").textContent = "The exported policy is balancing.";
  await play(session);
} catch (error) {
  find("status").textContent = `The policy could not be loaded: ${error.message}`;
  throw error;
}
