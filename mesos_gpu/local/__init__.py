"""Mesos in a box: master, agents and Marathon as processes of one machine, watched over by one more.

The one place that puts the services together. Each is a program of its own; they meet over HTTP and libprocess, so
nothing here imports them.
"""

from mesos_gpu.local.commands import down, status, up
from mesos_gpu.local.plan import UpOptions

__all__ = ["UpOptions", "down", "status", "up"]
