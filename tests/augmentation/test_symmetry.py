"""Mirrored samples: maps, ratios, both backends, and a policy that becomes symmetric."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo import A2C, DAAC, PPG, PPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.augmentation import Mirror
from proximo.envs import VecNormalize
from proximo.exploration import RND

CART_POLE = {"observation_signs": [-1, -1, -1, -1], "action_order": [1, 0]}
PENDULUM = {"observation_signs": [1, -1, -1], "action_signs": [-1]}
SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 0}


class LeftOnlyEnv(gym.Env[Any, Any]):
    """One step on the left side, −1 … 0, where −1 − place is right; so its mirror image, 1 − place, is on the other."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1.0, 0.0, 1).astype(np.float32)
        return self.place, {}

    def step(self, action: Any) -> Any:
        return self.place, -float((action[0] + 1.0 + self.place[0]) ** 2), True, False, {}


def train_on_the_left(mirror: Mirror | None, backend: str = "auto") -> PPO:
    env = make_vec_env(LeftOnlyEnv, n_envs=16, seed=0)
    return PPO(
        "MlpPolicy", env, n_steps=16, batch_size=64, n_epochs=4, learning_rate=3e-3, gamma=0.5, seed=0,
        policy_kwargs={"net_arch": [16]}, augmentation=mirror, backend=backend,
    ).learn(15_000)  # fmt: skip


def action_at(model: PPO, place: float) -> float:
    return float(model.predict(np.array([place], np.float32), deterministic=True)[0][0])


def test_what_was_never_seen_is_known_from_the_mirror() -> None:
    model = train_on_the_left(Mirror(observation_signs=[-1], action_signs=[-1]))
    assert model.backend == "fused"
    for place, right in ((-0.8, -0.2), (-0.4, -0.6), (0.4, 0.6), (0.8, 0.2)):
        assert action_at(model, place) == pytest.approx(right, abs=0.3)
    plain = train_on_the_left(None)
    assert action_at(plain, -0.8) == pytest.approx(-0.2, abs=0.2)
    assert abs(action_at(plain, 0.8) - 0.2) > 0.5


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_both_backends_train_alike(algorithm: Any) -> None:
    weights = []
    arguments = {"n_steps": 32, "seed": 0} if algorithm is A2C else SMALL
    for backend in ("fused", "torch"):
        env = make_vec_env("Pendulum-v1", n_envs=2, seed=0)
        model = algorithm("MlpPolicy", env, augmentation=Mirror(**PENDULUM), backend=backend, **arguments)
        assert model.backend.startswith(backend)
        weights.append(model.learn(128).policy.parameters_to_vector())
    np.testing.assert_allclose(*weights, atol=2e-5)


def test_minibatches_hold_pairs_with_the_probability_that_was_drawn() -> None:
    env = make_vec_env("Pendulum-v1", n_envs=3, seed=0)
    model = PPO("MlpPolicy", env, augmentation=Mirror(**PENDULUM), backend="torch", **{**SMALL, "batch_size": 24})
    seen: list[Any] = []
    plain_terms = model.learner.loss_terms
    model.learner.loss_terms = lambda batch, settings: (seen.append(batch), plain_terms(batch, settings))[1]
    model.learn(96)
    assert len(seen) == 2 * 4
    signs = torch.tensor([1.0, -1.0, -1.0])
    rows = []
    for batch in seen:
        assert len(batch.actions) == 48
        assert torch.equal(batch.observations[1::2], batch.observations[::2] * signs)
        assert torch.equal(batch.actions[1::2], -batch.actions[::2])
        for name in ("old_log_prob", "advantages", "returns", "old_values"):
            assert torch.equal(getattr(batch, name)[1::2], getattr(batch, name)[::2])
        rows.append(batch.old_log_prob[::2])
    every = torch.cat(rows[:4]).sort().values
    torch.testing.assert_close(every, torch.from_numpy(model.rollout_buffer.log_probs.reshape(-1)).sort().values)


def test_masks_are_mirrored() -> None:
    mirror = Mirror(observation_signs=[-1], action_order=[2, 1, 0])
    masks = np.array([[True, False, False], [True, True, False]])
    expected = [[False, False, True], [False, True, True]]
    assert mirror.masks(masks, spaces.Discrete(3)).tolist() == expected
    with pytest.raises(ValueError, match="cannot be mirrored"):
        mirror.masks(masks, spaces.MultiDiscrete([3]))


class MaskedPole(gym.Wrapper[Any, Any, Any, Any]):
    def action_masks(self) -> Any:
        return np.array([True, bool(self.unwrapped.state[0] < 0)])  # type: ignore[attr-defined]


def test_masked_actions_train() -> None:
    env = make_vec_env(lambda: MaskedPole(gym.make("CartPole-v1")), n_envs=2, seed=0)
    model = MaskablePPO("MlpPolicy", env, augmentation=Mirror(**CART_POLE), **SMALL).learn(128)
    assert np.isfinite(model.policy.parameters_to_vector()).all()


