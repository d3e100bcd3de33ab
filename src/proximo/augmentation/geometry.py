"""Augmentations that move pixels: bytes stay bytes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from proximo.augmentation.base import ImageAugmentation, as_dtype, check_images, check_probability


def random_windows(x: Tensor, height: int, width: int, pad: int) -> Tensor:
    """A height × width window at a random place of each image, whose edges go on for ``pad`` pixels outside."""
    batch, channels, full_height, full_width = x.shape
    spare_rows, spare_columns = full_height + 2 * pad - height, full_width + 2 * pad - width
    if spare_rows < 0 or spare_columns < 0:
        raise ValueError(
            f"a window of {height} x {width} does not fit into images of {full_height} x {full_width} "
            f"with {pad} pixels around them"
        )
    top = torch.randint(spare_rows + 1, (batch, 1), device=x.device)
    left = torch.randint(spare_columns + 1, (batch, 1), device=x.device)
    # an index beyond the edge means the edge
    rows = (top + torch.arange(height, device=x.device) - pad).clamp(0, full_height - 1)
    columns = (left + torch.arange(width, device=x.device) - pad).clamp(0, full_width - 1)
    image = torch.arange(batch, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return x[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


class RandomCrop(ImageAugmentation):
    """An ``out`` × ``out`` window at a random place, the edges repeated ``pad`` pixels outwards."""

    def __init__(self, pad: int = 4, out: int = 84) -> None:
        """Arguments:
        pad: Pixels by which the edges are repeated outwards before a window is chosen.
        out: Side of the window; observations get this size.
        """
        super().__init__()
        if pad < 0 or out < 1:
            raise ValueError(f"pad must not be negative and out must be positive, got {pad} and {out}")
        self.pad, self.out = pad, out

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.out, self.out)

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        return random_windows(x, self.out, self.out, self.pad)


class RandomShift(ImageAugmentation):
    """Shift by up to ``pad`` whole pixels in each direction, the edges repeated (Kostrikov et al. 2020, DrQ)."""

    def __init__(self, pad: int = 4) -> None:
        """Arguments:
        pad: The largest shift, in pixels; 0 changes nothing.
        """
        super().__init__()
        if pad < 0:
            raise ValueError(f"pad must not be negative, got {pad}")
        self.pad = pad

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        return random_windows(x, x.shape[2], x.shape[3], self.pad)


class RandomTranslate(ImageAugmentation):
    """The image, scaled by ``scale_factor``, at a random place of a black ``size`` × ``size`` one."""

    def __init__(self, size: int = 256, scale_factor: float = 0.75) -> None:
        """Arguments:
        size: Side of the black image that the scaled one is put into.
        scale_factor: What the image is scaled by, above 0 and at most 1.
        """
        super().__init__()
        if not 0.0 < scale_factor <= 1.0:
            raise ValueError(f"scale_factor must be in (0, 1], got {scale_factor}")
        self.size, self.scale_factor = size, scale_factor

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.size, self.size)

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        height, width = (max(1, int(side * self.scale_factor)) for side in x.shape[2:])
        if max(height, width) > self.size:
            raise ValueError(f"images of {height} x {width}, scaled, do not fit into size={self.size}; raise size")
        small = functional.interpolate(x.float(), size=(height, width), mode="bilinear", align_corners=False)
        canvas = x.new_zeros(*x.shape[:2], self.size, self.size)
        tops = torch.randint(self.size - height + 1, (len(x),)).tolist()
        lefts = torch.randint(self.size - width + 1, (len(x),)).tolist()
        for page, image, top, left in zip(canvas, as_dtype(small, like=x), tops, lefts, strict=True):
            page[:, top : top + height, left : left + width] = image
        return canvas


class SomeImages(ImageAugmentation):
    """Base of those that change each image with probability ``p``."""

    def __init__(self, p: float = 0.2) -> None:
        """Arguments:
        p: Probability with which an image is changed.
        """
        super().__init__()
        check_probability(p)
        self.p = p


class RandomFlip(SomeImages):
    """Left and right exchanged, for each image with probability ``p``."""

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        chosen = torch.rand(len(x), 1, 1, 1, device=x.device) < self.p
        return torch.where(chosen, x.flip(3), x)


class RandomRotate(SomeImages):
    """Turned by 90, 180 or 270 degrees, for each image with probability ``p``; images must be square."""

    def forward(self, x: Tensor) -> Tensor:
        check_images(x)
        if x.shape[2] != x.shape[3]:
            raise ValueError(f"only square images can be turned in a batch, got {x.shape[2]} x {x.shape[3]}")
        chosen = torch.rand(len(x), device=x.device) < self.p
        quarters = torch.randint(1, 4, (len(x),), device=x.device) * chosen
        turned = x.clone()
        for quarter in (1, 2, 3):
            rows = quarters == quarter
            turned[rows] = x[rows].rot90(quarter, (2, 3))
        return turned
