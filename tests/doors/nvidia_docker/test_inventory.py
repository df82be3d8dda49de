"""What nvidia-docker-plugin 1.0.1 showed, byte for byte."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from mesos_gpu.doors.nvidia_docker.inventory import (
    gpu_info,
    gpu_status,
    info_text,
    json_line,
    mesos_arguments,
    status_text,
)

INFO: dict[str, Any] = {
    "Version": {"Driver": "390.48", "CUDA": "9.1"},
    "Devices": [
        {
            "UUID": "GPU-1d0f",
            "Path": "/dev/nvidia0",
            "Model": "Tesla P100-PCIE-16GB",
            "Power": 250,
            "CPUAffinity": 0,
            "PCI": {"BusID": "0000:3B:00.0", "BAR1": 16384, "Bandwidth": 15760},
            "Clocks": {"Cores": 1328, "Memory": 715},
            "Topology": [{"BusID": "0000:AF:00.0", "Link": 1}],
            "Family": "Pascal",
            "Arch": "6.0",
            "Cores": 3584,
            "Memory": {
                **{"ECC": True, "Global": 16276, "Shared": 64, "Constant": 64, "L2Cache": 4096, "Bandwidth": 732160},
            },
        }
    ],
}
INFO_TEXT = """
Driver version:          390.48
Supported CUDA version:  9.1

Device #0
  Model:         Tesla P100-PCIE-16GB
  UUID:          GPU-1d0f
  Path:          /dev/nvidia0
  Family:        Pascal
  Arch:          6.0
  Cores:         3584
  Power:         250 W
  CPU Affinity:  NUMA node0
  PCI
    Bus ID:     0000:3B:00.0
    BAR1:       16384 MiB
    Bandwidth:  15760 MB/s
  Memory
    ECC:        true
    Global:     16276 MiB
    Constant:   64 KiB
    Shared:     64 KiB
    L2 Cache:   4096 KiB
    Bandwidth:  732160 MB/s
  Clocks
    Cores:   1328 MHz
    Memory:  715 MHz
  P2P Available
    0000:AF:00.0 - Cross CPU socket

"""
NO_PEERS = """  Clocks
    Cores:        1328 MHz
    Memory:       715 MHz
  P2P Available:  None

"""
STATUS: dict[str, Any] = {
    "Devices": [
        {
            "Power": 61,
            "Temperature": 41,
            "Utilization": {"GPU": 12, "Memory": 3, "Encoder": 0, "Decoder": 0},
            "Memory": {"GlobalUsed": 2310, "ECCErrors": {"L1Cache": 0, "L2Cache": 0, "Global": 0}},
            "Clocks": {"Cores": 1189, "Memory": 715},
            "PCI": {"BAR1Used": 2, "Throughput": {"RX": 4, "TX": 1}},
            "Processes": [{"PID": 4711, "Name": "python3", "MemoryUsed": 2303}],
        }
    ]
}
STATUS_TEXT = """
Device #0
  Power:        61 / 250 W
  Temperature:  41 °C
  Utilization
    GPU:      12 %
    Memory:   3 %
    Encoder:  0 %
    Decoder:  0 %
  Memory
    Global:  2310 / 16276 MiB
    ECC Errors
      L1 Cache:  0
      L2 Cache:  0
      Global:    0
  PCI
    BAR1:  2 / 16384 MiB
    Throughput
      RX:  4 MB/s
      TX:  1 MB/s
  Clocks
    Cores:   1189 MHz
    Memory:  715 MHz
  Processes
    - PID:     4711
      Name:    python3
      Memory:  2303 MiB

