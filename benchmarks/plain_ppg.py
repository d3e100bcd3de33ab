"""PPG as one writes it down in plain PyTorch: eager, channels first, float images, torch's default Adam.

The measure for the speed of PPG on images: same network, same batches, same number of gradient steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        return images + self.branch(images)


class Network(nn.Module):
    """IMPALA's residual network with a policy, a value and an auxiliary value head."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for wanted in (16, 32, 32):
            layers += [nn.Conv2d(channels, wanted, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            layers += [Residual(wanted), Residual(wanted)]
            channels = wanted
        self.encoder = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 8 * 8, 256), nn.ReLU())
        self.policy, self.value, self.auxiliary = nn.Linear(256, actions), nn.Linear(256, 1), nn.Linear(256, 1)

    def forward(self, images: Tensor, detach: bool = True) -> tuple[Categorical, Tensor, Tensor]:
        features = self.encoder(images.float() / 255.0)
        values = self.value(features.detach() if detach else features)
        return Categorical(logits=self.policy(features)), values.squeeze(1), self.auxiliary(features).squeeze(1)


class PlainPPG:
    """Collect, one policy epoch per rollout, an auxiliary phase after ``policy_epochs`` of them."""

    def __init__(self, env: Any, n_steps: int, batch_size: int, policy_epochs: int, aux_epochs: int, aux_batches: int):
        self.env, self.n_steps, self.batch_size = env, n_steps, batch_size
        self.policy_epochs, self.aux_epochs, self.aux_batches = policy_epochs, aux_epochs, aux_batches
        self.network = Network(env.action_space.n)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=5e-4, eps=1e-8)
        self.auxiliary_optimizer = torch.optim.Adam(self.network.parameters(), lr=5e-4, eps=1e-8)
        self.observations = env.reset()

    def learn(self, steps: int) -> None:
        stored: list[tuple[Tensor, Tensor]] = []
        for _ in range(steps // (self.n_steps * self.env.num_envs)):
            images, returns = self.iterate()
            stored.append((images, returns))
            if len(stored) == self.policy_epochs:
                self.auxiliary_phase(torch.cat([pair[0] for pair in stored]), torch.cat([pair[1] for pair in stored]))
                stored = []

    def iterate(self) -> tuple[Tensor, Tensor]:
        rows: list[tuple[Tensor, ...]] = []
        for _ in range(self.n_steps):
            images = torch.as_tensor(self.observations)
            with torch.no_grad():
                distribution, values, _ = self.network(images)
                actions = distribution.sample()
            self.observations, rewards, dones, _ = self.env.step(actions.numpy())
            rows.append(
                (
                    images,
                    actions,
                    distribution.log_prob(actions),
                    values,
                    torch.as_tensor(rewards),
                    torch.as_tensor(dones),
                )
            )
        images, actions, log_probs, values, rewards, dones = (torch.stack(column) for column in zip(*rows, strict=True))
        advantages = self.advantages(values, rewards, dones)
        returns = advantages + values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        flat = [part.flatten(0, 1) for part in (images, actions, log_probs, values, advantages, returns)]
        self.policy_epoch(*flat)
        return flat[0], flat[5]

    def advantages(self, values: Tensor, rewards: Tensor, dones: Tensor) -> Tensor:
        with torch.no_grad():
            following = self.network(torch.as_tensor(self.observations))[1]
        found, carried = torch.zeros_like(values), torch.zeros_like(following)
        for step in reversed(range(self.n_steps)):
            goes_on = 1.0 - dones[step].float()
            delta = rewards[step] + 0.999 * following * goes_on - values[step]
            carried = delta + 0.999 * 0.95 * goes_on * carried
            found[step], following = carried, values[step]
        return found

    def policy_epoch(
        self, images: Tensor, actions: Tensor, log_probs: Tensor, values: Tensor, advantages: Tensor, returns: Tensor
    ) -> None:
        for rows in torch.randperm(len(images)).split(self.batch_size):
            distribution, new_values, _ = self.network(images[rows])
            ratio = (distribution.log_prob(actions[rows]) - log_probs[rows]).exp()
            gain = torch.min(ratio * advantages[rows], ratio.clamp(0.8, 1.2) * advantages[rows]).mean()
            clipped = values[rows] + (new_values - values[rows]).clamp(-0.2, 0.2)
            value_loss = (clipped - returns[rows]).square().mean()
            self.step(self.optimizer, -gain + 0.5 * value_loss - 0.01 * distribution.entropy().mean())

    def auxiliary_phase(self, images: Tensor, returns: Tensor) -> None:
        with torch.no_grad():
            old = torch.cat([self.network(chunk)[0].logits for chunk in images.split(self.batch_size)])
        for _ in range(self.aux_epochs):
            for rows in np.array_split(np.random.permutation(len(images)), self.aux_batches):  # noqa: NPY002
                distribution, values, auxiliary = self.network(images[rows], detach=False)
                divergence = kl_divergence(Categorical(logits=old[rows]), distribution).mean()
                errors = (values - returns[rows]).square().mean() + (auxiliary - returns[rows]).square().mean()
                self.step(self.auxiliary_optimizer, 0.5 * errors + divergence)

    def step(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        optimizer.step()
