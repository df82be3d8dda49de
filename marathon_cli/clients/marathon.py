"""The REST APIs of Marathon (v2) and Metronome (v1) as methods that take and return values; a refusal is an error.

`Apps`, `Pods`, `Groups` and `Jobs` are the definitions on a server; everything else is a method of `Marathon` or, where
only mesos-gpu-marathon answers, a function. Source: Marathon's REST API v2 and its errors, Metronome's REST API v1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn
from urllib.parse import quote

from marathon_cli.connection.access import Access
from marathon_cli.connection.http import HttpClient
from mesos_gpu.errors import Conflict, MesosGpuError, NotFound, Problem, ProtocolError, Refused, Unavailable

if TYPE_CHECKING:
    from marathon_cli.clients.mesos import Mesos
    from marathon_cli.connection.transport import Answer
    from mesos_gpu.marathon.why.change import Change as SmallestChange

Document = dict[str, Any]

EMBED = ("activeRuns", "schedules", "historySummary")
"""What Metronome adds to a job when it is asked to."""
ENDED = frozenset({"SUCCESS", "FAILED"})
"""The states of a run that has ended."""
NO_USAGE = (
    "this Marathon keeps no account of what tasks had and used: only mesos-gpu-marathon does, of the tasks that it "
    "runs itself. `mesos-gpu gpu top` and `mesos-gpu task metrics TASK` show what is used at the moment"
)

_CODES = {
    "error.path.missing": "is missing",
    "error.expected.jsnumber": "must be a number",
    "error.expected.jsstring": "must be text in quotes",
    "error.expected.jsarray": "must be a list in [ ]",
    "error.expected.jsobject": "must be an object in { }",
    "error.expected.jsboolean": "must be true or false",
    "error.expected.int": "must be a whole number",
    "error.min": "is too small",
    "error.max": "is too large",
    "error.minLength": "is too short",
    "error.maxLength": "is too long",
    "error.pattern": "has a form that is not allowed",
    "error.unknown.enum.literal": "is not one of the values allowed",
}


class Change(NamedTuple):
    """The answer to a change: the deployment that it leads to, the new version, and the answer itself.

    None is what the server does not report; a job has no deployment.
    """

    deployment_id: str | None
    version: str | None = None
    document: Mapping[str, Any] = MappingProxyType({})


class ChangeTarget(NamedTuple):
    """An app or a pod that a deployment is about. `gone` says that it is to be removed."""

    kind: str
    id: str
    gone: bool = False


class Locked(Conflict):
    """A running deployment holds what was to be changed; `deployments` has its id."""

    def __init__(self, message: str, *, deployments: Sequence[str]) -> None:
        super().__init__(message)
        self.deployments = tuple(deployments)


class InvalidForServer(Refused):
    """The server found problems in a document; `problems` has them with their paths."""

    def __init__(self, message: str, *, body: str, problems: list[Problem]) -> None:
        super().__init__(message, status=422, body=body)
        self.problems = problems


class Marathon:
    """One Marathon. `named_by` says where its URL came from, for messages."""

    def __init__(
        self,
        url: str,
        *,
        named_by: str,
        access: Access | None = None,
        find_mesos: Callable[[Marathon], Mesos] | None = None,
    ) -> None:
        advice = f"Named by {named_by}; `mesos-gpu up` starts a box with a Marathon on this machine"
        self._http = HttpClient(url, what="Marathon", advice=advice, access=access)
        self._find_mesos = find_mesos
        self._told: Document | None = None

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._http.url

    def info(self) -> Document:
        """Return /v2/info."""
        self._told = self._object("GET", "/v2/info")
        return self._told

    def ticket(self, uid: int, mesos: str | None) -> str | None:
        """Return what lets a browser of this user of this machine in, once and soon; None where there is no such thing.

        `mesos`: an Authorization header, for what the page asks master and agents.
        """
        headers = {"X-Requested-By": "mesos-gpu-ui", **({} if mesos is None else {"X-Mesos-Authorization": mesos})}
        answer = self._http.ask("POST", "/ui/api/tickets", body={"uid": uid}, headers=headers)
        ticket = self._http.read(answer).get("ticket") if answer.ok else None
        return ticket if isinstance(ticket, str) else None

    def told(self) -> Document:
        """Return /v2/info as it was told last, once; asked again when that was used already: leaders change."""
        told, self._told = self._told, None
        return self._object("GET", "/v2/info") if told is None else told

    def config(self) -> Mapping[str, Any]:
        """Return the `marathon_config` of /v2/info as it was told last; who calls `told` next is told the same."""
        self._told = self.told()
        config: Mapping[str, Any] = self._told.get("marathon_config") or {}
        return config

    def apps(self, *, label: str | None = None, failures: bool = False, tasks: bool = False) -> list[Document]:
        """Return every app (of a label selector) with its counts, by id; with its last failure, with its tasks.

        Raises Refused for a bad selector.
        """
        query: dict[str, Any] = {"label": label} if label else {}
        embed = [*(["apps.lastTaskFailure"] if failures else []), *(["apps.tasks"] if tasks else [])]
        if embed:
            query["embed"] = embed
        found = self.call("GET", "/v2/apps", query=query or None)
        apps = self._list(self.object_of(found, "an object"), "apps")
        return sorted(apps, key=lambda app: str(app.get("id")))

    def app_ids(self) -> list[str]:
        """Return the ids of all apps."""
        return [str(app.get("id")) for app in self.apps()]

    def app(self, app_id: str) -> Document:
        """Return one app with counts, tasks and last failure. Raises NotFound."""
        found = self._object("GET", f"/v2/apps{quote(app_id)}").get("app")
        if not isinstance(found, dict):
            raise self._strange("an app was expected")
        return found

    def tasks(self, app_id: str | None = None) -> list[Document]:
        """Return the tasks of one app (raises NotFound) or of all, by app and id."""
        path = "/v2/tasks" if app_id is None else f"/v2/apps{quote(app_id)}/tasks"
        found = self._list(self._object("GET", path), "tasks")
        return sorted(found, key=lambda task: (str(task.get("appId")), str(task.get("id"))))

    def tasks_with_cards(self, app_id: str) -> list[Document]:
        """Return the tasks of an app, from ours with their whole GPUs and whether these share NVLink (`gpuCards`)."""
        found = self._http.read(self._ask("GET", "/v2/tasks", query={"embed": "gpuCards"}))
        tasks = self._list(found if isinstance(found, dict) else {}, "tasks")
        return [task for task in tasks if task.get("appId") == app_id]

    def deployments(self, *, blockers: bool = False) -> list[Document]:
        """Return the deployments that are under way; with `blockers`, which only ours tells, what stops each."""
        query = {"embed": "blockers"} if blockers else None
        found = self._http.read(self._ask("GET", "/v2/deployments", query=query))
        return self._list({"deployments": found}, "deployments")

    def queue(self, *, last_offers: bool = False) -> list[Document]:
        """Return what waits to be launched, with the reasons why offers did not serve; of each agent's last, too."""
        query = {"embed": "lastUnusedOffers"} if last_offers else None
        found = self._http.read(self._ask("GET", "/v2/queue", query=query))
        return self._list(found if isinstance(found, dict) else {}, "queue")

    def pod(self, pod_id: str) -> Document:
        """Return a pod's status: its `spec` and its instances, from ours with their whole GPUs (`gpuCards`).

        Raises NotFound, Refused where there are no pods.
        """
        found = self.call("GET", f"/v2/pods{quote(pod_id)}::status", query={"embed": "gpuCards"})
        return self.object_of(found, "a pod's status")

    def call(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Return the JSON of an answer, None for an empty one. Raises what a refusal stands for."""
        return self.answer(method, path, query=query, body=body)[0]

    def answer(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the JSON of an answer (None for an empty one) and its headers."""
        answer = self._ask(method, path, query=query, body=body)
        return self._http.read(answer) if answer.content.strip() else None, answer.headers

    def text(self, path: str) -> str:
        """Return an answer that need not be JSON."""
        return self._ask("GET", path).text.strip()

    def change(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Change:
        """Ask for a change. Marathon names the deployment in its answer or in a header."""
        said, headers = self.answer(method, path, query=query, body=body)
        said = said if isinstance(said, dict) else {}
        listed = said.get("deployments") or [{}]
        deployment_id = said.get("deploymentId") or headers.get("Marathon-Deployment-Id") or listed[0].get("id")
        return Change(deployment_id, said.get("version"), said)

    def object_of(self, found: Any, what: str) -> Document:
        """Return an answer that must be an object. Raises ProtocolError."""
        if not isinstance(found, dict):
            raise self._strange(f"{what} was expected")
        return found

    def list_of(self, found: Any, what: str) -> list[Document]:
        """Return an answer that must be a list of objects. Raises ProtocolError."""
        return self._list({what: found}, what)

    def kill_tasks(self, ids: Sequence[str], *, wipe: bool) -> list[str]:
        """Kill tasks, which are started again; return the ids of those that existed."""
        found = self.call("POST", "/v2/tasks/delete", query={"wipe": _flag(wipe)}, body={"ids": list(ids)})
        tasks = self.list_of(self.object_of(found, "tasks").get("tasks"), "tasks")
        return [str(task.get("id")) for task in tasks]

    def kill_tasks_and_scale(self, ids: Sequence[str], *, force: bool) -> Change:
        """Kill tasks and lower the instances of their apps by as many. Raises Locked."""
        query = {"scale": "true", "force": _flag(force)}
        return self.change("POST", "/v2/tasks/delete", query=query, body={"ids": list(ids)})

    def roll_back(self, deployment_id: str) -> Change:
        """Stop a deployment and roll its apps back, as a new deployment. Raises NotFound."""
        return self.change("DELETE", f"/v2/deployments/{quote(deployment_id)}", query={"force": "false"})

    def stop_deployment(self, deployment_id: str) -> None:
        """Stop a deployment and leave everything as it is. Raises NotFound."""
        self.change("DELETE", f"/v2/deployments/{quote(deployment_id)}", query={"force": "true"})

    def reset_delay(self, app_id: str) -> None:
        """Launch an app at once despite the delay that its failures led to. Raises NotFound."""
        self.call("DELETE", f"/v2/queue{quote(app_id)}/delay")

    def leader(self) -> str:
        """Return host and port of the leader. Raises NotFound if there is none."""
        return str(self._object("GET", "/v2/leader").get("leader"))

    def abdicate(self) -> str:
        """Make the leader step down; return its message. Raises NotFound if there is none."""
        return str(self._object("DELETE", "/v2/leader").get("message"))

    def ping(self) -> str:
        """Return the answer to a ping; Marathon's is `pong`. Raises Unavailable."""
        return self.text("/ping").strip('"')

    def plugins(self) -> list[Document]:
        """Return the plugins that Marathon runs."""
        return self._list(self._object("GET", "/v2/plugins"), "plugins")

    def listen(self, kinds: Sequence[str]) -> Answer:
        """Return the stream of events (Server-Sent Events) of these kinds; its body is still to be read.

        Raises Unavailable, Refused.
        """
        headers = {"Accept": "text/event-stream"}
        return self._http.stream("GET", "/v2/events", query={"event_type": list(kinds)}, headers=headers, read_s=None)

    def mesos(self) -> Mesos:
        """Return a client of the master that this Marathon is with, and of its agents. Raises Unavailable."""
        from marathon_cli.clients.mesos import Mesos

        return Mesos(self.told()) if self._find_mesos is None else self._find_mesos(self)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _object(self, method: str, path: str) -> Document:
        found = self._http.read(self._ask(method, path))
        if not isinstance(found, dict):
            raise self._strange(f"an object was expected from {path}")
        return found

    def _list(self, holder: Mapping[str, Any], name: str) -> list[Document]:
        found = holder.get(name)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self._strange(f"a list of {name} was expected")
        return found

    def _strange(self, expected: str) -> ProtocolError:
        return ProtocolError(f"{self.url} does not answer as a Marathon does: {expected}")

    def _ask(self, method: str, path: str, **parts: Any) -> Answer:
        answer = self._http.ask(method, path, **parts)
        return answer if answer.ok else self._refuse(answer)

    def _refuse(self, answer: Answer) -> NoReturn:
        """Raise the error that fits the answer's status and body."""
        status = answer.status_code
        try:
            body = answer.json()
        except ValueError:
            body = None
        said = str(body["message"]) if isinstance(body, dict) and body.get("message") else ""
        if status == 404:
            if not said:
                self._http.read(answer)  # not even JSON: something else lives at this URL
            raise NotFound(said or f"{answer.target} does not exist at {self.url}")
        if status == 409:
            raise _conflict(said or "it is in conflict with what is there", body)
        if status == 422:
            problems = _problems(body)
            lines = [
                f"{self.url} refuses this: {said or 'no reason given'}",
                *(f"  {p.path}: {p.message}" for p in problems),
            ]
            raise InvalidForServer("\n".join(lines), body=answer.text, problems=problems)
        if status == 401:
            known = self._http.access.authorization is not None
            advice = (
                "it does not accept this name and password, or token"
                if known
                else ("give --auth NAME:PASSWORD or --token, or keep them with `mesos-gpu config set`")
            )
            said = said.removeprefix("Invalid username or password. ")  # what follows says more
            raise Refused(
                f"{self.url} needs credentials: {said + '; ' if said else ''}{advice}",
                status=status,
                body=answer.text,
            )
        words = said or answer.text.strip()[:200] or answer.reason
        if isinstance(body, dict) and isinstance(body.get("details"), str):
            words += f" ({body['details']})"
        if status in (502, 503, 504):
            raise Unavailable(f"{self.url} cannot answer now: {status}, {words}")
        raise Refused(f"{self.url} refuses this: {status}, {words}", status=status, body=answer.text)


class Definitions(ABC):
    """The definitions of one kind on a server. Ids are canonical; every call raises NotFound for an unknown id.

    What changes a definition raises Conflict, Locked if a deployment holds it, InvalidForServer and Refused.
    """

    path: ClassVar[str]

    def __init__(self, server: Marathon) -> None:
        self.server = server

    @abstractmethod
    def ids(self) -> list[str]:
        """Return the ids of all."""

    def show(self, name: str) -> Document:
        """Return a definition."""
        return self.server.object_of(self.server.call("GET", self._url(name)), f"an object from {self.path}")

    def add(self, document: Mapping[str, Any], *, force: bool = False) -> Change:
        """Create what a document defines."""
        return self.server.change("POST", self.path, query={"force": _flag(force)}, body=document)

    def put(self, name: str, document: Mapping[str, Any], *, force: bool = False, partial: bool = False) -> Change:
        """Replace a definition; `partial` keeps the top-level keys that `document` does not have, for apps only."""
        return self.server.change("PUT", self._url(name), query={"force": _flag(force)}, body=document)

    def remove(self, name: str, *, force: bool = False) -> Change:
        """Remove a definition and end its tasks. `force` also ends what prevents that: a deployment, a job's runs."""
        return self.server.change("DELETE", self._url(name), query={"force": _flag(force)})

    def _url(self, name: str) -> str:
        return f"{self.path}{quote(name)}"


class Apps(Definitions):
    """The apps of a Marathon."""

    path = "/v2/apps"

    def ids(self) -> list[str]:
        """Return the ids of all apps."""
        return self.server.app_ids()

    def show(self, name: str) -> Document:
        """Return one app with counts, tasks and last failure."""
        return self.server.app(name)

    def put(self, name: str, document: Mapping[str, Any], *, force: bool = False, partial: bool = False) -> Change:
        """Change an app, or create it."""
        query = {"force": _flag(force), "partialUpdate": _flag(partial)}
        return self.server.change("PUT", self._url(name), query=query, body=document)

    def restart(self, app_id: str, *, force: bool) -> Change:
        """Replace all tasks. Raises Locked."""
        return self.server.change("POST", f"{self._url(app_id)}/restart", query={"force": _flag(force)})

    def versions(self, app_id: str) -> list[str]:
        """Return the versions, newest first (Marathon does not sort them)."""
        found = self.server.object_of(self.server.call("GET", f"{self._url(app_id)}/versions"), "an object")
        return sorted((str(version) for version in found.get("versions") or []), reverse=True)

    def version(self, app_id: str, version: str) -> Document:
        """Return the definition an app had."""
        found = self.server.call("GET", f"{self._url(app_id)}/versions/{quote(version)}")
        return self.server.object_of(found, "an app")

    def kill(self, app_id: str, *, host: str | None, wipe: bool) -> list[str]:
        """End an app's tasks (those on `host`), to be started again; return their ids. `wipe` drops volumes, too."""
        query = {"wipe": _flag(wipe), **({"host": host} if host else {})}
        found = self.server.object_of(self.server.call("DELETE", f"{self._url(app_id)}/tasks", query=query), "tasks")
        return [str(task.get("id")) for task in self.server.list_of(found.get("tasks"), "tasks")]

    def kill_and_scale(self, app_id: str, *, host: str | None, force: bool) -> Change:
        """End an app's tasks (those on `host`) and lower its instances by as many. Raises Locked."""
        query = {"scale": "true", "force": _flag(force), **({"host": host} if host else {})}
        return self.server.change("DELETE", f"{self._url(app_id)}/tasks", query=query)


class Pods(Definitions):
    """The pods of a Marathon: containers that run side by side on one agent."""

    path = "/v2/pods"

    def ids(self) -> list[str]:
        """Return the ids of all pods."""
        return [str(pod.get("id")) for pod in self.statuses()]

    def statuses(self) -> list[Document]:
        """Return every pod's status with its definition (`spec`) and instances, by id."""
        found = self.server.list_of(self.server.call("GET", "/v2/pods/::status"), "pods")
        return sorted(found, key=lambda pod: str(pod.get("id")))

    def status(self, pod_id: str) -> Document:
        """Return one pod's status."""
        return self.server.object_of(self.server.call("GET", f"{self._url(pod_id)}::status"), "a pod's status")

    def kill(self, pod_id: str, instances: Sequence[str], *, wipe: bool) -> list[str]:
        """End instances, to be started again; return the ids of those that were there."""
        path, query = f"{self._url(pod_id)}::instances", {"wipe": str(wipe).lower()}
        found = self.server.call("DELETE", path, query=query, body=list(instances))
        ended = self.server.list_of(found if isinstance(found, list) else [], "instances")
        return [_instance_id(instance) for instance in ended]


class Groups(Definitions):
    """The groups of a Marathon: trees of apps and pods. `/` is the root."""

    path = "/v2/groups"

    def ids(self) -> list[str]:
        """Return the ids of all groups, the root among them."""
        return [str(group.get("id")) for group in walk(self.show("/"))]

    def show(self, name: str, version: str | None = None) -> Document:
        """Return a group with all that is in it, now or as it was in a version."""
        if version is not None:
            return self.server.object_of(
                self.server.call("GET", f"{self._url(name)}/versions/{quote(version)}"), "a group"
            )
        embed = ["group.groups", "group.apps", "group.pods", "group.apps.counts", "group.apps.deployments"]
        return self.server.object_of(self.server.call("GET", self._url(name), query={"embed": embed}), "a group")

    def steps(self, name: str, document: Mapping[str, Any]) -> list[Document]:
        """Return the steps that `put` would lead to, without taking them."""
        found = self.server.call("PUT", self._url(name), query={"dryRun": "true"}, body=document)
        return self.server.list_of(self.server.object_of(found, "steps").get("steps"), "steps")

    def _url(self, name: str) -> str:
        return self.path + ("" if name == "/" else quote(name))


class Jobs(Definitions):
    """The jobs of a Metronome: what runs once, or by a schedule."""

    path = "/v1/jobs"

    def ids(self) -> list[str]:
        """Return the ids of all jobs."""
        return [str(job.get("id")) for job in self.all()]

    def all(self, *, history: bool = False) -> list[Document]:
        """Return every job with its active runs, its schedules and a summary of its history or all of it, by id."""
        embed = [*EMBED, "history"] if history else list(EMBED)
        found = self.server.list_of(self.server.call("GET", "/v1/jobs", query={"embed": embed}), "jobs")
        return sorted(found, key=lambda job: str(job.get("id")))

    def show(self, name: str, *, embed: Sequence[str] = EMBED) -> Document:
        """Return one job."""
        return self.server.object_of(self.server.call("GET", self._url(name), query={"embed": list(embed)}), "a job")

    def add(self, document: Mapping[str, Any], *, force: bool = False) -> Change:
        """Create a job, then its schedules, which Metronome takes one by one; if one fails, remove the job again."""
        plain = {key: value for key, value in document.items() if key != "schedules"}
        job = self.server.object_of(self.server.call("POST", self.path, body=plain), "a job")
        try:
            added = [self.add_schedule(str(job["id"]), schedule) for schedule in document.get("schedules") or []]
        except MesosGpuError:
            self.remove(str(job["id"]), force=True)
            raise
        return Change(None, document={**job, "schedules": added} if added else job)

    def put(self, name: str, document: Mapping[str, Any], *, force: bool = False, partial: bool = False) -> Change:
        """Replace a job's definition; its schedules stay."""
        job = self.server.object_of(self.server.call("PUT", self._url(name), body=document), "a job")
        return Change(None, document=job)

    def remove(self, name: str, *, force: bool = False) -> Change:
        """Remove a job. Raises Conflict while it runs, unless `force` ends its runs."""
        self.server.call("DELETE", self._url(name), query={"stopCurrentJobRuns": _flag(force)})
        return Change(None)

    def waiting(self) -> dict[str, int]:
        """Return how many runs wait for an offer, by job."""
        found = self.server.list_of(self.server.call("GET", "/v1/queue"), "a queue of runs")
        return {str(item.get("jobId")): len(item.get("runs") or []) for item in found}

    def run(self, job_id: str) -> Document:
        """Start a run now; return it."""
        return self.server.object_of(self.server.call("POST", f"{self._url(job_id)}/runs", body={}), "a run")

    def stop(self, job_id: str, run_id: str) -> None:
        """End a run."""
        self.server.call("POST", f"{self._url(job_id)}/runs/{quote(run_id)}/actions/stop")

    def schedules(self, job_id: str) -> list[Document]:
        """Return a job's schedules."""
        return self.server.list_of(self.server.call("GET", f"{self._url(job_id)}/schedules"), "schedules")

    def add_schedule(self, job_id: str, document: Mapping[str, Any]) -> Document:
        """Give a job a schedule. Raises Conflict, InvalidForServer."""
        found = self.server.call("POST", f"{self._url(job_id)}/schedules", body=document)
        return self.server.object_of(found, "a schedule")

    def put_schedule(self, job_id: str, schedule_id: str, document: Mapping[str, Any]) -> Document:
        """Replace a schedule. Raises InvalidForServer."""
        found = self.server.call("PUT", f"{self._url(job_id)}/schedules/{quote(schedule_id)}", body=document)
        return self.server.object_of(found, "a schedule")

    def remove_schedule(self, job_id: str, schedule_id: str) -> None:
        """Remove a schedule of a job."""
        self.server.call("DELETE", f"{self._url(job_id)}/schedules/{quote(schedule_id)}")

    def _url(self, name: str) -> str:
        return f"{self.path}/{quote(name)}"


def walk(group: Document) -> Iterator[Document]:
    """Yield a group and all groups in it, parents first."""
    yield group
    for inner in sorted(group.get("groups") or [], key=lambda one: str(one.get("id"))):
        yield from walk(inner)


def runs_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a job with the state of each: active, then ended, the latest first."""
    history = job.get("history") or {}
    ended = [{**one, "status": "SUCCESS"} for one in history.get("successfulFinishedRuns") or []]
    ended += [{**one, "status": "FAILED"} for one in history.get("failedFinishedRuns") or []]
    ended.sort(key=lambda one: str(one.get("finishedAt")), reverse=True)
    active = [{"status": "ACTIVE", **one} for one in job.get("activeRuns") or []]
    return active + ended


def plan(marathon: Marathon, documents: Sequence[Mapping[str, Any]], *, force: bool = False) -> Document:
    """Return what would happen if these were sent, each a `kind` with its `document`; nothing is.

    Raises Refused of a Marathon that is not this project's, and what sending them would raise.
    """
    query = {"force": "true"} if force else None
    return _ask_with_agents(marathon, "/v1/plan", {"documents": list(documents)}, "what would happen", query)


def when(marathon: Marathon, name: str) -> Document:
    """Return when what waits of an app, a pod or a job is expected to start. Raises NotFound, and as `plan`."""
    return _ask_with_agents(marathon, "/v1/when", {"id": name}, "when something will start", None)


def smallest_change(marathon: Marathon, app_id: str) -> SmallestChange | None:
    """Return the smallest change that would start what waits in order; None where there is none, or nobody knows."""
    from mesos_gpu.marathon.why.change import read_change

    try:
        found = _ask_with_agents(marathon, "/v1/why", {"id": app_id}, "what would start it", None).get("change")
        return None if not found else read_change(found)
    except (MesosGpuError, KeyError, TypeError, ValueError):
        return None


def _ask_with_agents(
    marathon: Marathon, path: str, body: dict[str, Any], what: str, query: Mapping[str, str] | None
) -> Document:
    try:
        mesos = marathon.mesos()
    except MesosGpuError:
        mesos = None  # it asks the master itself
    if mesos is not None:
        try:
            body["agents"] = mesos.slaves()
            body["roles"] = (mesos.ask_master("/roles", missing={}) or {}).get("roles") or []
        except MesosGpuError:
            body.pop("agents", None)
        finally:
            mesos.close()
    try:
        found = marathon.call("POST", path, query=query, body=body)
    except NotFound as error:
        if "HTTP 404" not in str(error):  # what is asked about is not there
            raise
        raise Refused(f"this Marathon cannot say {what}: only mesos-gpu-marathon can", status=404) from None
    return marathon.object_of(found, "a plan")


def usage(marathon: Marathon, *, since: str, by: str, app: str | None = None) -> Document:
    """Return the sums since a time (Marathon's text). Raises Refused of a Marathon that is not this project's."""
    query = {"since": since, "by": by} | ({} if app is None else {"app": app})
    try:
        found = marathon.call("GET", "/v1/usage", query=query)
    except NotFound:
        raise Refused(NO_USAGE, status=404) from None
    return marathon.object_of(found, "sums of use")


def _conflict(said: str, body: Any) -> Conflict:
    # The list of deployments is all that tells "locked" from "exists already".
    locks = body.get("deployments") if isinstance(body, dict) else None
    if not isinstance(locks, list) or not locks:
        return Conflict(said)
    ids = [str(lock.get("id")) if isinstance(lock, dict) else str(lock) for lock in locks]
    advice = f"Held by the deployment {', '.join(ids)}: wait until that is done, or use --force to replace it"
    return Locked(f"{said}\n  {advice}", deployments=ids)


def _problems(body: Any) -> list[Problem]:
    details = body.get("details") if isinstance(body, dict) else None
    if not isinstance(details, list):
        return []
    return [
        Problem(str(detail.get("path", "/")), str(code), _CODES.get(str(code), str(code)))
        for detail in details
        if isinstance(detail, dict)
        for code in detail.get("errors", [])
    ]


def _instance_id(instance: Mapping[str, Any]) -> str:
    # Marathon answers an instance's id as an object of its own.
    found = instance.get("instanceId", instance.get("id"))
    return str(found.get("idString", found) if isinstance(found, Mapping) else found)


def _flag(value: bool) -> str:
    return str(value).lower()
