"""Which containers of an earlier process live on. Touches nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mesos_gpu.container.spec.nesting import is_nested, top_level
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.mesos.ids import ContainerId


def recovered(records: Mapping[ContainerId, Record | None], live: Collection[ContainerId]) -> dict[ContainerId, Record]:
    """Return those of the `records` on disk that are containers still, or ended with nobody told yet.

    A nested one lives while its outermost parent does, and is known no longer than that.
    """
    kept: dict[ContainerId, Record] = {}
    for container_id, record in records.items():
        if record is None or record.step == "preparing" or record.session:
            continue
        outermost = records.get(top_level(container_id))
        if container_id in live or record.standalone:
            kept[container_id] = record
        elif is_nested(container_id) and outermost is not None and outermost.step == "running":  # noqa: SIM102
            if outermost.standalone or outermost.container_id in live:
                kept[container_id] = record
    return kept
