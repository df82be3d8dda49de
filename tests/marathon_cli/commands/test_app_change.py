"""`mesos-gpu app update, scale, start, stop, restart, kill, remove, versions` against a scripted Marathon."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

Write = Callable[[Any], str]
OLD, NOW = "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"
APP: dict[str, Any] = {
    "id": "/train",
    "cmd": "python train.py",
    "cpus": 1,
    "mem": 128,
    "gpus": 1,
    "instances": 2,
    "env": {"MODE": "slow", "KEEP": "1"},
    "container": {"type": "MESOS", "docker": {"image": "train:1", "forcePullImage": True}},
    "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0},
    "xyz": "a field of a later Marathon",
    "version": NOW,
    "tasksRunning": 2,
    "deployments": [],
}


@pytest.fixture
def train(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/v2/apps", {"apps": [APP]})
    marathon.on("GET", "/v2/apps/train", {"app": APP})
    marathon.on("GET", "/v2/apps/train/versions", {"versions": [OLD, NOW]})
    marathon.on("GET", f"/v2/apps/train/versions/{OLD}", {**APP, "cmd": "old", "version": OLD})
    marathon.on("PUT", "/v2/apps/train", {"deploymentId": "d-1", "version": "2026-01-03T00:00:00.000Z"})
    return marathon


def test_update_merges_deeply_and_sends_only_what_changes(train: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "update", "train", "cpus=2", "container.docker.image=train:2", "env.MODE=1")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == golden
    (request,) = train.sent("PUT")
    assert request.query == {"force": "false", "partialUpdate": "true"}
    assert request.body == {
        "cpus": 2,
        "container": {"type": "MESOS", "docker": {"image": "train:2", "forcePullImage": True}},
        "env": {"MODE": "1", "KEEP": "1"},
    }


def test_a_key_that_is_taken_away_has_the_definition_sent_whole(train: ScriptedServer, run: Run) -> None:
    assert run("app", "update", "train", "xyz=null", "--no-validate").exit_code == 0
    (request,) = train.sent("PUT")
    assert request.query["partialUpdate"] == "false"
    gone = ("xyz", "version", "tasksRunning", "deployments")
    assert request.body == {key: value for key, value in APP.items() if key not in gone}


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_update_takes_a_document(train: ScriptedServer, run: Run, app_file: Write, how: str) -> None:
    document = {"id": "train", "env": {"MODE": None, "NEW": "x"}}
    if how == "file":
        result = run("app", "update", "/train", "--file", app_file(document), "instances=3")
    else:
        result = run("app", "update", "train", stdin=json.dumps(document))
    assert result.exit_code == 0, result.stderr
    expected = {"env": {"KEEP": "1", "NEW": "x"}} | ({"instances": 3} if how == "file" else {})
    assert train.sent("PUT")[0].body == expected


def test_replace_makes_the_file_the_whole_definition(train: ScriptedServer, run: Run, app_file: Write) -> None:
    whole = {"cmd": "sleep 9", "gpus": 1}
    assert run("app", "update", "train", "--file", app_file(whole), "--replace").exit_code == 0
    (request,) = train.sent("PUT")
    assert (request.body, request.query["partialUpdate"]) == ({"id": "/train", **whole}, "false")


def test_all_that_is_wrong_with_an_update_is_said_and_nothing_is_sent(
    train: ScriptedServer, run: Run, golden: Golden
) -> None:
    result = run("app", "update", "train", "gpus=0.5", "container.docker.imagge=x", "cmmd=x")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == golden
    assert lines == golden
    assert train.sent("PUT") == []


def test_what_is_wrong_in_a_file_has_its_line(train: ScriptedServer, run: Run, tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "change.yaml"
    path.write_text("env:\n  A: '1'\ngpus: many\n")
    result = run("app", "update", "train", "-f", str(path))
    assert result.stderr == golden


def test_an_update_that_changes_nothing_sends_nothing(train: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "update", "train", "instances=2", "env.MODE=slow")
    assert (result.exit_code, result.stdout) == (0, golden)
    assert train.sent("PUT") == []


def test_dry_run_shows_the_difference_and_what_it_means(train: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "update", "train", "env.MODE=fast", "instances=3", "--dry-run")
    assert result.exit_code == 0
    assert result.stderr == golden
    assert result.stdout == golden
    assert train.sent("PUT") == []


def test_diff_shows_it_before_it_is_done(train: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "update", "train", "instances=5", "--diff")
    assert result.stderr == golden
    assert len(train.sent("PUT")) == 1


def test_somebody_elses_change_meanwhile_is_not_overwritten(train: ScriptedServer, run: Run, golden: Golden) -> None:
    other = {**APP, "version": "2026-01-02T00:00:01.000Z"}
    train.on("GET", "/v2/apps/train", [Answer(200, {"app": APP}), Answer(200, {"app": other})])
    result = run("app", "update", "train", "cpus=3")
    assert result.stderr == golden
    assert train.sent("PUT") == []


@pytest.mark.parametrize("version", [OLD, "-1"])
def test_a_version_goes_back_to_it(train: ScriptedServer, run: Run, version: str) -> None:
    result = run("app", "update", "train", f"version={version}", "--diff")
    assert result.exit_code == 0, result.stderr
    assert "+cmd: old" in result.stderr
    assert train.sent("PUT")[0].body == {"version": OLD}


@pytest.mark.parametrize("text", ["1", "-2"])
def test_a_version_that_is_none_is_refused(train: ScriptedServer, run: Run, text: str, golden: Golden) -> None:
    assert run("app", "show", "train", "--version", text).stderr == golden


def test_versions_are_listed_newest_first(train: ScriptedServer, run: Run) -> None:
    assert run("app", "versions", "train", "-q").stdout.split() == [NOW, OLD]
    assert run("app", "versions", "train", "--max-count", "1").stdout.splitlines()[1].split() == [NOW, "now"]
    assert json.loads(run("app", "show", "train", "--version", "-1").stdout)["cmd"] == "old"


def test_an_app_that_is_nearly_named_so_is_offered(train: ScriptedServer, run: Run, golden: Golden) -> None:
    for words in (("show", "trian"), ("scale", "trian", "3"), ("update", "trian", "cpus=1"), ("kill", "trian")):
        result = run("app", *words)
        assert (result.exit_code, result.stderr) == (1, golden), result.stderr


@pytest.mark.parametrize(
    ("words", "instances"), [(("scale", "train", "5"), 5), (("stop", "train"), 0), (("scale", "train", "0"), 0)]
)
def test_scaling_changes_instances_alone(
    train: ScriptedServer, run: Run, words: tuple[str, ...], instances: int
) -> None:
    result = run("app", *words, "--force", "-o", "json")
    assert json.loads(result.stdout)["instances"] == instances
    (request,) = train.sent("PUT")
    assert (request.body, request.query["force"]) == ({"instances": instances}, "true")


def test_start_is_for_apps_without_instances(train: ScriptedServer, run: Run, golden: Golden) -> None:
    assert run("app", "start", "train").stderr == golden
    train.on("GET", "/v2/apps/train", {"app": {**APP, "instances": 0}})
    assert run("app", "stop", "train").stderr == golden
    assert run("app", "restart", "train").stderr == golden
    assert run("app", "start", "train", "-q").stdout == "d-1\n"
    assert train.sent("PUT")[0].body == {"instances": 1}
    assert run("app", "start", "train", "0").exit_code == 2


def test_restart_asks_for_one(train: ScriptedServer, run: Run, golden: Golden) -> None:
    train.on("POST", "/v2/apps/train/restart", {"deploymentId": "d-2", "version": NOW})
    assert run("app", "restart", "train").stdout == golden


TASKS = [{"appId": "/train", "id": "t1", "host": "h1"}, {"appId": "/train", "id": "t2", "host": "h2"}]


def test_kill_ends_tasks_and_says_which(train: ScriptedServer, run: Run, golden: Golden) -> None:
    train.on("GET", "/v2/apps/train/tasks", {"tasks": TASKS})
    train.on("DELETE", "/v2/apps/train/tasks", {"tasks": TASKS[:1]})
    assert run("app", "kill", "train", "--host", "h1").stdout == golden
    assert train.sent("DELETE")[0].query == {"host": "h1", "wipe": "false"}
    assert run("app", "kill", "train", "--host", "h9").stderr == golden


def test_kill_and_scale_lowers_instances_by_as_many(train: ScriptedServer, run: Run, golden: Golden) -> None:
    train.on("GET", "/v2/apps/train/tasks", {"tasks": TASKS})
    train.on("DELETE", "/v2/apps/train/tasks", {"deploymentId": "d-3", "version": NOW})
    said = run("app", "kill", "train", "--scale").stdout
    assert said == golden
    assert train.sent("DELETE")[0].query == {"scale": "true", "force": "false"}
    assert run("app", "kill", "train", "--scale", "--wipe").exit_code == 1


def deployment(steps: str = "ScaleApplication") -> dict[str, Any]:
    actions = [{"action": steps, "app": "/train"}]
    plan = {"id": "d-1", "version": NOW, "affectedApps": ["/train"], "steps": [{"actions": actions}]}
    return {**plan, "currentActions": actions, "currentStep": 1, "totalSteps": 1}


def test_rollback_on_failure_leads_back_and_waits_for_that(train: ScriptedServer, run: Run, golden: Golden) -> None:
    train.on("GET", "/v2/deployments", Answer(200, [deployment()]))

    def roll_back(_: Request) -> Answer:
        train.on("GET", "/v2/deployments", Answer(200, []))
        return Answer(200, {"deploymentId": "d-back", "version": "2026-01-04T00:00:00.000Z"})

    train.on("DELETE", "/v2/deployments/d-1", roll_back)
    result = run("app", "scale", "train", "9", "--rollback-on-failure", "--timeout", "0.01")
    assert result.exit_code == 4
    assert train.sent("DELETE")[0].query == {"force": "false"}
    assert result.stderr == golden
    assert result.stderr.splitlines()[-1] == golden


def test_rollback_on_failure_leads_back_as_soon_as_task_after_task_fails(
    train: ScriptedServer, run: Run, golden: Golden
) -> None:
    failures = iter(range(9))

    def looks(_: Request) -> Answer:
        failure = {"taskId": f"t{next(failures)}", "state": "TASK_FAILED", "message": "no such file"}
        return Answer(200, {"app": {**APP, "tasks": [], "tasksRunning": 0, "lastTaskFailure": failure}})

    def roll_back(_: Request) -> Answer:
        train.on("GET", "/v2/deployments", Answer(200, []))
        train.on("GET", "/v2/apps/train", {"app": APP})
        return Answer(200, {"deploymentId": "d-back", "version": "2026-01-04T00:00:00.000Z"})

    train.on("GET", "/v2/deployments", Answer(200, [deployment()]))
    train.on("GET", "/v2/apps/train", looks)
    train.on("DELETE", "/v2/deployments/d-1", roll_back)
    result = run("app", "scale", "train", "9", "--rollback-on-failure", "--timeout", "0")
    assert result.exit_code == 1
    assert result.stderr == golden
    assert result.stderr.splitlines()[-3:] == golden


@pytest.mark.parametrize(
    ("versions", "asked"),
    [
        ([NOW, "2026-01-01T00:00:00.000Z"], ("PUT", {"version": "2026-01-01T00:00:00.000Z"})),
        ([NOW], ("DELETE", None)),
    ],
)
def test_what_a_deployment_that_is_over_has_left_is_led_back_to_the_version_before(
    train: ScriptedServer, run: Run, versions: list[str], asked: tuple[str, Any], golden: Golden
) -> None:
    failure = {"taskId": "t1", "state": "TASK_FAILED", "message": "no such file"}
    train.on("GET", "/v2/deployments", Answer(200, []))
    train.on("GET", "/v2/apps/train", {"app": {**APP, "tasks": [], "tasksRunning": 0, "lastTaskFailure": failure}})
    train.on("GET", "/v2/apps/train/versions", {"versions": versions})

    def back(_: Request) -> Answer:
        train.on("GET", "/v2/apps/train", {"app": APP})
        return Answer(200, {"deploymentId": "d-back", "version": "2026-01-04T00:00:00.000Z"})

    train.on("DELETE", "/v2/deployments/d-1", Answer(404, {"message": "DeploymentPlan d-1 does not exist"}))
    train.on("DELETE", "/v2/apps/train", back)
    changed = Answer(200, {"deploymentId": "d-1", "version": NOW})
    train.on("PUT", "/v2/apps/train", lambda request: back(request) if "version" in request.body else changed)
    result = run("app", "scale", "train", "9", "--rollback-on-failure")
    assert result.exit_code == 1
    assert [(r.method, r.body) for r in train.sent(asked[0])][-1] == asked
    assert result.stderr == golden


def test_a_deployment_that_ends_as_time_is_up_is_not_led_back(train: ScriptedServer, run: Run, golden: Golden) -> None:
    train.on("GET", "/v2/deployments", Answer(200, [deployment()]))

    def too_late(_: Request) -> Answer:
        train.on("GET", "/v2/deployments", Answer(200, []))
        train.on("GET", "/v2/apps/train", {"app": {**APP, "instances": 9, "tasksRunning": 9}})
        return Answer(404, {"message": "DeploymentPlan d-1 does not exist"})

    train.on("DELETE", "/v2/deployments/d-1", too_late)
    result = run("app", "scale", "train", "9", "--rollback-on-failure", "--timeout", "0.01")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == golden
    assert result.stderr == golden


def test_ctrl_c_while_waiting_says_what_goes_on(
    train: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    train.on("GET", "/v2/deployments", Answer(200, [deployment()]))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = run("app", "scale", "train", "9", "--wait")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == golden


def test_validate_says_the_verdict_on_each_file(
    marathon: ScriptedServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)  # the width of the table must not depend on this folder's name
    good, bad = Path("good.yaml"), Path("bad.json")
    good.write_text("id: train\ncmd: sleep 9\ngpus: 1\n")
    bad.write_text('{"id": "x", "gpuz": 1}')
    result = run("app", "validate", str(good), str(bad))
    assert result.exit_code == 1
    assert result.stdout == golden
    assert result.stderr == golden
    assert run("app", "validate", str(good), "--marathon-url", "127.0.0.1:1").exit_code == 0
    assert marathon.sent("POST") == []


def test_dry_run_of_add_creates_nothing(train: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    new = app_file({"id": "new", "cmd": "sleep 9", "gpus": 2, "instances": 3})
    assert run("app", "add", new, "--dry-run").stdout == golden
    assert run("app", "add", app_file({"id": "train", "cmd": "sleep 9"}), "--dry-run").stderr == golden
    assert train.sent("POST") == []


def test_list_asks_for_labels(train: ScriptedServer, run: Run) -> None:
    run("app", "list", "-l", "team==vision", "-q")
    assert train.sent("GET")[0].query == {"label": "team==vision", "embed": "apps.lastTaskFailure"}


def test_watch_shows_what_has_changed(train: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[list[dict[str, Any]]] = [[APP], [APP], [APP, {"id": "/zzz"}]]

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        looks.pop(0)
        if not looks:
            raise KeyboardInterrupt

    train.on("GET", "/v2/apps", lambda _: Answer(200, {"apps": looks[0]}))
    monkeypatch.setattr("marathon_cli.console.console.time.sleep", sleep)
    result = run("app", "list", "-q", "--interval", "0.5")
    assert (result.exit_code, result.stdout) == (130, "/train\n\n/train\n/zzz\n")


@pytest.mark.parametrize(("answer", "status", "sent"), [("n", 1, 0), ("y", 0, 1)])
def test_on_a_terminal_the_difference_is_shown_and_asked_about(
    train: ScriptedServer, answer: str, status: int, sent: int, golden: Golden
) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        words = [sys.executable, "-m", "marathon_cli", "app", "update", "train", "instances=5"]
        env = {**os.environ, "MARATHON_URL": train.url, "TERM": "dumb"}
        done = subprocess.run(
            words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=env, timeout=60, check=False
        )
    finally:
        os.close(theirs)
    said = ""
    try:
        while True:  # the kernel hands it over in pieces, and says EIO after the last
            said += os.read(ours, 65536).decode()
    except OSError:
        os.close(ours)
    assert done.returncode == status, said
    assert said == golden
    assert len(train.sent("PUT")) == sent
