"""Intrinsic rewards as rllte makes them: with the environments and the device, in its order of arguments.

They are those of :mod:`proximo.exploration`, bound at once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from proximo import exploration
from proximo.data import Observation, Rollout
from proximo.exploration import total_reward as total_reward
from proximo.files.encoding import register_alias

_COMMON = ("beta", "kappa", "gamma", "rwd_norm_type", "obs_norm_type")
_TRAINED = ("latent_dim", "lr", "batch_size")
_KERNEL = ("k", "kernel_cluster_distance", "kernel_epsilon", "c", "sm")
_ENCODER = ("encoder_model", "weight_init")
_LAST = ("update_proportion", *_ENCODER)


class BaseReward(exploration.IntrinsicReward):
    """Base of intrinsic rewards; your own calls ``super().compute(samples, sync)`` first and returns its rewards.

    ``envs`` gives spaces and ``num_envs``; it is not stepped.
    """

    order: ClassVar[tuple[str, ...]] = _COMMON  # of the arguments after ``envs`` and ``device``

    def __init__(self, envs: Any, device: str = "cpu", *arguments: Any, **named: Any) -> None:
        """Arguments:
        envs: The environments, which give spaces and num_envs; they are not stepped.
        device: Where the reward's networks learn: cpu, cuda, …
        """
        if len(arguments) > len(self.order):
            raise TypeError(f"{type(self).__name__} takes envs, device, {', '.join(self.order)}; got {arguments}")
        super().__init__(**dict(zip(self.order, arguments, strict=False)), **named)
        self.bind(
            getattr(envs, "single_observation_space", envs.observation_space),
            getattr(envs, "single_action_space", envs.action_space),
            envs.num_envs,
            device,
        )

    def watch(
        self,
        observations: Tensor,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        next_observations: Tensor,
    ) -> None:
        """See one step of all environments. Ours need not be called: all they need is in the samples of a rollout."""

    def shape(self, rollout: Rollout, next_observations: Observation) -> None:
        if type(self).watch is not BaseReward.watch:
            samples = self.samples(rollout, next_observations)
            del samples["valid"]
            for step in range(rollout.steps):
                self.watch(**{key: part[step] for key, part in samples.items()})
        super().shape(rollout, next_observations)


class RND(BaseReward, exploration.RND):
    """The error of a network that learns the features of a random one (Burda et al. 2018)."""

    order = (*_COMMON, *_TRAINED, *_LAST)


class ICM(BaseReward, exploration.ICM):
    """The error of predicting where an action leads (Pathak et al. 2017)."""

    order = (*_COMMON, *_TRAINED, *_LAST)


class E3B(BaseReward, exploration.E3B):
    """Directions of the features that the episode has not seen (Henaff et al. 2022)."""

    order = (*_COMMON, "ridge", *_TRAINED, *_LAST)


class Disagreement(BaseReward, exploration.Disagreement):
    """The variance of several predictions (Pathak et al. 2019)."""

    order = (*_COMMON, "ensemble_size", *_TRAINED, *_LAST)


class RE3(BaseReward, exploration.RE3):
    """The distance to the k-th nearest state, in random features (Seo et al. 2021)."""

    order = (*_COMMON, "latent_dim", "storage_size", "k", "average_entropy", *_ENCODER)


class PseudoCounts(BaseReward, exploration.PseudoCounts):
    """Few visits within the episode, counted softly (Badia et al. 2020)."""

    order = (*_COMMON, *_TRAINED, *_KERNEL, *_LAST)


class RIDE(BaseReward, exploration.RIDE):
    """How far a step moved the features, divided by the visits (Raileanu and Rocktäschel 2020)."""

    order = (*_COMMON, *_TRAINED, *_KERNEL, *_LAST)


class NGU(BaseReward, exploration.NGU):
    """Soft counts within the episode, times a factor that fades over the training (Badia et al. 2020)."""

    order = (*_COMMON, *_TRAINED, *_KERNEL, "mrs", *_LAST)


class Fabric(exploration.Fabric, BaseReward):
    """The sum of several rewards."""

    def watch(self, *step: Tensor, **named: Tensor) -> None:
        for part in self.rewards:
            if isinstance(part, BaseReward):
                part.watch(*step, **named)


for _class in (RND, ICM, E3B, Disagreement, RE3, PseudoCounts, RIDE, NGU, Fabric):
    register_alias(_class, getattr(exploration, _class.__name__))
