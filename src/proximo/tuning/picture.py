"""A study as a picture: how far each trial came, and what the best ones reach on fresh seeds."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from proximo.analysis.plotting import literal
from proximo.files.atomic import replacing
from proximo.tuning.study import Study


def draw_study(study: Study, path: Path) -> Path:
    """Mean returns of all trials over their rungs, and the confirmed ones with their intervals."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    trials, confirmed = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_trials(study, trials)
    _draw_confirmations(study, confirmed)
    figure.suptitle(f"{literal(study.settings.env)}, {study.settings.algo}: {study.settings.trials} trials")
    with replacing(path) as stream:
        figure.savefig(stream, format="png", dpi=120)
    return path


def _draw_trials(study: Study, axes: Axes) -> None:
    best = [trial.number for trial in study.best_trials()[:1]]
    for job in study.jobs():
        rungs = [rung for rung in sorted(job.scores) if job.values(rung)]
        steps, means = [job.rungs[rung] for rung in rungs], [job.mean(rung) for rung in rungs]
        colour = "tab:orange" if job.number == 0 else "tab:blue" if job.number in best else "0.75"
        label = "the start" if job.number == 0 else "the best of the search" if job.number in best else None
        axes.plot(steps, means, "o-", color=colour, label=label, markersize=3, zorder=2 if colour == "0.75" else 3)
    axes.set(xscale="log", xlabel="steps", ylabel="mean return", title="search")
    axes.set_xticks(study.settings.rungs, [f"{steps:,}" for steps in study.settings.rungs])
    axes.minorticks_off()
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_confirmations(study: Study, axes: Axes) -> None:
    jobs = sorted((job for job in study.confirmations() if job.is_trained), key=lambda job: job.interval().mean)
    for place, job in enumerate(jobs):
        interval = job.interval()
        colour = "tab:orange" if job.number == 0 else "tab:blue"
        axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=2)
        axes.plot([interval.mean], [place], "o", color=colour)
        axes.plot(job.values(0), [place] * len(job.seeds), "|", color="0.4", markersize=8)
    names = ["the start" if job.number == 0 else f"trial {job.number}" for job in jobs]
    axes.set_yticks(range(len(jobs)), names)
    axes.set(xlabel="mean return", title=f"{len(study.settings.fresh_seeds)} fresh seeds, 95 % intervals")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(4))
