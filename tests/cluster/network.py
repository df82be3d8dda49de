"""Two network namespaces, one for each of two processes, and the cable between them."""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import ExitStack


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Place:
    """A fresh network namespace, with a cable of its own from here, which is never cut: for who watches."""

    def __init__(self, name: str, net: str) -> None:
        self.namespace = name
        self.here, self.watched = f"{net}.1", f"{net}.2"

    def __enter__(self) -> Place:
        ip("netns", "add", self.namespace)
        try:
            ip("-n", self.namespace, "link", "set", "lo", "up")
            connect(f"{self.namespace}h", self.here, None, f"{self.namespace}w", self.watched, self.namespace)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run(["ip", "link", "del", f"{self.namespace}h"], check=False, capture_output=True)
        ip("netns", "del", self.namespace)

    def command(self, *words: str) -> list[str]:
        """Return what runs a program in the namespace; it takes the place of this very process.

        Not `ip netns exec`, which mounts another /sys, without the cgroups.
        """
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]


class Cable:
    """Two places and a veth pair between them; `cut` and `heal` it. Everything is gone on leaving."""

    def __init__(self) -> None:
        number = os.getpid() % 60000
        name, net = f"m{number}-{random.randrange(1000)}", f"10.{200 + number % 50}"
        third = number // 50 % 80 * 3
        self.master = Place(f"{name}a", f"{net}.{third}")
        self.agent = Place(f"{name}b", f"{net}.{third + 1}")
        self.master_ip, self.agent_ip = f"{net}.{third + 2}.1", f"{net}.{third + 2}.2"
        self._stack = ExitStack()

    def __enter__(self) -> Cable:
        with ExitStack() as stack:
            here, there = stack.enter_context(self.master), stack.enter_context(self.agent)
            # It goes with the namespaces.
            connect("cable", self.master_ip, here.namespace, "cable", self.agent_ip, there.namespace)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def cut(self) -> None:
        """Packets of the master vanish; the agent is told that the network is down."""
        ip("-n", self.agent.namespace, "link", "set", "cable", "down")

    def heal(self) -> None:
        """Make it whole; what is already whole stays so."""
        ip("-n", self.agent.namespace, "link", "set", "cable", "up")


def connect(name: str, address: str, place: str | None, other: str, other_address: str, other_place: str) -> None:
    """Make a veth pair, up at both ends, from a namespace (None: from here) to another."""
    at = [] if place is None else ["-n", place]
    ip(*at, "link", "add", name, "type", "veth", "peer", "name", other, "netns", other_place)
    ip(*at, "address", "add", f"{address}/30", "dev", name)
    ip(*at, "link", "set", name, "up")
    ip("-n", other_place, "address", "add", f"{other_address}/30", "dev", other)
    ip("-n", other_place, "link", "set", other, "up")
