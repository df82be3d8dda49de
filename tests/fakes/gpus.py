"""A driver and a pool of GPUs that say what a test tells them to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import Gpu, GpuUsage, HealthEvent
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator.ledger import Holding, Ledger, MasterAccount, container, lease
from mesos_gpu.isolator.reach import HeldGpu

GPUS = tuple(Gpu(minor=n, index=n, uuid=f"GPU-{n}", name="Some GPU") for n in range(4))


class ScriptedDriver(NullDriver):
    def __init__(self) -> None:
        self.tell: Callable[[HealthEvent], None] | None = None
        self.unfit: dict[str, str] = {}
        self.tested: list[str] = []
        self.silent: set[str] = set()
        self.readers: list[int] = []
        self.answers = threading.Event()
        self.answers.set()
        self.watchable = True

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        if not self.watchable:
            raise DeviceError("too old")
        self.tell = on_event
        return lambda: None

    def retest(self, gpu: Gpu) -> str | None:
        self.tested.append(gpu.uuid)
        return self.unfit.get(gpu.uuid)

    def usage(self, gpu: Gpu) -> GpuUsage:
        self.answers.wait()
        self.readers.append(threading.get_ident())
        if gpu.uuid in self.silent:
            raise DeviceError("lost")
        return GpuUsage(memory_used_mib=gpu.minor, utilization_percent=50)


class ScriptedPool:
    """Who holds what, as a test says."""

    def __init__(self) -> None:
        self.total = frozenset(GPUS)
        self.held: Mapping[str, frozenset[Gpu]] = {}
        self.lent: Mapping[str, frozenset[Gpu]] = {}
        self.lost: Mapping[str, frozenset[HeldGpu]] = {}
        self.withdrawn: set[str] = set()
        self.account = MasterAccount({})

    @property
    def ledger(self) -> Ledger:
        """What follows from who holds what."""
        names = {*self.held, *self.lost}
        holdings = {
            container(name): Holding(self.held.get(name, frozenset()), self.lost.get(name, frozenset()))
            for name in names
        }
        holdings |= {lease(name): Holding(gpus) for name, gpus in self.lent.items()}
        return Ledger(gpus=self.total, holdings=holdings, withdrawn=frozenset(self.withdrawn), account=self.account)

    def tell(self, event: MasterAccount) -> None:
        self.account = event

    def withdraw(self, uuids: Any) -> None:
        self.withdrawn |= set(uuids)

    def restore(self, uuids: Any) -> None:
        self.withdrawn -= set(uuids)
