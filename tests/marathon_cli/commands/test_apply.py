"""`mesos-gpu apply` and `remove` (kubectl's `delete -f`) against a scripted Marathon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marathon_cli.commands.apply import same
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

APP = {"id": "/train", "cmd": "sleep 1000", "cpus": 1, "mem": 64, "gpus": 1}
EXEC = {"command": {"shell": "sleep 1000"}}
POD = {"id": "/pair", "containers": [{"name": "a", "exec": EXEC, "resources": {"cpus": 1, "mem": 64}}]}
NIGHT = {"id": "night", "cron": "0 3 * * *", "timezone": "UTC"}
JOB = {"id": "nightly", "run": {"cmd": "true", "cpus": 1, "mem": 64}, "schedules": [NIGHT]}
GROUP = {"id": "/team", "apps": [{**APP, "id": "one"}]}
EVERY = [APP, POD, JOB, GROUP]


class Kept:
    """A Marathon that keeps what it is sent, as it was sent."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.there: dict[str, dict[str, Any]] = {}
        changed = {"deploymentId": "d", "version": "v"}
        for kind, one in (("/v2/apps", APP), ("/v2/pods", POD), ("/v1/jobs", JOB), ("/v2/groups", GROUP)):
            path = f"{kind}/{str(one['id']).strip('/')}"
            server.on("POST", kind, lambda request, path=path: self._keep(path, request, 201))
            server.on("PUT", path, lambda request, path=path: self._keep(path, request, 200))
            server.on("GET", path, lambda _, path=path: self._shown(path))
            server.on("DELETE", path, lambda _, path=path: self._removed(path, changed))
        schedules = "/v1/jobs/nightly/schedules"
        server.on("POST", schedules, lambda request: self._scheduled(request))
        server.on("PUT", f"{schedules}/night", lambda request: self._scheduled(request))
        server.on("DELETE", f"{schedules}/old", {})
        server.on("GET", "/slaves", {"slaves": []})

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [
            (one.method, one.path)
            for one in self.server.requests
            if one.method != "GET" and not one.query.get("dryRun")
        ]

    def _keep(self, path: str, request: Request, status: int) -> Answer:
        if request.query.get("dryRun") == "true":
            kept = {key: value for key, value in self.there[path].items() if key != "id"}
            return Answer(200, {"steps": [] if kept == request.body else [{"actions": []}]})
        before = self.there.get(path, {})
        self.there[path] = {**request.body, **({"schedules": before["schedules"]} if "schedules" in before else {})}
        return Answer(status, {**self.there[path], "deployments": [{"id": "d"}]})

    def _scheduled(self, request: Request) -> Answer:
        self.there["/v1/jobs/nightly"]["schedules"] = [request.body]
        return Answer(201, request.body)

    def _shown(self, path: str) -> Answer:
        if path not in self.there:
            return Answer(404, {"message": f"{path} does not exist"})
        return Answer(200, {"app": self.there[path]} if path.startswith("/v2/apps") else self.there[path])

    def _removed(self, path: str, changed: dict[str, str]) -> Answer:
        return (
            Answer(200, changed) if self.there.pop(path, None) else Answer(404, {"message": f"{path} does not exist"})
        )


@pytest.fixture
def kept(marathon: ScriptedServer) -> Kept:
    return Kept(marathon)


def written(folder: Path, documents: list[Any], name: str = "all.json") -> str:
    (folder / name).write_text(json.dumps(documents))
    return str(folder / name)


def verbs(text: str) -> list[str]:
    return text.splitlines()


