"""The program mesos-gpu-marathon."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pwd
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace

from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.marathon import configuration
from mesos_gpu.marathon.api.answers import refusal
from mesos_gpu.marathon.api.application import make_api
from mesos_gpu.marathon.api.mesos_door import MesosDoor
from mesos_gpu.marathon.engine.election import Candidacy, Election

# Here, in the main thread: pymesos wants to set a signal handler when it is imported.
from mesos_gpu.marathon.engine.pymesos_link import PymesosLink
from mesos_gpu.marathon.engine.sampler import Sampler
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.flags import COMMAND_LINE, MarathonFlags
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.marathon.store.store import Store
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.process.browsers import names_of, protect
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.program import EXIT_OK, EXIT_USAGE, read_flags, run_program, write_ready_file
from mesos_gpu.process.secure.tls import Tls, open_tls
from mesos_gpu.process.tunnel import Tunnel

log = logging.getLogger(__name__)

NAME = COMMAND_LINE.program
BUILD = "mesos-gpu"
GARBAGE = (5_000, 20, 10)
"""gc.set_threshold: all objects are looked at after a million more were made than freed, at the earliest."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, and return the exit status: 0, or 1 when going on is not possible."""
    flags, unused = read_flags(COMMAND_LINE, argv)
    try:
        configuration.checked(flags)
        secret = configuration.secret(flags)
        unused += configuration.unused(flags)
    except BadFlag as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_USAGE
    for sentence in unused:
        print(f"{NAME}: {sentence}", file=sys.stderr)
    return run_program(NAME, lambda stop: _serve(flags, secret, stop), max_log_bytes=flags.max_log_size)


def _set_logging(flags: MarathonFlags) -> None:
    if flags.logging_level is not None:
        logging.getLogger().setLevel(configuration.LOGGING_LEVELS[flags.logging_level.lower()])


async def _serve(flags: MarathonFlags, secret: str | None, stop: asyncio.Event) -> int:
    """Serve the API at once and for as long as we run, whether or not there is a master."""
    _set_logging(flags)
    https = configuration.https_settings(flags)
    endpoint = _open_endpoint(flags, https)
    hostname = flags.hostname or socket.gethostname()
    election = Election()
    tls = open_tls(os.environ)
    async with AsyncExitStack() as closing:
        tunnel = None
        if tls is not None:
            tunnel = Tunnel(tls)
            closing.push_async_callback(tunnel.close)
            closing.callback(asyncio.get_running_loop().create_task(tls.follow()).cancel)
        link = _open_link(flags, secret, hostname, endpoint, tunnel)
        candidacy = _open_candidacy(flags, election)
        if candidacy is not None:
            closing.push_async_callback(candidacy.close)
        store = _open_store(flags, candidacy)
        closing.callback(store.close)
        scheduler = Scheduler(
            store,
            link,
            replace(configuration.settings(flags), user=flags.mesos_user or _own_name()),
            load=False,
            metrics_prefix=flags.metrics_name_prefix,
        )
        ports: dict[str, int] = {}

        info = _info(flags, hostname, endpoint, ports, scheduler, tls=tls is not None)
        door = MesosDoor(_master_url(info), None if tls is None else tls.for_urls())
        closing.push_async_callback(door.close)
        sampler = _open_sampler(scheduler, door, flags, secret)
        app = make_api(
            scheduler,
            info=info,
            election=election,
            http=configuration.http_settings(flags),
            mesos_tls=None if tls is None else tls.for_urls(),
        )
        protect(app, names_of(hostname, flags.http_hosts), refusal)
        await endpoint.start(app)
        closing.push_async_callback(endpoint.stop)
        ready = {"url": f"{'https' if flags.disable_http else 'http'}://{endpoint.ip}:{endpoint.port}"}
        if https is not None:
            address, wanted = _https_address(flags)
            if flags.disable_http:
                ports["https"] = endpoint.port
            else:
                ports["https"] = await endpoint.also_listen(Tls(https), address, wanted)
            ready["https_url"] = f"https://{address}:{ports['https']}"
        election.address = f"{hostname}:{endpoint.port}"
        election.scheme = "https" if flags.disable_http else "http"
        if candidacy is not None:
            candidacy.enter(hostname, endpoint.port, ports.get("https"))
        else:
            election.stand_alone()
        # An aborting pymesos driver raises SIGINT; that one is not meant for us.
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, lambda: None if link.consume_interrupt() else stop.set()
        )
        return await _until(stop, election.over, _lead(scheduler, sampler, election, flags.ready_file, ready))


def _https_address(flags: MarathonFlags) -> tuple[str, int]:
    """Return where to listen with TLS."""
    port = configuration.HTTPS_PORT if flags.https_port is None else flags.https_port
    return flags.https_address or flags.http_address, port


def _open_endpoint(flags: MarathonFlags, https: TlsSettings | None) -> Endpoint:
    """Return the port that everything is served at: http, beside which there may be https, or https alone."""
    if https is None or not flags.disable_http:
        return Endpoint(flags.http_address, flags.http_port)
    return Endpoint(*_https_address(flags), tls=Tls(https))


