"""A Marathon's REST API as methods: values in, values out; a refusal is an error that says what the server said.

Source: Marathon's REST API v2 and its error shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import quote

from marathon_cli.connection.access import Access
from marathon_cli.connection.http import HttpClient
from mesos_gpu.errors import Conflict, NotFound, Problem, ProtocolError, Refused, Unavailable

if TYPE_CHECKING:
    from marathon_cli.clients.sandbox import Mesos
    from marathon_cli.connection.transport import Answer

Document = dict[str, Any]

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
    """What a Marathon answers to a change: the deployment that leads there, and the version of what is to be.

    None is what the server does not say.
    """

    deployment_id: str | None
    version: str | None = None


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
        """Ask for a change; return the deployment that a Marathon names in its answer or in a header."""
        said, headers = self.answer(method, path, query=query, body=body)
        said = said if isinstance(said, dict) else {}
        listed = said.get("deployments") or [{}]
        deployment_id = said.get("deploymentId") or headers.get("Marathon-Deployment-Id") or listed[0].get("id")
        return Change(deployment_id, said.get("version"))

    def object_of(self, found: Any, what: str) -> Document:
        """Return an answer that must be an object. Raises ProtocolError."""
        if not isinstance(found, dict):
            raise self._strange(f"{what} was expected")
        return found

    def list_of(self, found: Any, what: str) -> list[Document]:
        """Return an answer that must be a list of objects. Raises ProtocolError."""
        return self._list({what: found}, what)

    def listen(self, kinds: Sequence[str]) -> Answer:
        """Return the stream of events (Server-Sent Events) of these kinds; its body is still to be read.

        Raises Unavailable, Refused.
        """
        headers = {"Accept": "text/event-stream"}
        return self._http.stream("GET", "/v2/events", query={"event_type": list(kinds)}, headers=headers, read_s=None)

    def mesos(self) -> Mesos:
        """Return a client of the master that this Marathon is with, and of its agents. Raises Unavailable."""
        from marathon_cli.clients.sandbox import Mesos

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
