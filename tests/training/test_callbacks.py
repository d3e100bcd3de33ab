"""Callbacks: the same calls, files and decisions as Stable-Baselines3's, and no cost for what nobody asked."""

from __future__ import annotations

import io
import os
import warnings

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
from rich.console import Console
from stable_baselines3.common import callbacks as sb3
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from proximo.agents.maskable_ppo import MaskablePPO
from proximo.agents.ppo import PPO
from proximo.envs import DummyVecEnv, Monitor, VecFrameStack, VecMonitor, VecNormalize, make_vec_env
from proximo.envs.testing.environments import InvalidActionEnvDiscrete
from proximo.training import callbacks as ours
from proximo.training.loggers import configure

HOOKS = ("_init_callback", "_on_training_start", "_on_rollout_start", "_on_rollout_end", "_on_training_end")


def make_model(environments=2, n_steps=8, env=None, **options):
    env = env or make_vec_env("CartPole-v1", environments, seed=0)
    settings = {"n_steps": n_steps, "batch_size": 8, "n_epochs": 1, "seed": 0, "device": "cpu"}
    return PPO("MlpPolicy", env, backend="torch", **(settings | options))


def make_sb3_model(environments=2, n_steps=8):
    env = sb3_make_vec_env("CartPole-v1", environments, seed=0)
    settings = {"n_steps": n_steps, "batch_size": 8, "n_epochs": 1, "seed": 0, "device": "cpu"}
    return stable_baselines3.PPO("MlpPolicy", env, **settings)


def recording(module, name, events, stop_at=None):
    """A callback that notes every call with its counters."""

    class Recording(module.BaseCallback):
        def note(self, hook):
            events.append((name, hook, self.n_calls, self.num_timesteps, self.verbose))

        def _on_step(self):
            self.note("_on_step")
            return self.n_calls != stop_at

    for hook in HOOKS:
        setattr(Recording, hook, lambda self, hook=hook: self.note(hook))
    return Recording(verbose=1)


def learn_both(build, total_timesteps=30, **learn_options):
    """Events of ``build(module, events)``'s callback under both libraries."""
    seen = []
    for module, make in ((ours, make_model), (sb3, make_sb3_model)):
        events: list[tuple] = []
        make().learn(total_timesteps, callback=build(module, events), **learn_options)
        seen.append(events)
    return seen


@pytest.mark.parametrize("stop_at", [None, 11])
def test_hooks_come_in_the_order_of_sb3(stop_at):
    our_events, their_events = learn_both(lambda module, events: recording(module, "one", events, stop_at))
    assert our_events == their_events
    assert [event[1] for event in our_events].count("_on_step") == (11 if stop_at else 16)


def test_lists_and_events_call_their_children_as_sb3_does():
    def build(module, events):
        return module.CallbackList(
            [
                recording(module, "first", events),
                module.EveryNTimesteps(6, recording(module, "every six", events)),
                recording(module, "stops", events, stop_at=13),
                recording(module, "last", events),
            ]
        )

    our_events, their_events = learn_both(build)
    assert our_events == their_events
    assert ("every six", "_on_step", 1, 6, 1) in our_events


def test_users_read_the_variables_of_the_training_loop():
    names = (
        "infos",
        "dones",
        "rewards",
        "actions",
        "clipped_actions",
        "values",
        "log_probs",
        "new_obs",
        "n_steps",
        "obs_tensor",
        "episode_starts",
    )
    shapes = {}

    def look(locals_, globals_):
        shapes.update({name: np.shape(locals_[name]) for name in names if name != "infos"})
        assert len(locals_["infos"]) == 2
        assert locals_["total_timesteps"] == 16
        assert locals_["self"].num_timesteps == locals_["rollout_buffer"].n_envs * look.calls
        look.calls += 1
        return True

    look.calls = 1
    make_model().learn(16, callback=look)
    assert look.calls == 9
    assert shapes["rewards"] == shapes["dones"] == (2,)
    assert shapes["values"] == (2, 1)
    assert shapes["new_obs"] == (2, 4)