def test_each_kind_is_created_then_unchanged_then_configured(kept: Kept, run: Run, tmp_path: Path) -> None:
    names = ("app/train", "pod/pair", "job/nightly", "group/team")
    file = written(tmp_path, EVERY)
    first = run("apply", "-f", file)
    assert (first.exit_code, verbs(first.stdout)) == (0, [f"{name} created" for name in names]), first.stderr
    sent = len(kept.changes)
    assert verbs(run("apply", "-f", file).stdout) == [f"{name} unchanged" for name in names]
    assert len(kept.changes) == sent
    other = json.loads(json.dumps(EVERY).replace('"mem": 64', '"mem": 128'))
    again = run("apply", "-f", written(tmp_path, other))
    assert verbs(again.stdout) == [f"{name} configured" for name in names], again.stderr
    assert kept.there["/v2/apps/train"]["mem"] == 128


def test_a_dry_run_says_it_all_and_sends_nothing(kept: Kept, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, EVERY)
    for form in ("--dry-run", "--dry-run=server"):
        assert verbs(run("apply", "-f", file, form).stdout)[0] == "app/train created (dry run)"
    assert run("apply", "-f", file, "--dry-run=none").exit_code == 0
    sent = len(kept.changes)
    other = written(tmp_path, json.loads(json.dumps(EVERY).replace('"mem": 64', '"mem": 128').replace("0 3", "0 4")))
    assert all("configured (dry run)" in line for line in verbs(run("apply", "-f", other, "--dry-run").stdout))
    assert all("deleted (dry run)" in line for line in verbs(run("delete", "-f", file, "--dry-run").stdout))
    assert len(kept.changes) == sent


def test_the_number_of_instances_stays_where_the_file_does_not_say_it(kept: Kept, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, [APP])
    run("apply", "-f", file)
    kept.there["/v2/apps/train"]["instances"] = 3
    assert run("apply", "-f", file).stdout == "app/train unchanged\n"
    assert run("apply", "-f", written(tmp_path, [{**APP, "instances": 2}])).stdout == "app/train configured\n"


def test_what_a_file_no_longer_has_is_gone(kept: Kept, run: Run, tmp_path: Path) -> None:
    run("apply", "-f", written(tmp_path, [{**APP, "env": {"A": "1"}}, JOB]))
    kept.there["/v1/jobs/nightly"]["schedules"].append({"id": "old", "cron": "* * * * *"})
    result = run("apply", "-f", written(tmp_path, [APP, JOB]))
    assert verbs(result.stdout) == ["app/train configured", "job/nightly configured"]
    put = kept.server.sent("PUT")[-1]
    assert (put.query["partialUpdate"], "env" in put.body) == ("false", False)
    assert kept.changes[-1] == ("DELETE", "/v1/jobs/nightly/schedules/old")


def test_a_schedule_that_is_another_is_changed_and_one_that_is_refused_takes_its_job_along(
    kept: Kept, run: Run, tmp_path: Path
) -> None:
    run("apply", "-f", written(tmp_path, [JOB]))
    later = {**JOB, "schedules": [{**NIGHT, "cron": "0 4 * * *"}]}
    assert run("apply", "-f", written(tmp_path, [later])).stdout == "job/nightly configured\n"
    assert kept.there["/v1/jobs/nightly"]["schedules"][0]["cron"] == "0 4 * * *"
    kept.there.clear()
    kept.server.on("POST", "/v1/jobs/nightly/schedules", Answer(422, {"message": "cron: not valid"}))
    refused = run("apply", "-f", written(tmp_path, [JOB]))
    assert (refused.exit_code, "job/nightly: " in refused.stderr) == (1, True)
    assert kept.changes[-1] == ("DELETE", "/v1/jobs/nightly")


