"""Hsuanwu's configurations: what a trainer reads from one, and the parts that it may name.

A configuration is data. The parts that it names are looked up in the tables below; nothing is imported by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from proximo.errors import MissingExtraError, near_matches
from proximo.files.named_parts import Part, Parts, is_named
from proximo.hsuanwu.described_spaces import plain
from proximo.hsuanwu.xploit import encoder, learner, storage
from proximo.hsuanwu.xplore import augmentation, distribution, reward

MODULES = {
    "xploit.encoder": encoder,
    "xploit.learner": learner,
    "xploit.storage": storage,
    "xplore.augmentation": augmentation,
    "xplore.distribution": distribution,
    "xplore.reward": reward,
}
PARTS = Parts(
    ("proximo.hsuanwu", "hsuanwu"),
    {
        kind: {name: made for name, made in vars(module).items() if isinstance(made, type) and name[0] != "_"}
        for kind, module in MODULES.items()
    },
)
OFF_POLICY_KEYS = {"num_init_steps", "test_every_steps"}  # in every Hsuanwu configuration, without meaning here


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """The keys of a configuration, with Hsuanwu's names and defaults.

    Arguments:
        experiment: Name of the run: files go to logs/{experiment}/{time}.
        device: Where the network learns: cpu, cuda, …
        seed: Seed of everything random.
        num_train_steps: Steps of the training, all environments together.
        num_steps: Steps per environment and rollout.
        num_envs: Number of environments, if it shall be checked; the environment itself says it.
        test_every_episodes: Updates between two evaluations.
        num_test_episodes: Episodes of an evaluation.
        pretraining: Whether the environment's rewards count as 0; a reward must be named then.
        encoder: The encoder's name and arguments.
        learner: The learner's name and arguments.
        storage: The storage's name and arguments.
        distribution: The distribution's name and arguments.
        augmentation: The augmentation's name and arguments.
        reward: The intrinsic reward's name and arguments.
    """

    experiment: str = "default"
    device: str = "cpu"
    seed: int = 1
    num_train_steps: float = 100_000
    num_steps: int = 256
    num_envs: int | None = None
    test_every_episodes: int = 10
    num_test_episodes: int = 10
    pretraining: bool = False
    use_irs: bool | None = None  # None: if a reward is named
    use_aug: bool | None = None  # None: if an augmentation is named
    encoder: Part = field(default_factory=dict)
    learner: Part = field(default_factory=dict)
    storage: Part = field(default_factory=dict)
    distribution: Part = field(default_factory=dict)
    augmentation: Part = field(default_factory=dict)
    reward: Part = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("num_steps", "test_every_episodes", "num_test_episodes"):
            count = getattr(self, name)
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; expected a positive whole number")
        for name in ("encoder", "learner", "storage", "distribution", "augmentation", "reward"):
            if not isinstance(getattr(self, name), dict):
                raise TypeError(f"{name} is {getattr(self, name)!r}; expected a mapping such as {{name: …}}")
        for switch, part in (("use_irs", "reward"), ("use_aug", "augmentation")):
            if getattr(self, switch) and not is_named(getattr(self, part)):
                raise ValueError(f"{switch} is true, but no {part} is named; write {part}: {{name: …}}")
        if self.pretraining and not self.is_used("reward"):
            raise ValueError("pretraining is true, which needs an intrinsic reward; write reward: {name: RE3}, say")

    def is_used(self, part: str) -> bool:
        """Whether the reward or the augmentation is named and not switched off."""
        switch = self.use_irs if part == "reward" else self.use_aug
        return is_named(getattr(self, part)) and switch is not False


def read_settings(cfgs: Mapping[str, Any] | str | Path) -> TrainerSettings:
    """A dict, an OmegaConf DictConfig, or a YAML file."""
    if isinstance(cfgs, str | Path):
        cfgs = _load_yaml(cfgs)
    if not isinstance(cfgs, Mapping):
        raise TypeError(f"cfgs is {cfgs!r:.80}; expected a DictConfig, a dict or the path of a YAML file")
    given = {key: value for key, value in plain(cfgs).items() if key not in OFF_POLICY_KEYS and value is not None}
    known = [each.name for each in fields(TrainerSettings)]
    if unknown := [key for key in given if key not in known]:
        raise ValueError(f"the configuration has the unknown key {unknown[0]!r}; {near_matches(unknown[0], known)}")
    return TrainerSettings(**given)


def _load_yaml(path: str | Path) -> Mapping[str, Any]:
    try:
        from omegaconf import OmegaConf
    except ImportError as error:
        raise MissingExtraError("omegaconf", "hydra", "reading a configuration file") from error
    return OmegaConf.load(path)  # type: ignore[return-value]
