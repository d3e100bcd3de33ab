"""Evaluation counts the same episodes as Stable-Baselines3's, on every kind of environment."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as sb3_evaluate_policy

from proximo import MaskablePPO, RecurrentPPO
from proximo.analysis.evaluation import Evaluation, evaluate, evaluate_policy
from proximo.envs import ActionMasker, DummyVecEnv, Monitor, VecMonitor, VecNormalize, make_vec_env
from proximo.envs.testing.environments import InvalidActionEnvDiscrete
from proximo.functional.statistics import mean_interval
from proximo.sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked


class Countdown(gym.Env):
    """Episodes of given lengths in turn; the observation is the steps left; each step pays 1.

    The last step of an episode of more than three steps reports a success; longer ones are cut off as truncated.
    """

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, lengths):
        self.lengths = list(lengths)
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.length = self.left = self.lengths[self.episode % len(self.lengths)]
        return np.array([self.left], np.float32), {}

    def step(self, action):
        self.left -= 1
        over = self.left == 0
        info = {"is_success": self.length > 3} if over else {}
        truncated = over and self.length > 5
        return np.array([self.left], np.float32), 1.0, over and not truncated, truncated, info


class TenTimes(gym.RewardWrapper):
    def reward(self, reward):
        return 10.0 * reward


class LifeLoss(gym.Wrapper):
    """Ends the episode outwardly every two steps, as Atari's EpisodicLifeEnv does at a lost life."""

    def reset(self, **kwargs):
        self.steps = 0
        if self.unwrapped.episode < 0 or self.unwrapped.left == 0:
            return self.env.reset(**kwargs)
        return np.array([self.unwrapped.left], np.float32), {}

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        return observation, reward, terminated or self.steps == 2, truncated, info


class Recorder:
    """A predictor that remembers what it is asked, and carries a state of its own."""

    def __init__(self):
        self.calls = []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        state = np.zeros(len(observation), int) if state is None else state
        state = np.where(episode_start, 1, state + 1)  # the step within the episode
        self.calls.append((observation.copy(), state.copy(), episode_start.copy(), deterministic))
        return np.zeros(len(observation), int), state


def countdowns(*lengths, wrap=Monitor):
    return DummyVecEnv([lambda each=each: wrap(Countdown(each)) for each in lengths])


@pytest.fixture(scope="module")
def model():
    return PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")


@pytest.mark.parametrize(("environments", "episodes"), [(1, 3), (3, 7), (4, 2)])
@pytest.mark.parametrize("deterministic", [True, False])
def test_equals_sb3_on_cartpole(model, environments, episodes, deterministic):
    results = []
    for make, run in ((make_vec_env, evaluate_policy), (sb3_make_vec_env, sb3_evaluate_policy)):
        env = make("CartPole-v1", environments, seed=5)
        model.set_random_seed(1)
        results.append(run(model, env, episodes, deterministic=deterministic, return_episode_rewards=True))
    assert results[0] == results[1]
    assert len(results[0][0]) == episodes


def test_mean_and_deviation_equal_sb3(model):
    ours = evaluate_policy(model, make_vec_env("CartPole-v1", 2, seed=3), 6)
    theirs = sb3_evaluate_policy(model, sb3_make_vec_env("CartPole-v1", 2, seed=3), 6)
    np.testing.assert_allclose(ours, theirs)


def test_episodes_are_shared_out_without_favouring_short_ones():
    # counting whatever ends first would take the five short episodes of the first environment
    evaluation = evaluate(Recorder(), countdowns([2], [9]), 5)
    assert sorted(evaluation.episode_lengths) == [2, 2, 9, 9, 9]
    assert evaluation.episode_rewards == tuple(map(float, evaluation.episode_lengths))


def test_progress_counts_the_episodes_that_ended(model):
    counts = []
    evaluation = evaluate(model, make_vec_env("CartPole-v1", n_envs=2, seed=1), 5, progress=counts.append)
    assert (counts[0], counts[-1]) == (0, 5)
    assert counts == sorted(counts)
    assert len(counts) >= max(evaluation.episode_lengths)


