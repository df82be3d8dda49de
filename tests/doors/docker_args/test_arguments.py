"""A lease as Docker's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.doors.docker_args.arguments import docker_arguments, looking


def node(path: str, host: str = "") -> dict[str, Any]:
    return {"path": path, "host_path": host or path, "major": 195, "minor": 0}


MOUNTS = [{"source": "/v/nvidia_1", "destination": "/usr/local/nvidia", "read_only": True}]
DRIVER = {
    "control_devices": [node("/dev/nvidiactl")],
    "mounts": MOUNTS,
    "gpus": [
        {"uuid": f"GPU-{n}", "index": n, "devices": [node(f"/dev/nvidia{n}"), node("/dev/nvidia-caps/x")]}
        for n in range(2)
    ],
}


def test_a_lease_is_its_cidfile_devices_and_volumes() -> None:
    mounts = [*MOUNTS, {"source": "/s", "destination": "/t", "read_only": False}]
    use = {"cidfile": "/c", "devices": [node("/dev/nvidia0"), node("/dev/nvidia1", "/n/1")], "mounts": mounts}
    assert docker_arguments(use) == [
        *("--cidfile=/c", "--device=/dev/nvidia0", "--device=/n/1:/dev/nvidia1"),
        *("-v", "/v/nvidia_1:/usr/local/nvidia:ro", "-v", "/s:/t"),
    ]


def test_looking_shows_named_gpus_or_all_each_node_once() -> None:
    assert docker_arguments(looking(DRIVER, ["GPU-1"]))[:3] == [
        *("--device=/dev/nvidia1", "--device=/dev/nvidia-caps/x", "--device=/dev/nvidiactl"),
    ]
    every = docker_arguments(looking(DRIVER, []))
    assert every[0] == "--device=/dev/nvidia0"
    assert every.count("--device=/dev/nvidia-caps/x") == 1
    with pytest.raises(KeyError, match="7"):
        looking(DRIVER, ["0", "7"])
