"""One look at a task for its check: a command in its container, an HTTP request, a TCP connection. They block.

A task group shares its executor's network, so 127.0.0.1 is the tasks' own.
Source: Mesos src/checks/checker_process.cpp.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from mesos_gpu.errors import Unavailable
from mesos_gpu.executor.agent import Agent
from mesos_gpu.mesos.checks import Probe, Result

TIDY_S = 10.0
"""How long the agent may take to forget a container."""


def look(probe: Probe, agent: Agent, container_id: Mapping[str, Any], check_id: str) -> Result | None:
    """Carry out a probe of the task in a container; None when nothing can be said: container or agent are gone.

    A command runs in a container of class DEBUG named `check_id`, inside the task's.
    """
    if probe.kind == "HTTP":
        return ask(probe)
    if probe.kind == "TCP":
        return connect(probe)
    return run(probe, agent, {"value": check_id, "parent": container_id})


def ask(probe: Probe) -> Result:
    """Return the status code that the URL answers with; redirects are followed, and any certificate will do."""
    import ssl  # few executors need them, and they take as much memory as all the rest
    import urllib.error
    import urllib.request

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(probe.url, timeout=probe.timeout_s) as response:
            return Result(status_code=response.status)
    except urllib.error.HTTPError as error:
        with error:
            return Result(status_code=error.code)
    except (OSError, ValueError) as error:
        return Result(error=f"{probe.url} cannot be asked: {error}")


def connect(probe: Probe) -> Result:
    """Return whether somebody listens on the port."""
    try:
        socket.create_connection((probe.address, probe.port), timeout=probe.timeout_s).close()
    except TimeoutError:
        return Result(error=f"port {probe.port} did not answer within {probe.timeout_s:g} s")
    except OSError:
        return Result(connected=False)
    return Result(connected=True)


def tidy(agent: Agent, ran: deque[Mapping[str, Any]]) -> None:
    """Have the agent forget containers in which commands of checks ran, oldest first.

    It remembers each until the executor ends, else. One that is still ending stays in `ran`, for the next time.
    Source: Mesos src/checks/checker_process.cpp (nestedCommandCheck).
    """
    for _ in range(len(ran)):
        try:
            container_id = ran.popleft()
        except IndexError:
            return  # another check's thread is at it
        try:
            status, _body = agent.container_call("REMOVE_NESTED_CONTAINER", {"container_id": container_id}, TIDY_S)
        except (TimeoutError, Unavailable):
            ran.append(container_id)
            return
        if status >= 500:
            ran.append(container_id)


def run(probe: Probe, agent: Agent, check_id: Mapping[str, Any]) -> Result | None:
    """Return the exit status of the command in the task's container."""
    ends_s = None if probe.timeout_s is None else time.monotonic() + probe.timeout_s

    def left_s() -> float | None:
        return None if ends_s is None else max(0.01, ends_s - time.monotonic())

    try:
        session = {"container_id": check_id, "command": dict(probe.command or {})}
        status, body = agent.container_call("LAUNCH_NESTED_CONTAINER_SESSION", session, left_s())
        if status == 404:
            return None
        if status != 200:
            return Result(error=f"the command could not be run: {body}")
        end = agent.ended(check_id, left_s())
    except TimeoutError:
        return Result(error=f"the command took longer than {probe.timeout_s:g} s")
    except Unavailable:
        return None
    if end is None or "exit_status" not in end:
        return Result(error="the exit status of the command is not known")
    raw = int(end["exit_status"])
    return Result(exit_code=128 + (raw & 0x7F) if raw & 0x7F else raw >> 8)
