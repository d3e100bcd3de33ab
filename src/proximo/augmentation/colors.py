"""Augmentations that change pixels; several stacked colour frames of one image are changed alike."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from proximo.augmentation.base import ImageAugmentation, as_dtype, check_images, white

LUMA = (0.2989, 0.5870, 0.1140)


def _luma(frames: Tensor) -> Tensor:
    """Brightness of [batch, frame, 3, height, width], the colours summed with the eye's weights."""
    weights = torch.tensor(LUMA, device=frames.device)[:, None, None]
    return (frames * weights).sum(dim=2, keepdim=True)


def _frames(x: Tensor) -> Tensor:
    check_images(x, colors=True)
    return x.float().unflatten(1, (-1, 3))


class GrayScale(ImageAugmentation):
    """Brightness only: three channels become one, [batch, 3 · frame, …] → [batch, frame, …]."""

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] // 3, *shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        return as_dtype(_luma(_frames(x)).squeeze(2), like=x)


class RandomColorJitter(ImageAugmentation):
    """Brightness, contrast and saturation times 1 ± their argument, then hues turned by ± ``hue`` of the circle.

    Drawn for each image. Hues turn about the grey axis, which keeps brightness as it is.
    """

    def __init__(
        self, brightness: float = 0.4, contrast: float = 0.4, saturation: float = 0.4, hue: float = 0.5
    ) -> None:
        """Arguments:
        brightness: Brightness is multiplied by up to 1 ± this.
        contrast: Contrast is multiplied by up to 1 ± this.
        saturation: Saturation is multiplied by up to 1 ± this.
        hue: Hues turn by up to ± this share of the circle.
        """
        super().__init__()
        if min(brightness, contrast, saturation) < 0.0 or not 0.0 <= hue <= 0.5:
            raise ValueError(
                "brightness, contrast and saturation must not be negative and hue must be in [0, 0.5]; got "
                f"{brightness}, {contrast}, {saturation} and {hue}"
            )
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue

    def forward(self, x: Tensor) -> Tensor:
        brightest = white(x)
        frames = _frames(x)
        frames = (frames * self._factors(x, self.brightness)).clamp(0.0, brightest)
        mean = _luma(frames).mean(dim=(3, 4), keepdim=True)
        frames = (mean + (frames - mean) * self._factors(x, self.contrast)).clamp(0.0, brightest)
        gray = _luma(frames)
        frames = (gray + (frames - gray) * self._factors(x, self.saturation)).clamp(0.0, brightest)
        frames = torch.einsum("bij,bfjhw->bfihw", self._hue_matrices(x), frames).clamp(0.0, brightest)
        return as_dtype(frames.flatten(1, 2), like=x)

    @staticmethod
    def _factors(x: Tensor, amount: float) -> Tensor:
        factors = 1.0 + amount * (2.0 * torch.rand(len(x), device=x.device) - 1.0)
        return factors.clamp(min=0.0)[:, None, None, None, None]

    def _hue_matrices(self, x: Tensor) -> Tensor:
        """[batch, 3, 3]: to brightness and two colour differences, a turn of the latter, and back."""
        angle = 2.0 * math.pi * self.hue * (2.0 * torch.rand(len(x), device=x.device) - 1.0)
        to_differences = torch.tensor([LUMA, (0.596, -0.274, -0.322), (0.211, -0.523, 0.312)], device=x.device)
        turn = torch.eye(3, device=x.device).repeat(len(x), 1, 1)
        turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
        turn[:, 1, 2], turn[:, 2, 1] = -angle.sin(), angle.sin()
        return torch.linalg.inv(to_differences) @ turn @ to_differences


class RandomConvolution(ImageAugmentation):
    """A random 3 × 3 convolution over the colours of each image (Lee et al. 2020); gives floats."""

    def forward(self, x: Tensor) -> Tensor:
        check_images(x, colors=True)
        batch, channels, height, width = x.shape
        # Xavier's deviation for 27 inputs and 27 outputs; every image is a group with weights of its own
        weights = torch.randn(3 * batch, 3, 3, 3, device=x.device) * math.sqrt(2.0 / 54.0)
        frames = x.float().view(batch, channels // 3, 3, height, width).transpose(0, 1).flatten(1, 2)
        mixed = functional.conv2d(frames, weights, padding=1, groups=batch)
        return mixed.unflatten(1, (batch, 3)).transpose(0, 1).flatten(1, 2)


class RandomCutout(ImageAugmentation):
    """A black box in each image, its sides drawn from [min_cut, max_cut), its place anywhere inside."""

    def __init__(self, min_cut: int = 10, max_cut: int = 30) -> None:
        """Arguments:
        min_cut: Shortest side of the box, in pixels.
        max_cut: Sides stay below this many pixels.
        """
        super().__init__()
        if not 0 < min_cut < max_cut:
            raise ValueError(f"the cut's sides are drawn from [min_cut, max_cut), got {min_cut} and {max_cut}")
        self.min_cut, self.max_cut = min_cut, max_cut

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        return torch.where(self._boxes(x), self._fill(x), x)

    def _boxes(self, x: Tensor) -> Tensor:
        """[batch, 1, height, width] bool: true inside the box."""
        height, width = x.shape[2:]
        if self.max_cut - 1 > min(height, width):
            raise ValueError(f"cuts of up to {self.max_cut - 1} pixels do not fit into images of {height} x {width}")
        rows, columns = self._spans(len(x), height, x.device), self._spans(len(x), width, x.device)
        return rows[:, None, :, None] & columns[:, None, None, :]

    def _spans(self, batch: int, length: int, device: torch.device) -> Tensor:
        """[batch, length] bool"""
        sizes = torch.randint(self.min_cut, self.max_cut, (batch, 1), device=device)
        starts = (torch.rand(batch, 1, device=device) * (length - sizes + 1)).long()
        places = torch.arange(length, device=device)
        return (places >= starts) & (places < starts + sizes)

    def _fill(self, x: Tensor) -> Tensor:
        return x.new_zeros(())


class RandomCutoutColor(RandomCutout):
    """A box of one random colour in each image."""

    def _fill(self, x: Tensor) -> Tensor:
        return as_dtype(white(x) * torch.rand(*x.shape[:2], 1, 1, device=x.device), like=x)