def _info(
    flags: MarathonFlags,
    hostname: str,
    endpoint: Endpoint,
    ports: Mapping[str, int],
    scheduler: Scheduler,
    *,
    tls: bool,
) -> Callable[[], dict[str, Any]]:
    """Return what tells what /v2/info shows, as it is then."""
    return lambda: configuration.info(
        flags,
        hostname=hostname,
        port=endpoint.port,
        build=BUILD,
        https_port=ports.get("https"),
        tls=tls,
        master=scheduler.master,
    )


def _master_url(info: Callable[[], Mapping[str, Any]]) -> Callable[[], str | None]:
    return lambda: info()["marathon_config"].get("mesos_leader_ui_url")


def _open_sampler(scheduler: Scheduler, door: MesosDoor, flags: MarathonFlags, secret: str | None) -> Sampler:
    """Return who looks at what tasks use; to agents that ask who is there we are who we are to the master."""
    principal = flags.mesos_authentication_principal
    credentials = None if secret is None or principal is None else aiohttp.BasicAuth(principal, secret).encode()

    async def ask(agent_id: AgentId, path: str) -> Any:
        return await door.ask(await door.agent(agent_id, path, credentials), credentials, {"show_nested": "true"})

    async def slaves() -> Sequence[Any]:
        found: Sequence[Any] = (await door.ask(door.master("slaves"), credentials)).get("slaves") or []
        return found

    sampler = Sampler(scheduler, ask, slaves, interval_s=flags.usage_interval)
    scheduler.silent = lambda: sampler.silent
    return sampler


def _open_link(
    flags: MarathonFlags, secret: str | None, hostname: str, endpoint: Endpoint, tunnel: Tunnel | None
) -> PymesosLink:
    user = flags.mesos_user or _own_name()
    return PymesosLink(
        flags.master,
        lambda: configuration.framework_info(flags, user=user, hostname=hostname, port=endpoint.port),
        secret=secret,
        heartbeat_s=flags.mesos_heartbeat_interval,
        silent_heartbeats=flags.mesos_heartbeat_failure_threshold,
        through=str if tunnel is None else tunnel.through,
    )


def _open_candidacy(flags: MarathonFlags, election: Election) -> Candidacy | None:
    if flags.zk is None:
        return None
    url = parse_zk_url("zk", flags.zk)
    return Candidacy(election, url, session_timeout_s=flags.zk_session_timeout)


def _open_store(flags: MarathonFlags, candidacy: Candidacy | None) -> Store:
    """Return the store: in ZooKeeper where leaders are elected there, else in a file."""
    if candidacy is not None and flags.zk is not None:
        from mesos_gpu.marathon.store.zookeeper import ZooKeeperStore
        from mesos_gpu.process.zookeeper_tree import ZkTree

        path = parse_zk_url("zk", flags.zk).path
        tree = ZkTree(candidacy.session, path, patience_s=flags.zk_timeout)
        return ZooKeeperStore(tree, configuration.zk_limits(flags))
    file = configuration.store_path(flags, os.environ.get("XDG_STATE_HOME"), str(Path.home()))
    return SqliteStore(file, max_versions=flags.zk_max_versions)


async def _lead(
    scheduler: Scheduler, sampler: Sampler, election: Election, ready_file: str | None, ready: Mapping[str, str]
) -> None:
    """Stand by until we are elected, then run the scheduler over what the leader before us has left."""
    if election.elected.done():
        # Read first: who waits for the ready file can use the API at once.
        await asyncio.to_thread(scheduler.load)
        election.take()
        write_ready_file(ready_file, ready)
    else:
        write_ready_file(ready_file, ready)
        await election.elected
        await asyncio.to_thread(scheduler.load)
        election.take()
        log.info("leading at %s, with %d instances", election.address, len(scheduler.state.instances))
    _spare_collections()
    looking = asyncio.ensure_future(sampler.run()) if sampler.interval_s > 0 else None
    try:
        await scheduler.run()
    finally:
        if looking is not None:
            looking.cancel()


def _spare_collections() -> None:
    """Look for garbage in cycles as rarely as a program may that makes next to none.

    What Python does by itself is to look at all objects each time that a quarter more of them have become old: with
    20 000 instances that is 150 ms during which nobody is answered, two or three times a second while they start.
    """
    gc.freeze()  # what was read at the start stays
    gc.set_threshold(*GARBAGE)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise Unavailable(f"user {os.geteuid()} has no name for tasks to run as; set --mesos_user") from None


async def _until(stop: asyncio.Event, over: asyncio.Future[int], doing: Coroutine[Any, Any, None]) -> int:
    """Do something until `stop` is set, or `over` tells the exit status. Raises what ends it before."""
    work = asyncio.ensure_future(doing)
    waiting = asyncio.ensure_future(stop.wait())
    ends: list[asyncio.Future[Any]] = [work, waiting, over]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not work.done():
            work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        if not stop.is_set() and not over.done():
            raise
    return over.result() if over.done() else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
