from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.container.cgroups import find_cgroups
from mesos_gpu.container.state.checkpoints import ContainerRecords, Record
from mesos_gpu.errors import NotFound
from tests.support import places
from tests.support.container.box import Box, FakeIsolator

pytestmark = pytest.mark.root

AGENT = """
import asyncio, itertools, os, signal, sys
from pathlib import Path
from tests.support.container.box import Box, FakeIsolator
from mesos_gpu.container.supervisor.conmon import Conmon

async def main(folder, cgroups_root, moment, *containers):
    box = Box(Path(folder))
    box.cgroups_root = cgroups_root
    containerizer = await box.open()
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    if moment == "launching":  # conmon has been started, and we die before it answers
        Conmon._hear = die
    elif moment != "later":  # we die at that call of any of our functions
        calls = itertools.count()
        def profile(frame, event, _):
            ours = event == "call" and "/mesos_gpu/container/" in frame.f_code.co_filename
            if ours and next(calls) == int(moment):
                die()
        sys.setprofile(profile)
    for container in containers:
        name, _, shell = container.partition(":")
        await containerizer.launch(box.config(name, shell=shell, gpus=1))
    if moment == "later":
        print("launched", flush=True)
        await asyncio.Event().wait()
    for name in list(containerizer.containers()):
        await containerizer.destroy(name)

asyncio.run(main(*sys.argv[1:]))
"""


def agent_that_dies(box: Box, *containers: str, moment: str = "later") -> None:
    """Launch containers, given as `id:shell command`, from another process and kill -9 that process."""
    command = [sys.executable, "-c", AGENT, str(box.folder), box.cgroups_root, moment, *containers]
    root = places.ROOT
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as agent:
        try:
            assert agent.stdout is not None
            if moment == "later":
                assert agent.stdout.readline() == b"launched\n"
            else:
                agent.wait()
        finally:
            agent.kill()


UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done; echo went on; exit 42"


async def test_a_container_outlives_its_agent_and_the_next_one_sees_its_end(box: Box) -> None:
    agent_that_dies(box, f"c:{UNTIL_GO}")
    box.isolator.disk["c"] = 1
    containerizer = await box.open({"c"})
    assert containerizer.containers() == {"c"}
    assert (await containerizer.usage("c"))["processes"] >= 1
    (box.folder / "sandboxes" / "c" / "go").touch()
    assert (await containerizer.wait("c")).exit_code == 42
    assert box.said("c") == "went on\n"
    assert box.isolator.free == 4


async def test_an_end_while_no_agent_was_there_is_learned(box: Box) -> None:
    agent_that_dies(box, f"c:{UNTIL_GO}")
    (box.folder / "sandboxes" / "c" / "go").touch()
    box.until_exit_file("c")
    box.isolator.disk["c"] = 1
    containerizer = await box.open({"c"})
    assert (await containerizer.wait("c")).exit_code == 42
    assert box.isolator.free == 4


async def test_containers_that_are_not_wanted_any_more_are_destroyed(box: Box) -> None:
    agent_that_dies(box, "keep:sleep 60", "drop:trap '' TERM; setsid sleep 60.25 & sleep 60.25; sleep 60.25")
    box.isolator.disk.update(keep=1, drop=1, ghost=1)
    containerizer = await box.open({"keep"})
    assert containerizer.containers() == {"keep"}
    assert box.isolator.disk == {"keep": 1}
    assert not any(b"60.25" in p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists())
    with pytest.raises(NotFound):
        await containerizer.wait("drop")
    await containerizer.destroy("keep")
    assert box.isolator.disk == {}


async def test_a_half_launched_container_is_destroyed_even_if_it_is_wanted(box: Box) -> None:
    agent_that_dies(box, "c:sleep 60", moment="launching")
    box.isolator.disk["c"] = 1
    containerizer = await box.open({"c"})
    assert containerizer.containers() == frozenset()
    assert box.isolator.free == 4
    with pytest.raises(NotFound):
        await containerizer.wait("c")
    await containerizer.launch(box.config("c", "true"))
    assert (await containerizer.wait("c")).exit_code == 0


