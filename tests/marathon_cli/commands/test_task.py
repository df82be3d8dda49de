"""`mesos-gpu task ...` against a scripted Marathon, master and agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from marathon_cli.show import logs as following
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

TASK = "train.instance-1._app.1"
OTHER = "train.instance-2._app.1"
FAILURE = {"taskId": TASK, "slaveId": "S1", "host": "h", "state": "TASK_FAILED", "message": "exit status 1"}
Reads = Callable[[int], None]


class Cluster:
    """Tasks of the app /train on one agent, and their files."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.files: dict[str, bytes] = {}
        self.tasks: dict[str, str] = {}
        self.before_read: Reads = lambda count: None
        self.reads = 0
        self.last_failure: dict[str, Any] | None = None
        address = server.url.removeprefix("http://")
        server.on("GET", "/slaves", {"slaves": [{"id": "S1", "pid": f"slave(1)@{address}"}]})
        server.on("GET", "/v2/tasks", lambda _: Answer(200, {"tasks": self._marathon_tasks()}))
        server.on("GET", "/v2/apps", {"apps": [{"id": "/train", "gpus": 2}]})
        server.on("GET", "/v2/apps/train", lambda _: Answer(200, {"app": self._app()}))
        server.on("GET", "/v2/apps/train/tasks", lambda _: Answer(200, {"tasks": self._marathon_tasks()}))
        server.on("GET", "/state", lambda _: Answer(200, self._agent_state()))
        server.on("GET", "/files/read", self._read)
        server.on("GET", "/tasks", lambda _: Answer(200, {"tasks": self._master_tasks()}))

    def start(self, task_id: str, stdout: bytes | None = b"", state: str = "TASK_RUNNING") -> None:
        self.tasks[task_id] = state
        if stdout is not None:
            self.files[f"/sandbox/{task_id}/stdout"] = stdout

    def write(self, task_id: str, data: bytes) -> None:
        path = f"/sandbox/{task_id}/stdout"
        self.files[path] = self.files.get(path, b"") + data

    def _live(self) -> list[str]:
        return [task_id for task_id, state in self.tasks.items() if state == "TASK_RUNNING"]

    def _marathon_tasks(self) -> list[dict[str, Any]]:
        return [
            {"id": task_id, "appId": "/train", "slaveId": "S1", "state": "TASK_RUNNING", "host": "h"}
            for task_id in self._live()
        ]

    def _master_tasks(self) -> list[dict[str, Any]]:
        return [{"id": task_id, "slave_id": "S1", "state": state} for task_id, state in self.tasks.items()]

    def _app(self) -> dict[str, Any]:
        app = {"id": "/train", "tasks": self._marathon_tasks()}
        return {**app, "lastTaskFailure": self.last_failure} if self.last_failure else app

    def _agent_state(self) -> dict[str, Any]:
        live, ended = [], []
        for task_id, state in self.tasks.items():
            executor = {"id": task_id, "directory": f"/sandbox/{task_id}"}
            task = [{"id": task_id, "state": state}]
            if state == "TASK_RUNNING":
                live.append({**executor, "tasks": task})
            else:
                ended.append({**executor, "completed_tasks": task})
        return {"frameworks": [{"executors": live, "completed_executors": ended}], "completed_frameworks": []}

    def _read(self, request: Request) -> Answer:
        self.reads += 1
        self.before_read(self.reads)
        data = self.files.get(request.query["path"])
        if data is None:
            return Answer(404, b"")
        offset, length = int(request.query["offset"]), int(request.query["length"])
        if offset == -1:
            return Answer(200, {"data": "", "offset": len(data)})
        # As Mesos does: the bytes as they are, UTF-8 or not, and never more than 64 KiB.
        piece = data[offset : offset + min(length, 65536)]
        text = json.dumps(piece.decode("utf-8", "surrogateescape"), ensure_ascii=False)
        return Answer(200, b'{"data":' + text.encode("utf-8", "surrogateescape") + b',"offset":%d}' % offset)


@pytest.fixture
def cluster(marathon: ScriptedServer) -> Cluster:
    return Cluster(marathon)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let following pause without time passing; return the pauses."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    return pauses


