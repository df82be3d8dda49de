"""What a pod's instance is launched as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks that start together in one executor: an instance of a pod."""

    executor: Mapping[str, Any]
    task_infos: Sequence[Mapping[str, Any]]
