"""rllte's storages, filled by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.rllte.xploit.storage import DictRolloutStorage, VanillaRolloutStorage

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def filled(storage: VanillaRolloutStorage, observation: object, steps: int = 4) -> VanillaRolloutStorage:
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        rewards = torch.rand(2, generator=generator)
        flags = torch.tensor([float(step == 1), 0.0])
        actions = torch.tensor([0, 1]) if storage.action_type == "Discrete" else torch.rand(2, 2, generator=generator)
        storage.add(
            observation, actions, rewards, flags, torch.zeros(2), {}, observation,
            log_probs=torch.full((2,), -0.5), values=torch.rand(2, 1, generator=generator),
        )  # fmt: skip
    return storage


def test_advantages_by_hand_and_normalised_over_the_rollout():
    storage = VanillaRolloutStorage(
        BOX, spaces.Discrete(2), storage_size=4, batch_size=3, num_envs=2, discount=0.9, gae_lambda=0.8
    )
    filled(storage, torch.zeros(2, 3))
    last = torch.tensor([[0.25], [0.75]])
    storage.compute_returns_and_advantages(last)
    values, rewards, ended = storage.values, storage.rewards, storage.terminateds
    expected, following, advantage = torch.zeros(4, 2), last.flatten(), torch.zeros(2)
    for step in reversed(range(4)):
        going_on = 1.0 - ended[step]
        delta = rewards[step] + 0.9 * following * going_on - values[step]
        advantage = delta + 0.9 * 0.8 * going_on * advantage
        expected[step], following = advantage, values[step]
    torch.testing.assert_close(storage.returns, expected + values)
    torch.testing.assert_close(storage.advantages, (expected - expected.mean()) / (expected.std() + 1e-8))


def test_samples_cover_the_rollout_once():
    storage = VanillaRolloutStorage(BOX, spaces.Box(-1.0, 1.0, (2,)), storage_size=4, batch_size=3, num_envs=2)
    with pytest.raises(ValueError, match="holds 0 of 4 steps"):
        next(storage.sample())
    filled(storage, torch.zeros(2, 3))
    storage.compute_returns_and_advantages(torch.zeros(2, 1))
    batches = list(storage.sample())
    assert [len(batch.actions) for batch in batches] == [3, 3, 2]
    assert batches[0].actions.shape == (3, 2)
    drawn = torch.cat([batch.values for batch in batches])
    assert sorted(drawn.tolist()) == sorted(storage.values.flatten().tolist())
    assert sum(batch.terminateds.sum().item() for batch in batches) == 1.0
    rows = {value: index for index, value in enumerate(storage.values.flatten().tolist())}
    for batch in batches:
        places = [rows[value] for value in batch.values.tolist()]
        torch.testing.assert_close(batch.returns, storage.returns.flatten()[places])
        torch.testing.assert_close(batch.adv_targ, storage.advantages.flatten()[places])


def test_a_full_storage_begins_again_and_rewards_can_be_added_to():
    storage = VanillaRolloutStorage(BOX, spaces.Discrete(2), storage_size=4, batch_size=4, num_envs=2)
    filled(storage, torch.zeros(2, 3), steps=5)
    assert (storage.step, storage.full) == (1, False)
    before = storage.rewards.clone()
    storage.rewards += 1.0
    torch.testing.assert_close(storage.rewards, before + 1.0)


def test_dictionaries_are_kept_by_key():
    space = spaces.Dict({"image": spaces.Box(0, 255, (3, 8, 8), np.uint8), "state": BOX})
    storage = DictRolloutStorage(space, spaces.Discrete(2), storage_size=4, batch_size=8, num_envs=2)
    observation = {"image": torch.full((2, 3, 8, 8), 200, dtype=torch.uint8), "state": torch.ones(2, 3)}
    filled(storage, observation)
    storage.compute_returns_and_advantages(torch.zeros(2, 1))
    (batch,) = storage.sample()
    assert batch.observations["image"].dtype == torch.uint8  # a quarter of the memory of floats
    assert batch.observations["image"].shape == (8, 3, 8, 8)
    assert (batch.observations["image"] == 200).all()
    assert (batch.observations["state"] == 1.0).all()
    with pytest.raises(ValueError, match="keeps Dict observations"):
        DictRolloutStorage(BOX, spaces.Discrete(2))
