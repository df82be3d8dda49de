"""Groups: trees of apps and pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from marathon_cli.clients.client import Change, Document, Marathon


class Groups:
    """The groups of a Marathon. `/` is the root; every call raises NotFound for one that is not there."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def show(self, group_id: str, version: str | None = None) -> Document:
        """Return a group with all that is in it, now or as it was in a version."""
        path = _path(group_id)
        if version is not None:
            return self._marathon.object_of(self._marathon.call("GET", f"{path}/versions/{quote(version)}"), "a group")
        embed = ["group.groups", "group.apps", "group.pods", "group.apps.counts", "group.apps.deployments"]
        return self._marathon.object_of(self._marathon.call("GET", path, query={"embed": embed}), "a group")

    def versions(self, group_id: str) -> list[str]:
        """Return the versions, newest first."""
        found = self._marathon.call("GET", f"{_path(group_id)}/versions")
        return sorted((str(version) for version in found or []), reverse=True)

    def add(self, document: Mapping[str, Any], *, force: bool) -> Change:
        """Create a group. Raises Conflict when it is there, Locked, InvalidForServer."""
        return self._marathon.change("POST", "/v2/groups", query={"force": str(force).lower()}, body=document)

    def put(self, group_id: str, document: Mapping[str, Any], *, force: bool) -> Change:
        """Change a group; lists in `document` replace what was there. Raises Locked, InvalidForServer."""
        return self._marathon.change("PUT", _path(group_id), query={"force": str(force).lower()}, body=document)

    def steps(self, group_id: str, document: Mapping[str, Any]) -> list[Document]:
        """Return the steps that `put` would lead to, without doing it. Raises InvalidForServer."""
        found = self._marathon.call("PUT", _path(group_id), query={"dryRun": "true"}, body=document)
        return self._marathon.list_of(self._marathon.object_of(found, "steps").get("steps"), "steps")

    def remove(self, group_id: str, *, force: bool) -> Change:
        """Remove a group and all that is in it. Raises Locked."""
        return self._marathon.change("DELETE", _path(group_id), query={"force": str(force).lower()})


def _path(group_id: str) -> str:
    return "/v2/groups" + ("" if group_id == "/" else quote(group_id))
