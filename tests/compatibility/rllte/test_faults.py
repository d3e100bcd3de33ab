"""A test for each fault of rllte that concerns agents, storages and policies; numbers as in the list of faults."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.envs import DummyVecEnv
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.envs.wrappers.monitor import Monitor
from proximo.rllte.agent import PPG, PPO
from proximo.rllte.common.prototype import BaseReward
from proximo.rllte.xploit.encoder import IdentityEncoder, VanillaMlpEncoder
from proximo.rllte.xploit.policy import OnPolicySharedActorCritic
from proximo.rllte.xploit.storage import VanillaRolloutStorage

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


class Steady(gym.Env[Any, Any]):
    """Random vectors, reward 1; ends every ``length`` steps, by a limit or by the task. Actions are written down."""

    observation_space = BOX

    def __init__(self, action_space: spaces.Space[Any], length: int = 5, truncates: bool = True) -> None:
        self.action_space, self.length, self.truncates = action_space, length, truncates
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def _observation(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.actions.append(np.copy(action))
        self.steps += 1
        ends = self.steps == self.length
        return self._observation(), 1.0, ends and not self.truncates, ends and self.truncates, {}


def steady_env(action_space: spaces.Space[Any], num_envs: int = 2, **options: Any) -> TorchVecEnv:
    makers = [lambda: Monitor(Steady(action_space, **options)) for _ in range(num_envs)]
    return TorchVecEnv(DummyVecEnv(makers), "cpu")


class Bonus(BaseReward):
    """An intrinsic reward that pays for the first action."""

    def __init__(self, env: TorchVecEnv) -> None:
        super().__init__(envs=env, rwd_norm_type="none")
        self.seen: dict[str, torch.Tensor] = {}

    def compute(self, samples: dict[str, torch.Tensor], sync: bool = True) -> torch.Tensor:
        self.seen = {key: part.clone() for key, part in samples.items()}
        return 2.0 * (samples["actions"][..., 0] == 0).float()


ACTION_SPACES = [
    spaces.Discrete(3),
    spaces.Box(-0.5, 2.0, (2,), np.float32),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
]


@pytest.mark.parametrize("action_space", ACTION_SPACES, ids=lambda space: type(space).__name__)
def test_fault_3_ppg_runs_its_auxiliary_phase_on_the_cpu_for_every_action_space(action_space):
    agent = PPG(steady_env(action_space), num_steps=16, batch_size=16, hidden_dim=8, policy_epochs=2, lr=1e-2)
    agent.train(num_train_steps=4 * 32)
    assert agent.metrics["train/kl_loss"] > 0.0  # fault 2: rllte's is always 0
    assert agent.metrics["train/aux_value_loss"] > 0.0


def auxiliary_phase(**options: Any) -> tuple[PPG, dict[str, torch.Tensor]]:
    """An agent just after its first auxiliary phase, and its parameters just before."""
    settings: dict[str, Any] = {"num_steps": 16, "batch_size": 16, "hidden_dim": 8, "policy_epochs": 2, "lr": 1e-2}
    agent = PPG(steady_env(spaces.Discrete(3)), **(settings | options))
    agent.freeze()
    before: dict[str, torch.Tensor] = {}
    phase = agent.learner.auxiliary_update

    def watched(*arguments: Any) -> Any:
        before.update({name: part.clone() for name, part in agent.policy.network.state_dict().items()})
        return phase(*arguments)

    agent.learner.auxiliary_update = watched
    agent.train(num_train_steps=64)
    assert before
    return agent, before


def test_fault_1_the_auxiliary_phase_changes_encoder_policy_and_both_values():
    agent, before = auxiliary_phase()
    after = agent.policy.network.state_dict()
    changed = {name for name, part in after.items() if not torch.equal(part, before[name])}
    assert changed >= {
        "mlp_extractor.policy_net.0.weight", "auxiliary_value_net.weight", "value_net.weight", "action_net.weight",
    }  # fmt: skip


def test_fault_4_the_policy_phase_leaves_the_encoder_to_the_policy():
    agent = PPG(steady_env(spaces.Discrete(3)), num_steps=16, batch_size=32, hidden_dim=8, feature_dim=6)
    agent.set(encoder=VanillaMlpEncoder(BOX, feature_dim=6))
    agent.freeze()
    agent.policy.get_value(torch.randn(4, 3)).sum().backward()
    assert all(part.grad is None or not part.grad.any() for part in agent.policy.encoder.parameters())
    assert agent.policy.network.value_net.weight.grad.any()


def test_fault_5_accumulating_two_minibatches_equals_one_of_twice_the_size():
    accumulated, _ = auxiliary_phase(num_aux_mini_batch=4, num_aux_grad_accum=2)
    whole, _ = auxiliary_phase(num_aux_mini_batch=2, num_aux_grad_accum=1)
    others = dict(whole.policy.network.named_parameters())
    for name, part in accumulated.policy.network.named_parameters():
        torch.testing.assert_close(part, others[name], atol=1e-5, rtol=1e-4)


def test_fault_10_num_aux_mini_batch_is_the_number_of_minibatches():
    steps = []
    agent = PPG(
        steady_env(spaces.Discrete(3)),
        num_steps=16, batch_size=16, hidden_dim=8, policy_epochs=2, aux_epochs=3, num_aux_mini_batch=4,
    )  # fmt: skip
    agent.freeze()
    agent.learner.optimizer.adam.register_step_post_hook(lambda *_: steps.append(1))
    agent.train(num_train_steps=64)
    assert len(steps) == 3 * 4
    with pytest.raises(ValueError, match="num_aux_mini_batch is 5; expected a divisor of the 64 samples"):
        PPG(steady_env(spaces.Discrete(3)), num_steps=16, batch_size=16, policy_epochs=2, num_aux_mini_batch=5)


def test_fault_6_an_intrinsic_reward_enters_before_the_advantages():
    agent = PPO(
        steady_env(spaces.Discrete(2), truncates=False), num_steps=64, hidden_dim=16, batch_size=64, lr=1e-2,
        pretraining=True, discount=0.9,
    )  # fmt: skip
    bonus = Bonus(agent.env)
    agent.set(reward=bonus)
    agent.train(num_train_steps=128)
    rollout = agent.storage.buffer.rollout
    np.testing.assert_array_equal(rollout.rewards, 2.0 * (rollout.actions[..., 0] == 0))
    ends = np.flatnonzero(rollout.terminated[:, 0])
    np.testing.assert_allclose(rollout.returns[ends, 0], rollout.rewards[ends, 0], atol=1e-6)
    agent.train(num_train_steps=128 * 15)  # nothing but the intrinsic reward tells the actions apart
    assert (agent.storage.actions == 0).float().mean() > 0.9


def test_fault_6_a_rollouts_next_observations_are_the_final_ones_where_an_episode_ended():
    agent = PPO(steady_env(spaces.Discrete(2), num_envs=1, length=3), num_steps=6, batch_size=6, hidden_dim=8)
    bonus = Bonus(agent.env)
    agent.set(reward=bonus)
    agent.train(num_train_steps=6)
    observations, following = bonus.seen["observations"][:, 0], bonus.seen["next_observations"][:, 0]
    assert bonus.seen["truncateds"][:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    for step in (0, 1, 3, 4):
        torch.testing.assert_close(following[step], observations[step + 1])
    assert not torch.equal(following[2], observations[3])


def test_fault_7_a_truncated_step_keeps_its_reward_and_is_bootstrapped():
    env = steady_env(spaces.Discrete(2), length=4)
    agent = PPO(env, num_steps=8, batch_size=16, hidden_dim=8, discount=0.9)
    agent.train(num_train_steps=16)
    rollout = agent.storage.buffer.rollout
    assert rollout.truncated[3].all()
    assert (rollout.bootstrap_values[3] != 0.0).all()
    np.testing.assert_allclose(rollout.returns[3], 1.0 + 0.9 * rollout.bootstrap_values[3], rtol=1e-5)


def test_fault_7_by_hand_a_truncated_step_is_bootstrapped_too():
    storage = VanillaRolloutStorage(BOX, spaces.Discrete(2), storage_size=2, num_envs=1, discount=0.5, gae_lambda=1.0)
    flag = torch.tensor([0.0])
    for truncated in (1.0, 0.0):
        storage.add(
            torch.zeros(1, 3), torch.zeros(1), torch.tensor([3.0]), flag, flag + truncated, {}, torch.zeros(1, 3),
            log_probs=torch.zeros(1), values=torch.tensor([[4.0]]), bootstrap_values=torch.tensor([10.0]),
        )  # fmt: skip
    storage.compute_returns_and_advantages(torch.tensor([[8.0]]))
    assert storage.returns.flatten().tolist() == [3.0 + 0.5 * 10.0, 3.0 + 0.5 * 8.0]


def test_fault_8_box_actions_start_with_deviation_1_are_clipped_and_their_entropy_is_summed():
    action_space = ACTION_SPACES[1]
    agent = PPO(steady_env(action_space), num_steps=32, batch_size=32, hidden_dim=8)
    agent.freeze()
    assert torch.equal(agent.policy.network.log_std, torch.zeros(2))
    observations = torch.zeros(5, 3)
    _, log_probs, entropy = agent.policy.evaluate_actions(obs=observations, actions=torch.zeros(5, 2))
    assert log_probs.shape == (5,)
    assert entropy.item() == pytest.approx(2 * (0.5 + 0.5 * np.log(2 * np.pi)))
    agent.train(num_train_steps=64)  # the environment refuses actions beyond its bounds
    stored = agent.storage.actions
    assert (stored < -0.5).any()  # what the log-probabilities belong to is not clipped
    played = np.array(agent.vec_env.envs[0].unwrapped.actions)
    np.testing.assert_allclose(played, stored[:, 0].clamp(-0.5, 2.0).numpy())


def test_fault_9_losses_reach_the_log_files(empty_folder: Path, cartpole: Any):
    agent = PPO(cartpole(), tag="fault 9", num_steps=32, batch_size=32, hidden_dim=8)
    agent.train(num_train_steps=3 * 128)
    with open(agent.work_dir / "progress.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    lines = [json.loads(line) for line in (agent.work_dir / "progress.json").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(lines) == 3
    for name in ("train/policy_loss", "train/value_loss", "train/entropy_loss"):
        assert float(rows[-1][name]) == pytest.approx(agent.metrics[name]) == lines[-1][name]


def test_fault_9_two_runs_with_one_tag_in_the_same_second_do_not_collide(empty_folder: Path, cartpole: Any):
    agents = [PPO(cartpole(), tag="twin", num_steps=8, batch_size=32, hidden_dim=8) for _ in range(3)]
    assert not (empty_folder / "logs").exists()  # a constructor makes no folder
    for agent in agents:
        agent.train(num_train_steps=32)
    assert len({agent.work_dir for agent in agents}) == 3
    assert all((agent.work_dir / "model" / "agent_32.zip").is_file() for agent in agents)
    assert Path.cwd() == empty_folder


@pytest.mark.parametrize("kind", [PPO, PPG])
def test_fault_9_training_goes_on_from_a_saved_agent(kind: Any, cartpole: Any):
    options = {"num_steps": 16, "batch_size": 32, "hidden_dim": 8, "lr": 1e-3}
    options |= {"policy_epochs": 2} if kind is PPG else {}
    first = kind(cartpole(), **options)
    first.train(num_train_steps=3 * 64)
    path = first.save("agent")
    second = kind(cartpole(), **options)
    second.load(path)
    assert second.global_step == first.global_step == 3 * 64
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    moments = [agent.policy.optimizers["opt"].state_dict()["state"] for agent in (first, second)]
    assert all(torch.equal(moments[0][index]["exp_avg"], moments[1][index]["exp_avg"]) for index in moments[0])
    # and everything else is where it was: environments, random numbers, rollouts of an unfinished phase
    assert second.metrics == {}
    second.train(num_train_steps=2 * 64)
    first.train(num_train_steps=2 * 64)
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    assert first.metrics == second.metrics


def test_a_shared_policy_has_one_optimiser_for_all_its_parameters():
    policy = OnPolicySharedActorCritic(BOX, spaces.Discrete(2), feature_dim=3, hidden_dim=8, opt_kwargs={"lr": 0.5})
    policy.freeze(IdentityEncoder(BOX, 3), None)
    (group,) = policy.optimizers["opt"].param_groups
    assert group["lr"] == 0.5
    assert {id(part) for part in group["params"]} == {id(part) for part in policy.parameters()}
