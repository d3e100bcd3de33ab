"""NaN and infinity wherever they can enter: the weights stay finite, and training stops or goes on as asked."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo import A2C, DAAC, PPG, PPO, TRPO, RecurrentPPO, make_vec_env
from proximo.errors import NonFiniteError
from proximo.exploration import IntrinsicReward

from .conftest import Tally

STEPS = 32


class SickEnv(gym.Env[Any, Any]):
    """Shows a broken number in its observation or reward at one step of its life."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, part: str = "", number: float = np.nan, at: int = 40, continuous: bool = False) -> None:
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(2)
        self.part, self.number, self.at, self.age, self.length = part, number, at, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        observation = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        if self.part == "observation" and self.age == self.at:
            observation[1] = self.number
        return observation

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.age += 1
        self.length += 1
        reward = self.number if self.part == "reward" and self.age == self.at else 1.0
        return self._observe(), reward, self.length % 11 == 0, self.length % 7 == 0, {}


def break_logits(model: Any) -> None:
    """The policy's head gives NaN in training, once."""
    calls = itertools.count()

    def spoil(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output * torch.nan if torch.is_grad_enabled() and next(calls) == 3 else output

    model.policy.action_net.register_forward_hook(spoil)


def break_gradient(model: Any) -> None:
    calls = itertools.count()
    parameter = next(model.policy.parameters())
    parameter.register_hook(lambda gradient: gradient * torch.inf if next(calls) == 2 else gradient)


SOURCES: dict[str, tuple[dict[str, Any], Callable[[Any], None] | None]] = {
    "NaN observation": ({"part": "observation"}, None),
    "infinite observation": ({"part": "observation", "number": np.inf}, None),
    "NaN reward": ({"part": "reward"}, None),
    "infinite reward": ({"part": "reward", "number": -np.inf}, None),
    "overflowing loss": ({"part": "reward", "number": 1e30}, None),
    "NaN logits": ({}, break_logits),
    "infinite gradient": ({}, break_gradient),
}


def make_model(algorithm: str, source: str, at: int, normalize: bool = False) -> Any:
    from proximo.envs import DummyVecEnv, VecNormalize

    options, breaker = SOURCES[source]
    sick = {**options, "at": at} if options else {}
    env: Any = DummyVecEnv([lambda: SickEnv(**sick), SickEnv])
    if normalize:
        env = VecNormalize(env)
    backend: Any = "torch" if breaker is not None else "auto"
    common: dict[str, Any] = {"seed": at, "n_steps": STEPS, "device": "cpu", "backend": backend}
    if algorithm == "A2C":
        model: Any = A2C("MlpPolicy", env, **common)
    elif algorithm == "RecurrentPPO":
        model = RecurrentPPO(
            "MlpLstmPolicy", env, batch_size=32, n_epochs=2, policy_kwargs={"lstm_hidden_size": 8}, **common
        )
    else:
        model = PPO("MlpPolicy", env, batch_size=16, n_epochs=2, **common)
    if breaker is not None:
        breaker(model)
    return model


def is_sound(model: Any) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in model.policy.state_dict().values())


def check_raise(algorithm: str, source: str, at: int) -> None:
    model = make_model(algorithm, source, at)
    with pytest.raises(NonFiniteError, match="NaN or infinity"):
        model.learn(8 * STEPS)
    assert is_sound(model)


def check_skip(algorithm: str, source: str, at: int) -> None:
    model = make_model(algorithm, source, at)
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(8 * STEPS, on_non_finite="skip")
    assert any("NaN or infinity" in str(warning.message) for warning in caught), [str(w.message) for w in caught]
    assert model.num_timesteps >= 8 * STEPS
    assert is_sound(model)
    after = list(model.policy.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


def cases(count: int) -> Iterator[tuple[str, str, int, Callable[[str, str, int], None]]]:
    every = itertools.cycle(itertools.product(SOURCES, ("PPO", "A2C", "RecurrentPPO"), (check_raise, check_skip)))
    for number, (source, algorithm, check) in enumerate(itertools.islice(every, count)):
        yield algorithm, source, 5 + number % 90, check


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "RecurrentPPO"])
@pytest.mark.parametrize("check", [check_raise, check_skip])
def test_one_of_each(tally: Tally, algorithm: str, source: str, check: Callable[..., None]) -> None:
    with tally.case("NaN or infinity"):
        check(algorithm, source, 40)


@pytest.mark.slow
def test_a_hundred_injections(tally: Tally) -> None:
    for algorithm, source, at, check in cases(100):
        with tally.case("NaN or infinity"):
            check(algorithm, source, at)


def test_normalisation_learns_nothing_from_broken_numbers() -> None:
    for source in ("NaN observation", "NaN reward"):
        model = make_model("PPO", source, 40, normalize=True)
        with pytest.warns(UserWarning, match="NaN or infinity"):
            model.learn(8 * STEPS, on_non_finite="skip")
        statistics = model.get_vec_normalize_env()
        assert np.isfinite(statistics.obs_rms.mean).all()
        assert np.isfinite(statistics.ret_rms.var)
        assert is_sound(model)


@pytest.mark.parametrize(
    ("algorithm", "skipped", "settings"),
    [
        (PPO, 4, {"batch_size": 8, "n_epochs": 2}),
        (A2C, 1, {}),
        (DAAC, 6, {"batch_size": 8, "value_epochs": 3}),
        (TRPO, 8, {"batch_size": 8, "n_critic_updates": 4}),
        # one epoch of both, a further one of the value, and three of the auxiliary phase
        (
            PPG,
            10,
            {"batch_size": 8, "value_epochs": 2, "rollouts_per_phase": 1, "aux_epochs": 3, "num_aux_mini_batch": 2},
        ),
    ],
)
def test_minibatches_that_are_left_out_are_counted(algorithm: Any, skipped: int, settings: dict[str, Any]) -> None:
    model = algorithm("MlpPolicy", "CartPole-v1", n_steps=16, seed=0, backend="torch", **settings)
    model.policy.value_net.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.warns(UserWarning, match="minibatches gave NaN or infinity and were skipped"):
        model.learn(16, log_interval=None, on_non_finite="skip")
    assert model.logger.name_to_value["train/skipped_minibatches"] == skipped


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of 'raise', 'skip'"):
        make_model("PPO", "NaN reward", 40).learn(64, on_non_finite="ignore")


class BreaksOne(IntrinsicReward):
    """Fails for one step of one environment."""

    def compute(self, samples: Any, sync: bool = True) -> torch.Tensor:
        rewards = super().compute(samples, sync)
        rewards[3, 0] = torch.nan
        return rewards


@pytest.mark.parametrize("own_value", [False, True])
def test_an_intrinsic_reward_that_is_not_finite_is_refused_or_left_out(own_value: bool) -> None:
    reward = BreaksOne(own_value=own_value)
    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, seed=0, intrinsic_reward=reward)
    with pytest.raises(NonFiniteError, match="shaped reward"):
        model.learn(32)
    with pytest.warns(UserWarning, match="1 of 32 steps of the rollout, the first of them in environment 0 at step 3"):
        model.learn(32, on_non_finite="skip")
    assert model.rollout_buffer.rollout.valid.sum() == 31
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())
