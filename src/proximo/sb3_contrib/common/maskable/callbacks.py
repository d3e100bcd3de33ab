"""Callbacks for masked training."""

from proximo.sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_policy
from proximo.training.callbacks import EvalCallback as EvalCallback
from proximo.training.callbacks import MaskableEvalCallback as MaskableEvalCallback
