"""Reads what the last agent process wrote down (checkpoints.py); decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mesos_gpu.agent.checkpoints import HOLDINGS, LATEST, SENTINEL, Checkpoints, read_json, read_log
from mesos_gpu.agent.replay import Run
from mesos_gpu.agent.tasks import MAX_COMPLETED_EXECUTORS
from mesos_gpu.mesos.resource import Document

log = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found. `agent` None: there was no agent here, or it had been told to go."""

    agent: Document | None = None
    rebooted: bool = False
    frameworks: dict[str, Document] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    resources: tuple[Document, ...] = ()
    """Reservations and volumes; an agent that begins anew has them too."""
    operations: tuple[Document, ...] = ()
    drain: Document | None = None


def read_boot_id() -> str:
    """Return what names this run of the machine."""
    return BOOT_ID.read_text(encoding="ascii").strip()


def recover(checkpoints: Checkpoints, boot_id: str) -> Recovered:
    """Return what the last process left; with an agent id, `checkpoints` go on in its folder."""
    meta = checkpoints.meta
    link = meta / "slaves" / LATEST
    agent = read_json(link / "slave.info") if link.is_symlink() else None
    holdings = _holdings(meta)
    if agent is None:
        return Recovered(resources=tuple(holdings["resources"]))
    checkpoints.use(agent["id"]["value"])
    try:
        before = (meta / "boot_id").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        before = boot_id
    found: dict[str, Document] = {}
    runs: list[Run] = []
    folder = meta / "slaves" / checkpoints.agent_id
    for framework in _folders(folder / "frameworks"):
        info = read_json(framework / "framework.info")
        if info is None:
            log.warning("skipping framework %s: its framework.info is not readable", framework.name)
            continue
        mine = list(_runs(framework))
        complete = [run for run in mine if run.complete][-MAX_COMPLETED_EXECUTORS:]
        runs += [*complete, *(run for run in mine if not run.complete)]
        found[framework.name] = info
    return Recovered(
        agent=agent,
        rebooted=before != boot_id,
        frameworks=found,
        runs=tuple(runs),
        resources=tuple(holdings["resources"]),
        operations=tuple(holdings["operations"]),
        drain=read_json(folder / "drain.config"),
    )


def _holdings(meta: Path) -> Document:
    found = read_json(meta / "resources" / HOLDINGS)
    if isinstance(found, dict):
        return found
    # What versions before this one wrote.
    return {"resources": read_json(meta / "resources" / "resources.info") or (), "operations": ()}


def _runs(framework: Path) -> Iterator[Run]:
    """Yield the latest run of each executor, oldest first; earlier runs are history."""
    latest = [executor / "runs" / LATEST for executor in _folders(framework / "executors")]
    runs = [link.parent / link.readlink() for link in latest if link.is_symlink()]
    for run in sorted((run for run in runs if run.is_dir()), key=lambda run: run.stat().st_mtime):
        for task in _folders(run / "tasks"):
            info = read_json(task / "task.info")
            if info is None:
                log.warning("skipping task %s: its task.info is not readable", task.name)
                continue
            records = tuple(read_log(task / "task.updates"))
            yield Run(framework.name, run.name, info, records, (run / SENTINEL).exists())


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except FileNotFoundError:
        return []
