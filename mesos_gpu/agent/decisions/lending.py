"""Which GPUs a holder outside Mesos gets, or why it gets none. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.leases import LeaseRequest
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.errors import BadInput, GpusTaken, NotFound
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.ledger import Choice, Holder, Ledger, MasterAccount, State, container
from mesos_gpu.mesos.resources import Resources


class Standing(Struct, frozen=True):
    """One GPU of the agent: who holds it, in words for a person, and why it is not fit; both empty for a free one."""

    gpu: Gpu
    holder: str = ""
    illness: str = ""

    @property
    def free(self) -> bool:
        """Return whether it may be lent."""
        return not self.holder and not self.illness

    @property
    def words(self) -> str:
        """Return what keeps it from being lent."""
        name = f"GPU {self.gpu.index} ({self.gpu.uuid})"
        return f"{name} is held by {self.holder}" if self.holder else f"{name} is {self.illness}"


def standings(ledger: Ledger, reason_of: Callable[[str], str], name_of: Callable[[Holder], str]) -> Sequence[Standing]:
    """Return each GPU with what keeps it from being leased; `reason_of` returns why a withdrawn GPU is so, by UUID."""
    found = []
    for gpu in sorted(ledger.total):
        state, holder = ledger.state(gpu.uuid)
        illness = reason_of(gpu.uuid) if state is State.WITHDRAWN else ""
        if state is State.REACHABLE:
            illness = "still accessible to a container that does not hold it"
        found.append(Standing(gpu, "" if holder is None else name_of(holder), illness))
    return found


def master_account(owners: Iterable[Task | Executor], kept: Resources) -> MasterAccount:
    """Return what the master counts: GPUs of tasks and executors that are not over, by container, and reserved GPUs.

    GPUs of a task that has no container yet are counted under an empty id.
    """
    counted: Counter[Holder] = Counter()
    for one in owners:
        if not (one.phase is Phase.OVER if isinstance(one, Task) else one.over):
            gpus = Resources.from_json(one.info.get("resources", [])).gpus
            counted[container(one.container_id or "")] += gpus
    return MasterAccount(+counted, kept.gpus)


def choose(request: LeaseRequest, standings: Sequence[Standing], choice: Choice, ledger: Ledger) -> frozenset[Gpu]:
    """Return the GPUs to lend. Raises GpusTaken saying who holds what, NotFound for a name that no GPU has."""
    by_gpu = {standing.gpu: standing for standing in standings}
    if request.everything:
        named = frozenset(by_gpu)
        if not named:
            raise GpusTaken("this agent has no GPUs to lend", asked=0, free=0)
    else:
        named = _named(request.names, by_gpu)
    count = len(named) if request.count is None else request.count
    can_be, promised, reserved = ledger.leasable, ledger.promised, ledger.account.reserved
    taken = [by_gpu[gpu] for gpu in sorted(named) if not by_gpu[gpu].free]
    if taken or count > can_be:
        reasons = taken or [standing for standing in standings if not standing.free]
        words = [standing.words for standing in reasons]
        if promised and not taken:
            words.append(f"{promised} promised to tasks that are starting")
        if reserved and not taken:
            words.append(f"{reserved} reserved for roles of Mesos")
        which = f"only {can_be} of {len(standings)} can be lent" if request.count is not None else "not all are free"
        raise GpusTaken(f"asked for {request.words}, but {which}: {'; '.join(words)}", asked=count, free=can_be)
    return named or choice([standing.gpu for standing in standings if standing.free], count)


def _named(names: Sequence[str], gpus: Collection[Gpu]) -> frozenset[Gpu]:
    found = []
    for name in names:
        named = [gpu for gpu in gpus if gpu.uuid == name] or [gpu for gpu in gpus if str(gpu.index) == name]
        if not named:
            there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in sorted(gpus)) or "none"
            raise NotFound(f"there is no GPU {name} on this agent; there are {there}")
        if len(named) > 1:
            parts = ", ".join(gpu.uuid for gpu in sorted(named))
            raise BadInput(f"GPU {name} is shared out as MIG instances; name one of them: {parts}")
        found += named
    return frozenset(found)
