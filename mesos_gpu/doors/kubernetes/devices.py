"""What a kubelet is told of the agent's GPUs, and what a container is given for them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DOOR = "kubernetes"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


@dataclass(frozen=True, slots=True)
class Listed:
    """One GPU as a kubelet sees it: by its UUID."""

    id: str
    health: str


def listed(gpus: Sequence[Mapping[str, Any]]) -> tuple[Listed, ...]:
    """Return every GPU of `GET /gpus`. One that somebody else holds is unhealthy, and healthy again when it is free.

    A kubelet has no other word for that; unhealthy devices lower what it may give, and containers that have them keep
    them. None is left out: a kubelet would forget it.
    """
    return tuple(Listed(gpu["uuid"], HEALTHY if _fit(gpu) else UNHEALTHY) for gpu in sorted(gpus, key=_place))


def _place(gpu: Mapping[str, Any]) -> tuple[int, str]:
    return int(gpu.get("index", 0)), str(gpu["uuid"])


def _fit(gpu: Mapping[str, Any]) -> bool:
    elsewhere = bool(gpu.get("container_id")) or bool(gpu.get("lease_id") and gpu.get("door") != DOOR)
    return gpu.get("condition", "healthy") == "healthy" and not elsewhere


def best_connected(
    links: Mapping[str, Mapping[str, Mapping[str, int]]], free: Collection[str], needed: Collection[str], count: int
) -> list[str]:
    """Return `count` of `free` that are best connected with each other and with those `needed`, which are among them.

    `links` are those of `GET /gpus/driver`: by two UUIDs, the NVLinks, and the level at which their PCIe ways meet.
    """
    order = sorted(free)

    def tie(one: str, other: str) -> tuple[int, int]:
        link = links.get(one, {}).get(other, {})
        return int(link.get("nvlinks", 0)), -int(link.get("level", 99))

    def score(chosen: Sequence[str]) -> tuple[tuple[int, int], int, int]:
        ties = [tie(one, other) for at, one in enumerate(chosen) for other in chosen[:at]]
        return min(ties, default=(1 << 30, 0)), sum(t[0] for t in ties), sum(t[1] for t in ties)

    def grown(start: list[str]) -> list[str]:
        chosen = start
        while len(chosen) < count:
            chosen = max(([*chosen, name] for name in order if name not in chosen), key=score)
        return chosen

    must = sorted(needed)
    if len(must) >= count or len(order) <= count:
        return [*must, *(name for name in order if name not in must)][:count]
    starts = [must] if must else [[name] for name in order]
    return max((grown(start) for start in starts), key=score)


def answer(lease: Mapping[str, Any]) -> dict[str, Any]:
    """Return a lease as a ContainerAllocateResponse: variables, mounts, device nodes by where they lie on the machine.

    Search paths are left to the image: what a plugin says of PATH would take the place of the image's own.
    """
    mounts = [
        {"container_path": m["destination"], "host_path": m["source"], "read_only": bool(m.get("read_only", True))}
        for m in lease["mounts"]
    ]
    devices = [
        {"container_path": node["path"], "host_path": node["host_path"], "permissions": "rw"}
        for node in lease["devices"]
    ]
    return {"envs": dict(lease["environment"]), "mounts": mounts, "devices": devices}


def unused(leases: Sequence[Mapping[str, Any]], pods: Collection[str], fresh: Collection[str]) -> list[str]:
    """Return the leases of this door none of whose GPUs any pod has, but for `fresh` ones: a pod shows up a bit later.

    `pods` are the devices that the kubelet names as given.
    """
    return [
        lease["id"]
        for lease in leases
        if lease["door"] == DOOR and lease["id"] not in fresh and not {g["uuid"] for g in lease["gpus"]} & set(pods)
    ]


def of(leases: Sequence[Mapping[str, Any]], gpus: Collection[str]) -> list[str]:
    """Return the leases of this door that have one of these GPUs."""
    return [
        lease["id"] for lease in leases if lease["door"] == DOOR and {gpu["uuid"] for gpu in lease["gpus"]} & set(gpus)
    ]


def missing(leases: Sequence[Mapping[str, Any]], pods: Collection[str], gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return GPUs that pods have and no lease of this door: the record of them was lost with the plugin."""
    lent = {gpu["uuid"] for lease in leases if lease["door"] == DOOR for gpu in lease["gpus"]}
    return [gpu["uuid"] for gpu in sorted(gpus, key=_place) if gpu["uuid"] in set(pods) - lent]
