"""Policies whose value sees keys of the observation that the policy does not."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo import A2C, DAAC, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.networks.actor_critic import MultiInputActorCriticPolicy
from proximo.networks.encoders import CombinedExtractor

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)
ACTOR = {"actor_keys": ["seen"]}


class HiddenSignEnv(gym.Env[Any, Any]):
    """One step: 2 · hidden, and 1 for the action that repeats the sign of what is hidden; ``seen`` is noise."""

    observation_space = spaces.Dict(hidden=BOX, seen=BOX)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        sign = 1.0 if self.np_random.random() < 0.5 else -1.0
        self.state = {
            "hidden": np.array([sign], np.float32),
            "seen": self.np_random.uniform(-1, 1, 1).astype(np.float32),
        }
        return self.state, {}

    def step(self, action: Any) -> Any:
        hidden = float(self.state["hidden"][0])
        return self.state, 2.0 * hidden + float(action == (hidden > 0)), True, False, {}

    def action_masks(self) -> Any:
        return np.ones(2, bool)


def batch(hidden: float, seen: float) -> dict[str, Any]:
    return {"hidden": np.array([[hidden]], np.float32), "seen": np.array([[seen]], np.float32)}


def train(policy_kwargs: dict[str, Any], steps: int = 6_000) -> PPO:
    env = make_vec_env(HiddenSignEnv, n_envs=16, seed=0)
    return PPO(
        "MultiInputPolicy", env, n_steps=16, batch_size=64, n_epochs=4, learning_rate=3e-3, seed=0,
        policy_kwargs={"net_arch": [16], **policy_kwargs},
    ).learn(steps)  # fmt: skip


def value(model: PPO, hidden: float) -> float:
    tensors, _ = model.policy.obs_to_tensor(batch(hidden, 0.3))
    with torch.no_grad():
        return float(model.policy.predict_values(tensors))


def probabilities(model: PPO, hidden: float) -> Any:
    tensors, _ = model.policy.obs_to_tensor(batch(hidden, 0.3))
    with torch.no_grad():
        return model.policy.get_distribution(tensors).distribution.probs[0].numpy()


def test_the_critic_learns_what_the_actor_cannot_use() -> None:
    model = train(ACTOR)
    # whichever action the actor prefers is right half of the time
    right = probabilities(model, 1.0)[1]
    assert value(model, 1.0) == pytest.approx(2.0 + right, abs=0.25)
    assert value(model, -1.0) == pytest.approx(-2.0 + 1.0 - right, abs=0.25)
    np.testing.assert_array_equal(probabilities(model, 1.0), probabilities(model, -1.0))
    assert model.backend.startswith("torch: features extractor is CombinedExtractor")


def test_an_actor_that_sees_the_key_uses_it() -> None:
    """The same environment can be solved; else the test above would show nothing."""
    model = train({})
    assert probabilities(model, 1.0)[1] > 0.9
    assert probabilities(model, -1.0)[0] > 0.9


def test_no_gradient_leads_from_the_actor_to_the_critics_key() -> None:
    policy = MultiInputActorCriticPolicy(HiddenSignEnv.observation_space, HiddenSignEnv.action_space, **ACTOR)  # type: ignore[arg-type]
    observations = {key: torch.rand(5, 1, requires_grad=True) for key in ("hidden", "seen")}
    values, log_prob, _ = policy.evaluate_actions(observations, torch.zeros(5, dtype=torch.long))
    log_prob.sum().backward(retain_graph=True)
    assert observations["hidden"].grad is None
    assert observations["seen"].grad is not None
    values.sum().backward()
    assert float(observations["hidden"].grad.abs().sum()) > 0


def test_predict_needs_the_actors_keys_alone() -> None:
    model = train(ACTOR, steps=256)
    assert list(model.policy.actor_space.spaces) == ["seen"]
    whole = {key: np.concatenate([value] * 3) for key, value in batch(1.0, 0.5).items()}
    actions, _ = model.predict({"seen": whole["seen"]}, deterministic=True)
    np.testing.assert_array_equal(actions, model.predict(whole, deterministic=True)[0])
    assert model.predict({"seen": whole["seen"][0]}, deterministic=True)[0] == actions[0]
    with pytest.raises(ValueError, match=r"lacks the keys \['seen'\]"):
        model.predict({"hidden": whole["hidden"]})
    tensors, _ = model.policy.obs_to_tensor({"seen": whole["seen"]})
    all_but_hidden = train({**ACTOR, "critic_keys": ["hidden"]}, steps=256)
    with pytest.raises(ValueError, match="the critic reads 'hidden' too"):
        all_but_hidden.policy.predict_values(tensors)


@pytest.mark.parametrize("algorithm", [PPO, A2C, PPG, DAAC, TRPO, MaskablePPO, RecurrentPPO])
def test_every_algorithm_trains_saves_and_loads_it(algorithm: type[PPO], tmp_path: Any) -> None:
    env = make_vec_env(HiddenSignEnv, n_envs=4, seed=0)
    policy = "MultiInputLstmPolicy" if algorithm is RecurrentPPO else "MultiInputPolicy"
    arguments = {} if algorithm is A2C else {"batch_size": 16}
    if algorithm is PPG:
        arguments["rollouts_per_phase"] = 1
    memory = {"lstm_hidden_size": 8} if algorithm is RecurrentPPO else {}
    model = algorithm(policy, env, n_steps=8, seed=0, policy_kwargs={"net_arch": [8], **ACTOR, **memory}, **arguments)
    model.learn(64)
    model.save(tmp_path / "model.zip")
    loaded = algorithm.load(tmp_path / "model.zip")
    assert loaded.policy.actor_keys == ["seen"]
    for name, weight in model.policy.state_dict().items():
        torch.testing.assert_close(loaded.policy.state_dict()[name], weight, rtol=0, atol=0)
    seen = {"seen": np.array([[0.2]], np.float32)}
    assert loaded.predict(seen, deterministic=True)[0] == model.predict(seen, deterministic=True)[0]


def test_a_linear_critic_beside_a_recurrent_actor() -> None:
    env = make_vec_env(HiddenSignEnv, n_envs=4, seed=0)
    kwargs = {"net_arch": [8], "lstm_hidden_size": 8, "enable_critic_lstm": False, **ACTOR}
    model = RecurrentPPO("MultiInputLstmPolicy", env, n_steps=8, batch_size=16, policy_kwargs=kwargs).learn(64)
    assert model.policy.critic.in_features == 2
    with pytest.raises(ValueError, match="shared_lstm=True needs equal actor_keys and critic_keys"):
        RecurrentPPO("MultiInputLstmPolicy", env, policy_kwargs={**kwargs, "shared_lstm": True})


def test_a_policy_file_keeps_the_keys(tmp_path: Any) -> None:
    spaces_ = HiddenSignEnv.observation_space, HiddenSignEnv.action_space
    policy = MultiInputActorCriticPolicy(*spaces_, critic_keys=["hidden"], **ACTOR)  # type: ignore[arg-type]
    policy.save(tmp_path / "policy.zip")
    loaded = MultiInputActorCriticPolicy.load(tmp_path / "policy.zip")
    assert (loaded.actor_keys, loaded.critic_keys) == (["seen"], ["hidden"])


def test_equal_keys_share_an_extractor() -> None:
    policy = MultiInputActorCriticPolicy(
        HiddenSignEnv.observation_space, HiddenSignEnv.action_space, actor_keys=["seen"], critic_keys=["seen"]
    )
    assert policy.pi_features_extractor is policy.vf_features_extractor
    assert policy.features_dim == 1


class OwnExtractor(MultiInputActorCriticPolicy):
    def make_features_extractor(self) -> CombinedExtractor:
        return CombinedExtractor(self.observation_space)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "kwargs", "message"),
    [
        ("MultiInputPolicy", {"actor_keys": ["sen"]}, "did you mean 'seen'"),
        ("MultiInputPolicy", {"critic_keys": ["hiden"]}, "did you mean 'hidden'"),
        ("MultiInputPolicy", {"actor_keys": []}, "at least one key"),
        ("MultiInputPolicy", {"actor_keys": ["seen", "seen"]}, "each of them once"),
        ("MultiInputPolicy", {"actor_keys": "seen"}, "expected a list of keys"),
        (OwnExtractor, {"actor_keys": ["seen"]}, "OwnExtractor overrides make_features_extractor"),
    ],
)
def test_bad_keys_are_errors(policy: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        PPO(policy, make_vec_env(HiddenSignEnv), policy_kwargs=kwargs)


def test_observations_without_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="only Dict observations have keys"):
        PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"actor_keys": ["position"]})