"""
DRIVER: dict[str, Any] = {
    "version": "390.48",
    "cuda_version": "9.1",
    "gpus": [
        {
            **{"uuid": f"GPU-{n}", "index": n, "name": "Some <GPU> & more", "memory_total_mib": 16276},
            "bus_id": f"00000000:{n + 1:02x}:00.0",
            "devices": [{"path": f"/dev/nvidia{n}"}],
            "links": {"GPU-0": {"level": 10, "nvlinks": 4}, "GPU-1": {"level": 10, "nvlinks": 0}},
        }
        for n in range(2)
    ],
}


def test_info_is_the_golden_text() -> None:
    assert info_text(INFO) == INFO_TEXT


def test_without_peers_their_line_widens_the_clocks() -> None:
    alone = {**INFO, "Devices": [{**INFO["Devices"][0], "Topology": None}]}
    assert info_text(alone).endswith(NO_PEERS)


def test_two_devices_have_one_empty_line_between_them_and_none_is_a_heading() -> None:
    two = info_text({**INFO, "Devices": INFO["Devices"] * 2})
    assert "Cross CPU socket\n\nDevice #1\n" in two
    assert info_text({**INFO, "Devices": []}) == ("\nDriver version:          390.48\nSupported CUDA version:  9.1\n\n")


def test_status_is_the_golden_text() -> None:
    assert status_text(STATUS, INFO) == STATUS_TEXT
    idle = {"Devices": [{**STATUS["Devices"][0], "Processes": None}]}
    assert status_text(idle, INFO).endswith(
        "  Clocks\n    Cores:    1189 MHz\n    Memory:   715 MHz\n  Processes:  None\n\n"
    )
    assert status_text({"Devices": []}, {"Devices": []}) == "\n"


def test_what_the_agent_does_not_tell_is_null_and_not_zero() -> None:
    info = gpu_info(DRIVER)
    first = info["Devices"][0]
    assert list(first) == list(INFO["Devices"][0]), "in the order of the original"
    assert (first["Model"], first["Power"], first["Memory"]["Global"]) == ("Some <GPU> & more", None, 16276)
    assert first["PCI"]["BusID"] == "0000:01:00.0"
    assert {"BusID": "0000:02:00.0", "Link": 5} in first["Topology"]
    text = info_text(info)
    assert "  Power:         N/A\n" in text
    assert "  CPU Affinity:  N/A\n" in text
    assert "    0000:02:00.0 - Single PCI switch\n" in text
    known = {**DRIVER["gpus"][0], "details": {"arch": "3.7", "ecc": False, "numa_node": 1}}
    told = gpu_info({**DRIVER, "gpus": [known]})
    assert (told["Devices"][0]["Family"], told["Devices"][0]["Arch"]) == ("Kepler", "3.7")
    assert "    ECC:        false\n" in info_text(told)
    assert "  CPU Affinity:  NUMA node1\n" in info_text(told)


def test_status_has_what_the_agent_measures() -> None:
    status = gpu_status([{"power_w": 61.4, "temperature_c": 41, "utilization_percent": 0, "memory_used_mib": 5}, {}])
    first, second = status["Devices"]
    assert (first["Power"], first["Temperature"], first["Utilization"]["GPU"]) == (61, 41, 0)
    assert second["Power"] is None
    text = status_text(status, gpu_info(DRIVER))
    assert "    GPU:      0 %\n" in text
    assert "    Global:  5 / 16276 MiB\n" in text
    assert "\n\nDevice #1\n" in text


def test_json_is_gos() -> None:
    assert json_line({"a": "<é&>", "b": None}) == '{"a":"\\u003cé\\u0026\\u003e","b":null}\n'


def test_mesos_flags_carry_the_inventory() -> None:
    text = mesos_arguments(INFO)
    attributes, resources = text.split(" ")
    assert resources == "--resources=gpus:{GPU-1d0f}"
    packed = attributes.removeprefix("--attributes=gpus:")
    assert "=" not in packed
    unpacked = zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    assert unpacked.decode() == json_line(INFO)
    assert json.loads(unpacked) == INFO
    assert mesos_arguments(INFO, scalar=True).endswith(" --resources=gpus:1")
