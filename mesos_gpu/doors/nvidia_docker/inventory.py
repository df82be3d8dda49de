"""GPUs as nvidia-docker-plugin showed them: documents, and their text, byte for byte. Pure.

What nobody tells here is null, and N/A in the text. Source: NVIDIA/nvidia-docker 1.0.1, `src/nvidia/devices.go`,
`src/nvidia-docker-plugin/remote_v1.go`; Go's text/tabwriter for how it is aligned.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LINKS = {50: 1, 40: 2, 30: 3, 20: 4, 10: 5, 0: 6}
"""NVML's levels as the plugin's numbers."""
_LINK_WORDS = (
    *("N/A", "Cross CPU socket", "Same CPU socket", "Host PCI bridge", "Multiple PCI switches", "Single PCI switch"),
    "Same board",
)
_FAMILIES = {"2": "Fermi", "3": "Kepler", "5": "Maxwell", "6": "Pascal"}
_LONGEST_NAME = 63
"""Of a process; the original's buffer."""
_Line = tuple[str, "str | None"]


def gpu_info(driver: Mapping[str, Any]) -> dict[str, Any]:
    """Return /gpu/info/json of an agent's /gpus/driver."""
    bus = {gpu["uuid"]: _bus(gpu.get("bus_id")) for gpu in driver["gpus"]}
    return {
        "Version": {"Driver": driver.get("version") or "", "CUDA": driver.get("cuda_version") or ""},
        "Devices": [_device(gpu, bus) for gpu in driver["gpus"]],
    }


def _device(gpu: Mapping[str, Any], bus: Mapping[str, str]) -> dict[str, Any]:
    known = gpu.get("details") or {}
    arch = known.get("arch")
    links = [
        {"BusID": bus[uuid], "Link": _LINKS.get(link["level"], 0)}
        for uuid, link in sorted((gpu.get("links") or {}).items())
        if uuid in bus
    ]
    return {
        "UUID": gpu["uuid"],
        "Path": gpu["devices"][0]["path"],
        "Model": gpu.get("name"),
        "Power": known.get("power_w"),
        "CPUAffinity": known.get("numa_node"),
        "PCI": {"BusID": bus[gpu["uuid"]], "BAR1": known.get("bar1_mib"), "Bandwidth": known.get("pci_mb_s")},
        "Clocks": {"Cores": known.get("core_mhz"), "Memory": known.get("memory_mhz")},
        "Topology": links or None,
        "Family": None if arch is None else _FAMILIES.get(str(arch).partition(".")[0]),
        "Arch": arch,
        "Cores": known.get("cores"),
        "Memory": {
            "ECC": known.get("ecc"),
            "Global": gpu.get("memory_total_mib"),
            "Shared": known.get("shared_kib"),
            "Constant": known.get("constant_kib"),
            "L2Cache": known.get("l2_kib"),
            "Bandwidth": known.get("memory_mb_s"),
        },
    }


def _bus(bus_id: str | None) -> str:
    """Return a bus id with the four digits of domain that it has on most machines."""
    domain, colon, rest = (bus_id or "").partition(":")
    return f"{domain[-4:]}{colon}{rest}".upper()


