"""`mesos-gpu group, deployment, queue, leader, about, ping, task show|kill, agent ...` against scripted servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import places
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

Write = Callable[[Any], str]
VERSION = "2026-01-01T00:00:00.000Z"
WEB = {"id": "/prod/web", "instances": 3, "gpus": 2}
POD = {
    "id": "/prod/pair",
    "containers": [{"resources": {"gpus": 1}}, {"resources": {"gpus": 2}}],
    "scaling": {"instances": 2},
}
ROOT: dict[str, Any] = {
    "id": "/",
    "version": VERSION,
    "groups": [
        {"id": "/prod", "apps": [WEB], "pods": [POD], "enforceRole": True, "version": VERSION, "groups": []},
        {"id": "/dev", "groups": [{"id": "/dev/a", "apps": [{"id": "/dev/a/x", "instances": 1}]}]},
    ],
}


@pytest.fixture
def tree(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/v2/groups", ROOT)
    marathon.on("GET", "/v2/groups/prod", ROOT["groups"][0])
    for method in ("POST", "PUT", "DELETE"):
        for path in ("/v2/groups", "/v2/groups/prod"):
            marathon.on(method, path, {"deploymentId": "d-1", "version": VERSION})
    return marathon


def test_groups_count_all_that_is_in_them(tree: ScriptedServer, run: Run, golden: Golden) -> None:
    header, *rows = [line.split() for line in run("group", "list").stdout.splitlines()]
    assert header == ["ID", "APPS", "PODS", "INSTANCES", "GPUS", "ENFORCE_ROLE", "VERSION"]
    assert rows[0][:6] == ["/dev", "1", "0", "1", "0", "false"]
    assert rows[1][:2] == ["/dev/a", "1"]
    assert rows[2] == ["/prod", "1", "1", "5", "12", "true", VERSION]
    assert run("group", "list", "-q").stdout.split() == ["/dev", "/dev/a", "/prod"]
    assert json.loads(run("group", "show").stdout)["id"] == "/"
    assert run("group", "show", "prd").stderr == golden


def test_a_group_of_a_version_is_asked_for(tree: ScriptedServer, run: Run) -> None:
    tree.on("GET", f"/v2/groups/prod/versions/{VERSION}", {"id": "/prod", "apps": []})
    assert json.loads(run("group", "show", "prod", "--version", VERSION).stdout)["apps"] == []


GROUP = {"id": "prod", "apps": [{"id": "db", "cmd": "sleep 9"}]}


def test_a_group_is_checked_and_added(tree: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    assert run("group", "add", app_file(GROUP)).stdout == golden
    assert tree.sent("POST")[0].body == GROUP
    bad = run("group", "add", app_file({"id": "prod", "apps": [{"id": "db", "cmd": "x y", "gpuz": 1}]}))
    assert bad.stderr == golden
    assert run("group", "add", "--id", "empty").exit_code == 0
    assert [request.body for request in tree.sent("POST")[1:]] == [{"id": "/empty"}]
    tree.on("POST", "/v2/groups", Answer(409, {"message": "Group /prod is already created."}))
    assert run("group", "add", app_file(GROUP)).stderr == golden
    assert run("group", "add", app_file(GROUP), "--id", "x").exit_code == 2


def test_a_dry_run_shows_the_steps_that_the_server_would_take(tree: ScriptedServer, run: Run, app_file: Write) -> None:
    steps = [{"actions": [{"action": "StartApplication", "app": "/prod/db"}]}]
    tree.on("PUT", "/v2/groups/prod", {"steps": steps})
    for words in (("add", app_file(GROUP)), ("update", "prod", "-f", app_file(GROUP)), ("scale", "prod", "2")):
        result = run("group", *words, "--dry-run")
        assert result.stdout.splitlines()[1].split() == ["1", "StartApplication", "/prod/db"], result.stderr
    assert {request.query["dryRun"] for request in tree.sent("PUT")} == {"true"}
    assert tree.sent("POST") == []


def test_a_group_is_changed_scaled_and_led_back(
    tree: ScriptedServer, run: Run, app_file: Write, golden: Golden
) -> None:
    assert run("group", "update", "prod", "enforceRole=false").exit_code == 0
    assert run("group", "update", "prod", f"version={VERSION}").exit_code == 0
    assert run("group", "update", "/prod", "--file", app_file(GROUP), "--force").exit_code == 0
    assert run("group", "scale", "prod", "1.5").exit_code == 0
    expected = [{"enforceRole": False}, {"version": VERSION}, {"apps": GROUP["apps"]}, {"scaleBy": 1.5}]
    assert [request.body for request in tree.sent("PUT")] == expected
    assert run("group", "update", "dev", "-f", app_file(GROUP)).stderr == golden


def test_removing_everything_must_be_meant(tree: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("group", "remove", "/")
    assert (result.exit_code, result.stderr) == (1, golden)
    assert tree.sent("DELETE") == []
    assert run("group", "remove", "prod").stdout == golden
    assert run("group", "remove", "/", "--yes").exit_code == 0
    assert len(tree.sent("DELETE")) == 2


DEPLOYMENTS: list[dict[str, Any]] = [
    {
        "id": "d-1",
        "version": VERSION,
        "affectedApps": ["/a"],
        "affectedPods": ["/p"],
        "steps": [],
        "currentActions": [{"action": "RestartApplication", "app": "/a"}],
        "currentStep": 2,
        "totalSteps": 3,
    },
    {"id": "e-2", "affectedApps": ["/b"], "currentStep": 0, "totalSteps": 1},
]


@pytest.fixture
def deploying(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/v2/deployments", Answer(200, DEPLOYMENTS))
    return marathon


def test_deployments_are_listed_with_steps_done(deploying: ScriptedServer, run: Run) -> None:
    _, first, second = run("deployment", "list").stdout.splitlines()
    assert first.split() == ["d-1", "/a,", "/p", "RestartApplication", "1/3", VERSION]
    assert second.split()[:4] == ["e-2", "/b", "---", "0/1"]
    assert run("deployment", "list", "b", "-q").stdout == "e-2\n"


def test_no_deployments_is_an_empty_table(marathon: ScriptedServer, run: Run) -> None:
    result = run("deployment", "list")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)


def test_a_deployment_is_led_back_or_stopped(deploying: ScriptedServer, run: Run, golden: Golden) -> None:
    deploying.on("DELETE", "/v2/deployments/d-1", {"deploymentId": "d-9", "version": VERSION})
    said = run("deployment", "rollback", "d").stdout
    assert said == golden
    deploying.on("DELETE", "/v2/deployments/e-2", Answer(202, b""))
    assert run("deployment", "stop", "e-2").stdout == golden
    assert [request.query["force"] for request in deploying.sent("DELETE")] == ["false", "true"]
    unknown = run("deployment", "stop", "d-7")
    assert (unknown.exit_code, unknown.stderr) == (1, golden)
    assert run("deployment", "watch").stderr == golden


def test_watching_a_deployment_that_is_stopped_is_no_success(
    marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    running = {**DEPLOYMENTS[1], "affectedApps": ["/b"], "version": VERSION}
    marathon.on("GET", "/v2/deployments", [Answer(200, [running]), Answer(200, [running]), Answer(200, [])])
    app = {"id": "/b", "instances": 1, "tasksRunning": 0, "tasks": [], "version": VERSION, "deployments": []}
    marathon.on("GET", "/v2/apps/b", {"app": app})
    marathon.on("GET", "/v2/queue", {"queue": [{"app": {"id": "/b"}, "delay": {"timeLeftSeconds": 0}}]})
    result = run("deployment", "watch")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_watching_a_deployment_to_its_end_is_success(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v2/deployments", [Answer(200, DEPLOYMENTS[1:]), Answer(200, [])])
    app = {"id": "/b", "instances": 1, "tasksRunning": 1, "tasks": [{"state": "TASK_RUNNING"}], "version": VERSION}
    marathon.on("GET", "/v2/apps/b", {"app": app})
    result = run("deployment", "watch", "e-2")
    assert (result.exit_code, result.stderr) == (0, golden)


QUEUE = {
    "app": {"id": "/train", "gpus": 4, "cpus": 0.5, "mem": 128, "constraints": [["gpu_model", "LIKE", "H200.*"]]},
    "count": 2,
    "since": VERSION,
    "role": "*",
    "delay": {"timeLeftSeconds": 0, "overdue": True},
    "processedOffersSummary": {
        "processedOffersCount": 9,
        "unusedOffersCount": 9,
        "lastUnusedOfferAt": VERSION,
        "rejectSummaryLastOffers": [
            {"reason": "UnfulfilledConstraint", "declined": 1, "processed": 4},
            {"reason": "InsufficientGpus", "declined": 3, "processed": 3},
            {"reason": "DeclinedScarceResources", "declined": 0, "processed": 0},
        ],
    },
}


def test_the_queue_says_what_is_waited_for_gpus_too(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v2/queue", {"queue": [QUEUE]})
    row = run("queue").stdout.splitlines()[1]
    assert row == golden
    assert run("queue", "-q").stdout == "/train\n"
    rows = {line.split()[0]: line.split()[1:] for line in run("queue", "summary", "train").stdout.splitlines()[1:]}
    assert rows["GPUS"] == ["4", "0", "/", "3", "0.00%"]
    assert rows["CONSTRAINTS"] == ["gpu_model", "LIKE", "H200.*", "3", "/", "4", "75.00%"]
    assert rows["SCARCE"] == ["---", "0", "/", "0", "---"]
    assert run("marathon", "debug", "summary", "/train", "-q").stdout.split() == [
        "UnfulfilledConstraint",
        "InsufficientGpus",
    ]
    missing = run("queue", "summary", "other")
    assert (missing.exit_code, missing.stderr) == (1, golden)


def test_details_show_what_each_agent_lacked(marathon: ScriptedServer, run: Run) -> None:
    offers = [
        {"offer": {"hostname": "h1"}, "reason": ["InsufficientGpus", "DeclinedScarceResources"], "timestamp": VERSION},
        {"offer": {"hostname": "h2"}, "reason": [], "timestamp": VERSION},
    ]
    marathon.on("GET", "/v2/queue", {"queue": [{**QUEUE, "lastUnusedOffers": offers}]})
    header, first, second = (line.split() for line in run("queue", "details", "train").stdout.splitlines())
    assert dict(zip(header, first, strict=True))["GPUS"] == "-"
    assert dict(zip(header, first, strict=True))["CPUS"] == "ok"
    assert "-" not in second
    assert marathon.sent("GET")[-1].query == {"embed": "lastUnusedOffers"}


def test_a_delay_is_reset(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("DELETE", "/v2/queue/train/delay", Answer(204, b""))
    for words in (("queue", "reset", "train"), ("marathon", "delay", "reset", "/train")):
        assert run(*words).stdout == golden


@pytest.mark.parametrize("body", [b"pong", b'"pong"', b"pong\n"])
def test_ping_takes_every_pong(marathon: ScriptedServer, run: Run, body: bytes, golden: Golden) -> None:
    marathon.on("GET", "/ping", Answer(200, body))
    assert re.sub(r"[\d.]+ ms", "<duration>", run("ping").stdout) == golden
    marathon.on("GET", "/ping", Answer(200, b"<html>"))
    assert run("ping").stderr == golden


def test_the_leader_and_what_it_says_of_itself(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v2/leader", {"leader": "10.0.0.1:8080"})
    marathon.on("DELETE", "/v2/leader", {"message": "Leadership abdicated"})
    assert run("leader").stdout == "10.0.0.1:8080\n"
    assert run("leader", "show", "-o", "jsonpath={.leader}").stdout == "10.0.0.1:8080\n"
    assert run("leader", "delete").stdout == golden
    assert json.loads(run("about").stdout)["version"] == "1.11.0"
    assert ["features", "gpu_resources"] in [line.split() for line in run("about", "-o", "table").stdout.splitlines()]
    assert run("plugin", "list").stderr == golden
    marathon.on("GET", "/v2/plugins", {"plugins": [{"id": "auth", "implementation": "i", "plugin": "p"}]})
    assert run("plugin").stdout.splitlines()[1].split() == ["auth", "i", "p"]


TASKS = [{"id": "a.instance-1._app.1", "appId": "/a", "state": "TASK_RUNNING"}, {"id": "a.instance-12._app.1"}]


def test_a_task_is_shown_and_killed_by_its_id_or_how_that_begins(
    marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    marathon.on("GET", "/v2/tasks", {"tasks": TASKS})
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a", "gpus": 2}]})
    marathon.on("GET", "/v2/apps/a", {"app": {"id": "/a", "gpus": 2}})
    assert json.loads(run("task", "show", "a.instance-1.").stdout)["gpus"] == 2
    assert run("task", "show", "a.").stderr == golden
    assert run("task", "show", "a.instance-2._app.1").stderr == golden

    def kill(request: Request) -> Answer:
        return Answer(200, {"tasks": [{"id": name} for name in request.body["ids"]]})

    marathon.on("POST", "/v2/tasks/delete", kill)
    assert run("task", "kill", "a.instance-1.", "--wipe", "-q").stdout == "a.instance-1._app.1\n"
    assert marathon.sent("POST")[0].query == {"wipe": "true"}
    assert run("task", "kill", "a.instance-1.", "nothing").exit_code == 1
    assert len(marathon.sent("POST")) == 1
    marathon.on("POST", "/v2/tasks/delete", {"deploymentId": "d", "version": VERSION})
    assert run("task", "kill", "a.instance-12", "--scale").stdout == golden


SLAVES: list[dict[str, Any]] = [
    {
        "id": "m-S0",
        "hostname": "h1",
        "pid": "slave(1)@10.0.0.1:5051",
        "active": True,
        "resources": {"cpus": 8, "gpus": 4, "mem": 1024},
        "unreserved_resources": {"cpus": 8, "gpus": 4, "mem": 1024},
        "used_resources": {"cpus": 1, "gpus": 3},
        "attributes": {"gpu_model": "H200"},
    },
    {"id": "m-S1", "hostname": "h2", "pid": "slave(1)@10.0.0.2:5051", "active": True, "deactivated": True},
]


@pytest.fixture
def agents(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/slaves", {"slaves": SLAVES})
    marathon.on("POST", "/api/v1", Answer(200, b""))
    return marathon


def test_agents_are_listed_with_what_is_free(agents: ScriptedServer, run: Run) -> None:
    _, first, second = (line.split() for line in run("agent", "list").stdout.splitlines())
    assert first == ["h1", "active", "1/4", "7/8", "1024/1024", "10.0.0.1:5051", "m-S0", "gpu_model=H200"]
    assert second[:2] == ["h2", "deactivated"]
    assert run("node", "list", "-q").stdout.split() == ["m-S0", "m-S1"]


def test_nothing_is_free_where_a_task_has_a_gpu_that_is_ill(marathon: ScriptedServer, run: Run) -> None:
    ill = {**SLAVES[0], "resources": {"cpus": 8, "gpus": 2}, "unreserved_resources": {"cpus": 8, "gpus": 2}}
    marathon.on("GET", "/slaves", {"slaves": [ill]})
    assert run("agent", "list").stdout.splitlines()[1].split()[2] == "0/2"


def test_the_agents_of_a_real_mesos_are_listed(marathon: ScriptedServer, run: Run) -> None:
    recorded = json.loads((places.RECORDED / "master.json").read_text())
    marathon.on("GET", "/slaves", recorded["get"]["running"]["/slaves"]["body"])
    # One GPU and 0.1 CPUs are in use; the rest is offered to a framework, and free all the same.
    row = run("agent", "list").stdout.splitlines()[1].split()
    assert row[:6] == ["127.0.0.1", "active", "3/4", "1.9/2", "23049/23081", "127.0.0.1:5051"]
    assert row[6].endswith("-S0")
    assert row[7:] == ["gpu_model=stub,", "rack=r1"]


def test_operators_take_an_agent_out_and_back(agents: ScriptedServer, run: Run) -> None:
    assert run("agent", "drain", "h1", "--max-grace-period", "60", "--mark-gone").exit_code == 0
    assert run("agent", "deactivate", "S0").exit_code == 0
    assert run("agent", "reactivate", "m-S1").exit_code == 0
    assert [request.body for request in agents.sent("POST")] == [
        {
            "type": "DRAIN_AGENT",
            "drain_agent": {"agent_id": {"value": "m-S0"}, "mark_gone": True, "max_grace_period": {"seconds": 60}},
        },
        {"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": "m-S0"}}},
        {"type": "REACTIVATE_AGENT", "reactivate_agent": {"agent_id": {"value": "m-S1"}}},
    ]
    agents.on("POST", "/api/v1", Answer(400, b"Agent is still in the DRAINING state"))
    refused = run("agent", "reactivate", "h1")
    assert (refused.exit_code, "Agent is still in the DRAINING state" in refused.stderr) == (1, True)


def test_draining_is_waited_for(
    agents: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    draining = {**SLAVES[0], "drain_info": {"state": "DRAINING"}}
    drained = {**SLAVES[0], "drain_info": {"state": "DRAINED"}, "used_resources": {}}
    looks = [Answer(200, {"slaves": [slave]}) for slave in (SLAVES[0], draining, draining, drained)]
    agents.on("GET", "/slaves", looks)
    monkeypatch.setattr("marathon_cli.commands.agent.PAUSE_S", 0)
    result = run("agent", "drain", "h1", "--wait")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == golden
    agents.on("GET", "/slaves", {"slaves": [draining]})
    assert run("agent", "drain", "h1", "--wait", "--timeout", "0.001").exit_code == 4
    agents.on("GET", "/slaves", [Answer(200, {"slaves": [draining]}), Answer(200, {"slaves": []})])
    assert run("agent", "drain", "h1", "--wait").stderr == golden
