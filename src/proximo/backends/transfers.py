"""Arrays to a device and back in one copy each way: on an accelerator, the number of copies decides the speed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from proximo.data import Array

ALIGNMENT = 16  # bytes: every number type may begin there


def to_device(arrays: Sequence[Array], device: torch.device) -> list[Tensor]:
    """The arrays as tensors on the device, sent as one piece of bytes; on the CPU they share the arrays' memory."""
    if device.type == "cpu":
        return [torch.as_tensor(array) for array in arrays]
    starts = np.cumsum([0, *(-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays)])
    packed = np.empty(starts[-1], np.uint8)
    for array, start in zip(arrays, starts, strict=False):
        packed[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    sent = torch.from_numpy(packed).to(device)
    return [_unpacked(sent[start : start + array.nbytes], array) for array, start in zip(arrays, starts, strict=False)]


def _unpacked(piece: Tensor, like: Array) -> Tensor:
    dtype = torch.from_numpy(np.empty(0, like.dtype)).dtype
    return piece.view(dtype).reshape(like.shape)


def to_host(columns: Sequence[Tensor]) -> list[Array]:
    """[batch, …] tensors as arrays [batch, column] of float32 or whole numbers, brought over as one piece."""
    flat = [column.reshape(len(column), -1) for column in columns]
    if flat[0].device.type == "cpu":
        return [(column.float() if column.is_floating_point() else column).numpy() for column in flat]
    joined = torch.cat([column.to(torch.float32) for column in flat], dim=1).cpu().numpy()
    ends = np.cumsum([column.shape[1] for column in flat])[:-1]
    return np.split(joined, ends, axis=1)