def test_fewer_episodes_than_environments():
    assert evaluate(Recorder(), countdowns([2], [3], [4]), 2).episode_lengths == (3, 4)


def test_interval_success_and_text():
    evaluation = evaluate(Recorder(), countdowns([2, 4, 6, 8]), 4)
    assert evaluation.episode_rewards == (2.0, 4.0, 6.0, 8.0)
    assert evaluation.mean == 5.0
    assert evaluation.std == pytest.approx(np.std([2, 4, 6, 8]))
    assert evaluation.interval == mean_interval([2, 4, 6, 8])
    assert evaluation.successes == (False, True, True, True)
    assert evaluation.success_rate == 0.75
    assert str(evaluation) == "mean return 5.0 [0.9, 9.1] over 4 episodes, 75 % successful"
    assert Evaluation((1.0,), (1,)).success_rate is None


def test_monitor_below_other_wrappers_is_believed():
    env = DummyVecEnv([lambda: TenTimes(Monitor(Countdown([3])))])
    assert evaluate(Recorder(), env, 2).episode_rewards == (3.0, 3.0)


def test_lost_lives_do_not_end_a_monitored_episode():
    env = DummyVecEnv([lambda: LifeLoss(Monitor(Countdown([5, 6])))])
    evaluation = evaluate(Recorder(), env, 2)
    assert evaluation.episode_lengths == (5, 6)


def test_unmonitored_environment_warns_and_is_counted_from_outside():
    env = DummyVecEnv([lambda: TenTimes(Countdown([3]))])
    with pytest.warns(UserWarning, match="has no Monitor"):
        assert evaluate(Recorder(), env, 2).episode_rewards == (30.0, 30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(Recorder(), env, 1, warn=False).episode_lengths == (3,)
        assert evaluate(Recorder(), VecMonitor(env), 1).episode_rewards == (30.0,)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasium_vector_envs_in_every_autoreset_mode(mode):
    vector_env = SyncVectorEnv([lambda: Countdown([2, 3]), lambda: Countdown([4, 9])], autoreset_mode=mode)
    evaluation = evaluate(Recorder(), vector_env, 4)
    assert sorted(evaluation.episode_lengths) == [2, 3, 4, 9]
    assert sorted(evaluation.episode_rewards) == [2.0, 3.0, 4.0, 9.0]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_memory_starts_again_with_every_episode(mode):
    """At the first observation of an episode (5 steps left) the predictor is told to forget, in every mode."""
    recorder = Recorder()
    evaluate(recorder, SyncVectorEnv([lambda: Countdown([5])], autoreset_mode=mode), 3)
    steps = [(int(observation[0, 0]), int(state[0])) for observation, state, _, _ in recorder.calls]
    played = [pair for pair in steps if pair[0] > 0]
    assert played == [(5, 1), (4, 2), (3, 3), (2, 4), (1, 5)] * 3


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_callback_path_counts_the_same_in_every_autoreset_mode(mode):
    def make():
        return SyncVectorEnv([lambda: Countdown([2, 3]), lambda: Countdown([4, 9])], autoreset_mode=mode)

    assert evaluate(Recorder(), make(), 4) == evaluate(Recorder(), make(), 4, callback=lambda *_: None)


def test_callback_sees_what_sb3_shows(model):
    same = (
        "actions",
        "observations",
        "new_observations",
        "rewards",
        "dones",
        "episode_counts",
        "episode_count_targets",
    )

    def watch(run, make):
        seen = []

        def callback(locals_, globals_):
            assert isinstance(globals_, dict)
            index = locals_["i"]
            assert locals_["info"] is locals_["infos"][index]
            running = locals_["current_rewards"][index], locals_["current_lengths"][index]
            step = [locals_[name].tolist() for name in same]
            numbers = (
                index,
                float(locals_["reward"]),
                bool(locals_["done"]),
                locals_["n_envs"],
                locals_["n_eval_episodes"],
            )
            seen.append((numbers, running, step, list(locals_["episode_rewards"]), list(locals_["episode_lengths"])))

        run(model, make("CartPole-v1", 2, seed=7), 3, callback=callback)
        return seen

    assert watch(evaluate_policy, make_vec_env) == watch(sb3_evaluate_policy, sb3_make_vec_env)


def test_deterministic_is_passed_on():
    for deterministic in (True, False):
        recorder = Recorder()
        evaluate_policy(recorder, countdowns([2]), 1, deterministic=deterministic)
        assert [call[3] for call in recorder.calls] == [deterministic] * 2


def test_normalised_rewards_do_not_count(model):
    env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), training=False)
    rewards, lengths = evaluate_policy(model, env, 4, return_episode_rewards=True)
    assert rewards == lengths