def test_list_shows_the_gpus_of_each_task(cluster: Cluster, run: Run) -> None:
    cluster.start(TASK)
    header, row = run("task", "list").stdout.splitlines()
    assert header.split() == ["APP", "GPUS", "DEVICES", "STATE", "HOST", "STARTED", "ID"]
    assert row.split() == ["/train", "2", "---", "TASK_RUNNING", "h", "---", TASK]
    for words in ((), ("train",)):
        (item,) = json.loads(run("task", "list", *words, "--json").stdout)
        assert (item["appId"], item["gpus"]) == ("/train", 2)


def test_the_gpus_of_a_pod_are_its_definitions_where_agents_do_not_tell(cluster: Cluster, run: Run) -> None:
    ids = [f"duo.instance-9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f.{name}.1" for name in ("one", "two")]
    tasks = [{"id": task_id, "appId": "/duo", "slaveId": "S1", "state": "TASK_RUNNING"} for task_id in ids]
    cluster.server.on("GET", "/v2/tasks", {"tasks": tasks})
    containers = [{"name": "one", "resources": {"gpus": 2}}, {"name": "two", "resources": {"cpus": 1}}]
    cluster.server.on("GET", "/v2/pods/duo", {"id": "/duo", "containers": containers})
    assert [item["gpus"] for item in json.loads(run("task", "list", "--json").stdout)] == [2, 2]
    assert json.loads(run("task", "show", ids[0]).stdout)["gpus"] == 2
    cluster.server.on("GET", "/v2/pods/duo", Answer(404, {"message": "gone"}))
    assert [item["gpus"] for item in json.loads(run("task", "list", "--json").stdout)] == [0, 0]


def test_list_of_no_tasks_is_an_empty_table(cluster: Cluster, run: Run) -> None:
    assert len(run("task", "list").stdout.splitlines()) == 1
    assert json.loads(run("task", "list", "--json").stdout) == []


@pytest.mark.parametrize("name", ["train", "/train", TASK])
def test_log_finds_a_task_by_its_app_or_its_id(cluster: Cluster, run: Run, name: str) -> None:
    cluster.start(TASK, b"hello\n")
    result = run("task", "log", name)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "hello\n", "")


def test_log_gives_the_bytes_as_they_are_over_many_reads(cluster: Cluster, run: Run) -> None:
    data = b"\xff\xfe \xe2\x82\xac \x00" + "äß€\n".encode() * 30_000 + b"end"
    cluster.start(TASK, data)
    assert run("task", "log", "train").stdout_bytes == data


def test_log_shows_stderr_when_asked(cluster: Cluster, run: Run) -> None:
    cluster.start(TASK, b"out")
    cluster.files[f"/sandbox/{TASK}/stderr"] = b"err"
    assert run("task", "log", "train", "--stderr").stdout == "err"


def test_log_shows_another_file_of_the_sandbox(cluster: Cluster, run: Run, golden: Golden) -> None:
    cluster.start(TASK, b"out")
    cluster.files[f"/sandbox/{TASK}/logs/train.log"] = b"epoch 1\n"
    assert run("task", "log", "train", "logs/train.log").stdout == "epoch 1\n"
    assert run("task", "log", "train", "../x").stderr == golden
    assert run("task", "log", "train", "x", "--stderr").exit_code == 2


def test_log_of_completed_tasks_shows_those_that_have_ended_too(cluster: Cluster, run: Run, golden: Golden) -> None:
    cluster.start(TASK, b"first\n", state="TASK_FINISHED")
    cluster.start(OTHER, b"second\n")
    assert run("task", "log", "train").stdout == "second\n"
    both = run("task", "log", "train", "--completed").stdout
    assert both == f"==> {OTHER} <==\nsecond\n\n==> {TASK} <==\nfirst\n"
    assert run("task", "log", "nothing", "--completed").stderr == golden


def test_log_finds_a_task_that_marathon_does_not_know_by_the_begin_of_its_id(cluster: Cluster, run: Run) -> None:
    cluster.start("spark-driver-7", b"driver\n")
    cluster.server.on("GET", "/v2/tasks", {"tasks": []})
    assert run("task", "log", "spark").stdout == "driver\n"


