"""What is in the file, what goes into the graph, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium import spaces
from tests.export.cases import ACTIONS, CASES, IMAGE, VECTOR, RandomObservations, with_weights

from proximo import PPO
from proximo.cli.main import main
from proximo.envs import DummyVecEnv, VecFrameStack, VecNormalize
from proximo.errors import ExportError, MissingExtraError
from proximo.export.pipeline import Pipeline
from proximo.export.samples import random_observations
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.encoders import BaseFeaturesExtractor

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "seed": 1}


def normalized(clip_obs: float = 1.5) -> Any:
    env = VecNormalize(DummyVecEnv([lambda: RandomObservations(VECTOR, ACTIONS["box"])]), clip_obs=clip_obs)
    model = with_weights(PPO("MlpPolicy", env, **SMALL))
    env.obs_rms.mean, env.obs_rms.var = np.full(5, 300.0), np.full(5, 4.0)
    env.obs_rms.count = 100.0
    return model


def program(path: Path) -> tuple[Any, dict[str, Any]]:
    files = {"policy.json": ""}
    module = torch.export.load(path, extra_files=files).module()
    return module, json.loads(files["policy.json"])


def test_statistics_of_the_environment_are_in_the_graph(tmp_path: Path) -> None:
    model = normalized()
    model.export(tmp_path / "policy.pt2")
    module, metadata = program(tmp_path / "policy.pt2")
    raw = np.random.default_rng(0).normal(300.0, 3.0, (9, 5)).astype(np.float32)
    expected, _ = model.predict(model.get_env().normalize_obs(raw), deterministic=True)
    np.testing.assert_allclose(module({"observation": torch.as_tensor(raw)})["action"], expected, atol=1e-5)
    assert metadata["normalization"] == {"parts": [""], "clip": 1.5, "epsilon": 1e-8}


def test_a_model_file_keeps_statistics_and_their_settings(tmp_path: Path) -> None:
    model = normalized()
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip")
    assert loaded.normalizer_settings()["clip_obs"] == 1.5
    report = loaded.export(tmp_path / "policy.pt2")
    assert report.metadata["normalization"]["clip"] == 1.5
    raw = np.full((2, 5), 303.0, np.float32)
    module, _ = program(tmp_path / "policy.pt2")
    expected, _ = model.predict(model.get_env().normalize_obs(raw), deterministic=True)
    np.testing.assert_allclose(module({"observation": torch.as_tensor(raw)})["action"], expected, atol=1e-5)


def test_statistics_may_come_from_a_file_of_their_own(tmp_path: Path, capsys: Any) -> None:
    model = normalized()
    model.get_env().save(tmp_path / "statistics.safetensors")
    bare = PPO("MlpPolicy", RandomObservations(VECTOR, ACTIONS["box"]), **SMALL)
    bare.policy.load_state_dict(model.policy.state_dict())
    bare.save(tmp_path / "model.zip")
    words = ["export", str(tmp_path / "model.zip"), str(tmp_path / "policy.pt2")]
    assert main([*words, "--normalizer", str(tmp_path / "statistics.safetensors")]) == 0
    assert "largest difference" in capsys.readouterr().out
    _, metadata = program(tmp_path / "policy.pt2")
    assert metadata["normalization"]["clip"] == 1.5
    assert len(metadata["sha256"]["model"]) == 64
    with pytest.raises(ExportError, match="has its own"):
        model.export(tmp_path / "other.pt2", normalizer=tmp_path / "statistics.safetensors")


def test_normalisation_below_stacked_frames_is_refused(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([lambda: RandomObservations(VECTOR, ACTIONS["box"])]))
    model = PPO("MlpPolicy", VecFrameStack(env, 2), **SMALL)
    with pytest.raises(ExportError, match="VecNormalize lies below VecFrameStack"):
        model.export(tmp_path / "policy.pt2")


def test_images_come_as_the_environment_gives_them(tmp_path: Path) -> None:
    model = CASES["cnn"].make()
    report = model.export(tmp_path / "policy.pt2")
    assert report.metadata["images"] == {"": "HWC"}
    assert report.metadata["inputs"]["observation"] == {"shape": ["batch", 40, 36, 3], "dtype": "uint8"}
    model.save(tmp_path / "model.zip")
    bare = PPO.load(tmp_path / "model.zip").export(tmp_path / "bare.pt2")
    assert bare.metadata["images"] == {"": "CHW"}
    module, _ = program(tmp_path / "policy.pt2")
    images = np.random.default_rng(0).integers(0, 256, (4, *IMAGE.shape), np.uint8)
    expected, _ = model.predict(images, deterministic=True)
    np.testing.assert_array_equal(module({"observation": torch.as_tensor(images)})["action"], expected)


def test_metadata_of_an_onnx_file(tmp_path: Path) -> None:
    model = CASES["maskable-discrete"].make()
    report = model.export(tmp_path / "policy.onnx")
    data = (tmp_path / "policy.onnx").read_bytes()
    session = onnxruntime.InferenceSession(data)
    stored = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert stored == report.metadata
    assert stored["action_space"] == {"type": "Discrete", "n": 4, "start": -1}
    assert stored["mask_groups"] == [4]
    assert stored["versions"]["torch"] == torch.__version__
    shapes = {port.name: port.shape for port in session.get_inputs()}
    assert shapes == {"observation": ["batch", 5], "action_masks": ["batch", 4]}
    root = str(Path(__file__).parents[2]).encode()
    assert root not in data  # no path of the machine
    one = session.run(None, {"observation": np.zeros((1, 5), np.float32), "action_masks": np.eye(4, dtype=bool)[[2]]})
    assert one[0].tolist() == [1]  # the third choice, counted from -1


def test_names_that_meet_get_longer(tmp_path: Path) -> None:
    space = spaces.Dict(action=spaces.Box(-1.0, 1.0, (2,)), noise=spaces.Box(-1.0, 1.0, (2,)))
    model = with_weights(PPO("MultiInputPolicy", RandomObservations(space, ACTIONS["box"]), **SMALL))
    report = model.export(tmp_path / "policy.pt2", stochastic=True)
    assert report.metadata["observation_inputs"] == {"action": "observation/action", "noise": "observation/noise"}
    assert set(report.metadata["inputs"]) == {"observation/action", "observation/noise", "noise"}


@pytest.mark.parametrize("kind", ["observation", "action"])
@pytest.mark.parametrize(
    "name",
    ['"+str(__import__("os").mkdir("made"))+"', '+str(__import__("os").mkdir(\'made\'))+""', "it's", "a\\b", "a\nb"],
)
def test_names_become_no_code(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's export would run the first two, which a stranger's model file may hold."""
    monkeypatch.chdir(tmp_path)
    space = spaces.Dict({name: spaces.Box(-1.0, 1.0, (2,)), "other": spaces.Box(-1.0, 1.0, (2,))})
    given = (space, ACTIONS["box"]) if kind == "observation" else (VECTOR, space)
    policy = "MultiInputPolicy" if kind == "observation" else "MlpPolicy"
    model = PPO(policy, RandomObservations(*given), **SMALL)
    with pytest.raises(ExportError, match="no quotes, backslashes or control characters"):
        model.export(tmp_path / "policy.pt2")
    assert not list(tmp_path.iterdir())