def test_model_environment_and_logger_are_at_hand():
    class Look(ours.BaseCallback):
        def _init_callback(self):
            assert self.training_env is self.model.get_env()
            assert self.logger is self.model.logger

        def _on_rollout_end(self):
            self.logger.record("own/key", 7.0)

    model = make_model()
    model.set_logger(configure(None, []))
    model.learn(16, callback=Look(), log_interval=None)
    assert model.logger.name_to_value["own/key"] == 7.0


# ---------------------------------------------------------------------- what a callback asks of the loop


class OnlyEnds(ours.BaseCallback):
    def _on_rollout_end(self):
        self.seen = self.num_timesteps


class ReadsSteps(ours.BaseCallback):
    def _on_step(self):
        return True


class Counts(ours.BaseCallback):
    @ours.counters_only
    def _on_step(self):
        return True


class OwnCheckpoint(ours.CheckpointCallback):
    def _on_step(self):
        return super()._on_step()


class OwnDispatch(ours.BaseCallback):
    def on_step(self):
        return True


def instance_method():
    callback = ours.BaseCallback()
    callback._on_step = lambda: True
    return callback


def eval_callback(**options):
    return ours.EvalCallback(make_vec_env("CartPole-v1", 1), **options)


@pytest.mark.parametrize(
    ("make", "steps", "local_variables"),
    [
        (ours.BaseCallback, False, False),
        (OnlyEnds, False, False),
        (ReadsSteps, True, True),
        (Counts, True, False),
        (OwnDispatch, True, True),
        (instance_method, True, True),
        (lambda: ours.EventCallback(ReadsSteps()), False, False),
        (lambda: ours.CallbackList([]), False, False),
        (lambda: ours.CallbackList([OnlyEnds(), OnlyEnds()]), False, False),
        (lambda: ours.CallbackList([OnlyEnds(), Counts()]), True, False),
        (lambda: ours.CallbackList([ours.CallbackList([ReadsSteps()]), Counts()]), True, True),
        (lambda: ours.CallbackList([recording(sb3, "foreign", [])]), True, True),
        (lambda: ours.ConvertCallback(lambda locals_, globals_: True), True, True),
        (lambda: ours.ConvertCallback(None), False, False),
        (lambda: ours.CheckpointCallback(1, "folder"), True, False),
        (lambda: OwnCheckpoint(1, "folder"), True, True),
        (eval_callback, True, False),
        (lambda: eval_callback(callback_after_eval=ours.StopTrainingOnRewardThreshold(1)), True, False),
        (lambda: eval_callback(callback_on_new_best=ReadsSteps()), True, True),
        (lambda: eval_callback(callback_after_eval=ReadsSteps()), True, True),
        (lambda: ours.EveryNTimesteps(1, Counts()), True, False),
        (lambda: ours.EveryNTimesteps(1, ReadsSteps()), True, True),
        (lambda: ours.LogEveryNTimesteps(1), True, False),
        (lambda: ours.StopTrainingOnMaxEpisodes(1), True, True),
        (ours.ProgressBarCallback, True, False),
    ],
)
def test_what_callbacks_want(make, steps, local_variables):
    callback = make()
    assert callback.wants_steps() is steps
    assert callback.wants_locals() is local_variables


def test_nobody_is_called_who_wants_nothing():
    class Watched(OnlyEnds):
        steps = 0

        def update_child_locals(self, locals_):
            assert "infos" not in locals_

    callback = Watched()
    make_model().learn(32, callback=callback)
    assert callback.n_calls == 0
    assert callback.seen == 32  # still right at the end of a rollout


def test_counting_callbacks_get_no_infos():
    callback = Counts()
    make_model().learn(16, callback=callback)
    assert callback.n_calls == 8
    assert "infos" not in callback.locals


# ---------------------------------------------------------------------- what learn(callback=…) takes


def test_as_callback_takes_what_learn_takes():
    base = OnlyEnds()
    assert ours.as_callback(base) is base
    assert ours.as_callback(None).wants_steps() is False
    assert isinstance(ours.as_callback(lambda locals_, globals_: True), ours.ConvertCallback)
    several = ours.as_callback([base, lambda locals_, globals_: True])
    assert several.callbacks[0] is base
    assert several.wants_locals()


