#!/usr/bin/env python3
"""A Mesos framework of one task: run a command with one GPU of its own, print each status, exit 0 when it finished.

    python examples/gpu_framework.py [HOST:PORT of the master] [COMMAND ...]

It uses pymesos and nothing else, so it runs unchanged on any Mesos master: the box of `mesos-gpu up`, or a real one. To
a master that asks who is there it shows MESOS_PRINCIPAL and MESOS_SECRET; of a box these are `box` and what the file
access/secret of its work_dir has.
"""

from __future__ import annotations

import os
import queue
import sys
import uuid
from typing import Any

from pymesos import MesosSchedulerDriver, Scheduler

NEEDS = {"cpus": 0.1, "mem": 32.0, "gpus": 1.0}
ENDED = {"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE"}
PATIENCE_S = 300.0


class OneGpuTask(Scheduler):  # type: ignore[misc]
    """Launches its one task on the first offer that has a GPU; hands every status to the main thread."""

    def __init__(self, command: str) -> None:
        self.command, self.task_id = command, f"one-gpu-{uuid.uuid4().hex[:8]}"
        self.statuses: queue.Queue[dict[str, Any]] = queue.Queue()
        self.launched = False

    def registered(self, driver: Any, framework_id: dict[str, Any], master_info: dict[str, Any]) -> None:
        print(f"subscribed as {framework_id['value']} to {master_info['hostname']}:{master_info['port']}", flush=True)

    def resourceOffers(self, driver: Any, offers: list[dict[str, Any]]) -> None:
        for offer in offers:
            has = {r["name"]: r["scalar"]["value"] for r in offer["resources"] if r["type"] == "SCALAR"}
            if self.launched or any(has.get(name, 0.0) < value for name, value in NEEDS.items()):
                driver.declineOffer(offer["id"])
                continue
            self.launched = True
            print(f"launching {self.task_id} on {offer['hostname']}, which offers {has['gpus']:g} GPUs", flush=True)
            driver.launchTasks(offer["id"], [self.task(offer["agent_id"])])

    def task(self, agent_id: dict[str, Any]) -> dict[str, Any]:
        resources = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in NEEDS.items()]
        return {
            "task_id": {"value": self.task_id},
            "agent_id": agent_id,
            "name": "one-gpu",
            "command": {"value": self.command},
            "resources": resources,
        }

    def statusUpdate(self, driver: Any, update: dict[str, Any]) -> None:
        self.statuses.put(update)

    def error(self, driver: Any, message: str) -> None:
        self.statuses.put({"state": "TASK_ERROR", "message": message})


def main() -> int:
    """Run the task; return 0 when it finished, 1 when it ended otherwise."""
    master = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5050"
    scheduler = OneGpuTask(" ".join(sys.argv[2:]) or "nvidia-smi")
    framework = {"name": "one-gpu", "user": "root", "checkpoint": True}
    driver = MesosSchedulerDriver(
        scheduler, framework, master, principal=os.environ.get("MESOS_PRINCIPAL"), secret=os.environ.get("MESOS_SECRET")
    )
    driver.start()
    state = ""
    try:
        while state not in ENDED:
            status = scheduler.statuses.get(timeout=PATIENCE_S)
            state = status["state"]
            print(state, status.get("message", ""), flush=True)
    except queue.Empty:
        print(f"no status for {PATIENCE_S:g} s", file=sys.stderr)
    finally:
        driver.stop()
        driver.join()
    return 0 if state == "TASK_FINISHED" else 1


if __name__ == "__main__":
    sys.exit(main())