LINES = b"".join(b"line %d\n" % n for n in range(20_000))


@pytest.mark.parametrize(
    ("data", "count", "shown"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\n", 5, b"a\n"),
        (b"", 5, b""),
        (b"a\nb\n", 0, b""),
        (LINES, 1, b"line 19999\n"),
        (LINES, 15_000, LINES[LINES.index(b"line 5000\n") :]),
        (b"x" * 200_000 + b"\nlast", 1, b"last"),
        (b"x" * 200_000, 1, b"x" * 200_000),
    ],
)
def test_log_begins_so_many_lines_before_the_end(
    cluster: Cluster, run: Run, data: bytes, count: int, shown: bytes
) -> None:
    cluster.start(TASK, data)
    assert run("task", "log", "train", "--lines", str(count)).stdout_bytes == shown


def test_logs_of_several_tasks_have_headlines(cluster: Cluster, run: Run) -> None:
    cluster.start(OTHER, b"two\n")
    cluster.start(TASK, b"one\n")
    assert run("task", "log", "train").stdout == f"==> {TASK} <==\none\n\n==> {OTHER} <==\ntwo\n"


def test_a_file_that_is_not_there_yet_is_empty(cluster: Cluster, run: Run, golden: Golden) -> None:
    cluster.start(TASK, None)
    result = run("task", "log", "train")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", golden)
    named = run("task", "log", "train", "results.csv")
    assert (named.exit_code, named.stdout) == (1, "")
    assert named.stderr == golden


def test_the_log_of_a_task_that_has_ended_is_found_by_its_id(cluster: Cluster, run: Run) -> None:
    cluster.start(TASK, b"done\n", "TASK_FINISHED")
    assert run("task", "log", TASK).stdout == "done\n"


def test_an_app_without_tasks_shows_the_one_that_failed_last(cluster: Cluster, run: Run) -> None:
    cluster.start(TASK, b"oops\n", "TASK_FAILED")
    cluster.last_failure = FAILURE
    result = run("task", "log", "train")
    assert result.stdout == "oops\n"
    assert "exit status 1" in result.stderr


POD_TASK, NEXT_TASK = (f"duo.instance-1.web.{number}" for number in (3, 4))


def fails_again(cluster: Cluster, ended_at: str, kind: str) -> None:
    """Have task 3 of a pod, or an app, have failed then; task 4 runs and has written nothing yet."""
    cluster.start(POD_TASK, b"no such module\n", "TASK_FAILED")
    cluster.start(NEXT_TASK, b"")
    web = {"containerId": POD_TASK, "lastKnownState": "TASK_FAILED", "termination": {"message": "exited with 1"}}
    spec = {"id": "/duo", "containers": [{"name": "web"}], "version": "2020-01-01T00:00:00.000Z"}
    status = {"id": "/duo", "spec": spec, "terminationHistory": [{"terminatedAt": ended_at, "containers": [web]}]}
    failure = {"taskId": POD_TASK, "state": "TASK_FAILED", "message": "exited with 1", "timestamp": ended_at}
    tasks = [{"id": NEXT_TASK, "slaveId": "S1"}]
    if kind == "app":
        cluster.server.on("GET", "/v2/apps/duo", {"app": {"id": "/duo", "tasks": tasks, "lastTaskFailure": failure}})
    else:
        cluster.server.on("GET", "/v2/pods/duo::status", status)


@pytest.mark.parametrize("kind", ["pod", "app"])
def test_what_fails_over_and_over_shows_the_words_of_the_one_before(
    cluster: Cluster, run: Run, kind: str, golden: Golden
) -> None:
    fails_again(cluster, datetime.now(timezone.utc).isoformat(timespec="milliseconds"), kind)
    result = run("task", "log", "duo")
    assert (result.stdout, result.stderr) == ("no such module\n", golden)
    cluster.write(NEXT_TASK, b"I begin\n")
    assert run("task", "log", "duo").stdout == "I begin\n"


