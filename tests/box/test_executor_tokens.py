"""The token of an executor on a single-node cluster with default settings: what it opens, and what it does not."""

from __future__ import annotations

import asyncio
import base64
import json
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN, basic_header
from tests.support.box.live import PATIENCE_S, LiveBox, nothing_left
from tests.support.master.live import Scheduler

pytestmark = pytest.mark.root
EXECUTOR = "custom"
POD = {
    "id": "/pod",
    "containers": [
        {"name": "one", "exec": {"command": {"shell": "echo up; sleep 1000"}}, "resources": {"cpus": 0.1, "mem": 32}}
    ],
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(Path(tmp_path_factory.mktemp("tokens")) / "box")
    with nothing_left(box):
        box.up("--gpu_driver=simulated", "--simulated_gpus=2", asks=True)
        yield box


def login(box: LiveBox) -> tuple[str, str]:
    return "box", (box.work_dir / "access" / "secret").read_text()


class Agent:
    """The API of the single-node cluster's agent, called as its owner or with a token."""

    def __init__(self, box: LiveBox) -> None:
        self.url, self._login = box.status()["agents"][0]["url"], login(box)

    def call(self, kind: str, body: dict[str, Any] | None = None, *, token: str | None = None) -> requests.Response:
        document = {"type": kind, **({} if body is None else {kind.lower(): body})}
        return self.ask("POST", "api/v1", token=token, json=document)

    def ask(self, method: str, path: str, *, token: str | None = None, **more: Any) -> requests.Response:
        header = basic_header(*self._login) if token is None else f"Bearer {token}"
        headers = {"Authorization": header, "Accept": "application/json"}
        return requests.request(method, f"{self.url}/{path}", headers=headers, timeout=PATIENCE_S, **more)

    def container_of(self, executor: str) -> str:
        """Return the id of an executor's container, "" while it has none."""
        listed = self.call("GET_CONTAINERS").json().get("get_containers", {}).get("containers", [])
        return next((one["container_id"]["value"] for one in listed if one["executor_id"]["value"] == executor), "")


async def launch_custom_executor(box: LiveBox) -> None:
    """Run a task with a custom executor as nobody; the executor only stores its environment in its sandbox."""
    authorization = {"Authorization": basic_header(*login(box))}
    scheduler = Scheduler(box.status()["master"]["url"])
    try:
        info = {"user": "nobody", "name": "test", "principal": "box", "failover_timeout": 3600.0}
        info |= {"checkpoint": True, "capabilities": [{"type": "GPU_RESOURCES"}]}
        assert await scheduler.open(info, **authorization) == 200
        scheduler.framework_id = (await scheduler.event("SUBSCRIBED"))["framework_id"]["value"]
        offer = await scheduler.offer()
        resources = [
            {**resource, "scalar": {"value": {"cpus": 0.1, "mem": 32.0}[resource["name"]]}}
            for resource in offer["resources"]
            if resource["name"] in ("cpus", "mem")
        ]
        command = {"value": "env > environment.new; mv environment.new environment; sleep 1000", "user": "nobody"}
        task = {
            "name": "task",
            "task_id": {"value": "task"},
            "agent_id": offer["agent_id"],
            "resources": resources,
            "executor": {"executor_id": {"value": EXECUTOR}, "command": command, "resources": resources},
        }
        operation = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
        accept = {"offer_ids": [offer["id"]], "operations": [operation]}
        assert (await scheduler.call("ACCEPT", accept, **authorization)).status == 202
    finally:
        await scheduler.close()


def token_of_custom_executor(box: LiveBox) -> str:
    def stored() -> list[Path]:
        return list(box.work_dir.glob(f"agent*/slaves/*/frameworks/*/executors/{EXECUTOR}/runs/*/environment"))

    box.until("the executor has stored its environment", stored)
    lines = dict(line.partition("=")[::2] for line in stored()[0].read_text().splitlines())
    return lines[EXECUTOR_TOKEN]


def test_an_executor_token_opens_the_executors_own_nested_containers_and_nothing_else(
    closed: LiveBox, tmp_path: Path
) -> None:
    closed.ok("pod", "add", "-", "--wait", text=json.dumps(POD))
    asyncio.run(launch_custom_executor(closed))
    token, agent = token_of_custom_executor(closed), Agent(closed)
    own, of_pod = agent.container_of(EXECUTOR), ""
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["cid"] == own
    for framework in agent.ask("GET", "state").json()["frameworks"]:
        for executor in framework["executors"]:
            if executor["id"] != EXECUTOR:
                of_pod = executor["container"]
    assert of_pod

    proof = tmp_path / "proof"
    as_root = {"value": f"id -u > {proof}", "user": "root"}
    refused = {
        kind: agent.call(kind, body, token=token).status_code
        for kind, body in {
            "LAUNCH_CONTAINER": {"container_id": {"value": "standalone"}, "command": as_root},
            "LAUNCH_NESTED_CONTAINER": {
                "container_id": {"value": "n", "parent": {"value": of_pod}},
                "command": {"value": f"id -u > {proof}"},
            },
            "LAUNCH_NESTED_CONTAINER_SESSION": {
                "container_id": {"value": "s", "parent": {"value": of_pod}},
                "command": {"value": f"id -u > {proof}"},
            },
            "KILL_NESTED_CONTAINER": {"container_id": {"value": "n", "parent": {"value": of_pod}}},
            "GET_FLAGS": None,
            "GET_STATE": None,
            "GET_TASKS": None,
            "GET_CONTAINERS": {"show_nested": True},
            "READ_FILE": {"path": "/slave/log", "offset": 0},
            "LIST_FILES": {"path": "/slave/log"},
            "PRUNE_IMAGES": {},
        }.items()
    }
    refused |= {
        path: agent.ask(method, path, token=token, json={"reference": "none"}).status_code
        for method, path in {
            ("GET", "state"),
            ("GET", "flags"),
            ("GET", "containers"),
            ("GET", "monitor/statistics"),
            ("GET", "gpus"),
            ("GET", "images"),
            ("GET", "files/debug"),
            ("POST", "images/pull"),
            ("POST", "gpus/leases"),
        }
    }
    nested = {"value": "n", "parent": {"value": own}}
    launch = {"container_id": nested, "command": as_root}
    refused["nested, as root"] = agent.call("LAUNCH_NESTED_CONTAINER", launch, token=token).status_code
    assert refused == dict.fromkeys(refused, 403)
    assert not proof.exists()

    # What it needs for its own tasks works.
    launch = {"container_id": nested, "command": {"value": "touch marker"}}
    assert agent.call("LAUNCH_NESTED_CONTAINER", launch, token=token).status_code == 200
    waited = agent.call("WAIT_NESTED_CONTAINER", {"container_id": nested}, token=token)
    assert (waited.status_code, waited.json()["wait_nested_container"]["exit_status"]) == (200, 0)
    [marker] = closed.work_dir.glob(f"agent*/slaves/*/frameworks/*/executors/{EXECUTOR}/runs/{own}/containers/n/marker")
    assert marker.stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert agent.call("REMOVE_NESTED_CONTAINER", {"container_id": nested}, token=token).status_code == 200
    assert "up" in closed.log_of("pod")

    # Masters and Marathon give out no tokens, and accept none.
    status = closed.status()
    for url in (f"{status['master']['url']}/state", f"{status['marathon']['url']}/v2/apps"):
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S).status_code == 401
    closed.ok("pod", "remove", "pod", "--wait")
