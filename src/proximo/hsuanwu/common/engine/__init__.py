"""Trainers."""

from proximo.hsuanwu import left_out
from proximo.hsuanwu.common.engine.on_policy_trainer import Engine as Engine
from proximo.hsuanwu.common.engine.on_policy_trainer import HsuanwuEngine as HsuanwuEngine
from proximo.hsuanwu.common.engine.on_policy_trainer import OnPolicyTrainer as OnPolicyTrainer

__getattr__ = left_out(__name__)
