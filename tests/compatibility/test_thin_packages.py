"""What rllte's and Hsuanwu's packages may define, what they may import, and how large all four may be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import proximo

SOURCE = Path(proximo.__file__).parent
PACKAGES = ("sb3", "sb3_contrib", "rllte", "hsuanwu")

# classes and functions by module: names, argument mapping and translation; everything else is the library's
DEFINED = {
    "rllte.agent.a2c": "A2C",
    "rllte.agent.daac": "DAAC",
    "rllte.agent.drac": "DrAC",
    "rllte.agent.drdaac": "DrDAAC",
    "rllte.agent.library_agent": "AugmentedAgent LibraryAgent rllte_metrics",
    "rllte.agent.ppg": "PPG",
    "rllte.agent.ppo": "PPO",
    "rllte.common.logger": "Logger",
    "rllte.common.prototype.base_agent": "BaseAgent _check_kind _check_object",
    "rllte.common.prototype.base_policy": "BasePolicy",
    "rllte.common.prototype.on_policy_agent": "OnPolicyAgent",
    "rllte.common.timer": "Timer",
    "rllte.common.utils": "eval_mode get_episode_statistics linear_lr_scheduler pretty_json to_numpy",
    "rllte.env.utils": "Gymnasium2Torch",
    "rllte.paths": "_Mirror _Paths absent install",
    "rllte.xploit.policy.network_policy": "NetworkPolicy",
    "rllte.xploit.policy.on_policy_decoupled_actor_critic": "OnPolicyDecoupledActorCritic",
    "rllte.xploit.policy.on_policy_shared_actor_critic": "OnPolicySharedActorCritic",
    "rllte.xplore.reward.__init__": "BaseReward Disagreement E3B Fabric ICM NGU PseudoCounts RE3 RIDE RND",
    "hsuanwu.__init__": "left_out",
    "hsuanwu.common.engine.configuration": "TrainerSettings _load_yaml read_settings",
    "hsuanwu.common.engine.on_policy_trainer": "HsuanwuEngine OnPolicyTrainer _check_spaces _make_learner "
    "_make_storage _without_spaces",
    "hsuanwu.described_spaces": "_bounds _described _shape describe_action_space make_action_space observation_box "
    "plain to_action_space to_observation_space",
    "hsuanwu.xploit.encoder.__init__": "EspeholtResidualEncoder IdentityEncoder MnihCnnEncoder PathakCnnEncoder "
    "TassaCnnEncoder VanillaMlpEncoder _FromDescribedSpace",
    "hsuanwu.xploit.learner.actor_critic": "ActorAuxiliaryCritic ActorCritic",
    "hsuanwu.xploit.learner.base": "BaseLearner _actions hsuanwu_metrics",
    "hsuanwu.xploit.learner.ppg": "PPGLearner",
    "hsuanwu.xploit.learner.ppo": "DrACLearner PPOLearner",
    "hsuanwu.xploit.storage.vanilla_rollout_storage": "VanillaRolloutStorage",
}


def modules(package: str) -> dict[str, ast.Module]:
    files = sorted((SOURCE / package).rglob("*.py"))
    return {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts): ast.parse(file.read_text(encoding="utf-8"))
        for file in files
    }


def imported_names(node: ast.AST) -> list[str]:
    """Modules that a statement imports, and what it takes from them, with their paths."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def definitions(tree: ast.Module) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return sorted(node.name for node in tree.body if isinstance(node, kinds) and node.name != "__getattr__")


@pytest.mark.parametrize("package", ["rllte", "hsuanwu"])
def test_packages_define_what_they_translate(package: str) -> None:
    found = {name: " ".join(definitions(tree)) for name, tree in modules(package).items()}
    allowed = {name: text for name, text in DEFINED.items() if name.startswith(f"{package}.")}
    assert {name: text for name, text in found.items() if text} == allowed


def test_hsuanwu_imports_nothing_of_rllte_and_the_library_nothing_of_either() -> None:
    for file in SOURCE.rglob("*.py"):
        package = file.relative_to(SOURCE).parts[0]
        imported = {
            name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for name in imported_names(node)
        }
        for other in ("rllte", "hsuanwu"):
            if package != other:
                assert not any(name.startswith(f"proximo.{other}") for name in imported), file


def test_all_four_together_are_less_than_a_tenth() -> None:
    lines = {
        file: len(file.read_text(encoding="utf-8").splitlines())
        for file in SOURCE.rglob("*")
        if file.suffix in (".py", ".toml")
    }
    theirs = sum(count for file, count in lines.items() if file.relative_to(SOURCE).parts[0] in PACKAGES)
    assert theirs < 0.1 * sum(lines.values())
