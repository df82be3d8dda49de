"""`mesos-gpu gpu fragments`."""

from __future__ import annotations

import json

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer


def serve(marathon: ScriptedServer) -> None:
    marathon.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": {"mesos_leader_ui_url": marathon.url}})
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a", "gpus": 2, "cpus": 2, "mem": 64, "instances": 1}]})
    marathon.on("GET", "/v2/pods/::status", [])
    marathon.on("GET", "/v1/jobs", [])
    total = {"cpus": 8, "gpus": 4, "mem": 8192}
    slaves = [
        {"id": "S0", "hostname": "g1", "pid": "slave(1)@g1:5051", "resources": total, "used_resources": {"cpus": 7}},
        {"id": "S1", "hostname": "g2", "pid": "slave(1)@g2:5051", "resources": total, "used_resources": {"gpus": 3}},
        {"id": "S2", "hostname": "g3", "pid": "slave(1)@g3:5051", "resources": total},
    ]
    marathon.on("GET", "/slaves", {"slaves": slaves})


def test_machines_are_told_with_what_lacks(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    serve(marathon)
    result = run("gpu", "fragments")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split(maxsplit=3) for line in result.stdout.splitlines()[1:]] == [
        ["g1", "4", "4", "CPUs"],
        golden,
        ["g3", "4", "0", "---"],
    ]
    assert json.loads(run("gpu", "fragments", "-o", "json").stdout)["fragments"][0]["lacks"] == ["cpus"]


def test_the_fewest_moves_that_help_are_suggested(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    serve(marathon)
    tasks = [{"id": "hog.1", "slaveId": "S0", "state": "TASK_RUNNING", "version": "v"}]
    hog = {"id": "/hog", "cpus": 7, "mem": 0, "instances": 1, "tasks": tasks}
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a", "gpus": 3, "cpus": 3, "mem": 64, "instances": 1}, hog]})
    used = {"cpus": 7, "mem": 0}
    total = {"cpus": 8, "gpus": 4, "mem": 8192}
    plain = {"id": "S1", "hostname": "c1", "pid": "slave(1)@c1:5051", "resources": {"cpus": 8, "mem": 8192}}
    first = {"id": "S0", "hostname": "g1", "pid": "slave(1)@g1:5051", "resources": total, "used_resources": used}
    marathon.on("GET", "/slaves", {"slaves": [first, plain]})
    result = run("gpu", "fragments")
    assert result.stdout.splitlines()[-1] == golden
    (gain,) = json.loads(run("gpu", "fragments", "-o", "json").stdout)["moves"]
    assert gain == {"gpus": 3, "moves": [{"app": "/hog", "task": "hog.1", "from": "g1", "to": "c1"}]}


def test_shared_cards_are_told_one_by_one(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    serve(marathon)
    share = {"memGiB": 6, "weight": 1}
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a", "cpus": 1, "mem": 1, "instances": 1, "gpuShare": share}]})
    total = {"cpus": 8, "mem": 8192, "gpu_mem": "[2000-2014]", "gpu_slices": "[2000-2024]"}
    used = {"gpu_mem": "[2000-2011]", "gpu_slices": "[2000-2001]"}
    slave = {"id": "S0", "hostname": "g1", "pid": "slave(1)@g1:5051", "resources": total, "used_resources": used}
    marathon.on("GET", "/slaves", {"slaves": [slave]})
    assert run("gpu", "fragments").stdout == golden
    (card,) = json.loads(run("gpu", "fragments", "-o", "json").stdout)["fragments"]
    assert (card["card"], card["unusableGiB"], card["lacks"]) == (2, 3, ["cards"])


def test_where_pods_and_jobs_cannot_be_asked_apps_are_the_mix(
    marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    serve(marathon)
    marathon.on("GET", "/v1/jobs", Answer(503, {"message": "no"}))
    assert run("gpu", "fragments").stderr == golden
    marathon.on("GET", "/v2/apps", {"apps": []})
    assert run("gpu", "fragments").stderr == golden
