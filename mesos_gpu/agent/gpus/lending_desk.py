"""Where GPUs are lent: the book, and what a holder has to give its container to use them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict

from msgspec import Struct, field

from mesos_gpu.agent.gpus.host_nodes import HostNodes
from mesos_gpu.agent.gpus.lender import Lender
from mesos_gpu.agent.model.gpu_json import gpu_shown
from mesos_gpu.agent.model.leases import Lease
from mesos_gpu.gpu.device import DeviceNode, Gpu, GpuDetails, Topology
from mesos_gpu.isolator.access import gpu_nodes
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.resource import Document


class LendingDesk(Struct, frozen=True):
    """The book of leases beside what the isolator knows of GPUs, as documents for programs outside Mesos."""

    lender: Lender
    isolator: NvidiaGpuIsolator
    nodes: HostNodes
    topology: Topology = field(default_factory=Topology)
    details: Mapping[str, GpuDetails] = field(default_factory=dict)
    """What each GPU is, by UUID, as the driver said when the agent started."""

    def shown(self, lease: Lease) -> Document:
        """Return a lease as it is listed."""
        engine = lease.watch.engine
        watched: Document = {
            "pids": [process.pid for process in lease.watch.processes],
            "cgroups": list(lease.watch.cgroups),
        }
        if engine is not None:
            watched |= {"container": engine.container, "containers": engine.folder}
        return {
            "id": lease.id,
            "door": lease.door,
            "holder": lease.holder,
            "container": lease.container,
            "since": lease.since,
            "gpus": [gpu_shown(gpu, None) for gpu in lease.gpus],
            "watched": watched,
        }

    def handed(self, lease: Lease) -> Document:
        """Return a lease with what its holder's container has to be given. Raises Unavailable without nodes."""
        engine = lease.watch.engine
        cidfile = {} if engine is None else {"cidfile": engine.cidfile}
        return {**self.shown(lease), **self.use_of(lease.gpus), **cidfile}

    def use_of(self, gpus: Collection[Gpu]) -> Document:
        """Return what a container needs to use these GPUs: nodes, mounts, variables, entries of search paths."""
        plan = self.isolator.plan_for(gpus)
        return {
            "devices": self._nodes(plan.nodes),
            "mounts": [
                {"source": mount.source, "destination": mount.destination, "read_only": mount.read_only}
                for mount in plan.mounts
            ],
            "environment": dict(plan.environment),
            "search_paths": {name: list(entries) for name, entries in plan.search_paths.items()},
        }

    def driver(self) -> Document:
        """Return the driver and each GPU with its own nodes, for those who describe this machine to other programs."""
        driver, gpus = self.isolator.driver, sorted(self.isolator.total)
        nothing, topology = self.use_of(()), self.topology
        return {
            "kind": driver.kind,
            "version": driver.version,
            "cuda_version": driver.cuda_version,
            "control_devices": nothing["devices"],
            "mounts": nothing["mounts"],
            "files": _files(self.isolator.volume),
            "search_paths": nothing["search_paths"],
            "gpus": [
                {
                    **gpu_shown(gpu, None),
                    "bus_id": gpu.bus_id,
                    "details": _known(self.details.get(gpu.uuid, GpuDetails())),
                    "mig": None
                    if gpu.mig is None
                    else {
                        "parent_uuid": gpu.mig.parent_uuid,
                        "gpu_instance": gpu.mig.gpu_instance,
                        "compute_instance": gpu.mig.compute_instance,
                    },
                    "devices": self._nodes(gpu_nodes([gpu])),
                    "links": {
                        other.uuid: {"nvlinks": link.nvlinks, "level": int(link.level)}
                        for other in gpus
                        if other != gpu
                        for link in [topology.between(gpu, other)]
                    },
                }
                for gpu in gpus
            ],
        }

    def _nodes(self, nodes: Iterable[DeviceNode]) -> list[Document]:
        return [
            {
                "path": node.path,
                "host_path": self.nodes.path_of(node),
                "major": node.major,
                "minor": node.minor,
                "mode": node.mode,
                "uid": node.uid,
                "gid": node.gid,
            }
            for node in nodes
        ]


def _known(details: GpuDetails) -> Document:
    return {name: value for name, value in asdict(details).items() if value is not None}


def _files(volume: NvidiaVolume | None) -> Document:
    """Return the names of the driver's programs and libraries."""
    if volume is None:
        return {}
    folders = {name: volume.host_path / name for name in ("bin", "lib64")}
    return {
        name: sorted(path.name for path in folder.iterdir() if path.is_file())
        for name, folder in folders.items()
        if folder.is_dir()
    }
