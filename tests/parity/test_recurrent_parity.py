"""Policies with memory: the same weights and the same sequences give sb3-contrib's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO as OracleRecurrentPPO
from sb3_contrib.common.recurrent import buffers as oracle_buffers
from sb3_contrib.common.recurrent import policies as oracle_policies
from sb3_contrib.common.recurrent.type_aliases import RNNStates as OracleStates
from stable_baselines3.common.vec_env import DummyVecEnv as OracleVecEnv
from torch.nn import functional

from proximo import PPO, RecurrentPPO
from proximo.data import RNNStates
from proximo.envs import DummyVecEnv
from proximo.networks import recurrent as policies
from proximo.sb3_contrib.common.recurrent import buffers
from rounding import LOSSES, OUTPUTS, assert_same_gradients, assert_same_training

from .conftest import RandomEnv

VECTOR = spaces.Box(-1.0, 1.0, (5,), np.float32)
IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
DICT = spaces.Dict({"vector": VECTOR, "choice": spaces.Discrete(3)})
CHOICE = spaces.Discrete(4)
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
SEQUENCES, TIME = 3, 7

Case = tuple[str, spaces.Space[Any], spaces.Space[Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "discrete": ("RecurrentActorCriticPolicy", VECTOR, CHOICE, {"lstm_hidden_size": 16}),
    "default size": ("RecurrentActorCriticPolicy", VECTOR, CHOICE, {}),
    "box": ("RecurrentActorCriticPolicy", VECTOR, BOX, {"lstm_hidden_size": 16}),
    "multidiscrete": ("RecurrentActorCriticPolicy", VECTOR, spaces.MultiDiscrete([2, 3]), {"lstm_hidden_size": 8}),
    "multibinary": ("RecurrentActorCriticPolicy", VECTOR, spaces.MultiBinary(3), {"lstm_hidden_size": 8}),
    "shared memory": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        CHOICE,
        {"lstm_hidden_size": 16, "shared_lstm": True, "enable_critic_lstm": False},
    ),
    "value without memory": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        BOX,
        {"lstm_hidden_size": 16, "enable_critic_lstm": False},
    ),
    "two layers": ("RecurrentActorCriticPolicy", VECTOR, CHOICE, {"lstm_hidden_size": 12, "n_lstm_layers": 2}),
    "two layers, shared": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        CHOICE,
        {"lstm_hidden_size": 12, "n_lstm_layers": 2, "shared_lstm": True, "enable_critic_lstm": False},
    ),
    "own extractors": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        CHOICE,
        {"lstm_hidden_size": 16, "share_features_extractor": False},
    ),
    "own extractors, value without memory": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        CHOICE,
        {"lstm_hidden_size": 16, "share_features_extractor": False, "enable_critic_lstm": False},
    ),
    "no biases": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        CHOICE,
        {"lstm_hidden_size": 16, "lstm_kwargs": {"bias": False}, "net_arch": [8]},
    ),
    "state-dependent noise": (
        "RecurrentActorCriticPolicy",
        VECTOR,
        BOX,
        {"lstm_hidden_size": 16, "use_sde": True, "log_std_init": -1.0},
    ),
    "images": (
        "RecurrentActorCriticCnnPolicy",
        IMAGE,
        CHOICE,
        {"lstm_hidden_size": 16, "features_extractor_kwargs": {"features_dim": 32}},
    ),
    "images, own extractors": (
        "RecurrentActorCriticCnnPolicy",
        IMAGE,
        BOX,
        {
            "lstm_hidden_size": 16,
            "features_extractor_kwargs": {"features_dim": 32},
            "share_features_extractor": False,
        },
    ),
    "dict": ("RecurrentMultiInputActorCriticPolicy", DICT, CHOICE, {"lstm_hidden_size": 16}),
}


def build(module: Any, case: str, seed: int) -> Any:
    name, observation_space, action_space, arguments = CASES[case]
    torch.manual_seed(seed)
    return getattr(module, name)(observation_space, action_space, lambda _: 3e-4, **arguments)


def make_pair(case: str) -> tuple[Any, Any]:
    """Ours and theirs with equal weights that are far from a first policy's."""
    ours, theirs = build(policies, case, seed=1), build(oracle_policies, case, seed=2)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def sample_batch(space: spaces.Space[Any], count: int) -> Any:
    space.seed(1)
    samples = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in space.spaces}
    return np.stack(samples)


