"""An agent's parts, put together as its configuration says, and taken apart again at its end."""

from __future__ import annotations

import base64
import dataclasses
import logging
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.agent.api.operator_api import OperatorApi
from mesos_gpu.agent.configuration import Configuration, DeviceSettings
from mesos_gpu.agent.decisions.operations import fitting
from mesos_gpu.agent.decisions.registration import Registration
from mesos_gpu.agent.decisions.resuming import SpokenFor, spoken_for
from mesos_gpu.agent.decisions.state import AgentState, FreshIds
from mesos_gpu.agent.devices.cdi import CdiFiles
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.disk.recovery import Recovered, recover
from mesos_gpu.agent.disk.volumes import check_owners
from mesos_gpu.agent.fetch.fetch_cache import FetchCache
from mesos_gpu.agent.fetch.fetcher import Fetcher
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.cdi_file import write_cdi_file
from mesos_gpu.agent.gpus.lending_desk import LendingDesk
from mesos_gpu.agent.gpus.memory_watcher import MemoryWatcher
from mesos_gpu.agent.gpus.share_rules import ShareRules
from mesos_gpu.agent.gpus.share_tree_mount import ShareTree, check_fuse
from mesos_gpu.agent.gpus.sharing_parts import check_free, keep_memory, memory_reader
from mesos_gpu.agent.gpus.simulated_cards import open_cards, play
from mesos_gpu.agent.gpus.suspending_parts import open_care, open_suspender
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.gpus.whole_and_parts import WholeAndParts
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.loop.shared_gpus import SharedGpus
from mesos_gpu.agent.loop.suspending import Suspending
from mesos_gpu.agent.machine import measure
from mesos_gpu.agent.machine_gpus import MachineGpus, attributes_of, open_desk, open_gpus, open_isolator, open_mig
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.resources import agent_resources, changes
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.running.containers import Devices
from mesos_gpu.agent.running.default_executor import default_executor
from mesos_gpu.agent.running.images import AgentImages, open_images
from mesos_gpu.agent.running.networks import open_networks
from mesos_gpu.agent.running.shared_containers import SharedContainers
from mesos_gpu.agent.views.pods import pods_shown
from mesos_gpu.base.file_locks import locked
from mesos_gpu.base.linux.cgroups import container_of_process
from mesos_gpu.base.linux.processes import read_boot_id
from mesos_gpu.container import Containerizer, enter_private_mounts, open_containerizer
from mesos_gpu.container.life.id_claims import claimed
from mesos_gpu.container.spec.requirements import DriverFacts
from mesos_gpu.errors import BadResources, Conflict, Unavailable
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.kubelet import require_grpc
from mesos_gpu.mesos.conversions import with_kept
from mesos_gpu.mesos.ids import AgentId, ContainerId
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import offered
from mesos_gpu.process.browsers import protect
from mesos_gpu.process.detector import Detector, open_detector
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.secure.tls import Tls, for_children

log = logging.getLogger(__name__)


class OpenAgent(Struct, frozen=True):
    """An agent whose port answers; it takes up what the last process left when it is begun."""

    agent: Agent
    endpoint: Endpoint
    detector: Detector
    checkpoints: AgentCheckpoints
    found: Recovered
    gpus: MachineGpus

    async def begin(self, configuration: Configuration) -> None:
        """Take up what the last process left, then look for the master. Raises Conflict, Unavailable."""
        agent = self.agent
        agent.locate(configuration.address.reached_at)
        compatible = _compatible(self.found, agent.info, configuration.resources.policy)
        await agent.recover(_with_reservations(compatible, agent.info))
        self.checkpoints.save_boot_id(read_boot_id())
        await self.checkpoints.syncing.synced()()  # what the last process wrote and did not sync, and this one goes by
        if agent.mig is not None:
            await agent.mig.begin(configuration.gpus.mig_profiles, agent.account, again=self.found.agent is not None)
        await agent.watch_gpus()
        if configuration.gpus.cdi_spec_dir is not None and agent.desk is not None:
            write_cdi_file(configuration.gpus.cdi_spec_dir, agent.desk, self.endpoint.url)
        agent.membership.doubt = self.detector.doubt
        await self.detector.start(agent.follow)