@pytest.mark.parametrize("wrong", [3, "callback", ReadsSteps])
def test_as_callback_refuses_the_rest(wrong):
    with pytest.raises(TypeError, match="expected a BaseCallback instance, a list of them, or a function"):
        ours.as_callback(wrong)


def test_callback_list_needs_a_list():
    with pytest.raises(TypeError, match="takes a list of callbacks, not ReadsSteps"):
        ours.CallbackList(ReadsSteps())


def test_a_callback_of_sb3_itself_works_on_our_model():
    foreign_events: list[tuple] = []
    own_events: list[tuple] = []
    make_model().learn(30, callback=ours.as_callback(recording(sb3, "one", foreign_events)))
    make_model().learn(30, callback=recording(ours, "one", own_events))
    assert foreign_events == own_events


def test_model_without_environment():
    class Model:
        def get_env(self):
            return None

    callback = OnlyEnds()
    callback.init_callback(Model())
    with pytest.raises(ValueError, match="the model has no environment"):
        _ = callback.training_env


# ---------------------------------------------------------------------- checkpoints


def test_checkpoints_have_the_names_of_sb3(tmp_path):
    env = VecNormalize(make_vec_env("CartPole-v1", 2))
    callback = ours.CheckpointCallback(5, str(tmp_path / "a"), "ppo", save_vecnormalize=True, verbose=2)
    make_model(env=env).learn(32, callback=callback)
    assert sorted(os.listdir(tmp_path / "a")) == [
        "ppo_10_steps.zip",
        "ppo_20_steps.zip",
        "ppo_30_steps.zip",
        "ppo_vecnormalize_10_steps.pkl",
        "ppo_vecnormalize_20_steps.pkl",
        "ppo_vecnormalize_30_steps.pkl",
    ]
    assert PPO.load(tmp_path / "a" / "ppo_20_steps.zip", device="cpu").num_timesteps == 20
    VecNormalize.load(tmp_path / "a" / "ppo_vecnormalize_30_steps.pkl", make_vec_env("CartPole-v1", 2))


def test_checkpoint_frequency_is_checked():
    with pytest.raises(ValueError, match="save_freq is 0"):
        ours.CheckpointCallback(0, "folder")


# ---------------------------------------------------------------------- evaluation


class Success(gym.Wrapper):
    def step(self, action):
        *rest, terminated, truncated, info = self.env.step(action)
        return *rest, terminated, truncated, info | ({"is_success": True} if terminated or truncated else {})


@pytest.fixture
def untrained():
    """A model whose weights do not change, so that evaluations repeat."""
    return make_model(learning_rate=0.0)


def test_evaluations_are_written_as_sb3_writes_them(tmp_path):
    """The same frozen weights evaluated by both libraries' callbacks at the same steps."""
    model = make_model(learning_rate=0.0)
    their_model = make_sb3_model()
    their_model.policy.load_state_dict(model.policy.state_dict())
    their_model.lr_schedule = lambda progress: 0.0
    their_model.policy.optimizer.param_groups[0]["lr"] = 0.0
    for module, make, each, folder in (
        (ours, make_vec_env, model, "ours"),
        (sb3, sb3_make_vec_env, their_model, "theirs"),
    ):
        callback = module.EvalCallback(
            make("CartPole-v1", 2, seed=9),
            n_eval_episodes=3,
            eval_freq=6,
            log_path=str(tmp_path / folder),
            best_model_save_path=str(tmp_path / folder),
            verbose=0,
        )
        each.learn(32, callback=callback)
    with (
        np.load(tmp_path / "ours" / "evaluations.npz") as mine,
        np.load(tmp_path / "theirs" / "evaluations.npz") as them,
    ):
        assert sorted(mine.files) == sorted(them.files) == ["ep_lengths", "results", "timesteps"]
        for key in mine.files:
            np.testing.assert_array_equal(mine[key], them[key])
            assert mine[key].dtype == them[key].dtype
        assert mine["timesteps"].tolist() == [12, 24]
        assert mine["results"].shape == (2, 3)
    # the history that checkpoints hold the length of is a file of lines beside it
    assert sorted(os.listdir(tmp_path / "ours")) == ["best_model.zip", "evaluations.jsonl", "evaluations.npz"]


