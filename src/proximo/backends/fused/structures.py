"""The C structures through which Python tells the kernels where everything lies and what to do.

A kernel call costs 0.2 µs plus 0.07 µs per array; one address of a structure costs next to nothing. So the arrays of a
policy, of a rollout and of an optimiser are bound once, as addresses, and a step of the environment hands over two
integers and the observations. Whoever fills a structure keeps the arrays alive (see ``plan.py``).

Activations are kept feature-major, ``[feature, lane]`` with one lane per sample: every loop then runs over samples,
whatever the widths of the network, and a batch needs no padding to the width of a layer.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

FEW = 4  # rows up to which dot products are quicker than a product with one lane per row
CHUNK = 128  # samples that go through the network at once; the activations of a chunk fit a core's cache


class Activation(IntEnum):
    IDENTITY = 0
    TANH = 1
    RELU = 2
    ELU = 3
    LEAKY_RELU = 4
    SILU = 5
    SIGMOID = 6


class Head(IntEnum):
    """Families of action distributions; a single Discrete action is a MultiDiscrete of one."""

    CATEGORICAL = 0  # ``groups`` counts the choices of each action
    BERNOULLI = 1
    GAUSSIAN = 2
    STATE_DEPENDENT = 3  # a Gaussian whose noise is a linear function of the latent, see ``EXPLORATION``


class ActionKind(IntEnum):
    """Number types in which actions are stored."""

    INT64 = 0
    INT32 = 1
    INT8 = 2
    FLOAT32 = 3


class Objective(IntEnum):
    """What the policy maximises: the clipped surrogate of PPO, or advantage · log-probability (A2C)."""

    CLIPPED = 0
    PLAIN = 1


class Optimizer(IntEnum):
    ADAM = 0
    RMSPROP = 1
    RMSPROP_TF = 2  # ε within the square root


class Role(IntEnum):
    """Which of the two networks; they meet only in the norm of the gradient."""

    ACTOR = 0
    CRITIC = 1


class Status(IntEnum):
    """How an update ended; a minibatch that stops it is not applied."""

    DONE = 0
    KL_EXCEEDED = 1
    NON_FINITE = 2
    ABANDONED = 3  # the other thread never came


class Column(IntEnum):
    """Columns of the metrics of an update, one row per minibatch."""

    POLICY_LOSS = 0
    VALUE_LOSS = 1
    ENTROPY_LOSS = 2
    APPROX_KL = 3
    CLIP_FRACTION = 4
    LOSS = 5


def _structure(integers: str, numbers: str = "") -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in integers.split()] + [(name, np.float64) for name in numbers.split()])


# One linear layer and its activation. All but the sizes are addresses of float32:
# weight [outputs, inputs], bias [outputs] and their gradients; input [inputs, lanes], the same transposed in
# input_rows [lanes, inputs padded]; output [outputs, lanes]; slope of the activation (SiLU only) and error, the
# gradient with respect to what the activation took in, both [outputs, lanes]; margin [outputs, ALIGNMENT], scratch.
LAYER = _structure(
    "inputs outputs activation weight bias weight_gradient bias_gradient input input_rows output slope error margin"
)

# An actor-critic: layers of the policy, then of the value network; head and action space; scratch memory per lane.
# Masks, once there are any, are spread as ones and zeros over mask_rows [lane, entry padded] and allowed [entry, lane].
PLAN = _structure(
    "layers policy_layers value_layers features lanes "
    "head groups action_size action_kind starts low high log_std log_std_gradient exploration "
    "actions log_probs entropies group_entropies log_prob_gradients scratch mask_width mask_rows allowed"
)

# State-dependent noise: columns counts the deviations per latent, one for each action or one for all of them.
# squared_deviations [latent, column]; squared_latents [latent, lane], transposed in squared_latent_rows
# [lane, latent padded]; variances and variance_errors [column, lane]; gradient [column, latent padded].
EXPLORATION = _structure(
    "columns expln squared_deviations squared_latents squared_latent_rows variances variance_errors gradient",
    "epsilon",
)

# Where acting writes: noise [time, env, action] and, unless their addresses are 0, masks [time, env, entry] and noise
# matrices [env, action, latent padded with zeros] are read; actions, values, log_probs and env_actions are written.
TARGET = _structure("environments noise masks matrices actions values log_probs env_actions")

# A parameter within the flat memory: first float, number of floats with padding, network it belongs to.
SEGMENT = _structure("offset size role")

# One update: the samples (masks may be 0), the order to take them in for each epoch, what to minimise, the optimiser's
# memory, what is reported per minibatch, and where two threads meet.
UPDATE = _structure(
    "features actions masks log_probs values advantages returns scaled_advantages orders epochs samples batch_size "
    "objective normalize_advantage pessimistic_value skip_non_finite "
    "optimizer data gradients momentum variance steps segments segment_count rows squares barrier",
    "clip_range clip_range_vf ent_coef vf_coef max_grad_norm target_kl "
    "learning_rate momentum_decay variance_decay epsilon",
)