@asynccontextmanager
async def open_agent(configuration: Configuration, tls: Tls | None) -> AsyncIterator[OpenAgent]:
    """Yield an agent of this machine, alone in its work_dir; it is closed at the end, and its tasks run on.

    Raises MesosGpuError when it cannot work.
    """
    master = configuration.master
    detector = open_detector("master", master.where, session_timeout_s=master.session_timeout_s, tls=tls)
    enter_private_mounts()
    checkpoints = AgentCheckpoints(configuration.work_dir)
    checkpoints.open()
    async with AsyncExitStack() as closing:
        _be_alone(configuration, closing)
        found = recover(checkpoints, read_boot_id())
        gpus = open_gpus(configuration, found.agent)
        info = _info(configuration, gpus)
        plays = open_cards(gpus.driver, gpus.cards, configuration.runtime_dir, configuration.tasks.cgroups_root)
        whole, isolator = _open_isolators(configuration, gpus, closing, rebooted=found.rebooted)
        images = open_images(configuration.images)
        containers = await _open_containers(configuration, gpus.driver, isolator, images)
        whose = partial(container_of_process, root=configuration.tasks.cgroups_root)
        care = open_care(configuration.gpus.retest_interval_s, gpus.driver, whole, isolator, checkpoints.meta, whose)
        endpoint = _endpoint(configuration, tls)
        desk = open_desk(configuration, whole, checkpoints)
        devices = configuration.devices
        identity = dataclasses.replace(
            _identity(configuration, endpoint),
            shared_cards={card.index: card for card in gpus.cards},
            share_require=configuration.gpus.sharing.require,
            gpus_from=devices.gpus_from,
            cdi_kinds=devices.cdi_kinds,
        )
        sharing, runtime_dir = configuration.gpus.sharing, configuration.runtime_dir
        keep_memory(isolator, whole, gpus.shared, sharing, runtime_dir, containers.freeze_file)
        turns = _open_turns(configuration, isolator, gpus, containers)
        await play(plays, isolator, whole, closing)
        await turns.start()
        shared = SharedContainers(containers, turns, CdiFiles(configuration.devices.cdi_folders).plan)
        agent = _agent(configuration, info, identity, endpoint, checkpoints, shared, care, desk)
        agent.shared_gpus = _open_shared(configuration, isolator, gpus, turns)
        if configuration.gpus.isolated:
            agent.suspending = _open_suspending(configuration, gpus, whole, isolator, turns, containers, agent)
            agent.mig = open_mig(configuration, gpus, whole, agent)
        shown = dict(configuration.shown)
        api = OperatorApi(
            agent,
            shown,
            images,
            json_suffixes=configuration.json_suffixes,
            access=configuration.access,
            log_file=configuration.log_file,
        )
        app = api.make_app()
        protect(app, configuration.address.names)
        await endpoint.start(app, configuration.address.domain_socket)
        shown["port"] = str(endpoint.port)
        if images is not None:
            closing.push_async_callback(images.close)
        closing.push_async_callback(endpoint.stop)
        closing.push_async_callback(agent.close)
        closing.push_async_callback(detector.close)
        await _open_pods(configuration.pod_resources, agent, closing)
        yield OpenAgent(agent, endpoint, detector, checkpoints, found, gpus)


def _open_isolators(
    configuration: Configuration, gpus: MachineGpus, closing: AsyncExitStack, *, rebooted: bool
) -> tuple[NvidiaGpuIsolator, SharingIsolator]:
    """Return the isolators of whole and of shared GPUs, which are closed with the agent. Raises MesosGpuError."""
    held = Checkpoints(configuration.runtime_dir / "gpus", read_boot_id())
    closing.callback(held.close)
    if not rebooted:
        check_free(held, gpus.shared)
    whole = open_isolator(configuration, gpus, held)
    closing.callback(whole.close)
    shares = ShareRecords(configuration.runtime_dir / "shares")
    isolator = SharingIsolator(whole, gpus.shared, gpus.cards, shares)
    closing.callback(isolator.close)
    return whole, isolator


def _open_suspending(
    configuration: Configuration,
    gpus: MachineGpus,
    whole: NvidiaGpuIsolator,
    isolator: SharingIsolator,
    turns: Turns,
    containers: Containerizer,
    agent: Agent,
) -> Suspending | None:
    """Return who suspends tasks; None without GPUs."""
    holdings = WholeAndParts(containers, whole, isolator, turns)
    suspender = open_suspender(configuration.runtime_dir, configuration.tasks.cgroups_root, gpus.driver, holdings)
    if suspender is None:
        return None
    frameworks = agent.state.frameworks

    def others_have() -> SpokenFor:
        whole.tell(agent.account())
        owners: list[Task | Executor] = [*frameworks.tasks(), *frameworks.executors()]
        promised = whole.ledger.promised
        return spoken_for(owners, agent.holdings.kept, promised=promised, sharers=holdings.sharers)

    holdings.spoken_for = others_have
    return Suspending(suspender, frameworks.tasks, agent.post)


