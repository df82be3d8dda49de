"""A whole Marathon in process, and a real ZooKeeper, for this room."""

from __future__ import annotations

from tests.support.marathon.service import make_marathon, marathon
from tests.support.zookeeper import zookeeper

__all__ = ["make_marathon", "marathon", "zookeeper"]