@pytest.mark.parametrize("kind", ["pod", "app"])
def test_a_failure_of_long_ago_is_not_what_a_silent_task_is_asked_for(cluster: Cluster, run: Run, kind: str) -> None:
    fails_again(cluster, "2026-01-01T00:00:00.000Z", kind)
    assert run("task", "log", "duo").stdout == ""


def test_a_task_that_failed_before_it_had_files_gives_its_message(cluster: Cluster, run: Run, golden: Golden) -> None:
    cluster.last_failure = {**FAILURE, "message": "no such image"}
    result = run("task", "log", "train")
    assert result.exit_code == 1
    assert result.stderr == golden
    assert "no such image" in result.stderr


def test_the_log_of_a_job_is_that_of_its_last_run_after_it_has_ended(
    cluster: Cluster, run: Run, golden: Golden
) -> None:
    ended = {"id": "r1", "finishedAt": "2026-01-01T01:00:00.000+0000", "tasks": ["nightly_r1.instance-1._app.1"]}
    older = {"id": "r0", "finishedAt": "2026-01-01T00:00:00.000+0000", "tasks": ["nightly_r0.instance-1._app.1"]}
    history = {"successfulFinishedRuns": [older], "failedFinishedRuns": [ended]}
    cluster.server.on("GET", "/v1/jobs/nightly", {"id": "nightly", "history": history, "activeRuns": []})
    cluster.start("nightly_r1.instance-1._app.1", b"epoch 1\n", state="TASK_FAILED")
    cluster.files["/sandbox/nightly_r1.instance-1._app.1/stderr"] = b"out of memory\n"
    for words in (("task", "log"), ("job", "log")):
        result = run(*words, "nightly")
        assert (result.exit_code, result.stdout) == (0, "epoch 1\n"), result.stderr
        assert result.stderr == golden
    both = run("logs", "job/nightly", "--tail", "1")
    assert (both.stdout, both.stderr.splitlines()[1]) == ("epoch 1\n", "out of memory")
    going = {"id": "r2", "status": "ACTIVE", "tasks": [{"id": "nightly_r2.instance-1._app.1"}]}
    cluster.server.on("GET", "/v1/jobs/nightly", {"id": "nightly", "history": history, "activeRuns": [going]})
    cluster.start("nightly_r2.instance-1._app.1", b"epoch 2\n")
    assert run("task", "log", "nightly").stdout == "epoch 2\n"
    cluster.server.on("GET", "/v1/jobs/nightly", {"id": "nightly", "history": {}, "activeRuns": []})
    assert run("task", "log", "nightly").stderr == golden


def test_both_streams_of_a_task_are_followed_to_their_own(cluster: Cluster, run: Run, hasty: list[float]) -> None:
    cluster.start(TASK, b"out\n", state="TASK_FINISHED")
    cluster.files[f"/sandbox/{TASK}/stderr"] = b"err\n"
    result = run("logs", "-f", TASK)
    assert (result.stdout, result.stderr.splitlines()[0]) == ("out\n", "err")
    assert run("task", "log", "--both", TASK).stdout == "out\n"


def test_an_app_that_waits_has_no_log(cluster: Cluster, run: Run, golden: Golden) -> None:
    result = run("task", "log", "train")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_an_unknown_name_is_answered_with_the_nearest(cluster: Cluster, run: Run, golden: Golden) -> None:
    result = run("task", "log", "trian")
    assert (result.exit_code, result.stderr) == (
        1,
        golden,
    )
    assert run("task", "log", "gone.instance-3._app.1").stderr == golden


def test_a_master_behind_zookeeper_only_is_said_to_be_unknown(cluster: Cluster, run: Run, golden: Golden) -> None:
    cluster.start(TASK)
    cluster.server.on("GET", "/v2/info", {"marathon_config": {"master": "zk://h/mesos"}})
    assert run("task", "log", "train").stderr == golden


