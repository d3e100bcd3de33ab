"""The documents: their links lead somewhere, their commands exist."""

from __future__ import annotations

import ast
import importlib.metadata
import itertools
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from proximo.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])


def code_blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]*)(?:#[^)]*)?\)", text):
        if target and "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", text):
        if "://" not in target:
            linked = (path.parent / target if target else path).read_text(encoding="utf-8")
            headings = [heading.strip().lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", linked, re.M)]
            assert anchor in headings, f"{path.name} links to {target}#{anchor}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(path):
    for block in code_blocks(path, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["proximo"]:
                assert words[1] in COMMANDS, line
            if words[:1] == ["make"]:
                targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
                assert words[1] in targets, line
            if words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."):
                program = ROOT / f"{words[2].replace('.', '/')}.py"
                assert program.exists(), line
                assert all(f'"{word}"' in known_words(program) for word in words[3:] if word.startswith("--")), line


def known_words(program: Path) -> str:
    """The text that names a benchmark's options."""
    shared = ROOT / "benchmarks/training_queue.py"
    return program.read_text(encoding="utf-8") + shared.read_text(encoding="utf-8")


def test_contributing_is_short_and_has_the_rule():
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert any("shows its benchmark" in line for line in lines)


def test_pre_commit_checks_are_those_of_make_lint():
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert recipe is not None
    commands = [line.strip().removeprefix("$(BIN)/") for line in recipe[1].splitlines()]
    entries = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert entries == commands


def test_constraints_pin_what_tests_install():
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").open()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    included = [found[1] for each in extras["test"] if (found := re.fullmatch(r"proximo\[(.*)\]", each))]
    assert included
    installed = [*project["dependencies"], *(each for each in extras["test"] if not each.startswith("proximo["))]
    installed += [requirement for names in included for extra in names.split(",") for requirement in extras[extra]]
    names = {re.split(r"[\[<>=~ ]", requirement)[0].lower().replace("_", "-") for requirement in installed}
    assert names <= pinned


def test_the_readme_names_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z0-9]+)`", row)} >= set(extras) - {"clients"}


def test_every_package_that_is_imported_is_declared():
    """In the dependencies, or in an extra; a dependency of a dependency may go away."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>=! ;]", requirement)[0].lower().replace("_", "-") for requirement in declared}
    distributions = importlib.metadata.packages_distributions()
    imported = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).split(".")[0])
    foreign = imported - sys.stdlib_module_names - {"proximo"}
    undeclared = {
        package
        for package in foreign
        if not {name.lower().replace("_", "-") for name in distributions.get(package, [package])} & names
    }
    assert undeclared == {"llvmlite", "mujoco"}  # part of numba, and of gymnasium[mujoco]
    assert {"torch", "cloudpickle", "gymnasium"} <= foreign
