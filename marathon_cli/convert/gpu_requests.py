"""GPUs, GPU shares and the NVIDIA driver as other tools request them, and what mesos-gpu needs in their place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from marathon_cli.convert import quantities
from marathon_cli.convert.model import Container, Notes, Place, Workload
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.shares.cgpu import DEVICES, HIGH_PRIO, MEM_CONTAINER, MEM_DEV, NAMES, WEIGHT, ShareAsk, read_ask

if TYPE_CHECKING:
    from marathon_cli.convert.source import Section


ALPHA = "alpha.kubernetes.io/nvidia-gpu"
GPU = "nvidia.com/gpu"

# NVML's name has the memory of an A100 in it, and there are two; other models are told apart by their name alone.
_MEMORY = {"nvidia-tesla-a100": "40gb", "nvidia-a100-80gb": "80gb"}
_MODEL = re.compile(r"(?:nvidia-)?(?:tesla-)?(rtx-pro-[0-9]+|[a-z]+[0-9]+[a-z]?)(?:-.*)?")
_FIELDS = {
    "nvidia.com/gpu.product": "gpu_model",
    "alpha.kubernetes.io/nvidia-gpu-name": "gpu_model",
    "nvidia.com/gpu.memory": "gpu_memory_mib",
    "nvidia.com/gpu.count": "gpu_count",
    "kubernetes.io/hostname": "hostname",
    "topology.kubernetes.io/zone": "@zone",
    "topology.kubernetes.io/region": "@region",
    "failure-domain.beta.kubernetes.io/zone": "@zone",
    "failure-domain.beta.kubernetes.io/region": "@region",
}
# True of every agent that has what the app asks for.
_SO_ANYWAY = {
    ("accelerator", "nvidia"),
    ("kubernetes.azure.com/accelerator", "nvidia"),
    ("nvidia.com/gpu.present", "true"),
    ("kubernetes.io/os", "linux"),
    ("beta.kubernetes.io/os", "linux"),
}
_NOTHING_LIKE_IT = (
    "cloud.google.com/gke-gpu-driver-version",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-nodepool",
)
_ACCELERATOR_LABELS = ("cloud.google.com/gke-accelerator", "accelerator")
_IS_VALUE = re.compile(r"[a-zA-Z0-9_/.-]*")


def model_pattern(accelerator: str) -> str | None:
    """Return the expression that the model of a GKE accelerator type fulfils: `nvidia-tesla-k80` and no K80m.

    None for a name of another kind.
    """
    name = accelerator.lower()
    found = _MODEL.fullmatch(name)
    if found is None:
        return None
    memory = f"{_MEMORY[name]}.*" if name in _MEMORY else ""
    return f"(?i)(.*[^a-z0-9])?{found[1]}([^a-z0-9].*)?{memory}"


def constraint(label: str, value: str, place: Place, notes: Notes) -> list[str] | None:
    """Return the constraint for a node label; None where none is needed, or possible, which is noted."""
    if (label, value) in _SO_ANYWAY:
        return None
    if label in _NOTHING_LIKE_IT:
        notes.lost(place, "agents have no such attribute; give them an attribute (--attributes) and constrain it")
        return None
    pattern = model_pattern(value) if label in _ACCELERATOR_LABELS else None
    if pattern is not None:
        return ["gpu_model", "LIKE", pattern]
    if label not in _FIELDS:
        notes.check(place, f"agents need this attribute: --attributes='{label}:{value}'")
    if _IS_VALUE.fullmatch(value):
        return [_FIELDS.get(label, label), "IS", value]
    return [_FIELDS.get(label, label), "LIKE", re.escape(value)]


def expression(label: str, operator: str, values: Sequence[str], place: Place, notes: Notes) -> list[str] | None:
    """Return the constraint for a node affinity expression; None where there is none, which is noted."""
    if operator == "In" and len(values) == 1:
        return constraint(label, values[0], place, notes)
    field = "gpu_model" if label in _ACCELERATOR_LABELS else _FIELDS.get(label, label)
    if operator in ("In", "NotIn") and values:
        patterns = [(model_pattern(v) if label in _ACCELERATOR_LABELS else None) or re.escape(v) for v in values]
        # Flags of an expression stand at its start only.
        flag = "(?i)" if any(p.startswith("(?i)") for p in patterns) else ""
        together = "|".join(p.removeprefix("(?i)") for p in patterns)
        found = [field, "LIKE" if operator == "In" else "UNLIKE", flag + together]
    elif operator in ("Exists", "DoesNotExist"):
        found = [field, "LIKE" if operator == "Exists" else "UNLIKE", ".*"]
    else:
        notes.lost(place, f"constraints have no operator {operator}")
        return None
    if field == label:
        notes.check(place, f"agents need the attribute {label} (--attributes)")
    return found


_DRIVER_PATH = re.compile(
    r"(/usr/lib(64)?(/x86_64-linux-gnu)?/(nvidia[^/]*|lib(cuda|nvidia|nvcuvid)[^/]*)"
    r"|/var/lib/nvidia-docker/volumes/.*|/.*/volumes/nvidia_[^/]+|/home/kubernetes/bin/nvidia|/usr/local/nvidia|/opt/nvidia-driver"
    r"|/usr/bin/nvidia-(smi|debugdump|persistenced|cuda-mps-.*)|/dev/nvidia[^/]*)(/.*)?"
)
_GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")
_NODE = re.compile(r"/dev/nvidia[^/]*(/nvidia-cap[0-9]+)?")
_CDI = re.compile(r"nvidia\.com/gpu=(.+)")
_CDI_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_.-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*")


def is_driver_path(path: str) -> bool:
    """Return whether a path of a machine is part of its NVIDIA driver, or one of its devices."""
    return _DRIVER_PATH.fullmatch(path.rstrip("/")) is not None


def is_driver_volume(source: str) -> bool:
    """Return whether a Docker volume is nvidia-docker 1's: `nvidia_driver_375.39`."""
    return source.startswith("nvidia_driver")


