"""Does tuning pay? A search on Pendulum-v1 from deliberately bad values, and what it costs.

    python -m benchmarks.tuning            # the search, then the table
    python -m benchmarks.tuning --table    # the table of a search that is there

The search can be stopped and goes on. About a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from benchmarks.run import as_markdown
from proximo.cli.main import main as proximo
from proximo.cli.tune_session import cost
from proximo.training.run_folder import to_toml
from proximo.tuning import Study

RESULTS = Path(__file__).parent / "results"
ENV = "Pendulum-v1"
BAD = {
    "env": ENV,
    "algo": "ppo",
    "n_envs": 4,
    "n_timesteps": 40_000,
    "policy": "MlpPolicy",
    "learning_rate": 2e-5,
    "n_steps": 2048,
    "batch_size": 1024,
    "n_epochs": 2,
    "gamma": 0.999,
}
SPACE = {
    "learning_rate": {"low": 1e-5, "high": 5e-3, "log": True},
    "n_steps": {"low": 64, "high": 2048, "powers_of": 2},
    "batch_size": {"low": 32, "high": 1024, "powers_of": 2},
    "n_epochs": {"low": 2, "high": 20, "log": True},
    "gamma": {"low": 0.85, "high": 0.999, "log": True, "from_one": True},
}
SEARCH = ["--trials", "12", "--seeds", "2", "--rungs", "2", "--reduction", "2", "--eval-episodes", "10",
          "--fresh-seeds", "5"]  # fmt: skip


def search(folder: Path, jobs: int) -> Study:
    """Tune from the bad values, or go on with it; returns the finished study."""
    folder.mkdir(parents=True, exist_ok=True)
    start, space, study = folder / "start.toml", folder / "space.toml", folder / "study"
    start.write_text(to_toml(BAD))
    space.write_text(to_toml(SPACE))
    words = [] if Study.is_one(study) else ["--preset", str(start), "--space", str(space), *SEARCH]
    if code := proximo(["tune", "--study", str(study), "--jobs", str(jobs), *words]):
        raise SystemExit(code)
    return Study.open(study)


def summary(study: Study) -> dict[str, Any]:
    """What came out: intervals on fresh seeds, the values, and the steps that it took."""
    best = study.best_confirmed()
    start = next(job for job in study.confirmations() if job.number == 0)
    assert best is not None
    trained, scratch, full = cost(study)
    searched = {**study.best_preset()} if study.best_preset() else {}
    return {
        "start": {"returns": start.values(0), "interval": list(start.interval())},
        "best": {"trial": best.number, "returns": best.values(0), "interval": list(best.interval())},
        "values": {name: searched.get(name) for name in study.space.ranges},
        "steps": {"trained": trained, "from_scratch": scratch, "all_to_the_end": full},
        "trials": study.counts(),
        "machine": describe_machine(),
    }


def write_table(study: Study) -> None:
    found = summary(study)
    (RESULTS / "tuning.json").write_text(json.dumps(found, indent=1) + "\n")
    shutil.copy(study.path / "study.png", RESULTS / "tuning.png")
    (start, *start_ends), (best, *best_ends) = found["start"]["interval"], found["best"]["interval"]
    steps = found["steps"]
    apart = "apart" if best_ends[0] > start_ends[1] else "not apart"
    returns = [
        ["", "mean return", "95 % interval"],
        ["the start", f"{start:.0f}", f"{start_ends[0]:.0f} … {start_ends[1]:.0f}"],
        [f"trial {found['best']['trial']}", f"{best:.0f}", f"{best_ends[0]:.0f} … {best_ends[1]:.0f}"],
    ]
    costs = [
        ["the search", "steps", "of it"],
        ["as it was: trials go on from their checkpoints", f"{steps['trained']:,}", "1.00"],
        ["the same, every rung from nothing", f"{steps['from_scratch']:,}", ratio(steps, "from_scratch")],
        ["every trial trained to the end", f"{steps['all_to_the_end']:,}", ratio(steps, "all_to_the_end")],
    ]
    values = [["hyperparameter", "start", f"trial {found['best']['trial']}"]]
    values += [[name, shown(study.space._start_value(name)), shown(value)] for name, value in found["values"].items()]
    counts = found["trials"]
    rungs = " and ".join(f"{rung:,}" for rung in study.settings.rungs)
    (RESULTS / "tuning.md").write_text(f"""# Tuning from bad values

PPO on {ENV}, {BAD["n_timesteps"]:,} steps, from values that hardly learn; {study.settings.trials} trials with
{len(study.settings.seeds)} seeds each, compared after {rungs} steps:
{counts["complete"]} were trained to the end, {counts["pruned"]} pruned, {counts["fail"]} failed. The returns are means
over {len(study.settings.fresh_seeds)} fresh seeds, each of {study.settings.eval_episodes} deterministic episodes, with
Student's t intervals.

{as_markdown(returns)}

The tuned values are better by {best - start:.0f}; the intervals are {apart}.

{as_markdown(costs)}

Steps are those of the search, without the confirmation ({len(study.confirmations())} presets with
{len(study.settings.fresh_seeds)} seeds each).

{as_markdown(values)}

![the trials over their rungs, and the confirmation](tuning.png)

`python -m benchmarks.tuning` repeats it. Made on: {found["machine"]["processor"]}, {found["machine"]["cores"]} cores.
""")


def ratio(steps: dict[str, int], name: str) -> str:
    return f"{steps[name] / steps['trained']:.2f}"


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    parser.add_argument("--folder", type=Path, default=Path("runs/tuning"), help="where the study is kept")
    parser.add_argument("--table", action="store_true", help="train nothing; the table of a finished study")
    arguments = parser.parse_args()
    study = Study.open(arguments.folder / "study") if arguments.table else search(arguments.folder, arguments.jobs)
    write_table(study)
    return 0


if __name__ == "__main__":
    sys.exit(main())
