"""GPUs as the agent's endpoints show them, as values: JSON beside Mesos' statistics, and Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias

from msgspec import Struct, field

from mesos_gpu.gpu.device import Gpu, GpuProcess, GpuUsage
from mesos_gpu.gpu.health import WITHDRAWN, Condition, Illness
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.units import MIB

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Family: TypeAlias = tuple[str, str, list[tuple[dict[str, str], "float | None"]]]
"""Name, help, and samples of a metric: labels and value, None where it is not known."""


class Sharer(Struct, frozen=True):
    """A task with a part of a card, as far as the one who looks may see it."""

    container: str
    framework: str = ""
    task: str = ""
    memory_mib: int = 0
    weight: int = 1
    level: str = ""


class Sharing(Struct, frozen=True):
    """How tasks share a card: what keeps them to their memory, and who they are."""

    level: str
    sharers: tuple[Sharer, ...] = ()


class GpuView(Struct, frozen=True):
    """One GPU as it is now.

    `container`, `framework` and `task` name its holder in Mesos; `lease`, `door` and `holder` one outside of it. All
    are empty when nobody holds it.
    """

    gpu: Gpu
    usage: GpuUsage | None = None
    illness: Illness | None = None
    container: str = ""
    framework: str = ""
    task: str = ""
    lease: str = ""
    door: str = ""
    holder: str = ""
    sharing: Sharing | None = None
    """How tasks share it; None: it is given whole."""
    past: Sequence[Illness] = ()
    """How its condition has changed, the latest last."""
    tasks_of: Mapping[int, str] = field(default_factory=dict)
    """The task of each of its processes that is in a task's container, by pid."""

    @property
    def condition(self) -> Condition:
        """Return how it is."""
        return Condition.HEALTHY if self.illness is None else self.illness.condition


def gpu_shown(gpu: Gpu, usage: GpuUsage | None) -> Document:
    """Return a GPU as /containers and /monitor/statistics show it; what the driver does not report is left out."""
    shown: Document = {"uuid": gpu.uuid, "minor": gpu.minor, "index": gpu.index, "name": gpu.name}
    numbers = usage or GpuUsage()
    shown |= {
        "memory_used_mib": numbers.memory_used_mib,
        "memory_total_mib": numbers.memory_total_mib if numbers.memory_total_mib is not None else gpu.memory_mib,
        "utilization_percent": numbers.utilization_percent,
        "power_w": numbers.power_w,
        "temperature_c": numbers.temperature_c,
    }
    return {name: value for name, value in shown.items() if value is not None}


def view_shown(view: GpuView) -> Document:
    """Return a GPU as /gpus shows it."""
    shown = gpu_shown(view.gpu, view.usage)
    if view.usage is not None:
        more = {name: value for name, value in asdict(view.usage).items() if value is not None}
        shown = {**more, **shown}
        if view.usage.processes is not None:
            shown["processes"] = tuple(_process_shown(one, view.tasks_of.get(one.pid)) for one in view.usage.processes)
    shown["condition"] = view.condition.value
    if view.illness is not None:
        shown |= {"reason": view.illness.reason, "since": view.illness.since}
        if view.illness.xid is not None:
            shown["xid"] = view.illness.xid
    if view.container:
        shown |= {"container_id": view.container, "framework_id": view.framework, "task_id": view.task}
    if view.sharing is not None:
        shown |= {"shared": True, "memory_level": view.sharing.level}
        shown["sharers"] = [
            {
                "container_id": one.container,
                "framework_id": one.framework,
                "task_id": one.task,
                "memory_mib": one.memory_mib,
                "weight": one.weight,
                "memory_level": one.level,
            }
            for one in view.sharing.sharers
        ]
    if view.lease:
        shown |= {"lease_id": view.lease, "door": view.door, "holder": view.holder}
    if view.past:
        shown["history"] = [_past_shown(one) for one in view.past]
    return shown


def _process_shown(process: GpuProcess, task: str | None) -> Document:
    shown = {**asdict(process), "task_id": task}
    return {name: value for name, value in shown.items() if value is not None}


def _past_shown(past: Illness) -> Document:
    xid = {} if past.xid is None else {"xid": past.xid}
    return {"condition": past.condition.value, "reason": past.reason, "at": past.since, **xid}


def exposition(views: Sequence[GpuView], *, advertised: int, hostname: str = "") -> str:
    """Return the GPUs in Prometheus' text format, version 0.0.4; base units, as Prometheus asks for.

    What follows has the names, labels and units of NVIDIA's dcgm-exporter (etc/default-counters.csv), so dashboards and
    alerts made for it work: a task is a `pod`, its framework a `namespace`.
    """
    families: list[_Family] = [
        ("mesos_gpu_gpus", "GPUs that this agent manages.", [({}, len(views))]),
        ("mesos_gpu_gpus_advertised", "GPUs that the master may offer.", [({}, advertised)]),
        ("mesos_gpu_gpus_held", "GPUs that containers hold.", [({}, sum(1 for v in views if v.container))]),
        ("mesos_gpu_gpus_lent", "GPUs that holders outside Mesos have.", [({}, sum(1 for v in views if v.lease))]),
        _family(views, "healthy", "1 unless the GPU is withdrawn from use.", lambda v: v.condition not in WITHDRAWN),
        _family(views, "memory_used_bytes", "GPU memory in use.", lambda v: _bytes(_usage(v).memory_used_mib)),
        _family(views, "memory_total_bytes", "GPU memory.", lambda v: _bytes(_usage(v).memory_total_mib)),
        _family(views, "utilization_ratio", "How busy the GPU is, 0 to 1.", lambda v: _ratio(_usage(v))),
        _family(views, "power_watts", "Power drawn by the GPU.", lambda v: _usage(v).power_w),
        _family(views, "temperature_celsius", "Temperature of the GPU.", lambda v: _usage(v).temperature_c),
    ]
    families += [
        (f"DCGM_FI_DEV_{name}", text, [(_dcgm_labels(view, hostname), value(view)) for view in views])
        for name, text, value in _DCGM
    ]
    lines: list[str] = []
    for name, help_text, samples in families:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            kind = "counter" if name in _COUNTERS else "gauge"
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _family(views: Sequence[GpuView], suffix: str, help_text: str, value: Callable[[GpuView], float | None]) -> _Family:
    return f"mesos_gpu_{suffix}", help_text, [(_labels_of(view), value(view)) for view in views]


