"""Only the algorithm is the library's, everything around it the real Stable-Baselines3's; and the other way round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common import buffers, callbacks, logger, on_policy_algorithm, policies, vec_env
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

import proximo
from proximo import envs
from proximo.functional import schedules
from proximo.training.callbacks import CheckpointCallback, EvalCallback

QUICK: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 0, "device": "cpu"}


def normalised(n_envs: int = 2, **options: Any) -> vec_env.VecNormalize:
    return vec_env.VecNormalize(make_vec_env("CartPole-v1", n_envs), **options)


class TestRecognised:
    def test_model_and_what_it_holds(self) -> None:
        model = proximo.PPO("MlpPolicy", "CartPole-v1", **QUICK)
        assert isinstance(model, BaseAlgorithm)
        assert isinstance(model, on_policy_algorithm.OnPolicyAlgorithm)
        assert not isinstance(model, stable_baselines3.PPO)
        assert isinstance(model.policy, policies.ActorCriticPolicy)
        assert isinstance(model.rollout_buffer, buffers.RolloutBuffer)
        assert isinstance(model.get_env(), vec_env.DummyVecEnv)
        assert isinstance(EvalCallback("CartPole-v1"), callbacks.BaseCallback)

    @pytest.mark.parametrize("name", ["VecNormalize", "VecMonitor", "VecCheckNan"])
    def test_wrappers_are_found_by_their_functions(self, name: str) -> None:
        ours = getattr(envs, name)(envs.make_vec_env("CartPole-v1"))
        theirs = getattr(vec_env, name)(make_vec_env("CartPole-v1"))
        assert vec_env.unwrap_vec_wrapper(ours, getattr(vec_env, name)) is ours
        assert envs.unwrap_vec_wrapper(theirs, getattr(envs, name)) is theirs
        assert vec_env.is_vecenv_wrapped(theirs, getattr(vec_env, name))

    def test_monitor_of_either_library(self) -> None:
        ours, theirs = envs.make_vec_env("CartPole-v1"), envs.DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
        assert ours.env_is_wrapped(Monitor) == [True]
        assert theirs.env_is_wrapped(envs.Monitor) == [True]
        assert ours.env_is_wrapped(gym.wrappers.TimeAwareObservation) == [False]

    @pytest.mark.parametrize(
        "imports",
        [
            "import stable_baselines3, proximo",
            "import proximo; from proximo import PPO, envs; import stable_baselines3",
            "from proximo import PPO; from stable_baselines3.common.vec_env.base_vec_env import VecEnv",
        ],
    )
    def test_whichever_is_imported_first(self, imports: str) -> None:
        script = (
            f"{imports}\nfrom proximo.envs import VecEnv as ours\nfrom proximo.agents.ppo import PPO\n"
            "from stable_baselines3.common.vec_env import VecEnv\n"
            "from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm\n"
            "assert issubclass(ours, VecEnv) and issubclass(PPO, OnPolicyAlgorithm)"
        )
        subprocess.run([sys.executable, "-c", script], check=True)

    def test_it_is_not_imported_for_that(self) -> None:
        script = "import sys, proximo.sb3.common.vec_env; assert 'stable_baselines3' not in sys.modules"
        subprocess.run([sys.executable, "-c", script], check=True)


class TestVectorEnvironments:
    def test_given_environment_is_what_the_model_shows(self) -> None:
        env = normalised()
        model = proximo.PPO("MlpPolicy", env, **QUICK)
        assert model.get_env() is env
        assert model.get_vec_normalize_env() is env

    def test_statistics_are_saved_and_resumed(self, tmp_path: Path) -> None:
        env = normalised()
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(64)
        assert env.obs_rms.count > 64
        model.save(tmp_path / "model")
        other = normalised()
        resumed = proximo.PPO.load(tmp_path / "model", env=other)
        np.testing.assert_array_equal(other.obs_rms.mean, env.obs_rms.mean)
        assert other.ret_rms.var == env.ret_rms.var
        resumed.learn(64, reset_num_timesteps=False)
        assert other.obs_rms.count > env.obs_rms.count

    def test_statistics_that_were_loaded_are_left_alone(self, tmp_path: Path) -> None:
        env, other = normalised(), normalised()
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(64)
        model.save(tmp_path / "model")
        other.obs_rms.update(np.full((1000, 4), 7.0))
        mean = other.obs_rms.mean.copy()
        proximo.PPO.load(tmp_path / "model", env=other)
        np.testing.assert_array_equal(other.obs_rms.mean, mean)

    def test_stacked_images_are_transposed_by_its_own_wrapper(self) -> None:
        env = vec_env.VecFrameStack(make_vec_env(_Picture, 2), 2)
        model = proximo.PPO("CnnPolicy", env, **QUICK).learn(32)
        shown = model.get_env()
        assert isinstance(shown, vec_env.VecTransposeImage)
        assert shown.venv is env
        assert model.observation_space.shape == (6, 36, 36)

    @pytest.mark.parametrize("name", ["VecNormalize", "VecMonitor", "VecFrameStack", "VecCheckNan"])
    @pytest.mark.parametrize("outside", [envs, vec_env], ids=["own wrapper", "its wrapper"])
    def test_wrappers_of_one_around_environments_of_the_other(self, outside: Any, name: str) -> None:
        inside = vec_env if outside is envs else envs
        plain = inside.DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1", max_episode_steps=8))] * 2)
        env = getattr(outside, name)(plain, **({"n_stack": 2} if name == "VecFrameStack" else {}))
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(64)
        assert model.get_env() is env
        assert model.get_vec_normalize_env() is (env if name == "VecNormalize" else None)
        assert [episode["l"] for episode in model.ep_info_buffer] == [8] * 8
        assert evaluate_policy(model, env, n_eval_episodes=2, warn=False)[0] == 8.0
        theirs = stable_baselines3.PPO("MlpPolicy", env, **QUICK).learn(64)
        assert theirs.num_timesteps == 64

    def test_workers(self) -> None:
        env = make_vec_env("CartPole-v1", 2, vec_env_cls=vec_env.SubprocVecEnv)
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(64)
        assert model.num_timesteps == 64
        env.close()

    def test_lost_lives_are_no_episodes(self) -> None:
        """Ends below a monitor, as EpisodicLifeEnv makes them, are not counted; those of its own are."""
        env = vec_env.DummyVecEnv([lambda: _Halves(Monitor(gym.make("CartPole-v1", max_episode_steps=8)))])
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(32)
        assert [episode["l"] for episode in model.ep_info_buffer] == [8, 8, 8, 8]

    def test_unmonitored_episodes_are_counted(self) -> None:
        env = vec_env.DummyVecEnv([lambda: gym.make("CartPole-v1", max_episode_steps=8)])
        model = proximo.PPO("MlpPolicy", env, **QUICK).learn(32)
        assert [episode["l"] for episode in model.ep_info_buffer] == [8, 8, 8, 8]

    def test_evaluation_of_the_models_own_environment(self, recwarn: pytest.WarningsRecorder) -> None:
        model = proximo.PPO("MlpPolicy", "CartPole-v1", **QUICK)
        mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=2)
        assert mean > 0
        assert not [warning for warning in recwarn if "Monitor" in str(warning.message)]

    def test_checkpoints_at_boundaries(self, tmp_path: Path) -> None:
        from proximo.training.checkpoints import PeriodicCheckpoints

        model = proximo.PPO("MlpPolicy", normalised(), **QUICK)
        model.learn(128, callback=PeriodicCheckpoints(tmp_path, every_steps=64, boundary=True))
        latest = max(tmp_path.rglob("*.zip"))
        env = normalised()
        assert proximo.PPO.load(latest, env=env).resume().num_timesteps == 128
        assert env.obs_rms.count > 1


class TestCallbacksAndLoggers:
    def test_its_own_callbacks(self, tmp_path: Path) -> None:
        train, held_out = normalised(), normalised(1, training=False, norm_reward=False)
        model = proximo.PPO("MlpPolicy", train, **QUICK)
        after, ends = callbacks.StopTrainingOnRewardThreshold(1.0), callbacks.StopTrainingOnMaxEpisodes(10_000)
        evaluation = callbacks.EvalCallback(
            held_out, callback_on_new_best=after, eval_freq=40, best_model_save_path=str(tmp_path), verbose=0
        )
        checkpoints = callbacks.CheckpointCallback(16, str(tmp_path), save_vecnormalize=True)
        model.learn(10_000, callback=[checkpoints, evaluation, ends])
        assert model.num_timesteps == 80  # any return of CartPole reaches the threshold
        np.testing.assert_array_equal(held_out.obs_rms.mean, train.obs_rms.mean)
        assert ends.n_episodes > 0
        saved = {path.name for path in tmp_path.iterdir()}
        assert {"best_model.zip", "rl_model_32_steps.zip", "rl_model_vecnormalize_64_steps.pkl"} <= saved
        assert isinstance(
            vec_env.VecNormalize.load(str(tmp_path / "rl_model_vecnormalize_64_steps.pkl"), train), vec_env.VecNormalize
        )

    def test_own_callbacks_with_its_environments(self, tmp_path: Path) -> None:
        train, held_out = normalised(), normalised(1, training=False, norm_reward=False)
        evaluation = EvalCallback(held_out, eval_freq=16, n_eval_episodes=1, verbose=0)
        checkpoints = CheckpointCallback(32, str(tmp_path), save_vecnormalize=True)
        proximo.PPO("MlpPolicy", train, **QUICK).learn(64, callback=[evaluation, checkpoints])
        assert np.isfinite(evaluation.best_mean_reward)
        assert held_out.obs_rms.count > 1
        assert (tmp_path / "rl_model_vecnormalize_64_steps.pkl").exists()

    def test_its_logger(self, tmp_path: Path) -> None:
        model = proximo.PPO("MlpPolicy", "CartPole-v1", **QUICK)
        model.set_logger(logger.configure(str(tmp_path), ["csv", "json"]))
        model.learn(64)
        columns = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
        assert {"train/loss", "rollout/ep_rew_mean", "time/total_timesteps"} <= set(columns)

    def test_own_environments_and_callbacks_with_its_algorithm(self) -> None:
        from proximo.sb3 import SAC

        env = envs.VecNormalize(envs.make_vec_env("Pendulum-v1", 2))
        held_out = envs.VecNormalize(envs.make_vec_env("Pendulum-v1"), training=False, norm_reward=False)
        evaluation = EvalCallback(held_out, eval_freq=10, n_eval_episodes=1, verbose=0)
        model = SAC("MlpPolicy", env, learning_starts=8, device="cpu").learn(32, callback=evaluation)
        assert type(model) is stable_baselines3.SAC
        assert model.get_vec_normalize_env() is env
        assert held_out.obs_rms.count == pytest.approx(env.obs_rms.count - 2 * 6)  # steps since the last evaluation
        assert evaluation.n_calls == 16


class TestClassesAsArguments:
    @pytest.mark.parametrize(
        ("policy", "ours", "algorithm"),
        [
            (stable_baselines3.ppo.MlpPolicy, "ActorCriticPolicy", proximo.PPO),
            (stable_baselines3.a2c.MlpPolicy, "ActorCriticPolicy", proximo.A2C),
            (RecurrentActorCriticPolicy, "RecurrentActorCriticPolicy", proximo.RecurrentPPO),
        ],
    )
    def test_policies(self, policy: Any, ours: str, algorithm: Any) -> None:
        model = algorithm(policy, "CartPole-v1", n_steps=32)
        assert type(model.policy).__module__.startswith("proximo.")
        assert type(model.policy).__name__ == ours
        model.learn(32)

    def test_policy_derived_from_its_own_is_refused_with_advice(self) -> None:
        with pytest.raises(TypeError, match=r"proximo\.sb3\.common\.policies"):
            proximo.PPO(type("Mine", (policies.ActorCriticPolicy,), {}), "CartPole-v1")

    def test_extractors(self, tmp_path: Path) -> None:
        model = proximo.PPO(
            "CnnPolicy", make_vec_env(_Picture), policy_kwargs={"features_extractor_class": NatureCNN}, **QUICK
        )
        assert type(model.policy.features_extractor).__module__.startswith("proximo.")
        model.save(tmp_path / "model")
        proximo.PPO.load(tmp_path / "model")  # asks for no class

    def test_extractor_derived_from_its_base(self) -> None:
        class Doubled(BaseFeaturesExtractor):
            def __init__(self, space: spaces.Box) -> None:
                super().__init__(space, 8)

            def forward(self, observations: torch.Tensor) -> torch.Tensor:
                return torch.cat([observations, observations], 1)

        kwargs = {"features_extractor_class": Doubled}
        model = proximo.PPO("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, **QUICK).learn(32)
        assert model.policy.features_dim == 8

    def test_buffer(self) -> None:
        model = proximo.PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=buffers.RolloutBuffer, **QUICK)
        assert model.backend == "fused"

    def test_buffer_derived_from_its_own_trains_like_the_librarys(self) -> None:
        """The same rollout and minibatches as Stable-Baselines3 itself makes of the same samples."""

        class Counting(buffers.RolloutBuffer):
            added = drawn = 0

            def add(self, *args: Any, **kwargs: Any) -> None:
                self.added += 1
                super().add(*args, **kwargs)

            def get(self, batch_size: int | None = None) -> Any:
                self.drawn += 1
                return super().get(batch_size)

        model = proximo.PPO("MlpPolicy", make_vec_env("CartPole-v1", 2), rollout_buffer_class=Counting, **QUICK)
        before = [parameter.clone() for parameter in model.policy.parameters()]
        model.learn(64)
        assert (model.rollout_buffer.added, model.rollout_buffer.drawn) == (32, 2)
        assert model.backend == "torch: rollout buffer is Counting"
        assert any(not torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True))
        plain = proximo.PPO("MlpPolicy", make_vec_env("CartPole-v1", 2), **QUICK)
        plain._setup_learn(64)
        plain.collect_rollouts(plain.env, plain._callback, plain.rollout_buffer, 32)
        np.testing.assert_allclose(model.rollout_buffer.returns, plain.rollout_buffer.returns, rtol=1e-5)


class TestSchedules:
    SCHEDULES = (
        (ConstantSchedule(0.1), schedules.ConstantSchedule(0.1)),
        (LinearSchedule(0.1, 0.0, 0.5), schedules.LinearSchedule(0.1, 0.0, 0.5)),
        (
            FloatSchedule(LinearSchedule(0.1, 0.0, 0.5)),
            schedules.FloatSchedule(schedules.LinearSchedule(0.1, 0.0, 0.5)),
        ),
        (FloatSchedule(0.1), schedules.FloatSchedule(0.1)),
    )

    @pytest.mark.parametrize(("theirs", "ours"), SCHEDULES)
    def test_saved_as_what_they_mean(self, theirs: Any, ours: Any, tmp_path: Path) -> None:
        model = proximo.PPO("MlpPolicy", "CartPole-v1", learning_rate=theirs, clip_range=theirs, **QUICK)
        model.save(tmp_path / "model")
        loaded = proximo.PPO.load(tmp_path / "model", env="CartPole-v1")
        assert loaded.learning_rate == ours
        assert loaded.clip_range == schedules.FloatSchedule(ours)
        loaded.learn(32, reset_num_timesteps=False)

    @pytest.mark.parametrize(("theirs", "ours"), SCHEDULES)
    def test_converted(self, theirs: Any, ours: Any, tmp_path: Path) -> None:
        from proximo.persistence.sb3_files import write_foreign

        model = proximo.PPO("MlpPolicy", "CartPole-v1", learning_rate=theirs, **QUICK)
        write_foreign(model, tmp_path / "model.zip")
        rate = FloatSchedule(stable_baselines3.PPO.load(tmp_path / "model.zip").learning_rate)
        assert [rate(progress) for progress in (1.0, 0.8, 0.2)] == [ours(progress) for progress in (1.0, 0.8, 0.2)]

    def test_own_function_need_not_be_given_twice(self, tmp_path: Path) -> None:
        """An argument of load() supplies what the file could not hold; custom_objects is not needed then."""
        proximo.PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda _: 0.1, **QUICK).save(tmp_path / "model")
        assert proximo.PPO.load(tmp_path / "model", learning_rate=0.2).learning_rate == 0.2


class _Picture(gym.Env):
    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros((36, 36, 3), np.uint8), {}

    def step(self, action: Any) -> Any:
        return np.full((36, 36, 3), action, np.uint8), 1.0, False, bool(self.np_random.random() < 0.1), {}


class _Halves(gym.Wrapper):
    """Ends every fourth step, as a lost life does: the game goes on."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.steps, self.over = 0, True

    def reset(self, **options: Any) -> Any:
        if self.over:
            return self.env.reset(**options)
        return self.last, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        # pushing against the pole's fall keeps it up for eight steps
        observation, reward, terminated, truncated, info = self.env.step(int(self.unwrapped.state[2] > 0))
        self.over, self.last = terminated or truncated, observation
        return observation, reward, terminated or self.steps % 4 == 0, truncated, info
