"""What sb3-contrib calls ``common``."""

from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, dict.fromkeys(("torch_layers", "utils", "vec_env"), "sb3_contrib.common"))
