"""rllte's agents: training, modules, evaluation, files, and what they refuse."""

from __future__ import annotations

import copy
import csv
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from proximo.errors import ModelFileError
from proximo.rllte.agent import A2C, PPG, PPO
from proximo.rllte.common.prototype import BaseEncoder, BasePolicy, OnPolicyAgent
from proximo.rllte.env import make_minigrid_env
from proximo.rllte.env.testing import make_box_env, make_discrete_env, make_multibinary_env, make_multidiscrete_env
from proximo.rllte.xploit.encoder import IdentityEncoder, MnihCnnEncoder, PathakCnnEncoder, VanillaMlpEncoder
from proximo.rllte.xploit.policy import OnPolicyDecoupledActorCritic, OnPolicySharedActorCritic
from proximo.rllte.xploit.storage import VanillaRolloutStorage
from proximo.rllte.xplore.augmentation import GaussianNoise, RandomTranslate
from proximo.rllte.xplore.distribution import BaseDistribution, Categorical, DiagonalGaussian, SquashedNormal
from proximo.rllte.xplore.reward import RE3

SMALL: dict[str, Any] = {"num_steps": 16, "batch_size": 32, "hidden_dim": 8}
COMMON = {
    "eval_env": None, "tag": "default", "seed": 1, "device": "cpu", "pretraining": False, "num_steps": 128,
    "feature_dim": 512, "batch_size": 256, "lr": 0.00025, "eps": 1e-5, "hidden_dim": 512, "vf_coef": 0.5,
    "ent_coef": 0.01, "max_grad_norm": 0.5,
}  # fmt: skip
DEFAULTS = {
    PPO: {"clip_range": 0.1, "clip_range_vf": 0.1, "n_epochs": 4, "discount": 0.999, "init_fn": "orthogonal"},
    A2C: {"n_epochs": 4, "discount": 0.99, "init_fn": "orthogonal"},
    PPG: {
        "clip_range": 0.2, "clip_range_vf": 0.2, "policy_epochs": 32, "aux_epochs": 6, "kl_coef": 1.0,
        "num_aux_mini_batch": 4, "num_aux_grad_accum": 1, "discount": 0.999, "init_fn": "xavier_uniform",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", [PPO, A2C, PPG])
def test_signatures_are_rlltes(kind):
    parameters = dict(inspect.signature(kind).parameters)
    assert parameters.pop("env").default is inspect.Parameter.empty
    assert {name: parameter.default for name, parameter in parameters.items()} == COMMON | DEFAULTS[kind]


def test_ppo_with_small_layers_runs_on_the_fused_backend_and_learns(cartpole):
    agent = PPO(cartpole(8), cartpole(4, seed=7), hidden_dim=64, lr=2e-3, discount=0.99, clip_range=0.2)
    assert agent.backend == "fused"
    untrained = agent.eval(8)["episode_reward"]
    agent.train(num_train_steps=3e4)  # rllte's users write floats
    results = agent.eval(8)
    assert results["episode_reward"] > 150.0 > untrained
    assert results.keys() == {"step", "episode", "episode_length", "episode_reward", "total_time"}
    assert results["step"] == agent.global_step == 29 * 1024
    assert results["episode_length"] == results["episode_reward"]
    assert results["episode"] > 100


def test_a_seed_repeats_a_run(cartpole):
    def weights(seed: int) -> torch.Tensor:
        agent = PPO(cartpole(), seed=seed, **SMALL)
        agent.train(num_train_steps=192)
        return nn.utils.parameters_to_vector(agent.policy.parameters())

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_an_update_descends_the_published_loss(kind, cartpole):
    """One epoch in the order of the agent's generator, written out after the loss that rllte documents."""
    agent = kind(cartpole(), num_steps=64, batch_size=128, hidden_dim=16, n_epochs=2, lr=1e-2)
    agent.train(num_train_steps=256)
    twin, generator = copy.deepcopy(agent.policy.network), copy.deepcopy(agent.generator)
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-2, eps=1e-5)
    optimizer.load_state_dict(copy.deepcopy(agent.policy.optimizers["opt"].state_dict()))
    # values that are far from what they were, so that both sides of the clipping occur
    agent.storage.buffer.rollout.values += np.random.default_rng(0).normal(0.0, 0.3, (64, 4)).astype(np.float32)
    batch = {name: getattr(agent.storage, name).flatten() for name in ("actions", "values", "returns", "log_probs")}
    observations, advantages = agent.storage.observations.reshape(-1, 4), agent.storage.advantages.flatten()
    metrics = agent.update()
    totals = []
    for _ in range(2):
        for rows in torch.as_tensor(generator.permutation(np.arange(256))).split(128):
            values, log_probs, entropy = twin.evaluate_actions(observations[rows], batch["actions"][rows])
            values, returns, old = values.flatten(), batch["returns"][rows], batch["values"][rows]
            errors = (values - returns).square()
            policy_loss = -(advantages[rows] * log_probs).mean()
            if kind is PPO:
                ratio = (log_probs - batch["log_probs"][rows]).exp()
                clipped = ratio.clamp(0.9, 1.1) * advantages[rows]
                policy_loss = -torch.min(ratio * advantages[rows], clipped).mean()
                errors = torch.max(errors, (old + (values - old).clamp(-0.1, 0.1) - returns).square())
            value_loss = 0.5 * errors.mean()
            optimizer.zero_grad()
            (0.5 * value_loss + policy_loss - 0.01 * entropy.mean()).backward()
            nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
            optimizer.step()
            totals.append([policy_loss.item(), value_loss.item(), entropy.mean().item()])
    for one, other in zip(agent.policy.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)
    names = ("train/policy_loss", "train/value_loss", "train/entropy_loss")
    np.testing.assert_allclose([metrics[name] for name in names], np.mean(totals, axis=0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make_env", [make_box_env, make_discrete_env, make_multibinary_env, make_multidiscrete_env])
@pytest.mark.parametrize("observations", ["StateObsEnv", "PixelObsEnv", "DictObsEnv"])
def test_every_action_space_with_every_kind_of_observation(make_env, observations):
    env = make_env(observations, num_envs=2, device="cpu", asynchronous=False)
    agent = PPO(env, num_steps=4, batch_size=8, hidden_dim=8, feature_dim=16)
    agent.train(num_train_steps=8)
    assert (
        agent.backend
        == {
            "StateObsEnv": "fused",
            "PixelObsEnv": "torch: features extractor is MnihCnnEncoder",
            "DictObsEnv": "torch: features extractor is RaffinCombinedEncoder",
        }[observations]
    )
    assert np.isfinite(list(agent.metrics.values())).all()


def test_images_go_to_linear_heads_over_the_encoder():
    agent = PPO(
        make_discrete_env("PixelObsEnv", device="cpu", asynchronous=False), feature_dim=32, num_steps=4, batch_size=4
    )
    agent.freeze()
    network = agent.policy.network
    assert isinstance(agent.policy.encoder, MnihCnnEncoder)
    assert network.action_net.in_features == network.value_net.in_features == 32
    assert len(network.mlp_extractor.policy_net) == 0


def test_anneal_lr_falls_linearly_to_zero(cartpole):
    rates: list[float] = []

    class Watched(PPO):
        def update(self) -> Any:
            rates.append(self.policy.optimizers["opt"].param_groups[0]["lr"])
            return super().update()

    agent = Watched(cartpole(), lr=1e-3, **SMALL)
    agent.train(num_train_steps=4 * 64, anneal_lr=True)
    agent.train(num_train_steps=64)
    np.testing.assert_allclose(rates, [1e-3, 7.5e-4, 5e-4, 2.5e-4, 1e-3])


def test_init_model_path_takes_the_weights_and_nothing_else(cartpole):
    first = PPO(cartpole(), **SMALL)
    first.train(num_train_steps=128)
    weights = nn.utils.parameters_to_vector(first.policy.parameters())
    second = PPO(cartpole(), **(SMALL | {"lr": 1e-30}))
    second.train(num_train_steps=64, init_model_path=first.save("start"))
    torch.testing.assert_close(nn.utils.parameters_to_vector(second.policy.parameters()), weights)
    assert second.global_step == 64


def test_a_pretrained_model_is_saved_apart_and_starts_the_real_training(cartpole):
    env = cartpole()
    agent = PPO(env, pretraining=True, **SMALL)
    agent.set(reward=RE3(envs=env, device="cpu"))
    agent.train(num_train_steps=128)
    path = agent.work_dir / "pretrained" / "pretrained_128.zip"
    assert path.is_file()
    PPO(cartpole(), **SMALL).train(num_train_steps=64, init_model_path=path)


def test_an_augmentation_regularises_policy_and_value(cartpole):
    seen: list[torch.Tensor] = []

    class Zeros(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return torch.zeros_like(x)

    agent = PPO(cartpole(), n_epochs=2, **SMALL)
    agent.set(augmentation=Zeros())
    seen.clear()  # set() tries it once
    agent.train(num_train_steps=64)
    assert agent.backend == "torch: observations are augmented"
    assert sum(map(len, seen)) == 2 * 64
    assert agent.metrics["train/aug_loss"] > 0.0  # DrAC's terms: the loss itself is that of plain observations
    noisy = PPG(cartpole(), policy_epochs=1, **SMALL)
    noisy.set(augmentation=GaussianNoise(sigma=0.1))
    noisy.train(num_train_steps=64)
    assert np.isfinite(noisy.metrics["train/kl_loss"])


def test_a_storage_of_your_own_decides_what_is_sampled(cartpole):
    class FirstHalf(VanillaRolloutStorage):
        batches = 0

        def sample(self) -> Any:
            for batch in list(super().sample())[:1]:
                self.batches += 1
                yield batch

    env = cartpole()
    agent = PPO(env, n_epochs=3, **SMALL)
    storage = FirstHalf(env.observation_space, env.action_space, storage_size=16, num_envs=4, batch_size=32)
    agent.set(storage=storage)
    agent.train(num_train_steps=64)
    assert storage.batches == 3
    assert agent.backend == "torch: FirstHalf samples in its own way"


def test_a_vector_encoder_replaces_the_identity(cartpole):
    env = cartpole()
    agent = PPO(env, feature_dim=24, **SMALL)
    agent.set(encoder=VanillaMlpEncoder(env.observation_space, feature_dim=24))
    agent.train(num_train_steps=128)
    assert agent.policy.network.mlp_extractor.policy_net[0].in_features == 24
    assert agent.backend == "torch: features extractor is VanillaMlpEncoder"


def test_a_decoupled_policy_trains_both_of_its_encoders():
    env = make_box_env("StateObsEnv", num_envs=4, device="cpu", asynchronous=False)
    width = env.observation_space.shape[0]
    agent = PPO(env, feature_dim=12, **SMALL)
    agent.set(
        encoder=VanillaMlpEncoder(env.observation_space, feature_dim=12),
        policy=OnPolicyDecoupledActorCritic(
            env.observation_space, env.action_space, 12, hidden_dim=8, opt_kwargs={"lr": 1e-2}
        ),
    )
    agent.freeze()
    network = agent.policy.network
    encoders = [network.pi_features_extractor, network.vf_features_extractor]
    before = [encoder.trunk[0].weight.clone() for encoder in encoders]
    agent.train(num_train_steps=64)
    for encoder, weight in zip(encoders, before, strict=True):
        assert not torch.equal(encoder.trunk[0].weight, weight)
    observations, actions = torch.zeros(5, width), torch.zeros(5, *env.action_space.shape)
    advantages, values, log_probs, entropy = agent.policy.evaluate_actions(observations, actions)
    assert advantages.shape == values.shape == (5, 1)
    assert log_probs.shape == (5,)
    assert entropy.dim() == 0
    agent.policy.zero_grad()
    values.sum().backward()
    known = {id(part) for part in agent.policy.optimizers["actor_opt"].param_groups[0]["params"]}
    assert not any(part.grad is not None and part.grad.any() and id(part) in known for part in network.parameters())


def test_squashed_actions_are_stretched_to_the_bounds():
    env = make_box_env("StateObsEnv", num_envs=2, device="cpu", asynchronous=False)
    agent = PPO(env, num_steps=16, batch_size=32, hidden_dim=8)
    agent.set(distribution=SquashedNormal())
    agent.train(num_train_steps=32)
    assert agent.storage.actions.abs().max() <= 1.0
    assert agent.backend == "torch: action distribution is SquashedDiagGaussianDistribution"


def test_a_distribution_of_your_own_is_asked(cartpole):
    class Stubborn(BaseDistribution):
        def __call__(self, logits: torch.Tensor) -> Any:
            made = Stubborn()
            made.logits = logits
            return made

        def sample(self, *shape: Any) -> torch.Tensor:
            return torch.ones(len(self.logits), dtype=torch.long)

        def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
            return self.logits.log_softmax(dim=1)[:, 1]

        def entropy(self) -> torch.Tensor:
            return torch.zeros(len(self.logits))

        @property
        def mode(self) -> torch.Tensor:
            return self.sample()

    agent = PPO(cartpole(), cartpole(2), **SMALL)
    agent.set(distribution=Stubborn())
    agent.train(num_train_steps=64)
    assert (agent.storage.actions == 1).all()
    assert agent.metrics["train/entropy_loss"] == 0.0
    assert agent.eval(2)["episode_reward"] < 11.0  # always to the right


class TinyPolicy(BasePolicy):
    """A policy that is no network of the library."""

    def freeze(self, encoder: Any, dist: Any) -> None:
        self.encoder = encoder
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)
        self.optimizers["opt"] = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, obs: torch.Tensor, training: bool = True) -> Any:
        made = torch.distributions.Categorical(logits=self.actor(obs))
        if not training:
            return made.probs.argmax(dim=1), {}
        actions = made.sample()
        return actions, {"values": self.critic(obs), "log_probs": made.log_prob(actions)}

    def get_value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs)


def test_a_policy_of_your_own_collects_and_plays(cartpole):
    class Own(OnPolicyAgent):
        def update(self) -> Any:
            (batch,) = self.storage.sample()
            expected = torch.distributions.Categorical(logits=self.policy.actor(batch.observations))
            torch.testing.assert_close(expected.log_prob(batch.actions).detach(), batch.old_log_probs)
            torch.testing.assert_close(self.policy.critic(batch.observations).flatten().detach(), batch.values)
            return {"policy_loss": 1.5}

    env = cartpole()
    agent = Own(env, cartpole(2), num_steps=16)
    agent.set(
        encoder=IdentityEncoder(env.observation_space, 4),
        policy=TinyPolicy(env.observation_space, env.action_space, 4, 8),
        storage=VanillaRolloutStorage(env.observation_space, env.action_space, "cpu", 16, 64, 4),
    )
    agent.train(num_train_steps=128)
    assert agent.metrics == {"train/policy_loss": 1.5}
    assert agent.backend == "torch: policy is TinyPolicy"
    assert agent.eval(2)["episode_length"] >= 8
    with pytest.raises(TypeError, match=r"PPO trains policies of .* got TinyPolicy"):
        PPO(env, **SMALL).set(policy=agent.policy)


@pytest.mark.parametrize("method", ["orthogonal", "xavier_uniform", "xavier_normal", "identity"])
def test_init_fn_starts_the_weights(method, cartpole):
    agent = PPO(cartpole(), hidden_dim=64, init_fn=method, num_steps=16, batch_size=64)
    agent.freeze()
    network = agent.policy.network
    hidden = network.mlp_extractor.policy_net[2]
    if method == "identity":
        assert hidden.bias.any()  # PyTorch's own start
        return
    assert not hidden.bias.any()
    deviation = hidden.weight.std().item()
    assert deviation == pytest.approx(np.sqrt(2 / 64), rel=0.05)  # √2 · that of a matrix that keeps the scale
    assert network.action_net.weight.abs().max() < 0.02  # a nearly uniform first policy
    gram = hidden.weight @ hidden.weight.T / 2.0
    orthogonal = torch.allclose(gram, torch.eye(64), atol=1e-4)
    bounded = hidden.weight.abs().max().item() <= np.sqrt(2) * np.sqrt(6 / 128) + 1e-6
    assert (orthogonal, bounded) == {
        "orthogonal": (True, False), "xavier_uniform": (False, True), "xavier_normal": (False, False),
    }[method]  # fmt: skip


def test_one_environment_may_serve_for_training_and_evaluation(cartpole):
    env = cartpole()
    agent = PPO(env, env, **SMALL)
    agent.train(num_train_steps=128, eval_interval=1, num_eval_episodes=2)
    rollout = agent.storage.buffer.rollout
    assert rollout.episode_starts[0].all()  # it was reset after the evaluation before


def test_a_storage_may_be_replaced_between_two_trainings(cartpole):
    env = cartpole()
    agent = PPO(env, **SMALL)
    agent.train(num_train_steps=64)
    first = agent.storage
    agent.set(storage=VanillaRolloutStorage(env.observation_space, env.action_space, "cpu", 16, 16, 4, discount=0.5))
    before = first.observations.clone()
    agent.train(num_train_steps=64)
    assert torch.equal(first.observations, before)
    assert agent.storage.observations.any()


def test_mode_and_freeze(cartpole):
    agent = PPO(cartpole(), **SMALL)
    agent.freeze()
    weights = nn.utils.parameters_to_vector(agent.policy.parameters())
    agent.freeze()  # nothing is started again
    assert torch.equal(nn.utils.parameters_to_vector(agent.policy.parameters()), weights)
    agent.mode(training=False)
    assert not agent.policy.network.training
    agent.mode()
    assert agent.policy.network.training


def test_th_compile_says_that_the_fused_backend_needs_none(cartpole, capsys):
    PPO(cartpole(), **SMALL).train(num_train_steps=64, th_compile=True)
    assert "th_compile is not needed: the fused backend" in capsys.readouterr().out


@pytest.mark.slow
def test_th_compile_compiles_where_pytorch_runs_the_policy(cartpole):
    env = cartpole()
    agent = PPO(env, feature_dim=8, **SMALL)
    agent.set(encoder=VanillaMlpEncoder(env.observation_space, feature_dim=8))
    agent.train(num_train_steps=128, th_compile=True)
    assert agent.policy.encoder._compiled_call_impl is not None
    assert np.isfinite(agent.metrics["train/policy_loss"])


def column_of(path: Path, name: str) -> list[int]:
    with path.open(newline="", encoding="utf-8") as stream:
        return [int(row[name]) for row in csv.DictReader(stream)]


def test_intervals_count_updates(cartpole):
    agent = PPO(cartpole(), cartpole(2), **SMALL)
    agent.train(num_train_steps=7 * 64, log_interval=3, eval_interval=4, save_interval=3, num_eval_episodes=2)
    for name, column in (("progress.csv", "time/total_timesteps"), ("train.log", "step")):
        assert column_of(agent.work_dir / name, column) == [64, 4 * 64, 7 * 64]
    assert column_of(agent.work_dir / "eval.log", "step") == [0, 4 * 64]
    saved = sorted(path.name for path in (agent.work_dir / "model").iterdir())
    assert saved == ["agent_192.zip", "agent_384.zip", "agent_448.zip"]


# -- what is refused


def test_pretraining_without_an_intrinsic_reward(cartpole, empty_folder: Path):
    agent = PPO(cartpole(), pretraining=True, **SMALL)
    with pytest.raises(ValueError, match=r"pretraining=True .* set\(reward=…\)"):
        agent.train(num_train_steps=64)
    assert not (empty_folder / "logs").exists()


class Liar(BaseEncoder):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.float()


def test_an_encoder_of_another_width(cartpole):
    env = cartpole()
    agent = PPO(env, feature_dim=16, **SMALL)
    policy = OnPolicySharedActorCritic(env.observation_space, env.action_space, feature_dim=9)
    with pytest.raises(ValueError, match="IdentityEncoder gives feature_dim 4, but the policy expects 9"):
        agent.set(policy=policy)
    assert agent.policy is not policy
    with pytest.raises(ValueError, match="VanillaMlpEncoder gives feature_dim 32, but the policy expects 4"):
        agent.set(encoder=VanillaMlpEncoder(env.observation_space, feature_dim=32))
    with pytest.raises(ValueError, match="Liar gives 4 features, but says feature_dim 16"):
        agent.set(encoder=Liar(env.observation_space, 16))
    with pytest.raises(ValueError, match="IdentityEncoder changes nothing: feature_dim is 64"):
        IdentityEncoder(env.observation_space)
    with pytest.raises(TypeError, match="expected a subclass of BaseEncoder"):
        agent.set(encoder=nn.Linear(4, 16))
    with pytest.raises(ValueError, match="MnihCnnEncoder reads images"):
        agent.set(encoder=MnihCnnEncoder(env.observation_space, 16))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 3}, "made for 3 environments, the agent has 4"),
        ({"storage_size": 8}, "holds 8 steps, the agent collects num_steps 16"),
        ({"observation_space": spaces.Box(-1.0, 1.0, (5,))}, "made for the observation space"),
        ({"action_space": spaces.Discrete(3)}, "made for the action space"),
    ],
)
def test_a_storage_of_another_shape(changes, message, cartpole):
    env = cartpole()
    options = {"observation_space": env.observation_space, "action_space": env.action_space}
    options |= {"storage_size": 16, "num_envs": 4}
    with pytest.raises(ValueError, match=message):
        PPO(env, **SMALL).set(storage=VanillaRolloutStorage(**(options | changes)))


