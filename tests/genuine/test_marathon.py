"""What our Marathon does for its users, under a genuine master: pods, jobs, volumes, fractions, two of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.mesos.shares.gpu_links import labelled_cards
from tests.genuine.box import PATIENT, GenuineBox, MakeBox
from tests.genuine.releases import Release
from tests.support.zookeeper import RealZooKeeper

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

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
            "name": "reader",
            "exec": {"command": {"shell": "while ! grep -q UUID s/gpus; do sleep 0.1; done; sleep 1000"}},
            "resources": {"cpus": 0.1, "mem": 32},
            "healthCheck": {
                "exec": {"command": {"shell": "grep -q UUID s/gpus"}},
                "delaySeconds": 0,
                "intervalSeconds": 6,
                "timeoutSeconds": 5,
                "maxConsecutiveFailures": 100,
            },
            "volumeMounts": [{"name": "shared", "mountPath": "s"}],
        },
    ],
}
KEEPER = {
    "id": "/keep",
    "cmd": "echo run >> data/log; cp data/log $OUT; exec sleep 1000",
    "cpus": 0.1,
    "mem": 32,
    "gpus": 1,
    "container": {"type": "MESOS", "volumes": [{"containerPath": "data", "mode": "RW", "persistent": {"size": 50}}]},
}


def pod_status(box: GenuineBox) -> Any:
    return box.marathon("GET", "/v2/pods/duo::status")


def test_pods_run_as_task_groups_with_gpus_and_go(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=4, marathon=True, agent_flags=PATIENT)
    box.marathon("POST", "/v2/pods", POD)
    box.until("the pod is well", lambda: pod_status(box)["status"] == "STABLE")
    (instance,) = pod_status(box)["instances"]
    assert [container["status"] for container in instance["containers"]] == ["TASK_RUNNING"] * 2
    # Every status that the executor says is acknowledged, or the pod would not end.
    box.agents[0].kill()
    box.agents[0].start()
    shown = {row["id"]: row["gpus"] for row in box.told("task", "list")}
    assert list(shown.values()) == [1, 1], "they share it"
    box.marathon("DELETE", "/v2/pods/duo")
    box.until("it is gone", lambda: set(box.tasks().values()) == {"TASK_KILLED"})
    box.until("the executor, too", lambda: box.agents[0].state()["frameworks"] == [])


def test_what_agents_tell_of_links_and_cards_passes_through(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=4, marathon=True)
    box.run_app({"id": "/odd", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    box.run_app({"id": "/pair", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 2})
    (agent,) = box.state()["slaves"]
    assert agent["attributes"]["gpu_nvlink"] == "0-1/2-3"
    (framework,) = box.state()["frameworks"]
    told = {task["name"]: labelled_cards(_v1(task["statuses"][-1])) for task in framework["tasks"]}
    assert told == {"odd": (0,), "pair": (2, 3)}


def _v1(status: dict[str, Any]) -> dict[str, Any]:
    """A status of /state as messages have it: its labels lie in one more level there."""
    return {**status, "labels": {"labels": status.get("labels", [])}}


def test_jobs_run_once_and_fractions_of_gpus_never(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=2, marathon=True)
    ran = box.work_dir / "ran"
    run = {"cmd": f"nvidia-smi -L >> {ran}", "cpus": 0.1, "mem": 32, "gpus": 2}
    box.marathon("POST", "/v1/jobs", {"id": "once", "run": run})
    box.marathon("POST", "/v1/jobs/once/runs")
    history = "/v1/jobs/once?embed=historySummary"
    box.until("it ran", lambda: box.marathon("GET", history)["historySummary"]["successCount"] == 1)
    assert ran.read_text().count("UUID: ") == 2
    half = {"id": "/half", "cmd": "true", "cpus": 0.1, "mem": 32, "gpus": 0.5}
    refused = box.cli("app", "add", "-", text=json.dumps(half))
    assert (refused.returncode, "whole" in refused.stderr) == (1, True), refused


def test_volumes_and_reserved_gpus_outlive_tasks_and_go_with_their_app(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=2, marathon=True)
    out = box.work_dir / "out"
    (first,) = box.run_app({**KEEPER, "env": {"OUT": str(out)}})
    (agent,) = box.state()["slaves"]
    (reserved,) = agent["reserved_resources"].values()
    assert (reserved["gpus"], reserved["disk"]) == (1, 50)
    box.agents[0].kill()
    box.agents[0].start()
    box.marathon("POST", "/v2/apps/keep/restart")
    box.until("it has run twice", lambda: out.exists() and out.read_text() == "run\n" * 2)
    box.until("it runs", lambda: set(box.instances("keep").values()) == {"TASK_RUNNING"})
    assert first not in box.instances("keep")
    box.marathon("DELETE", "/v2/apps/keep")
    box.until("nothing is reserved", lambda: not box.state()["slaves"][0]["reserved_resources"])


def test_of_two_marathons_the_second_takes_over_and_finds_the_master_by_zookeeper(
    release: Release, make_box: MakeBox, zookeeper: RealZooKeeper
) -> None:
    box = make_box(release, gpus=2)
    with box.in_zookeeper(zookeeper) as masters:
        flags = {"master": masters, "zk": zookeeper.url(f"marathon-{box.genuine.port}"), "zk_session_timeout": 2000}
        first = box.start_marathon("m1", flags)
        (task,) = box.run_app({"id": "/a", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
        info = box.marathon("GET", "/v2/info")
        assert info["marathon_config"]["mesos_leader_ui_url"].rstrip("/") == box.url
        second = box.start_marathon("m2", flags)
        assert second != first
        box.stop_marathon("m1")
        box.until("it leads", lambda: box.marathon("GET", "/v2/leader")["leader"] == second.removeprefix("http://"))
        box.until("it has the task", lambda: box.instances("a") == {task: "TASK_RUNNING"})
        box.until("it knows the master", lambda: box.told("agent", "list")[0]["id"] == box.agents[0].id)
        assert box.tasks() == {task: "TASK_RUNNING"}


def test_a_gang_starts_whole_on_the_offers_of_two_machines_once_others_have_given_way(
    newest: Release, make_box: MakeBox
) -> None:
    box = make_box(newest, agents=2, gpus=2, marathon=True)
    plain = {"cmd": "sleep 1000", "cpus": 0.1, "mem": 32}
    cheap = box.run_app({**plain, "id": "/cheap", "gpus": 1, "instances": 3, "preemptible": True})
    box.marathon("POST", "/v2/apps", {**plain, "id": "/gang", "gpus": 2, "gang": {"size": 2}, "priority": 5})
    box.until("both run", lambda: list(box.instances("gang").values()) == ["TASK_RUNNING"] * 2)
    tasks = box.marathon("GET", "/v2/apps/gang/tasks")["tasks"]
    assert (len({task["slaveId"] for task in tasks}), len({task["gang"]["id"] for task in tasks})) == (2, 1)
    assert {box.tasks()[task_id] for task_id in cheap} == {"TASK_KILLED"}
