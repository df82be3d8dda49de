"""A real ZooKeeper for this room."""

from tests.support.zookeeper import zookeeper

__all__ = ["zookeeper"]