@pytest.mark.parametrize("moment", range(0, 170, 9))
async def test_death_at_any_moment_of_a_launch_or_an_end_leaves_nothing_that_recover_does_not_find(
    box: Box, moment: int
) -> None:
    agent_that_dies(box, "c:sleep 60", moment=str(moment))
    box.isolator.disk["c"] = 1
    containerizer = await box.open()
    assert containerizer.containers() == frozenset()
    assert box.isolator.free == 4
    assert box.leftovers(root_cgroup=True) == []


async def test_an_end_that_was_told_is_kept_for_the_next_agent_until_it_is_forgotten(box: Box) -> None:
    first = await box.open()
    await first.launch(box.config("c", shell="exit 9"))
    await first.launch(box.config("d", shell="exit 8"))
    assert (await first.wait("c")).exit_code == 9
    assert (await first.wait("d")).exit_code == 8
    await first.destroy("d")
    second = await box.open({"c", "d"})
    assert (await second.wait("c")).exit_code == 9
    with pytest.raises(NotFound):
        await second.wait("d")
    await second.destroy("c")
    third = await box.open({"c"})
    with pytest.raises(NotFound):
        await third.wait("c")


async def test_closing_leaves_containers_running(box: Box) -> None:
    first = await box.open()
    pid = await first.launch(box.config("c", "sleep", "60"))
    await first.close()
    assert Path(f"/proc/{pid}").exists()
    second = await box.open({"c"})
    await second.kill("c", 60.0)
    assert (await second.wait("c")).signal == signal.SIGTERM


async def test_a_reused_pid_is_not_taken_for_the_container(box: Box) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = Record(container_id="c", step="running", boot_id=boot_id, sandbox="/", pid=os.getpid(), pid_start_time=1)
    (box.folder / "run" / "containers").mkdir(parents=True)
    ContainerRecords(box.folder / "run" / "containers").save(record)
    containerizer = await box.open({"c"})
    await containerizer.kill("c", 0.0)
    end = await containerizer.wait("c")
    assert (end.exit_code, end.signal) == (None, None)


async def test_a_record_of_an_earlier_boot_is_a_container_that_is_gone(box: Box) -> None:
    record = Record(container_id="c", step="running", boot_id="earlier", sandbox="/", pid=os.getpid(), pid_start_time=1)
    (box.folder / "run" / "containers").mkdir(parents=True)
    ContainerRecords(box.folder / "run" / "containers").save(record)
    (box.folder / "run" / "containers" / "broken.json").write_text("{")
    containerizer = await box.open({"c", "broken"})
    assert (await containerizer.wait("c")).exit_code is None
    with pytest.raises(NotFound):
        await containerizer.wait("broken")


async def test_two_agents_share_a_root_cgroup_without_harm(box: Box, make_box: Callable[[], Box]) -> None:
    other = make_box()
    other.cgroups_root = box.cgroups_root
    try:
        first = await box.open()
        await first.launch(box.config("c", "sleep", "60"))
        second = await other.open(isolator=FakeIsolator())
        await second.launch(other.config("d", "true"))
        assert (await second.wait("d")).exit_code == 0
        assert first.containers() == {"c"}
        assert (await first.usage("c"))["processes"] >= 1
    finally:
        await other.close()
        await box.close()


async def test_what_runs_of_a_live_container_without_a_record_is_ended(box: Box) -> None:
    """Say somebody removed the runtime_dir: its GPUs would be given out again beside it."""
    agent_that_dies(box, "c:sleep 1000")
    cgroups = find_cgroups(box.cgroups_root)
    assert cgroups.pids("c")
    shutil.rmtree(box.folder / "run" / "containers")
    containerizer = await box.open({"c"})
    assert containerizer.containers() == set()
    assert not cgroups.pids("c")
