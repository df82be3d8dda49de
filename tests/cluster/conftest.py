"""A real ZooKeeper for this room."""

from tests.zookeeper import zookeeper

__all__ = ["zookeeper"]
