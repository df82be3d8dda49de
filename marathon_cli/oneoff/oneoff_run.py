"""Carries a one-off run out: adds its app, waits for its task, shows what it writes, and removes the app in the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from marathon_cli.changes.rollout import id_of, reasons_of
from marathon_cli.clients.event_stream import STATUS, EventStream
from marathon_cli.clients.marathon import Apps, Marathon
from marathon_cli.clients.mesos import Mesos, Sandbox
from marathon_cli.oneoff.oneoff import NEVER_AGAIN_S, exit_status, status_of_all, task_of
from marathon_cli.show import follow
from mesos_gpu.errors import Conflict, MesosGpuError, NotFound, TimeIsUp, Unavailable
from mesos_gpu.mesos.tasks import is_terminal

Found = TypeVar("Found")
PAUSE_S = 0.2
ASK_MASTER_EVERY = 5
REASON_AFTER_S = 3.0
SILENCE_S = 30.0
"""How long Marathon may be silent (it is being restarted) before a run is given up."""


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a run."""

    id: str
    agent_id: str
    state: str
    message: str = ""


@dataclass(slots=True)
class OneOff:
    """One run, under way. Clock, news and speech come in; `name` is its app's id without the slash."""

    marathon: Marathon
    mesos: Mesos
    name: str
    now: Callable[[], float]
    news: EventStream
    say: Callable[[str], None]
    show_pulls: Callable[[], None]
    _heard: dict[str, Task] = field(default_factory=dict)
    """What Marathon has told of each task by itself, by id."""

    def task(self, timeout_s: float, *, running: bool = False) -> Task:
        """Wait until the run has a task (for `running`: one that runs, or has run) and return it.

        Says why when it takes long. Raises TimeIsUp after `timeout_s` (0: never), NotFound when somebody removed the
        app, Unavailable when Marathon stays silent.
        """
        begun = heard = self.now()
        said, rounds = "", 0
        if self.news.ready():
            self._pause()
        while True:
            try:
                found = self._told() or self._look(ask_master=rounds % ASK_MASTER_EVERY == 0)
                reasons = self._reasons() if found is None and self.now() - begun > REASON_AFTER_S else ""
                heard = self.now()
            except Unavailable as error:
                if self.now() - heard > SILENCE_S:
                    raise
                found, reasons = None, str(error)
            if found is not None and (not running or found.state == "TASK_RUNNING" or is_terminal(found.state)):
                return found
            self.show_pulls()
            if reasons and reasons != said:
                said = reasons
                self.say(f"waiting: {reasons}")
            if timeout_s and self.now() - begun >= timeout_s:
                raise TimeIsUp(f"{self.name} has not started within {timeout_s:g} s{f': {said}' if said else ''}")
            rounds += 1
            self._pause()

    def all_tasks(self, first: Task) -> list[Task]:
        """Return the tasks of a run on several machines, in the order of their ranks; they have started together."""
        told = self.marathon.app(f"/{self.name}").get("tasks") or []
        ranked = sorted(told, key=lambda task: int((task.get("gang") or {}).get("rank") or 0))
        found = [Task(str(t["id"]), str(t["slaveId"]), str(t.get("state"))) for t in ranked if t.get("slaveId")]
        return found or [first]

    def follow(self, tasks: Sequence[Task], out: BinaryIO, err: BinaryIO) -> None:
        """Write what tasks write, stdout to `out` and stderr to `err`, until all have ended.

        Raises Conflict, with the reason, when it, or each of several, ended without having run.
        """
        sandboxes, problem = self._each(self._sandbox, tasks)
        if problem is not None and not sandboxes:
            raise problem
        logs = [follow.Log.of(sandbox, name, None) for sandbox in sandboxes for name in ("stdout", "stderr")]
        printer = follow.Split(out, err, headlines=len(tasks) > 1)
        follow.follow(logs, printer, self.mesos, sleep=self._pause, say=lambda _: None, known_ended=self._known_ended)

    def end_of_all(self, tasks: Sequence[Task], among: int) -> int:
        """Return the exit status of a run: of its task, or of that of several (`among`) that failed first.

        Raises Conflict as `end` does, when none has failed by itself and one has not run.
        """
        statuses, problem = self._each(self.end, tasks)
        if len(tasks) < among and (missed := self._failed_before_we_looked(tasks)) is not None:
            statuses.append(missed)
        status = status_of_all(statuses)
        if problem is not None and not status:
            raise problem
        return status

    def _failed_before_we_looked(self, known: Sequence[Task]) -> int | None:
        """Return the exit status of a task that has failed while Marathon named none but the others."""
        failure = self.marathon.app(f"/{self.name}").get("lastTaskFailure") or {}
        if not failure or str(failure.get("taskId")) in {task.id for task in known}:
            return None
        return exit_status(str(failure.get("state")), str(failure.get("message") or ""))

    def _each(self, ask: Callable[[Task], Found], tasks: Sequence[Task]) -> tuple[list[Found], Conflict | None]:
        """Return what is told of each task, and why nothing is of one: some of a gang may be ended before they run."""
        found: list[Found] = []
        problem: Conflict | None = None
        for task in tasks:
            try:
                found.append(ask(task))
            except Conflict as error:
                problem = problem or error
        return found, problem

    def end(self, task: Task) -> int:
        """Return the exit status of a task that has ended. Raises Conflict when it never ran, or nobody knows."""
        for _ in range(int(SILENCE_S / PAUSE_S)):
            now = self._ended(task)
            if now is not None:
                status = exit_status(now.state, now.message)
                if status is None:
                    raise Conflict(f"task {task.id}: {now.state}: {now.message or 'no reason was given'}")
                return status
            self._pause()
        raise Unavailable(f"nothing tells how task {task.id} ended")

    def remove(self, *, keep: bool) -> None:
        """Remove the app, or, to keep it, stop it. One that is not there (any more) is not an error."""
        apps = Apps(self.marathon)
        try:
            if keep:
                apps.put(f"/{self.name}", {"instances": 0}, force=True, partial=True)
            else:
                apps.remove(f"/{self.name}", force=True)
        except NotFound:
            pass

    def _look(self, *, ask_master: bool) -> Task | None:
        """Return the task, when it has one: from Marathon, or from the master when it has ended already."""
        app = self.marathon.app(f"/{self.name}")
        failure = app.get("lastTaskFailure")
        if failure:
            return Task(
                str(failure["taskId"]),
                str(failure.get("slaveId") or ""),
                str(failure.get("state")),
                str(failure.get("message") or ""),
            )
        for task in app.get("tasks") or []:
            if task.get("slaveId"):
                return Task(str(task["id"]), str(task["slaveId"]), str(task.get("state")))
        found = task_of(self.mesos.tasks(), self.name) if ask_master else None
        return None if found is None else Task(str(found["id"]), str(found.get("slave_id")), str(found.get("state")))

    def _reasons(self) -> str:
        for item in self.marathon.queue():
            if id_of(item) == f"/{self.name}":
                if float((item.get("delay") or {}).get("timeLeftSeconds") or 0) > NEVER_AGAIN_S / 2:
                    return ""  # its task has ended, and what Marathon waits for is not what we wait for
                return "; ".join(reasons_of(item)) or "no offer of resources has come"
        return ""

    def _sandbox(self, task: Task) -> Sandbox:
        """Return the task's sandbox, as soon as there is one. Raises Conflict when it ended without one."""
        while True:
            try:
                return self.mesos.sandbox(task.id, task.agent_id or None)
            except NotFound:
                now = self._ended(task)
                if now is not None:
                    raise Conflict(f"task {task.id}: {now.state}: {now.message or 'no reason was given'}") from None
            self.show_pulls()
            self._pause()

    def _pause(self, seconds: float = PAUSE_S) -> None:
        """Wait, or until Marathon tells something of a task of this run."""
        for event in self.news.wait(seconds):
            if event.get("eventType") == STATUS:
                task = Task(*(str(event.get(key) or "") for key in ("taskId", "slaveId", "taskStatus", "message")))
                self._heard[task.id] = task

    def _told(self) -> Task | None:
        """Return the task that Marathon has told of."""
        return self._heard[min(self._heard)] if self._heard else None

    def _known_ended(self, task_id: str) -> bool:
        return task_id in self._heard and is_terminal(self._heard[task_id].state)

    def _ended(self, task: Task) -> Task | None:
        """Return the task with its last state and message, when it has ended, from its agent or from Marathon."""
        task = self._heard.get(task.id, task)
        if is_terminal(task.state) and task.message:
            return task
        try:
            found = self._last_status(task)
        except (NotFound, Unavailable):
            found = None  # the agent does not know it any more, or does not answer
        if found is not None:
            return found
        failure = self.marathon.app(f"/{self.name}").get("lastTaskFailure") or {}
        if failure.get("taskId") == task.id:
            return Task(task.id, task.agent_id, str(failure.get("state")), str(failure.get("message") or ""))
        return None

    def _last_status(self, task: Task) -> Task | None:
        """Return the task as its agent's GET_TASKS has it, when it has ended: only there stands the message."""
        agent = self.mesos.agent(task.agent_id)
        answer = agent.ask("POST", "/api/v1", body={"type": "GET_TASKS"})
        if not answer.ok:
            raise Unavailable(f"{agent.url} does not list its tasks: {answer.status_code}")
        lists: Mapping[str, Any] = agent.read(answer).get("get_tasks") or {}
        for key in ("terminated_tasks", "completed_tasks", "launched_tasks"):
            for item in lists.get(key) or []:
                state = str(item.get("state"))
                if (item.get("task_id") or {}).get("value") == task.id and is_terminal(state):
                    statuses = item.get("statuses") or [{}]
                    return Task(task.id, task.agent_id, state, str(statuses[-1].get("message") or ""))
        return None


def removed_or_said(run: OneOff, *, keep: bool) -> bool:
    """Remove a run's app and tell whether that was done; what stood in the way is said, with what does it later."""
    try:
        run.remove(keep=keep)
    except MesosGpuError as error:
        run.say(f"/{run.name} could not be removed: {error}")
        run.say(f"`mesos-gpu app remove {run.name}` does it later; its GPUs are taken until then")
        sys.stderr.flush()
        return False
    return True
