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

from proximo.errors import absent_name

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
_LEFT_OUT = {  # the reason, and what module paths begin with
    _OFF_POLICY: "agent.drqv2 agent.impala agent.utils agent.legacy.ddpg agent.legacy.dqn agent.legacy.sac "
    "agent.legacy.td3 common.prototype.distributed_agent common.prototype.off_policy_agent xploit.policy.off_policy "
    "xploit.policy.distributed_actor_learner xploit.storage.dict_replay xploit.storage.her_replay xploit.storage.utils "
    "xploit.storage.nstep_replay xploit.storage.prioritized_replay xploit.storage.vanilla_distributed "
    "xploit.storage.vanilla_replay xplore.distribution.normal_noise xplore.distribution.ornstein_uhlenbeck "
    "xplore.distribution.truncated_normal",
    _TASKS: "env.craftax env.dmc env.mario env.miniworld env.vizdoom",
    _INNER: "xploit.policy.utils xplore.reward.model",
    "rllte's hub downloads trained models and scores of its own; Proximo downloads nothing": "hub",
    "torch.distributions.kl_divergence compares two distributions": "xplore.distribution.kl",
    "rllte does not offer it either": "xplore.reward.girm xplore.reward.revd xplore.reward.rise",
}
ABSENT = {path: reason for reason, paths in _LEFT_OUT.items() for path in paths.split()}
_NAMES = {  # what is left out of modules that are here: the reason, and the names
    "; " + _OFF_POLICY: "DDPG DQN DrQv2 IMPALA SAC SACDiscrete TD3 DistributedAgent OffPolicyAgent DictReplayBatch "
    "DistributedPolicyType DistributedStorageType NStepReplayBatch OffPolicyType PrioritizedReplayBatch "
    "ReplayStorageType VanillaReplayBatch DistributedWrapper DistributedActorLearner OffPolicyDetActorDoubleCritic "
    "OffPolicyDoubleActorDoubleCritic OffPolicyDoubleQNetwork OffPolicyStochActorDoubleCritic DictReplayStorage "
    "HerReplayStorage NStepReplayStorage PrioritizedReplayStorage VanillaDistributedStorage VanillaReplayStorage "
    "NormalNoise OrnsteinUhlenbeckNoise TruncatedNormalNoise schedule",
    "; " + _TASKS: "make_craftax_env make_dmc_env make_envpool_vizdoom_env make_mario_env make_miniworld_env",
    "; proximo.envs has VecFrameStack, and takes an EnvPool and gymnasium's environments as they are": "AdapterEnv "
    "EnvPoolAsync2Gymnasium EnvPoolSync2Gymnasium FrameStack ImageTranspose Minigrid2Image "
    "RecordEpisodeStatistics4EnvPool",
    "; make_box_env and its like make it": "DictEnv PixelEnv StateEnv",
    "; " + _INNER: "Conv2d_tf ResidualBlock ResidualLayer TanhTransform RewardForwardFilter TorchRunningMeanStd",
    "; torch.distributions.kl_divergence compares two distributions": "kl_bernoulli_bernoulli "
    "kl_categorical_categorical kl_diagonal_gaussian_diagonal_gaussian",
    "; proximo.analysis.aggregates.bootstrap_interval resamples": "StratifiedBootstrap StratifiedIndependentBootstrap",
    ": an agent is saved as a model file; proximo.PPO.load(path).predict(observation) plays it": "ExportModel",
    "; torch.accelerator tells of devices": "get_npu_name",
}
EXPLANATIONS = {name: reason for reason, names in _NAMES.items() for name in names.split()}


def absent(module: str, name: str) -> Exception:
    """The error of a module's ``__getattr__``, with the reason where one of rllte's names is left out."""
    return absent_name(module, name, EXPLANATIONS.get(name, ""), frames=3)


class _Mirror(Loader):
    def __init__(self, source: str) -> None:
        self.source = source

    def exec_module(self, module: ModuleType) -> None:
        source = import_module(self.source)
        module.__doc__ = source.__doc__

        def find(name: str) -> Any:
            if hasattr(source, name):
                return getattr(source, name)
            raise absent(module.__name__, name)

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
