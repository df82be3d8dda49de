"""The default executor's program: one thread decides (decisions), short-lived ones call the agent for it."""

from __future__ import annotations

import binascii
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.executor.agent import Agent, Wrap
from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions.handle import begin, handle
from mesos_gpu.executor.decisions.state import ExecutorState, Setting
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.units import parse_duration
from mesos_gpu.mesos.uuids import random_uuid

NEEDED = ("MESOS_AGENT_ENDPOINT", "MESOS_FRAMEWORK_ID", "MESOS_EXECUTOR_ID")
TLS = ("LIBPROCESS_SSL_ENABLED", "SSL_ENABLED")
TOKEN = "MESOS_EXECUTOR_AUTHENTICATION_TOKEN"
USAGE = "mesos-gpu-default-executor is started by an agent, which says in MESOS_* variables who it is; %s is not set"
"""What somebody reads who starts it by hand."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run task groups until all their tasks have ended. Returns the exit status."""
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        print(USAGE % ", ".join(missing), file=sys.stderr)
        return 2
    threading.stack_size(256 * 1024)
    endpoint, framework_id, executor_id = (os.environ[name] for name in NEEDED)
    # The token leaves the environment: what we start is not who we are.
    token = os.environ.pop(TOKEN, None)
    socket_path = os.environ.get("MESOS_DOMAIN_SOCKET") or None
    try:
        wrap = wrap_of(os.environ)
    except MesosGpuError as error:
        print(error, file=sys.stderr)
        return 1
    agent = Agent(endpoint, FrameworkId(framework_id), ExecutorId(executor_id), socket_path, token, wrap=wrap)
    state = ExecutorState(setting_of(os.environ), new_uuid=new_uuid, new_id=new_id)
    return Program(agent, state).run()


def wrap_of(environment: Mapping[str, str]) -> Wrap | None:
    """Return what puts TLS on connections to the agent, None where they have none. Raises BadInput."""
    if not any(name in environment for name in TLS):
        return None
    from mesos_gpu.executor.secure import open_secure  # few agents speak TLS, and ssl takes much memory

    secure = open_secure(environment)
    return None if secure is None else secure.wrap


