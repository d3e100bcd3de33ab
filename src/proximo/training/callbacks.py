"""The callbacks of the library: checkpoints, evaluation, early stopping, the progress bar."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from proximo.analysis.evaluation import Evaluation, evaluate
from proximo.envs.adapters.as_vec_env import as_vec_env
from proximo.envs.vector.normalize import sync_envs_normalization
from proximo.errors import WrongMomentError
from proximo.training.callback_base import BaseCallback as BaseCallback
from proximo.training.callback_base import CallbackList as CallbackList
from proximo.training.callback_base import ConvertCallback as ConvertCallback
from proximo.training.callback_base import EventCallback as EventCallback
from proximo.training.callback_base import as_callback as as_callback
from proximo.training.callback_base import callback_wants_locals as callback_wants_locals
from proximo.training.callback_base import callback_wants_steps as callback_wants_steps
from proximo.training.callback_base import counters_only as counters_only
from proximo.training.evaluation_history import KEYS, EvaluationHistory
from proximo.training.progress import ProgressDisplay

if TYPE_CHECKING:
    from rich.console import Console


class CheckpointCallback(BaseCallback):
    """Saves the model every ``save_freq`` calls as ``{name_prefix}_{steps}_steps.zip`` in the folder ``save_path``.

    One call is one step of every environment: with ``n`` environments, ``save_freq=k // n`` saves every ``k`` steps.
    ``save_vecnormalize`` adds ``{name_prefix}_vecnormalize_{steps}_steps.pkl``. On-policy models hold no replay
    buffer; a model that does has it saved too if ``save_replay_buffer``.

    Where the environments can give their state (``env.has_state()``), each file is a checkpoint:
    ``PPO.load(path, env=env).learn(total - steps, reset_num_timesteps=False)`` trains exactly as if it had never been
    interrupted, from the rollout on in which the file was saved. ``proximo.training.checkpoints.PeriodicCheckpoints``
    does more: intervals in minutes, retention, and a boundary mode for environments without state.
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str,
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        """Arguments:
        save_freq: Calls between two files; a call is one step of every environment.
        save_path: The folder.
        name_prefix: What names of files begin with.
        save_replay_buffer: Whether a model's replay buffer is saved too; on-policy models have none.
        save_vecnormalize: Whether the statistics of VecNormalize are saved beside; the model file holds them
            anyway.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        if save_freq < 1:
            raise ValueError(f"save_freq is {save_freq}; expected the number of calls between checkpoints, at least 1")
        self.save_freq = save_freq
        self.save_path = save_path
        self.name_prefix = name_prefix
        self.save_replay_buffer = save_replay_buffer
        self.save_vecnormalize = save_vecnormalize
        self._training_state: dict[str, Any] | None = None

    def _init_callback(self) -> None:
        if self.save_path is not None and self._is_writer:
            os.makedirs(self.save_path, exist_ok=True)

    def _between_iterations(self) -> bool:
        # weights stay the same within a rollout, so the state before it makes the file of any of its steps exact
        due = self.n_calls % self.save_freq + self.model.n_steps >= self.save_freq
        self._training_state = self.model.training_state() if due and self.model.has_state() else None
        return True

    def _save_model(self, path: str) -> None:
        if self._training_state is None:
            self.model.save(path)
        else:
            self.model.save_checkpoint(path, self._training_state)

    def _checkpoint_path(self, checkpoint_type: str = "", extension: str = "") -> str:
        """``checkpoint_type`` is empty for the model, else ``"vecnormalize_"`` or ``"replay_buffer_"``."""
        name = f"{self.name_prefix}_{checkpoint_type}{self.num_timesteps}_steps.{extension}"
        return os.path.join(self.save_path, name)

    @counters_only
    def _on_step(self) -> bool:
        if self.n_calls % self.save_freq == 0:
            self._save("model", self._save_model, self._checkpoint_path(extension="zip"))
            if self.save_replay_buffer and getattr(self.model, "replay_buffer", None) is not None:
                path = self._checkpoint_path("replay_buffer_", extension="pkl")
                self._save("replay buffer", self.model.save_replay_buffer, path)
            normalizer = self.model.get_vec_normalize_env() if self.save_vecnormalize else None
            if normalizer is not None:
                path = self._checkpoint_path("vecnormalize_", extension="pkl")
                self._save("normalisation statistics", normalizer.save, path)
        return True

    def _save(self, what: str, save: Any, path: str) -> None:
        if self._is_writer:
            save(path)
        self._announce(f"saved the {what} to {path}", level=2)


_COLUMNS = ("evaluations_timesteps", "evaluations_results", "evaluations_length", "evaluations_successes")


class EvalCallback(EventCallback):
    """Evaluates the model every ``eval_freq`` calls, records ``eval/*``, and keeps the best model.

    One call is one step of every training environment. ``log_path`` is the folder of ``evaluations.npz`` (timesteps
    ``[evaluation]``, results and ep_lengths ``[evaluation, episode]``, and successes where the environment reports
    ``is_success``) and of ``evaluations.jsonl``, a line per evaluation; ``best_model_save_path`` is that of
    ``best_model.zip``. ``callback_after_eval`` is triggered by every evaluation, ``callback_on_new_best`` by a new best
    mean before it. ``use_masking`` lets the model choose among the actions that the environment's ``action_masks()``
    allow.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "n_calls",
        "best_mean_reward",
        "last_mean_reward",
    )

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
        use_masking: bool = False,
    ) -> None:
        """Arguments:
        eval_env: What to evaluate in; normalised and wrapped as the training's.
        callback_on_new_best: What is called after an evaluation with a new best mean.
        callback_after_eval: What is called after every evaluation.
        n_eval_episodes: Episodes of an evaluation.
        eval_freq: Calls between two evaluations; a call is one step of every training environment.
        log_path: Folder of evaluations.npz and evaluations.jsonl; None writes neither.
        best_model_save_path: Folder of best_model.zip; None keeps none.
        deterministic: Whether the likeliest actions are taken instead of sampled ones.
        render: Whether the environment is shown.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        warn: Whether to warn of an environment without a Monitor.
        use_masking: Whether the environment's action masks are asked for.
        """
        super().__init__(callback_after_eval, verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.eval_env = as_vec_env(eval_env, monitor=isinstance(eval_env, str))
        self.n_eval_episodes = n_eval_episodes
        self.eval_freq = eval_freq
        self.log_path = None if log_path is None else os.path.join(log_path, "evaluations")
        self._history = None if self.log_path is None else EvaluationHistory(self.log_path)
        self.best_model_save_path = best_model_save_path
        self.deterministic = deterministic
        self.render = render
        self.warn = warn
        self.use_masking = use_masking
        self.best_mean_reward = -np.inf
        self.last_mean_reward = -np.inf
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[list[float]] = []
        self.evaluations_length: list[list[int]] = []
        self.evaluations_successes: list[list[bool]] = []
        self._is_success_buffer: list[bool] = []

    def _children(self) -> list[BaseCallback]:
        return [child for child in (self.callback_on_new_best, self.callback) if child is not None]

    def _init_callback(self) -> None:
        training, evaluation = _observation_wrappers(self.training_env), _observation_wrappers(self.eval_env)
        if training != evaluation:
            warnings.warn(
                f"the training environment is wrapped by {training or 'nothing'}, the evaluation environment by "
                f"{evaluation or 'nothing'}: the model is evaluated on observations unlike those it learns from",
                stacklevel=2,
            )
        if self.best_model_save_path is not None and self._is_writer:
            os.makedirs(self.best_model_save_path, exist_ok=True)
        if self.log_path is not None and self._is_writer:
            os.makedirs(os.path.dirname(self.log_path), exist_ok=True)

    def get_state(self) -> dict[str, Any]:
        # without its environment's state, evaluations after a resume see other episodes
        environment = self.eval_env.get_state() if self.eval_env.has_state() else None
        return {**self._state_without_environment(), "eval_env": environment}

    def _state_without_environment(self) -> dict[str, Any]:
        keeps = self._history is not None and self._is_writer
        history = self._history.place(len(self.evaluations_timesteps)) if keeps else None  # type: ignore[union-attr]
        return {**super().get_state(), "history": history}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self._restore_history(state)
        if state.get("eval_env") is not None and self.eval_env.has_state():
            self.eval_env.set_state(state["eval_env"])

    def _restore_history(self, state: Mapping[str, Any]) -> None:
        if not self._is_writer:  # the file is the first process's; to the others only the number matters
            self.evaluations_timesteps = [0] * int((state.get("history") or {}).get("count", 0))
        elif self._history is not None and state.get("history") is not None:
            table = self._history.restore(state["history"])
            for name, column in zip(_COLUMNS, table.values(), strict=True):
                setattr(self, name, column)
        elif self._history is not None and "evaluations_timesteps" in state:  # of version 0.1.0
            for name in _COLUMNS:
                setattr(self, name, state[name])
            self._history.rewrite(self._table())

    @counters_only
    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq != 0:
            return True
        if self.model.get_vec_normalize_env() is not None:
            sync_envs_normalization(self.training_env, self.eval_env)
        evaluation = self._evaluate()
        self.last_mean_reward = evaluation.mean
        if self.log_path is not None:
            self._save_evaluation(evaluation)
        self._log_evaluation(evaluation)
        proceed = True
        if evaluation.mean > self.best_mean_reward:
            proceed = self._on_new_best(evaluation)
        return proceed and self._on_event()

    def _evaluate(self) -> Evaluation:
        """Play the episodes; processes that train together play some of them each, and all learn of all results."""
        group = self.model.runtime.group if getattr(self.model, "world_size", 1) > 1 else None
        if group is None:
            return self._play(self.n_eval_episodes)
        share = group.own_part(self.n_eval_episodes)
        own = self._play(share) if share else Evaluation((), ())
        gathered = group.gather((own, self._is_success_buffer), "an evaluation")
        self._is_success_buffer = [success for _, successes in gathered for success in successes]
        return Evaluation.joined([evaluation for evaluation, _ in gathered])

    def _play(self, episodes: int) -> Evaluation:
        self._is_success_buffer = []
        own_callback = type(self)._log_success_callback is not EvalCallback._log_success_callback
        evaluation = evaluate(
            self.model,
            self.eval_env,
            n_eval_episodes=episodes,
            deterministic=self.deterministic,
            render=self.render,
            callback=self._log_success_callback if own_callback else None,
            warn=self.warn,
            use_masking=self.use_masking,
        )
        if not own_callback:
            self._is_success_buffer = list(evaluation.successes)
        return evaluation

    def _log_success_callback(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """For subclasses that evaluate by themselves: given to ``evaluate_policy``, it gathers ``is_success``."""
        if locals_["done"] and (success := locals_["info"].get("is_success")) is not None:
            self._is_success_buffer.append(success)

    def _save_evaluation(self, evaluation: Evaluation) -> None:
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(list(evaluation.episode_rewards))
        self.evaluations_length.append(list(evaluation.episode_lengths))
        if self._is_success_buffer:
            self.evaluations_successes.append(self._is_success_buffer)
        if self._is_writer:
            self._history.add(self._table())  # type: ignore[union-attr]

    def _table(self) -> dict[str, list[Any]]:
        return {key: getattr(self, name) for key, name in zip(KEYS, _COLUMNS, strict=True)}

    def _log_evaluation(self, evaluation: Evaluation) -> None:
        length, length_std = np.mean(evaluation.episode_lengths), np.std(evaluation.episode_lengths)
        self.logger.record("eval/mean_reward", evaluation.mean)
        self.logger.record("eval/mean_ep_length", float(length))
        summary = [
            f"evaluation at {self.num_timesteps:,} steps: return {evaluation.mean:.2f} +/- {evaluation.std:.2f}",
            f"length {length:.2f} +/- {length_std:.2f}",
        ]
        if self._is_success_buffer:
            success_rate = float(np.mean(self._is_success_buffer))
            self.logger.record("eval/success_rate", success_rate)
            summary.append(f"success {100 * success_rate:.2f} %")
        self._announce(", ".join(summary))
        # written at once, so that the evaluation stands at its own step
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _on_new_best(self, evaluation: Evaluation) -> bool:
        self.best_mean_reward = evaluation.mean
        self._announce("new best mean return")
        if self.best_model_save_path is not None:
            self.model.save(os.path.join(self.best_model_save_path, "best_model"))
        return True if self.callback_on_new_best is None else self.callback_on_new_best.on_step()


class MaskableEvalCallback(EvalCallback):
    """An ``EvalCallback`` that masks actions unless told otherwise."""

    def __init__(self, *args: Any, use_masking: bool = True, **kwargs: Any) -> None:
        """Arguments:
        use_masking: Whether the environment's action masks are asked for.
        """
        super().__init__(*args, **kwargs)
        self.use_masking = use_masking


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends the training when the best mean return reaches ``reward_threshold``; a child of an ``EvalCallback``."""

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        """Arguments:
        reward_threshold: The mean return that is enough.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    @counters_only
    def _on_step(self) -> bool:
        best = _evaluating_parent(self).best_mean_reward
        proceed = bool(best < self.reward_threshold)
        if not proceed:
            self._announce(
                f"training ends: the mean return {best:.2f} has reached the threshold {self.reward_threshold}"
            )
        return proceed


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends the training after more than ``max_no_improvement_evals`` evaluations in a row without a new best mean.

    The first ``min_evals`` evaluations do not count. A child (``callback_after_eval``) of an ``EvalCallback``.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "last_best_mean_reward", "no_improvement_evals")

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        """Arguments:
        max_no_improvement_evals: Evaluations in a row without a new best mean that are allowed.
        min_evals: Evaluations at the start that do not count.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.max_no_improvement_evals = max_no_improvement_evals
        self.min_evals = min_evals
        self.last_best_mean_reward = -np.inf
        self.no_improvement_evals = 0

    @counters_only
    def _on_step(self) -> bool:
        best = _evaluating_parent(self).best_mean_reward
        if self.n_calls > self.min_evals:
            self.no_improvement_evals = 0 if best > self.last_best_mean_reward else self.no_improvement_evals + 1
        self.last_best_mean_reward = best
        proceed = self.no_improvement_evals <= self.max_no_improvement_evals
        if not proceed:
            self._announce(f"training ends: no new best model in the last {self.no_improvement_evals} evaluations")
        return proceed


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends the training after ``max_episodes`` episodes per environment, counted over all environments together."""

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "n_episodes")

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        """Arguments:
        max_episodes: Episodes per environment; with n environments, n times as many in all.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.max_episodes = max_episodes
        self._total_max_episodes = max_episodes
        self.n_episodes = 0

    def _init_callback(self) -> None:
        self._total_max_episodes = self.max_episodes * self.training_env.num_envs

    def _on_step(self) -> bool:
        if "dones" not in self.locals:
            raise WrongMomentError("'dones' is not among the training loop's variables; pass it to update_locals()")
        self.n_episodes += int(np.sum(self.locals["dones"]))
        proceed = self.n_episodes < self._total_max_episodes
        if not proceed:
            self._announce(
                f"training ends after {self.num_timesteps:,} steps: {self.n_episodes} episodes were played, "
                f"{self.n_episodes / self.training_env.num_envs:.2f} per environment"
            )
        return proceed


class EveryNTimesteps(EventCallback):
    """Triggers ``callback`` every ``n_steps`` steps, counted over all environments together."""

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "last_time_trigger")

    def __init__(self, n_steps: int, callback: BaseCallback) -> None:
        """Arguments:
        n_steps: Steps between two calls, of all environments together.
        callback: What is called.
        """
        super().__init__(callback)
        self.n_steps = n_steps
        self.last_time_trigger = 0

    @counters_only
    def _on_step(self) -> bool:
        if self.num_timesteps - self.last_time_trigger < self.n_steps:
            return True
        self.last_time_trigger = self.num_timesteps
        return self._on_event()


class LogEveryNTimesteps(EveryNTimesteps):
    """Writes the log every ``n_steps`` steps rather than every few iterations."""

    def __init__(self, n_steps: int) -> None:
        """Arguments:
        n_steps: Steps between two rows of the log, of all environments together.
        """
        super().__init__(n_steps, _DumpLogs())


class _DumpLogs(BaseCallback):
    @counters_only
    def _on_step(self) -> bool:
        self.model.dump_logs()
        return True


class ProgressBarCallback(BaseCallback):
    """Shows how far the training is, how fast it goes and the latest mean return, redrawn ten times a second.

    A training that goes on (``reset_num_timesteps=False``, a resume) is shown whole, with the steps from before.
    ``console`` is where, and then prints of others stay where they go; standard output by default, and they go above.
    """

    _SECONDS_BETWEEN_UPDATES = 0.1

    def __init__(self, console: Console | None = None) -> None:
        """Arguments:
        console: Where it is drawn, a rich Console; None is standard output.
        """
        super().__init__()
        self._console = console
        self._display: ProgressDisplay | None = None
        self._next_update = 0.0

    def wants_steps(self) -> bool:
        return self._is_writer

    def _on_training_start(self) -> None:
        if not self._is_writer:
            return
        place: dict[str, Any] = {} if self._console is None else {"console": self._console, "takes_prints": False}
        self._display = ProgressDisplay(self.locals["total_timesteps"], steps_before=self.num_timesteps, **place)
        self._display.start()
        self._next_update = 0.0

    @counters_only
    def _on_step(self) -> bool:
        now = monotonic()
        if now >= self._next_update:
            self._next_update = now + self._SECONDS_BETWEEN_UPDATES
            self._update()
        return True

    def _update(self) -> None:
        if self._display is not None:
            episodes = getattr(self.model, "ep_info_buffer", None)
            mean_return = float(np.mean([episode["r"] for episode in episodes])) if episodes else None
            self._display.update(self.model.num_timesteps, mean_return)

    def _on_training_end(self) -> None:
        self._update()
        self.close()

    def close(self) -> None:
        """Give the terminal back."""
        if self._display is not None:
            self._display.stop()
            self._display = None


_UNSEEN_WRAPPERS = frozenset(
    {"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder", "ForeignVecEnvAdapter", "FlatTuple"}
)


def _observation_wrappers(env: Any) -> list[str]:
    """Names of the vector wrappers that change what the policy sees, outermost first.

    ``VecTransposeImage`` is left out because models add it by themselves and ``predict`` takes either layout.
    """
    names = []
    while hasattr(env, "venv"):
        names.append(type(env).__name__)
        env = env.venv
    return [name for name in names if name not in _UNSEEN_WRAPPERS]


def _evaluating_parent(callback: BaseCallback) -> Any:
    if not hasattr(callback.parent, "best_mean_reward"):
        raise WrongMomentError(
            f"{type(callback).__name__} works only inside an EvalCallback: give it as callback_on_new_best "
            "or callback_after_eval"
        )
    return callback.parent
