"""Images for tests of containers: a store over an OCI layout, and what a container asks of it."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.container.spec.config import ImageAsk
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore
from tests.support.images.build import BuiltImage, write_layout


class Images:
    """A store over an OCI layout of its own."""

    def __init__(self, path: Path, **images: BuiltImage) -> None:
        self.path = path
        if images:
            write_layout(path / "layouts" / "all", images)
        self.store = ImageStore(path / "store", open_source(f"file:{path}/layouts"))

    def digest(self) -> list[tuple[str, int, int, int]]:
        """Return all that there is of layers, to see that nothing changes."""
        found = []
        for place in sorted((self.path / "store" / "layers").rglob("*")):
            status = place.lstat()
            found.append((str(place), status.st_mode, status.st_size, status.st_mtime_ns))
        return found


def ask(
    name: str = "one", *, shell: str | None = None, args: tuple[str, ...] = (), user_wins: bool = False
) -> ImageAsk:
    command = Command(shell is not None, shell, args)
    return ImageAsk(f"all:{name}", command, user_wins=user_wins)
