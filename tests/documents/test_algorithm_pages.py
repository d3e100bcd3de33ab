"""The pages of the algorithms are true: metrics, lines of the source, arguments."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from document_pages import DOCS
from short_trainings import logged_names

import proximo

sys.path.insert(0, str(DOCS / "_tools"))
from source_pages import line_of

FILES = {"RecurrentPPO": "recurrent-ppo", "MaskablePPO": "maskable-ppo"}
ALGORITHMS = sorted(proximo.ALGORITHMS.values())
# only with an option: schedules, masks, bonuses, augmentations, environments that tell of success
SOMETIMES = {
    "rollout/success_rate", "rollout/intrinsic_reward_mean", "rollout/extrinsic_reward_mean", "train/std",
    "train/aug_policy_loss", "train/aug_value_loss", "train/skipped_minibatches", "train/clip_range_vf",
    "train/return_mean", "train/return_std", "eval/mean_reward", "eval/mean_ep_length", "eval/success_rate",
}  # fmt: skip


def page_of(algorithm: str) -> str:
    """The page's text with what it includes."""
    file = DOCS / "algorithms" / f"{FILES.get(algorithm, algorithm.lower())}.md"
    include = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)
    return include.sub(lambda found: (file.parent / found[1]).read_text("utf-8"), file.read_text("utf-8"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.filterwarnings("ignore")
def test_every_logged_metric_is_explained_and_no_other(algorithm: str, tmp_path: Path) -> None:
    rows = re.findall(r"^\| ((?:`[a-z]+/\w+`(?:, )?)+) \| (.+) \|$", page_of(algorithm), re.MULTILINE)
    explained = {name for names, meaning in rows for name in re.findall(r"`([^`]+)`", names) if meaning}
    logged = logged_names(algorithm, tmp_path)
    assert logged - explained == set()
    assert explained - logged <= SOMETIMES


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_links_to_lines_lead_to_symbols(algorithm: str) -> None:
    links = re.findall(r"\{source\}`([^:`]+):([^`]+)`", page_of(algorithm))
    assert len(links) >= 3
    for file, symbol in links:
        assert line_of(file, symbol) >= 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_page_has_every_section(algorithm: str) -> None:
    text = page_of(algorithm)
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == [
        "Idea",
        "When to use it",
        "Example",
        "Metrics",
        "Details that matter",
        "Measured",
        "Every argument",
    ]
    assert f".{algorithm}\n" in text.split("{arguments} ")[1] + "\n"
    assert "arxiv.org" in text


def test_a_symbol_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"has no PPOLearner\.nothing"):
        line_of("learners/ppo.py", "PPOLearner.nothing")
