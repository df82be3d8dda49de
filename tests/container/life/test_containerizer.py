from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.container import Containerizer
from mesos_gpu.container.host.runtime import find_init
from mesos_gpu.container.host.users import find_user
from mesos_gpu.container.life import launching
from mesos_gpu.container.life.launching import Launcher
from mesos_gpu.container.spec.config import ImageAsk
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput, Conflict, ContainerError, NotEnoughGpus, NotFound
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from tests.support.container.box import MEM_BYTES, TRY_ALL_GPUS, Box, FakeIsolator
from tests.support.container.waiting import until
from tests.support.golden import Golden

pytestmark = pytest.mark.root


async def run(box: Box, containerizer: Containerizer, name: str, shell: str) -> str:
    """Run a shell command in a container to its end, which must be a good one; return what it wrote."""
    await containerizer.launch(box.config(name, shell=shell))
    assert (await containerizer.wait(name)).exit_code == 0, box.said(name, "stderr")
    return box.said(name)


async def test_output_goes_to_two_files_and_the_exit_code_comes_back(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", shell="echo out; echo err >&2; exit 3"))
    end = await containerizer.wait("c")
    assert (end.exit_code, end.signal, end.oom) == (3, None, False)
    assert (box.said("c"), box.said("c", "stderr")) == ("out\n", "err\n")


async def test_a_program_that_dies_of_a_signal_is_told_from_one_that_exits(
    box: Box, containerizer: Containerizer
) -> None:
    await containerizer.launch(box.config("c", shell="kill -SEGV $$"))
    assert (await containerizer.wait("c")).signal == signal.SIGSEGV


async def test_any_number_may_wait_and_a_destroyed_container_is_unknown(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", "sleep", "60"))
    waiters = [asyncio.ensure_future(containerizer.wait("c")) for _ in range(3)]
    await asyncio.sleep(0)
    assert containerizer.containers() == {"c"}
    await containerizer.destroy("c")
    assert {end.signal for end in await asyncio.gather(*waiters)} == {signal.SIGKILL}
    assert containerizer.containers() == frozenset()
    for call in (containerizer.wait("c"), containerizer.kill("c", 1.0), containerizer.usage("c")):
        with pytest.raises(NotFound):
            await call
    await containerizer.destroy("c")


async def test_resources_are_free_when_wait_returns(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", "true", gpus=4))
    await containerizer.wait("c")
    assert box.isolator.free == 4
    assert box.leftovers(root_cgroup=True) == []


async def test_kill_right_after_launch_is_not_lost(box: Box, containerizer: Containerizer) -> None:
    for turn in range(5):
        await containerizer.launch(box.config(f"c{turn}", "sleep", "60"))
        await containerizer.kill(f"c{turn}", 60.0)
        assert (await containerizer.wait(f"c{turn}")).signal == signal.SIGTERM


async def test_dev_has_the_standard_nodes_and_nothing_of_the_hosts(box: Box, containerizer: Containerizer) -> None:
    found = set((await run(box, containerizer, "c", "ls /dev")).split())
    found -= {"core"}  # a link to /proc/kcore, which is masked; crun makes it, runc does not
    links = {"fd", "ptmx", "stderr", "stdin", "stdout"}
    assert found == links | {"full", "mqueue", "null", "pts", "random", "shm", "tty", "urandom", "zero"}


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_a_container_can_open_its_own_gpus_and_no_others_even_by_number(
    make_box: object, box: Box, runtime: str
) -> None:
    driver = SimulatedDriver(4)
    isolator = NvidiaGpuIsolator(driver.gpus(), driver, None, Checkpoints(box.folder / "gpus"))
    containerizer = await box.open(isolator=isolator, runtimes=(runtime,))
    script = "ls /dev | grep nvidia; " + TRY_ALL_GPUS
    for name, gpus in (("one", 1), ("two", 2), ("none", 0)):
        await containerizer.launch(box.config(name, shell=script, gpus=gpus))
        held = {gpu.minor for gpu in isolator.held[name]}
        assert (await containerizer.wait(name)).exit_code == 0
        lines = box.said(name).splitlines()
        nodes = {line for line in lines if re.fullmatch(r"nvidia\d+", line)}
        assert nodes == {f"nvidia{minor}" for minor in held}
        # ENXIO: the cgroup let it through, and there is no driver behind it. EPERM: the cgroup refused.
        errors = dict(line.split(": ") for line in lines if ": " in line)
        allowed = {number for number, error in errors.items() if error == "No such device or address"}
        refused = {number for number, error in errors.items() if error == "Operation not permitted"}
        assert allowed == {str(minor) for minor in held}
        assert refused == {"0", "1", "2", "3"} - allowed
        assert len(held) == gpus
        await containerizer.destroy(name)
    assert len(isolator.free) == 4


async def test_a_task_cannot_leave_its_cgroup(box: Box, containerizer: Containerizer) -> None:
    script = (
        "for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do echo $$ > $f && echo moved; done; "
        "mount -o remount,rw /sys && echo remounted; mount -t tmpfs none /mnt && echo mounted; "
        "cat /proc/self/cgroup"
    )
    said = await run(box, containerizer, "c", script)
    assert not {"moved", "remounted", "mounted"} & set(said.split())
    assert {line.partition(":")[2].rpartition(":")[2] for line in said.splitlines()} == {"/"}, "its own is all it sees"


async def test_processes_of_the_host_are_not_seen(box: Box, containerizer: Containerizer) -> None:
    said = await run(box, containerizer, "c", "for p in /proc/[0-9]*; do echo ${p#/proc/}; done; echo $PPID")
    assert "1" in said.split()
    assert str(os.getpid()) not in said.split()


async def test_nothing_is_made_on_the_host(box: Box, containerizer: Containerizer) -> None:
    def listing() -> dict[str, set[Path]]:
        return {path: set(Path(path).iterdir()) for path in ("/", "/mnt", "/dev", "/sys")}

    before = listing()
    said = await run(box, containerizer, "c", "pwd; ls -d /mnt/mesos; touch /dev/only-here; ls /dev/only-here; true")
    assert said == f"{box.folder}/sandboxes/c\n/dev/only-here\n"
    assert listing() == before


async def test_the_host_root_is_not_mounted_where_others_could_remove_it(
    box: Box, containerizer: Containerizer
) -> None:
    await containerizer.launch(box.config("c", "sleep", "60"))
    assert list((box.folder / "run" / "host").iterdir()) == []
    await containerizer.destroy("c")


async def test_the_environment_is_the_containers_alone(
    box: Box, containerizer: Containerizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_SECRET", "1")
    await containerizer.launch(box.config("c", "env", environment={"PATH": "/usr/bin:/bin", "A": "b c=d"}))
    await containerizer.wait("c")
    seen = dict(line.split("=", 1) for line in box.said("c").splitlines())
    assert seen.pop("HOME", "/root") == "/root"  # runtimes add it from the host's user database
    assert seen == {"PATH": "/usr/bin:/bin", "A": "b c=d"}


async def test_a_user_of_the_host_runs_the_task_and_can_reopen_its_output(
    box: Box, containerizer: Containerizer, tmp_path: Path
) -> None:
    nobody = find_user("nobody")
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    config = box.config(
        "c", shell="id -u; id -g; echo again > /proc/self/fd/1; grep CapEff /proc/self/status", user="nobody"
    )
    await containerizer.launch(config)
    assert (await containerizer.wait("c")).exit_code == 0, box.said("c", "stderr")
    said = box.said("c").split()
    assert said[:1] == ["again"] or said[:3] == [str(nobody.uid), str(nobody.gid), "again"]
    assert int(said[-1], 16) == 0


async def test_what_a_container_uses_is_told_in_mesos_names(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", shell="echo up; while :; do :; done"))
    box.until_said("c", "up")
    usage = await containerizer.usage("c")
    assert usage["cpus_limit"] == 0.5
    assert usage["mem_limit_bytes"] == MEM_BYTES
    assert usage["processes"] == 2
    assert usage["threads"] >= 2
    assert usage["mem_total_bytes"] > 0
    await containerizer.destroy("c")


async def test_many_containers_start_side_by_side_and_not_all_at_once(
    box: Box, containerizer: Containerizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each does at its start holds up everybody else in this process, if only for a moment."""
    under_way, most, compose = set[str](), list[int](), launching.compose
    ended = Launcher._note_running

    def begins(config: Any, *more: Any) -> Any:
        under_way.add(config.container_id)
        most.append(len(under_way))
        return compose(config, *more)

    def ends_(self: Launcher, container: Any, supervised: Any) -> None:
        under_way.discard(container.record.container_id)
        ended(self, container, supervised)

    monkeypatch.setattr(launching, "compose", begins)
    monkeypatch.setattr(Launcher, "_note_running", ends_)
    names = [f"c{number}" for number in range(launching.AT_ONCE + 8)]
    pids = await asyncio.gather(*(containerizer.launch(box.config(n, shell=f"echo {n}; exit 7")) for n in names))
    ends = await asyncio.gather(*(containerizer.wait(name) for name in names))
    assert len(set(pids)) == len(names)
    assert 1 < max(most) <= launching.AT_ONCE
    assert {end.exit_code for end in ends} == {7}
    assert [box.said(name) for name in names] == [f"{name}\n" for name in names]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"image": ImageAsk("nvidia/cuda", Command(value="true"))}, BadInput),
        ({"user": "no-such-user"}, BadInput),
        ({"gpus": 5}, NotEnoughGpus),
    ],
)
async def test_a_refused_launch_leaves_nothing(
    box: Box, containerizer: Containerizer, change: dict[str, object], error: type[Exception], golden: Golden
) -> None:
    with pytest.raises(error) as refused:
        await containerizer.launch(box.config("c", "true", **change))  # type: ignore[arg-type]
    assert str(refused.value) == golden
    assert containerizer.containers() == frozenset()
    assert box.isolator.free == 4
    assert list((box.folder / "run" / "containers").iterdir()) == []


async def test_a_missing_sandbox_is_not_made(box: Box, containerizer: Containerizer, golden: Golden) -> None:
    config = box.config("c", "true")
    config.sandbox.rmdir()
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(config)
    assert str(refused.value) == golden
    assert not config.sandbox.exists()


async def test_a_mount_point_that_the_host_lacks_is_refused(box: Box, make_box: object, golden: Golden) -> None:
    plan = LaunchPlan(mounts=(BindMount("/tmp", "/no/such/place"),))
    containerizer = await box.open(isolator=FakeIsolator(plan=plan))
    with pytest.raises(ContainerError) as refused:
        await containerizer.launch(box.config("c", "true"))
    assert str(refused.value) == golden
    assert not Path("/no").exists()


async def test_the_runtimes_refusal_is_in_the_error_and_nothing_is_left(box: Box) -> None:
    isolator = FakeIsolator(plan=LaunchPlan(mounts=(BindMount("/no/such/source", "/tmp"),)))
    containerizer = await box.open(isolator=isolator)
    with pytest.raises(ContainerError) as refused:
        await containerizer.launch(box.config("c", "true", gpus=1))
    assert "/no/such/source" in str(refused.value)
    assert isolator.free == 4
    assert containerizer.containers() == frozenset()


async def test_what_the_system_refuses_is_a_container_error_and_nothing_is_left(
    box: Box, containerizer: Containerizer
) -> None:
    (box.folder / "run" / "bundles").rmdir()
    (box.folder / "run" / "bundles").write_text("in the way")
    with pytest.raises(ContainerError) as refused:
        await containerizer.launch(box.config("c", "true", gpus=1))
    assert "bundles" in str(refused.value)
    assert box.isolator.free == 4
    (box.folder / "run" / "bundles").unlink()
    await containerizer.launch(box.config("c", "true"))
    await containerizer.wait("c")


async def test_a_command_that_is_not_there_ends_as_its_init_says(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", "no-such-command"))
    # tini says what a shell would; catatonit has one status, and one word, for everything that it cannot start.
    status, word = (127, "no-such-command") if find_init()[0].endswith("tini") else (1, "failed to exec")
    assert (await containerizer.wait("c")).exit_code == status
    assert word in box.said("c", "stderr")


async def test_an_id_can_be_used_once(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", "sleep", "60"))
    with pytest.raises(Conflict):
        await containerizer.launch(box.config("c", "sleep", "60"))
    await containerizer.kill("c", 0.0)
    assert (await containerizer.wait("c")).signal == signal.SIGKILL
    with pytest.raises(Conflict):
        await containerizer.launch(box.config("c", "sleep", "60"))
    await containerizer.destroy("c")
    await containerizer.launch(box.config("c", "true"))
    await containerizer.wait("c")


async def test_destroying_a_container_that_is_being_launched_ends_it(
    box: Box, containerizer: Containerizer, golden: Golden
) -> None:
    launching = asyncio.ensure_future(containerizer.launch(box.config("c", "sleep", "60", gpus=2)))
    await asyncio.sleep(0)
    await containerizer.destroy("c")
    with pytest.raises(ContainerError) as refused:
        await launching
    assert str(refused.value) == golden
    assert box.isolator.free == 4


@pytest.mark.parametrize("turns", [1, 3, 10, 30])
async def test_a_launch_that_nobody_waits_for_any_more_is_undone(
    box: Box, containerizer: Containerizer, turns: int
) -> None:
    launching = asyncio.ensure_future(containerizer.launch(box.config("c", "sleep", "60", gpus=2)))
    for _ in range(turns):
        await asyncio.sleep(0)
    launching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launching
    assert box.isolator.free == 4
    assert containerizer.containers() == frozenset()


async def test_without_conmon_the_end_is_unknown_and_never_a_success(box: Box, containerizer: Containerizer) -> None:
    pid = await containerizer.launch(box.config("c", shell="echo up; sleep 60"))
    box.until_said("c", "up")

    def parent() -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    # Until it has ended, the runtime that started the container is its parent.
    until(lambda: Path(f"/proc/{parent()}/comm").read_text() == "conmon\n")
    os.kill(parent(), signal.SIGKILL)
    await containerizer.kill("c", 0.0)
    end = await containerizer.wait("c")
    assert (end.exit_code, end.signal) == (None, None)
    assert end.message is not None
    assert "conmon" in end.message
