"""Which device numbers containers can open, and which GPUs must not be given because of that. Pure.

The kernel knows device numbers, not GPUs. A number outlives its GPU: the numbers of a MIG instance that is destroyed
become those of the next instance in its place, and GPUs can be numbered differently after the driver was loaded again.
So what a container was granted is recorded as numbers, and compared with the GPUs that the driver lists now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from mesos_gpu.gpu.device import NVIDIA_MAJOR, DeviceNode, Gpu
from mesos_gpu.isolator.access import gpu_node, gpu_nodes
from mesos_gpu.mesos.ids import ContainerId

Number = tuple[int, int]
"""Major and minor number of a character device."""

CAPS_FOLDER = "/dev/nvidia-caps"


@dataclass(frozen=True, slots=True)
class HeldGpu:
    """One GPU as it was when it was given: the device numbers the container can open, and the GPU they belonged to.

    `minor` is that of the GPU's node; `caps` are those of a MIG instance's nodes under /dev/nvidia-caps, which have
    the major number `caps_major` (0 in records of before that was recorded). If it is `closed`, the GPU does not exist
    any more and the container cannot open these numbers on its behalf; `replaced`: another that it holds has them.
    """

    minor: int
    uuid: str
    caps: tuple[int, ...] = ()
    caps_major: int = 0
    closed: bool = False
    replaced: bool = False

    @classmethod
    def of(cls, gpu: Gpu) -> HeldGpu:
        """Return `gpu` as it is recorded."""
        if gpu.mig is None:
            return cls(gpu.minor, gpu.uuid)
        major = next((node.major for node in gpu.mig.nodes), 0)
        return cls(gpu.minor, gpu.uuid, tuple(node.minor for node in gpu.mig.nodes), major)

    def opens(self, gpu: Gpu) -> bool:
        """Return whether the container that was given this one can use `gpu`, which may have taken its place since."""
        if self.closed or gpu.minor != self.minor:
            return False
        now = HeldGpu.of(gpu)
        same_major = 0 in (self.caps_major, now.caps_major) or now.caps_major == self.caps_major
        return set(now.caps) <= set(self.caps) and same_major

    def nodes(self, caps_majors: Iterable[int] = ()) -> frozenset[DeviceNode]:
        """Return the nodes that it opens; `caps_majors` stand in for a major number that was not recorded."""
        if self.closed:
            return frozenset()
        majors = [self.caps_major] if self.caps_major else list(caps_majors)
        caps = [DeviceNode(f"{CAPS_FOLDER}/nvidia-cap{minor}", major, minor) for minor in self.caps for major in majors]
        return frozenset([DeviceNode(f"/dev/nvidia{self.minor}", NVIDIA_MAJOR, self.minor), *caps])


def settle(
    recorded: Mapping[ContainerId, Collection[HeldGpu]], gpus: Collection[Gpu]
) -> Mapping[ContainerId, frozenset[Gpu]]:
    """Return which of the GPUs that there are now each container holds: those that it can open.

    If several containers can open a GPU, the one that was given this very GPU holds it; if none was, no container does.
    """
    held: dict[ContainerId, set[Gpu]] = {container: set() for container in recorded}
    for gpu in gpus:
        claims = {
            container: any(was.uuid == gpu.uuid for was in records if was.opens(gpu))
            for container, records in recorded.items()
            if any(was.opens(gpu) for was in records)
        }
        owners = [container for container, same in claims.items() if same]
        for container in owners or (list(claims) if len(claims) == 1 else []):
            held[container].add(gpu)
    return {container: frozenset(found) for container, found in held.items()}


def remaining(
    held: Mapping[ContainerId, frozenset[Gpu]], listed: Collection[Gpu], lent: Collection[ContainerId]
) -> tuple[frozenset[Gpu], frozenset[Gpu]]:
    """Return which of the GPUs that are held remain, and which others there are, when the driver lists these.

    A MIG instance that is not listed does not remain, unless its holder is one of those `lent` to. If others have
    switched the MIG mode of a GPU that remains, what it is now does not count before it is free.
    """
    uuids = {gpu.uuid for gpu in listed}
    stays = frozenset(
        gpu for holder, gpus in held.items() for gpu in gpus if gpu.uuid in uuids or gpu.mig is None or holder in lent
    )
    known, undivided = {gpu.uuid for gpu in stays}, {gpu.minor: gpu.mig is None for gpu in stays}
    others = (gpu for gpu in listed if gpu.uuid not in known)
    return stays, frozenset(gpu for gpu in others if undivided.get(gpu.minor, gpu.mig is None) == (gpu.mig is None))


def lost(recorded: Collection[HeldGpu], held: Collection[Gpu]) -> frozenset[HeldGpu]:
    """Return those of the GPUs that a container was given which it does not hold."""
    gone = set()
    for was in recorded:
        instead = [gpu for gpu in held if was.opens(gpu)]
        if was.uuid not in {gpu.uuid for gpu in instead}:
            # An instance in the place of an instance has all of its numbers, a whole GPU in that place has not.
            taken_over = any(set(HeldGpu.of(gpu).caps) == set(was.caps) for gpu in instead)
            gone.add(replace(was, closed=was.closed or taken_over, replaced=was.replaced or bool(instead)))
    return frozenset(gone)


def stale(lost: Collection[HeldGpu], held: Collection[Gpu], caps_majors: Collection[int]) -> frozenset[DeviceNode]:
    """Return the nodes that a container can open and that belong to no GPU which it holds: to be denied."""
    keeps = numbers(gpu_nodes(held))
    nodes = (node for was in lost for node in was.nodes(caps_majors))
    return frozenset(node for node in nodes if (node.major, node.minor) not in keeps)


def revoked(lost: Collection[HeldGpu], in_use: Collection[DeviceNode]) -> frozenset[HeldGpu]:
    """Return lost GPUs after access to them was revoked: all are closed but those that a process still has open.

    The node of a whole GPU, which all of its MIG instances share, does not open an instance by itself.
    """
    found = set()
    for was in lost:
        own = {f"{CAPS_FOLDER}/nvidia-cap{minor}" for minor in was.caps} or {f"/dev/nvidia{was.minor}"}
        found.add(replace(was, closed=own.isdisjoint(node.path for node in in_use)))
    return frozenset(found)


def blocked(free: Iterable[Gpu], reach: Collection[Number]) -> frozenset[str]:
    """Return the UUIDs of free GPUs that some container can open: they are given to none."""
    return frozenset(gpu.uuid for gpu in free if not own_numbers(gpu).isdisjoint(reach))


def own_numbers(gpu: Gpu) -> frozenset[Number]:
    """Return the numbers of the nodes that open this GPU and no other: not those that MIG instances share."""
    return numbers([gpu_node(gpu)] if gpu.mig is None else gpu.mig.nodes)


def numbers(nodes: Iterable[DeviceNode]) -> frozenset[Number]:
    """Return the device numbers of nodes."""
    return frozenset((node.major, node.minor) for node in nodes)
