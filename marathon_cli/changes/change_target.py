"""What a change is about. Pure."""

from __future__ import annotations

from typing import NamedTuple


class ChangeTarget(NamedTuple):
    """An app or a pod that a deployment is about. `gone` says that it is to be removed."""

    kind: str
    id: str
    gone: bool = False
