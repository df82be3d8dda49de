"""The GPUs of an agent's machine: which there are, who hands them out, lends and divides them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from msgspec import Struct

from mesos_gpu.agent.configuration import Configuration, GpuSettings
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.gpus.holders import Host
from mesos_gpu.agent.gpus.host_nodes import HostNodes
from mesos_gpu.agent.gpus.lease_records import LeaseRecords
from mesos_gpu.agent.gpus.lender import Lender
from mesos_gpu.agent.gpus.lending_desk import LendingDesk
from mesos_gpu.agent.gpus.sharing_parts import shared_cards
from mesos_gpu.agent.gpus.sharing_settings import shared_of
from mesos_gpu.agent.gpus.simulated_cards import control_of
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.mig.keeper import MigKeeper
from mesos_gpu.agent.model.gpu_attributes import with_gpus, with_shared_cards
from mesos_gpu.agent.model.resources import cards_before, gpus_asked, parse_attributes
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.gpu.topology import best, linked_sets
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.discovery import discover_gpus
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.shares.gpu_shares import SharedCard

log = logging.getLogger(__name__)


class MachineGpus(Struct, frozen=True):
    """The GPUs that the agent hands out whole, those that tasks share, and what drives them."""

    gpus: tuple[Gpu, ...]
    driver: GpuDriver
    shared: tuple[Gpu, ...] = ()
    cards: tuple[SharedCard, ...] = ()


def open_gpus(configuration: Configuration, before: Document | None) -> MachineGpus:
    """Return the GPUs of this machine; `before` is the AgentInfo of the last process. Raises BadFlag, DeviceError."""
    settings = configuration.gpus
    driver = open_driver(
        settings.driver,
        simulated_gpus=settings.simulated,
        simulated_machine=settings.simulated_machine,
        simulated_make=settings.simulated_make,
        simulated_cards=control_of(configuration.runtime_dir),
        mig_strategy=settings.mig_strategy,
        simulated_faults=settings.simulated_faults,
    )
    asked, found = gpus_asked(configuration.resources.resources), list(driver.gpus())
    cards = None if before is None else cards_before(before)
    shared = shared_of(settings.sharing, settings.devices, found, cards) if settings.isolated else ()
    taken = {gpu.uuid for gpu in shared}
    whole = _discover(settings, asked, [gpu for gpu in found if gpu.uuid not in taken], restarting=before is not None)
    offered_cards = shared_cards(shared, settings.sharing, driver, configuration.tasks.cgroups_root)
    return MachineGpus(whole, driver, shared, offered_cards)


def open_isolator(configuration: Configuration, gpus: MachineGpus, held: Checkpoints) -> NvidiaGpuIsolator:
    """Return who hands GPUs out; `held` is the record of who has which.

    The driver's files are there also where GPUs are yet to be divided.
    """
    runtime_dir = configuration.runtime_dir
    divided = configuration.gpus.isolated and configuration.gpus.mig_strategy != "none"
    there = gpus.gpus or gpus.shared or divided
    volume = NvidiaVolume.create(runtime_dir / "volumes", gpus.driver) if there else None
    choice = partial(best, topology=gpus.driver.topology())
    return NvidiaGpuIsolator(
        gpus.gpus, gpus.driver, volume, held, choice=choice, check_ledger=configuration.gpus.check_ledger
    )


def _discover(settings: GpuSettings, asked: int | None, found: list[Gpu], *, restarting: bool) -> tuple[Gpu, ...]:
    """Return the GPUs to hand out. One that vanished does not keep an agent from coming back to the others' tasks."""
    devices = settings.devices
    if restarting and settings.isolated and devices is not None and asked == len(devices):
        here = {name for gpu in found for name in (str(gpu.index), gpu.uuid)}
        for gone in [device for device in devices if device not in here]:
            log.warning("GPU %s has vanished since --nvidia_gpu_devices named it; continuing without it", gone)
        devices = tuple(device for device in devices if device in here)
        asked, devices = len(devices), devices or None
    return discover_gpus(gpus_asked=asked, devices=devices, isolating=settings.isolated, found=found)


def open_desk(configuration: Configuration, isolator: NvidiaGpuIsolator, checkpoints: AgentCheckpoints) -> LendingDesk:
    """Return the book of leases. It is on disk where it outlasts a reboot, as engines' containers do."""
    topology = isolator.driver.topology()
    choice = partial(best, topology=topology)
    records, folder = LeaseRecords(checkpoints.meta / "gpu_leases.json"), configuration.runtime_dir / "leases"
    lender = Lender(isolator, records, folder, Host(), choice=choice)
    details = {gpu.uuid: isolator.driver.details(gpu) for gpu in sorted(isolator.total)}
    return LendingDesk(lender, isolator, HostNodes(configuration.runtime_dir / "nodes"), topology, details)


def attributes_of(configuration: Configuration, gpus: MachineGpus, whole: Collection[Gpu]) -> list[Document]:
    """Return the agent's attributes, with what schedulers are told of its GPUs; `whole` are those given whole."""
    attributes = parse_attributes(configuration.resources.attributes)
    if configuration.gpus.isolated and configuration.gpus.attributes:
        linked = linked_sets(whole, gpus.driver.topology())
        attributes = with_gpus(attributes, sorted(whole) or gpus.shared, gpus.driver.version, linked)
    return with_shared_cards(attributes, gpus.cards)


def open_mig(
    configuration: Configuration, gpus: MachineGpus, isolator: NvidiaGpuIsolator, agent: Agent
) -> MigKeeper | None:
    """Return who divides GPUs; None where instances would be offered to nobody."""
    if agent.gpus is None or configuration.gpus.mig_strategy == "none":
        return None

    def name_of(container_id: ContainerId) -> str:
        owners = (task.key.task for task in agent.state.frameworks.tasks() if task.container_id == container_id)
        return next((f"task {task}" for task in owners), f"container {container_id}")

    keeper = MigKeeper(gpus.driver, isolator, agent.gpus, [gpu.uuid for gpu in gpus.shared], name_of)
    role = configuration.resources.default_role

    def changed() -> None:
        agent.count_gpus(len(isolator.total), role, attributes_of(configuration, gpus, isolator.total))

    keeper.on_change, keeper.revoke = changed, agent.containers.revoke_stale
    return keeper
