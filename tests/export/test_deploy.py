"""``examples/deploy``: the file at work without this library, in Python and in a browser."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from examples.deploy.browser.build import build, fetch, train
from examples.deploy.policy import Policy
from tests.family import MEMORY, SMALL, Corridor, everything
from tests.reports.browser import CHROMIUM, DESKTOP, PHONE, Browser

from proximo import PPO, make_vec_env

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
NPM_CACHE = Path(__file__).parents[2] / "build"
WITHOUT = """
import runpy, sys
for name in ("torch", "proximo", "onnx"):
    sys.modules[name] = None  # importing it fails
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deploy") / "policy.onnx"
    train(path)
    return path


def test_plays_without_proximo_and_torch(cartpole: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, str(DEPLOY / "play.py"), str(cartpole), "CartPole-v1", "--episodes", "3"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "mean return: 500"


@pytest.mark.slow
def test_memory_masks_and_structured_actions(tmp_path: Path) -> None:
    """Step by step what the model itself does: Dict observations, hybrid actions with masks, an LSTM."""
    env = make_vec_env(everything, n_envs=2, seed=0)
    model = PPO("MultiInputLstmPolicy", env, **SMALL, **MEMORY, seed=3).learn(32, use_masking=True)
    model.export(tmp_path / "policy.onnx")
    policy = Policy(str(tmp_path / "policy.onnx"))
    for episode in range(2):
        single: Corridor = everything()  # type: ignore[assignment]
        observation, _ = single.reset(seed=episode)
        state, start, over = None, True, False
        while not over:
            masks = single.action_masks()
            expected, state = model.predict(observation, state, np.array([start]), True, masks)
            action = policy.act(observation, start, masks)
            for key in ("kind", "power"):
                np.testing.assert_allclose(action[key], expected[key], atol=1e-5)
            for ours, theirs in zip(action["switches"], expected["switches"], strict=True):
                np.testing.assert_array_equal(ours, theirs)
            observation, _, terminated, truncated, _ = single.step(action)
            start, over = False, terminated or truncated


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_physics_are_gymnasium_s() -> None:
    env: Any = gym.make("CartPole-v1").unwrapped
    env.reset(seed=5)
    actions = np.random.default_rng(0).integers(0, 2, 60).tolist()
    states = [env.state.tolist()] if isinstance(env.state, np.ndarray) else [list(env.state)]
    fallen = []
    for action in actions:
        _, _, terminated, _, _ = env.step(action)
        states.append([float(value) for value in env.state])
        fallen.append(terminated)
        if terminated:
            break
    script = f"""
    import {{ step, hasFallen }} from "{(DEPLOY / "browser" / "cartpole.js").as_uri()}";
    let state = {json.dumps(states[0])};
    const found = [];
    for (const action of {json.dumps(actions[: len(fallen)])}) {{
        state = step(state, action);
        found.push([...state, hasFallen(state)]);
    }}
    console.log(JSON.stringify(found));
    """
    words = ["node", "--input-type=module", "--eval", script]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert fallen[-1]
    assert [row[4] for row in found] == fallen
    np.testing.assert_allclose([row[:4] for row in found], states[1:], rtol=0, atol=1e-12)


@pytest.fixture
def site(cartpole: Path, tmp_path: Path) -> Iterator[str]:
    if CHROMIUM is None or shutil.which("npm") is None:
        pytest.skip("chromium or npm is not installed")
    try:
        archive = fetch(NPM_CACHE / "npm")
    except subprocess.CalledProcessError:
        pytest.skip("npm could not fetch onnxruntime-web: no network?")
    (tmp_path / "npm").symlink_to(archive.parent)
    build(tmp_path / "page", cartpole)
    handler = functools.partial(Quiet, directory=str(tmp_path / "page"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_page_balances_the_pole(site: str, tmp_path: Path) -> None:
    browser = Browser(tmp_path / "profile")
    try:
        for screen, dark in ((DESKTOP, False), (PHONE, True)):
            browser.open(f"{site}?speed=16", screen, dark)
            browser.wait_for("game.episodes >= 1", 120)
            assert browser.evaluate("game.best") == 500, "it fell"
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            browser.evaluate("document.getElementById('pause').click()")
            stopped = browser.evaluate("game.steps")
            browser.settle()
            assert browser.evaluate("game.steps") <= stopped + 1
            assert browser.problems == []
            origin = site.rpartition("/")[0]
            assert all(url.startswith((origin, "data:", "blob:")) for url in browser.requests)
    finally:
        browser.close()
