"""Deployments, the launch queue, the leader: what a Marathon says and is told about itself."""

from __future__ import annotations

from urllib.parse import quote

from marathon_cli.clients.client import Change, Document, Marathon


class Deployments:
    """The deployments that are under way."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def roll_back(self, deployment_id: str) -> Change:
        """Stop a deployment and roll its apps back, as a deployment of its own. Raises NotFound."""
        return self._marathon.change("DELETE", f"/v2/deployments/{quote(deployment_id)}", query={"force": "false"})

    def stop(self, deployment_id: str) -> None:
        """Stop a deployment and leave everything as it is. Raises NotFound."""
        self._marathon.change("DELETE", f"/v2/deployments/{quote(deployment_id)}", query={"force": "true"})


class Cluster:
    """The launch queue and the leader."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon = marathon

    def queue(self, *, last_offers: bool = False) -> list[Document]:
        """Return what waits to be launched; with the last offers that did not do, and why."""
        query = {"embed": "lastUnusedOffers"} if last_offers else None
        found = self._marathon.object_of(self._marathon.call("GET", "/v2/queue", query=query), "a queue")
        return self._marathon.list_of(found.get("queue"), "queue")

    def reset_delay(self, app_id: str) -> None:
        """Have an app launched at once, whatever delay its failures have led to. Raises NotFound."""
        self._marathon.call("DELETE", f"/v2/queue{quote(app_id)}/delay")

    def leader(self) -> str:
        """Return host and port of the leader. Raises NotFound when there is none."""
        found = self._marathon.object_of(self._marathon.call("GET", "/v2/leader"), "a leader")
        return str(found.get("leader"))

    def abdicate(self) -> str:
        """Have the leader step down; return its words. Raises NotFound when there is none."""
        found = self._marathon.object_of(self._marathon.call("DELETE", "/v2/leader"), "a message")
        return str(found.get("message"))

    def ping(self) -> str:
        """Have it answer; a Marathon says `pong`. Raises Unavailable."""
        return self._marathon.text("/ping").strip('"')

    def plugins(self) -> list[Document]:
        """Return the plugins that it runs."""
        found = self._marathon.object_of(self._marathon.call("GET", "/v2/plugins"), "plugins")
        return self._marathon.list_of(found.get("plugins"), "plugins")
