"""The Mesos master and its agents over HTTP: tasks, sandboxes and their files, agents, GPUs, images, roles.

Marathon's /v2/info leads to the master, the master's /slaves to the agents, the agent's /state to an executor's
directory, and /files/read returns its bytes. Source: the reference of Mesos's endpoints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from marathon_cli.connection.access import Access, addresses, stranger
from marathon_cli.connection.http import HttpClient
from mesos_gpu.errors import MesosGpuError, NotFound, ProtocolError, Refused, Unavailable
from mesos_gpu.mesos.tasks import is_terminal

if TYPE_CHECKING:
    from mesos_gpu.marathon.matching.machines import Machine
    from mesos_gpu.mesos.clients.agents import Agent


_ASCII = bytes(range(128)) + b"?" * 128
CHUNK = 64 * 1024
"""The most that one read gives: Mesos caps it at 16 pages."""
KNOWN_BY = 512
"""So many bytes of a file tell it from the one that takes its place."""
OLDEST = 20
"""How far back to look for a file."""
MOST_TASKS = 1_000_000
"""More than a master has; it gives 100 when not told."""


def _anonymous(_url: str) -> Access:
    return Access()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Where a task's files are, and how the task is doing (`state` is None when the agent does not say).

    `run` is the folder that the agent removes them with, `gc_delay` how long after its end, as its flag says.
    """

    task_id: str
    agent: HttpClient
    directory: str
    ended: bool
    state: str | None = None
    run: str = ""
    gc_delay: str | None = None


