"""What the walk of the recording `v0-driver-1.11.0.json` begins with, for every driver that takes it."""

from __future__ import annotations

from mesos_gpu.mesos.resource import Document
from tests.genuine.frameworks import Framework

OFFERS = ("resourceOffers", "offerRescinded")
INFO: Document = {
    "user": "root",
    "name": "v0",
    "failover_timeout": 30.0,
    "checkpoint": True,
    "hostname": "localhost",
    "capabilities": [{"type": "GPU_RESOURCES"}],
}
TASKS = [("long", 1.0, "sleep 1000"), ("half", 0.5, "true"), ("short", 1.0, "true")]
OUTCOMES = {
    "half": ["TASK_ERROR"],
    "long": ["TASK_STARTING", "TASK_RUNNING"],
    "short": ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"],
}


def task(offer: Document, task_id: str, gpus: float, line: str = "", **more: object) -> Document:
    wanted = {"cpus": 0.1, "mem": 32.0, "gpus": gpus}
    resources = [
        {"name": name, "type": "SCALAR", "scalar": {"value": value}} for name, value in wanted.items() if value
    ]
    document = {"name": task_id, "task_id": {"value": task_id}, "slave_id": offer["slave_id"], "resources": resources}
    return {**document, **(more or {"command": {"value": line}})}


def told(framework: Framework, driver: str, count: int) -> dict[str, list[str]]:
    """Return what a driver is told next of each task, in so many updates."""
    states: dict[str, list[str]] = {}
    for _ in range(count):
        status = framework.status(driver)
        states.setdefault(status["task_id"]["value"], []).append(status["state"])
    return states
