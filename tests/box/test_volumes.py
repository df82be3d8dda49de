"""An app with a persistent volume and a GPU on a whole box: its data outlives tasks, programs, scaling to nothing."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import requests

from mesos_gpu.local.record import Records
from tests.support.box.live import LiveBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

KEEP = {
    "id": "keep",
    "cmd": "echo run >> data/log; cat data/log; nvidia-smi -L; echo ready; exec sleep 1000",
    "cpus": 0.1,
    "mem": 32,
    "gpus": 1,
    "container": {"type": "MESOS", "volumes": [{"containerPath": "data", "mode": "RW", "persistent": {"size": 50}}]},
}


class Keeper:
    """The app, as its user sees it."""

    def __init__(self, box: LiveBox) -> None:
        self.box = box

    def send(self, method: str, path: str, document: Any = None) -> Any:
        answer = requests.request(method, self.box.status()["marathon"]["url"] + path, json=document, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def task(self) -> dict[str, Any]:
        (task,) = self.box.tasks("keep")
        return task

    def until_run(self, number: int) -> dict[str, Any]:
        """Wait until the app has started for so many times, and has its GPU."""
        self.box.until(
            f"start {number} finds what the ones before it wrote",
            lambda: (
                (log := self.box.log_of("keep")).count("run\n") == number
                and "ready" in log
                and log.count("UUID: ") == 1
                and self.box.marathon("/v2/deployments") == []
            ),
        )
        return self.task()

    def reserved(self) -> dict[str, Any]:
        url = self.box.status()["master"]["url"]
        (agent,) = requests.get(f"{url}/slaves", timeout=60).json()["slaves"]
        found: dict[str, Any] = agent["reserved_resources"]
        return found


def test_data_and_gpu_are_there_for_every_later_task_until_the_app_goes(box: LiveBox) -> None:
    keeper = Keeper(box)
    url = box.status()["master"]["url"]
    (before,) = requests.get(f"{url}/slaves", timeout=60).json()["slaves"]
    box.add(KEEP)
    first = keeper.until_run(1)
    (volume,) = first["localVolumes"]
    assert (volume["runSpecId"], volume["containerPath"]) == ("/keep", "data")
    (kept,) = keeper.reserved().values()
    assert (kept["gpus"], kept["disk"], kept["cpus"]) == (1.0, 50.0, 0.1)

    keeper.send("POST", "/v2/apps/keep/restart")
    assert keeper.until_run(2)["localVolumes"] == [volume]

    # Both programs that know of the volume die, and then the task that uses it.
    noted = Records(box.work_dir).read()
    assert noted is not None
    for name in ("marathon", "agent1"):
        os.kill(noted.services()[name].pid, signal.SIGKILL)
    box.until("all is up again", lambda: box.status()["agents"] and keeper.task()["state"] == "TASK_RUNNING")
    keeper.send("DELETE", "/v2/apps/keep/tasks")
    assert keeper.until_run(3)["localVolumes"] == [volume]

    keeper.send("PUT", "/v2/apps/keep", {"instances": 0})
    box.until("it has stopped", lambda: keeper.task()["state"] == "TASK_KILLED")
    assert keeper.task()["localVolumes"] == [volume]
    assert keeper.reserved() == {"slave_public": kept}, "what is reserved stays"
    keeper.send("PUT", "/v2/apps/keep", {"instances": 1})
    assert keeper.until_run(4)["localVolumes"] == [volume]

    keeper.send("DELETE", "/v2/apps/keep/tasks?wipe=true")
    wiped = keeper.until_run(1)
    assert wiped["localVolumes"] != [volume], "a new instance with a new volume"

    keeper.send("DELETE", "/v2/apps/keep")
    box.until("nothing is reserved", lambda: keeper.reserved() == {})
    (after,) = requests.get(f"{url}/slaves", timeout=60).json()["slaves"]
    assert after["unreserved_resources"] == before["unreserved_resources"]
    # The master books an operation at once, and the agent follows.
    left = box.work_dir / "agent1" / "volumes" / "roles"
    box.until("no folder of a volume is left", lambda: not list(left.glob("*/*")))


POD = {
    "id": "keep-pod",
    "volumes": [{"name": "data", "persistent": {"size": 50}}],
    "scheduling": {"upgrade": {"minimumHealthCapacity": 0}},
    "containers": [
        {
            "name": "writer",
            "exec": {"command": {"shell": "echo run >> here/log; nvidia-smi -L >> here/gpus; exec sleep 1000"}},
            "resources": {"cpus": 0.1, "mem": 32, "gpus": 1},
            "volumeMounts": [{"name": "data", "mountPath": "here"}],
        },
        {
            "name": "reader",
            "exec": {
                "command": {
                    "shell": "echo no > there/x && exit 1; while sleep 0.1; do cp there/log there/gpus .; done",
                }
            },
            "resources": {"cpus": 0.1, "mem": 32},
            "volumeMounts": [{"name": "data", "mountPath": "there", "readOnly": True}],
        },
    ],
}


def test_containers_of_a_pod_share_a_volume_that_outlives_them(box: LiveBox) -> None:
    keeper = Keeper(box)

    def instance() -> dict[str, Any]:
        (only,) = box.marathon("/v2/pods/keep-pod::status")["instances"]
        return dict(only)

    def until_run(number: int) -> list[dict[str, Any]]:
        def settled() -> bool:
            if box.marathon("/v2/deployments") or instance()["status"] != "STABLE":
                return False
            reader = instance()["containers"][1]["containerId"]
            copies = list(box.work_dir.glob(f"agent1/slaves/*/frameworks/*/executors/*/runs/latest/tasks/{reader}/log"))
            return [path.read_text() for path in copies] == ["run\n" * number]

        box.until(f"start {number} finds what the ones before it wrote, and another container reads it", settled)
        return list(instance()["localVolumes"])

    keeper.send("POST", "/v2/pods", POD)
    (volume,) = until_run(1)
    assert (volume["runSpecId"], volume["containerPath"]) == ("/keep-pod", "data")
    (kept,) = keeper.reserved().values()
    assert (kept["gpus"], kept["disk"]) == (1.0, 60.0), "the volume, and the executor's own disk"

    keeper.send("PUT", "/v2/pods/keep-pod", {**POD, "labels": {"a": "b"}})
    assert until_run(2) == [volume]
    keeper.send("DELETE", f"/v2/pods/keep-pod::instances/{instance()['id']}?wipe=true")
    assert until_run(1) != [volume]
    requests.delete(f"{box.status()['marathon']['url']}/v2/pods/keep-pod", timeout=60).raise_for_status()
    box.until("nothing is reserved", lambda: keeper.reserved() == {})
    # The master books an operation at once, and the agent follows.
    left = box.work_dir / "agent1" / "volumes" / "roles"
    box.until("no folder of a volume is left", lambda: not list(left.glob("*/*")))
