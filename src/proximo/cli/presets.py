"""``proximo presets``: for which environments there are tuned hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Annotated

import tyro

from proximo.cli.command import flag, parse
from proximo.cli.flags import OptionalText, default_is
from proximo.zoo.wrappers import WRAPPERS

SUMMARY = f"""List the presets: for each algorithm and environment the steps of a training, its parallel environments,
and the mean return that was measured with it. A name with a colon is a variant (--preset AntBulletEnv-v0:gaussian).

A file of yours has the same keys (proximo train ENV --preset my.toml; --print-config shows them). Its env_wrapper may
name {", ".join(WRAPPERS)}."""
EXAMPLES = (
    "proximo presets",
    "proximo presets HalfCheetah",
    "proximo presets 'MiniGrid-*-5x5-*'",
    "proximo presets --algo a2c",
)


@dataclass(frozen=True, kw_only=True)
class Presets:
    """Which presets to list."""

    pattern: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[PATTERN]"), default_is("all")] = flag(
        "Part of an environment's id, such as Bullet, or a pattern with * and ?, in either case.", ""
    )
    algo: Annotated[OptionalText, default_is("all")] = flag("Only those of one algorithm, such as a2c.", None)


def run(words: Sequence[str]) -> int:
    arguments = parse(Presets, "presets", SUMMARY, EXAMPLES, words)
    from rich.markup import escape
    from rich.table import Table

    from proximo import ALGORITHMS
    from proximo.cli.console import print_table
    from proximo.errors import near_matches
    from proximo.zoo import available_presets, load_preset
    from proximo.zoo.measured import measured_return

    algorithms = list(ALGORITHMS) if arguments.algo is None else [arguments.algo]
    names = [(algorithm, name) for algorithm in algorithms for name in available_presets(algorithm)]
    chosen = [(algorithm, name) for algorithm, name in names if matches(name, arguments.pattern)]
    title = ""
    if not chosen and (chosen := for_environment(algorithms, arguments.pattern)):
        title = f" for {arguments.pattern}"
    if not chosen and arguments.pattern in ALGORITHMS:
        raise ValueError(
            f"no preset matches {arguments.pattern!r}, which is an algorithm; give it as such: proximo presets --algo "
            f"{arguments.pattern}"
        )
    if not chosen:
        known = {name for _, name in names}
        raise ValueError(f"no preset matches {arguments.pattern!r}; {near_matches(arguments.pattern, known)}")
    title = f"{len(chosen)} preset{'s' if len(chosen) > 1 else ''}{title}"
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for column in ("algorithm", "preset", "steps", "environments", "return"):
        table.add_column(column, justify="left" if column in ("algorithm", "preset") else "right")
    for algorithm, name in chosen:
        preset = load_preset(algorithm, name)
        measured = measured_return(algorithm, name)
        shown = "" if measured is None else str(measured)
        table.add_row(algorithm, name, f"{preset.n_timesteps:,}", str(preset.n_envs), shown)
    print_table(table)
    return 0


def for_environment(algorithms: Sequence[str], env_id: str) -> list[tuple[str, str]]:
    """The presets that an environment is trained with though none has its name: those of its family, as for a game of
    Atari, or of the id without its module.

    >>> for_environment(["ppo", "trpo"], "ALE/Pong-v5"), for_environment(["ppo"], "MyOwn-v0")
    ([('ppo', 'atari'), ('trpo', 'atari')], [])
    """
    from proximo.envs.make import versioned_id
    from proximo.zoo import load_preset

    found = [(algorithm, load_preset(algorithm, versioned_id(env_id)).name) for algorithm in algorithms]
    return [(algorithm, name) for algorithm, name in found if name != "default"]


def matches(name: str, pattern: str) -> bool:
    """
    >>> matches("AntBulletEnv-v0", "bullet"), matches("AntBulletEnv-v0", "ant*v1"), matches("Ant-v5", "ant-v?")
    (True, False, True)
    """
    name, pattern = name.lower(), pattern.lower()
    return fnmatch(name, pattern) if set(pattern) & set("*?[") else pattern in name
