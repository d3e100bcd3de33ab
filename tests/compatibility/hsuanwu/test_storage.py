"""Hsuanwu's storage, filled by hand."""

from __future__ import annotations

import pytest
import torch

from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage


def step_of(storage: VanillaRolloutStorage, **changes: torch.Tensor) -> dict[str, torch.Tensor]:
    envs = storage.num_envs
    discrete = storage.action_type == "Discrete"
    numbers = {name: torch.zeros(envs, 1) for name in ("rewards", "terminateds", "truncateds", "log_probs", "values")}
    actions = torch.zeros(envs, dtype=torch.int64) if discrete else torch.zeros(envs, *storage.action_space.shape)
    return {"obs": torch.zeros(envs, *storage.obs_shape), "actions": actions} | numbers | changes


def filled(storage: VanillaRolloutStorage) -> VanillaRolloutStorage:
    for step in range(storage.num_steps):
        obs = torch.full((storage.num_envs, *storage.obs_shape), float(step))
        values = step + torch.arange(storage.num_envs).unsqueeze(1) / 10.0
        storage.add(**step_of(storage, obs=obs, values=values, rewards=torch.ones(storage.num_envs, 1)))
    storage.compute_returns_and_advantages(torch.zeros(storage.num_envs, 1))
    return storage


def test_returns_by_hand_with_an_end_and_a_time_limit():
    # one env: step 0 goes on, step 1 is cut by a time limit, step 2 ends, step 3 goes on
    storage = VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 4, 1, discount=0.5, gae_lambda=1.0)
    one = torch.ones(1, 1)
    storage.add(**step_of(storage, rewards=1 * one))
    storage.add(**step_of(storage, rewards=2 * one, truncateds=one), bootstrap_values=8 * one)
    storage.add(**step_of(storage, rewards=3 * one, terminateds=one))
    storage.add(**step_of(storage, rewards=4 * one))
    storage.compute_returns_and_advantages(16 * one)
    # 4 + 16/2 = 12; 3 ends; 2 + 8/2 = 6; 1 + 6/2 = 4
    assert storage.returns.flatten().tolist() == [4.0, 6.0, 3.0, 12.0]
    advantages = torch.tensor([4.0, 6.0, 3.0, 12.0])  # all values are 0
    expected = (advantages - advantages.mean()) / advantages.std()
    torch.testing.assert_close(storage.advantages.flatten(), expected)


def test_a_time_limit_without_final_values_takes_the_value_of_the_step():
    storage = VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 2, 1, discount=0.5, gae_lambda=1.0)
    one = torch.ones(1, 1)
    storage.add(**step_of(storage, rewards=one, values=6 * one, truncateds=one))
    storage.add(**step_of(storage, rewards=one))
    storage.compute_returns_and_advantages(torch.zeros(1, 1))
    assert storage.returns.flatten().tolist() == [4.0, 1.0]


@pytest.mark.parametrize(("kind", "shape", "columns"), [("Discrete", (5,), (1,)), ("Box", (3,), (3,))])
def test_shapes_of_the_memory_and_of_minibatches(kind, shape, columns):
    storage = filled(VanillaRolloutStorage("cpu", (4,), shape, kind, 6, 2))
    assert storage.obs.shape == (7, 2, 4)
    assert storage.actions.shape == (6, 2, *columns)
    for name in ("rewards", "terminateds", "truncateds", "log_probs", "values", "returns", "advantages"):
        assert getattr(storage, name).shape == (6, 2, 1), name
    batches = list(storage.generator(3))
    assert len(batches) == 3
    for batch in batches:
        observations, actions, *numbers = batch
        assert (observations.shape, actions.shape) == ((4, 4), (4, *columns))
        assert [part.shape for part in numbers] == [(4, 1)] * 6
        # rows belong together: the observation is the step, the value the step and a tenth of the environment
        assert torch.all((batch.values - observations[:, :1]).abs() < 0.11)
    drawn = torch.cat([batch.values for batch in batches]).flatten()
    assert sorted(drawn.tolist()) == sorted(storage.values.flatten().tolist())
    advantages = torch.cat([batch.adv_targ for batch in batches])
    assert advantages.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert advantages.std().item() == pytest.approx(1.0, abs=1e-4)


def test_tensors_are_views_of_the_memory():
    storage = filled(VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 4, 2))
    storage.rewards += 1.0
    assert storage.buffer.rollout.rewards.tolist() == [[2.0, 2.0]] * 4
    storage.obs[2, 1, 3] = 7.0
    assert storage.buffer.rollout.observations[2, 1, 3] == 7.0


def test_the_next_rollout_begins_where_the_last_one_ended():
    storage = VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 2, 1)
    for step in range(2):
        storage.add(**step_of(storage), next_obs=torch.full((1, 4), step + 1.0))
    assert storage.obs[:, 0, 0].tolist() == [0.0, 0.0, 2.0]  # add() itself says what each step began with
    storage.update()
    assert (storage.step, storage.obs[0, 0, 0].item()) == (0, 2.0)


def test_images_are_bytes_until_floats_come():
    storage = VanillaRolloutStorage("cpu", (3, 8, 8), (2,), "Discrete", 2, 1)
    storage.add(**step_of(storage, obs=torch.full((1, 3, 8, 8), 200, dtype=torch.uint8)))
    assert (storage.obs.dtype, storage.obs[0].float().mean().item()) == (torch.uint8, 200.0)
    with pytest.raises(TypeError, match="those before were bytes"):
        storage.add(**step_of(storage, obs=torch.full((1, 3, 8, 8), 0.5)))
    storage.reset()
    storage.add(**step_of(storage, obs=torch.full((1, 3, 8, 8), 0.5)))
    assert (storage.obs.dtype, storage.obs[0].mean().item()) == (torch.float32, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": torch.zeros(2, 5)}, r"obs has shape \(2, 5\), the storage keeps \(2, 4\)"),
        ({"obs": torch.zeros(1, 4)}, r"obs has shape \(1, 4\)"),
        ({"actions": torch.zeros(3)}, r"actions has shape \(3, 1\), the storage keeps \(2, 1\)"),
        ({"rewards": torch.zeros(1)}, "rewards has shape .* each of 2 environments"),
        ({"values": torch.zeros(2, 2)}, "values has shape"),
    ],
)
def test_a_step_of_other_shapes_is_refused(change, message):
    storage = VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 2, 2)
    with pytest.raises(ValueError, match=message):
        storage.add(**step_of(storage, **change))


def test_other_bad_input():
    with pytest.raises(ValueError, match="did you mean 'Discrete'"):
        VanillaRolloutStorage("cpu", (4,), (2,), "discrete", 2, 2)
    with pytest.raises(ValueError, match=r"discount is 1\.5"):
        VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 2, 2, discount=1.5)
    with pytest.raises(ValueError, match="at least 1"):
        VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 0, 2)
    storage = VanillaRolloutStorage("cpu", (4,), (2,), "Discrete", 2, 2)
    with pytest.raises(ValueError, match="holds 0 of 2 steps"):
        storage.compute_returns_and_advantages(torch.zeros(2, 1))
    filled(storage)
    with pytest.raises(ValueError, match="num_mini_batch 3 does not divide the 4 samples"):
        next(storage.generator(3))
