"""GPUs and a volume reserved on a real agent: exact numbers at every step, and data that outlives the agent's death."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from tests.fakes.master import ScriptedMaster
from tests.support.agent.live import LiveAgent
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler, live_master, until

ROLE = "ml"
SKIPPED = ("HEARTBEAT", "OFFERS", "RESCIND")
NAMES = ("cpus", "gpus", "mem", "disk")


class RealMaster:
    """What LiveAgent asks of its master, answered by a real one."""

    acknowledges = True

    def __init__(self, running: RunningMaster) -> None:
        self.running = running

    @property
    def pid(self) -> Pid:
        return self.running.endpoint.pid("master")

    @property
    def agent(self) -> Pid | None:
        agents = list(self.running.engine.state.agents.values())
        return Pid.parse(agents[0].pid) if agents else None

    def messages(self, name: str) -> list[None]:
        counter = {"RegisterSlaveMessage": "slave_registrations", "ReregisterSlaveMessage": "slave_reregistrations"}
        return [None] * self.running.engine.state.counters[counter[name]]

    async def until(self, true: Callable[[], bool], timeout_s: float) -> None:
        await until(true)


class Cluster:
    """A master in this process, an agent program, and a framework by hand."""

    def __init__(self, master: RunningMaster, agent: LiveAgent, scheduler: Scheduler) -> None:
        self.master, self.agent, self.scheduler = master, agent, scheduler

    async def get(self, path: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(self.master.url + path) as response:
            assert response.status == 200
            return await response.json()

    async def post(self, path: str, **fields: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.post(self.master.url + path, data=fields) as response:
            return response.status, await response.text()

    async def call(self, kind: str, body: Document | None = None) -> tuple[int, Any]:
        call = {"type": kind, **({} if body is None else {kind.lower(): body})}
        url = f"{self.master.url}/api/v1"
        async with aiohttp.ClientSession() as session, session.post(url, json=call) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text

    @property
    def agent_id(self) -> str:
        return next(iter(self.master.engine.state.agents))

    async def offer(self) -> Document:
        """The offer that is out; what was refused is asked for again."""
        (framework,) = self.master.engine.state.frameworks.values()
        await self.scheduler.call("REVIVE")
        await until(lambda: bool(framework.offers))
        return next(iter(framework.offers.values())).document

    async def accept(self, offer: Document, *operations: Document) -> None:
        body = {"offer_ids": [offer["id"]], "operations": list(operations), "filters": {"refuse_seconds": 3600}}
        assert (await self.scheduler.call("ACCEPT", body)).status == 202

    async def done(self, kind: str, *resources: Document) -> None:
        """One operation: offered, accepted, finished, acknowledged."""
        field = "resources" if kind.endswith("RESERVE") else "volumes"
        offer = await self.offer()
        name = {"value": f"op-{kind}"}
        await self.accept(offer, {"type": kind, "id": name, kind.lower(): {field: list(resources)}})
        event = await self.scheduler.event("UPDATE_OPERATION_STATUS", SKIPPED)
        status = event["status"]
        assert (status["operation_id"], status["state"]) == (name, "OPERATION_FINISHED"), status
        assert len((await self.call("GET_OPERATIONS"))[1]["get_operations"]["operations"]) == 1
        body = {"operation_id": name, "agent_id": status["agent_id"], "uuid": status["uuid"]["value"]}
        assert (await self.scheduler.call("ACKNOWLEDGE_OPERATION_STATUS", body)).status == 202
        assert (await self.call("GET_OPERATIONS"))[1]["get_operations"] == {}

    async def run(self, task_id: str, line: str, *resources: Document, **more: Any) -> str:
        """Run a task to its end; return what it said."""
        plain = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in (("cpus", 0.1), ("mem", 32.0))]
        task = {"name": task_id, "task_id": {"value": task_id}, "agent_id": {"value": self.agent_id}}
        task |= {"resources": [*plain, *resources], "command": {"value": line}, **more}
        await self.accept(await self.offer(), {"type": "LAUNCH", "launch": {"task_infos": [task]}})
        for state in ("TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"):
            status = await self.scheduler.status(SKIPPED)
            assert status["state"] == state, f"{status}\n{self.agent.log.read_text()}"
            await self.scheduler.acknowledge(status)
        return await self.agent.said(task_id)

    async def shown(self) -> dict[str, dict[str, float]]:
        """What master and agent both say is reserved, unreserved, used; they agree."""
        (slave,) = (await self.get("/slaves"))["slaves"]
        state = await self.agent.get("/state")
        reserved = {role: {n: r[n] for n in NAMES} for role, r in slave["reserved_resources"].items()}
        assert reserved == {role: {n: r[n] for n in NAMES} for role, r in state["reserved_resources"].items()}
        assert slave["resources"] == state["resources"]
        assert slave["unreserved_resources"] == state["unreserved_resources"]
        full = [
            *slave["unreserved_resources_full"],
            *(r for rs in slave["reserved_resources_full"].values() for r in rs),
        ]
        assert {n: sum(r["scalar"]["value"] for r in full if r["name"] == n) for n in NAMES} == {
            n: slave["resources"][n] for n in NAMES
        }
        return {**reserved, "*": {n: slave["unreserved_resources"][n] for n in NAMES}}


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with live_master(folder / "master") as master:
        agent = LiveAgent(folder / "agent", cast(ScriptedMaster, RealMaster(master)))
        agent.folder.mkdir()
        scheduler = Scheduler(master.url)
        try:
            await agent.start()
            capabilities = "GPU_RESOURCES MULTI_ROLE RESERVATION_REFINEMENT"
            await scheduler.subscribe(framework_info(capabilities=capabilities, roles=[ROLE]))
            yield Cluster(master, agent, scheduler)
        finally:
            await scheduler.close()
            await agent.end()
    assert agent.leftovers() == []


def reserved(name: str, value: float) -> Document:
    return {
        "name": name,
        "type": "SCALAR",
        "scalar": {"value": value},
        "reservations": [{"type": "DYNAMIC", "role": ROLE}],
    }


def volume(mode: str = "RW", path: str = "data") -> Document:
    disk = {"persistence": {"id": "weights"}, "volume": {"mode": mode, "container_path": path}}
    return {**reserved("disk", 64.0), "disk": disk}


@pytest.mark.root
async def test_a_volume_outlives_its_task_and_its_agent_and_goes_when_destroyed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as c:
        whole = (await c.shown())["*"]
        gpus = reserved("gpus", 2.0)

        await c.done("RESERVE", gpus, reserved("disk", 64.0))
        taken = {"cpus": 0.0, "gpus": 2.0, "mem": 0.0, "disk": 64.0}
        left = {n: whole[n] - taken[n] for n in NAMES}
        assert await c.shown() == {ROLE: taken, "*": left}

        await c.done("CREATE", volume())
        folder = tmp_path / "agent" / "work" / "volumes" / "roles" / ROLE / "weights"
        assert folder.is_dir()
        assert await c.shown() == {ROLE: taken, "*": left}

        said = await c.run("writes", "echo learned > data/epoch; nvidia-smi -L | wc -l", volume(), gpus)
        assert said.split() == ["2"], "the reserved GPUs are those it has"
        assert (folder / "epoch").read_text() == "learned\n"

        await c.agent.signal(signal.SIGKILL)
        await c.agent.start()
        assert await c.shown() == {ROLE: taken, "*": left}
        read_only = volume("RO", "again")
        said = await c.run("reads", "cat again/epoch; touch again/x 2>/dev/null || echo no", read_only)
        assert said.split() == ["learned", "no"]
        assert await c.shown() == {ROLE: taken, "*": left}

        await c.done("DESTROY", volume())
        assert not folder.exists()
        await c.done("UNRESERVE", gpus, reserved("disk", 64.0))
        assert await c.shown() == {"*": whole}
        assert (await c.agent.get("/state"))["reserved_resources_full"] == {}


@pytest.mark.root
async def test_an_operator_reserves_and_creates_through_both_apis(tmp_path: Path) -> None:
    async with cluster(tmp_path) as c:
        whole = (await c.shown())["*"]
        agent_id = {"value": c.agent_id}
        offer = await c.scheduler.offer()
        assert await c.call("RESERVE_RESOURCES", {"agent_id": agent_id, "resources": [reserved("gpus", 3.0)]}) == (
            202,
            "",
        )
        rescinded = await c.scheduler.event("RESCIND")
        assert rescinded["offer_id"] == offer["id"]
        old = [{**r, "role": ROLE, "reservation": {}} for r in (reserved("disk", 64.0),)]
        for one in old:
            del one["reservations"]
        assert await c.post("/master/reserve", slaveId=c.agent_id, resources=json.dumps(old)) == (202, "")
        assert await c.post("/create-volumes", slaveId=c.agent_id, volumes=json.dumps([volume()])) == (202, "")
        folder = tmp_path / "agent" / "work" / "volumes" / "roles" / ROLE / "weights"
        await c.agent.until(folder.is_dir)
        assert (await c.shown())[ROLE] == {"cpus": 0.0, "gpus": 3.0, "mem": 0.0, "disk": 64.0}

        status, text = await c.call("RESERVE_RESOURCES", {"agent_id": agent_id, "resources": [reserved("gpus", 2.0)]})
        assert status == 409
        assert "does not contain gpus:2" in text
        status, text = await c.call("DESTROY_VOLUMES", {"agent_id": {"value": "x"}, "volumes": [volume()]})
        assert (status, text) == (400, "No agent found with specified ID")
        status, text = await c.post("/unreserve", slaveId=c.agent_id, resources=json.dumps([reserved("gpus", 0.5)]))
        assert status == 400
        assert text.startswith("Invalid UNRESERVE operation: Invalid resources: ")
        assert await c.post("/reserve", resources="[]") == (
            400,
            "Missing 'slaveId' query parameter in the request body",
        )
        status, text = await c.post("/reserve", slaveId=c.agent_id, resources="{")
        assert (status, text.split(":")[0]) == (400, "Error in parsing 'resources' query parameter in the request body")

        assert await c.call("DESTROY_VOLUMES", {"agent_id": agent_id, "volumes": [volume()]}) == (202, "")
        await c.agent.until(lambda: not folder.exists())
        everything = [reserved("gpus", 3.0), reserved("disk", 64.0)]
        assert await c.post("/unreserve", slaveId=c.agent_id, resources=json.dumps(everything)) == (202, "")

        async def given_back() -> bool:
            return not (await c.agent.get("/state"))["reserved_resources"]

        while not await given_back():
            pass
        assert await c.shown() == {"*": whole}
        assert (await c.call("GET_OPERATIONS"))[1]["get_operations"] == {}


@pytest.mark.root
async def test_gpus_that_flags_reserve_are_their_roles_alone_and_cannot_be_unreserved(tmp_path: Path) -> None:
    async with live_master(tmp_path / "master") as master:
        agent = LiveAgent(tmp_path / "agent", cast(ScriptedMaster, RealMaster(master)))
        agent.folder.mkdir()
        other, scheduler = Scheduler(master.url), Scheduler(master.url)
        try:
            await agent.start("--resources=cpus:2;mem:1024;disk:100;gpus:1;gpus(ml):3", "--nvidia_gpu_devices=0,1,2,3")
            await other.subscribe(framework_info("other", capabilities="GPU_RESOURCES", role="web"))
            offer = await other.offer()
            assert [r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus"] == [1.0]
            decline = {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 3600}}
            assert (await other.call("DECLINE", decline)).status == 202
            await scheduler.subscribe(framework_info(capabilities="GPU_RESOURCES", role=ROLE))
            c = Cluster(master, agent, scheduler)
            offer = await c.scheduler.offer()
            gpus = {r["role"]: r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus"}
            assert gpus == {"*": 1.0, ROLE: 3.0}
            assert (await c.shown())[ROLE]["gpus"] == 3.0
            static = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 1.0}, "role": ROLE}]
            status, text = await c.post("/unreserve", slaveId=c.agent_id, resources=json.dumps(static))
            assert status == 400
            assert text.endswith("is not dynamically reserved")
        finally:
            await scheduler.close()
            await other.close()
            await agent.end()
    assert agent.leftovers() == []
