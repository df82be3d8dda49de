"""What an app's author should know before it is sent: it never ends, fits nowhere, or can never be updated. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mesos_gpu.marathon.why.ending_commands import ends_at_once
from mesos_gpu.mesos.tasks import DRIVER_LABEL, DRIVER_VALUE

if TYPE_CHECKING:
    from mesos_gpu.marathon.matching.machines import Machine
    from mesos_gpu.marathon.matching.matching import Rules
    from mesos_gpu.marathon.why.request import Request

_SAYS_GPU = re.compile(r"^nvcr\.io/|cuda|gpu|nvidia")
_PLURALS = {"cpus": "CPUs", "gpus": "GPUs", "mem": "memory", "disk": "disk"}


def warnings(
    app: Mapping[str, Any],
    agents: Sequence[Machine] | None,
    rules: Rules,
    *,
    brings_driver: bool | None = None,
) -> list[str]:
    """Return what is likely to surprise about an app; `agents` is None where the master could not be asked.

    `rules` are how the Marathon matches offers; `brings_driver` is what an agent says of the app's image, None
    where none knows it.
    """
    found = []
    if ends_at_once(app) and int(app.get("instances", 1)) > 0:
        found.append(
            "its command ends by itself, and Marathon will start it again each time, forever. "
            "To run it once: `mesos-gpu run`, or a job"
        )
    found += about_driver(app, brings_driver)
    if agents:
        found += about_place(app, agents, rules)
    return found


def may_lack_driver(app: Mapping[str, Any]) -> str:
    """Return the image of a GPU task that gets the NVIDIA driver only if its image asks for it; "" of any other."""
    image = str(((app.get("container") or {}).get("docker") or {}).get("image") or "")
    return image if app.get("gpus") and DRIVER_LABEL not in (app.get("labels") or {}) else ""


def about_driver(app: Mapping[str, Any], brings_driver: bool | None = None) -> list[str]:
    """Return that a GPU task's image comes, or may come, without the driver.

    What an agent says of the image counts; else images of NVIDIA's, and those named so, are taken to bring it.
    """
    image = may_lack_driver(app)
    if not image or brings_driver or (brings_driver is None and _SAYS_GPU.search(image.lower())):
        return []
    line = f'"labels": {{"{DRIVER_LABEL}": "{DRIVER_VALUE}"}}'
    if brings_driver is None:
        what = f"it is not known whether the image {image} asks for the NVIDIA driver; one that does not gets the GPUs"
    else:
        what = f"the image {image} does not ask for the NVIDIA driver (an agent that has it says so): it gets the GPUs"
    return [f"{what} without nvidia-smi and libcuda.so. This brings them in any case: {line}"]


def about_place(app: Mapping[str, Any], agents: Sequence[Machine], rules: Rules) -> list[str]:
    """Return what is likely to surprise about where an app has room, and where an update of it has.

    `rules` are how the Marathon matches offers.
    """
    from mesos_gpu.marathon.why.request import request_of
    from mesos_gpu.marathon.why.verdict import room, verdict_of

    request = request_of(app)
    verdicts = [verdict_of(request, agent, rules) for agent in agents]
    instances = request.spec.instances
    if not any(verdict.ever for verdict in verdicts):
        from mesos_gpu.marathon.why.answer import answer
        from mesos_gpu.marathon.why.facts import Situation

        never = answer(Situation(app, request, queued={"count": instances}, agents=agents, verdicts=verdicts))
        return ["\n  ".join([f"{never.headline} It will wait.", *never.remedies])]
    if not request.spec.gpus or instances < 1:
        return []
    slots = room(request, agents, verdicts)
    if slots < request.spec.gang_size:
        from mesos_gpu.marathon.why.order import gang_without_room

        headline, remedies = gang_without_room(request, slots)
        return ["\n  ".join([f"{headline} It will wait.", *remedies])]
    if slots < instances:
        return [f"the agents have room for {slots} of its {instances} instances, were they empty; the others wait"]
    able = [agent for agent, verdict in zip(agents, verdicts, strict=True) if verdict.ever]
    return _about_update(request, slots, _short(request, able, rules))


def _short(request: Request, agents: Sequence[Machine], rules: Rules) -> list[str]:
    """Return the amounts of which alone the agents, were they empty, have too little for one more instance."""
    from mesos_gpu.marathon.matching.matching import capacity_by_scalar
    from mesos_gpu.marathon.why.verdict import role_of

    spec = request.spec
    rooms = [capacity_by_scalar(spec, agent.offer_of(agent.total, role_of(spec)), rules) for agent in agents]
    return [name for name in spec.asked if sum(room[name] for room in rooms) <= spec.instances]


def _about_update(request: Request, slots: int, short: Sequence[str]) -> list[str]:
    """Tell that an update would wait forever: what minimumHealthCapacity keeps up leaves no room for a new task."""
    import math

    from mesos_gpu.marathon.why.verdict import count_text

    instances = request.spec.instances
    kept = math.ceil(instances * request.spec.document["upgradeStrategy"]["minimumHealthCapacity"] - 1e-9)
    if kept < instances or slots > instances:
        return []
    used = ", ".join(count_text(instances * request.spec.asked[name], name) for name in short)
    words = f"no {' and no '.join(_PLURALS[name] for name in short)} for both (it uses {used})"
    health = request.one_missing
    return [
        "an update of it could not finish: new instances start before old ones end, and the agents have "
        f"{words if short else 'no room for both'}. Say "
        f'"upgradeStrategy": {{"minimumHealthCapacity": {health:g}, "maximumOverCapacity": 0}}'
    ]
