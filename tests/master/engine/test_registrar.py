"""Writing the registry off the event loop: order, batches, failures, and a master that continues meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import aiohttp
import msgspec
import pytest

from mesos_gpu.errors import BadInput, Unavailable

# The events themselves: what they return is not followed at once here.
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.engine.registrar import Registrar
from mesos_gpu.master.engine.registry import FileKeeper, Registry
from mesos_gpu.master.events.agents import Register
from mesos_gpu.master.events.operators import DeactivateAgent, Operate, StartMaintenance, UpdateSchedule, UpdateWeights
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.registry.operations import Nothing, SetWeights
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import framework_info, new_state, report, task_info
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon, until


class SlowKeeper:
    """A disk whose every write waits until the test lets it end, well or not."""

    def __init__(self, *, slow: bool = True) -> None:
        self.loop = asyncio.get_running_loop()
        self.begun: asyncio.Queue[Document] = asyncio.Queue()
        self.data: bytes | None = None
        self.slow = slow
        self._ends: list[str | None] = []
        self._may_end = threading.Semaphore(0)

    def read(self) -> bytes | None:
        return self.data

    def write(self, data: bytes) -> None:
        if self.slow:
            self.loop.call_soon_threadsafe(self.begun.put_nowait, msgspec.json.decode(data))
            assert self._may_end.acquire(timeout=60)
            problem = self._ends.pop(0)
            if problem is not None:
                raise Unavailable(problem)
        self.data = data

    def end(self, problem: str | None = None) -> None:
        self._ends.append(problem)
        self._may_end.release()


async def recovered(keeper: SlowKeeper) -> Registrar:
    registrar = Registrar(Registry(keeper))
    keeper.slow = False
    await registrar.recover("me")
    keeper.slow = True
    return registrar


async def test_each_write_holds_all_that_was_asked_for_before_it_and_what_follows_comes_in_order() -> None:
    keeper = SlowKeeper()
    registrar = await recovered(keeper)
    done: list[int] = []

    def ask(number: int) -> None:
        registrar.apply(SetWeights({f"r{number}": 2.0}), lambda: done.append(number))

    ask(0)
    ask(1)
    assert list((await soon(keeper.begun.get()))["weights"]) == ["r0", "r1"], "asked in one turn of the loop"
    ask(2)
    registrar.apply(Nothing(), lambda: done.append(3))
    ask(4)
    assert not done
    assert not registrar.idle
    assert registrar.metrics()["registrar/queued_operations"] == 5.0
    keeper.end()
    assert list((await soon(keeper.begun.get()))["weights"]) == ["r0", "r1", "r2", "r4"]
    assert done == [0, 1]
    idle: list[bool] = []
    registrar.apply(Nothing(), lambda: idle.append(registrar.idle))
    registrar.apply(Nothing(), lambda: idle.append(registrar.idle))
    keeper.end()
    await until(lambda: registrar.idle)
    assert done == [0, 1, 2, 3, 4]
    assert idle == [False, True], "not before all that is durable is followed"
    registrar.apply(SetWeights({"r0": 2.0}), lambda: done.append(5))  # nothing new: nothing is written
    await until(lambda: done[-1] == 5)
    assert keeper.begun.empty()
    await registrar.close()


async def test_the_registry_says_who_leads_before_anything_else_does(tmp_path: Path) -> None:
    for name in ("m1", "m2"):
        record = await Registrar(Registry(tmp_path)).recover(name)
    assert record.masters == ("m1", "m2")
    assert Registry(tmp_path).load() == record


async def test_after_a_write_that_failed_nothing_follows_and_nothing_is_written() -> None:
    keeper, why = SlowKeeper(), []
    registrar = await recovered(keeper)
    registrar.on_failure = why.append
    registrar.apply(SetWeights({"a": 2.0}), lambda: why.append("followed"))
    await soon(keeper.begun.get())
    registrar.apply(SetWeights({"b": 2.0}), lambda: why.append("followed, too"))
    keeper.end("the disk is full")
    await until(lambda: bool(why))
    registrar.apply(SetWeights({"c": 2.0}), lambda: why.append("followed, after all"))
    await registrar.close()
    assert why == ["the disk is full"]
    assert keeper.begun.empty()


async def test_a_registrar_that_is_closed_waits_for_its_write_and_tells_nobody() -> None:
    keeper = SlowKeeper()
    registrar = await recovered(keeper)
    told: list[str] = []
    registrar.apply(SetWeights({"a": 2.0}), lambda: told.append("followed"))
    await soon(keeper.begun.get())
    closing = asyncio.create_task(registrar.close())
    await asyncio.sleep(0)
    assert not closing.done()
    keeper.end()
    await soon(closing)
    assert Registry(keeper).load().policy.weights == {"a": 2.0}
    assert not told


class World:
    """An engine over a slow disk; `told` is what agents would hear."""

    def __init__(self, registrar: Registrar) -> None:
        self.state = new_state()
        self.engine = Engine(self.state, registrar)
        self.engine.agents = self
        self.told: list[object] = []

    def perform(self, action: object) -> None:
        self.told.append(action)

    def observe(self, agent_id: str) -> None:
        self.told.append(agent_id)

    def part(self, agent_id: str, *, silent: bool) -> None:
        self.told.append(agent_id)

    def removals(self) -> dict[str, int]:
        return {}


async def test_no_agent_hears_an_id_that_is_not_on_disk() -> None:
    keeper = SlowKeeper()
    world = World(await recovered(keeper))
    world.engine.do(Register(report()))
    assert [agent["pid"] for agent in (await soon(keeper.begun.get()))["agents"]] == [report().pid]
    assert (world.told, world.state.agents) == ([], {})
    keeper.end("no space left")
    with pytest.raises(Unavailable, match="no space left"):
        await soon(world.engine.failed)
    world.engine.do(Register(report(port=5052)))
    assert (world.told, world.state.agents) == ([], {})


async def test_an_operator_is_answered_when_it_is_stored_with_all_that_followed() -> None:
    keeper = SlowKeeper(slow=False)
    world = World(await recovered(keeper))
    keeper.slow = False
    await world.engine.store(Register(report()))
    machine = {"hostname": "127.0.0.1", "ip": "127.0.0.1"}
    schedule = {"windows": [{"machine_ids": [machine], "unavailability": {"start": {"nanoseconds": 0}}}]}
    await world.engine.store(UpdateSchedule(schedule))
    keeper.slow = True
    down = asyncio.create_task(world.engine.store(StartMaintenance([machine])))
    assert "down_machines" in await soon(keeper.begun.get())
    weights = [{"role": "ml", "weight": 2.0}]
    other = asyncio.create_task(world.engine.store(UpdateWeights(weights)))
    assert len(world.state.agents) == 1
    keeper.end()
    assert (await soon(keeper.begun.get()))["agents"] == [], "agents there are removed after the machine is down"
    assert not down.done()
    keeper.end()
    await soon(down)
    assert not world.state.agents
    assert (await soon(keeper.begun.get()))["weights"] == {"ml": 2.0}, "one operator after the other"
    assert not world.state.policy.weights
    keeper.end("gone")
    with pytest.raises(Unavailable, match="gone"):
        await soon(other)
    with pytest.raises(Unavailable, match="has stopped"):
        await world.engine.store(UpdateWeights(weights))


async def test_an_operator_does_not_wait_for_a_master_that_stops() -> None:
    keeper = SlowKeeper()
    world = World(await recovered(keeper))
    weights = [{"role": "ml", "weight": 2.0}]
    first, second = (asyncio.create_task(world.engine.store(UpdateWeights(weights))) for _ in range(2))
    await soon(keeper.begun.get())
    world.engine.stop()
    with pytest.raises(Unavailable, match="is stopping"):
        await soon(first)
    with pytest.raises(Unavailable, match="has stopped"):
        await soon(second)
    keeper.end()
    assert not world.state.policy.weights


async def test_an_operator_whose_wish_is_refused_or_needs_no_write_hears_it_at_once() -> None:
    world = World(await recovered(SlowKeeper()))
    with pytest.raises(BadInput, match="Unknown agent"):
        await world.engine.store(DeactivateAgent("nobody"))
    await world.engine.store(Operate("nobody", {"type": "RESERVE"}))


async def test_while_a_write_takes_long_the_master_does_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks start and end, operators look; only who needs the registry waits."""
    keeper = SlowKeeper(slow=False)
    monkeypatch.setattr(FileKeeper, "read", lambda self: keeper.read())
    monkeypatch.setattr(FileKeeper, "write", lambda self, data: keeper.write(data))
    async with live_master(tmp_path, "--check_invariants") as master, aiohttp.ClientSession() as http:
        agent, late, scheduler = ScriptedAgent(master.url), ScriptedAgent(master.url), Scheduler(master.url)
        try:
            for one in (agent, late):
                await one.start()
            await agent.register()
            await scheduler.subscribe(framework_info())
            offer = await scheduler.offer()
            keeper.slow = True
            late.introduce("RegisterSlaveMessage")
            await soon(keeper.begun.get())
            late.introduce("RegisterSlaveMessage")  # agents ask again: this is passed over
            weights = scheduler.operate("UPDATE_WEIGHTS", {"weight_infos": [{"role": "ml", "weight": 2.0}]})
            operator = asyncio.create_task(weights)

            await scheduler.launch(offer, task_info(master.engine.state.agents[agent.id]))
            run = await agent.message("RunTaskMessage")
            agent.update(run, "TASK_RUNNING")
            assert (await scheduler.status())["state"] == "TASK_RUNNING"
            async with http.get(f"{master.url}/health") as answer:
                assert answer.status == 200
            async with http.get(f"{master.url}/slaves") as answer:
                assert [one["id"] for one in (await answer.json())["slaves"]] == [agent.id]
            assert await scheduler.operate("GET_WEIGHTS", {}) == (200, '{"type":"GET_WEIGHTS"}')
            assert late.messages.empty()
            assert not operator.done()
            keeper.end()
            assert (await late.message("SlaveRegisteredMessage"))["slave_id"]["value"] in master.engine.state.agents
            await soon(keeper.begun.get())
            keeper.end()
            assert await soon(operator) == (200, "")
            keeper.slow = False
        finally:
            for one in (agent, late):
                await one.stop()
            await scheduler.close()
    assert set(Registry(tmp_path).load().agents) == {agent.id, *master.engine.state.agents}


async def test_a_record_that_is_written_is_never_changed_again() -> None:
    keeper = SlowKeeper(slow=False)
    registrar = await recovered(keeper)
    keeper.slow = False
    before: Record = registrar.record
    document = before.to_document()
    registrar.apply(SetWeights({"a": 2.0}), lambda: None)
    await until(lambda: registrar.idle)
    assert registrar.record is not before
    assert before.to_document() == document
    await registrar.close()