def test_evaluation_is_logged_at_its_own_step(tmp_path, untrained, capsys):
    untrained.set_logger(configure(str(tmp_path), ["json"]))
    env = DummyVecEnv([lambda: Monitor(Success(gym.make("CartPole-v1")))])
    callback = ours.EvalCallback(env, n_eval_episodes=2, eval_freq=4, log_path=str(tmp_path))
    untrained.learn(16, callback=callback, log_interval=None)
    lines = (tmp_path / "progress.json").read_text().splitlines()
    assert [line.count("eval/mean_reward") for line in lines] == [1, 1]
    for key in ("eval/mean_ep_length", "eval/success_rate", "time/total_timesteps"):
        assert key in lines[0]
    assert '"time/total_timesteps": 8' in lines[0]
    assert np.load(tmp_path / "evaluations.npz")["successes"].tolist() == [[True, True]] * 2
    assert callback.last_mean_reward == np.load(tmp_path / "evaluations.npz")["results"][-1].mean()
    printed = capsys.readouterr().out
    assert "evaluation at 8 steps: return" in printed
    assert "success 100.00 %" in printed
    assert printed.count("new best mean return") >= 1


def test_best_model_is_saved_once_per_improvement(tmp_path, untrained, monkeypatch):
    env = make_vec_env("CartPole-v1", 1)
    callback = ours.EvalCallback(env, n_eval_episodes=1, eval_freq=2, best_model_save_path=str(tmp_path), verbose=0)
    returns = iter([5.0, 4.0, 6.0, 6.0])
    monkeypatch.setattr("proximo.training.callbacks.evaluate", lambda *_, **__: ours.Evaluation((next(returns),), (1,)))
    saved = []
    monkeypatch.setattr(untrained, "save", lambda path: saved.append((untrained.num_timesteps, path)))
    untrained.learn(16, callback=callback)
    assert saved == [(4, str(tmp_path / "best_model")), (12, str(tmp_path / "best_model"))]
    assert callback.best_mean_reward == 6.0


def test_evaluation_off():
    callback = eval_callback(eval_freq=0, verbose=0)
    make_model().learn(16, callback=callback)
    assert callback.last_mean_reward == -np.inf


def test_normalisation_statistics_reach_the_evaluation_environment():
    train_env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0))
    eval_env = VecNormalize(make_vec_env("CartPole-v1", 1), training=False, norm_reward=False)
    callback = ours.EvalCallback(eval_env, eval_freq=8, n_eval_episodes=1, verbose=0)
    make_model(env=train_env).learn(16, callback=callback)
    np.testing.assert_array_equal(eval_env.obs_rms.mean, train_env.obs_rms.mean)


def test_environments_wrapped_differently_are_told_apart_before_training():
    train_env = VecNormalize(make_vec_env("CartPole-v1", 2))
    callback = eval_callback(eval_freq=4, n_eval_episodes=1, verbose=0)
    model = make_model(env=train_env)
    with (
        pytest.warns(UserWarning, match=r"training environment is wrapped by \['VecNormalize'\]"),
        pytest.raises(ValueError, match="wrap both the same way"),
    ):
        model.learn(16, callback=callback)


