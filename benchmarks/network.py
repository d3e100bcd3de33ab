"""Two hosts on one machine: network namespaces joined by a virtual cable, which may be slow, bad, or cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True)


class Hosts:
    """Two namespaces with an interface each."""

    def __init__(self) -> None:
        number = os.getpid() % 10_000
        self.names = [f"proximo-{side}-{number}" for side in "ab"]
        self.links = [f"px{side}{number}" for side in "ab"]

    def make(self) -> str | None:
        """Make them; returns why they cannot be made."""
        if os.geteuid() != 0 or shutil.which("ip") is None:
            return "network namespaces need root and iproute2"
        commands = [("netns", "add", name) for name in self.names]
        commands.append(("link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1]))
        for name, link, address in zip(self.names, self.links, ADDRESSES, strict=True):
            commands.append(("link", "set", link, "netns", name))
            commands.append(("-n", name, "addr", "add", f"{address}/24", "dev", link))
            commands.append(("-n", name, "link", "set", link, "up"))
            commands.append(("-n", name, "link", "set", "lo", "up"))
        for words in commands:
            if (done := ip(*words)).returncode:
                return f"ip {' '.join(words)}: {done.stderr.strip()}"
        return None

    def remove(self) -> None:
        for name in self.names:
            ip("netns", "delete", name)

    def disturb(self, *words: str) -> str | None:
        """Let ``tc netem`` spoil the cable; returns why it cannot."""
        return self._shape("netem", *words)

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