def _agent(
    configuration: Configuration,
    info: Document,
    identity: Identity,
    endpoint: Endpoint,
    checkpoints: AgentCheckpoints,
    containers: SharedContainers,
    care: AgentGpus,
    desk: LendingDesk,
) -> Agent:
    master, gpus = configuration.master, configuration.gpus
    ids = FreshIds(lambda: _base64(uuid.uuid4()), lambda: ContainerId(str(uuid.uuid4())))
    return Agent(
        info,
        AgentState(identity, _base64(uuid.uuid4()), ids, configuration.tasks.executors),
        endpoint=endpoint,
        containers=containers,
        checkpoints=checkpoints,
        registration=Registration(master.registration_backoff_s),
        gpus=care if gpus.isolated else None,
        desk=desk if gpus.isolated else None,
        devices=_open_devices(configuration.devices, checkpoints),
        kill_for_gpus=gpus.kill_for_ill,
        fetcher=_open_fetcher(configuration),
        credential=master.credential,
        patience=master.patience,
        collector=Collector(configuration.work_dir, configuration.gc),
    )


def _identity(configuration: Configuration, endpoint: Endpoint) -> Identity:
    """Return who the agent is, without the id and the pid that it is given later."""
    tasks, access = configuration.tasks, configuration.access
    domain_socket = configuration.address.domain_socket
    return Identity(
        AgentId(""),
        "",
        endpoint.ip,
        0,
        str(configuration.work_dir),
        sandbox_directory=tasks.sandbox_directory,
        default_executor=default_executor(remapped=configuration.tasks.users is not None),
        switch_user=tasks.switch_user,
        cfs_quota=tasks.cfs_quota,
        executor_environment=tasks.executor_environment,
        tls_environment=for_children(os.environ),
        acls=access.acls,
        executor_key=access.executor_key,
        domain_socket="" if domain_socket is None else str(domain_socket),
        domain_socket_for_all=tasks.domain_socket_for_all,
        logger=tasks.logger,
        exits=tasks.exits,
    )


def _info(configuration: Configuration, gpus: MachineGpus) -> Document:
    """Return the AgentInfo without id and port."""
    resources, address = configuration.resources, configuration.address
    isolated = configuration.gpus.isolated
    count = len(gpus.gpus) if isolated else None
    shared = offered(gpus.cards)
    machine = measure(configuration.work_dir)
    total = agent_resources(resources.resources, resources.default_role, machine, count, shared)
    attributes = attributes_of(configuration, gpus, gpus.gpus)
    return {"hostname": address.hostname or address.reached_at, "resources": total.to_json(), "attributes": attributes}


def _endpoint(configuration: Configuration, tls: Tls | None) -> Endpoint:
    address = configuration.address
    return Endpoint(
        address.ip,
        address.port,
        advertise_ip=address.advertise_ip,
        advertise_port=address.advertise_port,
        tls=tls,
        same_user_peers=address.same_user_peers,
    )


# --- GPUs and containers ----------------------------------------------------------------------------------------------


def _open_turns(
    configuration: Configuration, isolator: SharingIsolator, gpus: MachineGpus, containers: Containerizer
) -> Turns:
    rules = ShareRules(configuration.runtime_dir / "turns" / "rules.json", configuration.gpus.sharing)
    turns = Turns(
        isolator,
        rules,
        configuration.runtime_dir / "turns",
        simulated=gpus.driver.kind == "simulated",
        freeze_file=containers.freeze_file,
    )
    isolator.sockets = turns.sockets()
    return turns


def _open_shared(
    configuration: Configuration, isolator: SharingIsolator, gpus: MachineGpus, turns: Turns
) -> SharedGpus:
    """Return who looks after shared GPUs. Raises BadFlag for a tree of files where there is no FUSE."""
    sharing = configuration.gpus.sharing
    if sharing.tree is not None:
        check_fuse()
    reader = memory_reader(gpus.driver, gpus.shared, configuration.tasks.cgroups_root, turns.sockets())
    tree = None if sharing.tree is None else ShareTree(sharing.tree, turns)
    return SharedGpus(turns, MemoryWatcher(isolator, reader, sharing.memory_grace_s), tree)


