"""A rollout of a policy with memory: what was remembered, when it was forgotten, and how it comes back in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scripted_envs import HYBRID, Masked, Scripted

from proximo import A2C, PPO, MaskablePPO, RecurrentPPO
from proximo.envs import DummyVecEnv
from proximo.learners.ppo import PPOLearner
from proximo.networks.recurrent import RecurrentActorCriticPolicy
from proximo.rollout.minibatches import keep_valid, on_device, sequence_minibatches
from proximo.sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer

pytestmark = pytest.mark.filterwarnings("ignore:batch_size .* does not divide")

LENGTHS = [[3, -2, 5], [-4, 1], [7, -1, -3]]  # by environment: positive ends by termination, negative by a limit
STEPS = 12
SMALL: dict[str, Any] = {"n_steps": STEPS, "n_epochs": 1, "seed": 0, "learning_rate": 0.0}
MEMORY: dict[str, Any] = {"lstm_hidden_size": 8, "net_arch": [8]}


def factories(kind: type[Scripted] = Scripted, action_space: Any = None) -> list[Callable[[], Any]]:
    return [lambda i=i, each=each: kind(i, each, action_space) for i, each in enumerate(LENGTHS)]


def liven(model: PPO) -> PPO:
    """First policies hardly depend on what they see; these do."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def replay(policy: Any, number: int, lengths: list[int], steps: int) -> tuple[list[float], dict[int, float], float]:
    """One environment walked through by hand: values, values of cut episodes' last observations, and what comes next.

    The memory of the value is zero at the start of each episode and carried within it; nothing else is used.
    """
    env = Scripted(number, lengths)
    observation, _ = env.reset()
    zero = [torch.zeros_like(part) for part in policy.initial_states(1).vf]
    memory, values, cuts = zero, [], {}
    never = torch.zeros(1)
    for step in range(steps):
        tensors = torch.as_tensor(observation)[None]
        values.append(float(policy.predict_values(tensors, tuple(memory), never)))
        if policy.lstm_critic is not None:
            features = policy.extract_features(tensors)
            features = features if policy.share_features_extractor else features[1]
            given = tuple(memory) if len(memory) == 2 else memory[0]
            _, after = policy.lstm_critic(features[None], given)
            memory = list(after) if len(memory) == 2 else [after]
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if truncated:
            cuts[step] = float(policy.predict_values(torch.as_tensor(observation)[None], tuple(memory), never))
        if terminated or truncated:
            observation, _ = env.reset()
            memory = zero
    return values, cuts, float(policy.predict_values(torch.as_tensor(observation)[None], tuple(memory), never))


POLICIES = {
    "lstm": ("MlpLstmPolicy", {}),
    "gru": ("MlpGruPolicy", {}),
    "two layers": ("MlpLstmPolicy", {"n_lstm_layers": 2}),
    "own extractors": ("MlpLstmPolicy", {"share_features_extractor": False}),
    "value without memory": ("MlpLstmPolicy", {"enable_critic_lstm": False}),
}


@torch.no_grad()
@pytest.mark.parametrize(("policy", "arguments"), POLICIES.values(), ids=POLICIES)
def test_memory_resets_at_episode_starts_only(policy: str, arguments: dict[str, Any]) -> None:
    """Values, the bootstrap after a limit, and the value after the last step, over two rollouts."""
    model = PPO(policy, DummyVecEnv(factories()), batch_size=STEPS, policy_kwargs=MEMORY | arguments, **SMALL)
    liven(model)
    with torch.enable_grad():
        model.learn(2 * STEPS * 3)
    rollout = model.rollout_buffer.rollout
    for number, lengths in enumerate(LENGTHS):
        values, cuts, last = replay(model.policy, number, lengths, 2 * STEPS)
        np.testing.assert_allclose(rollout.values[:, number], values[STEPS:], atol=1e-5)
        expected = np.zeros(STEPS)
        for step, value in cuts.items():
            if step >= STEPS:
                expected[step - STEPS] = value
        np.testing.assert_allclose(rollout.bootstrap_values[:, number], expected, atol=1e-5)
        assert rollout.last_values[number] == pytest.approx(last, abs=1e-5)
        assert np.count_nonzero(expected) >= 1
    assert rollout.values.std() > 0.01


