"""The decisions of the default executor: an event in, actions out. Holds no socket, file, thread, clock or chance.

A group's tasks start together, and when one fails or is killed the others are killed; groups are independent of each
other. When no task is left, the program ends, once the agent has every update.
Source: Mesos src/launcher/default_executor.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.executor import events as ev
from mesos_gpu.executor.events import Action, Document, Event
from mesos_gpu.executor.statuses import how_it_ended, is_terminal, terminal_status
from mesos_gpu.mesos.checks import CheckNews, Course, answered, asked, begin, empty_status, plans_of

SIGTERM, SIGKILL = 15, 9
KILL_GRACE_S = 3.0
LAST_ACKNOWLEDGEMENTS_S = 60.0
"""How long the agent has, at the end, to acknowledge what it was told."""
_MARGIN_S = 2.0
"""What the tasks' grace is shorter than the executor's own at a shutdown."""


@unique
class Why(Enum):
    """Why a task was made to end; it decides the terminal state."""

    KILLED = "someone asked for it, or a sibling ended badly"
    UNHEALTHY = "its health check failed too often"
    TIMED_OUT = "it ran for its max_completion_time"


@dataclass
class Container:
    """One task and its nested container."""

    container_id: str
    task: Document
    group: int
    state: str = "TASK_STARTING"
    launched: bool = False
    why: Why | None = None
    kill_at_s: float | None = None
    """When SIGKILL follows."""
    deadline_s: float | None = None
    courses: list[Course] = field(default_factory=list)
    healthy: bool | None = None
    check_status: Document | None = None

    @property
    def task_id(self) -> str:
        """Return the task's id."""
        return str(self.task["task_id"]["value"])


@dataclass(frozen=True)
class Setting:
    """What the environment says. `recovery_s`: how long to go on without an agent, None: not at all."""

    sandbox: str = ""
    recovery_s: float | None = None
    backoff_s: float = 2.0
    shutdown_grace_s: float = 5.0


