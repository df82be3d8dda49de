"""What of a DiskInfo tells one disk from another, and how Mesos prints it. Source: Mesos src/common/resources.cpp."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def identity_text(other: str) -> str:
    """Return what of the other fields distinguishes (Mesos' comparison of DiskInfo: source and persistence id)."""
    fields = json.loads(other)
    if "disk" in fields:
        disk = fields["disk"]
        kept = {key: disk[key] for key in ("source",) if key in disk}
        if "persistence" in disk:
            kept["persistence"] = disk["persistence"]["id"]
        fields["disk"] = kept
    return json.dumps(fields, sort_keys=True)


def disk_text(disk: Mapping[str, Any]) -> str:
    """Return a DiskInfo as Mesos prints it: source, persistence id, path of the volume, and its place on the host."""
    parts = []
    if "source" in disk:
        source = disk["source"]
        root = source.get(str(source.get("type", "")).lower(), {}).get("root")
        parts.append(str(source.get("type", "")) + (f":{root}" if root else ""))
    if "persistence" in disk:
        parts.append(str(disk["persistence"]["id"]))
    text = ",".join(parts)
    if "volume" in disk:
        volume = disk["volume"]
        path = volume.get("container_path", "")
        if "host_path" in volume:
            mode = {"RW": ":rw", "RO": ":ro"}.get(str(volume.get("mode")), "")
            path = f"{volume['host_path']}:{path}{mode}"
        text += f":{path}"
    return text
