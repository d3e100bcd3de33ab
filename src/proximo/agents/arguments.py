"""Constructor arguments: which of them are hyperparameters, what they mean, and how a class tells its users."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from proximo.config import OnPolicyConfig

SHARED_ARGUMENTS = {
    "policy": "The policy: a name such as MlpPolicy, CnnPolicy or MultiInputPolicy, or a class.",
    "env": "What to train on: an id, a gymnasium environment or VectorEnv, an EnvPool, a PettingZoo environment, or a "
    "vector environment.",
    "use_sde": "Explore continuous actions with state-dependent noise (gSDE) instead of independent noise.",
    "sde_sample_freq": "Steps between new noise matrices of gSDE; -1 draws them once per rollout.",
    "rollout_buffer_class": "A subclass of RolloutBuffer, also of Stable-Baselines3's own; None is the library's own. "
    "Another one runs through PyTorch.",
    "rollout_buffer_kwargs": "Further arguments of that class.",
    "stats_window_size": "Episodes over which rollout/ep_rew_mean and its like are averaged.",
    "tensorboard_log": "Folder for TensorBoard's files; None writes none.",
    "policy_kwargs": "Arguments of the policy, such as dict(net_arch=[256, 256], activation_fn=torch.nn.ReLU).",
    "verbose": "0 prints nothing, 1 the log and what runs, 2 more.",
    "seed": "Seed of everything random; None draws one from NumPy's global generator.",
    "device": "Where the policy learns: auto, cpu, cuda, cuda:1, …",
    "_init_setup_model": "Whether to build the network now; load() does it later.",
    "backend": "Who runs the policy: fused (compiled kernels), torch, or auto, the faster of those that can.",
    "precision": "float32, or bf16 to run forward pass and loss of the torch backend under autocast.",
    "intrinsic_reward": "A reward for what is new, of proximo.exploration, such as RND(); it is logged apart.",
    "augmentation": "A change of observations that policy and value shall not mind, such as RandomShift(); for Dict "
    "observations a dictionary of them (DrAC, Raileanu et al. 2020). Or Mirror(…), for tasks with a symmetry.",
    "distributed": "Whether to train together with the other processes that torchrun started, and how: gathered (each "
    "learns from all rows) or sharded (each from its own); True is gathered on the fused backend, sharded on torch.",
    "learner_class": "A learner of your own, derived from this algorithm's: see docs/architecture.md.",
}


def constructor_arguments(local_variables: Mapping[str, Any], config_class: type[OnPolicyConfig]) -> dict[str, Any]:
    """A constructor's ``locals()`` as arguments of :class:`OnPolicyAlgorithm`: hyperparameters become a ``config``."""
    given = {name: value for name, value in local_variables.items() if name not in ("self", "__class__")}
    config = config_class(**{name: given.pop(name) for name in config_class.names() if name in given})
    return {**given, "config": config}


def describe_arguments(agent: type[Any]) -> str:
    """A line for each constructor argument: its name, its default and its meaning."""
    meanings = {**SHARED_ARGUMENTS, **agent.config_class.meanings()}
    lines = []
    for name, parameter in list(inspect.signature(agent.__init__).parameters.items())[1:]:
        default = "" if parameter.default is inspect.Parameter.empty else f" (default {parameter.default!r})"
        meaning = meanings.get(name, "")
        lines.append(textwrap.fill(f"{name}{default}: {meaning}".strip(), 116, subsequent_indent="    "))
    return textwrap.indent("\n".join(lines), "    ")
