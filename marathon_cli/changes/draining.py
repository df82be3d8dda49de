"""Agents that are drained: told to take no more tasks and to end those they have, and waited for."""

from __future__ import annotations

import time

from marathon_cli.clients.sandbox import Mesos
from marathon_cli.screen.output import say
from mesos_gpu.errors import NotFound, TimeIsUp
from mesos_gpu.mesos.clients.agents import Agent, find_agent, read_agent

PAUSE_S = 1.0


def begin_to_drain(mesos: Mesos, agent: Agent, grace_s: int | None, *, mark_gone: bool = False) -> None:
    """Have the master drain an agent; tasks end within `grace_s` where that is given. Raises Refused, Unavailable."""
    call: dict[str, object] = {"agent_id": {"value": agent.id}, "mark_gone": mark_gone}
    if grace_s is not None:
        call["max_grace_period"] = {"seconds": grace_s}
    mesos.operate({"type": "DRAIN_AGENT", "drain_agent": call})


def wait_until_drained(mesos: Mesos, agent: Agent, timeout_s: float, called: str = "") -> None:
    """Return when an agent is drained, or gone where that was asked for. Raises TimeIsUp.

    `called`: its name, where that is not its host's.
    """
    begun, said, name = time.monotonic(), "", called or agent.hostname
    while True:
        try:
            now = find_agent([read_agent(document) for document in mesos.slaves()], agent.id)
        except NotFound:
            say(f"{name} is gone")
            return
        if now.state == "drained":
            say(f"{name} is drained")
            return
        cpus, gpus = now.amount("used", "cpus"), now.amount("used", "gpus")
        text = f"{name} is {now.state}: tasks still have {cpus:g} CPUs and {gpus:g} GPUs of it"
        if text != said:
            say(text)
            said = text
        if timeout_s and time.monotonic() - begun >= timeout_s:
            raise TimeIsUp(f"{name} is not drained after {timeout_s:g} s; draining continues")
        time.sleep(PAUSE_S)
