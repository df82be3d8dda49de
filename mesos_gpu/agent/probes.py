"""One look at a task, as its check asks for: a command in its container, an HTTP request, a TCP connection.

Source: Mesos src/checks/checker_process.cpp, which has curl ask (-L: redirects are followed; -k: any certificate will
do) and gives the output of commands to the sandbox's stderr.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import aiohttp

from mesos_gpu.agent.variables import read_variables
from mesos_gpu.container.execution import Execution
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.mesos.checks import Probe, Result

MAX_REDIRECTS = 50


class Executes(Protocol):
    """Runs one more command in a container; the containerizer does."""

    async def execute(self, container_id: str, execution: Execution) -> int:
        """Return the exit status. Raises NotFound when the container does not run, ContainerError."""


async def look(probe: Probe, containers: Executes, container_id: str, sandbox: Path) -> Result | None:
    """Carry out a probe of a container's task; None when the container is gone."""
    if probe.kind == "HTTP":
        return await ask(probe)
    if probe.kind == "TCP":
        return await connect(probe)
    return await run(probe, containers, container_id, sandbox)


async def ask(probe: Probe) -> Result:
    """Return the status code that the URL answers with."""
    timeout = aiohttp.ClientTimeout(total=probe.timeout_s)
    try:
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get(probe.url, max_redirects=MAX_REDIRECTS) as response,
        ):
            return Result(status_code=response.status)
    except asyncio.TimeoutError:
        return Result(error=_late(probe, probe.url))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Result(error=f"{probe.url} cannot be asked: {error}")


async def connect(probe: Probe) -> Result:
    """Return whether somebody listens on the port."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(probe.address, probe.port), probe.timeout_s)
    except asyncio.TimeoutError:
        return Result(error=_late(probe, f"port {probe.port}"))
    except OSError:
        return Result(connected=False)
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass
    return Result(connected=True)


async def run(probe: Probe, containers: Executes, container_id: str, sandbox: Path) -> Result | None:
    """Return the exit status of the command in the container."""
    execution = Execution(
        argv=_argv(probe),
        output=sandbox / "stderr",
        environment=read_variables(probe.command or {}),
        timeout_s=probe.timeout_s,
    )
    try:
        return Result(exit_code=await containers.execute(container_id, execution))
    except NotFound:
        return None
    except MesosGpuError as error:
        return Result(error=str(error))


def _argv(probe: Probe) -> tuple[str, ...]:
    command = probe.command or {}
    value = str(command.get("value", ""))
    if command.get("shell", True):
        return "/bin/sh", "-c", value
    return value, *(str(argument) for argument in command.get("arguments", [])[1:])


def _late(probe: Probe, what: str) -> str:
    return f"{what} did not answer within {probe.timeout_s:g} s"