def gpu_status(gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return /gpu/status/json of an agent's /gpus."""
    return {"Devices": [_status(gpu) for gpu in gpus]}


def _status(gpu: Mapping[str, Any]) -> dict[str, Any]:
    power = gpu.get("power_w")
    processes = [
        {"PID": one["pid"], "Name": str(one["name"])[:_LONGEST_NAME], "MemoryUsed": one.get("memory_mib") or 0}
        for one in gpu.get("processes") or ()
    ]
    return {
        "Power": None if power is None else int(power),
        "Temperature": gpu.get("temperature_c"),
        "Utilization": {
            "GPU": gpu.get("utilization_percent"),
            "Memory": gpu.get("memory_busy_percent"),
            "Encoder": gpu.get("encoder_percent"),
            "Decoder": gpu.get("decoder_percent"),
        },
        "Memory": {
            "GlobalUsed": gpu.get("memory_used_mib"),
            "ECCErrors": {
                "L1Cache": gpu.get("l1_errors"),
                "L2Cache": gpu.get("l2_errors"),
                "Global": gpu.get("memory_errors"),
            },
        },
        "Clocks": {"Cores": gpu.get("core_mhz"), "Memory": gpu.get("memory_mhz")},
        "PCI": {
            "BAR1Used": gpu.get("bar1_used_mib"),
            "Throughput": {"RX": _thousandth(gpu.get("pci_rx_kb_s")), "TX": _thousandth(gpu.get("pci_tx_kb_s"))},
        },
        "Processes": processes or None,
    }


def _thousandth(kilo: int | None) -> int | None:
    return None if kilo is None else kilo // 1000


def json_line(document: Any) -> str:
    """Return a document as Go's encoder writes it, with its newline."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text + "\n"


def info_text(info: Mapping[str, Any]) -> str:
    """Return /gpu/info."""
    version = info["Version"]
    lines: list[_Line] = [("", None), ("Driver version:", version["Driver"])]
    lines += [("Supported CUDA version:", version["CUDA"]), ("", None)]
    for number, device in enumerate(info["Devices"]):
        lines += _info_lines(number, device)
    return _aligned(lines)


def _info_lines(number: int, device: Mapping[str, Any]) -> list[_Line]:
    pci, memory, clocks = device["PCI"], device["Memory"], device["Clocks"]
    ecc = memory["ECC"]
    node = device["CPUAffinity"]
    lines: list[_Line] = [
        (f"Device #{number}", None),
        ("  Model:", _text(device["Model"])),
        ("  UUID:", device["UUID"]),
        ("  Path:", device["Path"]),
        ("  Family:", _text(device["Family"])),
        ("  Arch:", _text(device["Arch"])),
        ("  Cores:", _text(device["Cores"])),
        ("  Power:", _text(device["Power"], " W")),
        ("  CPU Affinity:", "N/A" if node is None else f"NUMA node{node}"),
        ("  PCI", None),
        ("    Bus ID:", pci["BusID"]),
        ("    BAR1:", _text(pci["BAR1"], " MiB")),
        ("    Bandwidth:", _text(pci["Bandwidth"], " MB/s")),
        ("  Memory", None),
        ("    ECC:", "N/A" if ecc is None else str(ecc).lower()),
        ("    Global:", _text(memory["Global"], " MiB")),
        ("    Constant:", _text(memory["Constant"], " KiB")),
        ("    Shared:", _text(memory["Shared"], " KiB")),
        ("    L2 Cache:", _text(memory["L2Cache"], " KiB")),
        ("    Bandwidth:", _text(memory["Bandwidth"], " MB/s")),
        ("  Clocks", None),
        ("    Cores:", _text(clocks["Cores"], " MHz")),
        ("    Memory:", _text(clocks["Memory"], " MHz")),
    ]
    if device["Topology"]:
        lines.append(("  P2P Available", None))
        lines += [(f"    {link['BusID']} - {_LINK_WORDS[link['Link']]}", None) for link in device["Topology"]]
    else:
        lines.append(("  P2P Available:", "None"))
    return [*lines, ("", None)]


def status_text(status: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """Return /gpu/status; `info` says how much there is of what is used."""
    lines: list[_Line] = [("", None)]
    for number, (now, device) in enumerate(zip(status["Devices"], info["Devices"], strict=True)):
        lines += _status_lines(number, now, device)
    return _aligned(lines)


def _status_lines(number: int, now: Mapping[str, Any], device: Mapping[str, Any]) -> list[_Line]:
    use, memory, pci = now["Utilization"], now["Memory"], now["PCI"]
    errors, through = memory["ECCErrors"], pci["Throughput"]
    lines: list[_Line] = [
        (f"Device #{number}", None),
        ("  Power:", _of(now["Power"], device["Power"], " W")),
        ("  Temperature:", _text(now["Temperature"], " °C")),
        ("  Utilization", None),
        *((f"    {name}:", _text(use[name], " %")) for name in ("GPU", "Memory", "Encoder", "Decoder")),
        ("  Memory", None),
        ("    Global:", _of(memory["GlobalUsed"], device["Memory"]["Global"], " MiB")),
        ("    ECC Errors", None),
        ("      L1 Cache:", _text(errors["L1Cache"])),
        ("      L2 Cache:", _text(errors["L2Cache"])),
        ("      Global:", _text(errors["Global"])),
        ("  PCI", None),
        ("    BAR1:", _of(pci["BAR1Used"], device["PCI"]["BAR1"], " MiB")),
        ("    Throughput", None),
        ("      RX:", _text(through["RX"], " MB/s")),
        ("      TX:", _text(through["TX"], " MB/s")),
        ("  Clocks", None),
        ("    Cores:", _text(now["Clocks"]["Cores"], " MHz")),
        ("    Memory:", _text(now["Clocks"]["Memory"], " MHz")),
    ]
    if not now["Processes"]:
        return [*lines, ("  Processes:", "None"), ("", None)]
    lines.append(("  Processes", None))
    for process in now["Processes"]:
        lines += [("    - PID:", str(process["PID"])), ("      Name:", process["Name"])]
        lines.append(("      Memory:", f"{process['MemoryUsed']} MiB"))
    return [*lines, ("", None)]


def _text(value: Any, unit: str = "") -> str:
    return "N/A" if value is None else f"{value}{unit}"


def _of(part: Any, whole: Any, unit: str) -> str:
    return "N/A" if part is None or whole is None else f"{part} / {whole}{unit}"


def _aligned(lines: Iterable[_Line]) -> str:
    """Return lines whose values stand under each other, in each run of lines that have one."""
    written: list[str] = []
    run: list[tuple[str, str]] = []
    for label, value in [*lines, ("", None)]:
        if value is not None:
            run.append((label, value))
            continue
        width = max((len(name) for name, _ in run), default=0) + 2
        written += [name.ljust(width) + said for name, said in run]
        run = []
        written.append(label)
    return "\n".join(written)


def mesos_arguments(info: Mapping[str, Any], *, scalar: bool = False) -> str:
    """Return /mesos/cli: flags of an agent, with a set of GPUs; `scalar`: their number, as Mesos has it since 1.0."""
    packed = base64.urlsafe_b64encode(zlib.compress(json_line(info).encode())).decode().rstrip("=")
    uuids = [device["UUID"] for device in info["Devices"]]
    resources = f"gpus:{len(uuids)}" if scalar else f"gpus:{{{','.join(uuids)}}}"
    return f"--attributes=gpus:{packed} --resources={resources}"
