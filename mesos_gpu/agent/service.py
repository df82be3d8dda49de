"""The program `mesos-gpu-agent`: puts the real parts together, runs until told to stop."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import logging
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mesos_gpu.agent.api.access import open_access
from mesos_gpu.agent.api.operator_api import OperatorApi
from mesos_gpu.agent.cluster.authentication import Patience
from mesos_gpu.agent.decisions.collecting import GcRules
from mesos_gpu.agent.decisions.operations import fitting
from mesos_gpu.agent.decisions.registration import Registration
from mesos_gpu.agent.decisions.state import AgentState, FreshIds
from mesos_gpu.agent.disk.checkpoints import Checkpoints
from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.disk.recovery import Recovered, read_boot_id, recover
from mesos_gpu.agent.fetch.fetch_cache import FetchCache
from mesos_gpu.agent.fetch.fetcher import Fetcher, FetcherSettings
from mesos_gpu.agent.flags import FLAGS, check_flags, flags_as_text, read_environment_flag
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.machine import measure
from mesos_gpu.agent.mesos_flags import foreign_flags, settle, settle_isolation
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.executors import ExecutorPatience
from mesos_gpu.agent.model.gpu_attributes import with_gpus
from mesos_gpu.agent.model.resources import agent_resources, changes, gpus_asked, parse_attributes
from mesos_gpu.agent.running.images import open_images
from mesos_gpu.agent.running.networks import domain_socket, open_networks
from mesos_gpu.container import enter_private_mounts, open_containerizer
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.spec.requirements import DriverFacts
from mesos_gpu.errors import BadResources, Conflict, Unavailable
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.gpu.topology import best
from mesos_gpu.isolator.checkpoints import Checkpoints as GpuCheckpoints
from mesos_gpu.isolator.discovery import discover_gpus
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.conversions import with_kept
from mesos_gpu.mesos.cram_md5 import read_credential
from mesos_gpu.mesos.foreign import strangers
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.process.browsers import names_of, protect
from mesos_gpu.process.detector import open_detector
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.program import EXIT_OK, READY_FILE, read_flags, read_secret, run_program, write_ready_file
from mesos_gpu.process.tls import for_children, open_tls

log = logging.getLogger(__name__)

NAME = "mesos-gpu-agent"
GPU_ISOLATOR = "gpu/nvidia"
OWN_FLAGS = frozenset(flag.name for flag in (*FLAGS, READY_FILE))
DEFAULT_EXECUTOR = (sys.executable, "-S", str(Path(__file__).absolute().parents[1] / "executor" / "__main__.py"))
"""The program that runs task groups, a neighbour of ours: by path, without the site-packages that it does not use."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT (tasks run on), or SIGUSR1 (it says goodbye and kills them)."""
    flags = read_flags(NAME, [*FLAGS, *foreign_flags(OWN_FLAGS)], argv)
    return run_program(NAME, lambda stop: run(_settled(flags), stop))