def test_wrappers_that_do_not_change_observations_do_not_warn():
    def wrapped():
        return VecFrameStack(DummyVecEnv([lambda: gym.make("CartPole-v1")]), 2)

    callback = ours.EvalCallback(VecMonitor(wrapped()), eval_freq=4, n_eval_episodes=1, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(env=wrapped(), environments=1).learn(8, callback=callback)


@pytest.mark.parametrize("place", ["callback_on_new_best", "callback_after_eval"])
def test_children_may_be_of_the_real_class(place):
    """They have neither ``close`` nor ``between_iterations``, which the end of a training asks of the library's own."""
    child = sb3.StopTrainingOnRewardThreshold(1.0)
    callback = eval_callback(**{place: child}, eval_freq=4, n_eval_episodes=1, verbose=0)
    model = make_model().learn(64, callback=callback)
    assert callback.best_mean_reward >= 1.0
    assert model.num_timesteps == 8  # of two environments: the first evaluation ended it


def test_children_of_the_evaluation_get_everything_of_the_loop():
    """Also the child on a new best, which Stable-Baselines3 leaves without the loop's variables."""

    class Child(ours.BaseCallback):
        def _on_training_start(self):
            self.started = self.locals["total_timesteps"]

        def _on_step(self):
            assert isinstance(self.parent, ours.EvalCallback)
            self.dones = self.locals["dones"]
            return True

    best, after = Child(), Child()
    callback = eval_callback(
        callback_on_new_best=best, callback_after_eval=after, eval_freq=4, n_eval_episodes=1, verbose=0
    )
    make_model().learn(16, callback=callback)
    for child in (best, after):
        assert child.started == 16
        assert child.dones.shape == (2,)
    assert after.n_calls == 2


def test_a_subclass_may_gather_successes_by_itself(untrained):
    class Own(ours.EvalCallback):
        def _log_success_callback(self, locals_, globals_):
            if locals_["done"]:
                self._is_success_buffer.append(locals_["reward"] == 1.0)

    untrained.set_logger(configure(None, []))
    recorded = {}
    untrained.logger.dump = lambda step=0: recorded.update(untrained.logger.name_to_value)
    callback = Own(make_vec_env("CartPole-v1", 1), eval_freq=4, n_eval_episodes=2, verbose=0)
    untrained.learn(16, callback=callback, log_interval=None)
    assert recorded["eval/success_rate"] == 1.0


@pytest.mark.parametrize(("kind", "masked"), [(ours.MaskableEvalCallback, True), (ours.EvalCallback, False)])
def test_evaluation_with_masks(kind, masked):
    env = make_vec_env(InvalidActionEnvDiscrete, 2, seed=0, env_kwargs={"dim": 9, "n_invalid_actions": 8})
    evaluations = [kind(env, eval_freq=8, n_eval_episodes=1, verbose=0)]
    if not masked:  # the option of the one is the default of the other
        evaluations.append(kind(env, eval_freq=8, n_eval_episodes=1, verbose=0, use_masking=True))
    MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=0).learn(16, callback=evaluations)
    assert evaluations[-1].last_mean_reward == 100.0
    assert masked or evaluations[0].last_mean_reward < 90.0


def test_uneven_rows_are_saved_with_gaps(tmp_path, untrained, monkeypatch):
    rows = iter([(True, False), (True,)])
    monkeypatch.setattr(
        "proximo.training.callbacks.evaluate", lambda *_, **__: ours.Evaluation((1.0, 2.0), (1, 2), next(rows))
    )
    callback = eval_callback(eval_freq=4, log_path=str(tmp_path), verbose=0)
    untrained.learn(16, callback=callback)
    np.testing.assert_array_equal(np.load(tmp_path / "evaluations.npz")["successes"], [[1.0, 0.0], [1.0, np.nan]])


# ---------------------------------------------------------------------- early stopping


@pytest.mark.parametrize(("threshold", "steps"), [(-1.0, 8), (1e9, 32)])
def test_stop_on_reward_threshold(threshold, steps, capsys):
    stop = ours.StopTrainingOnRewardThreshold(threshold, verbose=1)
    callback = eval_callback(callback_on_new_best=stop, eval_freq=4, n_eval_episodes=1, verbose=0)
    model = make_model()
    model.learn(32, callback=callback)
    assert model.num_timesteps == steps
    assert ("has reached the threshold" in capsys.readouterr().out) is (steps == 8)


@pytest.mark.parametrize("module", [ours, sb3], ids=["ours", "sb3"])
@pytest.mark.parametrize(
    ("returns", "patience", "minimum", "stops_after"),
    [
        ([1, 2, 3, 4, 5, 6], 1, 0, None),
        ([5, 4, 3, 2, 1, 0], 1, 0, 3),
        ([5, 4, 3, 2, 1, 0], 1, 3, 5),
        ([5, 5, 6, 5, 5, 5], 1, 0, 5),
        ([5, 4, 6, 5, 7, 6], 0, 0, 2),
    ],
)
def test_stop_on_no_improvement(module, returns, patience, minimum, stops_after):
    class Parent:
        best_mean_reward = -np.inf

    class Model:
        num_timesteps = 0

    stop = module.StopTrainingOnNoModelImprovement(patience, minimum)
    stop.parent, stop.model = Parent(), Model()
    proceeds = []
    for value in returns:
        stop.parent.best_mean_reward = max(stop.parent.best_mean_reward, value)
        proceeds.append(stop.on_step())
    first_stop = proceeds.index(False) + 1 if False in proceeds else None
    assert first_stop == stops_after


