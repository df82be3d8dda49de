"""A network namespace of its own for one process, and the one cable that leads there."""

from __future__ import annotations

import os
import random
import subprocess


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Cable:
    """A veth pair from here to a fresh network namespace; `cut` and `heal` it. Everything is gone on leaving."""

    def __init__(self) -> None:
        number = os.getpid() % 60000
        self.namespace = f"mg-{number}-{random.randrange(1000)}"
        self._here, self._there = f"mgh{number}", f"mgt{number}"
        net = f"10.{200 + number % 50}.{number // 50 % 250}"
        self.here, self.there = f"{net}.1", f"{net}.2"

    def __enter__(self) -> Cable:
        ip("netns", "add", self.namespace)
        try:
            ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.namespace)
            ip("address", "add", f"{self.here}/30", "dev", self._here)
            ip("link", "set", self._here, "up")
            ip("-n", self.namespace, "link", "set", "lo", "up")
            ip("-n", self.namespace, "address", "add", f"{self.there}/30", "dev", self._there)
            self.heal()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run(["ip", "link", "del", self._here], check=False, capture_output=True)
        ip("netns", "del", self.namespace)

    def cut(self) -> None:
        """Packets from here vanish; who sends from there is told that the network is down."""
        ip("-n", self.namespace, "link", "set", self._there, "down")

    def heal(self) -> None:
        """Make it whole; what is already whole stays so."""
        ip("-n", self.namespace, "link", "set", self._there, "up")

    def command(self, *words: str) -> list[str]:
        """Return what runs a program in the namespace; it takes the place of this very process.

        Not `ip netns exec`, which mounts another /sys, without the cgroups.
        """
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]
