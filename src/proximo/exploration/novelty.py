"""The base of intrinsic rewards made of networks and perhaps a memory."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.config import COUNT, POSITIVE_FINITE, hyperparameter, numeric, one_of
from proximo.errors import NonFiniteError
from proximo.exploration.base import IntrinsicReward, Samples, Transitions
from proximo.exploration.model import ENCODER_MODELS, WEIGHT_INITS, make_encoder
from proximo.functional.spaces import get_flattened_obs_dim, preprocess_obs
from proximo.networks.distributions import make_proba_distribution

# images of a long rollout go through a network in pieces
ROWS_AT_ONCE = 1024


@dataclass(kw_only=True, eq=False)
class NoveltyReward(IntrinsicReward):
    """Base of rewards in the features of an encoder: subclasses make networks in ``build`` and say what is new."""

    latent_dim: int = hyperparameter("Width of the features.", 128, COUNT)
    encoder_model: str = hyperparameter(
        "Encoder of images: 'mnih' (DQN's, from 36 x 36 pixels) or 'pathak', also known as 'espeholt', for any size.",
        "mnih",
        one_of(*ENCODER_MODELS),
    )
    weight_init: str = hyperparameter("How weights start.", "orthogonal", one_of(*WEIGHT_INITS))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.networks = nn.ModuleDict()
        self.memory: list[Tensor] = []  # of the episodes of each environment

    def make_encoder(self) -> nn.Module:
        """Observations [batch, *obs_shape] → [batch, latent_dim]"""
        return make_encoder(self.reader, self.latent_dim, self.encoder_model, self.weight_init)

    def keep(self, **networks: nn.Module) -> None:
        """Take networks into :attr:`networks`."""
        for name, network in networks.items():
            self.networks[name] = network.to(self.device)

    @abstractmethod
    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        """The reward [time, env] before normalisation; the memory moves on only with ``sync``."""

    def compute(self, samples: Samples, sync: bool = True) -> Tensor:
        transitions = self.transitions(samples)
        if sync:
            self.observe(transitions)
        with torch.no_grad():
            novelty = self.novelty(transitions, sync)
        if sync:
            self.metrics["intrinsic_rewards"].append((self.global_step, float(novelty.mean())))
            self.learn(transitions)
        return self.scale(novelty, sync)

    def update(self, samples: Samples) -> None:
        self.learn(self.transitions(samples))

    def learn(self, transitions: Transitions) -> None:
        """Train the networks on a rollout."""

    def features(self, network: str, observations: Tensor) -> Tensor:
        """[time, env, feature] of a network over [time, env, *observation]."""
        pieces = observations.flatten(0, 1).split(ROWS_AT_ONCE)
        rows = torch.cat([self.networks[network](self.normalize(piece)) for piece in pieces])
        return rows.unflatten(0, observations.shape[:2])

    def encode_actions(self, actions: Tensor) -> Tensor:
        """[batch, action column] → [batch, width]: choices one-hot, switches and continuous actions as they are."""
        encoded = [preprocess_obs(part, space, normalize_images=False) for space, part in self.split_actions(actions)]
        return torch.cat([part.flatten(1) for part in encoded], dim=1)  # type: ignore[union-attr]

    def action_losses(self, predicted: Tensor, actions: Tensor) -> Tensor:
        """[batch]: squared error for continuous actions, else −log p(action)."""
        widths = [get_flattened_obs_dim(space) for space in self.action_parts]
        losses = [
            (guess - part).square().mean(dim=-1)
            if isinstance(space, spaces.Box)
            else -make_proba_distribution(space).proba_distribution(guess).log_prob(part)
            for guess, (space, part) in zip(predicted.split(widths, dim=-1), self.split_actions(actions), strict=True)
        ]
        return torch.stack(losses).sum(dim=0)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["networks"] = {name: tensor.clone() for name, tensor in self.networks.state_dict().items()}
        state["memory"] = [tensor.clone() for tensor in self.memory]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.networks.load_state_dict(state["networks"])
        if self._same_environments(state):
            self.memory = [tensor.to(self.device).clone() for tensor in state["memory"]]


@dataclass(kw_only=True, eq=False)
class LearnedReward(NoveltyReward):
    """Base of rewards whose networks learn from each rollout: subclasses say in :meth:`losses` what."""

    lr: float = hyperparameter("Step size of the Adam that trains the networks.", 0.001, POSITIVE_FINITE)
    batch_size: int = hyperparameter("Samples per minibatch; each rollout is passed over once.", 256, COUNT)
    update_proportion: float = hyperparameter(
        "Share of the samples that train, drawn for each minibatch.",
        1.0,
        numeric(lambda value: 0 < value <= 1, "a share above 0, at most 1"),
    )

    def keep(self, **networks: nn.Module) -> None:
        """Take networks into :attr:`networks`; one Adam trains all that are not frozen."""
        super().keep(**networks)
        self.optimizer = torch.optim.Adam(
            [part for part in self.networks.parameters() if part.requires_grad], lr=self.lr
        )

    @abstractmethod
    def losses(self, batch: Transitions) -> Tensor:
        """Training losses per sample [batch], or [network, batch]."""

    def learn(self, transitions: Transitions) -> None:
        rows = Transitions(*(part.flatten(0, 1) for part in transitions))
        if not bool(rows.valid.all()):
            rows = Transitions(*(part[rows.valid] for part in rows))
        if not len(rows.ended):
            return
        total, skipped = 0.0, 0
        batches = torch.randperm(len(rows.ended), device=self.device).split(self.batch_size)
        for indices in batches:
            losses = self.losses(Transitions(*(part[indices] for part in rows)))
            chosen = torch.rand(losses.shape, device=self.device) < self.update_proportion
            loss = (losses * chosen).sum() / chosen.sum().clamp(min=1)
            if self._step(loss):
                total += loss.item()
            else:
                skipped += 1
        if skipped:
            warnings.warn(
                f"{skipped} of {len(batches)} minibatches of {type(self).__name__} gave NaN or infinity and were "
                "skipped",
                stacklevel=2,
            )
        self.metrics["loss"].append((self.global_step, total / max(len(batches) - skipped, 1)))

    def _step(self, loss: Tensor) -> bool:
        """Descend a loss; False, or an error, where it or its gradient is not finite: the weights stay finite."""
        self.optimizer.zero_grad()
        loss.backward()
        slopes = [part.grad for part in self.networks.parameters() if part.grad is not None]
        if bool(torch.isfinite(torch.nn.utils.get_total_norm(slopes))):
            self.optimizer.step()
            return True
        if self.skip_non_finite:
            return False
        raise NonFiniteError(
            f"NaN or infinity in the loss of {type(self).__name__} or its gradient; it was not applied, so the weights "
            f"are still finite. A smaller lr than {self.lr} usually cures this"
        )

    def state_dict(self) -> dict[str, Any]:
        # copied: the optimiser's own tensors change in place
        return super().state_dict() | {"optimizer": copy.deepcopy(self.optimizer.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.optimizer.load_state_dict(state["optimizer"])
