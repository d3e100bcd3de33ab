"""Callbacks."""

from proximo.other_libraries import names_from
from proximo.training.callbacks import BaseCallback as BaseCallback
from proximo.training.callbacks import CallbackList as CallbackList
from proximo.training.callbacks import CheckpointCallback as CheckpointCallback
from proximo.training.callbacks import ConvertCallback as ConvertCallback
from proximo.training.callbacks import EvalCallback as EvalCallback
from proximo.training.callbacks import EventCallback as EventCallback
from proximo.training.callbacks import EveryNTimesteps as EveryNTimesteps
from proximo.training.callbacks import LogEveryNTimesteps as LogEveryNTimesteps
from proximo.training.callbacks import ProgressBarCallback as ProgressBarCallback
from proximo.training.callbacks import StopTrainingOnMaxEpisodes as StopTrainingOnMaxEpisodes
from proximo.training.callbacks import StopTrainingOnNoModelImprovement as StopTrainingOnNoModelImprovement
from proximo.training.callbacks import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold

_ALSO = ("common.evaluation", "common.logger", "common.vec_env")
__getattr__ = names_from(__name__, {"tqdm": "tqdm.rich"}, _ALSO)  # which RL Zoo takes from here
