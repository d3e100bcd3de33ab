"""Intrinsic rewards: the formulas by hand, learning, episodes, state, bad input."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.errors import NonFiniteError
from proximo.exploration import (
    E3B,
    ICM,
    NGU,
    RE3,
    RIDE,
    RND,
    Disagreement,
    Fabric,
    IntrinsicReward,
    PseudoCounts,
    total_reward,
)

close = torch.testing.assert_close
REWARDS = [ICM, RND, RE3, RIDE, NGU, PseudoCounts, E3B, Disagreement]
PREDICTING = [ICM, RND, Disagreement]
VECTOR = spaces.Box(-10.0, 10.0, (3,))
IMAGE = spaces.Box(0, 255, (3, 36, 36), np.uint8)
ACTIONS = [spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def fake_envs(observation_space: Any = VECTOR, action_space: Any = ACTIONS[0], num_envs: int = 2) -> Any:
    return SimpleNamespace(observation_space=observation_space, action_space=action_space, num_envs=num_envs)


def made(kind: Any, envs: Any, **arguments: Any) -> Any:
    return kind(**arguments).bind(envs.observation_space, envs.action_space, envs.num_envs)


def rollout(envs: Any, steps: int = 16, seed: int = 0, ends: tuple[tuple[int, int], ...] = ()) -> dict[str, Tensor]:
    """Random states in a row: what a step leads to is where the next begins, but for the ends of episodes."""
    rng = np.random.default_rng(seed)
    shape = (steps + 1, envs.num_envs, *envs.observation_space.shape)
    if envs.observation_space.dtype == np.uint8:
        states = torch.as_tensor(rng.integers(0, 256, shape, dtype=np.uint8))
    else:
        states = torch.as_tensor(rng.normal(size=shape).astype(np.float32))
    envs.action_space.seed(seed)
    actions = np.stack([[envs.action_space.sample() for _ in range(envs.num_envs)] for _ in range(steps)])
    terminateds = torch.zeros(steps, envs.num_envs)
    for step, env in ends:
        terminateds[step, env] = 1.0
    return {
        "observations": states[:-1],
        "next_observations": states[1:],
        "actions": torch.as_tensor(actions),
        "rewards": torch.zeros(steps, envs.num_envs),
        "terminateds": terminateds,
        "truncateds": torch.zeros(steps, envs.num_envs),
    }


def line(*columns: list[float], ends: tuple[tuple[int, int], ...] = ()) -> tuple[Any, dict[str, Tensor]]:
    """Environments that walk on a line through the given states."""
    envs = fake_envs(spaces.Box(-100.0, 100.0, (1,)), num_envs=len(columns))
    samples = rollout(envs, steps=len(columns[0]) - 1, ends=ends)
    states = torch.tensor(columns).T[..., None]
    return envs, samples | {"observations": states[:-1].clone(), "next_observations": states[1:].clone()}


RAW = {"rwd_norm_type": "none", "obs_norm_type": "none"}


def raw(kind: Any, envs: Any, **arguments: Any) -> Any:
    """A reward without normalisation whose features are the observations themselves."""
    reward = made(kind, envs, **RAW, latent_dim=1, **arguments)
    name = "random_encoder" if kind is RE3 else "encoder"
    reward.networks[name] = nn.Identity()
    return reward


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("action_space", ACTIONS, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("observation_space", [VECTOR, IMAGE], ids=["vector", "image"])
def test_rewards_are_finite_and_not_negative(kind: Any, action_space: Any, observation_space: Any) -> None:
    envs = fake_envs(observation_space, action_space)
    reward = made(kind, envs)
    for seed in range(2):
        rewards = reward.compute(rollout(envs, seed=seed, ends=((5, 0),)))
        assert rewards.shape == (16, 2)
        assert rewards.dtype == torch.float32
        assert not rewards.requires_grad
        assert torch.isfinite(rewards).all()
        assert (rewards >= 0.0).all()
        assert rewards.max() > 0.0


@pytest.mark.parametrize("kind", PREDICTING)
@pytest.mark.parametrize("observation_space", [VECTOR, IMAGE], ids=["vector", "image"])
def test_what_is_repeated_becomes_dull(kind: Any, observation_space: Any) -> None:
    """The reward of the rollout that is trained on falls, for vectors below that of one never seen.

    (Images of noise are all alike to a convolution.)
    """
    envs = fake_envs(observation_space)
    seen, fresh = rollout(envs, seed=0), rollout(envs, seed=1)
    reward = made(kind, envs, rwd_norm_type="none", lr=0.002)
    before = reward.compute(seen, sync=False).mean()
    # ICM's features move and grow at first, and its errors with them
    for _ in range(200 if kind is ICM else 60):
        reward.update(seen)
    after, elsewhere = reward.compute(seen, sync=False).mean(), reward.compute(fresh, sync=False).mean()
    assert after < 0.5 * before
    if observation_space is VECTOR:
        assert after < 0.5 * elsewhere
    assert reward.metrics["loss"][-1][1] < 0.6 * reward.metrics["loss"][0][1]


@pytest.mark.parametrize(
    ("space", "stored", "expected"),
    [
        (spaces.Discrete(3, start=5), [2], [0, 0, 1]),
        (spaces.MultiDiscrete([2, 3], start=[4, 9]), [1, 0], [0, 1, 1, 0, 0]),
    ],
)
def test_stored_actions_count_from_zero(space: Any, stored: list[int], expected: list[int]) -> None:
    reward = made(ICM, fake_envs(action_space=space))
    assert reward.encode_actions(torch.tensor([stored])).tolist() == [expected]


@pytest.mark.parametrize("kind", [PseudoCounts, E3B, RIDE, NGU])
def test_encoders_learn_to_tell_the_action(kind: Any) -> None:
    """The action is written into the next state, so the inverse model can know it."""
    envs = fake_envs()
    samples = rollout(envs, steps=64)
    samples["next_observations"] = samples["observations"] + samples["actions"][..., None]
    reward = made(kind, envs, lr=0.003)
    for _ in range(40):
        reward.update(samples)
    assert reward.metrics["loss"][-1][1] < 0.5 * reward.metrics["loss"][0][1]


def test_re3_by_hand_over_two_rollouts() -> None:
    envs, samples = line([9.0, 0.0, 1.0, 3.0, 7.0])
    reward = raw(RE3, envs, k=2, storage_size=5)
    close(reward.compute(samples)[:, 0], torch.log1p(torch.tensor([3.0, 2.0, 3.0, 6.0])))
    _, samples = line([7.0, 2.0, 8.0])
    # storage: 1, 3, 7 of before, then 2 and 8
    close(reward.compute(samples)[:, 0], torch.log1p(torch.tensor([1.0, 5.0])))
    assert reward.memory[0][:, 0, 0].tolist() == [1.0, 3.0, 7.0, 2.0, 8.0]


def test_re3_compares_with_all_of_a_rollout_longer_than_its_storage() -> None:
    envs, samples = line([0.0, 0.0, 1.0, 3.0, 7.0])
    reward = raw(RE3, envs, k=1, storage_size=2)
    close(reward.compute(samples)[:, 0], torch.log1p(torch.tensor([1.0, 1.0, 2.0, 4.0])))
    assert reward.memory[0][:, 0, 0].tolist() == [3.0, 7.0]


def test_pseudo_counts_by_hand() -> None:
    """0→1→0, end, 5→5: squared distances 1; 0 and 1; 0. Their mean is 0.5."""
    envs, samples = line([0.0, 1.0, 0.0, 5.0], ends=((1, 0),))
    samples["observations"][2], samples["next_observations"][2] = 5.0, 5.0
    reward = raw(PseudoCounts, envs, k=2, kernel_cluster_distance=0.0, kernel_epsilon=1.0, c=0.25, lr=1e-9)
    mean = reward.statistics["squared_distances"]
    rewards = reward.compute(samples)[:, 0]
    assert float(mean.mean) == 0.0  # statistics are replaced, not changed
    unit = float(reward.statistics["squared_distances"].mean)
    assert unit == pytest.approx(0.5, abs=1e-3)
    kernel = 1.0 / (1.0 / unit + 1.0)  # of squared distance 1
    counts = torch.tensor([kernel, 1.0 + kernel, 1.0])
    close(rewards, 1.0 / (counts.sqrt() + 0.25))
    # the open episode is remembered: 5 has now been seen, here once more
    _, samples = line([5.0, 5.0])
    reward.sm = 1.6
    assert reward.compute(samples)[0, 0].item() == 0.0  # √2 + 0.25 is beyond sm
    reward.sm = 8.0
    assert reward.compute(samples)[0, 0].item() == pytest.approx(1.0 / (2.0**0.5 + 0.25), rel=1e-5)


def test_ride_is_the_step_in_features_over_the_root_of_visits() -> None:
    """0→2→0→2 and then an end: 2 is visited once, 0 once before its return, 2 once before its return."""
    envs, samples = line([0.0, 2.0, 0.0, 2.0], [0.0, 3.0, 4.0, 9.0], ends=((2, 0),))
    kernel = {"k": 3, "kernel_cluster_distance": 0.0, "kernel_epsilon": 1e-9, "c": 0.0}
    reward = raw(RIDE, envs, **kernel)
    wanted = torch.tensor([[2.0, 2.0 / 2**0.5, 2.0 / 2**0.5], [3.0, 1.0, 5.0]]).T
    close(reward.compute(samples, sync=False), wanted, atol=1e-4, rtol=0.0)
    assert [len(rows) for rows in reward.memory] == [0, 0]
    reward.compute(samples)
    assert [len(rows) for rows in reward.memory] == [0, 3]  # the first environment's episode is over


def test_ngu_is_the_episodic_reward_times_a_clipped_factor() -> None:
    envs = fake_envs()
    samples = rollout(envs, steps=64)
    reward = made(NGU, envs, **RAW, mrs=1.5)
    transitions = reward.transitions(samples)
    with torch.no_grad():
        errors = reward.features("distillation", transitions.next_observations)
        episodic = PseudoCounts.novelty(reward, transitions, sync=False)
    standardized = (errors - errors.mean()) / errors.std(correction=0)
    factor = (1.0 + standardized).clamp(1.0, 1.5)
    assert factor.min() == 1.0
    assert factor.max() == 1.5
    close(reward.compute(samples, sync=False), episodic * factor, rtol=1e-3, atol=1e-3)


def test_e3b_starts_again_with_each_episode() -> None:
    envs, samples = line([9.0, 2.0, 2.0, 2.0], ends=((1, 0),))
    reward = raw(E3B, envs, ridge=0.5)
    fresh, again = 4.0 / 0.5, 4.0 / (0.5 + 4.0)
    close(reward.compute(samples)[:, 0], torch.tensor([fresh, again, fresh]))
    _, samples = line([2.0, 2.0])
    assert reward.compute(samples)[0, 0].item() == pytest.approx(again)  # the episode goes on over the rollout's end


def test_disagreement_is_the_variance_of_the_predictions() -> None:
    envs = fake_envs()
    samples = rollout(envs)
    reward = made(Disagreement, envs, **RAW, ensemble_size=3)
    with torch.no_grad():
        latents = reward.networks["random_encoder"](samples["observations"].flatten(0, 1))
        actions = torch.nn.functional.one_hot(samples["actions"].flatten(), 4).float()
        rows = [model(latents, actions) for model in reward.networks["ensemble"].children()]
    close(reward.compute(samples, sync=False), torch.stack(rows).var(dim=0).mean(dim=1).view(16, 2))


def test_weights_decay_once_per_call() -> None:
    envs = fake_envs()
    reward, steady = made(RE3, envs, **RAW, beta=0.5, kappa=0.1), made(RE3, envs, **RAW)
    steady.load_state_dict(reward.state_dict())
    for call in range(1, 4):
        samples = rollout(envs, seed=call)
        close(reward.compute(samples), 0.5 * 0.9**call * steady.compute(samples))


def test_reward_normalisations() -> None:
    envs = fake_envs()
    samples = rollout(envs, steps=64)
    plain = made(RE3, envs, rwd_norm_type="none")
    novelty = plain.compute(samples)

    def like(**arguments: Any) -> Tensor:
        other = made(RE3, envs, **arguments)
        other.networks.load_state_dict(plain.networks.state_dict())
        return other.compute(samples)

    close(like(), novelty / novelty.std(correction=0), rtol=1e-3, atol=1e-4)
    stretched = like(rwd_norm_type="minmax")
    close(stretched, (novelty - novelty.min()) / (novelty.max() - novelty.min()))
    sums, running = [], torch.zeros(2)
    for row in novelty:
        running = 0.9 * running + row
        sums.append(running)
    close(like(gamma=0.9), novelty / torch.stack(sums).std(correction=0), rtol=1e-3, atol=1e-4)


def test_constant_rewards_stay_finite() -> None:
    envs, samples = line([1.0] * 9)
    for kind in ("rms", "minmax"):
        assert torch.isfinite(made(RE3, envs, rwd_norm_type=kind).compute(samples)).all()


def test_observations_are_standardised_with_running_statistics() -> None:
    envs = fake_envs()
    reward = made(RND, envs)
    parts = [rollout(envs, seed=seed) for seed in range(3)]
    for part in parts:
        part["observations"][..., 1] = 4.0  # a number that never changes
        reward.compute(part)
    rows = torch.cat([part["observations"].flatten(0, 1) for part in parts])
    standardized = reward.normalize(rows)
    close(standardized[:, 0].mean(), torch.tensor(0.0), atol=1e-3, rtol=0.0)
    close(standardized[:, 0].std(), torch.tensor(1.0), atol=2e-2, rtol=0.0)
    assert torch.isfinite(standardized).all()
    assert reward.normalize(torch.full((1, 3), 1e6)).max() == 5.0
    close(
        made(RND, fake_envs(IMAGE), obs_norm_type="none").normalize(torch.full((3, 36, 36), 255)), torch.ones(3, 36, 36)
    )


@pytest.mark.parametrize("kind", REWARDS)
def test_a_look_without_sync_changes_nothing(kind: Any) -> None:
    envs = fake_envs()
    reward = made(kind, envs, gamma=0.99)
    reward.compute(rollout(envs, seed=0))
    before = copy.deepcopy(reward.state_dict())
    first = reward.compute(rollout(envs, seed=1), sync=False)
    close(reward.compute(rollout(envs, seed=1), sync=False), first)
    assert_same(reward.state_dict(), before)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, Tensor | np.ndarray):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    else:
        assert one == other


def make(kind: Any, envs: Any) -> Any:
    return Fabric(made(RND, envs), made(E3B, envs)) if kind is Fabric else made(kind, envs, gamma=0.99, kappa=0.01)


@pytest.mark.parametrize("kind", [*REWARDS, Fabric])
def test_a_loaded_state_goes_on_exactly(kind: Any) -> None:
    envs = fake_envs()
    reward = make(kind, envs)
    reward.compute(rollout(envs, seed=0, ends=((7, 1),)))
    state = copy.deepcopy(reward.state_dict())
    other = make(kind, envs)
    other.load_state_dict(state)
    for seed in (1, 2):
        torch.manual_seed(seed)
        wanted = total_reward(reward, rollout(envs, seed=seed))
        torch.manual_seed(seed)
        assert torch.equal(total_reward(other, rollout(envs, seed=seed)), wanted)
    other.load_state_dict(state)  # not shared with what ran on
    assert_same(other.state_dict(), state)


@pytest.mark.parametrize("kind", REWARDS)
def test_a_seed_repeats_a_reward(kind: Any) -> None:
    envs = fake_envs()

    def run() -> Tensor:
        torch.manual_seed(7)
        reward = made(kind, envs, **({} if kind is RE3 else {"update_proportion": 0.5}))
        return torch.stack([reward.compute(rollout(envs, seed=seed)) for seed in range(3)])

    assert torch.equal(run(), run())


def test_fabric_gives_its_parts_and_users_mix_them() -> None:
    envs = fake_envs()

    class Product(Fabric):
        def compute(self, samples: Any, sync: bool = True) -> Any:
            first, second = super().compute(samples, sync)
            return first * second

    samples = rollout(envs)
    parts = [made(RE3, envs), made(E3B, envs)]
    first, second = (part.compute(samples, sync=False) for part in parts)
    close(Product(*parts).compute(samples, sync=False), first * second)
    close(total_reward(Fabric(*parts), samples, sync=False), first + second)
    close(total_reward(Product(*parts), samples, sync=False), first * second)
    with pytest.raises(ValueError, match="at least two"):
        Fabric(parts[0])
    with pytest.raises(TypeError, match="int"):
        Fabric(parts[0], 3)  # type: ignore[arg-type]


def test_a_reward_of_the_users_own() -> None:
    class Distance(IntrinsicReward):
        def compute(self, samples: Any, sync: bool = True) -> Tensor:
            super().compute(samples, sync)
            steps = self.normalize(samples["next_observations"]) - self.normalize(samples["observations"])
            return self.scale(steps.norm(dim=-1))

    envs = fake_envs()
    reward = made(Distance, envs, **RAW, beta=2.0)
    samples = rollout(envs)
    wanted = 2.0 * (samples["next_observations"] - samples["observations"]).norm(dim=-1)
    close(total_reward(reward, samples), wanted)
    assert reward.global_step == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (RND, {"rwd_norm_type": "rmss"}, "expected 'rms' or 'minmax' or 'none'"),
        (RND, {"obs_norm_type": "minmax"}, "obs_norm_type is 'minmax'"),
        (RND, {"kappa": 1.5}, "kappa"),
        (RND, {"encoder_model": "resnet"}, "encoder_model"),
        (RND, {"weight_init": "zeros"}, "weight_init"),
        (RND, {"update_proportion": 0.0}, "update_proportion"),
        (RE3, {"k": 0}, "k is 0; expected a positive whole number"),
        (RE3, {"k": 10, "storage_size": 10}, "storage_size"),
        (PseudoCounts, {"k": 0}, "positive"),
        (RND, {"discount": 0.9}, "own_value"),
        (RND, {"gamma": 1.5}, "from 0 to 1"),
        (E3B, {"ridge": 0.0}, "ridge"),
        (NGU, {"mrs": 0.5}, "mrs"),
        (Disagreement, {"ensemble_size": 1}, "two models"),
    ],
)
def test_bad_arguments_are_refused(kind: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


def test_spaces_without_a_meaning_here_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="not supported"):
        made(RND, fake_envs(spaces.Text(3)))
    with pytest.raises(NotImplementedError, match="not supported"):
        made(RND, fake_envs(action_space=spaces.Text(3)))
    small = spaces.Box(0, 255, (3, 7, 7), np.uint8)
    with pytest.raises(ValueError, match="pathak"):
        made(RND, fake_envs(small))
    envs = fake_envs(small)
    assert made(RND, envs, encoder_model="pathak").compute(rollout(envs)).shape == (16, 2)


def test_bad_samples_are_refused_and_leave_no_trace() -> None:
    envs = fake_envs()
    reward = made(ICM, envs, obs_norm_type="rms")
    good = rollout(envs)
    before = copy.deepcopy(reward.state_dict())
    not_a_number = good["observations"].clone()
    not_a_number[3, 1, 0] = torch.nan
    cases: list[tuple[dict[str, Tensor], type[Exception], str]] = [
        ({key: value for key, value in good.items() if key != "truncateds"}, ValueError, r"lack \['truncateds'\]"),
        (good | {"observations": good["observations"][:, :, :2]}, ValueError, r"observations must have shape"),
        (good | {"rewards": good["rewards"][..., None]}, ValueError, "rewards must have shape"),
        (rollout(fake_envs(num_envs=3)), ValueError, r"\(16, 2\)"),
        (good | {"actions": good["actions"][:4]}, ValueError, "actions of Discrete"),
        (good | {"actions": good["actions"] + 4}, ValueError, "count from 0"),
        (good | {"observations": not_a_number}, NonFiniteError, "NaN"),
    ]
    for samples, error, message in cases:
        with pytest.raises(error, match=message):
            reward.compute(samples)
    assert_same(reward.state_dict(), before)
    with pytest.raises(ValueError, match="k=5 neighbours need at least 6"):
        made(RE3, envs).compute(rollout(envs, steps=3))


MIXED = spaces.Dict(camera=IMAGE, place=VECTOR, room=spaces.Discrete(3, start=5), lamps=spaces.MultiBinary(2))


def mixed_rollout(steps: int = 16, num_envs: int = 2, seed: int = 0) -> dict[str, Any]:
    samples: dict[str, Any] = rollout(fake_envs(num_envs=num_envs), steps, seed)
    MIXED.seed(seed)
    drawn = [[MIXED.sample() for _ in range(num_envs)] for _ in range(steps + 1)]
    stored = {"camera": (3, 36, 36), "place": (3,), "room": (1,), "lamps": (2,)}
    states = {
        key: torch.as_tensor(np.stack([[np.reshape(one[key], shape) for one in row] for row in drawn]))
        for key, shape in stored.items()
    }
    samples["observations"] = {key: part[:-1] for key, part in states.items()}
    samples["next_observations"] = {key: part[1:] for key, part in states.items()}
    return samples


@pytest.mark.parametrize("kind", [*REWARDS, Fabric])
def test_dict_observations(kind: Any) -> None:
    """Images, numbers and discrete parts side by side, and a saved state of them."""
    envs = fake_envs(MIXED)
    reward = make(kind, envs)
    samples = mixed_rollout()
    computed = total_reward(reward, samples)
    assert computed.shape == (16, 2)
    assert torch.isfinite(computed).all()
    assert computed.max() > 0.0
    other = make(kind, envs)
    other.load_state_dict(reward.state_dict())
    assert torch.equal(total_reward(other, samples, sync=False), total_reward(reward, samples, sync=False))
    with pytest.raises(ValueError, match=r"must be a dictionary with the keys \['camera'"):
        total_reward(reward, rollout(fake_envs()))


def test_hybrid_actions() -> None:
    """Parts of an action are told apart: choices one-hot, numbers as they are; their losses add up."""
    space = spaces.Dict(kind=spaces.Discrete(3, start=1), power=spaces.Box(-1.0, 1.0, (2,)), lamp=spaces.MultiBinary(1))
    reward = made(ICM, fake_envs(action_space=space))
    rows = torch.tensor([[2.0, 0.5, -0.5, 1.0]])  # kind, power, lamp
    assert reward.encode_actions(rows).tolist() == [[0.0, 0.0, 1.0, 0.5, -0.5, 1.0]]
    guess = torch.tensor([[0.0, 0.0, 0.0, 0.5, 0.5, 0.0]])
    close(reward.action_losses(guess, rows), torch.tensor([np.log(3.0) + np.log(2.0) + 0.5], dtype=torch.float32))
    samples = rollout(fake_envs()) | {"actions": rows.expand(16, 2, 4)}
    assert reward.compute(samples).shape == (16, 2)
    with pytest.raises(ValueError, match="count from 0"):
        reward.compute(samples | {"actions": rows.expand(16, 2, 4) + 1.0})


def test_a_dict_is_read_as_one_row_with_images_between_0_and_1() -> None:
    reader = made(RND, fake_envs(MIXED)).reader
    samples = mixed_rollout(steps=2)
    samples["observations"]["camera"] = torch.full((2, 2, 3, 36, 36), 255, dtype=torch.uint8)
    samples["observations"]["room"][:] = 6
    rows = reader.read("observations", samples["observations"], (2, 2), torch.device("cpu"))
    camera = 3 * 36 * 36
    assert rows.shape == (2, 2, camera + 3 + 3 + 2)
    assert (rows[..., :camera] == 1.0).all()
    assert torch.equal(rows[..., camera : camera + 3], samples["observations"]["place"])
    assert rows[..., camera + 3 : camera + 6].tolist() == [[[0.0, 1.0, 0.0]] * 2] * 2


@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.MultiDiscrete([3, 4]), spaces.Box(-1.0, 1.0, ())])
def test_observations_of_other_spaces(space: Any) -> None:
    envs = fake_envs(space)
    samples: dict[str, Any] = rollout(fake_envs())
    width = {"Discrete": (1,), "MultiDiscrete": (2,), "Box": ()}[type(space).__name__]
    space.seed(0)
    states = torch.as_tensor(np.stack([[np.reshape(space.sample(), width) for _ in range(2)] for _ in range(17)]))
    samples |= {"observations": states[:-1], "next_observations": states[1:]}
    assert made(ICM, envs).compute(samples).max() > 0.0


def test_rows_that_are_no_steps_are_not_learned_from() -> None:
    """They are in no statistics and no minibatch: what stands there makes no difference to what is learned."""
    envs = fake_envs()
    samples = rollout(envs)
    valid = torch.ones(16, 2, dtype=torch.bool)
    valid[3, 1] = valid[9] = False
    disturbed = dict(samples)
    for key in ("observations", "next_observations"):
        disturbed[key] = torch.where(valid[..., None], samples[key], torch.tensor(7.0))
    states = []
    for given in (samples, disturbed):
        torch.manual_seed(1)
        reward = made(RND, envs)
        reward.compute({**given, "valid": valid})
        state = reward.state_dict()
        del state["statistics"]["rewards"]  # of all rows
        states.append(state)
    assert_same(*states)
    assert states[0]["statistics"]["observations"]["count"] == pytest.approx(29, abs=1e-3)


def test_a_reward_must_be_bound_and_stays_bound() -> None:
    envs = fake_envs()
    reward = RND()
    with pytest.raises(
        ValueError, match=r"does not know its spaces yet; give it to an agent \(PPO\(…, intrinsic_reward"
    ):
        reward.compute(rollout(envs))
    reward.bind(envs.observation_space, envs.action_space, 2)
    networks = reward.networks["distillation"]
    assert reward.bind(envs.observation_space, envs.action_space, 2).networks["distillation"] is networks
    with pytest.raises(ValueError, match=r"was made for 2 environments .* not for 3 environments"):
        reward.bind(envs.observation_space, envs.action_space, 3)


def test_a_state_of_other_environments_leaves_single_episodes_out() -> None:
    envs = fake_envs()
    reward = made(PseudoCounts, envs, gamma=0.9)
    reward.compute(rollout(envs))
    more = fake_envs(num_envs=5)
    other = made(PseudoCounts, more, gamma=0.9)
    with pytest.warns(UserWarning, match="saved with 2 environments, here are 5"):
        other.load_state_dict(reward.state_dict())
    assert [len(rows) for rows in other.memory] == [0] * 5
    assert_same(dict(other.networks.state_dict()), dict(reward.networks.state_dict()))
    assert other.compute(rollout(more)).shape == (16, 5)


def test_the_parts_of_a_mix_have_no_stream_of_their_own() -> None:
    with pytest.raises(ValueError, match="in a mix these are the mix's"):
        Fabric(RND(own_value=True), ICM())
    with pytest.raises(TypeError, match=r"takes no \['beta'\]"):
        Fabric(RND(), ICM(), beta=2.0)
    assert Fabric(RND(), ICM(), own_value=True, discount=0.9).discount == 0.9


@pytest.mark.parametrize("skip", [False, True])
def test_a_loss_that_is_not_finite_leaves_the_weights_finite(skip: bool) -> None:
    envs = fake_envs()
    reward = made(RND, envs, batch_size=16)
    reward.skip_non_finite = skip
    before = copy.deepcopy(reward.networks.state_dict())
    ordinary = reward.losses
    calls = []

    def losses(batch: Any) -> Tensor:
        calls.append(len(batch.ended))
        return ordinary(batch) * (torch.inf if len(calls) == 1 else 1.0)

    reward.losses = losses
    if skip:
        with pytest.warns(UserWarning, match="1 of 2 minibatches of RND gave NaN or infinity"):
            reward.update(rollout(envs))
        assert calls == [16, 16]
    else:
        with pytest.raises(NonFiniteError, match="loss of RND or its gradient; it was not applied"):
            reward.update(rollout(envs))
        assert_same(dict(reward.networks.state_dict()), dict(before))
    assert all(torch.isfinite(part).all() for part in reward.networks.parameters())
