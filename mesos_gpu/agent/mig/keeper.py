"""Divides GPUs in MIG mode while the agent runs. What is done is gpu/mig_layout.py's decision."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.driver_thread import DriverThread
from mesos_gpu.errors import BadFlag, BadInput, Conflict, DeviceError, GpusTaken
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.gpu.mig_device import apply
from mesos_gpu.gpu.mig_layout import MigPlan, plan, read_wanted
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.ledger import MasterAccount
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

_LENT_AS = "mig"


async def _nothing() -> None:
    """Nothing is to be revoked: no container runs."""


class MigKeeper:
    """One division at a time. Lives in one event loop; the driver is asked in a thread.

    `name_of` says who a container is, in words. `on_change` is called in the loop when which GPUs there are, or may
    be offered, has changed. `revoke` denies containers the nodes of instances that do not exist any more: the next
    instances in their places have the same numbers.
    """

    def __init__(
        self,
        driver: GpuDriver,
        isolator: NvidiaGpuIsolator,
        care: AgentGpus,
        shared: Collection[str] = (),
        name_of: Callable[[ContainerId], str] = lambda container: f"container {container}",
    ) -> None:
        self._driver, self._isolator, self._care, self._shared = driver, isolator, care, frozenset(shared)
        self.name_of = name_of
        self.revoke: Callable[[], Awaitable[None]] = _nothing
        self.on_change: Callable[[], None] = lambda: None
        self._thread = DriverThread()
        self._one = asyncio.Lock()

    async def plan(self, gpu: str, division: str) -> MigPlan:
        """Return what would be done so that a GPU, by index or UUID, is divided so. Raises what `plan` raises."""
        wanted, holders = read_wanted(division), self._holders()

        def planned() -> MigPlan:
            with self._driver.divided(gpu, holders) as card:
                return plan(card.profiles, card.instances(), wanted)

        return await self._thread.ask(planned)

    async def divide(
        self, gpu: str, division: str, account: Callable[[], MasterAccount] = lambda: MasterAccount({})
    ) -> MigPlan:
        """Divide a GPU; what is in use stays. The instances that are there then are offered at once.

        `account` returns what the master counts when instances are about to be ended.

        Raises BadInput, Conflict, DeviceError, GpusTaken when idle ones that would be ended are promised or reserved.
        """
        async with self._one:
            await self.look_again()  # what was destroyed by others is denied to its holder before its numbers come back
            made = await self.plan(gpu, division)
            ended = {one.uuid for one in made.destroy}
            gone = frozenset(one for one in self._isolator.total if one.uuid in ended)
            self._check(gone, account())
            if gone:
                self._isolator.lend(_LENT_AS, gone)
                self.on_change()
            holders = self._holders(but=_LENT_AS)

            def applied() -> None:
                with self._driver.divided(gpu, holders) as card:
                    apply(card, made.destroy, made.create)

            try:
                await self._thread.ask(applied)
            finally:
                self._isolator.take_back(_LENT_AS)
                await self.look_again()
        log.info(
            "GPU %s is divided: %d instances kept, %d ended, %d made",
            *(gpu, len(made.keep), len(made.destroy), len(made.create)),
        )
        return made

    async def begin(self, wished: Mapping[str, str], account: Callable[[], MasterAccount], *, again: bool) -> None:
        """Divide GPUs as flags say, before anything is offered.

        `again`: there was an agent here before; its tasks are not left alone for a GPU that does not answer. Raises
        BadFlag for what can never be.
        """
        for gpu, division in wished.items():
            try:
                await self.divide(gpu, division, account)
            except (Conflict, GpusTaken) as error:
                log.warning("GPU %s is not divided as --mig_profiles says: %s", gpu, error)
            except (BadInput, DeviceError) as error:
                if isinstance(error, BadInput) or not again:
                    raise BadFlag("mig_profiles", f"GPU {gpu}: {error}") from None
                log.error("GPU %s is not divided as --mig_profiles says: %s", gpu, error)

    async def look_again(self) -> None:
        """Have the GPUs that the driver lists now; a container loses an instance that it does not list."""
        found = await self._thread.ask(self._driver.gpus)
        self._isolator.manage(gpu for gpu in found if gpu.uuid not in self._shared)
        await self.revoke()
        await self._care.manage()
        self.on_change()

    def close(self) -> None:
        """Ask the driver nothing more."""
        self._thread.close()

    def _holders(self, but: str = "") -> dict[str, str]:
        """Return who has which GPU, by UUID."""
        found = {gpu.uuid: self.name_of(name) for name, gpus in self._isolator.held.items() for gpu in gpus}
        lent = ((name, gpus) for name, gpus in self._isolator.lent.items() if name != but)
        return found | {gpu.uuid: f"lease {name}" for name, gpus in lent for gpu in gpus}

    def _check(self, gone: Collection[Gpu], account: MasterAccount) -> None:
        """Refuse to end idle instances that are promised to tasks or needed for reservations. Raises GpusTaken."""
        self._isolator.tell(account)
        ledger = self._isolator.ledger
        idle, free = ledger.available.intersection(gone), ledger.leasable
        if len(idle) > free:
            raise GpusTaken(
                f"{len(idle)} idle instances would be ended, but {ledger.promised} are promised to tasks that are "
                f"starting and {account.reserved} GPUs are reserved for roles: only {free} may go. Try again later, or "
                "unreserve them",
                asked=len(idle),
                free=free,
            )
