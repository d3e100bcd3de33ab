"""Two hosts on one machine: network namespaces joined by a virtual cable, which may be slow, bad, or cut."""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True)


class BadCable:
    """Carries packets between two TUN interfaces, late, and loses some, as ``tc netem`` does where a kernel has it."""

    def __init__(self, names: list[str], loss: float, delay: float) -> None:
        """``loss`` is a share of the packets, ``delay`` in seconds each way."""
        self.loss, self.delay, self.carried, self.lost = loss, delay, 0, 0
        self._random, self._ended = random.Random(0), threading.Event()
        self._ends = [self._open(name) for name in names]
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    @staticmethod
    def _open(name: str) -> int:
        TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # of <linux/if_tun.h>
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        return end

    def _carry(self) -> None:
        under_way: list[tuple[float, int, int, bytes]] = []  # when, number, to whom, what
        others = dict(zip(self._ends, reversed(self._ends), strict=True))
        while not self._ended.is_set():
            wait = min(0.1, max(0.0, under_way[0][0] - time.monotonic())) if under_way else 0.1
            for end in select.select(self._ends, [], [], wait)[0]:
                packet = os.read(end, 65_536)
                self.carried += 1
                if self._random.random() < self.loss:
                    self.lost += 1
                else:
                    heapq.heappush(under_way, (time.monotonic() + self.delay, self.carried, others[end], packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(under_way)
                with suppress(OSError):  # an interface that is not up yet, or no longer
                    os.write(end, packet)

    def remove(self) -> None:
        self._ended.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)


class Hosts:
    """Two namespaces with an interface each."""

    def __init__(self) -> None:
        number = os.getpid() % 10_000
        self.names = [f"proximo-{side}-{number}" for side in "ab"]
        self.links = [f"px{side}{number}" for side in "ab"]
        self.bad_cable: BadCable | None = None

    def make(self) -> str | None:
        """Make them; returns why they cannot be made."""
        if os.geteuid() != 0 or shutil.which("ip") is None:
            return "network namespaces need root and iproute2"
        commands = [("netns", "add", name) for name in self.names]
        commands.append(("link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1]))
        return self._run(commands) or self._plug_in()

    def _plug_in(self) -> str | None:
        """Give each host its end of the cable."""
        commands = []
        for name, link, address in zip(self.names, self.links, ADDRESSES, strict=True):
            commands.append(("link", "set", link, "netns", name))
            commands.append(("-n", name, "addr", "add", f"{address}/24", "dev", link))
            commands.append(("-n", name, "link", "set", link, "up"))
            commands.append(("-n", name, "link", "set", "lo", "up"))
        return self._run(commands)

    @staticmethod
    def _run(commands: list[tuple[str, ...]]) -> str | None:
        for words in commands:
            if (done := ip(*words)).returncode:
                return f"ip {' '.join(words)}: {done.stderr.strip()}"
        return None

    def remove(self) -> None:
        for name in self.names:
            ip("netns", "delete", name)
        if self.bad_cable is not None:
            self.bad_cable.remove()

    def spoil(self, loss: float, delay: float) -> str | None:
        """Replace the cable by a bad one; returns why it cannot."""
        if (obstacle := self._run([("-n", self.names[0], "link", "delete", self.links[0])])) is not None:
            return obstacle
        self.links = [f"{link}t" for link in self.links]
        try:
            self.bad_cable = BadCable(self.links, loss, delay)
        except OSError as error:
            return f"/dev/net/tun: {error}"
        return self._plug_in()

    def limit(self, megabits: float) -> str | None:
        """Let ``tc tbf`` slow the cable down to so many Mbit/s each way; returns why it cannot."""
        return self._shape("tbf", "rate", f"{megabits:g}mbit", "burst", "128kb", "latency", "1s")

    def _shape(self, *words: str) -> str | None:
        for name, link in zip(self.names, self.links, strict=True):
            command = ["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", link, "root", *words]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return done.stderr.strip()
        return None

    def cut(self) -> None:
        ip("-n", self.names[0], "link", "set", self.links[0], "down")

    def start(self, side: int, *words: str, **variables: str) -> subprocess.Popen[str]:
        own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.links[side]}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[side], sys.executable, *words],
            env={**os.environ, **own, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