@pytest.mark.parametrize(
    "make", [lambda: ours.StopTrainingOnRewardThreshold(1), lambda: ours.StopTrainingOnNoModelImprovement(1)]
)
def test_stopping_callbacks_need_an_evaluation(make):
    with pytest.raises(RuntimeError, match="works only inside an EvalCallback"):
        make_model().learn(16, callback=make())


def test_stop_in_a_list_below_an_evaluation():
    stop = ours.StopTrainingOnRewardThreshold(-1.0)
    callback = eval_callback(
        callback_after_eval=ours.CallbackList([OnlyEnds(), stop]), eval_freq=4, n_eval_episodes=1, verbose=0
    )
    model = make_model()
    model.learn(32, callback=callback)
    assert model.num_timesteps == 8


def test_stop_on_max_episodes_equals_sb3(capsys):
    played = []
    for module, make in ((ours, make_model), (sb3, make_sb3_model)):
        callback = module.StopTrainingOnMaxEpisodes(3, verbose=1)
        make(n_steps=64).learn(10_000, callback=callback)
        played.append((callback._total_max_episodes, callback.n_episodes >= 6, callback.n_episodes < 8))
    assert played[0] == played[1] == (6, True, True)
    assert "episodes were played, 3.00 per environment" in capsys.readouterr().out


def test_stop_on_max_episodes_needs_dones():
    callback = ours.StopTrainingOnMaxEpisodes(1)
    callback.init_callback(make_model())
    with pytest.raises(AssertionError, match="dones"):
        callback.on_step()


def test_log_every_n_timesteps():
    model = make_model()
    dumped = []
    model.dump_logs = lambda iteration=0: dumped.append(model.num_timesteps)
    model.learn(32, callback=ours.LogEveryNTimesteps(10), log_interval=None)
    assert dumped == [10, 20, 30]


# ---------------------------------------------------------------------- progress bar


def test_progress_bar_shows_the_end_and_draws_seldom(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None, legacy_windows=False)
    display_type = ours.ProgressDisplay
    updates = []

    class Display(display_type):
        def __init__(self, total_steps, **options):
            super().__init__(total_steps, **{**options, "console": console})

        def update(self, steps, mean_return=None):
            updates.append((steps, mean_return))
            super().update(steps, mean_return)

    clock = iter(np.arange(1000) / 64)
    monkeypatch.setattr(ours, "ProgressDisplay", Display)
    monkeypatch.setattr(ours, "monotonic", lambda: next(clock))
    model = make_model(n_steps=64)
    model.learn(128, callback=ours.ProgressBarCallback())
    assert [steps for steps, _ in updates] == [*range(2, 129, 14), 128]  # of 64 calls 1/64 s apart every seventh
    assert updates[-1][1] == pytest.approx(np.mean([episode["r"] for episode in model.ep_info_buffer]))
    assert "100 %" in console.file.getvalue()


def test_progress_bar_in_a_pipe_has_no_control_characters(capsys):
    model = make_model()
    model.learn(32, progress_bar=True)
    model.learn(16, progress_bar=True, reset_num_timesteps=False)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("training 32 of 32 steps (100 %)")
    assert second.startswith("training 48 of 48 steps (100 %)"), "a training that goes on is shown whole"
    assert "\x1b" not in first + second


def test_progress_bar_can_be_closed_after_an_exception(capsys):
    def interrupt(locals_, globals_):
        raise KeyboardInterrupt

    bar = ours.ProgressBarCallback()
    with pytest.raises(KeyboardInterrupt):
        make_model().learn(32, callback=ours.CallbackList([ours.ConvertCallback(interrupt), bar]))
    bar.close()
    bar.close()  # once is enough, twice does no harm
    assert capsys.readouterr().out.count("training 0 of 32 steps") == 1
