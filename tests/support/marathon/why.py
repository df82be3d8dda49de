"""Agents and apps for the tables of this room."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.matching.machines import Machine, read_machine


def agent(name: str = "gpu1", **more: Any) -> Machine:
    """An agent with 4 GPUs, 8 CPUs and 16 GiB, of which `used` is taken."""
    amounts = {"cpus": 8, "gpus": 4, "mem": 16384, "disk": 1000, **more.pop("total", {})}
    document = {
        "id": f"A-{name}",
        "hostname": name,
        "pid": f"slave(1)@{name}:5051",
        "resources": {"ports": "[31000-32000]", **amounts},
        "used_resources": more.pop("used", {}),
        "offered_resources": more.pop("offered", {}),
        **more,
    }
    return read_machine(document)


def app(**more: Any) -> dict[str, Any]:
    """An app of one instance that asks for two GPUs."""
    return {"id": "/train", "cmd": "./train", "cpus": 1, "mem": 128, "gpus": 2, "instances": 1, "role": "ml", **more}
