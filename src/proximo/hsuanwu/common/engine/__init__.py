"""Trainers."""

from proximo.hsuanwu.common.engine.on_policy_trainer import OnPolicyTrainer as OnPolicyTrainer
