"""What this room asks of an isolator; `mesos_gpu.isolator.NvidiaGpuIsolator` is the real one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import Change, DeviceRule, LaunchPlan
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Isolator(Protocol):
    """Decides what a container gets beside its root. The names are Mesos' (`slave/isolator.hpp`)."""

    def recover(self, live: Collection[ContainerId]) -> frozenset[ContainerId]:
        """Take up what was held before a restart; return containers that hold something and are not `live`."""

    def prepare(
        self,
        container_id: ContainerId,
        gpus: int,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
        share: Share | None = None,
    ) -> LaunchPlan:
        """Take `gpus` GPUs for the container, or its `share`; `image` is what its image says, False for none.

        Raises NotEnoughGpus, Conflict when it is already prepared.
        """

    def isolate(self, container_id: ContainerId, pid: int, rules: Sequence[DeviceRule] = ()) -> None:
        """Tell that `pid` is a process of the container, whose access `update` may change from now on.

        `rules` allow devices that others gave it, which it keeps.
        """

    def update(self, container_id: ContainerId, gpus: int, release: Collection[Gpu] | None = None) -> Change:
        """Make `gpus` the number of GPUs that the running container holds and can open."""

    def stale(self) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        """Return the nodes that containers can open and that belong to no GPU of theirs."""

    def revoke(self, container_id: ContainerId) -> Change:
        """Deny a running container what `stale` returns of it. Raises MesosGpuError."""

    def cleanup(self, container_id: ContainerId) -> None:
        """Give back what the container holds; nothing happens when it holds nothing."""
