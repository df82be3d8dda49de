"""One-off runs: the app that runs a command once, how it is followed, and what its end means for a shell.

Marathon restarts whatever ends. A run is an app whose restart delay is longer than any run, and which is removed when
its task has ended: that works on any Marathon.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from marathon_cli.changes.rollout import id_of, reasons_of
from marathon_cli.clients.event_stream import STATUS, EventStream
from marathon_cli.clients.marathon import Apps, Marathon
from marathon_cli.clients.mesos import Mesos, Sandbox
from marathon_cli.screen.units import read_size
from marathon_cli.show.logs import Log, Split, follow
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, TimeIsUp, Unavailable
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DEVICES_LABEL, DOCKER_COMMAND, DRIVER_LABEL, DRIVER_VALUE, is_terminal

VARIABLE = "MESOS_GPU_TRACE_FROM"
HEADLINE = "stages, in ms: "
Mark = tuple[str, float]


class Trace:
    """The marks of one run; without a time to count from, none are kept. A clock of the day comes in."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.marks: list[Mark] = []
        try:
            self._from_s: float | None = float(environ[VARIABLE])
        except (KeyError, ValueError):
            self._from_s = None

    def mark(self, stage: str) -> None:
        """A stage is done; the first time counts."""
        if self._from_s is not None and all(stage != known for known, _ in self.marks):
            self.marks.append((stage, 1000 * (self._clock() - self._from_s)))

    def line(self) -> str | None:
        """Return all of them in words, None when nobody asked."""
        if self._from_s is None:
            return None
        return HEADLINE + ", ".join(f"{stage} {at_ms:.1f}" for stage, at_ms in self.marks)


def read(text: str) -> Sequence[Mark]:
    """Return the marks of such a line among others; nothing where there is none."""
    for line in text.splitlines():
        if line.startswith(HEADLINE):
            parts = [part.rpartition(" ") for part in line.removeprefix(HEADLINE).split(", ")]
            return [(stage, float(at_ms)) for stage, _, at_ms in parts]
    return []


HOLDER = "sleep 2147483647"
"""What the task of an interactive run does: it holds GPUs and image while the command runs in its container."""
LABEL = "MESOS_GPU_RUN"
NEVER_AGAIN_S = 604_800
_EXITED = re.compile(r"Command exited with status ([0-9]+)")
_SIGNALLED = re.compile(r"Command terminated with signal (.+)")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run: `argv` in `image`; without an image on the machine's own files. `hold`: it is interactive.

    `share` is a part of a GPU, as `gpuShare` of an app; `gpus` is 0 then.
    """

    name: str
    image: str | None = None
    argv: Sequence[str] = ()
    nodes: int = 1
    """On how many machines at once, as a gang."""
    gpus: int = 1
    cpus: float = 1.0
    mem_mib: float = 1024
    disk_mib: float = 0
    share: Mapping[str, Any] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[Mapping[str, str]] = ()
    constraints: Sequence[Sequence[str]] = ()
    devices: Sequence[str] = ()
    """Of other vendors than NVIDIA, by their CDI names."""
    user: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    driver: bool = True
    """Whether a GPU task in an image gets the NVIDIA driver, also when its image says nothing of it."""
    hold: bool = False
    entrypoint: bool = False
    """Whether `argv` replaces the image's ENTRYPOINT, too."""


def document(order: Order) -> dict[str, Any]:
    """Return the app that runs an order once."""
    app: dict[str, Any] = {"id": f"/{order.name}", "instances": order.nodes, "gpus": order.gpus}
    if order.nodes > 1:
        app["gang"] = {"size": order.nodes}
    app |= {"cpus": order.cpus, "mem": order.mem_mib, "disk": order.disk_mib, "env": dict(order.env)}
    if order.share is not None:
        app["gpuShare"] = dict(order.share)
    if order.hold:
        app["cmd"] = HOLDER
    elif order.argv and order.entrypoint and order.image is not None:
        app["cmd"] = f"exec {shlex.join(order.argv)}"
    elif order.argv:
        app["args"] = list(order.argv)
    if order.image is not None:
        app["container"] = {"type": "MESOS", "docker": {"image": order.image}, "volumes": list(order.volumes)}
    if order.user is not None:
        app["user"] = order.user
    return {
        **app,
        "constraints": [list(rule) for rule in order.constraints],
        "labels": _labels(order),
        "portDefinitions": [],
        "backoffSeconds": NEVER_AGAIN_S,
        "backoffFactor": 1,
        "maxLaunchDelaySeconds": NEVER_AGAIN_S,
        "upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0},
    }


