"""The model card: README.md of a repository, with the metadata that the hub's pages and leaderboards read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proximo.analysis.evaluation import Evaluation
from proximo.envs.make import extras_of
from proximo.hub.client import HubError, require_hub
from proximo.version import __version__

_SECRET = re.compile(
    r"(?i)(^|[^a-z])(token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key)($|[^a-z])"
)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # where a word of hubToken begins


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a card is about."""

    repository: str  # USER/NAME
    env: str
    algo: str  # its name on the command line
    title: str  # its class
    config: str  # TOML
    evaluation: Evaluation
    seed: int  # of the evaluation
    steps: int
    film: str | None = None  # its file name

    @property
    def name(self) -> str:
        return self.repository.partition("/")[2]


def results(subject: Subject) -> dict[str, Any]:
    """``results.json``: the evaluation in the names that RL Baselines3 Zoo uses, and its interval."""
    evaluation = subject.evaluation
    return {
        "mean_reward": evaluation.mean,
        "std_reward": evaluation.std,
        "interval_95": [evaluation.interval.low, evaluation.interval.high],
        "n_eval_episodes": len(evaluation.episode_rewards),
        "is_deterministic": True,
        "seed": subject.seed,
    }


def model_card(subject: Subject) -> str:
    """README.md: metadata as YAML between two rules, then text."""
    return f"---\n{_metadata(subject)}\n---\n\n{_text(subject)}"


def _metadata(subject: Subject) -> str:
    """``model-index`` is what leaderboards read: of ``mean_reward`` the part before ``+/-`` counts."""
    hub = require_hub()
    evaluation = subject.evaluation
    result = hub.EvalResult(
        task_type="reinforcement-learning",
        task_name="reinforcement-learning",
        dataset_name=subject.env,
        dataset_type=subject.env,
        metric_type="mean_reward",
        metric_name="mean_reward",
        metric_value=f"{evaluation.mean:.2f} +/- {evaluation.std:.2f}",
        verified=False,
    )
    data = hub.ModelCardData(
        library_name="proximo",
        pipeline_tag="reinforcement-learning",
        tags=[subject.env, "deep-reinforcement-learning", "reinforcement-learning", "proximo", subject.algo],
        model_name=subject.title,
        eval_results=[result],
    )
    text: str = data.to_yaml()
    return text


def _text(subject: Subject) -> str:
    evaluation, name = subject.evaluation, subject.name
    (_, low, high), episodes = evaluation.interval, len(evaluation.episode_rewards)
    extras = ",".join(["hub", *extras_of(subject.env)])
    film = {"gif": f"\n![The agent at play]({subject.film})\n", "mp4": "\nThe film is `replay.mp4`.\n"}
    return f"""# {subject.title} on {subject.env}

An agent trained for {subject.steps:,} steps with Proximo {__version__}.
{film.get((subject.film or "").rpartition(".")[2], "")}
| return | 95 % interval of the mean | standard deviation | episodes | seed |
|---|---|---|---|---|
| {evaluation.mean:.2f} | {low:.2f} … {high:.2f} | {evaluation.std:.2f} | {episodes} | {subject.seed} |

Actions are the most likely ones (deterministic).

## Use it

```bash
pip install -c constraints.txt '.[{extras}]'  # in a checkout of Proximo {__version__}
proximo hub pull {subject.repository}
proximo evaluate {name} --episodes 10
proximo watch {name}
```

In Python, with the wrappers and the normalisation that it was trained with:

```python
from proximo.analysis.evaluation import evaluate
from proximo.cli.playing import load_agent
from proximo.cli.runs import Run
from proximo.hub import pull

folder = pull("{subject.repository}")
model, env = load_agent(Run.open(folder), n_envs=1, seed=0)
print(evaluate(model, env, 10))
```

Nothing in the repository is run: the model file is read as data, and the configuration names an environment, its \
arguments, and what Proximo has.

## Configuration

`config.toml`, with which `proximo train --preset {name}` repeats the training:

```toml
{subject.config.strip()}
```
"""


def check_no_secrets(config: Any, path: str = "", secret: str = "") -> None:
    """Refuse to make public what a configuration calls a secret, such as ``env_kwargs.api_key``, and what is in it."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            is_named = _SECRET.search(_CAPITAL.sub("_", key))
            check_no_secrets(value, f"{path}{key}.", secret or (f"{path}{key}" if is_named else ""))
    elif isinstance(config, list | tuple):
        for value in config:
            check_no_secrets(value, path, secret)
    elif secret and isinstance(config, str) and config:
        raise HubError(
            f"{secret} in config.toml has the name of a secret, and a repository would show it: let the environment "
            "read it elsewhere, from an environment variable say, and take it out of config.toml"
        )


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration without what it says of the machine: where it began, devices, trackers, times."""
    return {key: value for key, value in config.items() if key != "session"}
