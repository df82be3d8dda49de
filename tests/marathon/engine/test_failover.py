"""Two Marathons, a real ZooKeeper: one leads and the other stands by, until the first is gone."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import ssl
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kazoo.client import KazooClient

from mesos_gpu.marathon.store.sqlite import SqliteStore
from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.golden import Golden
from tests.support.marathon.builders import app, container, offer, pod, status
from tests.support.marathon.program import Program
from tests.support.marathon.starts import Starts
from tests.support.tls import Authority
from tests.support.zookeeper import RealZooKeeper

pytestmark = pytest.mark.slow

SESSION = "--zk_session_timeout=4000"


class Pair:
    """Two programs over one path in ZooKeeper."""

    def __init__(self, folder: Path, server: RealZooKeeper, master: SchedulerMaster) -> None:
        self.server, self.master, self.path = server, master, uuid.uuid4().hex
        self.all: list[Program] = []
        self._folder = folder

    @property
    def zk(self) -> str:
        return self.server.url(self.path)

    async def start(self, *flags: str) -> Program:
        folder = self._folder / str(len(self.all))
        folder.mkdir()
        self.all.append(Program(folder, self.master.address, f"--zk={self.zk}"))
        await self.all[-1].start(SESSION, *flags)
        return self.all[-1]

    async def leads(self, program: Program) -> None:
        """Wait until everybody takes this one for the leader."""
        expected = program.url.removeprefix("http://")
        for each in self.all:
            if each.process is not None and each.process.returncode is None:
                while (await each.call("GET", "/v2/leader")).get("leader") != expected:
                    assert each.process.returncode is None
                    await asyncio.sleep(0.05)


@pytest.fixture
async def pair(tmp_path: Path, zookeeper: RealZooKeeper, master: SchedulerMaster) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, zookeeper, master)
    yield made
    for each in made.all:
        if each.process is not None and each.process.returncode is None:
            each.process.kill()
            await each.process.communicate()


async def raw(method: str, url: str, **options: Any) -> tuple[int, Any, bytes]:
    async with aiohttp.request(method, url, allow_redirects=False, **options) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_who_stands_by_passes_everything_on_and_takes_over_when_asked_to(pair: Pair, tmp_path: Path) -> None:
    credentials = ("--hostname=127.0.0.1", "--http_credentials=ann:secret")
    first, second = await pair.start(*credentials), await pair.start(*credentials)
    basic = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
    status_code, _, _ = await raw("GET", f"{second.url}/v2/apps")
    assert status_code == 401, "the leader decides who may call"
    created = await raw("POST", f"{second.url}/v2/apps?force=true", json=app("/g/a"), headers=basic)
    assert (created[0], created[1]["Location"]) == (201, "/g/a")
    assert created[1]["X-Marathon-Leader"] == first.url
    assert created[1]["X-Marathon-Via"] == second.url.removeprefix("http://")
    assert "Marathon-Deployment-Id" in created[1]
    direct, passed_on = [await raw("GET", f"{each.url}/v2/apps/g/a", headers=basic) for each in (first, second)]
    assert direct[2] == passed_on[2]
    missing = await raw("GET", f"{second.url}/v2/apps/n%6F", headers=basic)
    assert (missing[0], missing[2]) == (404, b'{"message":"App \'/no\' does not exist"}')
    events = await raw("GET", f"{second.url}/v2/events?event_type=x", headers={**basic, "Accept": "text/event-stream"})
    assert (events[0], events[1]["Location"]) == (302, f"{first.url}/v2/events?event_type=x")
    circle = {**basic, "X-Marathon-Via": second.url.removeprefix("http://")}
    assert (await raw("GET", f"{second.url}/v2/apps", headers=circle))[0] == 502
    # Asked to give up leading, with a backup.
    backup = tmp_path / "deep" / "backup.db"
    said = await raw("DELETE", f"{second.url}/v2/leader?backup={backup.as_uri()}", headers=basic)
    assert (said[0], said[2]) == (200, b'{"message":"Leadership abdicated"}')
    assert first.process is not None
    await asyncio.wait_for(first.process.communicate(), 60)
    assert first.process.returncode == 103
    while (await raw("GET", f"{second.url}/v2/leader", headers=basic))[0] != 200:
        assert second.process is not None
        assert second.process.returncode is None
        await asyncio.sleep(0.05)
    apps = await raw("GET", f"{second.url}/v2/apps/g/a", headers=basic)
    assert apps[1]["X-Marathon-Leader"] == second.url
    kept = SqliteStore(backup)
    assert set(kept.load().versions) == {"/g/a"}
    kept.close()


async def test_the_leader_killed_in_the_middle_of_an_upgrade_is_followed_and_nothing_starts_twice(
    pair: Pair, master: SchedulerMaster
) -> None:
    starts = Starts(master)
    leader, standby = await pair.start("--hostname=127.0.0.1"), await pair.start("--hostname=127.0.0.1")
    await master.next_subscription()
    strategy = {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}
    await standby.call("POST", "/v2/apps", app(instances=2, gpus=1, upgradeStrategy=strategy))
    old = await starts.launch()
    await starts.run(*old)
    framework_id = (await standby.call("GET", "/v2/info"))["frameworkId"]
    deployment = (await standby.call("PUT", "/v2/apps/a", {"labels": {"n": "2"}}))["deploymentId"]
    first = (await master.next_call("KILL"))["kill"]["task_id"]["value"]
    await starts.run(first, state="TASK_KILLED")
    (new,) = await starts.launch()
    # The new task may be anywhere on its way; nobody has heard of it again.
    assert await leader.end(signal.SIGKILL) == -signal.SIGKILL
    subscribed = await asyncio.wait_for(master.subscribed.get(), 60)
    assert subscribed["framework_id"] == {"value": framework_id}
    asked = (await master.next_call("RECONCILE"))["reconcile"]["tasks"]
    assert {each["task_id"]["value"] for each in asked} == {*old, new} - {first}
    await pair.leads(standby)
    assert [each["id"] for each in await standby.call("GET", "/v2/deployments")] == [deployment]
    await starts.run(next(task for task in old if task != first), new)
    second = (await master.next_call("KILL"))["kill"]["task_id"]["value"]
    assert {first, second} == set(old)
    await starts.run(second, state="TASK_KILLED")
    (last,) = await starts.launch()
    await starts.run(last)
    assert await standby.call("GET", "/v2/deployments") == []
    tasks = (await standby.call("GET", "/v2/apps/a/tasks"))["tasks"]
    assert {task["id"] for task in tasks} == {new, last}
    assert len(starts.ids) == len(set(starts.ids)) == 4


async def test_what_tasks_had_goes_on_being_counted_by_who_follows_and_nothing_counts_twice(
    pair: Pair, master: SchedulerMaster
) -> None:
    starts = Starts(master)
    leader, standby = await pair.start("--hostname=127.0.0.1"), await pair.start("--hostname=127.0.0.1")
    await master.next_subscription()
    await standby.call("POST", "/v2/apps", app(instances=2, gpus=1, user="ann"))
    one, other = await starts.launch()
    await starts.run(one, other)
    await starts.run(one, state="TASK_FAILED")
    before = (await standby.call("GET", "/v1/usage"))["total"]
    assert before["tasksEnded"] == 1
    assert await leader.end(signal.SIGKILL) == -signal.SIGKILL
    await asyncio.wait_for(master.subscribed.get(), 60)
    await pair.leads(standby)
    await starts.run(other, state="TASK_FAILED")
    (mine,) = (await standby.call("GET", "/v1/usage?by=user"))["usage"]
    assert (mine["user"], mine["tasksEnded"]) == ("ann", 2)
    assert mine["gpuHours"] == pytest.approx(mine["elapsedHours"], abs=2e-6), "each task had one GPU"
    assert mine["gpuHours"] >= before["gpuHours"]
    assert (await standby.call("GET", "/v1/usage?by=user"))["usage"] == [mine], "what has ended stays as it is"


async def test_a_pod_in_its_upgrade_and_a_run_of_a_job_outlive_their_leader_and_start_once(
    pair: Pair, master: SchedulerMaster
) -> None:
    started: list[str] = []

    async def launch() -> list[str]:
        master.offer(offer(f"O{len(started)}", gpus=2))
        (operation,) = (await master.next_call("ACCEPT"))["accept"]["operations"]
        group = operation["type"] == "LAUNCH_GROUP"
        infos = operation["launch_group"]["task_group"]["tasks"] if group else operation["launch"]["task_infos"]
        ids = [info["task_id"]["value"] for info in infos]
        started.extend(ids)
        return ids

    async def say(*task_ids: str, state: str = "TASK_RUNNING") -> None:
        for task_id in task_ids:
            master.status(status(task_id, state).status)
            await master.next_call("ACKNOWLEDGE")

    leader, standby = await pair.start("--hostname=127.0.0.1"), await pair.start("--hostname=127.0.0.1")
    await master.next_subscription()
    await standby.call("POST", "/v2/pods", pod("/p", container("one", resources={"gpus": 1}), container("two")))
    old = await launch()
    await say(*old)
    changed = pod("/p", container("one", resources={"gpus": 1}), container("two"), labels={"n": "2"})
    await standby.call("PUT", "/v2/pods/p", changed)
    new = await launch()
    await say(new[0])
    job = {"id": "j", "run": {"cmd": "true", "cpus": 0.1, "mem": 32, "gpus": 1}}
    await standby.call("POST", "/v1/jobs", job)
    run = await standby.call("POST", "/v1/jobs/j/runs")
    (task,) = await launch()
    await say(task)
    (deployment,) = await standby.call("GET", "/v2/deployments")
    # Half of the new pod runs, and the job's task is about to end.
    assert await leader.end(signal.SIGKILL) == -signal.SIGKILL
    await asyncio.wait_for(master.subscribed.get(), 60)
    asked = (await master.next_call("RECONCILE"))["reconcile"]["tasks"]
    assert {each["task_id"]["value"] for each in asked} == {*old, *new, task}
    await pair.leads(standby)
    assert [each["id"] for each in await standby.call("GET", "/v2/deployments")] == [deployment["id"]]
    assert [each["id"] for each in await standby.call("GET", "/v1/jobs/j/runs")] == [run["id"]]
    await say(task, state="TASK_FINISHED")
    await say(*old, *new)
    killed = {(await master.next_call("KILL"))["kill"]["task_id"]["value"] for _ in old}
    assert killed == set(old)
    await say(*old, state="TASK_KILLED")
    assert await standby.call("GET", "/v2/deployments") == []
    (instance,) = (await standby.call("GET", "/v2/pods/p::status"))["instances"]
    assert {each["containerId"] for each in instance["containers"]} == set(new)
    shown = await standby.call("GET", "/v1/jobs/j?embed=history&embed=activeRuns")
    assert (shown["history"]["successCount"], shown["history"]["failureCount"], shown["activeRuns"]) == (1, 0, [])
    assert await standby.call("GET", "/v2/queue") == {"queue": []}, "nothing is to start again"
    assert len(started) == len(set(started)) == 5


async def test_a_leader_whose_session_is_over_ends_and_one_that_stands_by_goes_on(
    pair: Pair, zookeeper: RealZooKeeper, master: SchedulerMaster
) -> None:
    leader, standby = await pair.start("--hostname=127.0.0.1"), await pair.start("--hostname=127.0.0.1")
    await pair.leads(leader)
    client = KazooClient(zookeeper.hosts)
    client.start()
    # The oldest node is the leader's: without it the other one is elected.
    (oldest, _) = sorted(client.get_children(f"/{pair.path}/leader"))
    client.delete(f"/{pair.path}/leader/{oldest}")
    client.stop()
    client.close()
    assert leader.process is not None
    _, errors = await asyncio.wait_for(leader.process.communicate(), 60)
    assert leader.process.returncode == 103, errors.decode()
    await pair.leads(standby)
    assert (await standby.call("GET", "/v2/info"))["zookeeper_config"]["zk"] == pair.zk


async def test_a_state_moves_from_a_file_to_zookeeper_and_back(
    pair: Pair, tmp_path: Path, master: SchedulerMaster, golden: Golden
) -> None:
    alone = Program(tmp_path, master.address)
    pair.all.append(alone)
    await alone.start()
    await master.next_subscription()
    await alone.call("POST", "/v2/apps", app())
    while (framework_id := (await alone.call("GET", "/v2/info"))["frameworkId"]) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # the answer to the subscription is on its way
    database = str(tmp_path / "marathon.db")

    async def copied(source: str, target: str) -> tuple[int | None, str]:
        command = (sys.executable, "-m", "mesos_gpu.marathon.store.copy", "copy", source, target)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, said.decode().splitlines()[-1]

    refused, words = await copied(database, pair.zk)
    assert refused == 1
    assert words == golden.hide(path=pair.path)
    assert await alone.end(signal.SIGTERM) == 0
    assert await copied(database, pair.zk) == (0, golden)
    refused, words = await copied(database, pair.zk)
    assert refused == 1
    assert words == golden
    moved = await pair.start("--hostname=127.0.0.1")
    assert (await master.next_subscription())["framework_id"] == {"value": framework_id}
    assert (await moved.call("GET", "/v2/apps/a"))["app"]["id"] == "/a"
    refused, words = await copied(pair.zk, str(tmp_path / "back.db"))
    assert refused == 1
    assert words == golden
    assert await moved.end(signal.SIGTERM) == 0
    assert (await copied(pair.zk, str(tmp_path / "back.db")))[0] == 0
    none = tmp_path / "none.db"
    assert await copied(str(none), str(tmp_path / "other.db")) == (1, golden)
    assert not (tmp_path / "other.db").exists()
    back = SqliteStore(tmp_path / "back.db")
    assert back.load().framework_id == framework_id
    back.close()


@pytest.mark.parametrize("only", [True, False])
async def test_who_stands_by_reaches_the_leader_over_https(pair: Pair, tmp_path: Path, only: bool) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("node")
    words = ["--hostname=localhost", f"--ssl_cert_file={certificate}", f"--ssl_key_file={key}", "--https_port=0"]
    words += [f"--ssl_ca_file={authority.certificate}", *(["--disable_http"] if only else [])]
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    first, second = await pair.start(*words), await pair.start(*words)
    urls = [json.loads(each.ready.read_text())["https_url"] for each in (first, second)]
    status_code, headers, _ = await raw("GET", f"{urls[1]}/v2/apps", ssl=trusting)
    assert status_code == 200
    assert headers["X-Marathon-Leader"].startswith("https://localhost:" if only else "http://localhost:")
    events = await raw("GET", f"{urls[1]}/v2/events", ssl=trusting, headers={"Accept": "text/event-stream"})
    leader_port = urls[0].rpartition(":")[2]
    assert (events[0], events[1]["Location"]) == (302, f"https://localhost:{leader_port}/v2/events")
    if only:
        assert first.url == urls[0]
        with pytest.raises(aiohttp.ClientError):
            await raw("GET", f"{urls[1].replace('https', 'http')}/v2/apps")
    # Whoever does not believe the leader's authority passes nothing on to it.
    stranger = Authority(tmp_path / "other-ca")
    third = await pair.start(*(word.replace(str(authority.certificate), str(stranger.certificate)) for word in words))
    url = json.loads(third.ready.read_text())["https_url"]
    assert (await raw("GET", f"{url}/v2/apps", ssl=trusting))[0] == 502


async def test_a_standby_without_http_sends_nothing_to_a_leader_without_https(pair: Pair, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("node")
    await pair.start("--hostname=localhost")
    words = ["--hostname=localhost", f"--ssl_cert_file={certificate}", f"--ssl_key_file={key}", "--https_port=0"]
    standby = await pair.start(*words, f"--ssl_ca_file={authority.certificate}", "--disable_http")
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    assert (await raw("GET", f"{standby.url}/v2/apps", ssl=trusting))[0] == 502
    beside_http = await pair.start(*words, f"--ssl_ca_file={authority.certificate}")
    assert (await raw("GET", f"{beside_http.url}/v2/apps"))[0] == 200