def test_other_bad_input(cartpole):
    env = cartpole()
    with pytest.raises(ValueError, match="unknown init_fn 'orthogonall'; did you mean 'orthogonal'"):
        PPO(env, init_fn="orthogonall", **SMALL)
    with pytest.raises(ValueError, match="DiagonalGaussian is a distribution of Box actions"):
        PPO(env, **SMALL).set(distribution=DiagonalGaussian())
    with pytest.raises(TypeError, match="reward is 3; expected a subclass of IntrinsicReward"):
        PPO(env, **SMALL).set(reward=3)
    with pytest.raises(ValueError, match="no evaluation environment"):
        PPO(env, **SMALL).eval(1)
    with pytest.raises(ValueError, match="num_train_steps is 0"):
        PPO(env, **SMALL).train(0)
    with pytest.raises(ValueError, match="log_interval is 0"):
        PPO(env, **SMALL).train(64, log_interval=0)
    with pytest.raises(TypeError, match="PPG needs a policy with an auxiliary value"):
        PPG(env, policy_epochs=1, **SMALL).set(
            policy=OnPolicySharedActorCritic(env.observation_space, env.action_space, 4)
        )
    agent = PPO(env, **SMALL)
    agent.set(distribution=Categorical())
    agent.freeze()
    with pytest.raises(ValueError, match="encoder can only be set before train"):
        agent.set(encoder=IdentityEncoder(env.observation_space, 4))

    class Incomplete(OnPolicyAgent):
        pass

    with pytest.raises(ValueError, match="Incomplete lacks encoder, policy, storage"):
        Incomplete(env).train(64)