class Mesos:
    """The master behind a Marathon, and its agents. Clients of agents are kept for the next question."""

    def __init__(
        self,
        marathon_info: Mapping[str, Any],
        *,
        url: str | None = None,
        access_to: Callable[[str], Access] = _anonymous,
        agent_url: str | None = None,
    ) -> None:
        """Find the master at `url`, else where Marathon says.

        `access_to` tells how a URL is reached. Agents are at `agent_url` when that is given, a pattern in which {id}
        and {host} are the agent's, as behind a gateway; else at their own addresses, with TLS where the master has it.
        """
        where = url or _master_url(marathon_info)
        first = addresses(where, what="Mesos master")[0].url
        self._access_to, self._agent_url = access_to, agent_url
        self._scheme = "https" if first.startswith("https:") else "http"
        self._master = HttpClient(where, what="Mesos master", access=access_to(first))
        self._agents: dict[str, HttpClient] = {}
        self._known: dict[str, Mapping[str, Any]] = {}

    def sandbox(self, task_id: str, agent_id: str | None = None) -> Sandbox:
        """Return the sandbox of a task, also of one that has ended. `agent_id` saves asking every agent.

        Raises NotFound when no agent knows the task, Unavailable when an agent that may know it does not answer.
        """
        silent: list[str] = []
        delay: str | None = None
        for slave in self._slaves():
            if agent_id is not None and slave.get("id") != agent_id:
                continue
            agent = self._agent(slave)
            try:
                state = _get(agent, "/state")
            except Unavailable as error:
                silent.append(str(error))
                continue
            found = find_executor(state, task_id)
            delay = delay or (state.get("flags") or {}).get("gc_delay")
            if found is not None:
                executor, ended = found
                directory, run = directory_of(executor, task_id), str(executor["directory"])
                return Sandbox(task_id, agent, directory, ended, _state(executor, task_id), run, delay)
        if silent:
            raise Unavailable(f"cannot look for the files of task {task_id}: {'; '.join(silent)}")
        where = f"agent {agent_id}" if agent_id else "no agent"
        kept = f"; what ended is removed after {delay} (--gc_delay)" if delay else ""
        raise NotFound(f"{where} has{' no' if agent_id else ''} files of task {task_id}{kept}")

    def agents(self) -> list[tuple[str, HttpClient]]:
        """Return the name and client of each agent."""
        return [(str(slave.get("hostname")), self._agent(slave)) for slave in self._slaves()]

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks that the master knows, of every framework, also those that have ended lately."""
        found = _get(self._master, "/tasks", {"limit": str(MOST_TASKS)}).get("tasks")
        if not isinstance(found, list):
            raise ProtocolError(f"{self._master.url} does not answer as a Mesos master does: no list of tasks")
        return [task for task in found if isinstance(task, dict)]

    def agent(self, agent_id: str) -> HttpClient:
        """Return the client of an agent. Raises NotFound when the master does not have it (any more)."""
        for slave in self._slaves():
            if slave.get("id") == agent_id:
                return self._agent(slave)
        raise NotFound(f"the agent {agent_id} is not there any more")

    def slaves(self) -> list[dict[str, Any]]:
        """Return what the master says of each agent."""
        return self._slaves()

    def ask_master(self, path: str, query: Mapping[str, str] | None = None, *, missing: Any) -> Any:
        """Return the JSON that the master answers; `missing` where it does not know the path. Raises as `slaves`."""
        return _get_any(self._master, path, query, missing)

    def operate(self, call: Mapping[str, Any]) -> None:
        """Send the master one of its operator API's calls. Raises Refused with its words, Unavailable."""
        answer = self._master.ask("POST", "/api/v1", body=call)
        if not answer.ok:
            if answer.status_code == 401:
                raise _not_ok(self._master, "/api/v1", 401)
            said = answer.text.strip() or answer.reason
            raise Refused(f"Mesos master {self._master.url} refuses this: {said}", status=answer.status_code)

    def ask_agent(self, address: str, path: str, *, missing: Any) -> Any:
        """Return the JSON that the agent at HOST:PORT answers; `missing` where it does not know the path."""
        known = self._known.get(address) or {"pid": f"slave(1)@{address}"}
        return _get_any(self._agent(known), path, None, missing)

    def close(self) -> None:
        """Close the connections."""
        for client in (self._master, *self._agents.values()):
            client.close()

    def _slaves(self) -> list[dict[str, Any]]:
        found = _get(self._master, "/slaves").get("slaves")
        if not isinstance(found, list):
            raise ProtocolError(f"{self._master.url} does not answer as a Mesos master does: no list of agents")
        slaves = [slave for slave in found if isinstance(slave, dict)]
        self._known |= {str(slave.get("pid")).rpartition("@")[2]: slave for slave in slaves}
        return slaves

    def _agent(self, slave: Mapping[str, Any]) -> HttpClient:
        name, host, pid = (str(slave.get(key)) for key in ("id", "hostname", "pid"))
        if self._agent_url is None:
            url = f"{self._scheme}://{pid.rpartition('@')[2]}"
        else:
            url = self._agent_url.replace("{id}", name).replace("{host}", host)
        if url not in self._agents:
            self._agents[url] = HttpClient(url, what="Mesos agent", access=self._access_to(url))
        return self._agents[url]


