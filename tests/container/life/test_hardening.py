"""What a task cannot do to the kernel, in real containers: system calls, privileges, processes, hidden files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mesos_gpu.base.linux.mounts import current_mounts
from mesos_gpu.container import open_containerizer
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.spec.config import Volume
from mesos_gpu.container.spec.hardening import MASKED_PATHS
from mesos_gpu.container.spec.linux import LinuxSettings
from mesos_gpu.errors import BadInput
from tests.support.container.box import Box, FakeIsolator

pytestmark = pytest.mark.root

NO_UNAME = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["uname"], "action": "SCMP_ACT_ERRNO"}]}
TRY = """
for way in "unshare -U true" "unshare -m true" "unshare -C true" "mount -t tmpfs none /mnt" "chroot / true"; do
    $way 2>/dev/null && echo "$way"
done
grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status | tr -d '\\t'
"""


async def said(box: Box, shell: str, *, runtime: str = "crun", **more: object) -> list[str]:
    """Return the lines that a container says, run to its end."""
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("c", shell=shell, **more))  # type: ignore[arg-type]
    await containerizer.wait("c")
    await containerizer.destroy("c")
    return box.said("c").splitlines()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_by_default_no_task_makes_namespaces_or_mounts(box: Box, runtime: str, user: str) -> None:
    expected = ["Seccomp:2", "NoNewPrivs:0"]
    chroot = ["chroot / true"] if user == "root" else []
    found = await said(box, TRY, runtime=runtime, user=user)
    assert sorted(found) == sorted([*chroot, *expected])


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_no_task_opens_the_machines_screen(box: Box, runtime: str) -> None:
    """Root in a container may make any node (CAP_MKNOD), and opens none of these: the walls are the cgroup's.

    But for /dev/console under crun, which adds a rule for it after all of ours, as Docker has one.
    """
    shell = """
    for node in "tty1 c 4 1" "tty0 c 4 0" "ttyS0 c 4 64" "mem c 1 1" "kmsg c 1 11" "vcs1 c 7 1"; do
        mknod $node && { (: < ${node%% *}) 2>&1; (: > ${node%% *}) 2>&1; } | sed 's/.*: //' | sort -u
        rm -f ${node%% *}
    done
    mknod null c 1 3 && echo > null && echo null opens
    mknod console c 5 1 && { (: < console) 2>/dev/null || echo and the console does not; }
    """
    expected = [*["Operation not permitted"] * 6, "null opens"]
    expected += ["and the console does not"] if runtime == "runc" else []
    assert await said(box, shell, runtime=runtime) == expected


async def test_a_session_and_a_health_check_are_filtered_as_their_container(box: Box) -> None:
    containerizer = await box.open()
    await containerizer.launch(box.config("c", shell="exec sleep 1000"))
    output = box.folder / "sandboxes" / "c" / "check"
    check = Execution(("/bin/sh", "-c", TRY), output, {})
    await containerizer.execute("c", check)
    await containerizer.destroy("c")
    assert sorted(output.read_text().splitlines()) == ["NoNewPrivs:0", "Seccomp:2", "chroot / true"]


async def test_a_task_may_be_unconfined_or_have_a_profile_of_the_agents(box: Box, tmp_path: Path) -> None:
    found = await said(box, TRY, linux=LinuxSettings(unconfined=True))
    assert "Seccomp:0" in found
    assert "unshare -U true" in found
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "no-uname.json").write_text(json.dumps(NO_UNAME))
    containerizer = await open_containerizer(
        runtime_dir=box.folder / "other",
        isolator=FakeIsolator(),
        cgroups_root=box.cgroups_root,
        profiles=Profiles(tmp_path / "profiles"),
    )
    try:
        await containerizer.recover(())
        mine = LinuxSettings(seccomp_profile="no-uname.json")
        await containerizer.launch(box.config("mine", shell="uname; unshare -U echo made", linux=mine))
        await containerizer.wait("mine")
        assert box.said("mine") == "made\n"
        for name in ("none.json", "../etc/passwd", "/etc/passwd"):
            other = LinuxSettings(seccomp_profile=name)
            with pytest.raises(BadInput, match=name):
                await containerizer.launch(box.config("other", shell="true", linux=other))
    finally:
        await containerizer.close()


async def test_a_profile_that_the_agent_has_no_folder_for_is_refused(box: Box) -> None:
    containerizer = await box.open()
    with pytest.raises(BadInput, match="--seccomp_config_dir"):
        await containerizer.launch(box.config("c", shell="true", linux=LinuxSettings(seccomp_profile="x.json")))


async def test_a_task_that_covers_the_hosts_files_gains_nothing_by_the_hosts_programs(box: Box) -> None:
    """Over /etc it could put passwords of its own, which su, with its set-user-ID bit, believes."""
    folder = box.folder / "mine"
    folder.mkdir(mode=0o755, parents=True)
    status = "grep NoNewPrivs /proc/self/status | tr -d '\\t'"
    over = (Volume(str(folder), "/srv"),)
    assert (await said(box, status, user="nobody", volumes=over))[-1] == "NoNewPrivs:1"
    assert (await said(box, status, user="nobody", volumes=(Volume(str(folder), "inside"),)))[-1] == "NoNewPrivs:0"
    assert (await said(box, status, volumes=over))[-1] == "NoNewPrivs:0"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_what_gives_away_secrets_of_the_machine_is_hidden(box: Box, runtime: str) -> None:
    look = "; ".join(f"[ ! -e {path} ] || cat {path} 2>/dev/null; ls {path}/ 2>/dev/null" for path in MASKED_PATHS)
    assert await said(box, look, runtime=runtime) == []


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_a_container_has_its_own_cgroup_as_the_root_of_all_that_it_sees(box: Box, runtime: str) -> None:
    """Even one that no filter keeps from mounting them: on a hybrid machine the tree of version 2 is among them."""
    containerizer = await box.open(runtimes=(runtime,))
    look = (
        "unshare -Um sh -c 'mount -t cgroup2 none /mnt && ls -d /mnt/*/ 2>/dev/null && cat /mnt/cgroup.procs';"
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; exec sleep 1000"
    )
    free = LinuxSettings(unconfined=True)
    await containerizer.launch(box.config("c", shell=look, linux=free, mem_bytes=128 << 20))
    box.until_said("c", str(128 << 20))
    assert "/" not in box.said("c"), "no cgroup of another is below it"
    pid = containerizer.pid_of("c")
    mine = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    kinds = {mount.kind for mount in current_mounts()} & {"cgroup", "cgroup2"}
    assert kinds
    assert {line.endswith(f"/{box.cgroups_root}/c") for line in mine} == {True}, mine
    await containerizer.destroy("c")