def _open_devices(settings: DeviceSettings, checkpoints: AgentCheckpoints) -> Devices | None:
    """Return the host of device plugins. Raises Unavailable when gRPC is not installed."""
    if settings.folder is None:
        return None
    # gRPC takes a tenth of a second to import, and few agents need it.
    require_grpc()
    from mesos_gpu.agent.devices.host import DeviceHost
    from mesos_gpu.agent.devices.records import DeviceRecords

    records = DeviceRecords(checkpoints.meta / "devices.json")
    return DeviceHost(settings.folder, records, grace_s=settings.grace_s, cdi=CdiFiles(settings.cdi_folders))


async def _open_pods(path: Path | None, agent: Agent, closing: AsyncExitStack) -> None:
    """Tell at a socket which task has which devices. Raises Unavailable when that cannot be opened."""
    if path is None:
        return
    require_grpc()
    from mesos_gpu.agent.devices.pod_resources import PodResources

    pods = PodResources(path, lambda: pods_shown(agent.state.frameworks, agent.held()), agent.there)
    try:
        await pods.start()
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"cannot open {path} (--pod_resources_socket): {error}") from None
    closing.push_async_callback(pods.close)


async def _open_containers(
    configuration: Configuration, driver: GpuDriver, isolator: SharingIsolator, images: AgentImages | None
) -> Containerizer:
    tasks = configuration.tasks
    return await open_containerizer(
        runtime_dir=configuration.runtime_dir,
        isolator=isolator,
        cgroups_root=tasks.cgroups_root,
        cfs_quota=tasks.cfs_quota,
        images=images,
        driver=DriverFacts(driver.version, driver.cuda_version),
        disk=tasks.disk,
        networks=open_networks(configuration.networks),
        private=(configuration.work_dir,),
        hardening=tasks.hardening,
        profiles=tasks.profiles,
        users=tasks.users,
    )


def _open_fetcher(configuration: Configuration) -> Fetcher:
    fetch = configuration.fetch
    fetcher = Fetcher(FetchCache(fetch.folder, fetch.cache_bytes), fetch.fetcher)
    fetcher.open()
    return fetcher


# --- what the last process left ---------------------------------------------------------------------------------------


def _compatible(found: Recovered, info: Document, policy: str) -> Recovered:
    """Return what was found when this agent can go on as that one; after a reboot it may begin again instead."""
    if found.agent is None:
        return found
    differences = changes(found.agent, info, policy)
    if not differences:
        return found
    if found.rebooted:
        log.warning(
            "the machine was restarted and the agent changed, so it registers again: %s", "; ".join(differences)
        )
        return Recovered(resources=found.resources)
    raise Conflict(
        f"the agent that ran here was another (--reconfiguration_policy={policy}): {'; '.join(differences)}. "
        "Start it as it was, or remove meta/slaves/latest in its --work_dir to begin again without its tasks"
    )


def _with_reservations(found: Recovered, info: Document) -> Recovered:
    """Return what was found, with reservations that fit what the agent has. Raises Conflict where they cannot."""
    kept = Resources(map(Resource.from_json, found.resources))
    # Devices of plugins are not there yet; what is reserved of them stays whatever becomes of them.
    total = Resources.from_json(info["resources"]) + kept.base().filter(lambda resource: is_units(resource.name))
    fits = fitting(kept, total)
    if fits != kept:
        log.warning("GPUs that were reserved have vanished: %s is now %s", kept, fits)
    try:
        with_kept(total, fits)
    except BadResources as error:
        raise Conflict(
            f"what was reserved on this agent is not part of its --resources: {error}. Start it with what it had, or, "
            "to give up reservations and persistent volumes, remove meta/resources in its --work_dir"
        ) from None
    return replace(found, resources=tuple(fits.to_json(refined=True)))


def _be_alone(configuration: Configuration, closing: AsyncExitStack) -> None:
    """Have the work_dir, and the numbers of containers' users, until the agent is closed. Raises Conflict."""
    closing.callback(os.close, _lock(configuration.work_dir))
    users = configuration.tasks.users
    if users is not None:
        closing.enter_context(claimed(users.whole, configuration.runtime_dir))
    check_owners(configuration.work_dir, None if users is None else users.disk)


def _lock(work_dir: Path) -> int:
    """Return a descriptor that holds the work_dir for this process. Raises Conflict when another has it.

    A program that an agent is starting when it is killed has the descriptor until it is executed: that is waited for.
    """
    descriptor = locked(work_dir / "meta" / ".lock")
    if descriptor is None:
        raise Conflict(f"another agent is running with --work_dir={work_dir}")
    return descriptor


def _base64(value: uuid.UUID) -> str:
    return base64.b64encode(value.bytes).decode("ascii")