def random_states(policy: Any, columns: int, seed: int = 0) -> tuple[RNNStates, OracleStates]:
    """The same random memory for both; theirs keeps one for the value even where the value has none."""
    generator = torch.Generator().manual_seed(seed)
    layers, _, hidden = policy.lstm_hidden_state_shape

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        first, second = torch.randn(2, layers, columns, hidden, generator=generator)
        return first, second

    actor = draw()
    critic = actor if policy.lstm_critic is None else draw()
    return RNNStates(actor, critic if policy.critic is None else ()), OracleStates(actor, critic)


def random_starts(sequences: int, time: int, seed: int = 0) -> torch.Tensor:
    """[sequence, time]: one sequence opens an episode at once, one in the middle, the others as chance has it."""
    starts = torch.rand(sequences, time, generator=torch.Generator().manual_seed(seed)) < 0.25
    starts[0, 0], starts[1, 0], starts[1, time // 2] = True, False, True
    return starts


def rows(tensors: Any, index: Any) -> Any:
    return {key: value[index] for key, value in tensors.items()} if isinstance(tensors, dict) else tensors[index]


@pytest.mark.parametrize("case", CASES)
def test_first_weights_are_identical(case: str) -> None:
    ours, theirs = build(policies, case, seed=0).state_dict(), build(oracle_policies, case, seed=0).state_dict()
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name


@pytest.mark.parametrize("case", CASES)
def test_step_by_step(case: str) -> None:
    """Actions, values, log-probabilities, entropies and hidden states along an interrupted sequence."""
    ours, theirs = make_pair(case)
    batch = sample_batch(CASES[case][1], TIME * SEQUENCES)
    tensors, _ = ours.obs_to_tensor(batch)
    states, oracle_states = random_states(ours, SEQUENCES)
    for time, starts in enumerate(random_starts(SEQUENCES, TIME).T):
        observation = rows(tensors, slice(time * SEQUENCES, (time + 1) * SEQUENCES))
        flags = starts.float()
        with torch.no_grad():
            before, oracle_before = states, oracle_states
            found = ours(observation, states, starts, deterministic=True)
            expected = theirs(observation, oracle_states, flags, deterministic=True)
            for result, wanted in zip(found[:3], expected[:3], strict=True):
                assert result.shape == wanted.shape
                torch.testing.assert_close(result, wanted, **OUTPUTS)
            states, oracle_states = found[3], expected[3]
            for part, wanted in zip(states.pi, oracle_states.pi, strict=True):
                torch.testing.assert_close(part, wanted, **OUTPUTS)
            if ours.critic is None:
                for part, wanted in zip(states.vf, oracle_states.vf, strict=True):
                    torch.testing.assert_close(part, wanted, **OUTPUTS)
            torch.testing.assert_close(
                ours.predict_values(observation, before.vf, starts),
                theirs.predict_values(observation, oracle_before.vf, flags),
                **OUTPUTS,
            )
            mine, after = ours.get_distribution(observation, before.pi, starts)
            other, _ = theirs.get_distribution(observation, oracle_before.pi, flags)
            torch.testing.assert_close(mine.entropy(), other.entropy(), **OUTPUTS)
            torch.testing.assert_close(mine.log_prob(expected[0]), other.log_prob(expected[0]), **OUTPUTS)
            torch.testing.assert_close(after[0], oracle_states.pi[0], **OUTPUTS)


@pytest.mark.parametrize("case", CASES)
def test_predict_carries_the_memory(case: str) -> None:
    ours, theirs = make_pair(case)
    space = CASES[case][1]
    state = oracle_state = None
    for time in range(4):
        batch = sample_batch(space, 2)
        starts = np.array([time == 2, False])
        actions, state = ours.predict(batch, state, starts, deterministic=True)
        expected, oracle_state = theirs.predict(batch, oracle_state, starts, deterministic=True)
        np.testing.assert_allclose(actions, expected, **OUTPUTS)
        assert actions.shape == expected.shape
        for part, wanted in zip(state, oracle_state, strict=True):
            np.testing.assert_allclose(part, wanted, **OUTPUTS)


def evaluate(ours: Any, theirs: Any, case: str) -> tuple[Any, Any, torch.Tensor]:
    tensors, _ = ours.obs_to_tensor(sample_batch(CASES[case][1], SEQUENCES * TIME))
    states, oracle_states = random_states(ours, SEQUENCES)
    starts = random_starts(SEQUENCES, TIME).flatten()
    with torch.no_grad():
        first = torch.zeros(SEQUENCES * TIME)
        columns = theirs.lstm_hidden_state_shape[0], SEQUENCES * TIME, theirs.lstm_hidden_state_shape[2]
        empty = (torch.zeros(columns), torch.zeros(columns))
        actions, _, _, _ = theirs(tensors, OracleStates(empty, empty), first)
    return (
        ours.evaluate_actions(tensors, actions, states, starts),
        theirs.evaluate_actions(tensors, actions, oracle_states, starts.float()),
        actions,
    )


@pytest.mark.parametrize("case", CASES)
def test_whole_sequences(case: str) -> None:
    ours, theirs = make_pair(case)
    found, expected, _ = evaluate(ours, theirs, case)
    for result, wanted in zip(found, expected, strict=True):
        assert result.shape == wanted.shape
        torch.testing.assert_close(result, wanted, **OUTPUTS)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: str) -> None:
    """PPO's loss through the sequences gives every weight the same gradient (a shared memory only the policy's)."""
    ours, theirs = make_pair(case)
    found, expected, _ = evaluate(ours, theirs, case)
    generator = torch.Generator().manual_seed(5)
    advantages, returns = torch.randn(2, SEQUENCES * TIME, generator=generator)
    old = expected[1].detach() + 0.3 * torch.randn(SEQUENCES * TIME, generator=generator)
    for values, log_prob, entropy in (found, expected):
        ratio = (log_prob - old).exp()
        policy_loss = -torch.min(advantages * ratio, advantages * ratio.clamp(0.8, 1.2)).mean()
        loss = policy_loss + 0.5 * functional.mse_loss(values.flatten(), returns) - 0.01 * entropy.mean()
        loss.backward()
    pairs = zip(ours.named_parameters(), theirs.parameters(), strict=True)
    gradients = {name: (mine.grad, other.grad) for (name, mine), other in pairs}
    assert_same_gradients(gradients)
    assert all(mine.any() for mine, _ in gradients.values())