def _settled(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that we act on; the log says what of an existing unit file does nothing. Raises BadFlag."""
    mine, said = settle(flags, OWN_FLAGS)
    mine["isolation"], left_out = settle_isolation(mine["isolation"])
    for line in [*said, *left_out, *strangers(os.environ, flags)]:
        log.warning("%s", line)
    return mine


async def run(flags: Mapping[str, Any], stop: asyncio.Event) -> int:
    """Run an agent with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    check_flags(flags)
    credential = None
    if flags["credential"] is not None:
        credential = read_credential("credential", read_secret("credential", flags["credential"]))
    tls = open_tls(os.environ)
    access = open_access(flags)
    detector = open_detector("master", flags["master"], session_timeout_s=flags["zk_session_timeout"], tls=tls)
    work_dir = Path(flags["work_dir"]).absolute()
    runtime_dir = Path(flags["runtime_dir"] or work_dir / "run").absolute()
    enter_private_mounts()
    checkpoints = Checkpoints(work_dir)
    checkpoints.open()
    lock = _lock(work_dir)
    try:
        found = recover(checkpoints, read_boot_id())
        driver = _open_driver(flags)
        isolating = GPU_ISOLATOR in flags["isolation"]
        gpus = _discover(flags, driver, isolating, restarting=found.agent is not None)
        info = _info(flags, work_dir, len(gpus) if isolating else None)
        if isolating and flags["gpu_attributes"]:
            info["attributes"] = with_gpus(info["attributes"], gpus, driver.version)
        isolator = _isolator(runtime_dir, driver, gpus)
        images = open_images(flags, work_dir)
        containers = await open_containerizer(
            runtime_dir=runtime_dir,
            isolator=isolator,
            cgroups_root=flags["cgroups_root"],
            cfs_quota=flags["cgroups_enable_cfs"],
            images=images,
            driver=DriverFacts(driver.version, driver.cuda_version),
            disk=_disk_rules(flags),
            networks=open_networks(flags, work_dir, runtime_dir),
            private=(work_dir,),
        )
        fetcher = _open_fetcher(flags, work_dir)
        record = HealthRecord(checkpoints.meta / "gpu_health.json")
        care = AgentGpus(driver, isolator, record, retest_interval_s=flags["gpu_retest_interval"])
        socket_path = domain_socket(flags, runtime_dir)
        endpoint = Endpoint(
            flags["ip"],
            flags["port"],
            advertise_ip=flags["advertise_ip"],
            advertise_port=flags["advertise_port"],
            tls=tls,
        )
        agent = Agent(
            info,
            AgentState(
                Identity(
                    "",
                    "",
                    endpoint.ip,
                    0,
                    str(work_dir),
                    sandbox_directory=flags["sandbox_directory"],
                    default_executor=DEFAULT_EXECUTOR,
                    switch_user=flags["switch_user"],
                    cfs_quota=flags["cgroups_enable_cfs"],
                    executor_environment=read_environment_flag(flags["executor_environment_variables"]),
                    tls_environment=for_children(os.environ),
                    acls=access.acls,
                    executor_key=access.executor_key,
                    domain_socket="" if socket_path is None else str(socket_path),
                    domain_socket_for_all=flags["http_executor_domain_sockets"],
                ),
                _base64(uuid.uuid4()),
                FreshIds(lambda: _base64(uuid.uuid4()), lambda: str(uuid.uuid4())),
                _patience(flags),
            ),
            endpoint=endpoint,
            containers=containers,
            checkpoints=checkpoints,
            registration=Registration(flags["registration_backoff_factor"]),
            gpus=care if isolating else None,
            kill_for_gpus=flags["gpu_unhealthy_action"] == "kill",
            fetcher=fetcher,
            credential=credential,
            patience=Patience(
                flags["authentication_timeout_min"],
                flags["authentication_timeout_max"],
                flags["authentication_backoff_factor"],
            ),
            collector=Collector(work_dir, gc_rules(flags)),
        )
        shown = flags_as_text(flags)
        api = OperatorApi(agent, shown, images, json_suffixes=flags["json_suffixes"], access=access)
        app = api.make_app()
        protect(app, names_of(flags["hostname"], flags["http_hosts"]))
        await endpoint.start(app, socket_path)
        try:
            shown["port"] = str(endpoint.port)
            agent.locate(flags["advertise_ip"] or endpoint.ip)
            compatible = _compatible(found, agent.info, flags["reconfiguration_policy"])
            await agent.recover(_with_holdings(compatible, agent.info))
            checkpoints.save_boot_id(read_boot_id())
            await agent.watch_gpus()
            await detector.start(agent.follow)
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, agent.leave)
            ready = {
                "url": endpoint.url,
                "gpus": len(gpus),
                "gpu_driver": driver.kind,
            }
            await _serve(agent, stop, flags["ready_file"], ready)
        finally:
            await detector.close()
            await agent.close()
            await endpoint.stop()
            if images is not None:
                await images.close()
    finally:
        os.close(lock)
    if agent.stop_reason is not None and agent.state.departure.stopping is None:
        raise Unavailable(agent.stop_reason)
    return EXIT_OK


async def _serve(agent: Agent, stop: asyncio.Event, ready_file: str | None, ready: Mapping[str, object]) -> None:
    """Write the ready file once the master knows the agent; return when either end is asked for."""
    registered = asyncio.ensure_future(agent.registered.wait())
    ends = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(agent.stopped.wait())]
    try:
        await asyncio.wait([registered, *ends], return_when=asyncio.FIRST_COMPLETED)
        if registered.done():
            write_ready_file(ready_file, {**ready, "id": agent.agent_id})
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in (registered, *ends):
            waiting.cancel()


def _discover(flags: Mapping[str, Any], driver: GpuDriver, isolating: bool, *, restarting: bool) -> tuple[Gpu, ...]:
    """Return the GPUs to hand out. One that vanished does not keep an agent from coming back to the others' tasks."""
    found = list(driver.gpus())
    asked, devices = gpus_asked(flags["resources"]), flags["nvidia_gpu_devices"]
    if restarting and isolating and devices is not None and asked == len(devices):
        here = {name for gpu in found for name in (str(gpu.index), gpu.uuid)}
        for gone in [device for device in devices if device not in here]:
            log.warning("GPU %s has vanished since --nvidia_gpu_devices named it; going on without it", gone)
        devices = [device for device in devices if device in here]
        asked, devices = len(devices), devices or None
    return discover_gpus(gpus_asked=asked, devices=devices, isolating=isolating, found=found)


