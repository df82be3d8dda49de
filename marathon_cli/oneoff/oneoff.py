"""One-off runs, the deciding part: the app that runs a command once, and what its end means for a shell. Pure.

Marathon starts whatever ends again. A run is an app whose delay before that is longer than anybody waits, and which is
removed when its task has ended: that works on any Marathon.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DEVICES_LABEL, DOCKER_COMMAND, DRIVER_LABEL, DRIVER_VALUE

HOLDER = "sleep 2147483647"
"""What the task of an interactive run does: it holds GPUs and image while the command runs in its container."""
LABEL = "MESOS_GPU_RUN"
NEVER_AGAIN_S = 604_800
_EXITED = re.compile(r"Command exited with status ([0-9]+)")
_SIGNALLED = re.compile(r"Command terminated with signal (.+)")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run: `argv` in `image`; without an image on the machine's own files. `hold`: it is interactive.

    `share` is a part of a GPU, as `gpuShare` of an app; `gpus` is 0 then.
    """

    name: str
    image: str | None = None
    argv: Sequence[str] = ()
    nodes: int = 1
    """On how many machines at once, as a gang."""
    gpus: int = 1
    cpus: float = 1.0
    mem_mib: float = 1024
    disk_mib: float = 0
    share: Mapping[str, Any] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[Mapping[str, str]] = ()
    constraints: Sequence[Sequence[str]] = ()
    devices: Sequence[str] = ()
    """Of other vendors than NVIDIA, by their CDI names."""
    user: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    driver: bool = True
    """Whether a GPU task in an image gets the NVIDIA driver, also when its image says nothing of it."""
    hold: bool = False
    entrypoint: bool = False
    """Whether `argv` replaces the image's ENTRYPOINT, too."""


def document(order: Order) -> dict[str, Any]:
    """Return the app that runs an order once."""
    app: dict[str, Any] = {"id": f"/{order.name}", "instances": order.nodes, "gpus": order.gpus}
    if order.nodes > 1:
        app["gang"] = {"size": order.nodes}
    app |= {"cpus": order.cpus, "mem": order.mem_mib, "disk": order.disk_mib, "env": dict(order.env)}
    if order.share is not None:
        app["gpuShare"] = dict(order.share)
    if order.hold:
        app["cmd"] = HOLDER
    elif order.argv and order.entrypoint and order.image is not None:
        app["cmd"] = f"exec {shlex.join(order.argv)}"
    elif order.argv:
        app["args"] = list(order.argv)
    if order.image is not None:
        app["container"] = {"type": "MESOS", "docker": {"image": order.image}, "volumes": list(order.volumes)}
    if order.user is not None:
        app["user"] = order.user
    return {
        **app,
        "constraints": [list(rule) for rule in order.constraints],
        "labels": _labels(order),
        "portDefinitions": [],
        "backoffSeconds": NEVER_AGAIN_S,
        "backoffFactor": 1,
        "maxLaunchDelaySeconds": NEVER_AGAIN_S,
        "upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0},
    }


def _labels(order: Order) -> dict[str, str]:
    """Return the labels of the app: ours, those that give a command in an image docker's meaning, and the user's."""
    labels = {LABEL: "true"}
    if order.image is not None and order.argv and not (order.hold or order.entrypoint):
        labels[COMMAND_LABEL] = DOCKER_COMMAND
    if order.image is not None and order.gpus and order.driver:
        labels[DRIVER_LABEL] = DRIVER_VALUE
    if order.devices:
        labels[DEVICES_LABEL] = ",".join(dict.fromkeys(order.devices))
    return {**labels, **order.labels}


def name_of(image: str | None, argv: Sequence[str], salt: str) -> str:
    """Return an app's name after what it runs: `run-nvidia-smi-3fa2c1`. `salt` keeps two runs apart."""
    what = image.partition("@")[0].rpartition("/")[2].partition(":")[0] if image else argv[0].rpartition("/")[2]
    word = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")[:30].strip("-")
    return "-".join(part for part in ("run", word, salt) if part)


def volume(text: str) -> dict[str, str]:
    """Return the volume of `FOLDER:PATH[:ro]`. Raises BadInput."""
    host, colon, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not colon or not host.startswith("/") or not path or mode not in ("", "ro", "rw"):
        raise BadInput(f"{text!r} is not a volume; one looks like /folder/of/the/machine:/path or .../path:ro")
    return {"containerPath": path, "hostPath": host, "mode": (mode or "rw").upper()}


def gib(text: str) -> int:
    """Return whole GiB of `6`, `6GiB`, `6g` or `6144MiB`. Raises BadInput."""
    found = re.fullmatch(r"([0-9]+)\s*(g|gi|gib|gb|m|mi|mib|mb)?", text.strip().lower())
    amount = 0 if found is None else int(found[1])
    if found is not None and (found[2] or "g").startswith("m"):
        amount, rest = divmod(amount, 1024)
        amount = 0 if rest else amount
    if amount < 1:
        raise BadInput(f"{text!r} is not an amount of memory of a GPU: write whole GiB, such as 6GiB")
    return amount


def constraint(text: str) -> list[str]:
    """Return the constraint of `FIELD:OPERATOR[:VALUE]`; `FIELD=VALUE` is FIELD:IS:VALUE. Raises BadInput."""
    parts = text.split(":", 2)
    if len(parts) == 1 and "=" in text:
        name, _, value = text.partition("=")
        parts = [name, "IS", value]
    if len(parts) < 2 or not all(parts[:2]):
        raise BadInput(f"{text!r} is not a constraint; one looks like gpu_model:LIKE:.*H200.* or gpu_model=Tesla-T4")
    return parts


def status_of_all(statuses: Sequence[int]) -> int:
    """Return how a run of several tasks has ended: as the first in order that failed by itself, 0 when all went well.

    When one fails the others are ended, by a signal; so what ended with a status of its own tells more.
    """
    failed = [status for status in statuses if status]
    return next((status for status in failed if status < 128), failed[0] if failed else 0)


def task_of(tasks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the first task of an app by the ids that Marathon gives: `NAME.instance-…`, or `NAME.UUID`."""
    found = [task for task in tasks if str(task.get("id")).startswith(f"{name}.")]
    return min(found, key=lambda task: str(task.get("id"))) if found else None


def exit_status(state: str, message: str) -> int | None:
    """Return a shell's status for how a task ended; None when it never ran, or nobody knows.

    Source: the texts of Mesos' command executor, which are all that is told of a status.
    """
    if found := _EXITED.search(message):
        return int(found[1])
    if found := _SIGNALLED.search(message):
        named = next((number for number in signal.valid_signals() if signal.strsignal(number) == found[1]), None)
        return None if named is None else 128 + named
    if state == "TASK_FINISHED":
        return 0
    return None
