"""Executors, as processes of their hosts: Mesos' default executor by its own program, and one of a framework's own.

Of the default executor only who waits for a socket is another: each call that a thread of it would make is made by its
own code, and asked again with the answer once that is there.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.executor import main as real
from mesos_gpu.executor.agent import GONE, Agent
from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions.handle import begin, handle
from mesos_gpu.executor.decisions.state import ExecutorState
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.units import parse_duration
from mesos_gpu.mesos.uuids import random_uuid
from tests.sim.http import Connection

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine
    from tests.sim.world import Process

CUSTOM = "sim-executor"
"""The program of an executor of a framework's own, as an app names it."""
CALLS = "/api/v1/executor"
PATIENCE_S = 60.0


def kind_of(argv: tuple[str, ...]) -> str | None:
    """Return which executor a command starts, None for a task's own command."""
    line = " ".join(argv)
    if CUSTOM in line:
        return "custom"
    return "default" if "mesos_gpu/executor" in line or "default-executor" in line else None


def start(machine: Machine, container: Container) -> Process:
    """Start the executor of a container; when it ends, the container does."""
    world, config = machine.host.world, container.config
    process = world.spawn(f"{machine.host.name}-executor-{world.random.getrandbits(24):06x}", machine.host)

    async def run() -> None:
        program = Default if container.executor == "default" else Custom
        status = await program(machine, container, process).work()
        world.kill(process, why=f"exit {status}")
        machine.end(config.container_id, Termination(exit_code=status))

    world.soon(0.0, lambda: process.kept.append(asyncio.ensure_future(run())), process=process)
    return process


