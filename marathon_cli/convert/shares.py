"""Parts of GPUs: cGPU's variables and the units of Alibaba's gpushare, as `gpuShare`. Pure.

Sources: mesos_gpu/mesos/shares/cgpu.py for the variables; AliyunContainerService/gpushare-scheduler-extender for
`aliyun.com/gpu-mem` (GiB of one card) and `aliyun.com/gpu-count` (so much of each of so many cards).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marathon_cli.convert import quantities
from marathon_cli.convert.model import Container, Notes, Place, Workload
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.shares.cgpu import DEVICES, HIGH_PRIO, MEM_CONTAINER, MEM_DEV, NAMES, WEIGHT, ShareAsk, read_ask

if TYPE_CHECKING:  # it reads YAML, which takes time to import
    from marathon_cli.convert.source import Section

GPU_MEM, GPU_COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"

_WAITS = "an agent with --shared_gpus runs it; without one it waits"
_KEPT = (
    "its memory is kept by the strongest level that the agent has (task list -o wide shows it), not by cGPU's module: "
    "--gpu_share_require=mps, or cgroup, refuses weaker ones"
)


def take_variables(workload: Workload, notes: Notes) -> None:
    """Turn cGPU's variables of every container into its share; GPUs that it was to see then are no whole ones."""
    for container in workload.containers:
        if MEM_CONTAINER not in container.env:
            for name in container.env.keys() & {WEIGHT, HIGH_PRIO, DEVICES, MEM_DEV}:
                alone = f"without {MEM_CONTAINER} it asks for no part of a GPU; it stays a variable"
                notes.check(Place(container.at.line, name), alone)
            continue
        place = Place(container.at.line, MEM_CONTAINER)
        try:
            ask = read_ask(container.env)
        except BadInput as error:
            raise notes.bad(place, str(error)) from None
        if ask is None:
            continue  # they turn sharing off: they stay, and mean the same here
        if container.gpus:
            whole = f"{container.gpus} whole GPU{'s' if container.gpus > 1 else ''}"
            notes.check(place, f"it has a part of a GPU, and not {whole} beside it, which cGPU shows and limits")
        container.share, container.gpus = form_of(ask), 0
        said = [name for name in NAMES if name in container.env]
        notes.check(place, f"gpuShare says what {', '.join(said)} said; the agent sets such variables by itself")
        container.env = {name: value for name, value in container.env.items() if name not in NAMES}
        notes.check(place, f"{_WAITS}; {_KEPT}")


def take_units(limits: Section, container: Container, notes: Notes) -> None:
    """Turn `aliyun.com/gpu-mem` of Kubernetes' limits into the container's share."""
    memory = limits.read(GPU_MEM, quantities.whole) if GPU_MEM in limits else None
    cards = limits.read(GPU_COUNT, quantities.whole) if GPU_COUNT in limits else None
    if memory:
        container.share = {"memGiB": memory, **({"cards": cards} if cards and cards > 1 else {})}
        notes.check(limits.at(GPU_MEM), f"{_WAITS}; {_KEPT}")
    elif cards:
        notes.lost(limits.at(GPU_COUNT), f"it counts cards of which {GPU_MEM} has a part, and that is not here")


def form_of(ask: ShareAsk) -> dict[str, Any]:
    """Return an ask as `gpuShare`, without what is so by default."""
    memory: int | list[int] = ask.mem_gib[0] if ask.cards == 1 else list(ask.mem_gib)
    form: dict[str, Any] = {"memGiB": memory}
    if ask.weight != 1:
        form["weight"] = ask.weight
    if ask.high_priority:
        form["highPriority"] = True
    if ask.devices:
        form["devices"] = list(ask.devices)
    if ask.card_gib is not None:
        form["cardGiB"] = ask.card_gib
    return form
