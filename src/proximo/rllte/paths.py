"""rllte's other module paths: those that name what another one has, and those that are left out, with the reason.

rllte has a module for each class. Here ``proximo.rllte.xploit.encoder.mnih_cnn_encoder`` is the package
``proximo.rllte.xploit.encoder`` under another name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOT = "proximo.rllte"
_MIRRORED = {  # package: modules that name what the package has
    "agent": "legacy legacy.a2c legacy.ppo",
    "common.prototype": "base_augmentation base_distribution base_encoder base_reward base_storage",
    "env": "atari bullet minigrid procgen testing testing.bitflipping testing.box testing.discrete "
    "testing.multibinary testing.multidiscrete",
    "evaluation": "comparison performance utils visualization",
    "xploit.encoder": "espeholt_residual_encoder identity_encoder mnih_cnn_encoder pathak_cnn_encoder "
    "raffin_combined_encoder tassa_cnn_encoder vanilla_mlp_encoder",
    "xploit.storage": "dict_rollout_storage vanilla_rollout_storage",
    "xplore.augmentation": "gaussian_noise grayscale identity random_amplitude_scaling random_colorjitter "
    "random_convolution random_crop random_cutout random_cutoutcolor random_flip random_rotate random_shift "
    "random_translate",
    "xplore.distribution": "bernoulli categorical diagonal_gaussian multi_categorical squashed_normal",
    "xplore.reward": "disagreement e3b fabric icm ngu pseudo_counts re3 ride rnd",
}
ALIASES = {f"{package}.{leaf}": f"{ROOT}.{package}" for package, text in _MIRRORED.items() for leaf in text.split()}
ALIASES |= {
    "common.initialization": "proximo.networks.initialization",
    "env.atari.wrappers": "proximo.envs.wrappers.atari",
}
_OFF_POLICY = "Proximo is an on-policy library; keep rllte for its off-policy and distributed agents"
_INNER = "rllte's inner parts have no counterpart; policies and rewards are the library's own networks"
_TASKS = "give make_rllte_env an id or a callable that makes the environment"
ABSENT = {
    **dict.fromkeys(("agent.drqv2", "agent.impala", "agent.utils"), _OFF_POLICY),
    **dict.fromkeys((f"agent.legacy.{name}" for name in ("ddpg", "dqn", "sac", "sacd", "td3")), _OFF_POLICY),
    **dict.fromkeys((f"common.prototype.{name}_agent" for name in ("distributed", "off_policy")), _OFF_POLICY),
    **dict.fromkeys((f"env.{name}" for name in ("craftax", "dmc", "mario", "miniworld", "vizdoom")), _TASKS),
    "hub": "rllte's hub downloads trained models and scores of its own; Proximo downloads nothing",
    **dict.fromkeys((f"xploit.policy.{name}" for name in ("distributed_actor_learner", "off_policy")), _OFF_POLICY),
    "xploit.policy.utils": _INNER,
    **dict.fromkeys((f"xploit.storage.{name}" for name in ("dict_replay", "her_replay", "nstep_replay")), _OFF_POLICY),
    **dict.fromkeys((f"xploit.storage.{name}" for name in ("prioritized_replay", "utils")), _OFF_POLICY),
    **dict.fromkeys((f"xploit.storage.vanilla_{name}" for name in ("distributed", "replay")), _OFF_POLICY),
    **dict.fromkeys((f"xplore.distribution.{name}" for name in ("normal_noise", "ornstein_uhlenbeck")), _OFF_POLICY),
    "xplore.distribution.truncated_normal": _OFF_POLICY,
    "xplore.distribution.kl": "torch.distributions.kl_divergence compares two distributions",
    "xplore.reward.model": _INNER,
    **dict.fromkeys((f"xplore.reward.{name}" for name in ("girm", "revd", "rise")), "rllte does not offer it either"),
}


class _Mirror(Loader):
    def __init__(self, source: str) -> None:
        self.source = source

    def exec_module(self, module: ModuleType) -> None:
        source = import_module(self.source)
        module.__doc__ = source.__doc__

        def find(name: str) -> Any:
            return getattr(source, name)

        module.__getattr__ = find  # type: ignore[method-assign]


class _Paths(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{ROOT}.")
        if name in ALIASES:
            return ModuleSpec(fullname, _Mirror(ALIASES[name]), is_package=True)
        if name != fullname and (reason := next((why for of, why in ABSENT.items() if name.startswith(of)), None)):
            raise ModuleNotFoundError(f"there is no {fullname}: {reason}", name=fullname)
        return None


def install() -> None:
    """Let Python find them, after the modules that are files."""
    if not any(isinstance(finder, _Paths) for finder in sys.meta_path):
        sys.meta_path.append(_Paths())
