"""Proximo as a new user has it: installed alone or with one extra, then used with nothing else there.

No variable but PATH, HOME and LANG, an empty home, packages that cannot be written, no display and, once installed,
no network. Each extra is a layer of its own over one plain installation, whose packages it sees but does not change.
Run it with ``make test-install``: it installs some gigabytes into pytest's temporary folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRAIN = "from proximo.cli.main import main; raise SystemExit(main({}))"
SHORT = ["--steps", "64", "--n-steps", "32", "--envs", "2", "--eval-episodes", "1", "--seed", "1"]
SMALL = "n_steps=16, batch_size=32, n_epochs=1, seed=1"


def train(env_id: str, *more: str) -> str:
    return TRAIN.format(["train", env_id, *SHORT, *more])


USES = {
    "classic": train("CartPole-v1", "--video"),
    "box2d": train("LunarLander-v3"),
    "mujoco": train("HalfCheetah-v5"),
    "atari": train("ALE/Pong-v5", "--batch-size", "32", "--n-epochs", "1"),
    "pybullet": train("HopperBulletEnv-v0"),
    "minigrid": train("MiniGrid-Empty-5x5-v0"),
    "minatar": train("MinAtar/Breakout-v1", "--batch-size", "32", "--n-epochs", "1"),
    "tune": TRAIN.format(
        ["tune", "CartPole-v1", "--trials", "1", "--seeds", "1", "--rungs", "1", "--steps", "512", "--fresh-seeds", "0"]
    ),
    "envpool": f"""
from proximo import PPO
from proximo.envs import make_env_pool
PPO("MlpPolicy", make_env_pool("CartPole-v1", 2, seed=1), {SMALL}).learn(64)
""",
    "procgen": f"""
from proximo import PPO
from proximo.envs import make_procgen_env
PPO("CnnPolicy", make_procgen_env("starpilot", 2), {SMALL}).learn(32)
""",
    "hydra": """
from omegaconf import OmegaConf
from proximo.hsuanwu.common.engine import OnPolicyTrainer
from proximo.hsuanwu.env import make_rllte_env
settings = OmegaConf.create({
    "num_train_steps": 64, "num_steps": 16, "num_test_episodes": 2,
    "encoder": {"name": "VanillaMlpEncoder", "feature_dim": 16},
    "learner": {"name": "PPGLearner", "hidden_dim": 16, "policy_epochs": 2, "num_policy_mini_batch": 4},
    "storage": {"name": "VanillaRolloutStorage"},
})
train, test = (make_rllte_env("CartPole-v1", num_envs=2, seed=seed, asynchronous=False) for seed in (1, 2))
OnPolicyTrainer(settings, train, test).train()
""",
    "tensorboard": train("CartPole-v1", "--tensorboard"),
    "wandb": "import os; os.environ['WANDB_MODE'] = 'offline'\n" + train("CartPole-v1", "--track", "wandb"),
    "mlflow": train("CartPole-v1", "--track", "mlflow"),
    "trackio": train("CartPole-v1", "--track", "trackio"),
    "hub": f"""
from pathlib import Path
from proximo.cli.main import main
assert main({["train", "CartPole-v1", *SHORT]}) == 0
(run,) = Path("runs").iterdir()
words = ["hub", "push", str(run), "ada/cartpole", "--dry-run", "card", "--episodes", "2", "--without-film"]
assert main(words) == 0
assert "model-index" in Path("card/README.md").read_text()
""",
    "export": f"""
from pathlib import Path
from proximo import PPO
PPO("MlpPolicy", "CartPole-v1", {SMALL}).export("policy.onnx")
assert Path("policy.onnx").stat().st_size > 1000
""",
    "pettingzoo": f"""
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from proximo import PPO

class Two(ParallelEnv):
    metadata = {{"name": "two"}}
    possible_agents = ["a", "b"]
    def observation_space(self, agent): return spaces.Box(0.0, 1.0, (1,), np.float32)
    def action_space(self, agent): return spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return {{agent: np.zeros(1, np.float32) for agent in self.agents}}, {{agent: {{}} for agent in self.agents}}
    def step(self, actions):
        same = lambda value: {{agent: value for agent in self.agents}}
        return same(np.zeros(1, np.float32)), same(1.0), same(False), same(False), same({{}})

PPO("MlpPolicy", Two(), {SMALL}).learn(64)
""",
    "docs": """
