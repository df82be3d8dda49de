from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.container import open_containerizer
from mesos_gpu.container.host import runtime as runtimes
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import Unavailable
from tests.support import places
from tests.support.container.box import IN_PURE_V2, Box, FakeIsolator
from tests.support.golden import Golden

RUN_ONE = """
import asyncio, sys
from pathlib import Path
from mesos_gpu.container import enter_private_mounts
from tests.support.container.box import Box

async def main(folder, cgroups_root, private):
    if private:
        enter_private_mounts()
    box = Box(Path(folder))
    box.cgroups_root = cgroups_root
    try:
        containerizer = await box.open()
        await containerizer.launch(box.config("c", shell="ls /dev | grep -c . ; exit 5"))
        print((await containerizer.wait("c")).exit_code, box.said("c").strip())
    finally:
        await box.close()

asyncio.run(main(sys.argv[1], sys.argv[2], len(sys.argv) > 3))
"""

GPU_ONE = """
import asyncio, sys
from pathlib import Path
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from tests.support.container.box import TRY_ALL_GPUS, Box

async def main(folder, cgroups_root):
    box = Box(Path(folder))
    box.cgroups_root = cgroups_root
    driver = SimulatedDriver(4)
    isolator = NvidiaGpuIsolator(driver.gpus(), driver, None, Checkpoints(box.folder / "gpus"))
    try:
        containerizer = await box.open(isolator=isolator, runtimes=("runc",))
        await containerizer.launch(box.config("c", shell=TRY_ALL_GPUS + "trap '' TERM; sleep 60", gpus=1))
        box.until_said("c", "3: ")
        assert (await containerizer.usage("c"))["processes"] >= 2
        await containerizer.kill("c", 0.01)
        print((await containerizer.wait("c")).signal)
        print(box.said("c"))
    finally:
        await box.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


IN_A_CHROOT = """
set -e
mount -t tmpfs none "$1"; mkdir "$1/root"  # a plain folder of a mount, not a mount
for path in /*; do
    name=${path#/}
    if [ -L "$path" ]; then ln -s "$(readlink "$path")" "$1/root/$name"
    elif [ -d "$path" ]; then mkdir "$1/root/$name"; mount --rbind "$path" "$1/root/$name"; fi
done
root=$1/root; shift
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"""

SHARED_WITH_THE_HOST = """
"$@"
grep /host /proc/self/mountinfo && echo leaked
true
"""


async def test_a_user_who_is_not_root_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable) as refused:
        await open_containerizer(runtime_dir=tmp_path, isolator=FakeIsolator())
    assert str(refused.value) == golden


@pytest.mark.root
async def test_a_machine_without_runtimes_is_told_what_to_install(
    box: Box, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    with pytest.raises(Unavailable) as refused:
        await box.open(runtimes=("no-such-runtime",))
    assert str(refused.value) == golden
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(runtimes, "MORE_FOLDERS", ())
    with pytest.raises(Unavailable) as refused:
        await box.open()
    assert str(refused.value) == golden
    monkeypatch.undo()
    await box.open()


@pytest.mark.root
@pytest.mark.parametrize(
    ("offered", "taken"),
    [(("crun", "runc"), "crun"), (("runc", "crun"), "runc"), (("no-such-runtime", "crun"), "crun")],
)
async def test_the_first_runtime_that_works_here_is_taken(box: Box, offered: tuple[str, ...], taken: str) -> None:
    containerizer = await box.open(runtimes=offered)
    assert containerizer._conmon.runtime.name == taken


@pytest.mark.root
@pytest.mark.parametrize("what", ["conmon", "container"])
async def test_a_probe_that_somebody_kills_does_not_change_the_runtime(
    box: Box, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As the kernel does when memory is short."""
    kills = 0
    spawn, hear = Conmon._spawn, Conmon._hear

    def spawned(self: Conmon, *arguments: Any) -> Process:
        nonlocal kills
        conmon = spawn(self, *arguments)
        if what == "conmon" and kills < 2:
            kills += 1
            conmon.kill()
        return conmon

    async def heard(self: Conmon, told: int, bundle: Path) -> int:
        nonlocal kills
        pid = await hear(self, told, bundle)
        if what == "container" and kills < 2:
            kills += 1
            with suppress(ProcessLookupError):  # it may have ended well meanwhile
                os.kill(pid, signal.SIGKILL)
        return pid

    monkeypatch.setattr(Conmon, "_spawn", spawned)
    monkeypatch.setattr(Conmon, "_hear", heard)
    containerizer = await box.open(runtimes=("crun", "runc"))
    assert containerizer._conmon.runtime.name == "crun"
    assert 1 <= kills <= 2


@pytest.mark.root
async def test_a_machine_that_is_short_of_something_does_not_change_the_runtime(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, failed = ContainerRecords.save, 0

    def full(self: ContainerRecords, record: Any) -> None:
        nonlocal failed
        if failed < 2:
            failed += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self, record)

    monkeypatch.setattr(ContainerRecords, "save", full)
    containerizer = await box.open(runtimes=("crun", "runc"))
    assert (containerizer._conmon.runtime.name, failed) == ("crun", 2)


def run_one(box: Box, script: str | None, *extra: str, private: bool = False, agent: str = RUN_ONE) -> str:
    """Run `agent` in a process of its own, started by a shell script in private or shared mounts."""
    code = [sys.executable, "-c", agent, str(box.folder), box.cgroups_root, *(["private"] if private else [])]
    around = [] if script is None else ["sh", "-c", script, "sh", *extra]
    propagation = "shared" if script == SHARED_WITH_THE_HOST else "private"
    done = subprocess.run(
        ["unshare", "--mount", f"--propagation={propagation}", *around, *code],
        capture_output=True,
        text=True,
        check=False,
        cwd=places.ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.root
@pytest.mark.parametrize("private", [False, True], ids=["as-is", "in-private-mounts"])
@pytest.mark.parametrize("where", [None, SHARED_WITH_THE_HOST], ids=["private-host", "shared-host"])
def test_containers_run_whatever_the_host_shares_and_it_sees_no_mount(
    make_box: Callable[[], Box], where: str | None, private: bool
) -> None:
    said = run_one(make_box(), where, private=private).split()
    assert said[0] == "5"
    assert int(said[1]) > 10
    assert len(said) == 2


@pytest.mark.root
@pytest.mark.parametrize("private", [False, True], ids=["as-is", "in-private-mounts"])
def test_containers_run_in_a_chroot(make_box: Callable[[], Box], tmp_path: Path, private: bool) -> None:
    (tmp_path / "tree").mkdir()
    assert run_one(make_box(), IN_A_CHROOT, str(tmp_path / "tree"), private=private).split()[0] == "5"


@pytest.mark.root
def test_the_walls_stand_where_there_is_only_cgroup_v2(make_box: Callable[[], Box]) -> None:
    # runc, because crun wants to raise its memory lock limit, which not every machine lets root do.
    said = run_one(make_box(), IN_PURE_V2, agent=GPU_ONE).splitlines()
    assert said[0] == "9"
    assert "0: No such device or address" in said
    assert [f"{number}: Operation not permitted" in said for number in (1, 2, 3)] == [True, True, True]
