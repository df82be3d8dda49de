"""`mesos-gpu app ...` against a scripted Marathon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import GPU_APP, Answer, Request, Run, ScriptedServer
from tests.support.places import EXAMPLES

Write = Callable[[Any], str]


@pytest.fixture
def accepting(marathon: ScriptedServer) -> ScriptedServer:
    """A Marathon that takes any app and deploys it at once."""

    def create(request: Request) -> Answer:
        created = {**request.body, "id": "/" + request.body["id"].strip("/"), "deployments": [{"id": "d-1"}]}
        marathon.on(
            "GET",
            f"/v2/apps{created['id']}",
            {"app": {**created, "instances": 1, "tasksRunning": 1, "deployments": []}},
        )
        return Answer(201, created, {"Marathon-Deployment-Id": "d-1"})

    marathon.on("POST", "/v2/apps", create)
    return marathon


def test_add_sends_the_file_as_it_is(accepting: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    result = run("app", "add", app_file(GPU_APP))
    assert (result.exit_code, result.stdout) == (0, golden)
    (request,) = accepting.sent("POST")
    assert request.body == GPU_APP
    assert request.query == {"force": "false"}


@pytest.mark.parametrize("name", ["simple-gpu-test", "docker-gpu-test"])
def test_the_dcos_documents_are_accepted(accepting: ScriptedServer, run: Run, name: str) -> None:
    result = run("app", "add", str(EXAMPLES / f"{name}.json"), "--wait")
    assert result.exit_code == 0, result.output
    assert f"/{name}: 1 of 1 running" in result.stderr


@pytest.mark.parametrize("words", [("-",), ()])
def test_add_reads_standard_input(accepting: ScriptedServer, run: Run, words: tuple[str, ...]) -> None:
    assert run("app", "add", *words, stdin=json.dumps(GPU_APP)).exit_code == 0
    assert accepting.sent("POST")[0].body == GPU_APP


BAD = [
    ('{"id": "a"', "not JSON"),
    ('{"id": "a", "cmd": "x", "gpu": 1}', "did you mean `gpus`?"),
    ('{"id": "a", "cmd": "x", "gpus": 0.5}', "write 1"),
    ('{"id": "a", "cmd": "x", "gpus": -1}', "must be 0 or more, but is -1"),
    ('{"id": "a", "gpus": 1, "container": {"type": "DOCKER", "docker": {"image": "i"}}}', "MESOS"),
    ('{"id": "a", "cmd": "x", "acceptedResourceRoles": ["other"]}', "--mesos_role other"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_file_is_refused_before_anything_is_sent(
    accepting: ScriptedServer, run: Run, app_file: Write, text: str, said: str
) -> None:
    path = app_file(text)
    result = run("app", "add", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert f"{path}:1:" in result.stderr
    assert "Traceback" not in result.stderr
    assert accepting.sent("POST") == []


def test_what_a_marathon_is_like_is_asked_once(accepting: ScriptedServer, run: Run, app_file: Write) -> None:
    assert run("app", "add", app_file(GPU_APP)).exit_code == 0
    assert [request.path for request in accepting.sent("GET")].count("/v2/info") == 1


def test_a_bad_file_is_explained_also_when_no_marathon_answers(run: Run, app_file: Write, golden: Golden) -> None:
    path = app_file({**GPU_APP, "gpus": 0.5, "acceptedResourceRoles": ["slave_public"]})
    result = run("app", "add", path, "--marathon-url", "http://127.0.0.1:1")
    assert result.stderr == golden


def test_no_such_file_is_said(run: Run, golden: Golden) -> None:
    result = run("app", "add", "nowhere.json")
    assert (result.exit_code, result.stderr) == (1, golden)


def test_no_validate_leaves_the_judgement_to_the_server(accepting: ScriptedServer, run: Run, app_file: Write) -> None:
    assert run("app", "add", app_file({**GPU_APP, "gpu": 1}), "--no-validate").exit_code == 0
    assert accepting.sent("POST")[0].body["gpu"] == 1


def test_what_the_server_refuses_is_shown_with_its_line(
    marathon: ScriptedServer, run: Run, app_file: Write, golden: Golden
) -> None:
    details = [{"path": "/gpus", "errors": ["error.expected.int"]}, {"path": "/", "errors": ["no room"]}]
    marathon.on("POST", "/v2/apps", Answer(422, {"message": "Object is not valid", "details": details}))
    path = app_file({**GPU_APP, "gpus": 0.5})
    result = run("app", "add", path, "--no-validate")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_a_role_that_only_the_server_can_judge_is_explained(
    marathon: ScriptedServer, run: Run, app_file: Write
) -> None:
    config = {"mesos_role": "*", "features": ["gpu_resources"]}
    marathon.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": config})
    details = [{"path": "/acceptedResourceRoles", "errors": ["can only contain * and *"]}]
    marathon.on("POST", "/v2/apps", Answer(422, {"message": "Object is not valid", "details": details}))
    document = {**GPU_APP, "acceptedResourceRoles": ["slave_public", "*"]}
    for words in ((), ("--no-validate",)):
        result = run("app", "add", app_file(document), *words)
        assert result.exit_code == 1
        assert "--mesos_role slave_public (as `mesos-gpu up`" in result.stderr


def test_a_marathon_before_1_10_takes_any_role(accepting: ScriptedServer, run: Run, app_file: Write) -> None:
    accepting.on("GET", "/v2/info", {"version": "1.8.7", "marathon_config": {"mesos_role": "*"}})
    assert run("app", "add", app_file({**GPU_APP, "acceptedResourceRoles": ["slave_public"]})).exit_code == 0


def test_a_marathon_without_the_gpu_feature_is_not_asked(accepting: ScriptedServer, run: Run, app_file: Write) -> None:
    accepting.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": {"features": []}})
    result = run("app", "add", app_file(GPU_APP))
    assert result.exit_code == 1
    assert "--enable_features gpu_resources" in result.stderr
    assert accepting.sent("POST") == []


def test_an_app_that_exists_is_refused(marathon: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    marathon.on("POST", "/v2/apps", Answer(409, {"message": "An app with id [/train] already exists."}))
    result = run("app", "add", app_file(GPU_APP))
    assert result.exit_code == 1
    assert result.stderr == golden


def test_a_lock_names_its_deployment_and_force_is_passed_on(
    marathon: ScriptedServer, run: Run, app_file: Write, golden: Golden
) -> None:
    marathon.on("POST", "/v2/apps", Answer(409, {"message": "App is locked", "deployments": [{"id": "d-7"}]}))
    result = run("app", "add", app_file(GPU_APP), "--force")
    assert result.exit_code == 1
    assert result.stderr == golden
    assert "--force" in result.stderr
    assert marathon.sent("POST")[0].query == {"force": "true"}


REFUSALS = [
    (400, {"message": "Invalid JSON", "details": "at line 1"}, "400, Invalid JSON (at line 1)"),
    (401, b"", "--auth NAME:PASSWORD"),
    (403, {"message": "Max running deployments"}, "403, Max running deployments"),
    (500, b"<html>oops</html>", "500, <html>oops</html>"),
    (503, {"message": "no leader"}, "cannot answer now: 503, no leader"),
]


@pytest.mark.parametrize(("status", "body", "said"), REFUSALS)
def test_a_refusal_is_shown_in_the_servers_words(
    marathon: ScriptedServer, run: Run, app_file: Write, status: int, body: Any, said: str
) -> None:
    marathon.on("POST", "/v2/apps", Answer(status, body))
    result = run("app", "add", app_file(GPU_APP))
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_server_that_is_down_is_named_with_what_to_do(run: Run, app_file: Write, golden: Golden) -> None:
    result = run("--marathon-url", "http://me:secret@127.0.0.1:1", "app", "add", app_file(GPU_APP))
    assert result.exit_code == 1
    assert result.stderr == golden
    assert "secret" not in result.stderr


def test_a_server_that_is_no_marathon_is_told_from_one(server: ScriptedServer, run: Run, golden: Golden) -> None:
    server.on("GET", "/v2/apps", Answer(200, b"<html>It works!</html>"))
    result = run("app", "list")
    assert result.exit_code == 1
    assert result.stderr == golden
    server.on("GET", "/v2/apps", {"apps": 3})
    assert run("app", "list").stderr == golden


def test_a_url_that_is_none_is_refused(run: Run) -> None:
    assert "is not the URL of a Marathon" in run("app", "list", "--marathon-url", "ftp://x").stderr


@pytest.fixture
def populated(marathon: ScriptedServer) -> ScriptedServer:
    """A Marathon with a running GPU app and a Docker app that is being scaled."""
    web = {"id": "/web", "cpus": 0.1, "mem": 64, "instances": 3, "tasksRunning": 1, "deployments": [{"id": "d"}]}
    web |= {"args": ["serve", "now"], "container": {"type": "DOCKER"}, "role": "*"}
    train = {"id": "/train", "gpus": 2, "cpus": 1, "mem": 128, "instances": 1, "tasksRunning": 1, "tasksHealthy": 1}
    train |= {"cmd": "while true;\n do nvidia-smi; sleep 5; done # a long one", "role": "slave_public", "xyz": [1]}
    apps = [web, train]
    marathon.on("GET", "/v2/apps", {"apps": apps})
    marathon.on("GET", "/v2/apps/train", {"app": apps[1]})
    actions = [{"action": "ScaleApplication", "app": "/web"}]
    marathon.on("GET", "/v2/deployments", [{"id": "d", "currentActions": actions}])
    return marathon


def test_list_shows_gpus_and_what_deployments_do(populated: ScriptedServer, run: Run) -> None:
    header, train, web = run("app", "list").stdout.splitlines()
    assert header.split() == [
        *("ID", "GPUS", "DEVICES", "CPUS", "MEM", "TASKS", "STATUS", "HEALTH", "DEPLOYMENT"),
        *("WAITING", "CONTAINER", "ROLE", "CMD"),
    ]
    cells = ["/train", "2", "---", "1", "128", "1/1", "running", "1/1", "---", "---", "MESOS", "slave_public"]
    assert train.split()[:12] == cells
    assert train.endswith("while true; do nvidia-smi; sleep 5; done # a long one")
    assert web.split()[:12] == [
        "/web",
        "0",
        "---",
        "0.1",
        "64",
        "1/3",
        "starting",
        "---",
        "scale",
        "---",
        "DOCKER",
        "*",
    ]
    assert web.endswith("[serve, now]")


def test_list_says_how_each_app_is_and_names_what_fails(marathon: ScriptedServer, run: Run) -> None:
    failure = {"message": "Command exited with status 3", "taskId": "x.instance-1._app.7"}
    pull = {"message": "Failed to launch container: cannot get nope:1: not known", "taskId": "x.instance-1._app.1"}
    image = {"container": {"docker": {"image": "nope:1"}}}
    apps = [
        {"id": "/a", "instances": 1, "lastTaskFailure": failure},
        {"id": "/b", "instances": 1, "lastTaskFailure": pull, **image},
        {"id": "/c", "instances": 0},
        {"id": "/d", "instances": 1, "tasksRunning": 1, "tasksUnhealthy": 1},
        {"id": "/e", "instances": 1},
    ]
    marathon.on("GET", "/v2/apps", {"apps": apps})
    marathon.on("GET", "/v2/queue", {"queue": [{"app": {"id": "/e"}, "count": 1}]})
    said = [line.split("/", 2)[2] for line in run("app", "list").stdout.splitlines()[1:]]
    assert [line.split("  ")[1] for line in said] == [
        "failing (try 7): Command exited with status 3",
        "no image: cannot get nope:1: not known",
        "stopped",
        "unhealthy",
        "waiting",
    ]


def test_list_says_which_apps_are_suspended_also_those_with_parts_of_gpus(marathon: ScriptedServer, run: Run) -> None:
    apps = [
        {"id": "/part", "instances": 1, "tasksRunning": 1, "gpuShare": {"memGiB": 4}},
        {"id": "/some", "instances": 2, "tasksRunning": 2, "gpus": 1},
    ]
    away = {"suspension": {"state": "suspended", "for": None}, "slaveId": "S", "state": "TASK_RUNNING"}
    tasks = [
        {"id": "a", "appId": "/part", **away},
        {"id": "b", "appId": "/some", **away},
        {"id": "c", "appId": "/some", "suspension": {"state": "asked", "for": "/more"}},
    ]
    for shown, words in ((apps, ["suspended", "1 of 2 suspended"]), (apps[:1], ["suspended"])):
        marathon.on("GET", "/v2/apps", {"apps": shown})
        marathon.on("GET", "/v2/tasks", {"tasks": tasks})
        said = run("app", "list").stdout.splitlines()[1:]
        assert [word in line for word, line in zip(words, said, strict=True)] == [True] * len(words), said
    assert run("task", "list").stdout.count("TASK_RUNNING, suspended") == 2


def test_list_of_nothing_is_an_empty_table(marathon: ScriptedServer, run: Run) -> None:
    result = run("app", "list")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert json.loads(run("app", "list", "--json").stdout) == []


def test_list_gives_json(populated: ScriptedServer, run: Run) -> None:
    assert [item["gpus"] for item in json.loads(run("app", "list", "--json").stdout) if "gpus" in item] == [2]


def test_show_prints_every_field_also_unknown_ones(populated: ScriptedServer, run: Run) -> None:
    for words in (("train",), ("/train/", "--json")):
        assert json.loads(run("app", "show", *words).stdout)["xyz"] == [1]


def test_what_is_not_there_is_said_in_the_servers_words(marathon: ScriptedServer, run: Run) -> None:
    marathon.on("GET", "/v2/apps/x", Answer(404, {"message": "App '/x' does not exist"}))
    result = run("app", "show", "x")
    assert (result.exit_code, result.stderr) == (1, "mesos-gpu: App '/x' does not exist\n")


@pytest.mark.parametrize("name", ["My_App", "/"])
def test_a_name_that_no_app_can_have_is_refused(marathon: ScriptedServer, run: Run, name: str) -> None:
    assert run("app", "show", name).exit_code == 1
    assert marathon.requests == []


def test_remove_overrides_a_deployment_unless_told_not_to(marathon: ScriptedServer, run: Run) -> None:
    marathon.on("DELETE", "/v2/apps/g/train", {"version": "v", "deploymentId": "d-2"})
    assert "d-2" in run("app", "remove", "g/train", "--wait").stdout
    assert "d-2" in run("app", "remove", "/g/train", "--no-force").stdout
    assert [request.query["force"] for request in marathon.sent("DELETE")] == ["true", "false"]


def test_a_task_that_keeps_failing_is_reported_when_time_is_up(
    accepting: ScriptedServer, run: Run, app_file: Write, golden: Golden
) -> None:
    failure = {"taskId": "train.1", "host": "h", "state": "TASK_FAILED", "message": "Command exited with status 1"}
    deployment = {"id": "d-1", "currentStep": 1, "totalSteps": 1, "currentActions": [{"action": "ScaleApplication"}]}
    accepting.on("GET", "/v2/deployments", [deployment])

    def create(request: Request) -> Answer:
        accepting.on("GET", "/v2/apps/train", {"app": {"id": "/train", "instances": 1, "lastTaskFailure": failure}})
        return Answer(201, {"id": "/train", "deployments": [{"id": "d-1"}]})

    accepting.on("POST", "/v2/apps", create)
    result = run("app", "add", app_file(GPU_APP), "--wait", "--timeout", "0.01")
    assert result.exit_code == 4
    assert result.stderr == golden
