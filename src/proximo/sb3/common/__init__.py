"""What Stable-Baselines3 calls ``common``."""

from proximo.other_libraries import names_from

__getattr__ = names_from(
    __name__, dict.fromkeys(("noise", "off_policy_algorithm", "save_util"), "stable_baselines3.common")
)
