"""The owner of the state, between a real store and a link that is not there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp, NotFound, Problem, Unavailable
from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.engine import scheduler
from mesos_gpu.marathon.engine.election import EXIT_LEADERSHIP_LOST, Election
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.state.actions import Acknowledge, Kill, Launch, Reconcile, Revive, Save, Suppress
from mesos_gpu.marathon.state.events import FrameworkError, RemoveApp, Tick
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.process.http import MAX_REQUEST
from tests.fakes.mesos_link import FakeMesosLink
from tests.support.golden import Golden
from tests.support.marathon.builders import SETTINGS, app, offer, status
from tests.support.marathon.service import Marathon


async def test_apps_and_tasks_survive_a_restart(marathon: Marathon) -> None:
    tasks = await marathon.running(instances=2)
    await marathon.restart()
    reconciled: Reconcile = await marathon.link.next(Reconcile)
    assert sorted(reconciled.agents) == sorted(tasks)
    shown = (await marathon.get("/v2/apps//a"))["app"]
    assert sorted(t["id"] for t in shown["tasks"]) == sorted(tasks)
    assert shown["tasksRunning"] == 2
    await marathon.link.next(Suppress)
    marathon.link.offer(offer())
    await marathon.settled()
    assert not [call for call in marathon.link.calls if isinstance(call, Launch)]


async def test_a_deployment_goes_on_after_a_restart(marathon: Marathon) -> None:
    answer = await marathon.call("POST", "/v2/apps", app(instances=2))
    first, second = await marathon.launched()
    await marathon.say(first)
    await marathon.restart()
    deployments = await marathon.get("/v2/deployments")
    assert [d["id"] for d in deployments] == [answer.headers["Marathon-Deployment-Id"]]
    await marathon.say(second)
    assert await marathon.get("/v2/deployments") == []


async def test_a_status_is_acknowledged_once_it_is_on_disk(marathon: Marathon, tmp_path: Path) -> None:
    await marathon.call("POST", "/v2/apps", app())
    (task,) = await marathon.launched()
    await marathon.say(task, "TASK_RUNNING")
    await marathon.link.next(Acknowledge)
    await marathon.stop()
    store = SqliteStore(marathon.path)
    (instance,) = store.load().instances.values()
    store.close()
    assert instance.task is not None
    assert instance.task.state == "TASK_RUNNING"
    await marathon.start()


async def test_the_framework_id_is_kept(marathon: Marathon) -> None:
    await marathon.settled()
    assert (await marathon.get("/v2/info"))["frameworkId"] == "F1"
    await marathon.restart()
    assert marathon.link.framework_id == "F1"


async def test_time_brings_a_failed_task_back(marathon: Marathon) -> None:
    (task,) = await marathon.running(backoffSeconds=3)
    await marathon.say(task, "TASK_FAILED", message="Command exited with status 7")
    shown = (await marathon.get("/v2/apps//a"))["app"]
    assert shown["lastTaskFailure"]["message"] == "Command exited with status 7"
    assert (await marathon.get("/v2/queue"))["queue"][0]["delay"] == {"timeLeftSeconds": 3, "overdue": False}
    marathon.clock.now_s += 3
    (again,) = await marathon.launched()
    assert again == task.replace("_app.1", "_app.2")


async def test_a_timer_of_the_loop_sends_what_is_due(make_marathon: Callable[..., Any]) -> None:
    settings = replace(SETTINGS, reconcile_initial_s=0.02, reconcile_interval_s=0.02)
    marathon = await make_marathon(settings=settings, clock=time.time)
    for _ in range(3):
        await marathon.link.next(Reconcile)


async def test_calls_of_the_api_wait_for_no_master(make_marathon: Callable[..., Any]) -> None:
    marathon = await make_marathon(link=FakeMesosLink(master_up=False))
    assert (await marathon.call("POST", "/v2/apps", app())).status == 201
    assert (await marathon.get("/v2/info"))["frameworkId"] is None
    marathon.link.come_up()
    await marathon.link.next(Revive)
    assert await marathon.launched()


async def test_a_broken_connection_loses_nothing(marathon: Marathon) -> None:
    (task,) = await marathon.running()
    await marathon.call("DELETE", "/v2/apps//a")
    await marathon.link.next(Kill)
    marathon.link.break_connection()
    assert (await marathon.link.next(Kill)).task_id == task
    await marathon.say(task, "TASK_KILLED")
    assert await marathon.get("/v2/deployments") == []


async def test_news_that_cannot_be_handled_is_passed_over(
    marathon: Marathon, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    marathon.link.status({"state": "TASK_RUNNING"})
    marathon.link.status(dict(status("x", "TASK_DANCING").status))
    await marathon.running()
    assert caplog.messages == golden


async def test_a_disk_that_refuses_ends_the_scheduler_before_anything_is_done(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marathon.settled()
    before = len(marathon.link.calls)

    def full(self: SqliteStore, changes: object) -> None:
        raise Unavailable("cannot write marathon.db: database or disk is full")

    monkeypatch.setattr(SqliteStore, "save", full)
    answer = await marathon.call("POST", "/v2/apps", app())
    assert answer.status == 503
    with pytest.raises(Unavailable, match="disk is full"):
        await marathon.work
    assert len(marathon.link.calls) == before
    assert marathon.link.stopped


async def test_being_taken_over_ends_the_scheduler(marathon: Marathon) -> None:
    await marathon.settled()
    marathon.link.tell(FrameworkError("Framework failed over"))
    with pytest.raises(Unavailable, match="F1"):
        await marathon.work


async def test_who_waits_when_it_ends_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db")
    scheduler = Scheduler(store, FakeMesosLink(), SETTINGS)
    work = asyncio.ensure_future(scheduler.run())
    await scheduler.ask(Tick())
    asked = asyncio.ensure_future(scheduler.ask(RemoveApp("/a", "d")))
    work.cancel()
    with pytest.raises((NotFound, Unavailable)):
        await asked
    with pytest.raises(asyncio.CancelledError):
        await work
    store.close()


async def test_a_removed_framework_starts_over(marathon: Marathon) -> None:
    (task,) = await marathon.running()
    marathon.link.tell(FrameworkError("Framework has been removed"))
    await marathon.settled()
    (again,) = await marathon.launched()
    assert again == task.replace("_app.1", "_app.2")
    assert (await marathon.get("/v2/info"))["frameworkId"] == "F2"


async def test_many_calls_at_once_are_all_answered(marathon: Marathon) -> None:
    answers = await asyncio.gather(*(marathon.call("POST", "/v2/apps", app(f"/a{n}")) for n in range(40)))
    assert {answer.status for answer in answers} == {201}
    assert len((await marathon.get("/v2/apps"))["apps"]) == 40
    await marathon.restart()
    assert len((await marathon.get("/v2/apps"))["apps"]) == 40


async def test_what_the_store_cannot_hold_is_refused_and_nothing_else(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(change: Save) -> None:
        if "/large" in change.apps:
            raise InvalidApp([Problem("/", "too large", "too large")])

    monkeypatch.setattr(marathon.store, "refuse", refuse)
    answers = await asyncio.gather(
        *(marathon.call("POST", "/v2/apps", app(app_id)) for app_id in ("/a", "/large", "/b"))
    )
    assert [answer.status for answer in answers] == [201, 422, 201]
    assert [each["id"] for each in (await marathon.get("/v2/apps"))["apps"]] == ["/a", "/b"]
    await marathon.restart()
    assert len((await marathon.get("/v2/apps"))["apps"]) == 2


async def test_a_body_that_is_too_large_is_not_read(marathon: Marathon) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", marathon.endpoint.port)
    writer.write(b"POST /v2/apps HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % (MAX_REQUEST + 1))
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()
    await writer.wait_closed()


async def test_many_offers_at_once_leave_room_for_the_api(marathon: Marathon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesos_gpu.marathon.engine.scheduler._TURN_S", -1.0)  # as if each event took long
    await marathon.call("POST", "/v2/apps", app(instances=100))
    marathon.link.offer(*(offer(f"O{n}") for n in range(50)))
    marathon.link.offer(*(offer(f"P{n}") for n in range(50)))
    waited = 0
    while len((await marathon.get("/v2/apps//a/tasks"))["tasks"]) < 100:
        waited += 1
        assert waited < 1000
    used = [call.offer_id for call in marathon.link.calls if isinstance(call, Launch)]
    assert used == sorted(used, key=lambda each: (each[0], int(each[1:])))


async def test_others_are_served_while_something_is_decided(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, served = threading.Event(), threading.Event()
    seen: list[bool] = []

    def slowly(*args: Any) -> Any:
        begun.set()
        seen.append(served.wait(20))
        return handle(*args)

    await marathon.settled()
    monkeypatch.setattr(scheduler, "handle", slowly)
    marathon.scheduler.tell(Tick())
    await asyncio.to_thread(begun.wait, 20)
    assert (await marathon.get("/v2/info"))["frameworkId"] == "F1"
    served.set()
    await marathon.settled()
    assert seen[0], "whoever asked was answered before that was decided"


@given(st.uuids())
def test_ids_of_a_seed_are_those_of_the_rfc_by_name(seed: UUID) -> None:
    make = ids_from(str(seed))
    assert [make() for _ in range(12)] == [str(uuid5(seed, str(number))) for number in range(1, 13)]


@pytest.mark.parametrize("successor", ["192.0.2.1:8080", None])
async def test_a_leader_ends_once_it_is_not_the_leader_any_more(successor: str | None) -> None:
    election = Election()
    election.address = "192.0.2.2:8080"
    election.heard(election.address)
    election.take()
    assert not election.over.done()
    election.heard(successor)
    assert election.over.result() == EXIT_LEADERSHIP_LOST
