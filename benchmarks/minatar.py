"""PPG against PPO on MinAtar, and write ``results/minatar.{md,png}``.

Three games, both algorithms, two million steps per seed, with the presets of the zoo and the small network of MinAtar's
paper. A finished run is one file in ``results/minatar/``; runs that have one are left out, and an interrupted run goes
on from its latest checkpoint, so the queue can be stopped at any time.

    python -m benchmarks.minatar                       # seeds 1, 2 and 3 of all cells
    python -m benchmarks.minatar --only Breakout-ppg   # cells whose name contains a text
    python -m benchmarks.minatar --table               # only table and curves, of the runs that there are
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.training_queue import EVALUATION_EPISODES, Page, Training, difference_section

GAMES = ("Breakout", "Asterix", "SpaceInvaders")


@dataclass(frozen=True)
class GameTraining(Training):
    """One game and algorithm with one seed."""

    benchmark: ClassVar[str] = "minatar"
    game: str
    algo: str

    def environment(self) -> str:
        return f"MinAtar/{self.game}-v1"

    def options(self) -> dict[str, Any]:
        return {"--algo": self.algo}


@dataclass(frozen=True)
class GamePage(Page):
    """The page of both algorithms' games, which says how far they are apart."""

    def remarks(self, results: list[dict[str, Any]]) -> str:
        pairs = {
            game: (self.of_cell(results, game, ("ppg",)), self.of_cell(results, game, ("ppo",))) for game in self.tasks
        }
        return difference_section("game", "PPG − PPO", pairs)


PAGE = GamePage(
    training=GameTraining,
    tasks={game: game for game in GAMES},
    kinds={("ppo",): ("PPO", "tab:blue"), ("ppg",): ("PPG", "tab:orange")},
    title="PPG against PPO on MinAtar",
    introduction=f"""\
Two million steps, the presets `minatar` of both algorithms, which no search has gone into. First the mean return of
{EVALUATION_EPISODES} deterministic episodes after the training, then that of the last hundred training episodes; each
is the mean over seeds, with its standard deviation and 95 % interval (Student's t).""",
    panels=(1, 3),
    digits=1,
)


def main() -> int:
    return PAGE.main(__doc__)[0]


if __name__ == "__main__":
    sys.exit(main())