def test_functions_mirror_dictionaries() -> None:
    class Split(gym.ObservationWrapper[Any, Any, Any]):
        observation_space = spaces.Dict(cos=spaces.Box(-1, 1, (1,)), rest=spaces.Box(-8, 8, (2,)))

        def observation(self, observation: Any) -> Any:
            return {"cos": observation[:1], "rest": observation[1:]}

    mirror = Mirror(
        observation=lambda batch: {"cos": batch["cos"], "rest": -batch["rest"]}, action=lambda batch: -batch
    )
    weights = []
    for env, policy, chosen in [
        (lambda: Split(gym.make("Pendulum-v1")), "MultiInputPolicy", mirror),
        (lambda: gym.make("Pendulum-v1"), "MlpPolicy", Mirror(**PENDULUM)),
    ]:
        model = PPO(policy, make_vec_env(env, seed=0), augmentation=chosen, backend="torch", **SMALL)
        weights.append(model.learn(64).policy.parameters_to_vector())
    np.testing.assert_allclose(*weights, atol=1e-6)


class ToolEnv(gym.Env[Any, Any]):
    """A tool and a force that must fit a place, in an action of several parts."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        return self.reset()[0], 1.0, True, False, {}


HYBRID = spaces.Dict(
    tool=spaces.Discrete(2, start=3),
    force=spaces.Tuple([spaces.Box(np.full(2, -0.1), np.full(2, 0.1), dtype=np.float64), spaces.MultiBinary(1)]),
)


def test_functions_mirror_hybrid_actions() -> None:
    tool = 0 if next(iter(HYBRID.spaces)) == "tool" else 3

    def action(rows: Any) -> Any:  # the parts side by side; the tool counts from 0
        mirrored = -rows
        mirrored[:, tool] = 1 - rows[:, tool]
        mirrored[:, tool - 1] = rows[:, tool - 1]  # the switch is the last of the force
        return mirrored

    mirror = Mirror(observation_signs=[-1, -1], action=action)
    env = make_vec_env(lambda: ToolEnv(HYBRID), n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, augmentation=mirror, **SMALL).learn(64)
    assert np.isfinite(model.policy.parameters_to_vector()).all()


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), lambda rows: -rows),
        (spaces.MultiDiscrete([3, 3]), lambda rows: 100_000 - rows),
        (spaces.MultiBinary(2), lambda rows: 0.5 - rows),
        (spaces.Tuple([spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,))]), lambda rows: -rows),
        (spaces.Tuple([spaces.Discrete(3), spaces.Box(0.0, 1.0, (1,))]), lambda rows: rows * [1, -1]),
    ],
)
def test_mirrored_actions_that_are_none_are_an_error(space: Any, action: Any) -> None:
    # the kernels index memory by discrete actions: unchecked, these ended the process
    env = make_vec_env(lambda: ToolEnv(space), seed=0)
    with pytest.raises(ValueError, match="mirrored actions leave"):
        PPO("MlpPolicy", env, augmentation=Mirror(observation_signs=[-1, -1], action=action), **SMALL)


def test_mirrored_actions_are_looked_at_in_every_rollout() -> None:
    calls = []

    def action(rows: Any) -> Any:
        calls.append(len(rows))
        return rows if len(calls) < 3 else rows + 100_000

    mirror = Mirror(observation_signs=[-1, -1], action=action)
    model = PPO("MlpPolicy", make_vec_env(lambda: ToolEnv(spaces.Discrete(3)), seed=0), augmentation=mirror, **SMALL)
    with pytest.raises(ValueError, match=r"gives 100000 to 10000[12]; expected choices counted from 0"):
        model.learn(32)


def test_saved_with_the_model(tmp_path: Any) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", augmentation=Mirror(**CART_POLE), **SMALL)
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", env="CartPole-v1")
    assert repr(loaded.augmentation) == repr(model.augmentation)
    loaded.learn(32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mirror(), "none of them is given"),
        (lambda: Mirror(observation_signs=[1], observation=np.negative, action=np.negative), "all of them are given"),
        (lambda: trained(observation_signs=[-1] * 3, action_order=[1, 0]), "expected 4 times 1 or -1"),
        (lambda: trained(observation_signs=[2] * 4, action_order=[1, 0]), "expected 4 times 1 or -1"),
        (lambda: trained(observation_signs=[-1] * 4, action_order=[1, 1]), "expected each of 0 to 1 once"),
        (lambda: trained(observation_signs=[-1] * 4, action_signs=[-1]), "has no signs"),
        (lambda: trained(observation_order=[1, 2, 3, 0], action_order=[1, 0]), "mirrored twice are not what they were"),
        (lambda: trained(observation=lambda rows: rows[:, :2], action_order=[1, 0]), "expected the same shape"),
        (lambda: trained(aug_coef=0.5, **CART_POLE), "adds no term that it could weigh"),
        (lambda: trained(PPG, **CART_POLE), "PPG does not train on mirrored samples"),
        (lambda: trained(DAAC, **CART_POLE), "DAAC does not train on mirrored samples"),
        (lambda: trained(RecurrentPPO, policy="MlpLstmPolicy", **CART_POLE), "trains on sequences"),
        (lambda: trained(intrinsic_reward=RND(own_value=True), **CART_POLE), "leave own_value out"),
    ],
)
def test_bad_mirrors_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def trained(algorithm: Any = PPO, policy: str = "MlpPolicy", **arguments: Any) -> Any:
    names = ("aug_coef", "intrinsic_reward")
    others = {name: arguments.pop(name) for name in names if name in arguments}
    return algorithm(policy, "CartPole-v1", augmentation=Mirror(**arguments), **others)


def test_normalised_observations_are_a_warning() -> None:
    env = VecNormalize(make_vec_env("CartPole-v1"))
    with pytest.warns(UserWarning, match="subtracts a running mean"):
        PPO("MlpPolicy", env, augmentation=Mirror(**CART_POLE))
