"""`mesos-gpu share` and `cgpu-smi`, against scripted agents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from marathon_cli.cgpu_smi import main, rows, table
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

TASK = "train.instance-1._app.1"
CONTAINER = "73b345a7-dbbe-458f-b693-37dd485c0963"


def card(used_s: float = 1.0, *, policy: int = 1) -> dict[str, Any]:
    one = {"container_id": CONTAINER, "task_id": TASK, "weight": 2, "high_priority": True, "memory_mib": 6043}
    one |= {"memory_used_mib": 100, "memory_level": "watcher", "part": 0.5, "used_s": used_s, "frozen_s": 0.25}
    said = {"policy": policy, "max_inst": 25, "prio_ratio": 90, "free_weight": 23, "memory_mib": 15109}
    return {"index": 2, "uuid": "GPU-2", "memory_level": "watcher", **said, "containers": [one]}


@pytest.fixture
def cluster(marathon: ScriptedServer) -> ScriptedServer:
    """One agent that shares a card."""
    pid = f"slave(1)@{marathon.url.removeprefix('http://')}"
    agent = {"id": "A-S0", "hostname": "gpu1", "pid": pid, "resources": {"cpus": 4}}
    agent["attributes"] = {"gpu_shared_cards": "2=GPU-2/15"}
    marathon.on("GET", "/slaves", {"slaves": [agent]})
    marathon.on("GET", "/gpu_shares", Answer(200, [card()]))
    return marathon


def test_parts_are_listed_card_by_card(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    head, line = run("share", "list", "-o", "wide").output.splitlines()
    assert head.split()[:3] == ["AGENT", "GPU", "POLICY"]
    assert line.split() == [
        *("gpu1", "2", "preemptive", "25", "23", "/train", "2", "high", "6043/15109", "MiB", "100", "MiB", "watcher"),
        *("50%", CONTAINER),
    ]
    (found,) = json.loads(run("share", "list", "-o", "json").output)
    assert (found["app"], found["frozen_s"]) == ("/train", 0.25)
    cluster.on("GET", "/slaves", {"slaves": []})
    assert run("share", "list").stderr == golden


def test_a_card_and_a_task_are_changed_by_what_people_call_them(cluster: ScriptedServer, run: Run) -> None:
    cluster.on("POST", "/gpu_shares/set", Answer(200, [card(policy=3)]))
    found = run("share", "set", "2", "--policy", "fixed", "--agent", cluster.url)
    assert " fixed " in found.output
    assert run("share", "set", "/train", "--weight", "4", "--agent", cluster.url).exit_code == 0
    bodies = [request.body for request in cluster.sent("POST")]
    assert bodies == [{"card": 2, "policy": 3}, {"container_id": CONTAINER, "weight": 4}]


@pytest.mark.parametrize(
    "argv",
    [
        ("2", "--weight", "4"),
        ("train", "--policy", "2"),
        ("2",),
        ("7", "--policy", "2"),
    ],
)
def test_what_cannot_be_meant_is_said(cluster: ScriptedServer, run: Run, argv: tuple[str, ...], golden: Golden) -> None:
    found = run("share", "set", *argv, "--agent", cluster.url)
    assert found.exit_code != 0
    assert found.stderr == golden


def test_cgpu_smi_shows_what_each_container_uses_and_may(cluster: ScriptedServer) -> None:
    assert rows([card(1.0)], [card(1.5)], 1.0) == [("2", CONTAINER, "50%", "50%", "100MiB", "6043MiB")]
    assert rows([], [card(1.5)], 1.0)[0][2] == "-"
    assert "GPU-Util" in table([])
    found = CliRunner().invoke(main, ["--agent", cluster.url])
    assert CONTAINER in found.output
    lost = CliRunner().invoke(main, ["--agent", "http://127.0.0.1:1"])
    assert lost.exit_code == 1
