"""Scheduler drivers by hand against a whole master: older messages, agents and executors, broken links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.master.wire.from_drivers import is_for_drivers
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import encode
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import UUID, framework_info
from tests.support.master.drivers import CALL, ScriptedDrivers
from tests.support.master.live import PREFIX, Scheduler, ScriptedAgent, live_master, until

DRIVER, OTHER, AUTHENTICATEE = "scheduler(1)", "scheduler(2)", "crammd5-authenticatee(1)"
OFFERS = ("ResourceOffersMessage", "RescindResourceOfferMessage")
EXECUTOR = {"executor_id": {"value": "e"}, "command": {"value": "./executor"}}


class Stage:
    """A master with one agent and drivers by hand."""

    def __init__(self, master: RunningMaster, drivers: ScriptedDrivers, agent: ScriptedAgent) -> None:
        self.master, self.url, self.drivers, self.agent = master, master.url, drivers, agent
        self.framework_id = ""

    async def register(self, **info: object) -> None:
        """Register a framework as drivers before 0.23 did."""
        self.drivers.say(DRIVER, f"{PREFIX}RegisterFrameworkMessage", {"framework": framework_info("old", **info)})
        registered = await self.drivers.next(DRIVER, "FrameworkRegisteredMessage")
        self.framework_id = registered["framework_id"]["value"]

    def say(self, name: str, **body: object) -> None:
        self.drivers.say(DRIVER, PREFIX + name, {"framework_id": {"value": self.framework_id}, **body})

    async def launch(self, **more: object) -> Document:
        """Launch a task as old drivers did; return what the agent is asked to run."""
        offers = await self.drivers.next(DRIVER, "ResourceOffersMessage")
        assert offers["pids"] == [self.agent.pid]
        task: Document = {
            "name": "t",
            "task_id": {"value": "t"},
            "slave_id": {"value": self.agent.id},
            "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}}],
            **(more or {"command": {"value": "true"}}),
        }
        ids = [offer["id"] for offer in offers["offers"]]
        self.say("LaunchTasksMessage", tasks=[task], filters={"refuse_seconds": 3600.0}, offer_ids=ids)
        return await self.agent.message("RunTaskMessage", skip=("UpdateFrameworkMessage",))

    async def update(self, **expected: str) -> Document:
        """The next update: its status has these values."""
        message = await self.drivers.next(DRIVER, "StatusUpdateMessage")
        status = message["update"]["status"]
        assert {key: status[key] for key in expected} == expected
        return message


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


@asynccontextmanager
async def staged(tmp_path: Path, *words: str) -> AsyncIterator[Stage]:
    async with live_master(tmp_path, *words) as master:
        drivers, agent = await ScriptedDrivers(master.url).start(), ScriptedAgent(master.url)
        await agent.start()
        try:
            await agent.register()
            yield Stage(master, drivers, agent)
        finally:
            await drivers.stop()
            await agent.stop()


async def state_of(stage: Stage) -> Document:
    scheduler = Scheduler(stage.url)
    try:
        async with scheduler._session.get(f"{stage.url}/state") as response:
            return await response.json()  # type: ignore[no-any-return]
    finally:
        await scheduler.close()


async def test_a_driver_before_0_23_runs_a_task_from_offer_to_end(stage: Stage) -> None:
    await stage.register()
    run = await stage.launch()
    assert run["pid"] == stage.drivers.pid(DRIVER)
    stage.agent.update(run, "TASK_RUNNING")
    update = await stage.update(state="TASK_RUNNING")
    assert (update["pid"], update["update"]["uuid"], update["update"]["latest_state"]) == (
        stage.agent.pid,
        UUID,
        "TASK_RUNNING",
    )
    task = {"slave_id": {"value": stage.agent.id}, "task_id": {"value": "t"}}
    stage.say("StatusUpdateAcknowledgementMessage", **task, uuid=UUID)
    assert (await stage.agent.message("StatusUpdateAcknowledgementMessage"))["uuid"] == UUID
    stage.say("ReconcileTasksMessage", statuses=[{"task_id": {"value": "t"}, "state": "TASK_STAGING"}])
    assert "uuid" not in (await stage.update(state="TASK_RUNNING", reason="REASON_RECONCILIATION"))["update"]
    stage.say("KillTaskMessage", task_id={"value": "t"})
    assert (await stage.agent.message("KillTaskMessage"))["task_id"] == {"value": "t"}
    (framework,) = (await state_of(stage))["frameworks"]
    assert (framework["pid"], framework["active"]) == (stage.drivers.pid(DRIVER), True)
    stage.say("UnregisterFrameworkMessage")
    await stage.agent.message("ShutdownFrameworkMessage")
    assert (await state_of(stage))["frameworks"] == []


async def test_an_old_launch_without_tasks_declines_and_revive_undoes_that(stage: Stage) -> None:
    await stage.register()
    offers = await stage.drivers.next(DRIVER, "ResourceOffersMessage")
    ids = [offer["id"] for offer in offers["offers"]]
    stage.say("LaunchTasksMessage", filters={"refuse_seconds": 3600.0}, offer_ids=ids)
    stage.say("ResourceRequestMessage", requests=[])
    stage.say("ReviveOffersMessage")
    again = await stage.drivers.next(DRIVER, "ResourceOffersMessage")
    assert [offer["id"] for offer in again["offers"]] != ids


async def test_what_executors_say_and_how_they_end_reaches_the_driver(stage: Stage) -> None:
    await stage.register()
    await stage.launch(executor=EXECUTOR)
    of_executor = {"slave_id": {"value": stage.agent.id}, "executor_id": {"value": "e"}}
    stage.say("FrameworkToExecutorMessage", **of_executor, data="aGk=")
    assert (await stage.agent.message("FrameworkToExecutorMessage"))["data"] == "aGk="
    framework = {"framework_id": {"value": stage.framework_id}}
    stage.agent.say("ExecutorToFrameworkMessage", {**of_executor, **framework, "data": "aG8="})
    assert await stage.drivers.next(DRIVER, "ExecutorToFrameworkMessage") == {
        **of_executor,
        **framework,
        "data": "aG8=",
    }
    stage.agent.say("ExitedExecutorMessage", {**of_executor, **framework, "status": 9})
    exited = await stage.drivers.next(DRIVER, "ExitedExecutorMessage", skip=("ResourceOffersMessage",))
    assert exited == {**of_executor, **framework, "status": 9}
    stage.agent.say("UnregisterSlaveMessage", {"slave_id": {"value": stage.agent.id}})
    lost = await stage.drivers.next(
        DRIVER, "LostSlaveMessage", skip=("ResourceOffersMessage", "RescindResourceOfferMessage", "StatusUpdateMessage")
    )
    assert lost == {"slave_id": {"value": stage.agent.id}}


async def test_old_subscriptions_with_and_without_an_id_are_told_apart(stage: Stage) -> None:
    info = framework_info("old")
    stage.drivers.say(OTHER, f"{PREFIX}RegisterFrameworkMessage", {"framework": {**info, "id": {"value": "x"}}})
    assert (await stage.drivers.next(OTHER, "FrameworkErrorMessage"))["message"] == "Registering with 'id' already set"
    stage.drivers.say(OTHER, f"{PREFIX}ReregisterFrameworkMessage", {"framework": info, "failover": True})
    assert (await stage.drivers.next(OTHER, "FrameworkErrorMessage"))["message"] == "Re-registering without an 'id'"
    await stage.register()
    await stage.drivers.next(DRIVER, "ResourceOffersMessage")
    info["id"] = {"value": stage.framework_id}
    stage.drivers.say(OTHER, f"{PREFIX}ReregisterFrameworkMessage", {"framework": info, "failover": True})
    assert (await stage.drivers.next(DRIVER, "FrameworkErrorMessage"))["message"] == "Framework failed over"
    await stage.drivers.next(OTHER, "FrameworkRegisteredMessage")
    await stage.drivers.next(OTHER, "ResourceOffersMessage")
    # The old driver gives up, and says so with the id that is the new one's now.
    stage.say("DeactivateFrameworkMessage")
    stage.drivers.say(OTHER, f"{PREFIX}ReregisterFrameworkMessage", {"framework": info, "failover": False})
    await stage.drivers.next(OTHER, "RescindResourceOfferMessage")
    await stage.drivers.next(OTHER, "FrameworkReregisteredMessage")


async def test_a_driver_whose_program_ends_has_its_failover_timeout(stage: Stage) -> None:
    await stage.register(failover_timeout=0.0)
    await stage.drivers.stop()
    await until(lambda: not stage.master.engine.state.frameworks)
    (framework,) = (await state_of(stage))["completed_frameworks"]
    assert framework["pid"] == stage.drivers.pid(DRIVER)


async def test_a_driver_that_the_master_has_given_up_is_told_when_it_calls(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master:
        drivers = await ScriptedDrivers(master.url).start()
        drivers.subscribe(DRIVER, framework_info("v0"))
        registered = await drivers.next(DRIVER, "FrameworkRegisteredMessage")
        framework_id = registered["framework_id"]["value"]
        framework = master.engine.state.frameworks[framework_id]
        drivers_port = drivers.endpoint.port
        await drivers.stop()
        await until(lambda: not framework.connected)
        drivers = ScriptedDrivers(master.url)
        drivers.endpoint.port = drivers_port
        await drivers.start()
        try:
            drivers.call(DRIVER, "REVIVE", framework_id)
            assert (await drivers.next(DRIVER, "FrameworkErrorMessage"))["message"] == "Framework disconnected"
            drivers.subscribe(DRIVER, {**framework_info("v0"), "id": {"value": framework_id}})
            await drivers.next(DRIVER, "FrameworkReregisteredMessage")
        finally:
            await drivers.stop()


async def test_calls_that_are_not_for_drivers_and_garbage_are_dropped(stage: Stage) -> None:
    await stage.register()
    await stage.drivers.next(DRIVER, "ResourceOffersMessage")
    stage.drivers.call(DRIVER, "RECONCILE_OPERATIONS", stage.framework_id, operations=[])
    stage.drivers.call(DRIVER, "ACKNOWLEDGE", stage.framework_id)
    stage.drivers.endpoint.send(DRIVER, stage.drivers.master, CALL, b"\xff\xff")
    stage.drivers.call(OTHER, "TEARDOWN", stage.framework_id)
    stage.drivers.call(DRIVER, "TEARDOWN", "nobody")
    info = {**framework_info("v0", role="b"), "id": {"value": stage.framework_id}}
    stage.drivers.call(DRIVER, "UPDATE_FRAMEWORK", stage.framework_id, framework_info={**info, "user": "eve"})
    error = await stage.drivers.next(DRIVER, "FrameworkErrorMessage")
    words = "Updating 'FrameworkInfo.user' is unsupported; attempted to update from 'root' to 'eve'"
    assert error["message"] == f"FrameworkInfo update is not valid: {words}"
    assert [framework["id"] for framework in (await state_of(stage))["frameworks"]] == [stage.framework_id]
    assert not is_for_drivers("mesos.internal.RegisterSlaveMessage")


async def test_nobody_calls_over_http_in_the_name_of_a_driver(stage: Stage) -> None:
    await stage.register()
    scheduler = Scheduler(stage.url)
    try:
        scheduler.framework_id, scheduler.stream_id = stage.framework_id, stage.drivers.pid(DRIVER)
        answer = await scheduler.call("TEARDOWN")
        assert (answer.status, await answer.text()) == (403, "Framework is not connected via HTTP")
    finally:
        await scheduler.close()


async def test_who_does_not_authenticate_is_not_let_in(tmp_path: Path) -> None:
    secrets = tmp_path / "credentials"
    secrets.write_text("me secret\n")
    secrets.chmod(0o600)
    async with staged(tmp_path / "master", f"--credentials={secrets}", "--authenticate_frameworks") as stage:
        stage.drivers.subscribe(DRIVER, framework_info("v0"))
        error = await stage.drivers.next(DRIVER, "FrameworkErrorMessage")
        assert error["message"] == f"Framework at {stage.drivers.pid(DRIVER)} is not authenticated"


async def test_a_subscription_during_authentication_is_dropped_and_the_next_one_counts(tmp_path: Path) -> None:
    secrets = tmp_path / "credentials"
    secrets.write_text("me secret\n")
    secrets.chmod(0o600)
    async with staged(tmp_path / "master", f"--credentials={secrets}") as stage:
        pid = stage.drivers.pid(DRIVER)
        stage.drivers.say(AUTHENTICATEE, f"{PREFIX}AuthenticateMessage", {"pid": pid})
        await stage.drivers.next(AUTHENTICATEE, "AuthenticationMechanismsMessage")
        stage.drivers.subscribe(DRIVER, framework_info("v0"))
        await stage.drivers.settle()
        assert stage.drivers.told[DRIVER] == []
        start = {"mechanism": "none of ours"}  # ends it
        session = f"crammd5-authenticator-session(1)@{stage.drivers.master.ip}:{stage.drivers.master.port}"
        name = f"{PREFIX}AuthenticationStartMessage"
        stage.drivers.endpoint.send(AUTHENTICATEE, Pid.parse(session), name, encode(name, start))
        await stage.drivers.next(AUTHENTICATEE, "AuthenticationErrorMessage")
        stage.drivers.subscribe(DRIVER, framework_info("v0"))
        await stage.drivers.next(DRIVER, "FrameworkRegisteredMessage")


async def test_a_driver_is_asked_to_leave_a_machine_that_is_to_be_maintained(stage: Stage) -> None:
    await stage.register()
    await stage.launch()
    unavailability = {"start": {"nanoseconds": 0}}
    window = {"machine_ids": [{"hostname": "127.0.0.1", "ip": "127.0.0.1"}], "unavailability": unavailability}
    scheduler = Scheduler(stage.url)
    try:
        body = {"schedule": {"windows": [window]}}
        assert (await scheduler.operate("UPDATE_MAINTENANCE_SCHEDULE", body))[0] == 200
        asked = await stage.drivers.next(DRIVER, "InverseOffersMessage", skip=(*OFFERS, "StatusUpdateMessage"))
        (offer,) = asked["inverse_offers"]
        assert (offer["slave_id"]["value"], asked["pids"]) == (stage.agent.id, [stage.agent.pid])
        assert (await scheduler.operate("UPDATE_MAINTENANCE_SCHEDULE", {"schedule": {}}))[0] == 200
        taken_back = await stage.drivers.next(DRIVER, "RescindInverseOfferMessage", skip=OFFERS)
        assert taken_back == {"inverse_offer_id": offer["id"]}
    finally:
        await scheduler.close()
