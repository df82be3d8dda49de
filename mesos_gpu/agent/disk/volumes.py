"""The folders of persistent volumes: `<work_dir>/volumes/roles/<role>/<id>`, as in Mesos (src/slave/paths.cpp)."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import uuid
from collections.abc import Collection
from pathlib import Path

from mesos_gpu.agent.model.paths import volume_path
from mesos_gpu.base.files import sync_folder, write_whole
from mesos_gpu.container.spec.user_namespace import IdRange, read_range
from mesos_gpu.errors import Conflict
from mesos_gpu.mesos.ids import Role

log = logging.getLogger(__name__)

VOLUME_MODE = 0o755
DISCARDED = ".discarded"
"""What is being deleted; beside `roles`, so that a rename gets it there."""
OWNERS = Path("meta", "userns_remap")
"""Below the work_dir: the host's numbers that files of containers' users have, FIRST:COUNT."""


class Volumes:
    """Makes and discards volumes below one work_dir. A discarded one is out of the way at once, and deleted behind."""

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self._discarded = work_dir / "volumes" / DISCARDED

    def path(self, role: Role, volume_id: str) -> Path:
        """Return the folder of a volume."""
        return Path(volume_path(self.work_dir, role, volume_id))

    def make(self, role: Role, volume_id: str) -> None:
        """Make the folder of a new volume, empty whatever was there before. Raises OSError."""
        path = self.path(role, volume_id)
        if path.exists():
            log.warning("discarding what is left at %s of an earlier volume of that name", path)
            self.discard(role, volume_id)
        path.mkdir(parents=True)
        path.chmod(VOLUME_MODE)
        # What tasks sync in it would be lost when the power goes, with a folder that the disk has not got.
        for folder in list(path.parents)[: len(path.relative_to(self.work_dir).parts)]:
            sync_folder(folder)

    def discard(self, role: Role, volume_id: str) -> None:
        """Take a volume away with all that is in it; nothing happens when it is not there. Raises OSError."""
        self._discarded.mkdir(parents=True, exist_ok=True)
        try:
            self.path(role, volume_id).rename(self._discarded / uuid.uuid4().hex)
        except FileNotFoundError:
            return
        self._empty()

    def settle(self, wanted: Collection[tuple[Role, str]]) -> None:
        """Make the disk agree with what is written down, after a crash: what is missing is made, the rest discarded."""
        paths = {self.path(*volume) for volume in wanted}
        for found in (self.work_dir / "volumes" / "roles").glob("*/*"):
            if found.is_dir() and not found.is_symlink() and found not in paths:
                log.warning("discarding %s, which is not a volume any more", found)
                self.discard(Role(found.parent.name), found.name)
        for role, volume_id in wanted:
            if not self.path(role, volume_id).is_dir():
                log.warning("the volume %s of role %s was gone; it begins empty", volume_id, role)
                self.make(role, volume_id)
        if self._discarded.exists():
            self._empty()

    def _empty(self) -> None:
        # A volume may be large: nobody waits for it, and a next process continues where this one ends.
        threading.Thread(target=_delete_all, args=(self._discarded,), name="discard-volumes", daemon=True).start()


def _delete_all(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        shutil.rmtree(entry, ignore_errors=True)


def check_owners(work_dir: Path, ids: IdRange | None) -> None:
    """Record the user and group numbers of files that containers write; None: without user namespaces.

    Raises Conflict if a file of a persistent volume has a number of an earlier --userns_remap: no user of a new
    container would own it.
    """
    record = work_dir / OWNERS
    before = read_range(text) if record.exists() and (text := record.read_text().strip()) else None
    if before is not None and before != ids:
        for folder, _, names in os.walk(work_dir / "volumes" / "roles"):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue  # a task that runs on has removed it
                if status.st_uid in before or status.st_gid in before:
                    now = "without --userns_remap" if ids is None else f"with files' owners in {ids}"
                    raise Conflict(
                        f"this agent is started {now} (--userns_remap), and {path}, of a persistent volume, has an "
                        f"owner in {before}, who would be nobody in its tasks. Start it with the --userns_remap of "
                        f"before, or give the files new owners (chown) and remove {record}"
                    )
    if before != ids:
        write_whole(record, f"{'' if ids is None else ids}\n".encode())