def _labels(order: Order) -> dict[str, str]:
    """Return the labels of the app: ours, those that give a command in an image docker's meaning, and the user's."""
    labels = {LABEL: "true"}
    if order.image is not None and order.argv and not (order.hold or order.entrypoint):
        labels[COMMAND_LABEL] = DOCKER_COMMAND
    if order.image is not None and order.gpus and order.driver:
        labels[DRIVER_LABEL] = DRIVER_VALUE
    if order.devices:
        labels[DEVICES_LABEL] = ",".join(dict.fromkeys(order.devices))
    return {**labels, **order.labels}


def name_of(image: str | None, argv: Sequence[str], salt: str) -> str:
    """Return an app's name after what it runs: `run-nvidia-smi-3fa2c1`. `salt` keeps two runs apart."""
    what = image.partition("@")[0].rpartition("/")[2].partition(":")[0] if image else argv[0].rpartition("/")[2]
    word = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")[:30].strip("-")
    return "-".join(part for part in ("run", word, salt) if part)


def volume(text: str) -> dict[str, str]:
    """Return the volume of `FOLDER:PATH[:ro]`. Raises BadInput."""
    host, colon, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not colon or not host.startswith("/") or not path or mode not in ("", "ro", "rw"):
        raise BadInput(f"{text!r} is not a volume; one looks like /folder/of/the/machine:/path or .../path:ro")
    return {"containerPath": path, "hostPath": host, "mode": (mode or "rw").upper()}


def gib(text: str) -> int:
    """Return whole GiB of `6`, `6GiB`, `6g` or `6144MiB`. Raises BadInput."""
    try:
        whole, rest = divmod(int(read_size(f"{text}g" if text.strip().isdecimal() else text)), 1024**3)
    except ValueError:
        whole, rest = 0, 0
    if whole < 1 or rest:
        raise BadInput(f"{text!r} is not an amount of memory of a GPU: write whole GiB, such as 6GiB")
    return whole


def constraint(text: str) -> list[str]:
    """Return the constraint of `FIELD:OPERATOR[:VALUE]`; `FIELD=VALUE` is FIELD:IS:VALUE. Raises BadInput."""
    parts = text.split(":", 2)
    if len(parts) == 1 and "=" in text:
        name, _, value = text.partition("=")
        parts = [name, "IS", value]
    if len(parts) < 2 or not all(parts[:2]):
        raise BadInput(f"{text!r} is not a constraint; one looks like gpu_model:LIKE:.*H200.* or gpu_model=Tesla-T4")
    return parts


def status_of_all(statuses: Sequence[int]) -> int:
    """Return how a run of several tasks has ended: as the first in order that failed by itself, 0 when all went well.

    When one fails the others are ended, by a signal; so what ended with a status of its own tells more.
    """
    failed = [status for status in statuses if status]
    return next((status for status in failed if status < 128), failed[0] if failed else 0)


def task_of(tasks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the first task of an app by the ids that Marathon gives: `NAME.instance-…`, or `NAME.UUID`."""
    found = [task for task in tasks if str(task.get("id")).startswith(f"{name}.")]
    return min(found, key=lambda task: str(task.get("id"))) if found else None


def exit_status(state: str, message: str) -> int | None:
    """Return a shell's status for how a task ended; None when it never ran, or nobody knows.

    Source: the texts of Mesos' command executor, which are all that is told of a status.
    """
    if found := _EXITED.search(message):
        return int(found[1])
    if found := _SIGNALLED.search(message):
        named = next((number for number in signal.valid_signals() if signal.strsignal(number) == found[1]), None)
        return None if named is None else 128 + named
    if state == "TASK_FINISHED":
        return 0
    return None


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
        logs = [Log.of(sandbox, name, None) for sandbox in sandboxes for name in ("stdout", "stderr")]
        printer = Split(out, err, headlines=len(tasks) > 1)
        follow(logs, printer, self.mesos, sleep=self._pause, say=lambda _: None, known_ended=self._known_ended)

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
