"""The file that tells how cards are divided, when nobody plays them."""

from __future__ import annotations

import json
from pathlib import Path

from mesos_gpu.simulated.division import Instance, read


def kept(path: Path | None) -> dict[int, dict[int, Instance]]:
    """Return the instances of each card that a file tells; none where there is no such file, or it is none."""
    try:
        told = {} if path is None else json.loads(path.read_text())
        return {int(card): read(instances) for card, instances in told.items()}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}
