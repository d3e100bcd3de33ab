"""rllte's module path of VanillaRolloutStorage."""

from proximo.rollout.tensor_storage import VanillaRolloutStorage as VanillaRolloutStorage