class _Stream:
    """The subscription of an executor, which its calls may break."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: Connection | None = None

    def hang_up(self) -> None:
        if self._open is not None:
            self._open.close()

    async def events(self, call: Mapping[str, Any], told: Callable[[Any], None]) -> None:
        """Tell of events until the stream ends. Raises OSError, asyncio.TimeoutError."""
        connection = await asyncio.wait_for(Connection.open(self._address), PATIENCE_S)
        try:
            head = await connection.begin("POST", CALLS, call, patience_s=PATIENCE_S)
            if head.status != 200:
                raise ConnectionError(f"SUBSCRIBE: {head.status}")
            self._open = connection
            decoder = RecordDecoder()
            while (chunk := await connection.chunk()) is not None:
                for record in decoder.feed(chunk):
                    told(json.loads(record))
        finally:
            self._open = None
            connection.close()


async def _ask(address: str, path: str, document: Mapping[str, Any]) -> tuple[int, str]:
    """Return status and body of the answer to a call. Raises OSError, asyncio.TimeoutError."""
    connection = await asyncio.wait_for(Connection.open(address), PATIENCE_S)
    try:
        answer = await connection.ask("POST", path, document)
        return answer.status, answer.body.decode()
    finally:
        connection.close()


class _Asked(BaseException):
    """A call that has to be made before the code that asks can go on."""

    def __init__(self, path: str, document: Mapping[str, Any]) -> None:
        self.path, self.document = path, document


class _Inbox(asyncio.Queue[Any]):
    put = asyncio.Queue.put_nowait  # type: ignore[assignment]


class _Agent(Agent):
    """The agent, as the code of one thread sees it: a call is put down, or answered by what has come."""

    def __init__(self, who: Any, stream: _Stream) -> None:
        super().__init__(*who)
        self._subscription = stream
        self.answer: tuple[int, str] | MesosGpuError | None = None

    def hang_up(self) -> None:
        self._subscription.hang_up()

    def _call(self, path: str, document: Mapping[str, Any], timeout_s: float | None = None) -> tuple[int, str]:
        if self.answer is None:
            raise _Asked(path, document)
        if isinstance(self.answer, MesosGpuError):
            raise self.answer
        if self.answer[0] in GONE:
            raise Unavailable(str(self.answer))
        return self.answer


class Default(real.Program):
    """The default executor."""

    def __init__(self, machine: Machine, container: Container, process: Process) -> None:
        environment = container.config.environment
        self._address = environment["MESOS_AGENT_ENDPOINT"]
        ids = FrameworkId(environment["MESOS_FRAMEWORK_ID"]), ExecutorId(environment["MESOS_EXECUTOR_ID"])
        self._who = (self._address, *ids)
        self._stream = _Stream(self._address)
        state = ExecutorState(real.setting_of(environment), new_uuid=real.new_uuid, new_id=real.new_id)
        super().__init__(_Agent(self._who, self._stream), state)
        self._inbox: Any = _Inbox()
        self._updates: Any = _Inbox()
        self._process, self._world = process, machine.host.world

    async def work(self) -> int:
        """As `run` of the program."""
        self._process.kept.append(asyncio.ensure_future(self._send()))
        self._perform(begin())
        while self._status is None:
            due_s, now_s = self._state.next_due_s, self._process.host.mono()
            try:
                event = await asyncio.wait_for(self._inbox.get(), None if due_s is None else max(0.0, due_s - now_s))
            except asyncio.TimeoutError:
                event = ev.Tick()
            host = self._process.host
            self._perform(handle(self._state, event, Moment(host.mono(), host.wall())))
        return self._status

    def thread(self, work: Callable[..., None], *args: Any) -> None:
        """Do what a thread of the program does."""
        name = work.__name__
        doing = self._subscribed(*args) if name == "_subscribe" else self._called(name, *args)
        self._process.kept.append(asyncio.ensure_future(doing))

    async def _subscribed(self, action: ev.Subscribe) -> None:
        await asyncio.sleep(action.after_s)
        body = {"unacknowledged_tasks": list(action.tasks), "unacknowledged_updates": list(action.updates)}

        def told(event: Any) -> None:
            found = real.read_event(event)
            if found is not None:
                self._inbox.put(found)

        try:
            await self._stream.events({**self._agent._who, "type": "SUBSCRIBE", "subscribe": body}, told)
        except (OSError, asyncio.TimeoutError) as error:
            self._world.tell(self._process.name, f"no stream: {type(error).__name__}")
        self._inbox.put(ev.Disconnected())

    async def _called(self, name: str, *args: Any) -> None:
        agent = _Agent(self._who, self._stream)
        mine = copy.copy(self)
        mine._agent = agent
        try:
            try:
                getattr(mine, name)(*args)
            except _Asked as asked:
                agent.answer = await self._answer(asked.path, asked.document)
                getattr(mine, name)(*args)
        except MesosGpuError as error:
            self._world.tell(self._process.name, f"{name}: {error}")

    async def _answer(self, path: str, document: Mapping[str, Any]) -> tuple[int, str] | MesosGpuError:
        try:
            return await _ask(self._address, path, document)
        except (OSError, asyncio.TimeoutError) as error:
            return Unavailable(f"{document['type']}: {type(error).__name__}")

    async def _send(self) -> None:
        while True:
            status = await self._updates.get()
            call = {**self._agent._who, "type": "UPDATE", "update": {"status": status}}
            answer = await self._answer(CALLS, call)
            if isinstance(answer, MesosGpuError) or answer[0] != 202:
                self._stream.hang_up()


class Custom:
    """An executor of a framework's own: one task for one executor, as Marathon's apps have them.

    It says again what was not acknowledged when it subscribes, goes on without an agent for as long as it was told to,
    and ends once its task has and that was heard.
    """

    def __init__(self, machine: Machine, container: Container, process: Process) -> None:
        self._machine, self._container, self._process = machine, container, process
        environment = container.config.environment
        self._address = environment["MESOS_AGENT_ENDPOINT"]
        self._executor = {"value": environment["MESOS_EXECUTOR_ID"]}
        self._who = {"framework_id": {"value": environment["MESOS_FRAMEWORK_ID"]}, "executor_id": self._executor}
        recovery = environment.get("MESOS_RECOVERY_TIMEOUT") if environment.get("MESOS_CHECKPOINT") == "1" else None
        self._recovery_s = 0.0 if recovery is None else parse_duration(recovery)
        self._stream = _Stream(self._address)
        self._tasks: dict[str, Any] = {}
        self._updates: dict[str, Any] = {}
        self._ended = self._told_to_end = False
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work(self) -> int:
        """Return the exit status once it is over."""
        self._process.kept.append(asyncio.ensure_future(self._subscribe()))
        return await self._over

    async def _subscribe(self) -> None:
        world = self._machine.host.world
        alone_since_s = world.now_s
        while world.now_s - alone_since_s <= self._recovery_s or not self._tasks:
            body = {
                "unacknowledged_tasks": list(self._tasks.values()),
                "unacknowledged_updates": [{"status": status} for status in self._updates.values()],
            }
            try:
                await self._stream.events({**self._who, "type": "SUBSCRIBE", "subscribe": body}, self._on_event)
            except (OSError, asyncio.TimeoutError):
                if world.now_s - alone_since_s > max(self._recovery_s, PATIENCE_S):
                    break
            else:
                alone_since_s = world.now_s
            await asyncio.sleep(world.random.uniform(0.1, 2.0))
        self._end(1)

    def _on_event(self, event: Any) -> None:
        kind = event["type"]
        body = event.get(kind.lower(), {})
        if kind == "LAUNCH":
            self._launch(body["task"])
        elif kind == "KILL":
            self._kill(body["task_id"]["value"])
        elif kind == "SHUTDOWN":
            self._told_to_end = True
            for task in list(self._tasks):
                self._kill(task)
            self._machine.host.world.soon(3.0, self._end, 0, process=self._process)
        elif kind == "ACKNOWLEDGED":
            self._tasks.pop(body["task_id"]["value"], None)
            self._updates.pop(body["uuid"], None)
            if self._ended and not self._updates:
                self._end(0)

    def _launch(self, task: Any) -> None:
        task_id = task["task_id"]["value"]
        self._tasks[task_id] = task
        own = self._container.config
        environment = {**own.environment, "MESOS_TASK_ID": task_id}
        config = replace(own, container_id=self._inner(task_id), argv=("work",), environment=environment, gpus=0)
        begun = self._machine.begin(config, frozenset())
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        begun.watchers.append(ended)
        ended.add_done_callback(lambda _: self._has_ended(task_id, begun))
        self._update(task_id, "TASK_RUNNING")

    def _inner(self, task_id: str) -> ContainerId:
        return ContainerId(f"{self._container.config.container_id}.{task_id}")

    def _kill(self, task_id: str) -> None:
        self._told_to_end = True
        self._machine.ask_to_end(self._inner(task_id), 3.0)

    def _has_ended(self, task_id: str, container: Container) -> None:
        how = container.termination
        self._ended = True
        self._machine.exits.pop(container.config.container_id, None)
        if how is not None and how.exit_code is not None:
            self._update(task_id, "TASK_FAILED" if how.exit_code else "TASK_FINISHED")
        else:
            self._update(task_id, "TASK_KILLED" if self._told_to_end else "TASK_FAILED")

    def _update(self, task_id: str, state: str) -> None:
        world = self._machine.host.world
        uuid = base64.b64encode(random_uuid(world.random.randbytes(16))).decode()
        self._updates[uuid] = {
            "task_id": {"value": task_id}, "state": state, "uuid": uuid, "source": "SOURCE_EXECUTOR",
            "executor_id": self._executor, "timestamp": self._process.host.wall(),
        }  # fmt: skip
        self._process.kept.append(asyncio.ensure_future(self._send(uuid)))

    async def _send(self, uuid: str) -> None:
        try:
            status, _ = await _ask(
                self._address, CALLS, {**self._who, "type": "UPDATE", "update": {"status": self._updates[uuid]}}
            )
        except (OSError, asyncio.TimeoutError):
            status = 503
        if status != 202:
            self._stream.hang_up()

    def _end(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)


def install() -> None:
    """Have threads of the default executor be steps, and what it prints be part of nothing."""

    def thread(work: Callable[..., None], *args: Any) -> None:
        work.__self__.thread(work, *args)  # type: ignore[attr-defined]

    for name, replacement in (("_thread", thread), ("print", lambda *_, **__: None)):
        setattr(real, name, replacement)
