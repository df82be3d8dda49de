"""What a task uses, from agents' answers, a recorded one of Mesos' own among them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marathon_cli.commands.task import container, cpus_used, metric_rows, summary
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer
from tests.support.places import RECORDED

ROOT, NESTED = {"value": "r"}, {"value": "n", "parent": {"value": "r"}}
GPU = {"index": 3, "name": "H200", "utilization_percent": 97, "memory_used_mib": 1024, "memory_total_mib": 143771}


def measured(
    container_id: dict[str, Any] = ROOT, *, at: float = 0.0, cpu_s: float = 0.0, **more: Any
) -> dict[str, Any]:
    said = {"timestamp": at, "cpus_user_time_secs": cpu_s, "cpus_system_time_secs": 0.5, "cpus_limit": 2.0}
    said |= {"mem_rss_bytes": 3 << 19, "mem_limit_bytes": 64 << 20}
    return {"container_id": "r", "status": {"container_id": container_id}, "statistics": said, **more}


def test_a_container_is_found_by_its_whole_id_else_its_root() -> None:
    root, nested = measured(), measured(NESTED)
    assert container([root, nested], NESTED) is nested
    assert container([root], NESTED) is root
    assert container([{"container_id": "r"}], ROOT) == {"container_id": "r"}
    assert container([nested], ROOT) is None


def test_cpu_use_is_what_was_used_between_two_measurements() -> None:
    assert cpus_used(measured(at=10, cpu_s=1), measured(at=12, cpu_s=4)) == pytest.approx(1.5)
    assert cpus_used(measured(at=10), measured(at=10)) is None
    assert cpus_used({}, measured()) is None


def test_the_summary_shows_each_gpu() -> None:
    rows = summary(measured(), measured(at=2, cpu_s=1, gpus=[GPU]))
    assert rows == [
        ("cpus", "0.50", "2.00"),
        ("mem", "1.5 MiB", "64.0 MiB"),
        ("disk", "---", "---"),
        ("processes", "---", "---"),
        ("gpu 3", "97 %", "H200"),
        ("gpu 3 mem", "1024 MiB", "143771 MiB"),
    ]


def test_details_are_every_number() -> None:
    names = dict(metric_rows(measured(gpus=[GPU])))
    assert names["cpus_system_time_secs"] == "0.5"
    assert names["mem_limit_bytes"] == str(64 << 20)
    assert names["gpus.3.memory_used_mib"] == "1024"


def test_what_a_real_agent_of_mesos_says_is_understood() -> None:
    (found,) = json.loads((RECORDED / "nested-containers.json").read_text())[1]["response"]["body"]
    assert container([found], found["status"]["container_id"]) is found
    rows = dict((name, (used, of)) for name, used, of in summary(found, found))
    assert rows["mem"] == ("35.1 MiB", "128.0 MiB")


def test_metrics_of_a_task(marathon: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    address = marathon.url.removeprefix("http://")
    status = {"container_status": {"container_id": ROOT}}
    task = {"id": "train.instance-1", "slave_id": "S1", "state": "TASK_RUNNING", "statuses": [status]}
    marathon.on("GET", "/tasks", {"tasks": [task]})
    marathon.on("GET", "/slaves", {"slaves": [{"id": "S1", "hostname": "h", "pid": f"slave(1)@{address}"}]})
    answers = [Answer(200, [measured(at=1)]), Answer(200, [measured(at=2, cpu_s=1, gpus=[GPU])])]
    marathon.on("GET", "/containers", answers)
    lines = run("task", "metrics", "train").stdout.splitlines()
    assert lines[1].split() == ["cpus", "1.00", "2.00"]
    assert pauses == [1.0]
    assert json.loads(run("task", "metrics", "train", "--json").stdout)["gpus"] == [GPU]
    assert "gpus.3.name" in run("task", "metrics", "train", "--details").stdout
    marathon.on("GET", "/containers", Answer(200, []))
    assert run("task", "metrics", "train").stderr == golden
    marathon.on("GET", "/tasks", {"tasks": [{**task, "statuses": [], "state": "TASK_STAGING"}]})
    assert run("task", "metrics", "train").stderr == golden