def is_gpu_node(path: str) -> bool:
    """Return whether a device is a GPU: /dev/nvidia0."""
    return _GPU_NODE.fullmatch(path) is not None


def is_nvidia_node(path: str) -> bool:
    """Return whether a device belongs to the NVIDIA driver: /dev/nvidiactl, /dev/nvidia-uvm."""
    return _NODE.fullmatch(path) is not None


def node_inside(device: str) -> str:
    """Return where a container has the device of `--device HOST[:CONTAINER[:RIGHTS]]`."""
    host, _, rest = device.partition(":")
    inside = rest.partition(":")[0]
    return inside if inside.startswith("/") else host


def cdi_gpu(device: str) -> str | None:
    """Return which GPU a CDI name is of: `0` of `nvidia.com/gpu=0`; None for other devices."""
    match = _CDI.fullmatch(device)
    return None if match is None else match[1]


def is_cdi_name(device: str) -> bool:
    """Return whether a device is meant by its CDI name, `vendor.com/class=name`, of whichever vendor."""
    return _CDI_NAME.fullmatch(device) is not None


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


_KNOWN = ("cpu", "memory", "ephemeral-storage", GPU, ALPHA, GPU_MEM)


class Limits(NamedTuple):
    """What is asked for; None is what is not said. `gpu_mem_gib` is a part of a card."""

    gpus: int | None = None
    cpus: float | None = None
    mem_mib: int | None = None
    disk_mib: int | None = None
    gpu_mem_gib: int | None = None


def read_limits(texts: Sequence[str], option: str = "--limits") -> Limits:
    """Return what texts such as `cpu=2,memory=4Gi,nvidia.com/gpu=1` ask for. Raises BadInput with an example."""
    found = Limits()
    for part in ",".join(texts).split(","):
        name, equals, text = (word.strip() for word in part.partition("="))
        if not equals or not text:
            raise BadInput(f"{option} {part!r} is not NAME=QUANTITY, as in {option}=cpu=2,memory=4Gi,{GPU}=1")
        try:
            if name == "cpu":
                found = found._replace(cpus=quantities.cpus(text))
            elif name == "memory":
                found = found._replace(mem_mib=quantities.mib(text))
            elif name == "ephemeral-storage":
                found = found._replace(disk_mib=quantities.mib(text))
            elif name in (GPU, ALPHA):
                found = found._replace(gpus=quantities.whole(text))
            elif name == GPU_MEM:
                found = found._replace(gpu_mem_gib=quantities.whole(text))
            else:
                near = [GPU] if "gpu" in name else difflib.get_close_matches(name, _KNOWN, n=1)
                said = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KNOWN)}"
                raise BadInput(f"{option}: there is no resource {name}; {said}")
        except ValueError as error:
            raise BadInput(f"{option} {part}: {error}") from None
    return found