from pathlib import Path
from sphinx.cmd.build import main
Path("docs").mkdir()
Path("docs/conf.py").write_text("extensions = ['myst_nb', 'sphinx_copybutton']\\nhtml_theme = 'furo'\\n")
Path("docs/index.md").write_text("# Title\\n")
assert main(["-W", "-q", "docs", "built"]) == 0
""",
    "plot": f"""
from proximo import PPO, make_vec_env
from proximo.envs.wrappers.monitor import load_results
PPO("MlpPolicy", make_vec_env("CartPole-v1", 2, monitor_dir="monitor"), {SMALL}).learn(512)
assert len(load_results("monitor")) > 5
""",
    "video": """
import numpy as np
from proximo.envs.rendering import write_video
frames = [np.full((64, 64, 3), shade, np.uint8) for shade in range(0, 250, 10)]
assert write_video("film.mp4", frames, 25).stat().st_size > 500
""",
}


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}"
    return done.stdout


@cache
def isolation() -> tuple[str, ...]:
    """A command before the command: no network; and root, who may write everywhere, without that power."""
    powerless = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all")
    offline = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--net", "--map-current-user")
    chosen = (*offline, *powerless) if os.geteuid() == 0 else offline
    if shutil.which("unshare") is None or subprocess.run([*chosen, "true"], capture_output=True).returncode:
        pytest.skip(f"needs {' '.join(chosen)}, of util-linux, and a kernel that allows it")
    return chosen


def use(python: Path, code: str, home: Path) -> str:
    home.mkdir()
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    return run([*isolation(), str(python), "-c", code], env=variables, cwd=home)


def pip(python: Path, *words: str) -> None:
    run([str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), *words])


def packages_of(venv: Path) -> Path:
    return next(venv.glob("lib/python*/site-packages"))


def make_read_only(venv: Path) -> None:
    for path in [venv, *venv.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from: building must not leave anything in the checkout."""
    folder = tmp_path_factory.mktemp("source") / "proximo"
    left_out = shutil.ignore_patterns(".*", "runs", "build", "dist", "tests", "__pycache__")
    return shutil.copytree(ROOT, folder, ignore=left_out)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """``pip install .``"""
    venv = tmp_path_factory.mktemp("plain") / "venv"
    run([sys.executable, "-m", "venv", str(venv)])
    pip(venv / "bin" / "python", str(source))
    make_read_only(venv)
    return venv


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)])
    (made,) = folder.iterdir()
    return made


def layer(folder: Path, plain: Path) -> Path:
    """A virtual environment that sees the packages of ``plain`` after its own."""
    run([sys.executable, "-m", "venv", str(folder)])
    (packages_of(folder) / "plain.pth").write_text(f"{packages_of(plain)}\n")
    return folder


def test_the_plain_installation_trains(plain: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [*isolation(), str(plain / "bin" / "proximo"), "train", "CartPole-v1", *SHORT]
    printed = run(command, env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}, cwd=home)
    assert "64 steps in" in printed
    assert list(home.glob("runs/*/model.zip"))
    assert list(home.glob(".cache/proximo/kernels/*/**/*.nbi"))
    with pytest.raises(AssertionError, match="Permission denied"):
        use(plain / "bin" / "python", f"open({str(packages_of(plain) / 'new')!r}, 'w')", tmp_path / "other")


def test_the_wheel_holds_the_package_alone(wheel: Path, plain: Path, tmp_path: Path) -> None:
    venv = layer(tmp_path / "venv", plain)
    pip(venv / "bin" / "python", "--no-deps", "--force-reinstall", "--ignore-installed", str(wheel))
    assert {path.name.split("-")[0] for path in packages_of(venv).glob("proximo*")} == {"proximo"}
    make_read_only(venv)
    printed = use(venv / "bin" / "python", "import proximo; print(proximo.__file__)", tmp_path / "home")
    assert printed.startswith(str(venv))


@pytest.mark.parametrize("extra", USES)
def test_one_extra_alone(extra: str, wheel: Path, plain: Path, tmp_path: Path) -> None:
    venv = layer(tmp_path / "venv", plain)
    pip(venv / "bin" / "python", f"proximo[{extra}] @ {wheel.as_uri()}")
    make_read_only(venv)
    use(venv / "bin" / "python", USES[extra], tmp_path / "home")


def test_every_extra_is_used() -> None:
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(USES) == set(declared) - {"test", "clients"}