def _labels_of(view: GpuView) -> dict[str, str]:
    gpu = view.gpu
    labels = {"uuid": gpu.uuid, "minor": str(gpu.minor), "index": str(gpu.index), "name": gpu.name}
    return {**labels, "framework": view.framework, "task": view.task, "container": view.container}


def _dcgm_labels(view: GpuView, hostname: str) -> dict[str, str]:
    gpu = view.gpu
    labels = {"gpu": str(gpu.index), "UUID": gpu.uuid, "pci_bus_id": gpu.bus_id or "", "device": f"nvidia{gpu.minor}"}
    labels |= {"modelName": gpu.name, "Hostname": hostname}
    return {**labels, "container": view.container, "namespace": view.framework, "pod": view.task}


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items()) + "}" if labels else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def escaped(text: str) -> str:
    """Return a label's value as the Prometheus text format quotes it."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _usage(view: GpuView) -> GpuUsage:
    return view.usage or GpuUsage()


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB


def _ratio(usage: GpuUsage) -> float | None:
    return None if usage.utilization_percent is None else usage.utilization_percent / 100


def _free(view: GpuView) -> int | None:
    usage = _usage(view)
    total = usage.memory_total_mib if usage.memory_total_mib is not None else view.gpu.memory_mib
    return None if total is None or usage.memory_used_mib is None else total - usage.memory_used_mib


def _xid(view: GpuView) -> int:
    return 0 if view.illness is None else view.illness.xid or 0


_DCGM: Sequence[tuple[str, str, Callable[[GpuView], float | None]]] = (
    ("SM_CLOCK", "SM clock frequency (in MHz).", lambda view: _usage(view).core_mhz),
    ("MEM_CLOCK", "Memory clock frequency (in MHz).", lambda view: _usage(view).memory_mhz),
    ("MEMORY_TEMP", "Memory temperature (in C).", lambda view: _usage(view).memory_temperature_c),
    ("GPU_TEMP", "GPU temperature (in C).", lambda view: _usage(view).temperature_c),
    ("POWER_USAGE", "Power draw (in W).", lambda view: _usage(view).power_w),
    (
        "TOTAL_ENERGY_CONSUMPTION",
        "Energy since the driver was loaded (in mJ).",
        lambda view: _usage(view).energy_mj,
    ),
    ("PCIE_TX_THROUGHPUT", "Bytes sent over PCIe (in KB), as NVML says.", lambda view: _usage(view).pci_tx_kb_s),
    ("PCIE_RX_THROUGHPUT", "Bytes received over PCIe (in KB), as NVML says.", lambda view: _usage(view).pci_rx_kb_s),
    ("PCIE_REPLAY_COUNTER", "PCIe retries.", lambda view: _usage(view).pci_replays),
    ("GPU_UTIL", "GPU utilization (in %).", lambda view: _usage(view).utilization_percent),
    ("MEM_COPY_UTIL", "Memory utilization (in %).", lambda view: _usage(view).memory_busy_percent),
    ("ENC_UTIL", "Encoder utilization (in %).", lambda view: _usage(view).encoder_percent),
    ("DEC_UTIL", "Decoder utilization (in %).", lambda view: _usage(view).decoder_percent),
    ("XID_ERRORS", "Value of the last XID error encountered.", _xid),
    ("FB_FREE", "Framebuffer memory free (in MiB).", _free),
    ("FB_USED", "Framebuffer memory used (in MiB).", lambda view: _usage(view).memory_used_mib),
    (
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Rows remapped after uncorrectable errors.",
        lambda view: _usage(view).remapped_uncorrectable,
    ),
    (
        "CORRECTABLE_REMAPPED_ROWS",
        "Rows remapped after correctable errors.",
        lambda view: _usage(view).remapped_correctable,
    ),
    ("ROW_REMAP_FAILURE", "Whether remapping of rows has failed.", lambda view: _usage(view).remapping_failed),
)
"""In the order of etc/default-counters.csv. Not here: DCGM's own NVLINK_BANDWIDTH_TOTAL and VGPU_LICENSE_STATUS."""
_COUNTERS = frozenset(
    f"DCGM_FI_DEV_{name}"
    for name in (
        *("TOTAL_ENERGY_CONSUMPTION", "PCIE_TX_THROUGHPUT", "PCIE_RX_THROUGHPUT", "PCIE_REPLAY_COUNTER"),
        *("UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS"),
    )
)
"""Those that the list of dcgm-exporter calls counters; its throughputs are NVML's rates all the same."""