@torch.no_grad()
def test_memory_resets_where_gymnasium_resets_a_step_later() -> None:
    """NEXT_STEP: after the end comes a row that only resets, then the episode, with an empty memory."""
    steps = 9
    env = SyncVectorEnv(factories(), autoreset_mode=AutoresetMode.NEXT_STEP)
    model = PPO("MlpLstmPolicy", env, n_steps=steps, batch_size=steps, n_epochs=1, learning_rate=0.0, seed=0,
                policy_kwargs=MEMORY)  # fmt: skip
    liven(model)
    with torch.enable_grad():
        model.learn(steps * 3)
    rollout = model.rollout_buffer.rollout
    # environment 0: an episode of 3, its reset, one of 2 cut by a limit, its reset, the first 2 of one of 5
    assert rollout.valid[:, 0].tolist() == [True, True, True, False, True, True, False, True, True]
    assert rollout.episode_starts[:, 0].tolist() == [True, False, False, True, True, False, True, True, False]
    for number, lengths in enumerate(LENGTHS):
        valid = rollout.valid[:, number]
        values, cuts, _ = replay(model.policy, number, lengths, int(valid.sum()))
        np.testing.assert_allclose(rollout.values[valid, number], values, atol=1e-5)
        real = np.flatnonzero(valid)
        for step, value in cuts.items():
            assert rollout.bootstrap_values[real[step], number] == pytest.approx(value, abs=1e-5)
        assert np.count_nonzero(rollout.bootstrap_values[:, number]) == len(cuts)


CASES: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any], bool]] = {
    # environments, policy, arguments of the model, arguments of the policy, masks
    "lstm": (factories(), "MlpLstmPolicy", {"batch_size": 12}, {}, False),
    "gru": (factories(), "MlpGruPolicy", {"batch_size": 12}, {}, False),
    "three chunks": (factories(), "MlpLstmPolicy", {"batch_size": 4}, {}, False),
    "a shorter last chunk": (factories(), "MlpLstmPolicy", {"batch_size": 4, "n_steps": 11}, {}, False),
    "shorter ones, masked": (factories(Masked, HYBRID), "MlpGruPolicy", {"batch_size": 5, "n_steps": 9}, {}, True),
    "two at a time": (factories(), "MlpGruPolicy", {"batch_size": 24}, {}, False),
    "everything at once": (factories(), "MlpLstmPolicy", {"batch_size": 36}, {}, False),
    "shared": (
        factories(),
        "MlpLstmPolicy",
        {"batch_size": 6},
        {"shared_lstm": True, "enable_critic_lstm": False},
        False,
    ),
    "value without memory": (factories(), "MlpLstmPolicy", {"batch_size": 6}, {"enable_critic_lstm": False}, False),
    "masks": (factories(Masked), "MlpLstmPolicy", {"batch_size": 6}, {}, True),
    "noise": (
        factories(Scripted, spaces.Box(-1.0, 1.0, (2,), np.float32)),
        "MlpLstmPolicy",
        {"batch_size": 6, "use_sde": True, "sde_sample_freq": 3},
        {"log_std_init": -1.0},
        False,
    ),
    "hybrid": (factories(Scripted, HYBRID), "MlpLstmPolicy", {"batch_size": 6}, {}, False),
    "hybrid, masks": (factories(Masked, HYBRID), "MlpGruPolicy", {"batch_size": 6}, {"n_lstm_layers": 2}, True),
}


