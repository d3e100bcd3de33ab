"""Names for types of policies with memory."""

from proximo.data import Minibatch as RecurrentDictRolloutBufferSamples
from proximo.data import Minibatch as RecurrentRolloutBufferSamples
from proximo.data import RNNStates
from proximo.sb3.common.type_aliases import TensorDict

__all__ = ["RNNStates", "RecurrentDictRolloutBufferSamples", "RecurrentRolloutBufferSamples", "TensorDict"]
