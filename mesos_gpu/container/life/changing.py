"""Gives a running container other limits and other GPUs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.spec.config import Size
from mesos_gpu.container.spec.isolation import Isolator
from mesos_gpu.container.spec.nesting import descendants
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.container.state.sizing import enforce, resized
from mesos_gpu.errors import ContainerError, NotFound
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.access import BASE_RULES
from mesos_gpu.isolator.live_access import RunningAccess
from mesos_gpu.isolator.plan import Change, DeviceRule
from mesos_gpu.mesos.ids import ContainerId


class Changer:
    """Changes containers that run. `containers` is who lives now, by id."""

    def __init__(
        self,
        *,
        cgroups: Cgroups,
        isolator: Isolator,
        checkpoints: ContainerRecords,
        containers: Mapping[ContainerId, LiveContainer],
        cfs_quota: bool,
    ) -> None:
        self._cgroups, self._isolator, self._checkpoints = cgroups, isolator, checkpoints
        self._containers, self._cfs_quota = containers, cfs_quota

    def gpus(self, container: LiveContainer, gpus: int, release: Collection[Gpu] | None) -> Change:
        """Make `gpus` the number of GPUs that it holds; what it can open has changed on return.

        Raises NotFound for a container that does not run, and what the isolator's update raises.
        """
        container_id = container.record.container_id
        change = self.access(container, lambda: self._isolator.update(container_id, gpus, release))
        container.record = msgspec.structs.replace(container.record, gpus=gpus)
        self._checkpoints.save(container.record)
        return change

    def access(self, container: LiveContainer, how: Callable[[], Change]) -> Change:
        """Have an isolator change what it, and what is nested in it, can open.

        Raises NotFound for a container that does not run, and what `how` raises.
        """
        container_id = container.record.container_id
        if container.init is None or container.ended.is_set():
            raise NotFound(f"container {container_id} does not run")
        plan = container.record.device_plan
        rules = () if plan is None else plan.rules
        self._isolator.isolate(container_id, container.init.pid, rules)
        # Now that its cgroup was looked up by this pid: was it still its own?
        same = Process.open(container.init.pid, start_time=container.init.start_time)
        if same is None:
            raise NotFound(f"container {container_id} has ended")
        same.close()
        change = how()
        for child_id in descendants(container_id, self._containers):
            self._pass_on(self._containers[child_id], change, rules)
        return change

    def limits(self, container: LiveContainer, size: Size) -> None:
        """Have the kernel hold it to other limits. Raises NotFound for one that has ended, ContainerError."""
        container_id = container.record.container_id
        if container.ended.is_set():
            raise NotFound(f"container {container_id} does not run")
        record = resized(container.record, size)
        try:
            enforce(self._cgroups, record, cfs_quota=self._cfs_quota)
        except OSError as error:
            raise ContainerError(f"the limits of container {container_id} cannot be changed: {error}") from error
        container.record = record
        self._checkpoints.save(record)

    def _pass_on(self, nested: LiveContainer, change: Change, rules: Sequence[DeviceRule]) -> None:
        """Have a nested container see what its outermost parent was given or lost; a session sees its parent's."""
        if nested.init is None or nested.record.session or not nested.record.shares_cgroup:
            return
        try:
            access = RunningAccess(nested.init.pid, base_rules=(*BASE_RULES, *rules))
            access.change(change.plan.nodes, opened=change.opened, closed=change.closed)
        except NotFound:
            pass  # it has ended meanwhile
