"""Spaces, observations as batches and as what networks read."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.functional.spaces import (
    batch_observation,
    counted_from_zero,
    get_action_dim,
    get_flattened_obs_dim,
    get_obs_shape,
    is_image_space,
    maybe_transpose,
    preprocess_obs,
)

IMAGE = spaces.Box(0, 255, (3, 40, 50), np.uint8)
VECTOR = spaces.Box(-1.0, 1.0, (4,))


def test_images_are_recognised_conservatively():
    assert is_image_space(IMAGE, check_channels=True)
    assert not is_image_space(spaces.Box(0, 255, (3, 40, 50), np.float32))
    assert not is_image_space(spaces.Box(0, 200, (3, 40, 50), np.uint8))
    assert not is_image_space(spaces.Box(0, 255, (7, 40, 50), np.uint8), check_channels=True)
    assert is_image_space(spaces.Box(0.0, 1.0, (3, 40, 50)), normalized_image=True)


def test_channels_last_images_are_turned():
    image = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    assert (maybe_transpose(image, IMAGE) == np.transpose(image, (2, 0, 1))).all()
    assert maybe_transpose(image[None], IMAGE).shape == (1, 3, 40, 50)


@pytest.mark.parametrize(
    ("space", "single"),
    [(VECTOR, np.zeros(4)), (spaces.Discrete(3), np.int64(1)), (spaces.MultiDiscrete([2, 3]), np.array([1, 2]))],
)
def test_batches_are_told_from_single_observations(space, single):
    batch, vectorized = batch_observation(single, space)
    assert (batch.shape[0], vectorized) == (1, False)
    assert batch_observation(np.stack([single, single]), space)[1]


def test_wrong_shapes_say_what_was_expected():
    with pytest.raises(ValueError, match=r"shape \(5,\).*expects \(4,\)"):
        batch_observation(np.zeros(5), VECTOR)
    with pytest.raises(ValueError, match="lacks the keys"):
        batch_observation({"a": np.zeros(4)}, spaces.Dict(a=VECTOR, b=VECTOR))
    with pytest.raises(ValueError, match="tuple"):
        batch_observation((np.zeros(4), {}), VECTOR)


def test_networks_read_one_hot_and_scaled_images():
    scaled = preprocess_obs(torch.full((1, 3, 40, 50), 255, dtype=torch.uint8), IMAGE)
    assert scaled.dtype == torch.float32
    assert scaled.max() == 1.0
    one_hot = preprocess_obs(torch.tensor([[1, 2]]), spaces.MultiDiscrete([2, 3]))
    assert one_hot.tolist() == [[0, 1, 0, 0, 1]]
    assert preprocess_obs(torch.tensor([[2], [0]]), spaces.Discrete(3)).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_discrete_observations_count_from_their_start():
    choice, choices = spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 3], start=[1, 5])
    assert preprocess_obs(torch.tensor([1, -1]), choice).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert preprocess_obs(torch.tensor([[2, 5], [1, 7]]), choices).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    parts = preprocess_obs({"a": torch.tensor([[0]]), "b": torch.tensor([[1, 6]])}, spaces.Dict(a=choice, b=choices))
    assert {key: part.tolist() for key, part in parts.items()} == {"a": [[0, 1, 0]], "b": [[1, 0, 0, 1, 0]]}
    assert counted_from_zero(choice) == spaces.Discrete(3)
    assert counted_from_zero(choices) == spaces.MultiDiscrete([2, 3])
    assert counted_from_zero(VECTOR) is VECTOR


def test_a_single_number_is_one_feature():
    number = spaces.Box(-9.0, 9.0, ())
    assert preprocess_obs(torch.tensor([1.0, 2.0]), number).tolist() == [[1.0], [2.0]]
    assert get_flattened_obs_dim(number) == 1


def test_sizes():
    nested = spaces.Dict(image=IMAGE, position=VECTOR)
    assert get_obs_shape(nested) == {"image": (3, 40, 50), "position": (4,)}
    assert get_obs_shape(spaces.Discrete(5)) == (1,)
    assert get_flattened_obs_dim(spaces.MultiDiscrete([2, 3])) == 5
    assert [get_action_dim(space) for space in (VECTOR, spaces.Discrete(3), spaces.MultiBinary(6))] == [4, 1, 6]
    with pytest.raises(NotImplementedError, match="one dimension"):
        get_action_dim(spaces.MultiBinary([2, 2]))


def test_spaces_without_a_form_are_refused():
    grid = spaces.MultiDiscrete([[2, 3], [3, 2]])
    with pytest.raises(NotImplementedError, match=r"actions.*one dimension, MultiDiscrete\(\[2, 3, 3, 2\]\)"):
        get_action_dim(spaces.Dict(a=grid))
    with pytest.raises(NotImplementedError, match=r"observations.*one dimension"):
        get_obs_shape(spaces.Dict(a=grid))
    with pytest.raises(ValueError, match=r"action space Tuple\(\) is empty"):
        get_action_dim(spaces.Tuple([spaces.Discrete(2), spaces.Tuple(())]))
    with pytest.raises(ValueError, match=r"observation space Dict\(\) is empty"):
        get_obs_shape(spaces.Dict({}))


def test_images_that_are_floats_already_are_not_divided_in_place():
    image = torch.full((1, 3, 36, 36), 255.0)
    space = spaces.Box(0, 255, (3, 36, 36), np.uint8)
    assert preprocess_obs(image, space).max() == 1.0
    assert image.min() == 255.0