class RemoteFile:
    """One file of a sandbox, read onwards from `offset`. A file that is not there yet has no bytes.

    A file that was replaced by another of its name, as logrotate does, is read to its end where it is now (NAME.1 and
    on), and then the new one. It is known by the bytes that were read last.
    """

    def __init__(self, agent: HttpClient, path: str) -> None:
        self._agent, self._path = agent, path
        self._seen = b""
        self._age = 0
        self.offset = 0

    def size(self) -> int | None:
        """Return the file's size in bytes, None when there is no such file."""
        answer = self._read(-1, 0)
        return None if answer is None else answer[0]

    def next(self) -> bytes:
        """Return what follows, at most CHUNK bytes, and go past it. What is not there any more is left out."""
        while True:
            there, data = self._onward(self._age)
            if data is None and (found := self._moved()) is not None:
                self._age, data = found
            if data is None:
                if not there and self._age == 0:
                    return b""  # not there yet, or at this moment
                self._begin(0)
                continue
            if data or self._age == 0:
                self.offset += len(data)
                self._seen = (self._seen + data)[-KNOWN_BY:]
                return data
            newer = next((age for age in range(self._age - 1, -1, -1) if (self._read(0, 1, age) or (0, b""))[1]), None)
            if newer is None:
                return b""  # nothing would tell the next one from those to come
            self._begin(newer)

    def _begin(self, age: int) -> None:
        self._age, self.offset, self._seen = age, 0, b""

    def _moved(self) -> tuple[int, bytes] | None:
        """Return the age that the file has now which was read, and what follows in it; None when it is gone."""
        for age in range(self._age + 1, OLDEST + 1 if self._seen else 0):
            there, data = self._onward(age)
            if data is not None:
                return age, data
            if not there:
                break
        return None

    def _onward(self, age: int) -> tuple[bool, bytes | None]:
        """Return whether there is a file of this age, and what follows in it where it is the one that was read."""
        answer = self._read(self.offset - len(self._seen), CHUNK, age)
        if answer is None:
            return False, None
        return True, answer[1][len(self._seen) :] if _begins_with(answer[1], self._seen) else None

    def skip_to_last(self, lines: int) -> None:
        """Go to where the last `lines` lines begin."""
        end, window = self.size() or 0, CHUNK
        while True:
            self.offset, self._seen, start = max(0, end - window), b"", max(0, end - window)
            tail = b""
            while self.offset < end and (data := self.next()):
                tail += data
            if start == 0 or tail.count(b"\n") > lines:
                break
            window *= 4
        kept = len(tail) - len(_last_lines(tail, lines))
        self.offset, self._seen = start + kept, tail[:kept][-KNOWN_BY:]

    def _read(self, offset: int, length: int, age: int = 0) -> tuple[int, bytes] | None:
        query = {"path": f"{self._path}.{age}" if age else self._path, "offset": str(offset), "length": str(length)}
        answer = self._agent.ask("GET", "/files/read", query=query)
        if answer.status_code == 404:
            return None
        if not answer.ok:
            if answer.status_code == 401:
                raise _not_ok(self._agent, self._path, 401)
            said = answer.text.strip() or answer.reason
            raise Refused(f"{self._agent.url} does not give {self._path}: {said}", status=answer.status_code)
        try:
            # Mesos puts a file's bytes into the JSON as they are, UTF-8 or not.
            document = json.loads(answer.content.decode("utf-8", "surrogateescape"))
            return int(document["offset"]), _as_bytes(document["data"])
        except (ValueError, TypeError, LookupError):
            raise ProtocolError(f"{self._agent.url} does not answer as a Mesos agent does") from None


def _begins_with(data: bytes, seen: bytes) -> bool:
    """Return whether data begins with what was seen, as far as can be told.

    Bytes that are not UTF-8 come as question marks from some agents, depending on where a read begins and ends, and the
    beginning of a character at the end not at all.
    """
    now, then = data[: len(seen)].translate(_ASCII), seen.translate(_ASCII)
    return then.startswith(now) and len(then) - len(now) < 4 and not then[len(now) :].strip(b"?")


def was_removed(sandbox: Sandbox) -> str | None:
    """Return in words that the agent removed the files of a task some time after its end; None when it did not."""
    if not sandbox.ended:
        return None
    answer = sandbox.agent.ask("GET", "/files/browse", query={"path": sandbox.run or sandbox.directory})
    if answer.status_code != 404:
        return None
    flag = f"--gc_delay={sandbox.gc_delay}, " if sandbox.gc_delay else ""
    return (
        f"the files of task {sandbox.task_id} are gone: it has ended, and its agent has removed its sandbox ({flag}"
        "sooner when the disk fills up)"
    )


