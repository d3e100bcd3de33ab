"""What ``proximo train`` does while an agent learns: evaluate it, film it. Neither changes what is learnt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

from rich.markup import escape

from proximo.analysis.evaluation import Evaluation, evaluate
from proximo.cli.algorithms import masks_actions
from proximo.cli.console import output
from proximo.cli.playing import FILM_SECONDS, film, render_without_display
from proximo.cli.runs import Run
from proximo.envs import as_vec_env, sync_envs_normalization, unwrap_vec_normalize
from proximo.envs.adapters.procgen import is_stepped_by_env_pool
from proximo.training.callback_base import BaseCallback, counters_only
from proximo.training.callbacks import EvalCallback
from proximo.training.checkpoints import PeriodicCheckpoints
from proximo.training.journal import Journal
from proximo.zoo import make_preset_env

EVALUATION_SEED = 1_000_000
"""Added to a run's seed for evaluations: other episodes than those of the training."""


class GivenUp(Exception):
    """An evaluation was not played to its end."""


class PeriodicEvaluation(EvalCallback):
    """``--eval-every``: evaluations on environments of their own, into the run folder.

    ``evaluations.npz`` and the rows ``eval/…`` of the metrics are Stable-Baselines3's, ``best.zip`` is the model with
    the highest mean. The environments are seeded before every evaluation, by its number: so a resumed training has the
    same evaluations without their state in its checkpoints. One during which the training is asked to end is given up,
    and repeated when it goes on.
    """

    def __init__(self, run: Run, every: int, episodes: int, journal: Journal) -> None:
        config = run.config
        self.run = run
        self.journal = journal
        self.is_ending: Callable[[], bool] = lambda: False
        self.seed = config.seed + EVALUATION_SEED
        self.takes_seeds = not is_stepped_by_env_pool(config.env)  # which is seeded when it is made, and never again
        n_envs = min(config.preset.n_envs, episodes)
        super().__init__(
            make_preset_env(config.preset, config.env, n_envs=n_envs, seed=self.seed, training=False),
            n_eval_episodes=episodes,
            eval_freq=max(every // config.preset.n_envs, 1),
            log_path=str(run.folder.path),
            verbose=0,
            use_masking=masks_actions(config.algo),
        )

    def get_state(self) -> dict[str, Any]:
        return self._state_without_environment()

    def is_due_in_rollout(self) -> bool:
        return self.n_calls % self.eval_freq + self.model.n_steps >= self.eval_freq

    @counters_only
    def _on_step(self) -> bool:
        try:
            return super()._on_step()
        except GivenUp:
            return True

    def _evaluate(self) -> Evaluation:
        if self.takes_seeds:
            self.eval_env.seed(self.seed + self.n_eval_episodes * len(self.evaluations_timesteps))
        with self.journal.spending("evaluation"):
            evaluation = evaluate(
                self.model, self.eval_env, self.n_eval_episodes, use_masking=self.use_masking, progress=self._go_on
            )
        self._is_success_buffer = list(evaluation.successes)
        is_best = " [green](the best so far)[/]" if evaluation.mean > self.best_mean_reward else ""
        output().print(f"{self.num_timesteps:,} steps: {escape(str(evaluation))}{is_best}")
        return evaluation

    def _go_on(self, episodes: int) -> None:
        if self.is_ending():
            raise GivenUp

    def _on_new_best(self, evaluation: Evaluation) -> bool:
        self.model.save(self.run.folder.best)
        return super()._on_new_best(evaluation)


class Pause(BaseCallback):
    """``--pause-at``: ends the session, with a checkpoint, at the first update after so many steps.

    Given before the checkpoints, so that they save at that update.
    """

    state_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, checkpoints: PeriodicCheckpoints, steps: int) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.steps = steps

    def _between_iterations(self) -> bool:
        if self.num_timesteps >= self.steps:
            self.checkpoints.ask_for_save(stop=True)
        return True


class PeriodicFilms(BaseCallback):
    """``--record-every``: a film of the agent at the first update after every so many steps."""

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "filmed_at")

    def __init__(self, run: Run, every: int, journal: Journal) -> None:
        super().__init__()
        self.run = run
        self.journal = journal
        self.every = every
        self.filmed_at = 0

    def _between_iterations(self) -> bool:
        if self.num_timesteps // self.every > self.filmed_at // self.every:
            self.filmed_at = self.num_timesteps
            if self._is_writer:
                with self.journal.spending("film"):
                    self._film()
        return True

    def _film(self) -> None:
        config, path = self.run.config, self.run.folder.film(self.num_timesteps)
        render_without_display()
        settings: dict[str, Any] = {"n_envs": 1, "seed": config.seed, "training": False, "render_mode": "rgb_array"}
        env = as_vec_env(make_preset_env(config.preset, config.env, **settings))
        with closing(env):
            if unwrap_vec_normalize(self.training_env) is not None:
                sync_envs_normalization(self.training_env, env)
            path = film(self.model, env, config, path, seconds=FILM_SECONDS, live=False)
        for tracker in self.logger.trackers:
            tracker.write_film("film", path, self.num_timesteps)
        output().print(f"{self.num_timesteps:,} steps: film {path.relative_to(self.run.folder.path)}")
