"""Which trials end before all of their seeds are trained: Optuna's rules, applied over seeds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import optuna

Scores: TypeAlias = Mapping[int, Mapping[int, float]]
"""Of a trial, by rung and seed: the mean return of the evaluation there."""

TRIALS_FOR_A_MEDIAN = 4
LEAST_PAIRS = 4  # the sign of fewer differences is never sure at 10 %


def is_worse(rule: str, own: Scores, others: Sequence[Scores], rung: int, rungs: int, seeds: Sequence[int]) -> bool:
    """Whether a trial need not train its further seeds of a rung.

    ``median``: its mean over the seeds so far is below the median of the others' over the same seeds of the same rung.
    ``wilcoxon``: over all rungs and seeds so far, the signed-rank test is sure at 10 % that it is worse than the best.
    """
    done = _first_seeds(own.get(rung, {}), seeds)
    if rule == "none" or done == 0:
        return False
    if rule == "median":
        return _below_median(own, others, rung, seeds[:done])
    return _surely_worse(own, others, rungs, seeds)


def _below_median(own: Scores, others: Sequence[Scores], rung: int, seeds: Sequence[int]) -> bool:
    import optuna

    pruner = optuna.pruners.MedianPruner(n_startup_trials=TRIALS_FOR_A_MEDIAN)
    comparable = [scores for scores in others if _first_seeds(scores.get(rung, {}), seeds) == len(seeds)]
    values = [{len(seeds): _mean(scores[rung], seeds)} for scores in comparable]
    return _asked(pruner, {len(seeds): _mean(own[rung], seeds)}, values)


def _surely_worse(own: Scores, others: Sequence[Scores], rungs: int, seeds: Sequence[int]) -> bool:
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        pruner = optuna.pruners.WilcoxonPruner(p_threshold=0.1)
    complete = [scores for scores in others if _first_seeds(scores.get(rungs - 1, {}), seeds) == len(seeds)]
    complete.sort(key=lambda scores: _mean(scores[rungs - 1], seeds))
    pairs = [_numbered(scores, seeds) for scores in complete[-1:]]
    return _asked(pruner, _numbered(own, seeds), pairs)


def _asked(pruner: optuna.pruners.BasePruner, own: Mapping[int, float], others: Sequence[Mapping[int, float]]) -> bool:
    """What a pruner says of a trial, by a study in memory that has the values which are to be compared."""
    import optuna

    study = optuna.create_study(direction="maximize", storage=optuna.storages.InMemoryStorage())
    for values in others:
        mean = float(np.mean(list(values.values())))
        study.add_trial(optuna.create_trial(value=mean, intermediate_values=dict(values)))
    running = optuna.trial.TrialState.RUNNING
    study.add_trial(optuna.create_trial(state=running, intermediate_values=dict(own)))
    return pruner.prune(study, study.get_trials(deepcopy=False)[-1])


def _first_seeds(scores: Mapping[int, float], seeds: Sequence[int]) -> int:
    """How many of the seeds are done without a gap: those of one trial may end in any order."""
    count = 0
    while count < len(seeds) and seeds[count] in scores:
        count += 1
    return count


def _mean(scores: Mapping[int, float], seeds: Sequence[int]) -> float:
    return float(np.mean([scores[seed] for seed in seeds]))


def _numbered(scores: Scores, seeds: Sequence[int]) -> dict[int, float]:
    return {
        rung * len(seeds) + place: scores[rung][seed]
        for rung in sorted(scores)
        for place, seed in enumerate(seeds)
        if seed in scores[rung]
    }
