"""One look at a task, as its check asks for: a command in its container, an HTTP request, a TCP connection.

Source: Mesos src/checks/checker_process.cpp, which has curl ask (-L: redirects are followed; -k: any certificate will
do) and gives the output of commands to the sandbox's stderr.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Protocol

import aiohttp

from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.network.netns import socket_in
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.mesos.checks import Probe, Result
from mesos_gpu.mesos.ids import ContainerId

MAX_REDIRECTS = 50


class Executes(Protocol):
    """Runs one more command in a container; the containerizer does."""

    async def execute(self, container_id: ContainerId, execution: Execution) -> int:
        """Return the exit status. Raises NotFound when the container does not run, ContainerError."""

    def network_namespace(self, container_id: ContainerId) -> int | None:
        """Return a descriptor of its network namespace, None when that is the host's."""


async def look(probe: Probe, containers: Executes, container_id: ContainerId, sandbox: Path) -> Result | None:
    """Carry out a probe of a container's task; None when the container is gone."""
    if probe.kind == "HTTP":
        return await ask(probe, containers.network_namespace(container_id))
    if probe.kind == "TCP":
        return await connect(probe, containers.network_namespace(container_id))
    return await run(probe, containers, container_id, sandbox)


async def ask(probe: Probe, namespace: int | None = None) -> Result:
    """Return the status code that the URL answers with, in this network namespace or else the agent's."""
    if namespace is None:
        return await _ask(probe, None)
    held = os.dup(namespace)  # the container may end meanwhile, and the number be another's
    try:
        return await _ask(probe, lambda address: _socket(held, address[0]))
    finally:
        os.close(held)


async def _ask(probe: Probe, make_socket: aiohttp.SocketFactoryType | None) -> Result:
    timeout = aiohttp.ClientTimeout(total=probe.timeout_s)
    try:
        connector = aiohttp.TCPConnector(ssl=False, force_close=True, socket_factory=make_socket)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get(probe.url, max_redirects=MAX_REDIRECTS) as response,
        ):
            return Result(status_code=response.status)
    except asyncio.TimeoutError:
        return Result(error=_late(probe, probe.url))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Result(error=f"{probe.url} cannot be asked: {error}")


async def connect(probe: Probe, namespace: int | None = None) -> Result:
    """Return whether somebody listens on the port, in this network namespace or else the agent's."""
    loop, where = asyncio.get_running_loop(), (probe.address, probe.port)
    try:
        with _socket(namespace, socket.AF_INET6 if ":" in probe.address else socket.AF_INET) as own:
            await asyncio.wait_for(loop.sock_connect(own, where), probe.timeout_s)
    except asyncio.TimeoutError:
        return Result(error=_late(probe, f"port {probe.port}"))
    except OSError:
        return Result(connected=False)
    return Result(connected=True)


def _socket(namespace: int | None, family: int) -> socket.socket:
    kind = socket.SOCK_STREAM
    made = socket.socket(family, kind) if namespace is None else socket_in(namespace, family, kind)
    made.setblocking(False)
    return made


async def run(probe: Probe, containers: Executes, container_id: ContainerId, sandbox: Path) -> Result | None:
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
