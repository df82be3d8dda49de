"""The program `mesos-gpu-agent`: reads its flags, opens an agent, and serves until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from mesos_gpu import stages
from mesos_gpu.agent.api.access import authenticates_all
from mesos_gpu.agent.configuration import read_configuration
from mesos_gpu.agent.flags import COMMAND_LINE, AgentFlags, settle_isolation
from mesos_gpu.agent.opening import OpenAgent, open_agent
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.dcos.switches import gpus_enabled
from mesos_gpu.mesos.flags import strangers
from mesos_gpu.process.program import EXIT_OK, read_flags, read_switches, run_program, write_ready_file
from mesos_gpu.process.secure.tls import open_tls

log = logging.getLogger(__name__)

GPU_ISOLATORS = ("gpu/nvidia", "cgroups/devices")
"""What `enable_gpu_isolation` of DC/OS adds to --isolation."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT (tasks run on), or SIGUSR1 (it says goodbye and kills them)."""
    flags, said = read_flags(COMMAND_LINE, argv)

    async def run_and_report(stop: asyncio.Event) -> int:
        settled, left_out = with_switches(flags)
        for line in [*said, *left_out, *strangers(os.environ, COMMAND_LINE.known())]:
            log.warning("%s", line)
        return await run(settled, stop)

    return run_program(COMMAND_LINE.program, run_and_report, max_log_bytes=flags.max_log_size)


def with_switches(flags: AgentFlags) -> tuple[AgentFlags, list[str]]:
    """Return the flags as the switches of DC/OS and its configuration file change them, with supported isolators only.

    Also returns what to report about isolators that were left out. Raises BadFlag.
    """
    isolation, driver = flags.isolation, flags.gpu_driver
    if not gpus_enabled(flags.enable_gpu_isolation, read_switches(flags.dcos_config)):
        isolation, driver = tuple(name for name in isolation if name not in GPU_ISOLATORS), "none"
    isolation, left_out = settle_isolation(isolation)
    return flags.replace(isolation=isolation, gpu_driver=driver), left_out


async def run(flags: AgentFlags, stop: asyncio.Event) -> int:
    """Run an agent with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    tls = open_tls(os.environ)
    if flags.http_executor_domain_sockets is None:
        required = tls is not None and tls.settings.require_client
        flags = flags.replace(http_executor_domain_sockets=required and authenticates_all(flags))
    configuration = read_configuration(flags)
    if flags.trace_launches:
        stages.trace()
    # From here on there may be something to undo, which the signal's own action would leave behind.
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, leave.set)
    async with open_agent(configuration, tls) as opened:
        opened.checkpoints.syncing.begin_threads()
        following = asyncio.ensure_future(configuration.access.live.follow())
        try:
            await opened.begin(configuration)
            await _serve(opened, stop, leave, configuration.ready_file)
        finally:
            following.cancel()
    agent = opened.agent
    if agent.refused:
        raise Unavailable(f"the master does not register this agent: {agent.stop_reason}")
    if agent.stop_reason is not None and agent.state.departure.stopping is None:
        raise Unavailable(agent.stop_reason)
    return EXIT_OK


async def _serve(opened: OpenAgent, stop: asyncio.Event, leave: asyncio.Event, ready_file: str | None) -> None:
    """Write the ready file once the master knows the agent; return when either end is asked for."""
    agent = opened.agent
    leaving = asyncio.ensure_future(_leave(opened, leave))
    registered = asyncio.ensure_future(agent.registered.wait())
    ends = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(agent.stopped.wait())]
    try:
        await asyncio.wait([registered, *ends], return_when=asyncio.FIRST_COMPLETED)
        if registered.done():
            gpus = opened.gpus
            ready = {"url": opened.endpoint.url, "gpus": len(gpus.gpus), "gpu_driver": gpus.driver.kind}
            write_ready_file(ready_file, {**ready, "id": agent.agent_id})
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in (registered, leaving, *ends):
            waiting.cancel()


async def _leave(opened: OpenAgent, asked: asyncio.Event) -> None:
    await asked.wait()
    opened.agent.leave()


if __name__ == "__main__":
    sys.exit(main())
