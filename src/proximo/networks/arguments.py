"""What the constructor arguments of policies mean: one table, from which each policy's documentation is made."""

from __future__ import annotations

POLICY_ARGUMENTS = {
    "observation_space": "The space of one observation; the agent gives it.",
    "action_space": "The space of one action; the agent gives it.",
    "lr_schedule": "The learning rate as a function of the remaining progress; only its first value is read here.",
    "net_arch": "Widths of the hidden layers after the features: a list for policy and value alike, or "
    "dict(pi=[…], vf=[…]); None is [64, 64], and no layer behind an image encoder.",
    "activation_fn": "The activation between hidden layers, a class.",
    "ortho_init": "Whether weights start orthogonal: gain √2 in hidden layers, 0.01 for the actions, 1 for the value.",
    "use_sde": "Explore Box actions with state-dependent noise (gSDE); the agent's own argument sets it.",
    "log_std_init": "Logarithm of the deviation that Box actions start with.",
    "full_std": "With gSDE: a deviation per pair of latent feature and action, rather than one per feature.",
    "use_expln": "With gSDE: deviations grow with the logarithm above 1, so that they do not explode.",
    "squash_output": "With gSDE: actions go through tanh instead of being clipped.",
    "features_extractor_class": "What turns observations into features, a class; None is the policy's usual one.",
    "features_extractor_kwargs": "Further arguments of that class.",
    "share_features_extractor": "Whether policy and value read one features extractor; False gives each its own.",
    "normalize_images": "Whether images of bytes are divided by 255; say False if the environment does so.",
    "optimizer_class": "The optimiser's class.",
    "optimizer_kwargs": "Its further arguments; for Adam without any, eps is 1e-5.",
    "value_heads": "Outputs of the value: 2 where an intrinsic reward has a value of its own, which the agent sets.",
    "actor_keys": "Keys of a Dict observation that the policy reads; None is all of them.",
    "critic_keys": "Keys of a Dict observation that the value reads; None is all of them.",
    "lstm_hidden_size": "Width of the memory.",
    "n_lstm_layers": "Layers of the memory.",
    "shared_lstm": "Whether the value reads the policy's memory; needs enable_critic_lstm=False.",
    "enable_critic_lstm": "Whether the value has a memory of its own; without any it reads features through one layer.",
    "lstm_kwargs": "Further arguments of the memory's layers: bias, dropout or device.",
}
