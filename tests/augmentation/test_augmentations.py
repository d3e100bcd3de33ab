"""What each augmentation does to a batch, and what it leaves alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from proximo.augmentation import (
    GaussianNoise,
    GrayScale,
    Identity,
    RandomAmplitudeScaling,
    RandomColorJitter,
    RandomConvolution,
    RandomCrop,
    RandomCutout,
    RandomCutoutColor,
    RandomFlip,
    RandomRotate,
    RandomShift,
    RandomTranslate,
)

close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def images(batch: int = 16, channels: int = 6, side: int = 40, kind: str = "bytes") -> Tensor:
    pixels = torch.randint(0, 256, (batch, channels, side, side), dtype=torch.uint8)
    return pixels if kind == "bytes" else pixels.float() / 255.0


def windows(image: Tensor, side: int, pad: int) -> list[Tensor]:
    """Every window of an image whose edges are repeated ``pad`` pixels outwards."""
    padded = functional.pad(image[None].float(), (pad,) * 4, mode="replicate")[0]
    room = padded.shape[-1] - side + 1
    return [padded[:, i : i + side, j : j + side] for i in range(room) for j in range(room)]


IMAGE_MODULES = [
    GrayScale(),
    Identity(),
    RandomColorJitter(),
    RandomConvolution(),
    RandomCrop(out=36),
    RandomCutout(),
    RandomCutoutColor(),
    RandomFlip(),
    RandomRotate(),
    RandomShift(),
    RandomTranslate(size=48),
]


@pytest.mark.parametrize("module", IMAGE_MODULES, ids=lambda module: type(module).__name__)
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_a_seed_repeats_an_augmentation_which_never_changes_its_input(module: nn.Module, kind: str) -> None:
    batch = images(kind=kind)
    kept = batch.clone()
    torch.manual_seed(1)
    first = module(batch)
    torch.manual_seed(1)
    assert torch.equal(first, module(batch))
    assert torch.equal(batch, kept)
    assert len(first) == len(batch)
    assert torch.isfinite(first.float()).all()
    if not isinstance(module, RandomConvolution):
        assert first.dtype == batch.dtype
        assert first.float().max() <= kept.float().max().clamp(min=1.0)


@pytest.mark.parametrize("module", [RandomShift(pad=2), RandomCrop(pad=2, out=8), RandomCrop(pad=0, out=5)])
def test_shifts_and_crops_are_windows_with_repeated_edges(module: nn.Module) -> None:
    batch = images(batch=30, channels=3, side=8)
    moved = module(batch)
    side, pad = moved.shape[-1], module.pad
    chosen = set()
    for before, after in zip(batch, moved, strict=True):
        places = [i for i, window in enumerate(windows(before, side, pad)) if torch.equal(window, after.float())]
        assert len(places) == 1
        chosen.add(places[0])
    assert len(chosen) > 5  # the images moved differently


def test_flips_and_turns_as_often_as_asked() -> None:
    batch = images(batch=400, side=10)
    flipped = (RandomFlip(p=0.3)(batch) == batch.flip(3)).flatten(1).all(dim=1)
    assert 80 <= int(flipped.sum()) <= 160
    assert torch.equal(RandomFlip(p=0.0)(batch), batch)
    turned = RandomRotate(p=1.0)(batch)
    counts = [int((turned == batch.rot90(n, (2, 3))).flatten(1).all(dim=1).sum()) for n in range(4)]
    assert counts[0] == 0
    assert sum(counts) == 400
    assert min(counts[1:]) > 90


@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_cutouts_are_boxes_of_the_sizes_asked_for(kind: str) -> None:
    batch = images(batch=50, kind=kind).clamp(min=1 if kind == "bytes" else 0.01)
    for module, colors in ((RandomCutout(4, 8), {0.0}), (RandomCutoutColor(4, 8), None)):
        for before, after in zip(batch, module(batch), strict=True):
            changed = (before != after).any(dim=0)
            rows, columns = torch.nonzero(changed.any(dim=1))[:, 0], torch.nonzero(changed.any(dim=0))[:, 0]
            for span in (rows, columns):
                assert 4 <= int(span[-1] - span[0]) + 1 <= 7
            box = after[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].flatten(1)
            assert all(len(channel.unique()) == 1 for channel in box)
            if colors is not None:
                assert set(box.unique().tolist()) == colors


def test_gray_is_the_weighted_sum_of_each_frames_colors() -> None:
    batch = images(batch=2, kind="floats")
    gray = GrayScale()(batch)
    assert gray.shape == (2, 2, 40, 40)
    close(gray[:, 1], 0.2989 * batch[:, 3] + 0.587 * batch[:, 4] + 0.114 * batch[:, 5])


def test_color_jitter_leaves_grays_gray_and_hues_as_bright_as_they_were() -> None:
    gray = torch.rand(6, 1, 5, 5).repeat(1, 3, 1, 1)
    jittered = RandomColorJitter()(gray)
    close(jittered[:, 0], jittered[:, 1], atol=2e-3, rtol=0.0)
    close(jittered[:, 1], jittered[:, 2], atol=2e-3, rtol=0.0)
    assert not torch.allclose(jittered, gray, atol=1e-2)
    muted = 0.45 + 0.1 * torch.rand(6, 3, 5, 5)
    turned = RandomColorJitter(0.0, 0.0, 0.0, 0.5)(muted)
    assert not torch.allclose(turned, muted, atol=1e-2)
    close(GrayScale()(turned), GrayScale()(muted), atol=1e-3, rtol=0.0)
    close(RandomColorJitter(0.0, 0.0, 0.0, 0.0)(muted), muted, atol=1e-5, rtol=0.0)


def test_a_convolution_has_weights_of_its_own_for_each_image_and_the_same_for_its_frames() -> None:
    frame = torch.rand(1, 3, 8, 8)
    mixed = RandomConvolution()(frame.repeat(4, 2, 1, 1))
    close(mixed[:, :3], mixed[:, 3:])
    assert not torch.allclose(mixed[0], mixed[1])
    # linear: twice the image gives twice the result
    torch.manual_seed(0)
    once = RandomConvolution()(frame)
    torch.manual_seed(0)
    close(RandomConvolution()(2.0 * frame), 2.0 * once)


def test_translation_puts_the_scaled_image_somewhere_on_black() -> None:
    batch = torch.full((20, 3, 16, 16), 0.5)
    moved = RandomTranslate(size=20, scale_factor=0.75)(batch)
    assert moved.shape == (20, 3, 20, 20)
    close(((moved - 0.5).abs() < 1e-5).sum(dim=(1, 2, 3)), torch.full((20,), 3 * 12 * 12))
    close((moved == 0.0).sum(dim=(1, 2, 3)), torch.full((20,), 3 * (400 - 144)))
    assert len({tuple(torch.nonzero(page[0])[0].tolist()) for page in moved}) > 5


def test_state_augmentations_have_the_moments_asked_for() -> None:
    states = torch.ones(20_000, 3)
    noisy = GaussianNoise(mu=0.5, sigma=2.0)(states)
    assert noisy.mean().item() == pytest.approx(1.5, abs=0.03)
    assert noisy.std().item() == pytest.approx(2.0, abs=0.03)
    scaled = RandomAmplitudeScaling(0.6, 1.2)(states)
    assert 0.6 <= scaled.min() < 0.61
    assert 1.19 < scaled.max() <= 1.2
    assert scaled.mean().item() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("module", "batch", "message"),
    [
        (GaussianNoise(), torch.zeros(2, 3, 8, 8), "state vectors"),
        (RandomShift(), torch.zeros(2, 8), "images"),
        (GrayScale(), torch.zeros(2, 4, 8, 8), "multiple of 3"),
        (RandomCrop(out=84), torch.zeros(2, 3, 8, 8), "does not fit"),
        (RandomCutout(), torch.zeros(2, 3, 8, 8), "do not fit"),
        (RandomRotate(), torch.zeros(2, 3, 8, 9), "square"),
        (RandomTranslate(size=4), torch.zeros(2, 3, 8, 8), "raise size"),
    ],
)
def test_batches_that_do_not_fit_are_refused(module: nn.Module, batch: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module(batch)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomFlip(p=1.5),
        lambda: RandomCutout(8, 4),
        lambda: RandomColorJitter(hue=0.7),
        lambda: GaussianNoise(sigma=-1.0),
        lambda: RandomAmplitudeScaling(2.0, 1.0),
        lambda: RandomTranslate(scale_factor=2.0),
    ],
)
def test_arguments_out_of_range_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="got"):
        make()  # type: ignore[operator]