class ExecutorState:
    """`handle` is the only way to change it. `new_uuid` gives base64 of 16 bytes, `new_id` a fresh container id."""

    def __init__(self, setting: Setting, *, new_uuid: Callable[[], str], new_id: Callable[[], str]) -> None:
        self.setting = setting
        self._new_uuid, self._new_id = new_uuid, new_id
        self.containers: dict[str, Container] = {}
        self.connected = False
        self._info: Document = {}
        self._unacknowledged_tasks: dict[str, Document] = {}
        self._updates: dict[str, Document] = {}
        self._groups = 0
        self._lost_at_s: float | None = None
        self._exit_by_s: float | None = None
        self._ever_launched = self._shutting_down = False
        self._tries = 0

    def begin(self) -> list[Action]:
        """Return the first actions."""
        return [ev.Subscribe((), ())]

    @property
    def next_due_s(self) -> float | None:
        """Return when a Tick is wanted, in monotonic seconds."""
        times = [self._exit_by_s]
        if not self.connected and self._lost_at_s is not None and self.setting.recovery_s is not None:
            times.append(self._lost_at_s + self.setting.recovery_s)
        for one in self.containers.values():
            times += [one.kill_at_s, one.deadline_s, *(course.due_s for course in one.courses)]
        return min((due_s for due_s in times if due_s is not None), default=None)

    def handle(self, event: Event, now_s: float, wall_s: float) -> list[Action]:
        """Take an event and return what is to be done, in order. `wall_s` is Unix time, for what others read."""
        self._now_s, self._wall_s = now_s, wall_s
        actions = self._decide(event)
        return actions + self._finish()

    def _decide(self, event: Event) -> list[Action]:
        match event:
            case ev.Subscribed():
                return self._subscribed(event.info)
            case ev.Disconnected():
                return self._disconnected()
            case ev.Launch():
                return self._launch(event.tasks)
            case ev.Kill():
                found = [one for one in self.containers.values() if one.task_id == event.task_id]
                return [action for one in found for action in self._kill(one, Why.KILLED, event.grace_s)]
            case ev.Acknowledged():
                self._updates.pop(event.uuid, None)
                self._unacknowledged_tasks.pop(event.task_id, None)
                return []
            case ev.Shutdown():
                return self._shutdown()
            case ev.Launched():
                return self._launched(event.container_id)
            case ev.LaunchFailed():
                return self._launch_failed(event.container_id, event.why)
            case ev.Ended():
                return self._ended(event.container_id, event.end)
            case ev.Probed():
                return self._probed(event)
            case ev.Tick():
                return self._tick()

    # --- the agent ----------------------------------------------------------------------------------------------

    def _subscribed(self, info: Document) -> list[Action]:
        self._info = info
        again, self.connected, self._lost_at_s, self._tries = bool(self.containers), True, None, 0
        if not again:
            return []
        actions: list[Action] = []
        for one in self.containers.values():  # what was asked of the agent that went away is asked again
            actions.append(ev.WaitContainer(one.container_id) if one.launched else self._start(one))
            if one.launched and one.why is not None:
                actions.append(ev.SignalContainer(one.container_id, SIGKILL if one.kill_at_s is None else SIGTERM))
        return actions

    def _disconnected(self) -> list[Action]:
        self.connected = False
        if self._lost_at_s is None:
            self._lost_at_s = self._now_s
        if self.setting.recovery_s is None or self._shutting_down:
            return [ev.Exit(1, "the agent is gone")]
        if self._given_up:
            return [ev.Exit(1, f"the agent was gone for {self.setting.recovery_s} s")]
        after_s = min(self.setting.backoff_s, 0.05 * 2**self._tries)
        self._tries = min(self._tries + 1, 16)
        return [ev.Subscribe(tuple(self._unacknowledged_tasks.values()), tuple(self._updates.values()), after_s)]

    @property
    def _given_up(self) -> bool:
        """Tell whether the agent has been gone for as long as it may be."""
        if self.connected or self._lost_at_s is None or self.setting.recovery_s is None:
            return False
        return self._now_s - self._lost_at_s >= self.setting.recovery_s

    def _shutdown(self) -> list[Action]:
        self._shutting_down = True
        most_s = max(0.0, self.setting.shutdown_grace_s - _MARGIN_S)
        return [a for one in list(self.containers.values()) for a in self._kill(one, Why.KILLED, None, most_s)]

    # --- tasks --------------------------------------------------------------------------------------------------

    def _launch(self, tasks: tuple[Document, ...]) -> list[Action]:
        if self._shutting_down:
            return []
        self._ever_launched = True
        self._groups += 1
        actions: list[Action] = []
        fresh = [Container(self._new_id(), task, self._groups) for task in tasks]
        for one in fresh:
            self.containers[one.container_id] = one
            self._unacknowledged_tasks[one.task_id] = one.task
            actions += self._say(one, "TASK_STARTING")
        for one in fresh:
            actions += [ev.LinkSandbox(one.task_id, one.container_id), self._start(one)]
        return actions

    def _start(self, one: Container) -> Action:
        environment = {}
        roles = (r.get("allocation_info", {}).get("role") for r in one.task.get("resources", ()))
        role = next((role for role in roles if role is not None), None)
        if role is not None:
            environment["MESOS_ALLOCATION_ROLE"] = role
        return ev.LaunchContainer(one.container_id, one.task, environment)

    def _launched(self, container_id: str) -> list[Action]:
        one = self.containers.get(container_id)
        if one is None or one.launched:
            return []
        one.launched = True
        actions: list[Action] = [ev.WaitContainer(container_id)]
        limit = one.task.get("max_completion_time")
        if limit is not None:
            one.deadline_s = self._now_s + int(limit["nanoseconds"]) / 1e9
        if one.why is not None:  # killed while it was being launched
            return [*actions, *self._signal(one)]
        try:
            plans = plans_of(one.task)
        except BadInput as error:
            return [*actions, *self._say(one, "TASK_RUNNING", message=str(error)), *self._kill(one, Why.KILLED, 0.0)]
        one.courses = [begin(plan, self._now_s) for plan in plans]
        return actions + self._say(one, "TASK_RUNNING")

    def _launch_failed(self, container_id: str, why: str) -> list[Action]:
        one = self.containers.pop(container_id, None)
        if one is None:
            return []
        if one.why is Why.KILLED:
            actions = self._say(one, "TASK_KILLED", message="Killed before its container ran")
        else:
            reason = "REASON_CONTAINER_LAUNCH_FAILED"
            actions = self._say(one, "TASK_FAILED", message=f"Failed to launch container: {why}", reason=reason)
        return actions + self._kill_group(one)

    def _ended(self, container_id: str, end: Document) -> list[Action]:
        one = self.containers.pop(container_id, None)
        if one is None:
            return []
        state, extra = terminal_status(end, killed=one.why is not None, timed_out=one.why is Why.TIMED_OUT)
        message = end.get("message") or how_it_ended(end)
        if message is not None:
            extra["message"] = message
        if one.why is Why.UNHEALTHY:
            extra["healthy"] = False
        return self._say(one, state, **extra) + ([] if state == "TASK_FINISHED" else self._kill_group(one))

    def _kill_group(self, ended: Container) -> list[Action]:
        rest = [one for one in self.containers.values() if one.group == ended.group]
        return [action for one in rest for action in self._kill(one, Why.KILLED, None)]

    def _kill(self, one: Container, why: Why, asked_s: float | None, most_s: float | None = None) -> list[Action]:
        """Have a task end; asking again can only shorten its grace."""
        policy = (one.task.get("kill_policy") or {}).get("grace_period")
        own_s = KILL_GRACE_S if policy is None else max(0.0, int(policy["nanoseconds"]) / 1e9)
        grace_s = own_s if asked_s is None else asked_s
        grace_s = grace_s if most_s is None else min(grace_s, most_s)
        first = one.why is None
        one.why = one.why or why
        one.courses, one.deadline_s = [], None
        kill_at_s = self._now_s + grace_s
        if one.kill_at_s is None or kill_at_s < one.kill_at_s:
            one.kill_at_s = kill_at_s
        if not first:
            return self._tick_of(one)
        actions: list[Action] = []
        capabilities = (self._info.get("framework_info") or {}).get("capabilities", ())
        told = any(capability.get("type") == "TASK_KILLING_STATE" for capability in capabilities)
        if told and one.launched and why is Why.KILLED:
            actions += self._say(one, "TASK_KILLING")
        if one.launched:
            return actions + self._signal(one)
        # A pull may take hours; one that is under way is given up for a SIGKILL.
        image = ((one.task.get("container") or {}).get("mesos") or {}).get("image")
        return actions + ([] if image is None else [ev.SignalContainer(one.container_id, SIGKILL)])

    def _signal(self, one: Container) -> list[Action]:
        assert one.kill_at_s is not None
        if one.kill_at_s <= self._now_s:
            one.kill_at_s = None
            return [ev.SignalContainer(one.container_id, SIGKILL)]
        return [ev.SignalContainer(one.container_id, SIGTERM)]

    # --- clocks and checks ----------------------------------------------------------------------------------------

    def _tick(self) -> list[Action]:
        if self._exit_by_s is not None and self._exit_by_s <= self._now_s:
            return [ev.Exit(1, "the agent did not acknowledge the last updates")]
        if self._given_up:
            return [ev.Exit(1, f"the agent was gone for {self.setting.recovery_s} s")]
        return [action for one in list(self.containers.values()) for action in self._tick_of(one)]

    def _tick_of(self, one: Container) -> list[Action]:
        actions: list[Action] = []
        if one.launched and one.kill_at_s is not None and one.kill_at_s <= self._now_s:
            actions += self._signal(one)
        if one.deadline_s is not None and one.deadline_s <= self._now_s:
            actions += self._kill(one, Why.TIMED_OUT, 0.0)
        for number, course in enumerate(one.courses):
            if course.due_s is not None and course.due_s <= self._now_s:
                one.courses[number] = asked(course)
                actions.append(ev.Look(one.container_id, number, course.plan.probe))
        return actions

    def _probed(self, event: ev.Probed) -> list[Action]:
        one = self.containers.get(event.container_id)
        if one is None or event.check >= len(one.courses) or event.result is None:
            return []
        one.courses[event.check], news = answered(one.courses[event.check], event.result, self._now_s)
        if news is None:
            return []
        if isinstance(news, CheckNews):
            one.check_status = news.status
            return self._say(one, "TASK_RUNNING", reason="REASON_TASK_CHECK_STATUS_UPDATED")
        one.healthy = news.healthy
        actions = self._say(one, "TASK_RUNNING", reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED")
        return actions + (self._kill(one, Why.UNHEALTHY, None) if news.kill else [])

    # --- saying ---------------------------------------------------------------------------------------------------

    def _say(self, one: Container, state: str, **extra: Any) -> list[Action]:
        """Tell how a task is; what the agent does not acknowledge is told again when it is back."""
        one.state = state
        running = state == "TASK_RUNNING"
        status: dict[str, Any] = {
            "task_id": one.task["task_id"],
            "state": state,
            "source": "SOURCE_EXECUTOR",
            "executor_id": (self._info.get("executor_info") or {})["executor_id"],
            "uuid": self._new_uuid(),
            "timestamp": self._wall_s,
            "container_status": {"container_id": self.nested_id(one.container_id)},
        }
        if one.task.get("check"):
            status["check_status"] = (one.check_status if running else None) or empty_status(one.task["check"])
        if running and one.healthy is not None:
            status["healthy"] = one.healthy
        status.update(extra)
        self._updates[status["uuid"]] = {"status": status}
        return [ev.Update(status)] if self.connected else []

    def nested_id(self, container_id: str) -> Mapping[str, Any]:
        """Return the ContainerID of a nested container of this executor."""
        return {"value": container_id, "parent": self._info["container_id"]}

    def _finish(self) -> list[Action]:
        """End when there is nothing left to do: with all updates acknowledged, or after a while."""
        if self.containers or not (self._ever_launched or self._shutting_down):
            return []
        if not any(is_terminal(update["status"]["state"]) for update in self._updates.values()):
            return [ev.Exit(0, "all tasks have ended")]
        if self._exit_by_s is None:
            self._exit_by_s = self._now_s + LAST_ACKNOWLEDGEMENTS_S
        return []
