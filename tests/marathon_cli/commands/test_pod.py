"""`mesos-gpu pod ...` against a scripted Marathon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

Write = Callable[[Any], str]
NEW: dict[str, Any] = {
    "id": "/pair",
    "containers": [
        {"name": "train", "resources": {"cpus": 1, "mem": 64, "gpus": 2}, "exec": {"command": {"shell": "sleep 9"}}},
        {"name": "log", "resources": {"cpus": 0.1, "mem": 32}, "exec": {"command": {"shell": "sleep 9"}}},
    ],
    "scaling": {"kind": "fixed", "instances": 2},
}
VERSION = "2026-01-01T00:00:00.000Z"
POD = {**NEW, "version": VERSION}
INSTANCE = {
    "id": "pair.instance-1",
    "status": "STABLE",
    "agentHostname": "h1",
    "containers": [{"name": "train", "status": "TASK_RUNNING"}],
}
STATUS = {"id": "/pair", "spec": POD, "status": "DEGRADED", "statusSince": VERSION, "instances": [INSTANCE]}


@pytest.fixture
def pods(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/v2/pods/::status", Answer(200, [STATUS]))
    marathon.on("GET", "/v2/pods/pair::status", STATUS)
    marathon.on("GET", "/v2/pods/pair", POD)
    header = {"Marathon-Deployment-Id": "d-1"}
    marathon.on("POST", "/v2/pods", lambda request: Answer(201, {**request.body, "version": VERSION}, header))
    marathon.on("PUT", "/v2/pods/pair", lambda request: Answer(200, {**request.body, "version": VERSION}, header))
    marathon.on("DELETE", "/v2/pods/pair", Answer(202, b"", header))
    return marathon


def test_a_pod_is_checked_and_added(pods: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    assert run("pod", "add", app_file(NEW)).stdout == golden
    assert pods.sent("POST")[0].body == NEW
    bad = run("pod", "add", app_file({**NEW, "containers": [{"name": "a", "gpus": 1}]}))
    assert (bad.exit_code, bad.stderr) == (1, golden)
    assert run("pod", "add", app_file(NEW), "--dry-run").stdout == golden
    assert len(pods.sent("POST")) == 1


def test_adding_a_pod_is_waited_for(pods: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    stable = {**STATUS, "instances": [{"status": "STABLE"}, {"status": "STABLE"}]}
    pods.on("GET", "/v2/pods/pair::status", stable)
    result = run("pod", "add", app_file(NEW), "--wait")
    assert (result.exit_code, result.stderr) == (0, golden)


def test_pods_are_listed_and_shown(pods: ScriptedServer, run: Run, golden: Golden) -> None:
    row = run("pod", "list").stdout.splitlines()[1].split()
    assert row == ["/pair", "2", "1/2", "DEGRADED", "train,", "log", VERSION, VERSION, "---"]
    assert json.loads(run("pod", "show", "pair").stdout)["spec"] == POD
    shown = run("pod", "show", "pair", "-o", "table").stdout.splitlines()[1].split()
    assert shown == ["pair.instance-1", "STABLE", "h1", "train", "(running)"]
    assert run("pod", "show", "pari").stderr == golden


def test_a_pod_is_changed_as_a_whole(pods: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("pod", "update", "pair", "containers[0].resources.gpus=3", "scaling.instances=1", "--diff")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == golden
    body = pods.sent("PUT")[0].body
    assert body["containers"][0]["resources"] == {"cpus": 1, "mem": 64, "gpus": 3}
    assert body["containers"][1] == NEW["containers"][1]
    assert "version" not in body
    assert run("pod", "update", "pair", "containers[0].resources.gpus=0.5").stderr == golden
    scaled = run("pod", "update", "pair", "scaling.instances=3", "--dry-run")
    assert scaled.stdout == golden
    assert len(pods.sent("PUT")) == 1


def test_instances_are_killed_if_they_are_there(pods: ScriptedServer, run: Run, golden: Golden) -> None:
    def kill(request: Request) -> Answer:
        return Answer(200, [{"instanceId": {"idString": name}} for name in request.body])

    pods.on("DELETE", "/v2/pods/pair::instances", kill)
    assert run("pod", "kill", "pair", "pair.instance-1").stdout == golden
    assert run("pod", "kill", "pair", "pair.instance-2").stderr == golden
    assert len(pods.sent("DELETE")) == 1


def test_a_pod_is_removed(pods: ScriptedServer, run: Run, golden: Golden) -> None:
    assert run("pod", "remove", "pair").stdout == golden
