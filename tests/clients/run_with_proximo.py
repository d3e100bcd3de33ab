"""Runs a client of Stable-Baselines3 unchanged, a module such as ``rl_zoo3.train`` or a script, with Proximo inside.

``replaced``: imports of Stable-Baselines3 and sb3-contrib are answered by the compatibility packages; what these do not
have (off-policy algorithms, action noise) stays the real one.
``algorithm``: everything is the real Stable-Baselines3, only the on-policy algorithms are Proximo's.
``real``: nothing is Proximo's.

    python run_with_proximo.py replaced rl_zoo3.train --algo ppo --env CartPole-v1
"""

from __future__ import annotations

import importlib
import pkgutil
import runpy
import sys

PACKAGES = {"stable_baselines3": "proximo.sb3", "sb3_contrib": "proximo.sb3_contrib"}


def answer_imports(client: str) -> None:
    """Put the compatibility packages' modules in the place of the real ones, those that they mirror."""
    real = {library: modules_of(library) for library in PACKAGES}
    for library, package in PACKAGES.items():
        mirrored = modules_of(package)
        for name in real[library]:
            answer = name.replace(library, package, 1)
            if answer in mirrored:
                sys.modules[name] = importlib.import_module(answer)


def modules_of(package: str) -> list[str]:
    """A package and all modules in it, imported."""
    path = importlib.import_module(package).__path__
    names = [package, *(each.name for each in pkgutil.walk_packages(path, package + "."))]
    for name in names:
        importlib.import_module(name)
    return names


def replace_algorithms(client: str) -> None:
    """As the guide of SBX does it for the zoo; a script gets them by its own import."""
    import sb3_contrib
    import stable_baselines3

    from proximo.sb3 import A2C, PPO
    from proximo.sb3_contrib import TRPO, MaskablePPO, RecurrentPPO

    if client.startswith("rl_zoo3"):
        from rl_zoo3 import ALGOS

        ALGOS.update(ppo=PPO, a2c=A2C, trpo=TRPO, ppo_lstm=RecurrentPPO)
    else:
        stable_baselines3.PPO, stable_baselines3.A2C = PPO, A2C
        sb3_contrib.TRPO, sb3_contrib.MaskablePPO, sb3_contrib.RecurrentPPO = TRPO, MaskablePPO, RecurrentPPO


def run(way: str, client: str) -> None:
    {"replaced": answer_imports, "algorithm": replace_algorithms, "real": lambda client: None}[way](client)
    if client.endswith(".py"):
        runpy.run_path(client, run_name="__main__")
    else:
        runpy.run_module(client, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    chosen, name, *arguments = sys.argv[1:]
    sys.argv = [name, *arguments]
    run(chosen, name)
