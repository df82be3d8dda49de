"""CDI devices that a task asks for by a label: which, and whether this agent gives such to tasks. Pure.

A label, as Mesos' TaskInfo has no field for them: it goes through every Marathon and master as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mesos_gpu.cdi.applying import kind_of, names_in
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tasks import DEVICES_LABEL

EVERY = "all"
GPUS = "nvidia.com/gpu"


def asked(infos: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names that tasks and their executor (TaskInfos, an ExecutorInfo) ask for. Raises BadInput."""
    found: dict[str, None] = {}
    for info in infos:
        for label in (info.get("labels") or {}).get("labels", []):
            if label.get("key") == DEVICES_LABEL:
                found |= dict.fromkeys(names_in(str(label.get("value", ""))))
    return tuple(found)


def refusal(info: Mapping[str, Any], kinds: Collection[str], *, running: bool = False) -> str | None:
    """Return why a task cannot have the devices that it asks for, in words for its owner.

    `kinds` are those that the agent gives to tasks (`vendor.com/class`, or `all` for any but GPUs, which are given as
    `gpus` alone: a name would take one from whoever has it). `running`: its executor runs already.
    """
    try:
        names = asked([info])
    except BadInput as error:
        return f"The label {DEVICES_LABEL}: {error}"
    for name in names:
        kind = kind_of(name)
        if kind == GPUS:
            return f"The label {DEVICES_LABEL}: {name} is a GPU; tasks ask for GPUs by their number, as gpus"
        if kind not in kinds and EVERY not in kinds:
            given = f"only those of {', '.join(sorted(kinds))}" if kinds else "none"
            return (
                f"The label {DEVICES_LABEL}: {name} is not given to tasks by this agent, but {given}; its "
                "--cdi_devices says which"
            )
    if names and running:
        return "The executor runs already and cannot be given CDI devices: launch the task with an executor of its own"
    return None
