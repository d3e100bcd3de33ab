"""Live attributes, episodes, the actor-critic's calls, the other learners, and configurations that name everything."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import proximo
from proximo.cli.main import main
from proximo.hsuanwu.common.engine import Engine, HsuanwuEngine, OnPolicyTrainer
from proximo.hsuanwu.env import make_rllte_env
from proximo.hsuanwu.xploit.learner import DrACLearner, PPGLearner, PPOLearner
from proximo.hsuanwu.xplore.augmentation import GaussianNoise, RandomShift
from proximo.hsuanwu.xplore.distribution import Categorical, SquashedNormal
from proximo.hsuanwu.xplore.reward import RE3

from .conftest import TWO_ACTIONS, VECTOR

TINY: dict[str, Any] = {
    "num_train_steps": 192,
    "num_steps": 16,
    "num_test_episodes": 2,
    "encoder": {"name": "VanillaMlpEncoder", "feature_dim": 16},
    "learner": {"name": "PPGLearner", "hidden_dim": 8, "policy_epochs": 4},
}


def cartpole(num_envs: int = 2, seed: int = 1) -> Any:
    return make_rllte_env("CartPole-v1", num_envs, seed=seed, asynchronous=False)


LIVE = {
    "lr": 0.0,
    "ent_coef": 5.0,
    "vf_coef": 7.0,
    "max_grad_norm": 1e-4,
    "clip_range": 1e-6,
    "eps": 10.0,
    "num_policy_mini_batch": 1,
    "num_aux_mini_batch": 2,
    "aux_epochs": 1,
    "kl_coef": 100.0,
    "num_aux_grad_accum": 2,
}


@pytest.mark.parametrize(("name", "value"), LIVE.items(), ids=LIVE)
def test_arguments_are_live_attributes(make_learner, fill, name, value):
    """Two learners alike; one gets another value before the third rollout, which then trains it otherwise."""

    def trained(change: bool) -> torch.Tensor:
        torch.manual_seed(0)
        np.random.seed(0)
        learner = make_learner(policy_epochs=1, lr=1e-2)
        for episode in range(3):
            if change and episode == 2:
                setattr(learner, name, value)
            torch.manual_seed(episode)
            learner.update(fill(learner), episode=episode)
        return torch.cat([part.detach().flatten() for part in learner.network.parameters()])

    assert not torch.equal(trained(change=True), trained(change=False))


def test_the_length_of_a_phase_is_live_too(make_learner, fill):
    learner = make_learner(policy_epochs=3)
    phases = []
    for episode in range(9):
        if episode == 3:
            learner.policy_epochs = 1
        phases += [episode] if "kl_loss" in learner.update(fill(learner), episode=episode) else []
    assert phases == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("name", ["observation_space", "action_space", "device", "feature_dim", "hidden_dim"])
def test_what_makes_the_network_cannot_change(make_learner, name):
    learner = make_learner()
    with pytest.raises(AttributeError, match=f"{name} is built into the network; make a new PPGLearner"):
        setattr(learner, name, 5)


def test_episodes_say_when_an_auxiliary_phase_comes(make_learner, fill):
    learner = make_learner(policy_epochs=3)
    phases = [episode for episode in range(9) if "kl_loss" in learner.update(fill(learner), episode=episode)]
    assert phases == [2, 5, 8]
    for _ in range(4):
        assert "kl_loss" not in learner.update(fill(learner))  # episode 0 begins a phase, each time
    assert "kl_loss" not in learner.update(fill(learner), episode=1)
    with pytest.warns(
        UserWarning, match="episode 7 is number 2 of 3 of its phase, and 1 were expected before it, not 2"
    ):
        metrics = learner.update(fill(learner), episode=7)
    assert "kl_loss" not in metrics


def test_the_actor_critic_reads_encoded_observations(make_learner):
    learner = make_learner()
    obs = torch.randn(5, 4)
    encoded = learner.encoder(obs)
    actions, values, log_probs, entropy = learner.ac.get_action_and_value(encoded)
    assert (actions.shape, values.shape, log_probs.shape, entropy.dim()) == ((5,), (5, 1), (5, 1), 0)
    torch.testing.assert_close(values, learner.get_value(obs))
    same, _, again, _ = learner.ac.get_action_and_value(obs=encoded, actions=actions.unsqueeze(1))
    assert torch.equal(same.flatten(), actions)
    torch.testing.assert_close(again, log_probs)
    torch.testing.assert_close(learner.ac.get_value(encoded), values)
    assert torch.equal(learner.ac.get_action(encoded), learner.act(obs, training=False)[0])
    distribution, critic, auxiliary = learner.ac.get_probs_and_aux_value(encoded)
    torch.testing.assert_close(distribution.log_prob(actions).unsqueeze(1), log_probs)
    assert critic.shape == auxiliary.shape == (5, 1)
    assert learner.ac.get_logits(encoded).logits.shape == (5, 2)
    parts = {id(part) for part in learner.ac.parameters()}
    assert parts == {id(part) for part in learner.network.parameters()} - {
        id(part) for part in learner.encoder.parameters()
    }
    assert learner.ac_opt is learner.network.optimizer


def test_ppo_and_drac_learners(fill):
    torch.manual_seed(0)
    options = {"feature_dim": 16, "hidden_dim": 8, "num_mini_batch": 2}
    plain, regular = (kind(VECTOR, TWO_ACTIONS, "cpu", **options) for kind in (PPOLearner, DrACLearner))
    metrics = plain.update(fill(plain))
    assert metrics.keys() == {"actor_loss", "critic_loss", "entropy"}
    before = [part.clone() for part in regular.network.parameters()]
    metrics = regular.update(fill(regular))
    assert metrics.keys() == {"actor_loss", "critic_loss", "entropy", "aug_loss"}
    assert metrics["aug_loss"] > 0.0
    regular.aug_coef = 0.0
    assert regular.update(fill(regular))["aug_loss"] == 0.0  # weighted, as in the loss
    assert not any(torch.equal(old, new) for old, new in zip(before, regular.network.parameters(), strict=True))
    assert type(regular.aug).__name__ == "GaussianNoise"
    images = DrACLearner({"shape": (3, 12, 12)}, TWO_ACTIONS, "cpu")
    assert (type(images.aug).__name__, images.aug.out) == ("RandomCrop", 12)
    with pytest.raises(ValueError, match="RandomShift changes images"):
        plain.aug = RandomShift()


def test_a_configuration_uses_the_reward_and_the_augmentation_that_it_names():
    named = {"reward": {"name": "RE3", "beta": 0.5}, "augmentation": {"name": "GaussianNoise"}}
    trainer = OnPolicyTrainer(TINY | named, cartpole())
    trainer.train()
    assert isinstance(trainer.model.intrinsic_reward, RE3)
    assert (trainer.learner.irs.beta, trainer.learner.irs.global_step) == (0.5, 6)
    assert isinstance(trainer.model.learner.augmentation, GaussianNoise)
    text = (trainer.work_dir / "progress.csv").read_text(encoding="utf-8")
    assert "rollout/intrinsic_reward_mean" in text
    assert "train/aug_loss" in text
    off = OnPolicyTrainer(TINY | named | {"use_irs": False, "use_aug": False}, cartpole())
    assert (off.model.intrinsic_reward, off.learner.aug) == (None, None)
    pretraining = OnPolicyTrainer(TINY | {"reward": {"name": "RE3"}, "pretraining": True}, cartpole())
    assert pretraining.learner.irs.extrinsic_coef == 0.0


def test_an_engine_is_invoked_with_the_path_of_a_file(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "num_train_steps: 64\nnum_steps: 16\nlearner: {name: PPOLearner, hidden_dim: 8, feature_dim: 8}\n"
        "reward: {name: RE3}\n",
        encoding="utf-8",
    )
    engine = Engine(str(path), cartpole())
    engine.invoke()
    assert Engine is HsuanwuEngine
    assert isinstance(engine.trainer.learner, PPOLearner)
    assert engine.trainer.global_step == 64
    assert engine.trainer.learner.irs.global_step == 2


def test_a_trainer_goes_on_exactly_within_a_phase(tmp_path: Path):
    whole, first = (OnPolicyTrainer(TINY, cartpole()) for _ in range(2))
    first.train()
    path = first.save(tmp_path / "model.zip")
    assert first.model.learner.phase.stored == 2  # of four: six updates
    again = OnPolicyTrainer(TINY, cartpole())
    again.load(path)
    again.train()
    whole.train()
    whole.train()
    for one, other in zip(whole.learner.network.parameters(), again.learner.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_library_reads_what_a_trainer_saves(capsys):
    trainer = OnPolicyTrainer(TINY, cartpole(), cartpole(seed=7))
    trainer.train()
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    model = proximo.PPG.load(trainer.work_dir / "model.zip")
    likeliest, _ = trainer.learner.act(torch.as_tensor(observations), training=False)
    assert model.predict(observations, deterministic=True)[0].tolist() == likeliest.tolist()
    assert model.export(trainer.work_dir / "policy.pt2").largest_difference <= 1e-5
    assert main(["inspect", str(trainer.work_dir / "model.zip")]) == 0
    assert main(["evaluate", str(trainer.work_dir), "--episodes", "2"]) == 0
    assert "PPG on CartPole-v1" in capsys.readouterr().out
    assert main(["watch", str(trainer.work_dir), "--seconds", "0.1"]) == 0
    assert (trainer.work_dir / "video.gif").stat().st_size > 0


def test_a_process_without_this_package_reads_it_too(tmp_path: Path):
    trainer = OnPolicyTrainer(TINY, cartpole())
    trainer.save(tmp_path / "model.zip")
    program = "import sys, proximo; print(proximo.PPG.load(sys.argv[1]).policy.features_extractor)"
    command = [sys.executable, "-c", program, str(tmp_path / "model.zip")]
    assert "VanillaMlpEncoder" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_distributions_are_made_with_their_parameters():
    logits = torch.randn(4, 3)
    made = Categorical(logits=logits)
    torch.testing.assert_close(made.probs, logits.softmax(dim=1))
    torch.testing.assert_close(made.log_prob(torch.zeros(4)), logits.log_softmax(dim=1)[:, 0])
    assert SquashedNormal(torch.zeros(4, 2), torch.ones(4, 2)).sample().abs().max() < 1.0


def test_a_trainer_refuses_to_be_one_of_many_processes(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="OnPolicyTrainer trains in one process, but 2 were started to train together"):
        OnPolicyTrainer(TINY, cartpole())


DEFAULTS = {
    "feature_dim": 256, "lr": 5e-4, "eps": 1e-5, "hidden_dim": 256, "clip_range": 0.2, "n_epochs": 3,
    "num_mini_batch": 8, "vf_coef": 0.5, "ent_coef": 0.01, "max_grad_norm": 0.5,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "more"), [(PPOLearner, {}), (DrACLearner, {"aug_coef": 0.1})])
def test_defaults_are_hsuanwus(kind, more):
    parameters = inspect.signature(kind).parameters
    assert {name: part.default for name, part in parameters.items() if part.default is not part.empty} == {
        **DEFAULTS,
        **more,
    }


def test_an_argument_list_of_seventeen():
    learner = PPGLearner(VECTOR, TWO_ACTIONS, "cpu")
    names = PPGLearner.__init__.__code__.co_varnames[1:18]
    assert len(names) == 17
    assert all(hasattr(learner, name) for name in names)
