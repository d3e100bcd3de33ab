"""rllte's module path of BaseStorage."""

from proximo.rollout.tensor_storage import BaseStorage as BaseStorage
