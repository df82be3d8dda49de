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
from tests.support.doors.golden import INFO, INFO_TEXT, STATUS, STATUS_TEXT

NO_PEERS = """  Clocks
    Cores:        1328 MHz
    Memory:       715 MHz
  P2P Available:  None

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