@pytest.mark.parametrize(("makers", "policy", "arguments", "kwargs", "masks"), CASES.values(), ids=CASES)
def test_training_sees_what_the_rollout_saw(
    makers: Any, policy: str, arguments: dict[str, Any], kwargs: dict[str, Any], masks: bool
) -> None:
    """With unchanged weights, sequences give the values and log-probabilities of the rollout back, each row once."""
    model = PPO(policy, DummyVecEnv(makers), policy_kwargs=MEMORY | kwargs, **(SMALL | arguments))
    liven(model).learn(3 * model.n_steps * 3, use_masking=masks)
    rollout = model.rollout_buffer.rollout
    assert (rollout.action_masks is not None) is masks
    learner = PPOLearner(model.runtime)
    whole = on_device(rollout, torch.device("cpu"))
    chunks = -(-rollout.steps // rollout.sequence_length)
    assert chunks == -(-rollout.steps // arguments["batch_size"])
    assert all(part.shape[0] == chunks for part in rollout.states.parts())
    assert any(part.abs().max() > 1e-3 for part in rollout.states.parts())
    seen = 0
    order = torch.as_tensor(np.random.default_rng(0).permutation(chunks * 3))
    with torch.no_grad():
        for batch in sequence_minibatches(whole, rollout, order, arguments["batch_size"]):
            values, log_prob, entropy = learner.evaluate(batch)
            kept = keep_valid(batch)
            torch.testing.assert_close(values, kept.old_values, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(log_prob, kept.old_log_prob, atol=1e-5, rtol=1e-5)
            assert entropy is not None
            seen += len(values)
    assert seen == rollout.steps * 3
    assert float(model.logger.name_to_value["train/approx_kl"]) == pytest.approx(0.0, abs=1e-6)


def test_rows_that_only_reset_do_not_train() -> None:
    """Sequences walk through them, the loss does not count them."""
    env = SyncVectorEnv(factories(), autoreset_mode=AutoresetMode.NEXT_STEP)
    model = PPO("MlpLstmPolicy", env, batch_size=STEPS, policy_kwargs=MEMORY, **SMALL)
    liven(model).learn(2 * STEPS * 3)
    rollout = model.rollout_buffer.rollout
    learner = PPOLearner(model.runtime)
    whole = on_device(rollout, torch.device("cpu"))
    rows = 0
    for batch in sequence_minibatches(whole, rollout, torch.arange(3), STEPS):
        values, log_prob, _ = learner.evaluate(batch)
        kept = keep_valid(batch)
        assert len(values) == len(log_prob) == len(kept.old_values) == int(batch.valid.sum()) < STEPS
        torch.testing.assert_close(values, kept.old_values, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(log_prob, kept.old_log_prob, atol=1e-5, rtol=1e-5)
        rows += len(values)
    assert rows == rollout.valid.sum()


def test_another_model_may_have_memory_too() -> None:
    """A2C and MaskablePPO take the policies with memory as they take any other."""
    rollouts = []
    for model in (
        A2C("MlpLstmPolicy", DummyVecEnv(factories(Masked)), n_steps=4, seed=0, policy_kwargs=MEMORY),
        MaskablePPO("MlpLstmPolicy", DummyVecEnv(factories(Masked)), n_steps=4, batch_size=4, seed=0,
                    policy_kwargs=MEMORY),
        RecurrentPPO("MlpLstmPolicy", DummyVecEnv(factories(Masked)), n_steps=4, batch_size=4, seed=0,
                     policy_kwargs=MEMORY),
    ):  # fmt: skip
        model.learn(24, use_masking=True)
        assert isinstance(model.policy, RecurrentActorCriticPolicy)
        assert model.num_timesteps == 24
        rollouts.append(model.rollout_buffer.rollout)
    assert all(rollout.sequence_length == 4 and len(rollout.states.parts()) == 4 for rollout in rollouts)


def test_a_buffer_for_states_of_another_shape_is_refused() -> None:
    spaces_of = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"hidden_state_shape is \(8, 1, 3, 4\), expected \(8, layers, 2, hidden\)"):
        RecurrentRolloutBuffer(8, spaces_of.observation_space, spaces_of.action_space, (8, 1, 3, 4), n_envs=2)


@pytest.mark.parametrize(
    ("n_steps", "batch_size", "length"),
    [(128, 128, 128), (128, 64, 64), (96, 64, 48), (12, 256, 12), (2, 4, 2), (127, 64, 64), (365, 64, 61)],
)
def test_length_of_a_sequence(n_steps: int, batch_size: int, length: int) -> None:
    model = PPO("MlpLstmPolicy", DummyVecEnv(factories()), n_steps=n_steps, batch_size=batch_size, policy_kwargs=MEMORY)
    assert model.rollout_buffer.rollout.sequence_length == length


def test_another_batch_size_takes_effect_with_the_next_rollout() -> None:
    model = RecurrentPPO("MlpLstmPolicy", DummyVecEnv(factories()), batch_size=STEPS, policy_kwargs=MEMORY, **SMALL)
    steps: list[Any] = []
    model.policy.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    model.learn(STEPS * 3)
    model.batch_size = 4
    model.learn(STEPS * 3)
    assert len(steps) == 3 + 9  # a minibatch for each environment, then three of each
