"""A network of the test's own on real CNI plugins, and a look at what the machine has of it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PLUGINS = next(
    (path for path in (Path("/usr/lib/cni"), Path("/usr/libexec/cni")) if path.is_dir()), Path("/opt/cni/bin")
)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class CniNetwork:
    """One bridge with a subnet that nobody else has."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.configs = folder, folder / "net.d"
        self.name = self.bridge = f"mt{uuid.uuid4().hex[:8]}"
        self.leases = folder / "leases"
        taken = run("ip", "-4", "-o", "addr", "show")
        self.prefix = next(
            p for _ in range(99) if f" {(p := f'10.{random.randint(200, 250)}.{random.randint(1, 250)}')}." not in taken
        )
        self.configs.mkdir(parents=True)

    def bridge_plugin(self, **more: Any) -> dict[str, Any]:
        ipam = {"type": "host-local", "dataDir": str(self.leases), "subnet": f"{self.prefix}.0/24"}
        return {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {**ipam, "routes": [{"dst": "0.0.0.0/0"}]},
            **more,
        }

    def write(self, document: dict[str, Any], file: str = "net.conflist") -> None:
        (self.configs / file).write_text(json.dumps({"name": self.name, **document}))

    def write_chain(self) -> None:
        """Describe it as a chain of bridge and portmap, as today's files do."""
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
        self.write({"cniVersion": "0.4.0", "plugins": [self.bridge_plugin(), portmap]})

    def info(self, *ports: tuple[int, int]) -> dict[str, Any]:
        """Return the NetworkInfo of a task that maps these (host, container) ports."""
        mappings = [{"host_port": host, "container_port": inside, "protocol": "tcp"} for host, inside in ports]
        info: dict[str, Any] = {"name": self.name, "labels": {"labels": [{"key": "a", "value": "b"}]}}
        return {**info, "port_mappings": mappings} if mappings else info

    def left(self) -> list[str]:
        """Return what the machine has of containers in this network: leases, interfaces, rules, pinned namespaces."""
        leases = [str(path) for path in self.leases.glob(f"*/{self.prefix}.*")]
        links = [line for line in run("ip", "-o", "link", "show").splitlines() if f"master {self.bridge}" in line]
        rules = [
            rule
            for rule in run("iptables", "-w", "-t", "nat", "-S").splitlines()
            if f'"{self.name}' in rule or f'\\"{self.name}' in rule or f"{self.prefix}." in rule
        ]
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.folder) in line]
        return [*leases, *links, *rules, *mounts]


@contextmanager
def cni_network(folder: Path) -> Iterator[CniNetwork]:
    """A network that is gone at the end; nothing of it may be in use by then."""
    if shutil.which("iptables") is None or not (PLUGINS / "portmap").exists():
        raise RuntimeError("these tests need iptables and containernetworking-plugins; ./run test installs them")
    network = CniNetwork(folder)
    try:
        yield network
        assert network.left() == []
    finally:
        subprocess.run(["ip", "link", "del", network.bridge], check=False, capture_output=True)
