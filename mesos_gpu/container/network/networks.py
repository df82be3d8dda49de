"""Containers join networks, and leave them: Mesos' isolator network/cni.

Per container there is a folder with what leaving takes: it is written before a plugin is called, and removed after
the last has done its DEL. So a restarted agent takes its containers' networks up, and leaves those of others.
Source: Mesos src/slave/containerizer/mesos/isolators/network/cni/cni.cpp.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mesos_gpu.container.host.runtime import MORE_FOLDERS
from mesos_gpu.container.network.netns import Outside, drop_unpinned, make_namespace, open_pinned, pin, unpin
from mesos_gpu.container.network.network_state import (
    NAMESPACE,
    Attachment,
    Joined,
    State,
    as_joined,
    load,
    save,
    write_files,
)
from mesos_gpu.container.network.plugins import LOCK, PLUGIN_TIMEOUT_S, run_plugin
from mesos_gpu.container.spec import cni
from mesos_gpu.container.spec.cni import ADD, DEL, DefaultDns, Document, Network
from mesos_gpu.errors import BadInput, ContainerError, MesosGpuError, ProtocolError
from mesos_gpu.mesos.ids import ContainerId

MAX_HOSTNAME = 63
PACKAGE = "apt install containernetworking-plugins"

log = logging.getLogger(__name__)


class Networks:
    """The networks of one agent's containers. `configs` None: it joins none, and only gives containers host names.

    `lock` is the file by which agents of one machine keep some of their plugins apart (`plugins.ONE_AT_A_TIME`).
    """

    def __init__(
        self,
        folder: Path,
        configs: Path | None = None,
        plugins: Sequence[Path] = (),
        default_dns: DefaultDns = cni.NO_DNS,
        lock: Path = LOCK,
    ) -> None:
        self._folder, self._configs, self._plugins = folder, configs, tuple(plugins)
        self._default_dns, self._lock = default_dns, lock
        self._outside = Outside(folder)
        self._joined: dict[ContainerId, Joined] = {}
        self._under_way: dict[ContainerId, asyncio.Task[Joined]] = {}

    async def recover(self, live: Mapping[ContainerId, int | None]) -> None:
        """Take up the networks of containers that live, here with their inits, and leave those of all others."""
        if not self._folder.is_dir():
            return
        for place in sorted(self._folder.iterdir()):
            state, container_id = load(place), ContainerId(place.name)
            if container_id not in live or state is None:
                await self.cleanup(container_id)
                continue
            namespace = await self._outside.run(partial(open_pinned, place / NAMESPACE))
            pid = live[container_id]
            if namespace is None and state.attachments and pid is not None:
                namespace = open_pinned(Path(f"/proc/{pid}/ns/net"))
            self._joined[container_id] = as_joined(place, state, namespace)

    async def prepare(
        self, container_id: ContainerId, infos: Sequence[Mapping[str, Any]], hostname: str | None
    ) -> Joined:
        """Make a container's network namespace and join these networks (NetworkInfos with a name); none: the host's.

        Raises BadInput for a network that is not there, ContainerError when a plugin fails; `cleanup` is due then, too.
        """
        networks = [self._find(name) for name in cni.names_of(infos)]
        attachments = [
            Attachment(network.name, network.version, list(network.plugins), f"eth{number}", dict(info))
            for number, (network, info) in enumerate(zip(networks, infos, strict=True))
        ]
        state = State(hostname or container_id[:MAX_HOSTNAME], attachments, list(map(str, self._plugins)))
        # Shielded: plugins that have begun come to their end before others are called to undo it.
        work = self._under_way[container_id] = asyncio.ensure_future(self._join(container_id, state))
        joined = await asyncio.shield(work)
        del self._under_way[container_id]
        return joined

    def joined(self, container_id: ContainerId) -> Joined | None:
        """Return what a container got, None for one that has only the host's."""
        return self._joined.get(container_id)

    async def cleanup(self, container_id: ContainerId) -> None:
        """Leave all networks of a container that has no process any more; nothing happens when it is in none.

        What a plugin fails to undo stays on record: it is tried again when the agent starts again.
        """
        work = self._under_way.pop(container_id, None)
        if work is not None:
            await asyncio.gather(work, return_exceptions=True)
        joined = self._joined.pop(container_id, None)
        if joined is not None and joined.namespace is not None:
            os.close(joined.namespace)
        place = self._folder / container_id
        if not place.is_dir():
            return
        state = load(place)
        await self._outside.run(partial(drop_unpinned, place / NAMESPACE))
        if state is not None:
            # Flags may have changed since: then what joined is still what leaves.
            folders = tuple(dict.fromkeys((*self._plugins, *map(Path, state.plugins))))
            if not all([await self._leave(container_id, one, folders) for one in reversed(state.attachments)]):
                return
        try:
            await self._outside.run(lambda: unpin(place / NAMESPACE))
            shutil.rmtree(place)
        except OSError as error:
            log.error("cannot remove the network namespace of container %s: %s", container_id, error)

    def close(self) -> None:
        """Let go of the namespaces, which stay."""
        for joined in self._joined.values():
            if joined.namespace is not None:
                os.close(joined.namespace)
        self._joined.clear()
        self._outside.close()

    # --- configurations -----------------------------------------------------------------------------------------

    def _find(self, name: str) -> Network:
        """Return a network by its name: files may come and go while the agent runs. Raises BadInput."""
        unknown = f"Unknown CNI network '{name}'"
        if self._configs is None:
            raise BadInput(
                f"{unknown}: this agent joins none. It needs network/cni in --isolation, --network_cni_config_dir, and "
                f"--network_cni_plugins_dir with the plugins ({PACKAGE})"
            )
        found, problems = self.configured()
        if name in found:
            return found[name]
        there = f"there are {', '.join(sorted(found))}" if found else f"there is none in {self._configs}"
        raise BadInput(f"{unknown}: {problems.get(name) or there}")

    def configured(self) -> tuple[dict[str, Network], dict[str, str]]:
        """Return the networks that can be joined now, and what is wrong with others, by name or else by file."""
        found: dict[str, Network] = {}
        problems: dict[str, str] = {}
        try:
            files = sorted(path for path in (self._configs or self._folder).iterdir() if path.is_file())
        except OSError as error:
            return {}, {str(self._configs): str(error)}
        for path in files:
            try:
                network = cni.read_network(path.read_bytes(), lambda plugin: self._program(plugin) is not None)
            except (BadInput, OSError) as error:
                problems[path.name] = f"{path}: {error}"
                continue
            missing = [program for program in network.programs() if self._program(program) is None]
            if missing:
                where = os.pathsep.join(map(str, self._plugins))
                problems[network.name] = f"{path} needs {', '.join(missing)}, not to be found in {where} ({PACKAGE})"
            elif network.name in found:
                problems[path.name] = f"{path}: another file describes the network {network.name} already"
            else:
                found[network.name] = network
        return found, problems

    def _program(self, plugin: str) -> Path | None:
        return _program(plugin, self._plugins)

    # --- plugins ------------------------------------------------------------------------------------------------

    async def _join(self, container_id: ContainerId, state: State) -> Joined:
        place = self._folder / container_id
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            raise ContainerError(f"the networks of an earlier container {container_id} were never left") from None
        save(place, state)
        namespace = None
        try:
            if state.attachments:
                made = namespace = make_namespace()
                await self._outside.run(lambda: pin(made, place / NAMESPACE))
            for attachment in state.attachments:
                attachment.result = await self._add(container_id, attachment)
                save(place, state)
            write_files(place, state, self._default_dns)
        except BaseException as error:
            if namespace is not None:
                os.close(namespace)
            if isinstance(error, OSError):
                raise ContainerError(f"cannot make the network of container {container_id}: {error}") from error
            raise
        self._joined[container_id] = joined = as_joined(place, state, namespace)
        return joined

    async def _add(self, container_id: ContainerId, attachment: Attachment) -> Document:
        network, result = attachment.network(), None
        for index, plugin in enumerate(network.plugins):
            what = f"The CNI plugin '{plugin['type']}' failed to attach container {container_id}"
            what = f"{what} to CNI network '{network.name}'"
            output = await self._call(ADD, container_id, attachment, index, self._plugins, result, what)
            try:
                answer = json.loads(output)
                cni.read_answer(answer)
            except (ValueError, ProtocolError) as error:
                raise ContainerError(
                    f"Failed to parse the output of the CNI plugin '{plugin['type']}': {error}"
                ) from None
            result = answer
        return result or {}

    async def _leave(self, container_id: ContainerId, attachment: Attachment, folders: Sequence[Path]) -> bool:
        """Undo what ADD did, or may have done in part. Returns whether nothing is left."""
        well = True
        for index in reversed(range(len(attachment.plugins))):
            kind = attachment.plugins[index]["type"]
            what = f"The CNI plugin '{kind}' failed to detach container {container_id}"
            what = f"{what} from CNI network '{attachment.name}'"
            try:
                await self._call(DEL, container_id, attachment, index, folders, attachment.result, what)
            except (MesosGpuError, OSError) as error:
                log.error("%s", error)
                well = False
        return well

    async def _call(
        self,
        command: str,
        container_id: ContainerId,
        attachment: Attachment,
        index: int,
        folders: Sequence[Path],
        before: Mapping[str, Any] | None,
        what: str,
    ) -> str:
        """Run one plugin; return what it says. Raises ContainerError, beginning with `what`."""
        kind = str(attachment.plugins[index]["type"])
        program, place = _program(kind, folders), self._folder / container_id
        paths = os.pathsep.join(map(str, folders))
        if program is None:
            raise ContainerError(f"{what}: {kind} is not in {paths} ({PACKAGE})")
        environment = cni.plugin_environment(command, container_id, str(place / NAMESPACE), attachment.interface, paths)
        # Plugins look for iptables.
        programs = dict.fromkeys((*os.environ.get("PATH", os.defpath).split(os.pathsep), *MORE_FOLDERS))
        environment["PATH"] = os.pathsep.join(programs)
        document = cni.plugin_input(attachment.network(), index, attachment.info, before, command)

        try:
            done = await self._outside.run(partial(run_plugin, program, document, environment, self._lock))
        except subprocess.TimeoutExpired:
            raise ContainerError(f"{what}: it took longer than {PLUGIN_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise ContainerError(f"{what}: {error}") from error
        if done.returncode != 0:
            words = cni.error_words(done.stdout) or f"stdout='{done.stdout}', stderr='{done.stderr}'"
            raise ContainerError(f"{what}: {words}")
        return done.stdout


def _program(plugin: str, folders: Sequence[Path]) -> Path | None:
    """Return a plugin's program: only what the operator put into these folders is ever run."""
    candidates = (folder / plugin for folder in folders)
    return next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)