def setting_of(environment: Mapping[str, str]) -> Setting:
    """Return what the agent says of how long things may take (Mesos docs/executor-http-api.md)."""
    checkpoint = environment.get("MESOS_CHECKPOINT") == "1"
    return Setting(
        sandbox=environment.get("MESOS_SANDBOX", "."),
        recovery_s=parse_duration(environment.get("MESOS_RECOVERY_TIMEOUT", "15mins")) if checkpoint else None,
        backoff_s=parse_duration(environment.get("MESOS_SUBSCRIPTION_BACKOFF_MAX", "2secs")),
        shutdown_grace_s=parse_duration(environment.get("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "5secs")),
    )


class Program:
    """Ties the state to the agent, the clock and the sandbox."""

    def __init__(self, agent: Agent, state: ExecutorState) -> None:
        self._agent, self._state = agent, state
        self._inbox: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self._updates: queue.SimpleQueue[TaskStatus] = queue.SimpleQueue()
        self._ran: deque[Mapping[str, Any]] = deque()
        self._status: int | None = None

    def run(self) -> int:
        """Return the exit status once the state says so."""
        _thread(self._send_updates)
        self._perform(begin())
        while self._status is None:
            due_s = self._state.next_due_s
            try:
                event = self._inbox.get(timeout=None if due_s is None else max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                event = ev.Tick()
            self._perform(handle(self._state, event, Moment(time.monotonic(), time.time())))
        return self._status

    def _perform(self, actions: list[ev.Action]) -> None:
        for action in actions:
            match action:
                case ev.Subscribe():
                    _thread(self._subscribe, action)
                case ev.Update():
                    self._updates.put(action.status)
                case ev.LinkSandbox():
                    self._link(action)
                case ev.LaunchContainer():
                    _thread(self._launch, action)
                case ev.WaitContainer():
                    _thread(self._wait, action.container_id)
                case ev.SignalContainer():
                    _thread(self._signal, action)
                case ev.Look():
                    _thread(self._look, action)
                case ev.Exit():
                    print(f"exiting: {action.why}", file=sys.stderr, flush=True)
                    self._status = action.status

    def _link(self, action: ev.LinkSandbox) -> None:
        link = Path(self._state.setting.sandbox) / "tasks" / action.task_id
        try:
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..", "containers", action.container_id))
        except OSError as error:  # whoever looks there finds nothing; the task is none the worse
            print(f"cannot show the sandbox of {action.task_id}: {error}", file=sys.stderr, flush=True)

    # --- in threads ---------------------------------------------------------------------------------------------

    def _subscribe(self, action: ev.Subscribe) -> None:
        time.sleep(action.after_s)
        body = {"unacknowledged_tasks": list(action.tasks), "unacknowledged_updates": list(action.updates)}
        try:
            for event in self._agent.events(body):
                found = read_event(event)
                if found is not None:
                    self._inbox.put(found)
        except Unavailable as error:
            print(error, file=sys.stderr, flush=True)
        self._inbox.put(ev.Disconnected())

    def _send_updates(self) -> None:
        while True:
            status = self._updates.get()
            try:
                code, body = self._agent.executor_call({"type": "UPDATE", "update": {"status": status}})
            except Unavailable:
                code, body = 503, ""
            if code != 202:
                print(f"an update was not taken: {code} {body}", file=sys.stderr, flush=True)
                self._agent.hang_up()

    def _launch(self, action: ev.LaunchContainer) -> None:
        task, container_id = action.task, action.container_id
        command = dict(task.get("command") or {})
        given = (command.get("environment") or {}).get("variables", [])
        own = {**action.environment, **container_ip(os.environ)}
        added = [{"name": name, "type": "VALUE", "value": value} for name, value in own.items()]
        command["environment"] = {"variables": [*given, *added]}
        body: dict[str, Any] = {"container_id": self._state.nested_id(container_id), "command": command}
        kind = "LAUNCH_NESTED_CONTAINER"
        if container := _with_volumes(task):
            body["container"] = container
        if task.get("limits") or (task.get("container") or {}).get("linux_info", {}).get("share_cgroups") is False:
            kind = "LAUNCH_CONTAINER"  # only this one takes what the container is to be held to
            body["resources"] = task.get("resources", [])
            if task.get("limits"):
                body["limits"] = task["limits"]
        try:
            code, words = self._agent.container_call(kind, body)
        except Unavailable:
            self._agent.hang_up()
            return
        launched = code in (200, 202)
        self._inbox.put(ev.Launched(container_id) if launched else ev.LaunchFailed(container_id, words))

    def _wait(self, container_id: ContainerId) -> None:
        try:
            end = self._agent.ended(self._state.nested_id(container_id))
        except Unavailable:
            self._agent.hang_up()
            return
        gone = {"message": "The container is gone, and its exit status is not known"}
        self._inbox.put(ev.Ended(container_id, gone if end is None else end))

    def _signal(self, action: ev.SignalContainer) -> None:
        body = {"container_id": self._state.nested_id(action.container_id), "signal": action.number}
        try:
            self._agent.container_call("KILL_NESTED_CONTAINER", body)
        except Unavailable:
            self._agent.hang_up()

    def _look(self, action: ev.Look) -> None:
        from mesos_gpu.executor.probes import look, tidy  # few tasks are checked

        nested, check_id = self._state.nested_id(action.container_id), f"check-{new_id()}"
        result = look(action.probe, self._agent, nested, check_id)
        self._inbox.put(ev.Probed(action.container_id, action.check, result))
        if action.probe.kind == "COMMAND":
            self._ran.append({"value": check_id, "parent": nested})
            tidy(self._agent, self._ran)


def _with_volumes(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's container with the persistent volumes of its resources; they are shown in our own sandbox.

    Source: Mesos src/launcher/default_executor.cpp (_launchGroup).
    """
    container = dict(task.get("container") or {})
    disks = (resource.get("disk", {}) for resource in task.get("resources", ()))
    for volume in [disk["volume"] for disk in disks if "volume" in disk]:
        path = {"type": "PARENT", "path": volume["container_path"]}
        shown = {"mode": volume.get("mode", "RW"), "container_path": volume["container_path"]}
        shown["source"] = {"type": "SANDBOX_PATH", "sandbox_path": path}
        container["volumes"] = [*container.get("volumes", ()), shown]
        container.setdefault("type", "MESOS")
    return container


def read_event(event: Mapping[str, Any]) -> ev.Event | None:
    """Return what an event of the executor API means, None for a heartbeat and what this executor has no use for."""
    kind = event.get("type")
    body = event.get(str(kind).lower(), {})
    match kind:
        case "SUBSCRIBED":
            return ev.Subscribed(body)
        case "LAUNCH_GROUP":
            return ev.Launch(tuple(body["task_group"]["tasks"]))
        case "LAUNCH":
            return ev.Launch((body["task"],))
        case "KILL":
            grace = (body.get("kill_policy") or {}).get("grace_period")
            grace_s = None if grace is None else max(0.0, int(grace["nanoseconds"]) / 1e9)
            return ev.Kill(body["task_id"]["value"], grace_s)
        case "ACKNOWLEDGED":
            return ev.Acknowledged(body["task_id"]["value"], body["uuid"])
        case "SHUTDOWN":
            return ev.Shutdown()
        case _:
            return None


def container_ip(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that says a task's address: that of its executor, whose network it shares.

    In a network of its own it is told no address, and has that of its host name, as libprocess finds its own.
    """
    ip = environment.get("LIBPROCESS_IP")
    if ip == "0.0.0.0":  # a word of Mesos, nothing listens  # nosec B104
        try:
            ip = socket.gethostbyname(socket.gethostname())
        except OSError:
            ip = None
    return {} if ip is None else {"MESOS_CONTAINER_IP": ip}


def new_uuid() -> str:
    """Return a random UUID in base64, as statuses carry it."""
    return binascii.b2a_base64(random_uuid(os.urandom(16)), newline=False).decode("ascii")


def new_id() -> ContainerId:
    """Return a random UUID as text; the module `uuid` takes longer to import than this program to start."""
    text = random_uuid(os.urandom(16)).hex()
    return ContainerId("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))


def _thread(work: Callable[..., None], *args: Any) -> None:
    def guarded() -> None:
        try:
            work(*args)
        except MesosGpuError as error:
            print(f"{work.__name__}: {error}", file=sys.stderr, flush=True)

    threading.Thread(target=guarded, name=work.__name__, daemon=True).start()