def _info(flags: Mapping[str, Any], work_dir: Path, gpus: int | None) -> Document:
    """Return the AgentInfo without id and port."""
    total = agent_resources(flags["resources"], flags["default_role"], measure(work_dir), gpus)
    return {
        "hostname": flags["hostname"] or flags["advertise_ip"] or flags["ip"],
        "resources": total.to_json(),
        "attributes": parse_attributes(flags["attributes"]),
    }


def _open_driver(flags: Mapping[str, Any]) -> GpuDriver:
    return open_driver(
        flags["gpu_driver"],
        simulated_gpus=flags["simulated_gpus"],
        simulated_machine=flags["simulated_gpu_machine"],
        mig_strategy=flags["mig_strategy"],
        simulated_faults=None if flags["simulated_gpu_faults"] is None else Path(flags["simulated_gpu_faults"]),
    )


def _patience(flags: Mapping[str, Any]) -> ExecutorPatience:
    return ExecutorPatience(
        registration_s=flags["executor_registration_timeout"],
        reregistration_s=flags["executor_reregistration_timeout"],
        shutdown_s=flags["executor_shutdown_grace_period"],
        recovery_s=flags["recovery_timeout"],
    )


def _disk_rules(flags: Mapping[str, Any]) -> DiskRules | None:
    if not {"disk/du", "posix/disk"} & set(flags["isolation"]):
        return None
    return DiskRules(flags["container_disk_watch_interval"], flags["enforce_container_disk_quota"])


def gc_rules(flags: Mapping[str, Any]) -> GcRules:
    """Return the rules of collection that flags say."""
    return GcRules(
        delay_s=flags["gc_delay"],
        headroom=flags["gc_disk_headroom"],
        watch_interval_s=flags["disk_watch_interval"],
        nested=flags["gc_non_executor_container_sandboxes"],
    )


def _open_fetcher(flags: Mapping[str, Any], work_dir: Path) -> Fetcher:
    folder = Path(flags["fetcher_cache_dir"] or work_dir / "fetch").absolute()
    cache = FetchCache(folder, flags["fetcher_cache_size"])
    fetcher = Fetcher(cache, FetcherSettings(flags["frameworks_home"], flags["fetcher_stall_timeout"]))
    fetcher.open()
    return fetcher


def _isolator(runtime_dir: Path, driver: GpuDriver, gpus: Sequence[Gpu]) -> NvidiaGpuIsolator:
    volume = NvidiaVolume.create(runtime_dir / "volumes", driver) if gpus else None
    choice = partial(best, topology=driver.topology())
    return NvidiaGpuIsolator(gpus, driver, volume, GpuCheckpoints(runtime_dir / "gpus"), choice=choice)


def _compatible(found: Recovered, info: Document, policy: str) -> Recovered:
    """Return what was found when this agent can go on as that one; after a reboot it may begin anew instead."""
    if found.agent is None:
        return found
    differences = changes(found.agent, info, policy)
    if not differences:
        return found
    if found.rebooted:
        log.warning("the machine was restarted and the agent changed, so it registers anew: %s", "; ".join(differences))
        return Recovered(resources=found.resources)
    raise Conflict(
        f"the agent that ran here was another (--reconfiguration_policy={policy}): {'; '.join(differences)}. "
        "Start it as it was, or remove meta/slaves/latest in its --work_dir to begin anew without its tasks"
    )


def _with_holdings(found: Recovered, info: Document) -> Recovered:
    """Return what was found, with reservations that fit what the agent has. Raises Conflict where they cannot."""
    flags, kept = Resources.from_json(info["resources"]), Resources(map(Resource.from_json, found.resources))
    fits = fitting(kept, flags)
    if fits != kept:
        log.warning("GPUs that were reserved have vanished: %s is now %s", kept, fits)
    try:
        with_kept(flags, fits)
    except BadResources as error:
        raise Conflict(
            f"what was reserved on this agent is not part of its --resources: {error}. Start it with what it had, or, "
            "to give up reservations and persistent volumes, remove meta/resources in its --work_dir"
        ) from None
    return replace(found, resources=tuple(fits.to_json(refined=True)))


def _lock(work_dir: Path) -> int:
    """Return a descriptor that holds the work_dir for this process. Raises Conflict when another has it."""
    descriptor = os.open(work_dir / "meta" / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Conflict(f"another agent is running with --work_dir={work_dir}") from None
    return descriptor


def _base64(value: uuid.UUID) -> str:
    return base64.b64encode(value.bytes).decode("ascii")


if __name__ == "__main__":
    sys.exit(main())
