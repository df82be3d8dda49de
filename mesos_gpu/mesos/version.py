"""Which Mesos we are to others."""

from __future__ import annotations

MESOS_VERSION = "1.12.0"
"""The Mesos whose protocol this is; pymesos takes whole numbers between dots only, masters refuse agents that are too
old."""