class FirstPartOnly(BaseFeaturesExtractor):
    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, 2)

    def forward(self, observations: Any) -> Any:
        return observations["seen"]


def test_parts_that_the_actor_does_not_read_are_no_inputs(tmp_path: Path) -> None:
    space = spaces.Dict(hidden_from_it=spaces.Box(-1.0, 1.0, (3,)), seen=spaces.Box(-1.0, 1.0, (2,)))
    options = {"policy_kwargs": {"features_extractor_class": FirstPartOnly}}
    model = with_weights(PPO("MultiInputPolicy", RandomObservations(space, ACTIONS["box"]), **SMALL, **options))
    assert list(model.export(tmp_path / "policy.pt2").metadata["inputs"]) == ["seen"]


class Halved(ActorCriticPolicy):
    """Gives the environment something else than the network says, which no graph knows."""

    def bound_actions(self, actions: Any) -> Any:
        return super().bound_actions(actions) / 2


def test_a_file_that_would_act_otherwise_is_not_written(tmp_path: Path) -> None:
    model = with_weights(PPO(Halved, RandomObservations(VECTOR, ACTIONS["box"]), **SMALL))
    (tmp_path / "policy.pt2").write_text("what was there before")
    with pytest.raises(ExportError, match=r"action differs from what predict gives by .*No file is written"):
        model.export(tmp_path / "policy.pt2")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt2"]
    assert (tmp_path / "policy.pt2").read_text() == "what was there before"


class Deciding(BaseFeaturesExtractor):
    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, 5)

    def forward(self, observations: Any) -> Any:
        return observations if observations.sum() > 0 else -observations


