"""Against a real Mesos (recorded) and a Marathon that has none of our additions: what they do not tell is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer, scripted_server
from tests.support.places import RECORDED

MASTER = json.loads((RECORDED / "master.json").read_text())["get"]["running"]
AGENT = json.loads((RECORDED / "agent-get-running.json").read_text())
AGENT_V1 = json.loads((RECORDED / "agent-v1-running.json").read_text())
NOT_THERE = Answer(404, b"", {"Content-Type": "text/plain; charset=utf-8"})
"""What Mesos answers where it has no endpoint."""

TASK, AGENT_ID = (MASTER["/tasks"]["body"]["tasks"][0][key] for key in ("id", "slave_id"))
VERSION = "2026-11-21T10:00:00.000Z"


def an_app(name: str, **fields: Any) -> dict[str, Any]:
    """An app as Marathon 1.11 lists it."""
    return {
        "id": name,
        "cmd": "nvidia-smi -l",
        "cpus": 0.1,
        "mem": 32,
        "disk": 0,
        "gpus": 1,
        "instances": 1,
        "constraints": [],
        "container": {"type": "MESOS", "volumes": []},
        "role": "slave_public",
        "version": VERSION,
        "versionInfo": {"lastScalingAt": VERSION, "lastConfigChangeAt": VERSION},
        "tasksStaged": 0,
        "tasksRunning": 0,
        "tasksHealthy": 0,
        "tasksUnhealthy": 0,
        "deployments": [],
        **fields,
    }


RUNS = {"id": TASK, "appId": "/gpu-run", "slaveId": AGENT_ID, "host": "127.0.0.1", "state": "TASK_RUNNING"}
APPS = [an_app("/gpu-run", tasksRunning=1), an_app("/waits", gpus=8, deployments=[{"id": "d-1"}])]
OFFER = {
    "id": "o1",
    "hostname": "127.0.0.1",
    "agentId": AGENT_ID,
    "resources": [{"name": "gpus", "scalar": 3, "set": [], "ranges": [], "role": "*"}],
    "attributes": [],
}
WAITING = {
    "count": 1,
    "app": APPS[1],
    "delay": {"timeLeftSeconds": 0, "overdue": True},
    "since": VERSION,
    "processedOffersSummary": {
        "processedOffersCount": 3,
        "unusedOffersCount": 3,
        "lastUnusedOfferAt": VERSION,
        "rejectSummaryLastOffers": [{"reason": "InsufficientGpus", "declined": 1, "processed": 1}],
        "rejectSummaryLaunchAttempt": [{"reason": "InsufficientGpus", "declined": 3, "processed": 3}],
    },
    "lastUnusedOffers": [{"offer": OFFER, "timestamp": VERSION, "reason": ["InsufficientGpus"]}],
}
DEPLOYMENT = {
    "id": "d-1",
    "version": VERSION,
    "affectedApps": ["/waits"],
    "affectedPods": [],
    "steps": [{"actions": [{"action": "ScaleApplication", "app": "/waits"}]}],
    "currentActions": [{"action": "ScaleApplication", "app": "/waits", "readinessCheckResults": []}],
    "currentStep": 1,
    "totalSteps": 1,
}


@pytest.fixture
def mesos_agent() -> Iterator[ScriptedServer]:
    """The recorded agent: whatever was not recorded is not there."""
    with scripted_server() as agent:
        said = {exchange["request"]["path"]: exchange["response"] for exchange in AGENT}
        calls = {exchange["request"]["body"]["type"]: exchange["response"] for exchange in AGENT_V1}

        def answer(request: Request) -> Answer:
            # Neither how much is to be read nor nested containers were asked for when this was recorded.
            wanted = {key: value for key, value in request.query.items() if key not in ("length", "show_nested")}
            query = f"?{urlencode(wanted, safe='/')}" if wanted else ""
            called = request.path == "/api/v1"
            found = calls.get(request.body["type"]) if called else said.get(request.path + query)
            if found is None:
                return NOT_THERE
            body = found["body"]
            headers = {"Content-Type": found["headers"]["Content-Type"]}
            return Answer(found["status"], body.encode() if isinstance(body, str) else body, headers)

        agent.answer = answer  # type: ignore[method-assign]
        yield agent


@pytest.fixture
def cluster(server: ScriptedServer, mesos_agent: ScriptedServer) -> ScriptedServer:
    """A Marathon 1.11 at the address of the recorded master."""
    port = urlsplit(mesos_agent.url).port
    slaves = json.loads(json.dumps(MASTER["/slaves"]["body"]).replace("127.0.0.1:5051", f"127.0.0.1:{port}"))
    for path, found in MASTER.items():
        server.on("GET", path, Answer(200, slaves if path == "/slaves" else found["body"]))
    config = {"mesos_role": "slave_public", "features": ["gpu_resources"], "mesos_leader_ui_url": server.url + "/"}
    server.on("GET", "/v2/info", {"name": "marathon", "version": "1.11.24", "marathon_config": config})
    server.on("GET", "/v2/apps", {"apps": APPS})
    server.on("GET", "/v2/apps/gpu-run", {"app": {**APPS[0], "tasks": [RUNS]}})
    server.on("GET", "/v2/apps/waits", {"app": {**APPS[1], "tasks": []}})
    server.on("GET", "/v2/tasks", {"tasks": [RUNS]})
    server.on("GET", "/v2/deployments", Answer(200, [DEPLOYMENT]))
    server.on("GET", "/v2/queue", {"queue": [WAITING]})
    return server


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_apps_are_listed_and_which_gpus_they_have_is_left_open(cluster: ScriptedServer, run: Run) -> None:
    result = run("app", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [row[:6] for row in rows(result.stdout)] == [
        ["/gpu-run", "1", "---", "0.1", "32", "1/1"],
        ["/waits", "8", "---", "0.1", "32", "0/1"],
    ]
    assert rows(run("task", "list").stdout)[0][:4] == ["/gpu-run", "1", "---", "TASK_RUNNING"]


@pytest.mark.parametrize("ui", [None, "http://127.0.0.1:1/"])
def test_apps_are_listed_also_where_no_master_can_be_asked(
    cluster: ScriptedServer, run: Run, ui: str | None, golden: Golden
) -> None:
    config = {"mesos_role": "slave_public", "mesos_leader_ui_url": ui}
    cluster.on("GET", "/v2/info", {"version": "1.11.24", "marathon_config": config})
    result = run("app", "list")
    assert (result.exit_code, result.stderr, len(rows(result.stdout))) == (0, "", 2)
    why = run("why", "waits")
    assert why.exit_code == 0
    assert why.stderr == golden
    assert why.stdout == golden
    for words in (("gpu", "list"), ("agent", "describe", "S0")):
        refused = run(*words)
        assert refused.exit_code == 1
        assert len(refused.stderr.splitlines()) == 1


def test_gpus_are_counted_and_that_is_said(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    listed = run("gpu", "list")
    assert (listed.exit_code, listed.stderr) == (0, golden)
    free = ["127.0.0.1", "---", "stub", "---", "---", "unknown"]
    assert rows(listed.stdout) == [[*free, "/gpu-run", "---", "gpu-run"], *[[*free, "---", "---", "---"]] * 3]
    assert run("gpu", "top", "--once").stderr == golden
    (kind,) = rows(run("gpu", "types").stdout)
    assert kind[4:] == ["4", "3", "1", "4", "gpu_model:IS:stub"]


def test_an_agent_is_described_without_what_it_does_not_tell(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("agent", "describe", "127.0.0.1")
    assert (result.exit_code, result.stderr) == (0, golden)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["gpus", "4", "4", "1", "(25%)", "3", "0"] in lines
    assert ["---", "stub", "---", "unknown", "/gpu-run"] in lines
    assert next(line for line in lines if line[-1:] == [TASK] and line[0] == "/gpu-run")[3] == "---"
    described = json.loads(run("agent", "describe", "S0", "-o", "json").stdout)
    assert described["tasks"][0]["gpu_devices"] == []


def test_why_explains_from_the_queue_and_the_agents_alone(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("why", "waits")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == golden
    assert run("why", "gpu-run").stdout == golden


def test_waiting_gives_the_reasons_without_our_blockers(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("deployment", "watch", "d-1", "--timeout", "0.01")
    assert result.exit_code == 4
    assert result.stderr == golden


def test_what_a_real_agent_measures_and_keeps_of_a_task_is_shown(cluster: ScriptedServer, run: Run) -> None:
    assert run("task", "ls", "gpu-run").stdout.split() == ["stderr", "stdout"]
    metrics = run("task", "metrics", "gpu-run", "--interval", "0.1")
    assert metrics.exit_code == 0, metrics.stderr
    assert [row[0] for row in rows(metrics.stdout)][:3] == ["cpus", "mem", "disk"]


@pytest.mark.parametrize(
    "words",
    [
        ("image", "list"),
        ("job", "list"),
    ],
)
def test_what_only_ours_have_is_refused_in_words(
    cluster: ScriptedServer, run: Run, words: tuple[str, ...], golden: Golden
) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == golden