def find_executor(state: Mapping[str, Any], task_id: str) -> tuple[Mapping[str, Any], bool] | None:
    """Return the executor of a task in an agent's /state, and whether the task has ended.

    The executor of a command has the task's id; another one lists the task. The newest of several is taken.
    """
    found: tuple[Mapping[str, Any], bool] | None = None
    for key in ("completed_frameworks", "frameworks"):
        for framework in state.get(key, []):
            for executor in framework.get("completed_executors", []):
                if _runs(executor, task_id):
                    found = executor, True
            for executor in framework.get("executors", []):
                if _runs(executor, task_id):
                    state_of = _state(executor, task_id)
                    found = executor, state_of is not None and is_terminal(state_of)
    return found


def directory_of(executor: Mapping[str, Any], task_id: str) -> str:
    """Return the sandbox of a task: the executor's, and in that of a task group one of its own."""
    directory = str(executor["directory"])
    return f"{directory}/tasks/{task_id}" if executor.get("type") == "DEFAULT" else directory


def _runs(executor: Mapping[str, Any], task_id: str) -> bool:
    return executor.get("id") == task_id or any(task.get("id") == task_id for task in _tasks(executor))


def _tasks(executor: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("tasks", "queued_tasks", "completed_tasks"):
        yield from executor.get(key, [])


def _state(executor: Mapping[str, Any], task_id: str) -> str | None:
    return next(
        (str(task["state"]) for task in _tasks(executor) if task.get("id") == task_id and "state" in task), None
    )


def _get(client: HttpClient, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
    answer = client.ask("GET", path, query=query)
    if not answer.ok:
        raise _not_ok(client, path, answer.status_code)
    found = client.read(answer)
    if not isinstance(found, dict):
        raise ProtocolError(f"{client.url} does not answer as a {client.what} does: {path} is not an object")
    return found


def _get_any(client: HttpClient, path: str, query: Mapping[str, str] | None, missing: Any) -> Any:
    answer = client.ask("GET", path, query=query)
    if answer.status_code == 404:
        return missing
    if not answer.ok:
        raise _not_ok(client, path, answer.status_code)
    return client.read(answer)


def _not_ok(client: HttpClient, path: str, status: int) -> MesosGpuError:
    if status >= 500:
        return Unavailable(f"{client.what} {client.url} cannot answer now: {status}")
    if status == 401:
        return Refused(f"{client.what} {client.url} {stranger(client.access)}", status=status)
    return Refused(f"{client.what} {client.url} refuses {path}: {status}", status=status)


def _master_url(info: Mapping[str, Any]) -> str:
    config = info.get("marathon_config") or {}
    for candidate in (config.get("mesos_leader_ui_url"), config.get("master")):
        if candidate and not str(candidate).startswith("zk://"):
            return str(candidate)
    raise Unavailable("this Marathon does not say where its Mesos master is, so its tasks' files cannot be found")


def _as_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _last_lines(data: bytes, lines: int) -> bytes:
    kept = data.split(b"\n")
    # A final newline ends the last line and begins no other.
    count = lines + 1 if kept[-1] == b"" else lines
    return b"\n".join(kept[-count:]) if lines > 0 else b""


_T = TypeVar("_T")
_A = TypeVar("_A", "Agent", "Machine", "Agent | Machine")
_AT_ONCE = 16


class Cluster:
    """The master behind a Marathon, with its agents. `silent` names agents that did not answer, with the reason."""

    def __init__(self, mesos: Mesos) -> None:
        self._mesos = mesos
        self.silent: dict[str, str] = {}

    def agents(self) -> list[Agent]:
        """Return all registered agents, by hostname; those with reservations with what is used of each role."""
        from mesos_gpu.mesos.clients.agents import read_agent

        found = [read_agent(document) for document in self.slaves()]
        return sorted(found, key=lambda agent: (agent.hostname, _numbers(agent.address), agent.id))

    def machines(self) -> list[Machine]:
        """Return the same with their exact resources, as offers are matched on them."""
        from mesos_gpu.marathon.matching.machines import read_machines

        return read_machines(self.slaves())

    def slaves(self) -> list[dict[str, Any]]:
        """Return the documents that `agents` are read of."""

        def is_short(document: Mapping[str, Any]) -> bool:
            return bool(document.get("reserved_resources")) and "used_resources_full" not in document

        return [self._alone(document) if is_short(document) else document for document in self._mesos.slaves()]

    def gpus(self, agents: Iterable[Agent]) -> dict[str, list[dict[str, Any]] | None]:
        """Return the GPUs of agents by agent id; None where an agent does not show them, as Mesos' own does not."""

        def ask(agent: Agent) -> list[dict[str, Any]] | None:
            found = self._mesos.ask_agent(agent.address, "/gpus", missing=None)
            return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else None

        return self._each(agents, ask)

    def shares(self, agents: Iterable[Agent]) -> dict[str, list[dict[str, Any]] | None]:
        """Return the cards that tasks share on agents, by agent id; None where an agent does not show them."""

        def ask(agent: Agent) -> list[dict[str, Any]] | None:
            found = self._mesos.ask_agent(agent.address, "/gpu_shares", missing=None)
            return [card for card in found if isinstance(card, dict)] if isinstance(found, list) else None

        return self._each(agents, ask)

    def images(self, agents: Iterable[Agent | Machine]) -> dict[str, list[dict[str, Any]]]:
        """Return the images that agents keep, by agent id; none where an agent does not tell."""

        def ask(agent: Agent | Machine) -> list[dict[str, Any]]:
            found = self._mesos.ask_agent(agent.address, "/images", missing={})
            kept = found.get("images") if isinstance(found, dict) else None
            return [image for image in kept if isinstance(image, dict)] if isinstance(kept, list) else []

        return {agent_id: found or [] for agent_id, found in self._each(agents, ask).items()}

    def tasks(self, agents: Iterable[Agent | Machine]) -> dict[str, list[dict[str, Any]]]:
        """Return the tasks that are on agents now, by agent id, each with the name of its framework."""

        def ask(agent: Agent | Machine) -> list[dict[str, Any]]:
            from mesos_gpu.mesos.clients.agents import tasks_in

            return tasks_in(self._mesos.ask_agent(agent.address, "/state", missing={}))

        return {agent_id: found or [] for agent_id, found in self._each(agents, ask).items()}

    def machine(self, agent: Agent) -> Mapping[str, float]:
        """Return what an agent measures of its machine, named as in /metrics/snapshot; nothing when it is silent."""
        found = self._each([agent], lambda one: self._mesos.ask_agent(one.address, "/metrics/snapshot", missing={}))
        return found.get(agent.id) or {}

    def roles(self) -> list[dict[str, Any]]:
        """Return the roles with their quota; none where the master does not say."""
        found = self._mesos.ask_master("/roles", missing={})
        roles = found.get("roles") if isinstance(found, dict) else None
        return [role for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []

    def close(self) -> None:
        """Close the connections."""
        self._mesos.close()

    def _alone(self, document: dict[str, Any]) -> dict[str, Any]:
        found = self._mesos.ask_master("/slaves", {"slave_id": str(document.get("id"))}, missing={})
        slaves = found.get("slaves") if isinstance(found, dict) else None
        return slaves[0] if isinstance(slaves, list) and len(slaves) == 1 else document

    def _each(self, agents: Iterable[_A], ask: Callable[[_A], _T]) -> dict[str, _T | None]:
        asked = list(agents)

        def safely(agent: _A) -> _T | None:
            try:
                return ask(agent)
            except MesosGpuError as error:
                self.silent[agent.id] = str(error)
                return None

        if len(asked) < 2:
            return {agent.id: safely(agent) for agent in asked}
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
            return dict(zip([agent.id for agent in asked], pool.map(safely, asked), strict=True))


def owners(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the app of each of Marathon's tasks, by task id."""
    return {str(task.get("id")): str(task.get("appId")) for task in tasks}


def _numbers(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0