def test_a_file_of_another_agent(cartpole):
    path = PPO(cartpole(), **SMALL).save("small")
    with pytest.raises(ModelFileError, match="does not fit this PPO"):
        PPO(cartpole(), **(SMALL | {"hidden_dim": 16})).load(path)
    with pytest.raises(ModelFileError):
        PPO(cartpole(), **SMALL).load(Path(__file__))


# -- what does not fit is refused at once


@pytest.mark.parametrize("kind", [PPO, PPG, A2C])
def test_update_needs_a_rollout(kind: Any) -> None:
    agent = kind(make_discrete_env(num_envs=2), num_steps=8)
    with pytest.raises(ValueError, match="trains on a full storage"):
        agent.update()
    agent.freeze()
    with pytest.raises(ValueError, match="8 times storage"):
        agent.update()


@pytest.mark.parametrize(
    "given",
    [{"reward": RE3}, {"distribution": Categorical}, {"augmentation": GaussianNoise}],
    ids=lambda part: next(iter(part)),
)
def test_a_class_is_no_module(given: dict[str, Any]) -> None:
    (part,) = given.values()
    with pytest.raises(TypeError, match=f"the class {part.__name__}; pass an object"):
        PPO(make_discrete_env(num_envs=2), num_steps=8).set(**given)


