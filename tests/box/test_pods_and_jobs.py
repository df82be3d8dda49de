"""Pods and jobs on a whole box: real containers that share an executor, and runs that a killed Marathon keeps."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.box.live import LiveBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

POD = {
    "id": "duo",
    "volumes": [{"name": "shared"}],
    "containers": [
        {
            "name": "gpu",
            "exec": {"command": {"shell": "nvidia-smi -L > s/gpus; sleep 1000"}},
            "resources": {"cpus": 0.1, "mem": 32, "gpus": 1},
            "volumeMounts": [{"name": "shared", "mountPath": "s"}],
        },
        {
            "name": "web",
            "exec": {"command": {"shell": "cd s && exec python3 -m http.server --bind 127.0.0.1 $EP_HOST_HTTP"}},
            "resources": {"cpus": 0.1, "mem": 64},
            "endpoints": [{"name": "http", "hostPort": 0}],
            "healthCheck": {"http": {"endpoint": "http"}, "delaySeconds": 0, "intervalSeconds": 2, "timeoutSeconds": 1},
            "volumeMounts": [{"name": "shared", "mountPath": "s"}],
        },
    ],
}


POD_SMALL = {"cpus": 0.1, "mem": 32}


def call(box: LiveBox, method: str, path: str, document: Any = None) -> Any:
    answer = requests.request(method, box.status()["marathon"]["url"] + path, json=document, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def kill_marathon(box: LiveBox) -> None:
    """End Marathon as a power cut would; the box starts it again."""
    pid = box.status()["marathon"]["pid"]
    os.kill(pid, signal.SIGKILL)
    box.until(
        "Marathon is back", lambda: box.status()["marathon"]["pid"] not in (None, pid) and box.marathon("/v2/leader")
    )


def test_a_pod_shares_one_executor_and_jobs_run_once_over_kills_of_marathon(own_box: LiveBox, tmp_path: Path) -> None:
    box = own_box
    call(box, "POST", "/v2/pods", POD)
    box.until("the pod is well", lambda: box.marathon("/v2/pods/duo::status")["status"] == "STABLE")
    (instance,) = box.marathon("/v2/pods/duo::status")["instances"]
    before = [container["containerId"] for container in instance["containers"]]
    (endpoint,) = instance["containers"][1]["endpoints"]
    assert endpoint["healthy"] is True
    executors = list(box.work_dir.glob("agent1/slaves/*/frameworks/*/executors/*"))
    executors = [path for path in executors if not path.is_symlink()]
    assert [path.name for path in executors] == [f"instance-{instance['id']}.1"], "both run in one"
    url = f"http://127.0.0.1:{endpoint['allocatedHostPort']}/gpus"
    box.until(
        "one container reads what the other wrote", lambda: requests.get(url, timeout=5).text.count("UUID: ") == 1
    )
    assert box.gpus_free() == 3
    crashes = {"name": "c", "exec": {"command": {"shell": "echo no such weights >&2; exit 3"}}, "resources": POD_SMALL}
    call(box, "POST", "/v2/pods", {"id": "crash", "containers": [crashes]})
    box.until("its output is shown with its failure", lambda: "    no such weights" in box.ok("why", "crash"))
    box.until("the list says so", lambda: "failing" in box.ok("pod", "list"))
    # Now and then one of them is there that has written nothing yet.
    box.until("its words are shown", lambda: "no such weights" in box.ok("task", "log", "crash", "--stderr"))
    call(box, "DELETE", "/v2/pods/crash?force=true")

    # A job whose runs each leave a line behind; one is under way when Marathon dies.
    ran, go = tmp_path / "ran", tmp_path / "go"
    command = f"echo $MARATHON_APP_ID >> {ran}; nvidia-smi -L; while [ ! -e {go} ]; do sleep 0.1; done"
    call(box, "POST", "/v1/jobs", {"id": "once", "run": {"cmd": command, "cpus": 0.1, "mem": 32, "gpus": 1}})
    run = call(box, "POST", "/v1/jobs/once/runs")
    box.until("the run runs", lambda: ran.exists() and box.marathon("/v1/jobs/once/runs")[0]["status"] == "ACTIVE")
    assert box.gpus_free() == 2
    for _ in range(2):
        kill_marathon(box)
        assert [shown["id"] for shown in box.marathon("/v1/jobs/once/runs")] == [run["id"]]
    # It ends while nobody listens.
    pid = box.status()["marathon"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    go.touch()
    os.kill(pid, signal.SIGKILL)
    embedded = "/v1/jobs/once?embed=history"
    box.until("its end is known", lambda: box.marathon(embedded)["history"]["successCount"] == 1)
    (finished,) = box.marathon(embedded)["history"]["successfulFinishedRuns"]
    assert finished["id"] == run["id"]
    assert ran.read_text() == f"/once/{run['id']}\n", "once, and not again"

    box.until("the pod is as it was", lambda: box.marathon("/v2/pods/duo::status")["status"] == "STABLE")
    (instance,) = box.marathon("/v2/pods/duo::status")["instances"]
    assert [container["containerId"] for container in instance["containers"]] == before
    call(box, "DELETE", "/v2/pods/duo")
    box.until("all GPUs are free again", lambda: box.gpus_free() == 4)
    # The container without a GPU may end after the one with it.
    box.until("nothing is left of it", lambda: box.marathon("/v2/tasks")["tasks"] == [])
