"""Which version of an app a text means."""

from __future__ import annotations

from marathon_cli.api.apps import Apps
from marathon_cli.clients.client import Marathon
from mesos_gpu.errors import BadInput


def resolve_version(marathon: Marathon, name: str, text: str) -> str:
    """Return the version that a text means: a timestamp, or -n for the n-th before the present one. Raises BadInput."""
    try:
        back = int(text)
    except ValueError:
        return text
    if back >= 0:
        raise BadInput(f"{text} is not a version: give its timestamp, or -1 for the one before the present one")
    versions = Apps(marathon).versions(name)
    if -back >= len(versions):
        raise BadInput(f"{name} has {len(versions)} versions; {text} goes too far back")
    return versions[-back]