def test_a_folder_standard_input_and_several_files(kept: Kept, run: Run, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "below").mkdir()
    written(tmp_path / "below", [JOB], "job.json")
    assert run("apply", "-f", str(tmp_path)).stderr == golden
    written(tmp_path, [APP], "b.json")
    (tmp_path / "a.yml").write_text(
        "id: /pair\ncontainers: [{name: a, resources: {cpus: 1, mem: 64}, exec: {command: {shell: sleep 9}}}]\n"
    )
    (tmp_path / "notes.txt").write_text("no definition")
    assert verbs(run("apply", "-f", str(tmp_path), "--dry-run").stdout) == golden
    assert len(verbs(run("apply", "-R", "-f", str(tmp_path), "--dry-run").stdout)) == 3
    assert run("apply", "-f", "-", "--dry-run", stdin=json.dumps(APP)).stdout == golden
    several = run("apply", "-f", str(tmp_path / "b.json"), "-f", str(tmp_path / "below"), "-o", "name")
    assert verbs(several.stdout) == ["app/train", "job/nightly"]


def test_everything_is_checked_before_anything_is_sent(kept: Kept, run: Run, tmp_path: Path, golden: Golden) -> None:
    for bad in (
        {**APP, "memm": 1},
        {**POD, "containers": [{"name": "a", "resources": {"cpus": 1, "mem": 64, "gpu": 1}}]},
        {"id": "x", "run": {"cmd": "true", "gpus": 0.5}},
        {"id": "/g", "apps": [{"id": "x", "cnd": "true"}]},
    ):
        refused = run("apply", "-f", written(tmp_path, [JOB, bad]))
        assert (refused.exit_code, refused.stderr) == (1, golden)
    assert kept.changes == []


def test_an_object_of_kubernetes_is_applied_and_what_is_lost_is_said(kept: Kept, run: Run, golden: Golden) -> None:
    text = """apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  template:
    spec:
      serviceAccountName: x
      containers:
      - {name: c, image: busybox, command: [sleep, "9"], resources: {limits: {cpu: 1, memory: 64Mi}}}
"""
    for verb in ("created", "unchanged"):
        done = run("apply", "-f", "-", stdin=text)
        assert done.stdout == f"app/train {verb}\n"
        assert done.stderr == golden
    assert run("delete", "-f", "-", stdin=text).stdout == golden


def test_files_are_removed_from_the_inside_and_what_is_not_there_is_named(kept: Kept, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, EVERY)
    run("apply", "-f", file)
    gone = ["job/nightly deleted", "pod/pair deleted", "app/train deleted", "group/team deleted"]
    assert verbs(run("remove", "-f", file).stdout) == gone
    again = run("delete", "-f", file)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "mesos-gpu: app/train: /v2/apps/train does not exist" in again.stderr
    assert run("delete", "-f", file, "--ignore-not-found").exit_code == 0


def test_programs_read_what_became_of_each(kept: Kept, run: Run, tmp_path: Path) -> None:
    result = run("apply", "-f", written(tmp_path, [APP]), "-o", "json")
    assert json.loads(result.stdout) == [
        {"kind": "app", "id": "/train", "result": "created", "deploymentId": "d"},
    ]


def test_waiting_is_for_every_deployment(kept: Kept, run: Run, tmp_path: Path) -> None:
    running = {"tasksRunning": 1, "instances": 1, "tasks": [{"id": "train.1", "state": "TASK_RUNNING"}]}
    file = written(tmp_path, [APP])
    kept.server.on("GET", "/v2/events", Answer(404, {}))

    def shown(_: Request) -> Answer:
        there = kept.there.get("/v2/apps/train")
        return Answer(200, {"app": {**there, **running}}) if there else Answer(404, {"message": "not there"})

    kept.server.on("GET", "/v2/apps/train", shown)
    result = run("apply", "-f", file, "--wait")
    assert (result.exit_code, "/train: 1 of 1 running" in result.stderr) == (0, True), result.stderr


def test_ports_that_the_server_chose_are_no_difference() -> None:
    assert same({"portDefinitions": [{"port": 10000}]}, {"portDefinitions": [{"port": 0}]})
    assert not same({"portDefinitions": [{"port": 10000}]}, {"portDefinitions": [{"port": 9}]})
    assert not same({"portDefinitions": [{"port": 10000}]}, {"portDefinitions": []})
    assert same({"env": {}, "version": "1"}, {"version": "2"})
