"""`mesos-gpu why`, and the warnings of `app add`, against scripted servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

TRAIN = {"id": "/train", "cmd": "./train", "cpus": 1, "mem": 128, "gpus": 2, "instances": 1, "role": "slave_public"}


@pytest.fixture
def full(marathon: ScriptedServer) -> ScriptedServer:
    """One agent with 2 GPUs that /other holds, while /train waits."""
    pid = f"slave(1)@{marathon.url.removeprefix('http://')}"
    amounts = {"cpus": 4, "gpus": 2, "mem": 8192, "disk": 1000}
    slave = {
        "id": "A-S0",
        "hostname": "gpu1",
        "pid": pid,
        "resources": {**amounts, "ports": "[31000-32000]"},
        "used_resources": {"gpus": 2},
    }
    marathon.on("GET", "/slaves", {"slaves": [slave]})
    marathon.on("GET", "/v2/apps/train", {"app": {**TRAIN, "tasks": [], "tasksRunning": 0}})
    marathon.on("GET", "/v2/tasks", {"tasks": [{"id": "other.1", "appId": "/other", "slaveId": "A-S0"}]})
    unused = [{"offer": {"agentId": "A-S0", "hostname": "gpu1"}, "reason": ["InsufficientGpus"]}]
    marathon.on("GET", "/v2/queue", {"queue": [{"app": TRAIN, "count": 1, "delay": {}, "lastUnusedOffers": unused}]})
    task = {"id": "other.1", "resources": {"gpus": 2, "cpus": 1}}
    executors = [{"id": "other.1", "tasks": [task]}]
    marathon.on("GET", "/state", {"frameworks": [{"name": "marathon", "executors": executors}]})
    return marathon


def test_why_tells_who_holds_what_is_wanted(full: ScriptedServer, run: Run, golden: Golden) -> None:
    done = run("why", "train")
    assert done.exit_code == 0
    assert done.stdout == golden
    found = json.loads(run("why", "train", "-o", "json").stdout)
    assert (found["state"], found["agents"][0]["lastOffer"]) == ("waiting", ["InsufficientGpus"])
    assert run("why", "train", "-q").stdout == "waiting\n"


def job_that_waits(server: ScriptedServer, **more: Any) -> None:
    server.on("GET", "/v2/apps/nightly", Answer(404, {"message": "App '/nightly' does not exist"}))
    server.on("GET", "/v2/pods/nightly::status", Answer(404, {"message": "no pod"}))
    job = {"id": "nightly", "run": {"cmd": "./train", "cpus": 1, "mem": 128, "gpus": 2}, "labels": {}, **more}
    server.on("GET", "/v1/jobs/nightly", job)
    server.on("GET", "/v1/queue", [{"jobId": "nightly", "runs": [{"runId": "1"}]}])


def test_why_tells_of_a_job_whose_run_waits_what_it_tells_of_an_app(
    full: ScriptedServer, run: Run, golden: Golden
) -> None:
    job_that_waits(full)
    done = run("why", "nightly")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == golden
    job_that_waits(full, run={"cmd": "./train", "cpus": 1, "mem": 128, "gpus": 3})
    found = json.loads(run("why", "nightly", "-o", "json").stdout)
    assert (found["state"], found["change"]) == ("impossible", None)
    assert run("queue", "list", "-q").stdout.split() == ["/train", "nightly"]


def test_why_tells_of_a_job_that_does_not_wait_when_it_runs_next(
    full: ScriptedServer, run: Run, golden: Golden
) -> None:
    job_that_waits(full, schedules=[{"id": "s", "nextRunAt": "2030-01-01T00:00:00.000+0000"}])
    full.on("GET", "/v1/queue", [])
    assert run("why", "nightly").stdout == golden
    full.on("GET", "/v1/jobs/nightly", Answer(404, {"message": "Job 'nightly' does not exist"}))
    assert "App '/nightly' does not exist" in run("why", "nightly").stderr


def test_why_asks_marathon_for_the_smallest_change_of_what_waits_in_order(
    full: ScriptedServer, run: Run, golden: Golden
) -> None:
    order = {"place": 1, "members": 3, "membersThatFit": 2}
    full.on("GET", "/v2/queue", {"queue": [{"app": TRAIN, "count": 3, "delay": {}, "order": order}]})
    change = {
        "agent": "gpu1, gpu2",
        "steps": [{"kind": "size", "text": "`mesos-gpu app update /train gang.size=2`", "value": 2}],
        "measure": {"machines": 0, "steps": 1, "ended": 0, "dropped": 0, "part": 0.333},
    }
    full.on("POST", "/v1/why", {"id": "/train", "change": change})
    said = run("why", "train").stdout
    assert said == golden
    found = json.loads(run("why", "train", "-o", "json").stdout)["change"]
    assert {key: found[key] for key in change} == change
    full.on("POST", "/v1/why", Answer(404, {}))  # an older Marathon of this project
    assert json.loads(run("why", "train", "-o", "json").stdout)["change"] is None


@pytest.mark.parametrize("written", ["stderr", "stdout", None])
def test_why_names_a_crash_loop_first_with_what_the_task_wrote_last(
    full: ScriptedServer, run: Run, written: str | None, golden: Golden
) -> None:
    task_id = "train.instance-1._app.4"
    failure = {"taskId": task_id, "slaveId": "A-S0", "message": "Command exited with status 3"}
    full.on("GET", "/v2/apps/train", {"app": {**TRAIN, "tasks": [], "tasksRunning": 0, "lastTaskFailure": failure}})
    full.on("GET", "/v2/queue", {"queue": []})
    executor = {"id": task_id, "directory": "/sandbox", "completed_tasks": [{"id": task_id, "state": "TASK_FAILED"}]}
    full.on("GET", "/state", {"frameworks": [{"name": "marathon", "completed_executors": [executor]}]})
    text = "".join(f"line {n}\n" for n in range(9)) + "ValueError: no checkpoint\n"

    def read(request: Request) -> Answer:
        offset, length = int(request.query["offset"]), int(request.query["length"])
        if request.query["path"] != f"/sandbox/{written}":
            return Answer(404, {})
        if offset < 0:
            return Answer(200, {"data": "", "offset": len(text)})
        return Answer(200, {"data": text[offset : offset + length], "offset": offset})

    full.on("GET", "/files/read", read)
    said = run("why", "train").stdout
    assert said == golden
    found = json.loads(run("why", "train", "-o", "json").stdout)
    if written is None:
        assert said == golden
        assert "lines" not in found["failure"]
        return
    assert said == golden
    assert "    ValueError: no checkpoint\n" in said
    assert (found["failure"]["file"], found["failure"]["lines"][-1]) == (written, "ValueError: no checkpoint")


@pytest.mark.parametrize(
    ("kept", "warns"),
    [
        ([{"reference": "registry-1.docker.io/library/plain:latest", "nvidia_driver": False}], True),
        ([{"reference": "registry-1.docker.io/library/plain:latest", "nvidia_driver": True}], False),
        ([{"reference": "other:1", "nvidia_driver": True}, {"reference": "plain:latest"}], True),
    ],
    ids=["without", "with", "unknown"],
)
def test_app_add_warns_of_an_image_without_the_driver_as_the_agents_know_it(
    full: ScriptedServer, run: Run, tmp_path: Path, kept: list[dict[str, Any]], warns: bool, golden: Golden
) -> None:
    full.on("GET", "/images", {"images": kept})
    full.on("POST", "/v2/apps", Answer(201, {"id": "/x", "deployments": [{"id": "d"}]}))
    app = {"id": "/x", "cmd": "sleep 1000", "gpus": 1, "container": {"type": "MESOS", "docker": {"image": "plain"}}}
    file = tmp_path / "app.json"
    file.write_text(json.dumps(app))
    warned = [line for line in run("app", "add", str(file)).stderr.splitlines() if "NVIDIA driver" in line]
    assert bool(warned) == warns
    assert not warns or warned == golden


def test_why_asks_for_the_last_offers_and_the_blockers(full: ScriptedServer, run: Run) -> None:
    run("why", "train")
    asked = {request.path: request.query for request in full.requests}
    assert asked["/v2/queue"] == {"embed": "lastUnusedOffers"}
    assert asked["/v2/deployments"] == {"embed": "blockers"}


def test_why_goes_on_without_a_master(full: ScriptedServer, run: Run, golden: Golden) -> None:
    full.on("GET", "/slaves", Answer(503, b"no leader"))
    done = run("why", "train")
    assert done.exit_code == 0
    assert done.stderr == golden
    assert done.stdout == golden


def test_why_of_a_pod_reads_its_status(full: ScriptedServer, run: Run, golden: Golden) -> None:
    spec: dict[str, Any] = {"id": "/pod", "containers": [{"name": "a", "resources": {"cpus": 1, "mem": 32, "gpus": 3}}]}
    full.on("GET", "/v2/pods/pod::status", {"id": "/pod", "spec": spec, "instances": []})
    full.on("GET", "/v2/queue", {"queue": [{"pod": spec, "count": 1, "delay": {}}]})
    assert run("why", "pod").stdout == golden


def test_why_of_a_pod_that_runs_says_which_of_its_gpus_share_nvlink(full: ScriptedServer, run: Run) -> None:
    spec: dict[str, Any] = {"id": "/pod", "containers": [{"name": "a", "resources": {"cpus": 1, "mem": 32, "gpus": 2}}]}
    cards = {"indices": [0, 2], "nvlink": False}
    one = {"id": "i", "status": "STABLE", "agentHostname": "gpu1", "gpuCards": cards}
    full.on("GET", "/v2/pods/pod::status", {"id": "/pod", "spec": spec, "instances": [one]})
    full.on("GET", "/v2/queue", {"queue": []})
    assert "GPUs 0+2 on gpu1 do not all share NVLink." in " ".join(run("why", "pod").stdout.split())
    assert {request.path: request.query for request in full.requests}["/v2/pods/pod::status"] == {"embed": "gpuCards"}


def test_why_of_nothing_is_refused(full: ScriptedServer, run: Run) -> None:
    done = run("why", "nothing")
    assert done.exit_code == 1
    assert "does not exist" in done.stderr


def test_add_warns_and_adds(full: ScriptedServer, run: Run, app_file: Callable[[Any], str], golden: Golden) -> None:
    full.on("POST", "/v2/apps", Answer(201, {"id": "/big", "deployments": [{"id": "d1"}]}))
    big = {"id": "big", "cmd": "nvidia-smi", "cpus": 1, "mem": 32, "gpus": 4}
    done = run("app", "add", app_file(big))
    assert done.exit_code == 0
    assert done.stderr == golden
    assert run("app", "add", app_file(big), "--no-validate").stderr == ""


@pytest.mark.parametrize(("columns", "first"), [(90, "AGENT"), (36, "gpu1:")])
def test_what_agents_lack_stands_beside_them_or_below(
    full: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, columns: int, first: str
) -> None:
    for module in ("commands.why", "screen.output"):
        monkeypatch.setattr(f"marathon_cli.{module}.terminal", lambda: columns)
    monkeypatch.setenv("NO_COLOR", "1")
    lines = run("why", "train").stdout.splitlines()
    below = lines[lines.index("") + 1 :]
    assert below[0].split()[0] == first
    assert [line for line in below[:3] if len(line) > columns] == []
