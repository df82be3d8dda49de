"""`mesos-gpu service, quota, agent decommission` against what a real master was recorded to say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import places
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

MASTER = json.loads((places.RECORDED / "master.json").read_text())["get"]["running"]
NEWER, OLDER = (one["id"] for one in MASTER["/frameworks"]["body"]["frameworks"])
SLAVE = MASTER["/slaves"]["body"]["slaves"][0]["id"]


@pytest.fixture
def master(marathon: ScriptedServer) -> ScriptedServer:
    for path in ("/frameworks", "/roles", "/slaves"):
        marathon.on("GET", path, MASTER[path]["body"])
    marathon.on("POST", "/api/v1", Answer(200, b""))
    return marathon


def calls(master: ScriptedServer) -> list[Any]:
    return [request.body for request in master.sent("POST")]


def test_services_are_listed_with_the_gpus_of_their_tasks(master: ScriptedServer, run: Run) -> None:
    header, *rows = run("service", "list").stdout.splitlines()
    assert header.split()[:4] == ["NAME", "STATE", "TASKS", "GPUS"]
    assert sorted(row.split()[-1] for row in rows) == sorted([NEWER, OLDER])
    assert next(row for row in rows if NEWER in row).split()[:5] == ["recorder", "active", "1", "1", "0.1"]
    document = {**MASTER["/frameworks"]["body"]["frameworks"][0], "active": False, "connected": False}
    gone = {"id": "g", "name": "gone", "active": False, "unregistered_time": 1.0}
    master.on("GET", "/frameworks", {"frameworks": [document], "completed_frameworks": [gone]})
    assert run("service").stdout.splitlines()[1:] == []
    shown = run("service", "list", "--inactive", "--completed").stdout.splitlines()[1:]
    assert [row.split()[:2] for row in shown] == [["recorder", "disconnected"], ["gone", "completed"]]


def test_a_service_is_shut_down_only_by_who_means_it(master: ScriptedServer, run: Run, golden: Golden) -> None:
    refused = run("service", "shutdown", NEWER)
    assert (refused.exit_code, calls(master)) == (1, [])
    assert refused.stderr == golden
    assert run("service", "shutdown", NEWER[-4:], "--yes").exit_code == 0
    assert calls(master) == [{"type": "TEARDOWN", "teardown": {"framework_id": {"value": NEWER}}}]
    assert run("service", "shutdown", "recorder", "--yes").stderr == golden
    assert run("service", "shutdown", "recordr").stderr == golden


def test_quotas_show_what_a_role_has_and_may_have(master: ScriptedServer, run: Run) -> None:
    assert run("quota").stdout.splitlines()[1].split() == ["slave_public", "1", "0.1", "32", "0", "---"]
    quota = {"consumed": {"gpus": 1}, "limit": {"gpus": 4, "cpus": 2}, "guarantee": {"gpus": 2}}
    master.on("GET", "/roles", {"roles": [{"name": "team", "quota": quota}, {"name": "idle", "quota": {}}]})
    (row,) = run("quota", "list").stdout.splitlines()[1:]
    assert row.split() == ["team", "1/4", "0/2", "0", "0", "gpus", "2"]


def test_a_quota_keeps_what_is_not_named(master: ScriptedServer, run: Run, golden: Golden) -> None:
    quota = {"consumed": {}, "limit": {"cpus": 2, "mem": 64}, "guarantee": {"cpus": 1}}
    master.on("GET", "/roles", {"roles": [{"name": "team", "quota": quota}]})
    told = run("quota", "set", "team", "--gpus", "4", "--mem", "none", "--force")
    assert told.stdout == golden
    assert run("quota", "set", "new", "--gpus", "1", "--guarantee").exit_code == 0
    assert run("quota", "remove", "team").exit_code == 0
    one = {"gpus": {"value": 1.0}}
    kept = {"cpus": {"value": 2}, "gpus": {"value": 4.0}}
    assert [call["update_quota"] for call in calls(master)] == [
        {"force": True, "quota_configs": [{"role": "team", "guarantees": {"cpus": {"value": 1}}, "limits": kept}]},
        {"force": False, "quota_configs": [{"role": "new", "guarantees": one, "limits": one}]},
        {"quota_configs": [{"role": "team"}]},
    ]


@pytest.mark.parametrize("words", [("--gpus", "0.5"), ("--cpus", "-1"), ("--mem", "lots"), ("--disk", "nan"), ()])
def test_a_quota_that_is_none_is_bad_usage(master: ScriptedServer, run: Run, words: tuple[str, ...]) -> None:
    assert run("quota", "set", "team", *words).exit_code == 2
    assert calls(master) == []


def test_the_masters_reasons_against_a_quota_are_given(master: ScriptedServer, run: Run) -> None:
    why = "Invalid QuotaConfig: total quota guarantees 'cpus:100' exceed cluster capacity"
    master.on("POST", "/api/v1", Answer(400, why.encode()))
    refused = run("quota", "set", "team", "--cpus", "100", "--guarantee")
    assert (refused.exit_code, why in refused.stderr) == (1, True)


def test_an_agent_is_decommissioned_only_by_who_means_it(master: ScriptedServer, run: Run, golden: Golden) -> None:
    refused = run("node", "decommission", "S0")
    assert (refused.exit_code, refused.stderr, calls(master)) == (1, golden, [])
    assert run("agent", "decommission", "S0", "--yes").exit_code == 0
    assert calls(master) == [{"type": "MARK_AGENT_GONE", "mark_agent_gone": {"agent_id": {"value": SLAVE}}}]


def test_words_of_the_dcos_cli_are_taken(marathon: ScriptedServer, run: Run) -> None:
    marathon.on("GET", "/ping", Answer(200, b"pong"))
    marathon.on("GET", "/v2/apps/train/versions/v1", {"id": "/train"})
    assert run("marathon", "ping", "--once").exit_code == 0
    assert json.loads(run("marathon", "app", "show", "train", "--app-version", "v1").stdout) == {"id": "/train"}
