"""The network `mesos-bridge` of a box: its subnet and its CNI configuration. Pure.

The name is that which Marathon gives to networks of the mode `container/bridge`, as on DC/OS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

NETWORK = "mesos-bridge"
FILE = f"{NETWORK}.conflist"

POOL = IPv4Network("10.254.0.0/16")
"""Where the subnets of boxes lie, each a /24, unless the machine has routes there."""

PLUGINS = ("/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin")
"""Where Debian, Fedora and the plugins' authors put them."""


def routed(text: str) -> list[IPv4Network]:
    """Return the networks that /proc/net/route says this machine reaches, without its default route."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        address, mask = (int.from_bytes(bytes.fromhex(fields[at]), "little") for at in (1, 7))
        if mask:
            found.append(IPv4Network((address & mask, str(IPv4Address(mask)))))
    return found


def choose_subnet(taken: Sequence[IPv4Network], box_id: str, before: IPv4Network | None = None) -> IPv4Network | None:
    """Return a subnet that overlaps with nothing on this machine, None when there is none.

    `before` is that which the box had when it last ran. Boxes begin to look at different places, because a bridge is
    only there once a task needs it.
    """
    if before is not None and not _overlaps(before, taken):
        return before
    subnets = list(POOL.subnets(new_prefix=24))
    start = int(box_id, 16) % len(subnets)
    return next((one for one in (*subnets[start:], *subnets[:start]) if not _overlaps(one, taken)), None)


def _overlaps(subnet: IPv4Network, taken: Iterable[IPv4Network]) -> bool:
    return any(subnet.overlaps(one) for one in taken)


def bridge_name(box_id: str) -> str:
    """Return the name of a box's bridge; the kernel takes 15 characters."""
    return f"mgpu-{box_id}"


def configuration(box_id: str, subnet: IPv4Network, leases: str) -> dict[str, Any]:
    """Return the CNI configuration: a bridge behind NAT, its addresses noted in the folder `leases`, ports mapped."""
    return {
        "cniVersion": "0.4.0",
        "name": NETWORK,
        "plugins": [
            {
                "type": "bridge",
                "bridge": bridge_name(box_id),
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": leases,
                    "ranges": [[{"subnet": str(subnet)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    }


def subnet_of(document: Any) -> IPv4Network | None:
    """Return the subnet of a configuration as `configuration` makes them, None of any other."""
    try:
        return IPv4Network(document["plugins"][0]["ipam"]["ranges"][0][0]["subnet"])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
