"""The host's files as a container will see them before it is launched: URIs are fetched then."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.task_files import FileRights, TaskFiles, open_task_files
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.remapping import Remapping
from mesos_gpu.container.spec.bundle import HostSetting, process_capabilities
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.user_namespace import IdRange, everyone
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.errors import ContainerError

DAC_OVERRIDE = "CAP_DAC_OVERRIDE"


class HostFiles:
    """Opens the host's files with the rights of containers of one agent."""

    def __init__(self, host: HostSetting, mounts: MountNamespace, remapping: Remapping, bundles: Path) -> None:
        self._host, self._mounts, self._remapping, self._bundles = host, mounts, remapping, bundles

    @asynccontextmanager
    async def of(
        self, config: ContainerConfig, outermost: LiveContainer | None, live: Collection[LiveContainer]
    ) -> AsyncIterator[TaskFiles]:
        """Yield what opens files as `config` will; it may be nested in `outermost`. `live` as for `Remapping.admit`.

        Raises BadInput for a user that cannot be in the container, ContainerError.
        """
        user = find_user(config.user)
        with ExitStack() as closing:
            ids = closing.enter_context(self._remapping.lend(outermost, live, host_users=config.host_users))
            if ids is not None:
                ids.check_user(user)
            root, namespace = await self._mounts.run(lambda: self._opened(outermost, ids))
            closing.callback(os.close, root)
            if namespace is not None:
                closing.callback(os.close, namespace)
            async with open_task_files(rights_of(config, user, self._host), root, namespace) as files:
                yield files

    def _opened(self, outermost: LiveContainer | None, ids: IdRange | None) -> tuple[int, int | None]:
        """Open the root that paths start at, and the user namespace. In the mounts' own thread only."""
        namespace = None
        if ids is not None:
            namespace = os.dup(self._remapping.namespaces.descriptor(everyone(ids)))
        try:
            return os.open(self._root(outermost), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), namespace
        except OSError as error:
            if namespace is not None:
                os.close(namespace)
            raise ContainerError(f"cannot open the root that files are fetched from: {error}") from error

    def _root(self, outermost: LiveContainer | None) -> str:
        """Return the root of containers on the host's files; a nested one shares that of its outermost parent.

        There the parent's sandbox has the owners that its processes see. In an image paths mean other files.
        """
        if outermost is not None and outermost.init is not None:
            bundle = self._bundles / outermost.record.container_id
            document: dict[str, Any] = msgspec.json.decode((bundle / "config.json").read_bytes())
            if document["root"]["path"] == self._host.rootfs:
                return f"/proc/{outermost.init.pid}/root"
        return self._host.rootfs


def rights_of(config: ContainerConfig, user: HostUser, host: HostSetting) -> FileRights:
    """Return with which rights processes of a container open files. Pure.

    As execve(2) leaves them: root gains its bounding set, or without new privileges keeps what it had; another user
    has only its ambient capabilities.
    """
    capabilities = process_capabilities(config, user, host)
    if user.uid != 0:
        held = capabilities.get("ambient", [])
    elif host.hardening.no_new_privileges:
        held = capabilities["effective"]
    else:
        held = capabilities["bounding"]
    return FileRights(user, DAC_OVERRIDE in held)
