"""Constructor arguments: which of them are hyperparameters, what they mean, and how a class tells its users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proximo.config import OnPolicyConfig, describe_constructor

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
    "precision": "float32, or bf16 to run forward passes and losses under autocast, by PyTorch.",
    "intrinsic_reward": "A reward for what is new, of proximo.exploration, such as RND(); it is logged apart.",
    "augmentation": "A change of observations that policy and value shall not mind, such as RandomShift(); for Dict "
    "observations a dictionary of them (DrAC, Raileanu et al. 2020). PPO, A2C and MaskablePPO also take Mirror(…), for "
    "tasks with a symmetry.",
    "distributed": "Whether to train together with the other processes that torchrun started, and how: gathered (each "
    "learns from all rows) or sharded (each from its own); True is gathered on the fused backend, sharded on torch.",
    "config": "The algorithm's hyperparameters.",
    "monitor_wrapper": "Whether a single environment without a Monitor gets one.",
    "learner_class": "A learner of your own, derived from this algorithm's: see docs/guides/own-losses.md.",
}


MODULAR_ARGUMENTS = {
    "env": "Vector environments to train in; make_rllte_env and its like make them.",
    "eval_env": "Vector environments to evaluate in; None evaluates never.",
    "tag": "Name of the run: files go to logs/{tag}/{time}.",
    "seed": "Seed of everything random.",
    "device": "Where the network learns: cpu, cuda, cuda:1, …",
    "pretraining": "Whether the environment's rewards count as 0; an intrinsic reward is needed then.",
    "num_steps": "Steps per environment and rollout.",
    "feature_dim": "Number of features that the encoder gives; rllte's agents take vectors as they are.",
    "batch_size": "Samples per minibatch.",
    "lr": "Step size of Adam.",
    "eps": "Adam's ε, against division by zero.",
    "hidden_dim": "Width of the hidden layers, of which vectors get two per head.",
    "clip_range": "How far the probability ratio may leave 1.",
    "clip_range_vf": "How far a value may move from the one predicted while collecting; None does not clip.",
    "n_epochs": "Passes over each rollout.",
    "vf_coef": "Weight of the value loss.",
    "ent_coef": "Weight of the entropy bonus.",
    "aug_coef": "Weight of the terms that pull policy and value of augmented observations to those of the plain ones.",
    "adv_coef": "Weight of the advantage's squared error in the policy's loss.",
    "max_grad_norm": "The gradient is scaled down to this norm.",
    "value_freq": "Rollouts between two trainings of the value.",
    "value_epochs": "Passes of the value over each rollout that it trains on.",
    "policy_epochs": "Rollouts, and updates of the policy phase, between two auxiliary phases.",
    "aux_epochs": "Passes of an auxiliary phase over all its rollouts.",
    "kl_coef": "Weight that holds the policy where it was while the auxiliary phase trains its network.",
    "num_aux_mini_batch": "Minibatches that the auxiliary phase cuts its rollouts into.",
    "num_aux_grad_accum": "Minibatches whose gradients make one step of the auxiliary phase.",
    "num_mini_batch": "Minibatches that each pass cuts a rollout into.",
    "num_policy_mini_batch": "Minibatches that each pass of the policy phase cuts a rollout into.",
    "discount": "Discount factor.",
    "init_fn": "How weights start: orthogonal, xavier_uniform, xavier_normal or identity.",
    "observation_space": "The space of observations: gymnasium's, or a mapping with the key shape.",
    "action_space": "The space of actions: gymnasium's, or a mapping with the keys shape, type and range.",
}
"""Of agents that are put together from modules, as rllte's and Hsuanwu's are."""


def constructor_arguments(local_variables: Mapping[str, Any], config_class: type[OnPolicyConfig]) -> dict[str, Any]:
    """A constructor's ``locals()`` as arguments of :class:`OnPolicyAlgorithm`: hyperparameters become a ``config``."""
    given = {name: value for name, value in local_variables.items() if name not in ("self", "__class__")}
    config = config_class(**{name: given.pop(name) for name in config_class.names() if name in given})
    return {**given, "config": config}


def describe_arguments(agent: type[Any]) -> str:
    """The section "Arguments" of an agent's documentation."""
    return describe_constructor(agent, {**SHARED_ARGUMENTS, **agent.config_class.meanings()})
