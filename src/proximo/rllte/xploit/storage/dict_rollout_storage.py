"""rllte's module path of DictRolloutStorage."""

from proximo.rollout.tensor_storage import DictRolloutStorage as DictRolloutStorage
