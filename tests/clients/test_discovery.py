"""Programs that find tasks by Marathon's API: Debian's Prometheus scrapes them, HAProxy balances over them."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.support.box.live import LiveBox
from tests.support.ports import free_port

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PATIENCE_S = 90.0
# Serves a number and its own name at the port that Marathon gave it.
SERVER = "echo answer $PORT0 > metrics; echo $MESOS_TASK_ID > whoami; exec python3 -m http.server $PORT0 -b 127.0.0.1"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    made = LiveBox(tmp_path_factory.mktemp("discovery") / "box")
    try:
        made.up("--gpu_driver=simulated", "--simulated_gpus=2")
        app = {"id": "/lab/web", "cmd": SERVER, "cpus": 0.1, "mem": 64, "instances": 2, "labels": {"team": "a-b"}}
        made.add({**app, "portDefinitions": [{"name": "http", "port": 0, "labels": {"scrape": "yes"}}]})
        yield made
    finally:
        made.cli("down")


def program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {name}")
    return found


def until(what: str, holds: Callable[[], object], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if holds():
                return
        except (requests.RequestException, KeyError, IndexError):
            pass
        time.sleep(0.1)
    pytest.fail(f"{what}: not within {PATIENCE_S:g} s\n{log.read_text()}")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> Path:
        log = tmp_path / "log"
        with log.open("ab") as out:
            started.append(subprocess.Popen(words, stdout=out, stderr=out, cwd=tmp_path))
        return log

    yield start
    for one in started:
        one.terminate()
        one.wait(30)


def test_prometheus_finds_tasks_and_scrapes_them(box: LiveBox, run: Callable[..., Path], tmp_path: Path) -> None:
    port, marathon = free_port(), str(box.status()["marathon"]["url"])
    configuration = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [
            {
                "job_name": "tasks",
                "marathon_sd_configs": [{"servers": [marathon], "refresh_interval": "500ms"}],
                "relabel_configs": [
                    {"source_labels": ["__meta_marathon_app_label_team"], "target_label": "team"},
                    {"source_labels": ["__meta_marathon_app"], "target_label": "app"},
                    {"source_labels": ["__meta_marathon_task"], "target_label": "task"},
                    {
                        "source_labels": ["__meta_marathon_port_definition_label_scrape"],
                        "regex": "yes",
                        "action": "keep",
                    },
                ],
            },
            {
                "job_name": "marathon",
                "metrics_path": "/metrics/prometheus",
                "static_configs": [{"targets": [marathon.removeprefix("http://")]}],
            },
        ],
    }
    (tmp_path / "prometheus.json").write_text(json.dumps(configuration))  # JSON is YAML
    log = run(
        program("prometheus"),
        f"--config.file={tmp_path / 'prometheus.json'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )

    def query(expression: str) -> list[dict[str, dict[str, str]]]:
        answer = requests.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": expression}, timeout=10).json()
        return list(answer["data"]["result"])

    tasks = {task["id"]: task["ports"][0] for task in box.tasks("lab/web")}
    assert len(tasks) == 2
    until("both tasks are scraped", lambda: len(query("answer")) == 2, log)
    found = query("answer")
    assert {(one["metric"]["task"], int(one["value"][1])) for one in found} == set(tasks.items())  # type: ignore[index]
    assert {(one["metric"]["app"], one["metric"]["team"]) for one in found} == {("/lab/web", "a-b")}
    until("Marathon is scraped", lambda: query("{__name__=~'marathon_.*|mesos_.*',job='marathon'}"), log)
    box.ok("app", "scale", "lab/web", "1", "--wait")
    until("the target of the task that ended is gone", lambda: len(query("up{job='tasks'} == 1")) == 1, log)
    box.ok("app", "scale", "lab/web", "2", "--wait")


def test_haproxy_balances_over_what_the_api_names(box: LiveBox, run: Callable[..., Path], tmp_path: Path) -> None:
    port = free_port()
    app = box.marathon("/v2/apps/lab/web?embed=app.tasks")["app"]
    servers = [f"  server {task['id']} {task['host']}:{task['ports'][0]} check inter 200ms" for task in app["tasks"]]
    assert len(servers) == 2
    lines = [
        *("defaults", "  mode http", "  timeout connect 5s", "  timeout client 30s", "  timeout server 30s"),
        *("frontend web", f"  bind 127.0.0.1:{port}", "  default_backend tasks"),
        *("backend tasks", "  balance roundrobin", "  option httpchk GET /whoami", *servers, ""),
    ]
    (tmp_path / "haproxy.cfg").write_text("\n".join(lines))
    log = run(program("haproxy"), "-db", "-f", str(tmp_path / "haproxy.cfg"))

    def who() -> set[str]:
        answers = [requests.get(f"http://127.0.0.1:{port}/whoami", timeout=10) for _ in range(4)]
        return {answer.text.strip() for answer in answers if answer.ok}

    until("both tasks are asked", lambda: who() == {task["id"] for task in app["tasks"]}, log)
    box.ok("task", "kill", app["tasks"][0]["id"])
    until("the one that was killed is not asked any more", lambda: app["tasks"][0]["id"] not in who() != set(), log)
