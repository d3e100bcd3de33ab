"""Policies with memory: an LSTM or GRU between the features and the latents of policy and value.

Training runs whole sequences. A sequence is cut where an episode starts inside it; the pieces, padded to one length, go
through the recurrent layer in one call, each from its own initial state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proximo.data import Array, Observation, RNNStates, Schedule, State, TensorObservation, observation_parts
from proximo.errors import ArgumentValueError, NonFiniteError
from proximo.files.encoding import register_class
from proximo.functional.actions import first_action
from proximo.functional.spaces import Space
from proximo.networks.actor_critic import ActorCriticPolicy, BasePolicy, RecurrentState, zero_learning_rate
from proximo.networks.distributions import Distribution
from proximo.networks.encoders import BaseFeaturesExtractor, CombinedExtractor, MlpExtractor, NatureCNN, NetArch


def parts_of_state(layer: nn.Module) -> int:
    """2 for an LSTM (hidden and cell), 1 for a GRU."""
    return 2 if isinstance(layer, nn.LSTM) else 1


def zero_state(layer: nn.LSTM | nn.GRU, environments: int) -> State:
    """The state of a memory that has seen nothing."""
    device = next(layer.parameters()).device
    shape = (layer.num_layers, environments, layer.hidden_size)
    return tuple(torch.zeros(shape, device=device) for _ in range(parts_of_state(layer)))


def forget(state: State, episode_starts: Tensor) -> State:
    """Zeros where an episode starts; ``episode_starts`` is [env]."""
    keep = (1.0 - episode_starts.float()).view(1, -1, 1)
    return tuple(part * keep for part in state)


def _run(layer: nn.LSTM | nn.GRU, inputs: Tensor, state: State) -> tuple[Tensor, State]:
    if isinstance(layer, nn.LSTM):
        outputs, (hidden, cell) = layer(inputs, (state[0], state[1]))
        return outputs, (hidden, cell)
    outputs, hidden = layer(inputs, state[0])
    return outputs, (hidden,)


class Pieces(NamedTuple):
    """Where each (time, sequence) element lies among the pieces that episode starts cut.

    Arguments:
        total: Number of pieces.
        longest: Length of the longest.
    """

    piece: Tensor  # [time, sequence]: index of the piece
    position: Tensor  # [time, sequence]: place within it
    total: int
    longest: int
    first: Tensor  # [sequence]: the piece that each sequence begins with


def cut_at_starts(episode_starts: Tensor) -> Pieces:
    """Cut [time, sequence] at every true entry; the first row begins a piece in any case.

    >>> pieces = cut_at_starts(torch.tensor([[0], [0], [1], [0]]))
    >>> pieces.piece.flatten().tolist(), pieces.position.flatten().tolist()
    ([0, 0, 1, 1], [0, 1, 0, 1])
    """
    begins = episode_starts.bool().clone()
    begins[0] = True
    per_sequence = begins.long().cumsum(dim=0)  # 1-based number of the piece within its sequence
    counts = per_sequence[-1]
    first = counts.cumsum(dim=0) - counts
    time = torch.arange(len(begins), device=begins.device).unsqueeze(1)
    start = torch.where(begins, time, 0).cummax(dim=0).values
    position = time - start
    count, longest = torch.stack([counts.sum(), position.max() + 1]).tolist()  # the host must know: one transfer
    return Pieces(per_sequence - 1 + first, position, count, longest, first)


def step_memory(
    layer: nn.LSTM | nn.GRU, features: Tensor, state: State, episode_starts: Tensor
) -> tuple[Tensor, State]:
    """One step of each environment: features [env, feature] → outputs [env, hidden], and the next state.

    Several steps, [env · time, feature] with ``episode_starts`` [env · time], are walked through one by one.
    """
    environments = state[0].shape[1]
    if features.shape[0] == environments and episode_starts.shape[0] == environments:
        output, state = _run(layer, features.unsqueeze(0), forget(state, episode_starts))
        return output.squeeze(0), state
    if len(features) % environments or len(features) != len(episode_starts):
        raise ValueError(
            f"{len(features)} observations with {len(episode_starts)} episode starts for the memory of {environments} "
            "environments; expected the same number of steps of each"
        )
    by_time = features.reshape(environments, -1, features.shape[-1]).transpose(0, 1)
    outputs = []
    for inputs, starts in zip(by_time, episode_starts.reshape(environments, -1).t(), strict=True):
        output, state = _run(layer, inputs.unsqueeze(0), forget(state, starts))
        outputs.append(output)
    return torch.cat(outputs).transpose(0, 1).flatten(0, 1), state


def run_sequences(layer: nn.LSTM | nn.GRU, features: Tensor, state: State, episode_starts: Tensor) -> Tensor:
    """Whole sequences: features [sequence · time, feature] → outputs [sequence · time, hidden].

    ``state`` [layer, sequence, hidden] is what each sequence begins with; ``episode_starts`` is [sequence · time].
    """
    sequences = state[0].shape[1]
    inputs = features.reshape(sequences, -1, features.shape[-1]).transpose(0, 1)  # [time, sequence, feature]
    starts = episode_starts.reshape(sequences, -1).transpose(0, 1)
    state = forget(state, starts[0])
    if starts[1:].any():
        outputs = _run_pieces(layer, inputs, state, cut_at_starts(starts))
    else:
        outputs, _ = _run(layer, inputs, state)
    return outputs.transpose(0, 1).flatten(0, 1)


def _run_pieces(layer: nn.LSTM | nn.GRU, inputs: Tensor, state: State, pieces: Pieces) -> Tensor:
    """Sequences [time, sequence, feature] as one padded batch of their pieces; padded, not packed: 4 times faster."""
    padded = inputs.new_zeros(pieces.longest, pieces.total, inputs.shape[-1])
    padded = padded.index_put((pieces.position, pieces.piece), inputs)
    initial = tuple(
        part.new_zeros(part.shape[0], pieces.total, part.shape[2]).index_copy(1, pieces.first, part) for part in state
    )
    outputs, _ = _run(layer, padded, initial)
    return outputs[pieces.position, pieces.piece]


FITTING_LSTM_ARGUMENTS = ("bias", "dropout", "device")


class RecurrentActorCriticPolicy(ActorCriticPolicy):
    """An actor-critic with memory: ``features → lstm → mlp_extractor → heads``.

    The value has an LSTM of its own, shares the policy's (``shared_lstm``), or has none but a linear layer
    (``enable_critic_lstm=False``). Wherever a method takes ``episode_starts``, it is true where a sample opens an
    episode. Batches are sequence-major: [sequence · time, …] with as many sequences as the states have columns.
    """

    recurrent = True
    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]] = nn.LSTM

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        lr_schedule: Schedule = zero_learning_rate,
        net_arch: NetArch | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        use_sde: bool = False,
        log_std_init: float = 0.0,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        lstm_hidden_size: int = 256,
        n_lstm_layers: int = 1,
        shared_lstm: bool = False,
        enable_critic_lstm: bool = True,
        lstm_kwargs: dict[str, Any] | None = None,
        value_heads: int = 1,
        actor_keys: Sequence[str] | None = None,
        critic_keys: Sequence[str] | None = None,
    ) -> None:
        if shared_lstm and enable_critic_lstm:
            raise ArgumentValueError(
                "choose one: shared_lstm=True with enable_critic_lstm=False, or an LSTM for the value alone"
            )
        if shared_lstm and not share_features_extractor:
            raise ArgumentValueError(
                "shared_lstm=True needs share_features_extractor=True: one memory reads one set of features"
            )
        self.lstm_output_dim = lstm_hidden_size
        self._memory_arguments = {
            "lstm_hidden_size": lstm_hidden_size,
            "n_lstm_layers": n_lstm_layers,
            "shared_lstm": shared_lstm,
            "enable_critic_lstm": enable_critic_lstm,
            "lstm_kwargs": lstm_kwargs,
        }
        super().__init__(
            observation_space, action_space, lr_schedule, net_arch, activation_fn, ortho_init, use_sde, log_std_init,
            full_std, use_expln, squash_output, features_extractor_class, features_extractor_kwargs,
            share_features_extractor, normalize_images, optimizer_class, optimizer_kwargs, value_heads, actor_keys,
            critic_keys,
        )  # fmt: skip
        if shared_lstm and self.actor_keys != self.critic_keys:
            raise ArgumentValueError(
                f"shared_lstm=True needs equal actor_keys and critic_keys, not {self.actor_keys} and "
                f"{self.critic_keys}: one memory would show the policy what only the value may see"
            )
        self.shared_lstm, self.enable_critic_lstm = shared_lstm, enable_critic_lstm
        self.lstm_kwargs = lstm_kwargs or {}
        if unfit := self.lstm_kwargs.keys() - FITTING_LSTM_ARGUMENTS:
            raise ValueError(
                f"lstm_kwargs has {', '.join(sorted(unfit))}, but the shapes of states and sequences are this policy's "
                f"own; choose among {', '.join(FITTING_LSTM_ARGUMENTS)}"
            )
        sizes = (self.features_dim, lstm_hidden_size)
        self.lstm_actor = self.cell(*sizes, num_layers=n_lstm_layers, **self.lstm_kwargs)
        value_sizes = (self.value_features_dim, lstm_hidden_size)
        self.critic = None if shared_lstm or enable_critic_lstm else nn.Linear(*value_sizes)
        self.lstm_critic = (
            self.cell(*value_sizes, num_layers=n_lstm_layers, **self.lstm_kwargs) if enable_critic_lstm else None
        )
        self.lstm_hidden_state_shape = (n_lstm_layers, 1, lstm_hidden_size)
        # again, with the recurrent layers, which keep torch's own initialisation
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1.0), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = MlpExtractor(self.lstm_output_dim, self.net_arch, self.activation_fn, device=self.device)

    def initial_states(self, environments: int) -> RNNStates:
        """The memory before anything was seen."""
        actor = zero_state(self.lstm_actor, environments)
        critic = () if self.critic is not None else actor if self.lstm_critic is None else None
        return RNNStates(actor, zero_state(self.lstm_critic, environments) if critic is None else critic)  # type: ignore[arg-type]

    def _pair_of_features(self, obs: TensorObservation) -> tuple[Tensor, Tensor]:
        features = self.extract_features(obs)
        return (features, features) if self.share_features_extractor else features

    def _linear_critic(self, features: Tensor) -> Tensor:
        if self.critic is None:
            raise RuntimeError("this policy's value has a memory")
        return self.critic(features)

    def forward(  # type: ignore[override]
        self,
        obs: TensorObservation,
        lstm_states: RNNStates,
        episode_starts: Tensor,
        deterministic: bool = False,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, RNNStates]:
        """Actions, values [batch, 1], log-probabilities [batch], and the next states."""
        policy_features, value_features = self._pair_of_features(obs)
        latent_pi, actor = step_memory(self.lstm_actor, policy_features, lstm_states.pi, episode_starts)
        if self.lstm_critic is not None:
            latent_vf, critic = step_memory(self.lstm_critic, value_features, lstm_states.vf, episode_starts)
        elif self.shared_lstm:
            latent_vf, critic = latent_pi, actor
        else:
            latent_vf, critic = self._linear_critic(value_features), lstm_states.vf
        distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(latent_pi), action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        values = self.value_net(self.mlp_extractor.forward_critic(latent_vf))
        shaped = actions.reshape((-1, *self.action_shape))
        return shaped, values, distribution.log_prob(actions), RNNStates(actor, critic)

    @staticmethod
    def _process_sequence(
        features: Tensor, lstm_states: State, episode_starts: Tensor, lstm: nn.LSTM | nn.GRU
    ) -> tuple[Tensor, State]:
        """:func:`step_memory` by the name and in the order that subclasses written for sb3-contrib know."""
        return step_memory(lstm, features, lstm_states, episode_starts)

    def evaluate_actions(  # type: ignore[override]
        self,
        obs: TensorObservation,
        actions: Tensor,
        lstm_states: RNNStates,
        episode_starts: Tensor,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values [batch, 1], log-probabilities [batch] and entropy [batch] of given actions along sequences."""
        policy_features, value_features = self._pair_of_features(obs)
        latent_pi = run_sequences(self.lstm_actor, policy_features, lstm_states.pi, episode_starts)
        if self.lstm_critic is not None:
            latent_vf = run_sequences(self.lstm_critic, value_features, lstm_states.vf, episode_starts)
        elif self.shared_lstm:
            latent_vf = latent_pi.detach()  # the value does not shape the policy's memory
        else:
            latent_vf = self._linear_critic(value_features)
        distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(latent_pi), action_masks)
        values = self.value_net(self.mlp_extractor.forward_critic(latent_vf))
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(  # type: ignore[override]
        self, obs: TensorObservation, lstm_states: State, episode_starts: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Distribution, State]:
        """The distribution of actions for observations, and the next state of the memory."""
        features = BasePolicy.extract_features(self, obs, self.pi_features_extractor)
        latent, state = step_memory(self.lstm_actor, features, lstm_states, episode_starts)
        return self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(latent), action_masks), state

    def predict_values(self, obs: TensorObservation, lstm_states: State, episode_starts: Tensor) -> Tensor:  # type: ignore[override]
        """[batch, 1]; ``lstm_states`` are those of the value network."""
        features = BasePolicy.extract_features(self, obs, self.vf_features_extractor)
        if self.lstm_critic is not None or self.shared_lstm:
            layer = self.lstm_actor if self.lstm_critic is None else self.lstm_critic
            latent, _ = step_memory(layer, features, lstm_states, episode_starts)
        else:
            latent = self._linear_critic(features)
        return self.value_net(self.mlp_extractor.forward_critic(latent))

    def predict(
        self,
        observation: Observation,
        state: RecurrentState | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Array | None = None,
    ) -> tuple[Any, RecurrentState | None]:
        """Actions, and the memory to give back with the next observations; None starts with none."""
        self.set_training_mode(False)
        tensors, vectorized = self.obs_to_tensor(observation)
        rows = len(observation_parts(tensors)[0])
        memory = self._given_state(state, rows)
        starts = np.asarray(False if episode_start is None else episode_start, np.float32).reshape(-1)
        if len(starts) not in (1, rows):
            raise ValueError(f"episode_start has {len(starts)} entries for {rows} observations; pass one for each")
        masks = None if action_masks is None else self._mask_tensor(action_masks, tensors)
        with torch.no_grad():
            begins = torch.as_tensor(starts, device=self.device).expand(rows)
            actions, memory = self._predict(tensors, memory, begins, deterministic, masks)
        bounded = self.bound_actions(actions.cpu().numpy().reshape((-1, *self.action_shape)))
        return (bounded if vectorized else first_action(bounded)), tuple(part.cpu().numpy() for part in memory)

    def _predict(  # type: ignore[override]
        self,
        observation: TensorObservation,
        lstm_states: State,
        episode_starts: Tensor,
        deterministic: bool = False,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Actions as the network gives them, and the next memory."""
        distribution, memory = self.get_distribution(observation, lstm_states, episode_starts, action_masks)
        return distribution.get_actions(deterministic=deterministic), memory

    def _given_state(self, state: RecurrentState | None, rows: int) -> State:
        fresh = zero_state(self.lstm_actor, rows)
        if state is None:
            return fresh
        if not isinstance(state, Sequence):
            raise TypeError(
                f"state is {state!r}; pass the state that the previous predict() returned, or None to start"
            )
        shapes = [tuple(np.shape(part)) for part in state]
        if shapes != [tuple(part.shape) for part in fresh]:
            raise ValueError(
                f"state has shapes {shapes}, expected {[tuple(part.shape) for part in fresh]} (layers, observations, "
                "hidden); pass the state that the previous predict() returned, or None to start"
            )
        given = tuple(torch.as_tensor(part, dtype=torch.float32, device=self.device) for part in state)
        if not all(part.isfinite().all() for part in given):
            raise NonFiniteError("state holds NaN or infinity; pass None to start with an empty memory")
        return given

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self._memory_arguments


class RecurrentActorCriticCnnPolicy(RecurrentActorCriticPolicy):
    """Memory over images."""

    usual_features_extractor = NatureCNN


class RecurrentMultiInputActorCriticPolicy(RecurrentActorCriticPolicy):
    """Memory over Dict observations."""

    usual_features_extractor = CombinedExtractor


class GruActorCriticPolicy(RecurrentActorCriticPolicy):
    """A GRU in place of the LSTM: one state instead of two, a quarter fewer weights.

    On a CPU it trains many times slower: for the LSTM, torch has a fused kernel there.
    """

    cell = nn.GRU


class GruActorCriticCnnPolicy(RecurrentActorCriticCnnPolicy):
    cell = nn.GRU


class GruMultiInputActorCriticPolicy(RecurrentMultiInputActorCriticPolicy):
    cell = nn.GRU


RECURRENT_POLICY_ALIASES: Mapping[str, type[ActorCriticPolicy]] = {
    "MlpLstmPolicy": RecurrentActorCriticPolicy,
    "CnnLstmPolicy": RecurrentActorCriticCnnPolicy,
    "MultiInputLstmPolicy": RecurrentMultiInputActorCriticPolicy,
    "MlpGruPolicy": GruActorCriticPolicy,
    "CnnGruPolicy": GruActorCriticCnnPolicy,
    "MultiInputGruPolicy": GruMultiInputActorCriticPolicy,
}

for _class in RECURRENT_POLICY_ALIASES.values():
    register_class(_class.__name__, _class)
