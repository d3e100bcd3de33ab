"""How much memory can still be taken: of the machine, or of the container that this process runs in."""

from __future__ import annotations

import math
import os
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# files with the limit and the usage, and the name that memory.stat gives to files that can be dropped: version 2, 1
_CONTAINER_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory() -> int | None:
    """Bytes that can still be allocated without swapping; None where the system does not say."""
    known = [count for count in (_of_machine(), of_container(CONTROL_GROUPS)) if count is not None]
    return min(known, default=None)


def of_container(folder: Path) -> int | None:
    """What a container's limit leaves; None where there is no limit."""
    for limit, usage, droppable in _CONTAINER_FILES:
        try:
            allowed, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
            statistics = dict(
                line.split() for line in (folder / usage).with_name("memory.stat").read_text().splitlines()
            )
        except (OSError, ValueError):
            continue
        return None if allowed == "max" else max(0, int(allowed) - used + int(statistics.get(droppable, 0)))
    return None


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _free_pages()
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return _free_pages()


def _free_pages() -> int | None:
    names = ("SC_AVPHYS_PAGES", "SC_PAGE_SIZE")
    if not all(name in os.sysconf_names for name in names):
        return None
    return math.prod(os.sysconf(name) for name in names)