def test_an_env_id_a_single_env_and_a_real_sb3_env(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(evaluate(model, "CartPole-v1", 2).episode_rewards) == 2
        assert len(evaluate(model, Monitor(gym.make("CartPole-v1")), 2).episode_rewards) == 2
    ours = evaluate(model, sb3_make_vec_env("CartPole-v1", 2, seed=11), 4)
    rewards, lengths = sb3_evaluate_policy(
        model, sb3_make_vec_env("CartPole-v1", 2, seed=11), 4, return_episode_rewards=True
    )
    assert list(ours.episode_rewards) == rewards
    assert list(ours.episode_lengths) == lengths


def test_images_reach_a_predictor_as_the_environment_gives_them():
    class Pictures(Countdown):
        observation_space = gym.spaces.Box(0, 255, (40, 50, 3), np.uint8)

        def reset(self, **kwargs):
            super().reset(**kwargs)
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), *super().step(action)[1:]

    recorder = Recorder()
    evaluate(recorder, Monitor(Pictures([2])), 1)
    assert recorder.calls[0][0].shape == (1, 40, 50, 3)


def test_reward_threshold():
    assert evaluate_policy(Recorder(), countdowns([4]), 2, reward_threshold=3.9) == (4.0, 0.0)
    with pytest.raises(AssertionError, match=r"4\.00 does not exceed 4\.00"):
        evaluate_policy(Recorder(), countdowns([4]), 2, reward_threshold=4.0)


def test_render_is_called_every_step():
    env = countdowns([3])
    shown = []
    env.render = lambda: shown.append(1)
    evaluate(Recorder(), env, 1, render=True)
    assert len(shown) == 3


def test_no_episodes():
    with pytest.raises(ValueError, match="n_eval_episodes is 0"):
        evaluate(Recorder(), countdowns([3]), 0)


def masked_env(**options):
    return make_vec_env(InvalidActionEnvDiscrete, 2, seed=3, env_kwargs={"dim": 6, "ep_length": 5} | options)


def test_masks_reach_the_model():
    """With one action left, whoever is told of it is always right."""
    env = masked_env(n_invalid_actions=5)
    model = MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=0)
    assert evaluate(model, env, 4, deterministic=False).episode_rewards == (5.0,) * 4
    assert evaluate(model, env, 4, use_masking=False, deterministic=False).mean < 4.0
    assert evaluate_masked(model, env, 4) == (5.0, 0.0)
    assert evaluate_masked(model, env, 4, use_masking=False)[0] < 4.0
    assert evaluate_policy(model, env, 4, use_masking=True, return_episode_rewards=True) == ([5.0] * 4, [5] * 4)


def test_masks_with_memory():
    model = RecurrentPPO("MlpLstmPolicy", masked_env(), n_steps=8, batch_size=8, seed=0)
    assert evaluate(model, masked_env(n_invalid_actions=5), 4, use_masking=True).mean == 5.0


def test_environments_without_masks():
    with pytest.raises(ValueError, match="no method action_masks"):
        evaluate(Recorder(), countdowns([3]), 1, use_masking=True)


def test_masks_that_allow_nothing():
    env = ActionMasker(Monitor(InvalidActionEnvDiscrete(3)), lambda env: [env.unwrapped.current_step < 2] * 3)
    model = MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match=r"environment 0 allows no action at step 2 of the evaluation"):
        evaluate(model, env, 1, use_masking=True)
