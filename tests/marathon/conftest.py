"""A whole Marathon in process: the scheduler over a real store, its API over real HTTP, and no Mesos."""

from __future__ import annotations

from tests.support.zookeeper import zookeeper

__all__ = ["zookeeper"]