# one whole update with the real algorithm

STEPS, ENVIRONMENTS = 12, 3
UPDATES: dict[str, tuple[spaces.Space[Any], dict[str, Any]]] = {
    "discrete": (CHOICE, {}),
    "box": (BOX, {"clip_range_vf": 0.2}),
    "raw advantages": (CHOICE, {"normalize_advantage": False}),
    "shared memory": (CHOICE, {"policy_kwargs": {"shared_lstm": True, "enable_critic_lstm": False}}),
    "value without memory": (BOX, {"policy_kwargs": {"enable_critic_lstm": False}}),
    "two layers": (CHOICE, {"policy_kwargs": {"n_lstm_layers": 2}}),
}


def fill(ours: PPO, oracle: OracleRecurrentPPO, seed: int) -> None:
    """The same rollout for both, with episodes that start in the middle; the old policy lies a little off."""
    random = np.random.default_rng(seed)
    space = ours.observation_space
    space.seed(seed)
    rollout = ours.rollout_buffer.rollout
    oracle.rollout_buffer.reset()
    starts = np.ones(ENVIRONMENTS, bool)
    states, kept = random_states(ours.policy, ENVIRONMENTS, seed)[1], []
    for step in range(STEPS):
        observation = np.stack([space.sample() for _ in range(ENVIRONMENTS)])
        kept.append(states)
        with torch.no_grad():
            actions, values, log_prob, after = oracle.policy(
                torch.as_tensor(observation), states, torch.as_tensor(starts, dtype=torch.float32)
            )
        values = values + torch.as_tensor(random.normal(0.0, 0.3, values.shape), dtype=torch.float32)
        log_prob = log_prob + torch.as_tensor(random.normal(0.0, 0.3, log_prob.shape), dtype=torch.float32)
        rewards = random.normal(0.0, 1.0, ENVIRONMENTS).astype(np.float32)
        stored = actions.numpy().reshape(ENVIRONMENTS, -1)
        oracle.rollout_buffer.add(observation, stored, rewards, starts, values, log_prob, lstm_states=states)
        rollout.observations[step], rollout.actions[step], rollout.rewards[step] = observation, stored, rewards
        rollout.episode_starts[step] = starts
        rollout.values[step], rollout.log_probs[step] = values.flatten(), log_prob
        starts, states = random.random(ENVIRONMENTS) < 0.2, after
    oracle.rollout_buffer.compute_returns_and_advantage(torch.zeros(ENVIRONMENTS, 1), starts)
    ours.rollout_buffer.compute_returns_and_advantage(torch.zeros(ENVIRONMENTS), starts)
    begin = RNNStates(kept[0].pi, () if ours.policy.critic is not None else kept[0].vf)
    rollout.states = begin.map(lambda part: part[None])  # one sequence


