"""Tasks with executors of their own, and any history of them."""

from __future__ import annotations

import base64
import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.tasks import is_terminal
from mesos_gpu.mesos.uuids import random_uuid
from tests.support.agent.documents import (
    ALL_CAPABILITIES,
    FRAMEWORK_ID,
    at,
    framework,
    new_state,
    run,
    scalar,
    task,
)

AWARE = framework(*ALL_CAPABILITIES)
ECHO = ExecutorKey(FRAMEWORK_ID, "echo")
IDS = {"framework_id": {"value": FRAMEWORK_ID}, "executor_id": {"value": "echo"}}
_uuids = itertools.count(10_000)


def hosted(task_id: str, *, gpus: int = 0, kind: str = "CUSTOM", executor: str = "echo") -> dict[str, Any]:
    info: dict[str, Any] = {
        "type": kind,
        "executor_id": {"value": executor},
        "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)],
    }
    if kind == "CUSTOM":
        info["command"] = {"value": "./executor"}
    document = task(task_id, gpus=gpus, executor=info)
    del document["command"]
    return document


def says(task_id: str, state: str, **more: Any) -> ev.ExecutorSays:
    uuid = base64.b64encode(random_uuid(next(_uuids).to_bytes(16, "big"))).decode()
    status = {"task_id": {"value": task_id}, "state": state, "uuid": uuid, "source": "SOURCE_EXECUTOR", **more}
    return ev.ExecutorSays(ECHO, {"timestamp": 1.0, **status})


class AnyHistory(RuleBasedStateMachine):
    """Executors of one framework under any order of what the master, executors and containers may do."""

    def __init__(self) -> None:
        super().__init__()
        self.state = new_state()
        self.now_s = 0.0
        self.numbers = itertools.count()
        self.running: dict[str, ExecutorKey] = {}
        self.unacknowledged: list[Forward] = []
        self.ended: dict[str, int] = {}
        self.do(ev.Registered())

    def do(self, event: ev.Event) -> None:
        for action in handle(self.state, event, at(self.now_s)):
            self.see(action)
            if isinstance(action, act.Launch) and isinstance(action.key, ExecutorKey):
                assert action.config.container_id not in self.running
                self.running[action.config.container_id] = action.key
            elif isinstance(action, Forward):
                self.unacknowledged.append(action)

    def see(self, action: act.Action) -> None:
        """Take note of an action; for machines that look at more."""

    @rule(executor=st.sampled_from("xy"), size=st.integers(1, 2))
    def launch(self, executor: str, size: int) -> None:
        for _ in range(size):
            info = hosted(f"t{next(self.numbers)}", executor=executor)
            self.do(run(info, info=AWARE))

    @rule(executor=st.sampled_from("xy"))
    def container_runs(self, executor: str) -> None:
        found = self.state.frameworks.executor(ExecutorKey(FRAMEWORK_ID, executor))
        if found is not None and found.pid is None and not found.over:
            self.do(ev.Launched(found.key, 7))

    @rule(executor=st.sampled_from("xy"), held=st.booleans())
    def subscribe(self, executor: str, held: bool) -> None:
        found = self.state.frameworks.executor(ExecutorKey(FRAMEWORK_ID, executor))
        if found is not None:
            tasks = self.state.frameworks.active[FRAMEWORK_ID].hosted_by(found) if held else []
            self.do(ev.Subscribed(found.key, tuple(one.key.task for one in tasks)))

    @rule(data=st.data(), status=st.sampled_from(("TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED", "TASK_KILLED")))
    def say(self, data: st.DataObject, status: str) -> None:
        live = [t for t in self.state.frameworks.tasks() if t.phase in (Phase.RUNNING, Phase.ENDING)]
        if live:
            one = data.draw(st.sampled_from(live))
            update = says(one.key.task, status)
            self.do(ev.ExecutorSays(ExecutorKey(FRAMEWORK_ID, one.executor_id), update.status))

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        if self.state.frameworks.tasks():
            self.do(ev.KillTask(data.draw(st.sampled_from(self.state.frameworks.tasks())).key))

    @rule(data=st.data(), end=st.sampled_from(("ended", "failed", "vanished")))
    def container_ends(self, data: st.DataObject, end: str) -> None:
        if self.running:
            container_id = data.draw(st.sampled_from(sorted(self.running)))
            owner = self.running.pop(container_id)
            happened: dict[str, ev.Event] = {
                "ended": ev.Ended(owner, Termination(exit_code=0)),
                "failed": ev.LaunchFailed(owner, "no"),
                "vanished": ev.Vanished(owner, False),
            }
            self.do(happened[end])

    @rule(executor=st.sampled_from("xy"))
    def shut_down(self, executor: str) -> None:
        self.do(ev.ShutdownExecutor(ExecutorKey(FRAMEWORK_ID, executor)))

    @rule(executor=st.sampled_from("xy"), problem=st.sampled_from((None, "no")))
    def resized(self, executor: str, problem: str | None) -> None:
        found = self.state.frameworks.executor(ExecutorKey(FRAMEWORK_ID, executor))
        if found is not None:
            self.do(ev.Resized(found.key, found.container_id, found.round, problem))

    @rule(executor=st.sampled_from("xy"))
    def stream_breaks(self, executor: str) -> None:
        self.do(ev.StreamClosed(ExecutorKey(FRAMEWORK_ID, executor)))

    @rule()
    def acknowledge(self) -> None:
        if self.unacknowledged:
            send = self.unacknowledged.pop(0)
            if is_terminal(send.status["state"]):
                task_id = send.key.task
                if self.state.streams.expects(send.key, send.status["uuid"]):
                    self.ended[task_id] = self.ended.get(task_id, 0) + 1
            self.do(ev.Acknowledged(send.key, send.status["uuid"]))

    @rule(seconds=st.floats(0, 120))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.do(ev.Tick())

    @invariant()
    def every_task_ends_once_and_none_hangs(self) -> None:
        assert all(count == 1 for count in self.ended.values())
        for executor in self.state.frameworks.executors():
            tasks = self.state.frameworks.active[FRAMEWORK_ID].hosted_by(executor)
            if executor.over:
                assert tasks, "an executor that is gone stays for what its tasks still have to say"
                assert all(one.phase is Phase.OVER for one in tasks)
                assert not executor.queue
            else:
                assert executor.container_id in self.running
            queued = [task_id for parcel in executor.queue for task_id in parcel.tasks]
            assert len(queued) == len(set(queued))
            by_id = {one.key.task: one for one in tasks}
            assert all(by_id[task_id].phase is Phase.LAUNCHING for task_id in queued)
        for one in self.state.frameworks.tasks():
            if one.phase is Phase.OVER:
                assert self.state.streams.pending(one.key)