def test_a_network_that_cannot_be_traced_says_why(tmp_path: Path) -> None:
    options = {"policy_kwargs": {"features_extractor_class": Deciding}}
    model = PPO("MlpPolicy", RandomObservations(VECTOR, ACTIONS["box"]), **SMALL, **options)
    with pytest.raises(ExportError, match="must not let Python decide by the values in a tensor") as raised:
        model.export(tmp_path / "policy.pt2")
    said, _ = str(raised.value).splitlines()  # without what PyTorch tells its own developers
    assert "data-dependent" in said
    assert Path(__file__).name in said
    assert not list(tmp_path.iterdir())


class Factorised(BaseFeaturesExtractor):
    """ONNX has no QR decomposition."""

    def __init__(self, space: Any) -> None:
        super().__init__(space, 5)

    def forward(self, observations: Any) -> Any:
        return torch.linalg.qr(observations.unsqueeze(-1) + torch.eye(5))[1][..., 0]


def test_an_operation_that_onnx_does_not_have_is_named(tmp_path: Path) -> None:
    options = {"policy_kwargs": {"features_extractor_class": Factorised}}
    model = PPO("MlpPolicy", RandomObservations(VECTOR, ACTIONS["box"]), **SMALL, **options)
    with pytest.raises(ExportError, match=r"as ONNX: .*linalg_qr.*\nA file that ends with .pt2 holds it"):
        model.export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CASES["box"].make()
    with pytest.raises(ExportError, match=r"the ending '.txt'; expected one of .onnx, .pt2"):
        model.export(tmp_path / "policy.txt")
    with pytest.raises(ExportError, match="masks need discrete choices"):
        model.export(tmp_path / "policy.pt2", action_masks=True)
    with torch.no_grad():
        model.policy.action_net.bias.fill_(torch.nan)
    with pytest.raises(ExportError, match="NaN or infinity"):
        model.export(tmp_path / "policy.pt2")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'proximo\[export\]'"):
        model.export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(number: float, tmp_path: Path) -> None:
    # the likeliest of NaN is an action too, and the same in both
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0)
    with torch.no_grad():
        model.policy.value_net.weight.fill_(number)  # the critic is not exported
        model.export(tmp_path / "policy.onnx")
        model.policy.action_net.bias.fill_(number)
    with pytest.raises(ExportError, match=r"policy\.action_net\.bias holds"):
        model.export(tmp_path / "broken.onnx")
    assert not (tmp_path / "broken.onnx").exists()


def test_exporting_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", RandomObservations(VECTOR, ACTIONS["box"]), **SMALL, backend="torch").learn(16)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.export(tmp_path / "policy.pt2", stochastic=True)
    assert all(map(torch.equal, before, model.policy.parameters()))
    assert model.policy.action_dist.noise is None
    model.learn(16)


def test_command_refuses_to_replace(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "policy.onnx").touch()
    assert main(["export", str(tmp_path / "model.zip"), str(tmp_path / "policy.onnx")]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "absent"), str(tmp_path / "other.onnx")]) == 2
    assert "does not exist" in capsys.readouterr().err


BEYOND = (
    spaces.Box(90_000.0, 110_000.0, (2,)),
    spaces.Box(2_000.0, np.inf, (2,)),
    spaces.Box(-np.inf, -2_000.0, (2,)),
    spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    spaces.Box(2**40, 2**41, (2,), np.int64),
)


@pytest.mark.parametrize("space", BEYOND, ids=str)
def test_observations_may_lie_far_from_zero(space: spaces.Box) -> None:
    rows: Any = random_observations(Pipeline(space, ()), 50, np.random.default_rng(0))
    assert all(space.contains(row) for row in rows)
    assert len(np.unique(rows[:, 0])) > 10


def test_the_actor_s_keys_need_not_be_among_the_critic_s(tmp_path: Path) -> None:
    env = RandomObservations(spaces.Dict(seen=VECTOR, privileged=VECTOR), ACTIONS["box"])
    keys = {"actor_keys": ["seen"], "critic_keys": ["privileged"]}
    model = with_weights(PPO("MultiInputPolicy", env, **SMALL, policy_kwargs=keys))
    model.export(tmp_path / "policy.pt2")
    module, metadata = program(tmp_path / "policy.pt2")
    assert list(metadata["inputs"]) == ["seen"]
    seen = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    expected, _ = model.predict({"seen": seen}, deterministic=True)
    np.testing.assert_allclose(module({"seen": torch.as_tensor(seen)})["action"], expected, atol=1e-5)


def test_weights_of_hybrid_actions_may_change_between_learning_and_export(tmp_path: Path) -> None:
    model = CASES["hybrid"].make().learn(8)
    with_weights(model)
    assert model.export(tmp_path / "policy.pt2").largest_difference <= 1e-5