def test_a_distribution_that_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="distribution is 'Categorical'"):
        PPO(make_discrete_env(num_envs=2), num_steps=8).set(distribution="Categorical")


def test_small_grids_have_an_encoder_that_reads_them(empty_folder: Path) -> None:
    pytest.importorskip("minigrid")
    env = make_minigrid_env(num_envs=2, asynchronous=False)
    agent = PPO(env, num_steps=16, batch_size=16, feature_dim=32, hidden_dim=16, n_epochs=1)
    assert isinstance(agent.encoder, PathakCnnEncoder)
    agent.train(64)
    assert agent.global_step == 64


def test_an_augmentation_keeps_the_shape() -> None:
    agent = PPO(make_discrete_env("PixelObsEnv", num_envs=2), num_steps=8)
    with pytest.raises(ValueError, match="RandomTranslate makes"):
        agent.set(augmentation=RandomTranslate())
    with pytest.raises(ValueError, match="GaussianNoise changes states"):
        agent.set(augmentation=GaussianNoise())


@pytest.mark.parametrize("steps", ["100", float("inf"), float("nan"), 0])
def test_a_number_of_steps_that_is_none(steps: Any) -> None:
    with pytest.raises(ValueError, match="expected a positive number of steps"):
        PPO(make_discrete_env(num_envs=2), num_steps=8).train(steps)
