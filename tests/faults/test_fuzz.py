"""A million inputs that are damaged or made up: a value or a typed error, within bounds, and nothing else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from faults.fuzzing import Corpus, fuzz
from faults.hostile_files import zipped
from proximo.files.archive import read_archive
from proximo.files.known_values import known_value
from proximo.files.normalizer_file import parse_normalizer
from proximo.files.restricted_pickle import read_pickle
from proximo.files.torch_file import read_torch_file

from .conftest import Tally

PER_PROCESS = 50_000


def count(tried: Counter[str], tally: Tally) -> None:
    for language, number in tried.items():
        with tally.case(f"fuzzed inputs: {language}", number):
            pass


@pytest.mark.filterwarnings("ignore")
def test_twenty_thousand_inputs(tally: Tally) -> None:
    with tally.case("fuzzed inputs", 20_000):
        counts = fuzz(20_000, 1)
    count(counts.tried, tally)
    for language, good in counts.read.items():  # some are good, so the ways lead somewhere, and most reach the errors
        assert 0.01 < good / counts.tried[language] < 0.7, (language, good)


@pytest.mark.slow
def test_a_million_inputs(tally: Tally) -> None:
    """In processes of their own, one on each core: what one input leaves behind, others would find."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        running = [threads.submit(fuzz_in_process, seed) for seed in range(2, 2 + 1_000_000 // PER_PROCESS)]
        for process in running:
            with tally.case("fuzzed inputs", PER_PROCESS):  # one that finds a fault counts as tried
                tried = process.result()
            count(tried, tally)


def fuzz_in_process(seed: int) -> Counter[str]:
    command = [sys.executable, "-m", "faults.fuzzing", str(seed), str(PER_PROCESS)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[1], env=environment, check=False
    )
    assert done.returncode == 0, f"seed {seed} ended with {done.returncode}: {done.stderr[-3000:]}"
    return Counter(json.loads(done.stdout.splitlines()[-1])["tried"])


def test_good_inputs_are_read() -> None:
    """What the mutations start from is good, or the errors above would mean nothing."""
    corpus = Corpus()
    read_archive(io.BytesIO(corpus.own))
    corpus._read_foreign(io.BytesIO(corpus.foreign))
    corpus._read_own(corpus.own_members)
    parse_normalizer(corpus.normalizer)
    assert torch.equal(read_torch_file(zipped(corpus.torch))["w"], torch.zeros(3, 2))
    assert zipfile.is_zipfile(io.BytesIO(corpus.own))
    for value, data in zip(corpus.values()[:4], corpus.pickles, strict=False):
        made = known_value(read_pickle(data).value)
        assert np.array_equal(made, value) if isinstance(value, np.ndarray) else made == value
