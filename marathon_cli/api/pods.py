"""Pods: containers that run side by side on one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from marathon_cli.clients.client import Change, Document, Marathon


class Pods:
    """The pods of a Marathon. Every call raises NotFound for one that is not there."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def statuses(self) -> list[Document]:
        """Return every pod's status with its definition (`spec`) and instances, by id."""
        found = self._marathon.list_of(self._marathon.call("GET", "/v2/pods/::status"), "pods")
        return sorted(found, key=lambda pod: str(pod.get("id")))

    def status(self, pod_id: str) -> Document:
        """Return one pod's status."""
        return self._marathon.object_of(self._marathon.call("GET", f"{_path(pod_id)}::status"), "a pod's status")

    def show(self, pod_id: str) -> Document:
        """Return a pod's definition."""
        return self._marathon.object_of(self._marathon.call("GET", _path(pod_id)), "a pod")

    def add(self, document: Mapping[str, Any], *, force: bool) -> tuple[Document, Change]:
        """Create a pod; return it as the server has it. Raises Conflict, Locked, InvalidForServer."""
        return self._written("POST", "/v2/pods", document, force=force)

    def put(self, pod_id: str, document: Mapping[str, Any], *, force: bool) -> tuple[Document, Change]:
        """Replace a pod's definition. Raises Locked, InvalidForServer."""
        return self._written("PUT", _path(pod_id), document, force=force)

    def remove(self, pod_id: str, *, force: bool) -> Change:
        """Remove a pod and end its instances. Raises Locked."""
        return self._marathon.change("DELETE", _path(pod_id), query={"force": str(force).lower()})

    def kill(self, pod_id: str, instances: Sequence[str], *, wipe: bool) -> list[str]:
        """End instances, to be started again; return the ids of those that were there."""
        path, query = f"{_path(pod_id)}::instances", {"wipe": str(wipe).lower()}
        found = self._marathon.call("DELETE", path, query=query, body=list(instances))
        ended = self._marathon.list_of(found if isinstance(found, list) else [], "instances")
        return [_instance_id(instance) for instance in ended]

    def _written(self, method: str, path: str, document: Mapping[str, Any], *, force: bool) -> tuple[Document, Change]:
        found, headers = self._marathon.answer(method, path, query={"force": str(force).lower()}, body=document)
        pod = self._marathon.object_of(found, "a pod")
        return pod, Change(headers.get("Marathon-Deployment-Id"), pod.get("version"))


def _instance_id(instance: Mapping[str, Any]) -> str:
    # Marathon answers an instance's id as an object of its own.
    found = instance.get("instanceId", instance.get("id"))
    return str(found.get("idString", found) if isinstance(found, Mapping) else found)


def _path(pod_id: str) -> str:
    return f"/v2/pods{quote(pod_id)}"
