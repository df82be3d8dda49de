"""The program mesos-gpu-marathon."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.marathon import configuration
from mesos_gpu.marathon.api import make_api

# Here, in the main thread: pymesos wants to set a signal handler when it is imported.
from mesos_gpu.marathon.driver import PymesosLink
from mesos_gpu.marathon.scheduler import Scheduler
from mesos_gpu.marathon.store_sqlite import SqliteStore
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.program import EXIT_OK, EXIT_USAGE, read_flags, run_program, write_ready_file

NAME = "mesos-gpu-marathon"
BUILD = "mesos-gpu"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, and return the exit status: 0, or 1 when going on is not possible."""
    flags = read_flags(NAME, configuration.FLAGS, argv, configuration.PREFIX)
    try:
        configuration.checked(flags)
    except BadFlag as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return EXIT_USAGE
    return run_program(NAME, lambda stop: _serve(flags, stop))


async def _serve(flags: Mapping[str, Any], stop: asyncio.Event) -> int:
    """Serve the API at once and for as long as we run, whether or not there is a master."""
    hostname = flags["hostname"] or socket.gethostname()
    endpoint = Endpoint(flags["http_address"], flags["http_port"])
    user = flags["mesos_user"] or _own_name()
    link = PymesosLink(
        flags["master"],
        lambda: configuration.framework_info(flags, user=user, hostname=hostname, port=endpoint.port),
    )
    store = SqliteStore(configuration.store_path(flags, os.environ.get("XDG_STATE_HOME"), str(Path.home())))
    try:
        scheduler = Scheduler(store, link, configuration.settings(flags))
        app = make_api(
            scheduler,
            info=lambda: configuration.info(flags, hostname=hostname, port=endpoint.port, build=BUILD),
            leader=lambda: f"{hostname}:{endpoint.port}",
            credentials=flags["http_credentials"],
        )
        await endpoint.start(app)
        try:
            # An aborting pymesos driver raises SIGINT; that one is not meant for us.
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGINT, lambda: None if link.consume_interrupt() else stop.set()
            )
            write_ready_file(flags["ready_file"], {"url": f"http://{endpoint.ip}:{endpoint.port}"})
            await _until(stop, scheduler)
        finally:
            await endpoint.stop()
    finally:
        store.close()
    return EXIT_OK


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise Unavailable(f"user {os.geteuid()} has no name for tasks to run as; set --mesos_user") from None


async def _until(stop: asyncio.Event, scheduler: Scheduler) -> None:
    """Run the scheduler until `stop` is set. Raises what ends it before."""
    work = asyncio.ensure_future(scheduler.run())
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not work.done():
            work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


if __name__ == "__main__":
    sys.exit(main())
