"""Which whole GPUs a container holds, beside the events after which schedulers are told of that."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.agent.decisions.frameworks import Frameworks
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.model import events as ev


def with_cards(event: ev.Event, frameworks: Frameworks, gpus: AgentGpus | None) -> ev.Event:
    """Return an event with the GPUs of its container, where it may be the one by which a task runs.

    The tasks of an executor are in its container, and share its GPUs.
    """
    if gpus is None:
        return event
    match event:
        case ev.Launched():
            owner = frameworks.task(event.key)
            known = owner.container_id if owner is not None else None
        case ev.Subscribed() | ev.ExecutorSays():
            executor = frameworks.executor(event.key)
            known = executor.container_id if executor is not None else None
        case _:
            return event
    return event if known is None else replace(event, cards=gpus.whole_of(known))