def test_follow_ends_when_the_task_has_ended_and_its_file_is_read(
    cluster: Cluster, run: Run, hasty: list[float], golden: Golden
) -> None:
    cluster.start(TASK, b"one\n")

    def change(reads: int) -> None:
        if reads == 3:
            cluster.write(TASK, b"two\n")
        if reads == 8:
            cluster.tasks[TASK] = "TASK_FINISHED"
            cluster.write(TASK, b"x" * 200_000 + b"last\n")

    cluster.before_read = change
    result = run("task", "log", "train", "--follow")
    assert result.exit_code == 0
    assert result.stdout == "one\ntwo\n" + "x" * 200_000 + "last\n"
    assert result.stderr == golden
    assert all(following.FIRST_PAUSE_S <= pause <= following.LONGEST_PAUSE_S for pause in hasty)


def test_follow_goes_on_while_a_new_master_does_not_know_the_agent_yet(
    cluster: Cluster, run: Run, hasty: list[float], golden: Golden
) -> None:
    cluster.start(TASK, b"one\n")

    def change(reads: int) -> None:
        if reads == 3:
            del cluster.tasks[TASK]
        if reads == 20:
            cluster.tasks[TASK] = "TASK_RUNNING"
            cluster.write(TASK, b"two\n")
        if reads == 30:
            cluster.tasks[TASK] = "TASK_FINISHED"

    cluster.before_read = change
    result = run("task", "log", "train", "--follow")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert result.stderr == golden


def test_follow_gives_up_a_task_that_nobody_knows_for_long(
    cluster: Cluster, run: Run, hasty: list[float], golden: Golden
) -> None:
    cluster.start(TASK, b"one\n")
    cluster.before_read = lambda reads: cluster.tasks.clear() if reads == 3 else None
    result = run("task", "log", "train", "--follow")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "one\n", golden)
    assert sum(hasty) > following.SILENCE_S


def test_follow_of_a_task_that_has_ended_shows_it_and_ends(cluster: Cluster, run: Run, hasty: list[float]) -> None:
    cluster.start(TASK, b"done\n", "TASK_FAILED")
    assert run("task", "log", TASK, "--follow").stdout == "done\n"
    assert hasty == [following.FIRST_PAUSE_S]


def test_follow_waits_for_a_file_and_goes_on_after_it_was_rotated(
    cluster: Cluster, run: Run, hasty: list[float]
) -> None:
    cluster.start(TASK, None)
    path = f"/sandbox/{TASK}/stdout"

    def change(reads: int) -> None:
        if reads == 3:
            cluster.files[path] = b"a long first file\n"
        if reads == 6:
            del cluster.files[path]
        if reads == 12:
            cluster.files[path] = b"second\n"
        if reads == 18:
            cluster.files[path] = b"3rd\n"
        if reads == 26:
            cluster.tasks[TASK] = "TASK_KILLED"

    cluster.before_read = change
    assert run("task", "log", "train", "-f").stdout == "a long first file\nsecond\n3rd\n"


def test_follow_waits_for_the_first_task_of_an_app(cluster: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(
        [lambda: None, lambda: cluster.start(TASK, b"up\n"), lambda: cluster.tasks.update({TASK: "TASK_LOST"})]
    )
    monkeypatch.setattr("time.sleep", lambda _: next(steps, lambda: None)())
    assert run("task", "log", "train", "--follow").stdout == "up\n"


def test_follow_outlives_an_agent_that_restarts(cluster: Cluster, run: Run, hasty: list[float]) -> None:
    cluster.start(TASK, b"one\n")
    answers = iter([Answer(503, b"starting")])
    healthy = cluster.server.scripts["GET", "/state"]

    def change(reads: int) -> None:
        if reads == 2:
            cluster.server.on("GET", "/state", lambda request: next(answers, None) or healthy(request))  # type: ignore[operator]
        if reads == 12:
            cluster.write(TASK, b"two\n")
            cluster.tasks[TASK] = "TASK_FINISHED"

    cluster.before_read = change
    assert run("task", "log", "train", "--follow").stdout == "one\ntwo\n"


def test_ctrl_c_ends_following_quietly(cluster: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(TASK, b"one\n")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = run("task", "log", "train", "--follow")
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (130, "one\n", "mesos-gpu: interrupted")
