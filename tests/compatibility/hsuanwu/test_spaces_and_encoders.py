"""Spaces as dicts, configuration nodes and gymnasium's own, and the encoders made from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from omegaconf import OmegaConf

from proximo.hsuanwu.described_spaces import describe_action_space, to_action_space, to_observation_space
from proximo.hsuanwu.xploit import encoder as encoders

IMAGE = spaces.Box(0, 255, (3, 16, 16), np.uint8)
CASES = [
    (spaces.Discrete(3), {"shape": (3,), "type": "Discrete", "range": [0, 2]}),
    (spaces.MultiBinary(4), {"shape": (4,), "type": "MultiBinary", "range": [0, 1]}),
    (spaces.Box(-2.0, 1.0, (2,), np.float32), {"shape": (2,), "type": "Box", "range": [-2.0, 1.0]}),
]


@pytest.mark.parametrize(("space", "described"), CASES)
def test_the_three_forms_of_an_action_space_are_one(space, described):
    assert to_action_space(described) == space
    assert to_action_space(OmegaConf.create(described)) == space
    assert to_action_space(space) is space
    assert to_action_space(describe_action_space(space)) == space


def test_whole_numbers_of_numpy_are_whole_numbers():
    n = spaces.Discrete(3).n  # an np.int64
    assert to_action_space({"shape": (n,), "type": "Discrete", "range": [0, n - 1]}) == spaces.Discrete(3)
    with pytest.raises(ValueError, match="positive whole numbers"):
        to_observation_space({"shape": (True,)})


def test_the_three_forms_of_an_observation_space_are_one():
    for given in ({"shape": (3, 16, 16)}, OmegaConf.create({"shape": [3, 16, 16]}), IMAGE):
        assert to_observation_space(given) == IMAGE
    assert to_observation_space({"shape": (4,)}) == spaces.Box(-np.inf, np.inf, (4,), np.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "observation_space lacks 'shape'"),
        ({"shape": (4,), "dtype": "float32"}, "unknown key 'dtype'"),
        ({"shape": ()}, "expected positive whole numbers"),
        ({"shape": (0, 3)}, "expected positive whole numbers"),
    ],
)
def test_a_wrong_dict_of_observations_names_the_key(given, message):
    with pytest.raises(ValueError, match=message):
        to_observation_space(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": (2,), "type": "Discrete"}, "action_space lacks 'range'"),
        ({"shape": (2,), "kind": "Discrete", "range": [0, 1]}, "lacks 'type' and has the unknown key 'kind'"),
        ({"shape": (2,), "type": "Discret", "range": [0, 1]}, "did you mean 'Discrete'"),
        ({"shape": (2,), "type": "Discrete", "range": [0, 2]}, r"expected \[0, 1\]"),
        ({"shape": (2, 2), "type": "Discrete", "range": [0, 1]}, r"expected \(n,\)"),
        ({"shape": (2,), "type": "Box", "range": [1.0, -1.0]}, "low below high"),
        ({"shape": (2,), "type": "Box", "range": 1.0}, r"expected \[low, high\]"),
        ({"shape": (2,), "type": "Box", "range": [[0.0, 0.0, 0.0], 1.0]}, r"two lists of shape \(2,\)"),
    ],
)
def test_a_wrong_dict_of_actions_names_the_key(given, message):
    with pytest.raises(ValueError, match=message):
        to_action_space(given)


@pytest.mark.parametrize("given", [spaces.Dict({"a": IMAGE}), spaces.MultiDiscrete([2, 3]), 4, None])
def test_other_spaces_are_refused(given):
    for convert in (to_observation_space, to_action_space):
        with pytest.raises(TypeError, match="expected a gymnasium"):
            convert(given)


@pytest.mark.parametrize(
    ("name", "shape", "width"),
    [
        ("EspeholtResidualEncoder", (3, 16, 16), 32),
        ("MnihCnnEncoder", (3, 36, 36), 32),
        ("PathakCnnEncoder", (3, 16, 16), 32),
        ("TassaCnnEncoder", (3, 16, 16), 32),
        ("VanillaMlpEncoder", (4,), 32),
        ("IdentityEncoder", (4,), 4),
    ],
)
def test_encoders_read_described_spaces(name, shape, width):
    encoder = getattr(encoders, name)(OmegaConf.create({"shape": shape}), feature_dim=width)
    assert encoder(torch.zeros(2, *shape)).shape == (2, width)


def test_encoders_start_with_orthogonal_weights():
    weight = encoders.VanillaMlpEncoder({"shape": (4,)}, feature_dim=16).trunk[2].weight  # 64 → 16
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(16), atol=1e-4, rtol=0)
