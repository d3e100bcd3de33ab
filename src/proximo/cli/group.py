"""A group: the folder that holds the runs of several seeds, and what is to be trained in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proximo.cli.runs import Run, runs_of_group
from proximo.files.atomic import write_whole
from proximo.files.plain_text import read_toml
from proximo.training.run_folder import GROUP_FILE, RunFolderError, make_dated_folder, to_toml

OWN_FLAGS = ("--seeds", "--seed", "--jobs", "--runs-dir")  # of the group; each of its trainings gets its own
PATH_FLAGS = ("--preset", "--init-from")  # which may name a file or a folder


@dataclass(frozen=True)
class Group:
    """A folder of runs that differ only in their seed; ``words`` are what ``proximo train`` is told for each."""

    path: Path
    seeds: tuple[int, ...]
    jobs: int
    words: tuple[str, ...]

    @classmethod
    def create(cls, root: Path, title: str, seeds: Sequence[int], jobs: int, words: Sequence[str]) -> Group:
        is_range = len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
        shown = f"{seeds[0]}-{seeds[-1]}" if is_range else "_".join(map(str, seeds))
        path = make_dated_folder(root, f"{title}-seeds-{shown}")
        group = cls(path, tuple(seeds), jobs, tuple(words_of_each(words)))
        table = {"seeds": list(group.seeds), "jobs": jobs, "command": list(group.words)}
        write_whole(path / GROUP_FILE, to_toml(table))
        return group

    @staticmethod
    def is_one(path: Path) -> bool:
        return (path / GROUP_FILE).is_file()

    @classmethod
    def open(cls, path: Path) -> Group:
        file = path / GROUP_FILE
        try:
            table = read_toml(file, GROUP_FILE)
            return cls(path, tuple(table["seeds"]), int(table["jobs"]), tuple(table["command"]))
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise RunFolderError(
                f"{file} does not describe a group of runs ({error!r}); mend it or train again"
            ) from error

    def runs(self) -> dict[int, Run]:
        """The runs that there are, by their seed; of several with one seed the latest."""
        return {run.config.seed: run for run in map(Run.open, runs_of_group(self.path))}

    def log(self, seed: int) -> Path:
        """What the training with that seed prints."""
        return self.path / f"seed-{seed}.log"


def words_of_each(words: Sequence[str]) -> list[str]:
    """The words of a command line for one of its trainings; files are named so that any folder can be worked in.

    >>> words_of_each(["CartPole-v1", "--seeds", "1-5", "--jobs=2", "--gamma", "0.9"])
    ['CartPole-v1', '--gamma', '0.9']
    """
    kept: list[str] = []
    waiting = iter(words)
    for word in waiting:
        written, equals, value = word.partition("=")
        name = written.replace("_", "-")  # either is read
        if name in OWN_FLAGS:
            if not equals:
                next(waiting, None)
        elif name in PATH_FLAGS:
            value = value if equals else next(waiting, "")
            kept += [name, str(Path(value).resolve()) if Path(value).exists() else value]
        else:
            kept.append(word)
    return kept
