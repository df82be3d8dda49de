"""`mesos-gpu plan` and `app add --plan`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

FOUND = {
    "now": False,
    "summary": "1 would start, 1 would wait, tasks of /low would give way.",
    "apps": ["/train"],
    "steps": [],
    "starts": [
        {"app": "/train", "host": "g1", "instances": 1, "afterSeconds": 3, "each": {"cpus": 1, "gpus": 2, "mem": 64}}
    ],
    "ends": [{"app": "/low", "host": "g1", "instances": 2, "why": "gives way", "gpus": 2}],
    "waits": [{"app": "/train", "instances": 1, "for": "not enough GPUs in its offer (g2)"}],
}
APP = {"id": "/train", "cmd": "./train", "gpus": 2, "instances": 2}


def file(tmp_path: Path, document: object) -> str:
    path = tmp_path / "app.json"
    path.write_text(json.dumps(document))
    return str(path)


def serve(marathon: ScriptedServer, found: object = FOUND) -> None:
    marathon.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": {"mesos_leader_ui_url": marathon.url}})
    marathon.on("GET", "/v2/apps/train", Answer(404, {"message": "App '/train' does not exist"}))
    marathon.on("GET", "/slaves", {"slaves": [{"id": "S0", "hostname": "g1"}]})
    marathon.on("GET", "/roles", {"roles": [{"name": "*"}]})
    marathon.on("POST", "/v1/plan", found)


def test_a_plan_is_a_table_and_a_status(marathon: ScriptedServer, run: Run, tmp_path: Path, golden: Golden) -> None:
    serve(marathon)
    result = run("plan", file(tmp_path, APP))
    assert (result.exit_code, result.stderr) == (5, "")
    assert result.stdout.splitlines() == golden
    sent = marathon.sent("POST")[-1].body
    assert sent["documents"] == [{"kind": "app", "document": APP}]
    assert (sent["agents"], sent["roles"]) == ([{"id": "S0", "hostname": "g1"}], [{"name": "*"}])


def test_what_would_all_start_is_status_0_and_json_has_it_all(
    marathon: ScriptedServer, run: Run, tmp_path: Path
) -> None:
    serve(marathon, {**FOUND, "now": True})
    result = run("plan", "-o", "json", file(tmp_path, APP))
    assert (result.exit_code, json.loads(result.stdout)["starts"]) == (0, FOUND["starts"])


def test_an_update_is_planned_with_the_instances_that_there_are(
    marathon: ScriptedServer, run: Run, tmp_path: Path
) -> None:
    serve(marathon)
    marathon.on("GET", "/v2/apps/train", {"app": {**APP, "instances": 7}})
    run("plan", "--force", file(tmp_path, {"id": "/train", "cmd": "./train"}))
    asked = marathon.sent("POST")[-1]
    assert asked.body["documents"][0]["document"] == {"id": "/train", "cmd": "./train", "instances": 7}
    assert asked.query["force"] == "true"


def test_app_add_plan_asks_and_adds_nothing(marathon: ScriptedServer, run: Run, tmp_path: Path) -> None:
    serve(marathon)
    result = run("app", "add", "--plan", file(tmp_path, APP))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (5, FOUND["summary"])
    assert [request.path for request in marathon.sent("POST")] == ["/v1/plan"]


def test_a_marathon_that_cannot_say_is_named(
    marathon: ScriptedServer, run: Run, tmp_path: Path, golden: Golden
) -> None:
    serve(marathon, Answer(404, {"message": "HTTP 404 Not Found"}))
    result = run("plan", file(tmp_path, APP))
    assert (result.exit_code, result.stderr) == (1, golden)


def test_where_the_master_is_silent_marathon_asks_it(marathon: ScriptedServer, run: Run, tmp_path: Path) -> None:
    serve(marathon)
    marathon.on("GET", "/slaves", Answer(503, "no"))
    assert run("plan", file(tmp_path, APP)).exit_code == 5
    assert "agents" not in marathon.sent("POST")[-1].body