@pytest.mark.parametrize(("action_space", "arguments"), UPDATES.values(), ids=UPDATES)
def test_one_update(
    monkeypatch: pytest.MonkeyPatch, action_space: spaces.Space[Any], arguments: dict[str, Any]
) -> None:
    """One epoch over the whole rollout: losses, every gradient (Adam's first average) and every weight."""
    from stable_baselines3.common.logger import configure

    policy_kwargs = {"lstm_hidden_size": 16} | arguments.get("policy_kwargs", {})
    settings = {"n_steps": STEPS, "batch_size": STEPS * ENVIRONMENTS, "n_epochs": 1, "seed": 0, "ent_coef": 0.01}
    settings |= arguments | {"policy_kwargs": policy_kwargs, "device": "cpu"}
    factories = [lambda: RandomEnv(VECTOR, action_space)] * ENVIRONMENTS
    ours = RecurrentPPO("MlpLstmPolicy", DummyVecEnv(factories), **settings)
    oracle = OracleRecurrentPPO("MlpLstmPolicy", OracleVecEnv(factories), **settings)
    oracle.set_logger(configure(None, []))
    with torch.no_grad():
        for parameter in ours.policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    oracle.policy.load_state_dict(ours.policy.state_dict())
    fill(ours, oracle, seed=3)
    # theirs begins its one batch at a random row: at row 0, sequences are those of ours
    monkeypatch.setattr(np.random, "randint", lambda *_: 0)
    ours.train()
    oracle.train()
    assert_same_training(ours.policy, oracle.policy)
    averages = oracle.policy.optimizer.state_dict()["state"]
    found = ours.policy.optimizer.state_dict()["state"]
    assert_same_gradients({str(at): (found[at]["exp_avg"], averages[at]["exp_avg"]) for at in found})
    for name, value in oracle.logger.name_to_value.items():
        if name.startswith("train/"):
            assert ours.logger.name_to_value[name] == pytest.approx(value, rel=LOSSES["rtol"], abs=LOSSES["atol"]), name
    assert ours.logger.name_to_value["train/clip_fraction"] > 0.2


@pytest.mark.parametrize("seed", range(5))
def test_flat_data_is_cut_into_the_same_sequences(seed: int) -> None:
    generator = np.random.default_rng(seed)
    starts, changes = generator.random((2, 20, 1)) < 0.2
    rows, numbers = generator.normal(size=(20, 3)), generator.normal(size=(20, 1))
    ours = buffers.create_sequencers(starts, changes, torch.device("cpu"))
    theirs = oracle_buffers.create_sequencers(starts, changes, torch.device("cpu"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    torch.testing.assert_close(ours[1](rows), theirs[1](rows), rtol=0, atol=0)
    torch.testing.assert_close(ours[2](numbers, padding_value=7.0), theirs[2](numbers, padding_value=7.0))


@pytest.mark.parametrize("case", ["discrete", "shared memory", "value without memory"])
def test_whole_sequences_by_hand(case: str) -> None:
    """forward, predict_values and _process_sequence take several steps of each environment too."""
    ours, theirs = make_pair(case)
    tensors, _ = ours.obs_to_tensor(sample_batch(CASES[case][1], SEQUENCES * TIME))
    states, oracle_states = random_states(ours, SEQUENCES)
    starts = random_starts(SEQUENCES, TIME).float().flatten()
    with torch.no_grad():
        found = ours(tensors, states, starts, deterministic=True)
        expected = theirs(tensors, oracle_states, starts, deterministic=True)
        torch.testing.assert_close(found[:3], expected[:3], **OUTPUTS)
        torch.testing.assert_close(found[3].pi, expected[3].pi, **OUTPUTS)
        torch.testing.assert_close(
            ours.predict_values(tensors, states.vf, starts),
            theirs.predict_values(tensors, oracle_states.vf, starts),
            **OUTPUTS,
        )
        features = theirs.extract_features(tensors)
        found = ours._process_sequence(features, states.pi, starts, ours.lstm_actor)
        torch.testing.assert_close(
            found, theirs._process_sequence(features, oracle_states.pi, starts, theirs.lstm_actor), **OUTPUTS
        )
