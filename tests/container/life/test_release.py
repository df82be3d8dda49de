from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from mesos_gpu.container import Containerizer
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.life import following
from mesos_gpu.container.life.release import Releaser
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import Unavailable
from tests.support.container.box import Box
from tests.support.master.live import until


class StubbornCgroups:
    """Removing fails in each of `ways` in turn, and then succeeds."""

    def __init__(self, *ways: bool | OSError) -> None:
        self.ways, self.kills = list(ways), 0

    def remove(self, container_id: str) -> bool:
        if not self.ways:
            return True
        way = self.ways.pop(0)
        if isinstance(way, OSError):
            raise way
        return way

    def kill(self, container_id: str) -> None:
        self.kills += 1

    def pids(self, container_id: str) -> frozenset[int]:
        return frozenset({1})


class Exits:
    def forget(self, container_id: str) -> None:
        pass


def releaser(cgroups: StubbornCgroups, bundles: Path) -> Releaser:
    return Releaser(cast(Cgroups, cgroups), cast(Conmon, Exits()), bundles)


async def test_what_is_busy_is_killed_until_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "c" / "state").mkdir(parents=True)
    cgroups = StubbornCgroups(False, False)
    await releaser(cgroups, tmp_path).release("c")
    assert cgroups.kills == 2
    assert not (tmp_path / "c").exists()
    await releaser(cgroups, tmp_path).release("c")


async def test_a_refusal_of_the_kernel_is_said_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await releaser(StubbornCgroups(OSError("Operation not permitted")), tmp_path).release("c")
    assert "Operation not permitted" in caplog.text


async def test_whoever_is_still_starting_the_container_is_ended_first(tmp_path: Path) -> None:
    bundle = str(tmp_path / "c")
    starters: list[Any] = [start("-b", bundle), start(f"--bundle={bundle}")]
    bystander = start(f"--bundle={bundle}-other")
    try:
        await releaser(StubbornCgroups(), tmp_path).release_strays(["c"])
        for starter in starters:
            assert not Path(f"/proc/{starter.pid}").exists()
            starter.returncode = -9
        assert bystander.poll() is None
    finally:
        for process in (*starters, bystander):
            process.kill()
            process.wait()
            process.stdin.close()


def start(*arguments: str) -> Any:
    """Return a process with these arguments that has started and waits."""
    process: Any = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process.stdout as said:
        said.readline()
    return process


@pytest.mark.root
async def test_what_cannot_be_given_back_at_first_is_as_soon_as_it_can(
    box: Box, containerizer: Containerizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to ask for anything for that."""
    monkeypatch.setattr(following, "LAST_RETRY_S", 0.05)
    really, tries = box.isolator.cleanup, 0

    def cleanup(container_id: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("the record cannot be removed")
        really(container_id)

    monkeypatch.setattr(box.isolator, "cleanup", cleanup)
    await containerizer.launch(box.config("c", "true", gpus=2))
    assert (await containerizer.wait("c")).exit_code == 0
    await until(lambda: box.isolator.disk == {})
    assert tries == 3
