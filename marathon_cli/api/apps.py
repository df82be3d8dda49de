"""Apps: changes of one, its versions, its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from marathon_cli.clients.client import Change, Document, Marathon


class Apps:
    """The apps of a Marathon. Ids are canonical; every call raises NotFound for one that is not there."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def add(self, document: Mapping[str, Any], *, force: bool = False) -> tuple[Document, Change]:
        """Create an app; return it as the server has it.

        Raises Conflict when it exists, Locked when a deployment holds it, InvalidForServer, Refused.
        """
        answer, headers = self._marathon.answer("POST", "/v2/apps", query={"force": _flag(force)}, body=document)
        created = self._marathon.object_of(answer, "the new app")
        listed = created.get("deployments") or [{}]
        deployment_id = headers.get("Marathon-Deployment-Id") or listed[0].get("id")
        return created, Change(deployment_id, created.get("version"))

    def put(self, app_id: str, document: Mapping[str, Any], *, force: bool, partial: bool = True) -> Change:
        """Change an app, or create it. `partial` keeps the top-level keys that `document` does not have.

        Raises Locked, InvalidForServer, Refused.
        """
        query = {"force": _flag(force), "partialUpdate": _flag(partial)}
        return self._marathon.change("PUT", _path(app_id), query=query, body=document)

    def restart(self, app_id: str, *, force: bool) -> Change:
        """Replace all tasks. Raises Locked."""
        return self._marathon.change("POST", f"{_path(app_id)}/restart", query={"force": _flag(force)})

    def remove(self, app_id: str, *, force: bool) -> Change:
        """Remove an app and end its tasks. Raises Locked."""
        return self._marathon.change("DELETE", _path(app_id), query={"force": _flag(force)})

    def versions(self, app_id: str) -> list[str]:
        """Return the versions, newest first (a Marathon does not sort them)."""
        found = self._marathon.object_of(self._marathon.call("GET", f"{_path(app_id)}/versions"), "an object")
        return sorted((str(version) for version in found.get("versions") or []), reverse=True)

    def version(self, app_id: str, version: str) -> Document:
        """Return the definition an app had."""
        found = self._marathon.call("GET", f"{_path(app_id)}/versions/{quote(version)}")
        return self._marathon.object_of(found, "an app")

    def kill(self, app_id: str, *, host: str | None, wipe: bool) -> list[str]:
        """End an app's tasks (those on `host`), to be started again; return their ids. `wipe` drops volumes, too."""
        query = {"wipe": _flag(wipe), **({"host": host} if host else {})}
        found = self._marathon.object_of(self._marathon.call("DELETE", f"{_path(app_id)}/tasks", query=query), "tasks")
        return [str(task.get("id")) for task in self._marathon.list_of(found.get("tasks"), "tasks")]

    def kill_and_scale(self, app_id: str, *, host: str | None, force: bool) -> Change:
        """End an app's tasks (those on `host`) and lower its instances by as many. Raises Locked."""
        query = {"scale": "true", "force": _flag(force), **({"host": host} if host else {})}
        return self._marathon.change("DELETE", f"{_path(app_id)}/tasks", query=query)


class Tasks:
    """The tasks of a Marathon, by their ids."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def kill(self, ids: Sequence[str], *, wipe: bool) -> list[str]:
        """End tasks, to be started again; return the ids of those that were there."""
        found = self._marathon.call("POST", "/v2/tasks/delete", query={"wipe": _flag(wipe)}, body={"ids": list(ids)})
        tasks = self._marathon.list_of(self._marathon.object_of(found, "tasks").get("tasks"), "tasks")
        return [str(task.get("id")) for task in tasks]

    def kill_and_scale(self, ids: Sequence[str], *, force: bool) -> Change:
        """End tasks and lower the instances of their apps by as many. Raises Locked."""
        query = {"scale": "true", "force": _flag(force)}
        return self._marathon.change("POST", "/v2/tasks/delete", query=query, body={"ids": list(ids)})


def _path(app_id: str) -> str:
    return f"/v2/apps{quote(app_id)}"


def _flag(value: bool) -> str:
    return str(value).lower()
