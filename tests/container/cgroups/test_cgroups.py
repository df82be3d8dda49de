from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.base.linux.mounts import current_mounts
from mesos_gpu.container.cgroups import Cgroups, hierarchies_v1
from mesos_gpu.container.cgroups.v1 import CgroupsV1
from mesos_gpu.container.cgroups.v2 import CgroupsV2
from mesos_gpu.errors import Unavailable
from tests.support.golden import Golden

V1 = {
    "devices": {"cgroup.procs": "10\n11\n", "tasks": "10\n11\n12\n"},
    "cpuacct": {"cpuacct.usage_user": "1500000000\n", "cpuacct.usage_sys": "250000000\n"},
    "cpu": {"cpu.stat": "nr_periods 4\nnr_throttled 1\nthrottled_time 2000000000\n"},
    "memory": {
        "memory.usage_in_bytes": "4096\n",
        "memory.max_usage_in_bytes": "8192\n",
        "memory.stat": "rss 1\ntotal_rss 2048\ntotal_cache 1024\ntotal_mapped_file 512\ntotal_unevictable 0\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    },
}
V2 = {
    "cgroup.procs": "10\n11\n",
    "cgroup.threads": "10\n11\n12\n",
    "cpu.stat": (
        "usage_usec 1750000\nuser_usec 1500000\nsystem_usec 250000\n"
        "nr_periods 4\nnr_throttled 1\nthrottled_usec 2000000\n"
    ),
    "memory.current": "4096\n",
    "memory.peak": "8192\n",
    "memory.stat": "anon 2048\nfile 1024\nfile_mapped 512\nunevictable 0\n",
    "memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\n",
}


def v1(folder: Path) -> Cgroups:
    for controller, files in V1.items():
        (folder / controller / "mesos" / "c").mkdir(parents=True)
        for name, text in files.items():
            (folder / controller / "mesos" / "c" / name).write_text(text)
    return CgroupsV1("mesos", {controller: folder / controller for controller in V1})


def v2(folder: Path) -> Cgroups:
    (folder / "mesos" / "c").mkdir(parents=True)
    for name, text in V2.items():
        (folder / "mesos" / "c" / name).write_text(text)
    return CgroupsV2("mesos", folder)


@pytest.fixture(params=[v1, v2], ids=["v1", "v2"])
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Cgroups:
    return request.param(tmp_path)  # type: ignore[no-any-return]


def test_both_versions_tell_the_same_in_mesos_names_and_units(cgroups: Cgroups) -> None:
    assert cgroups.usage("c") == {
        "processes": 2,
        "threads": 3,
        "cpus_user_time_secs": 1.5,
        "cpus_system_time_secs": 0.25,
        "cpus_nr_periods": 4,
        "cpus_nr_throttled": 1,
        "cpus_throttled_time_secs": 2.0,
        "mem_total_bytes": 4096,
        "mem_rss_bytes": 2048,
        "mem_anon_bytes": 2048,
        "mem_cache_bytes": 1024,
        "mem_file_bytes": 1024,
        "mem_mapped_file_bytes": 512,
        "mem_unevictable_bytes": 0,
    }


def test_kills_for_want_of_memory_are_counted(cgroups: Cgroups) -> None:
    assert cgroups.oom_kills("c") == 2
    assert cgroups.mem_max_bytes("c") == 8192


def test_a_cgroup_that_is_not_there_is_empty(cgroups: Cgroups) -> None:
    assert cgroups.pids("gone") == frozenset()
    assert cgroups.oom_kills("gone") == 0
    assert cgroups.mem_max_bytes("gone") is None
    assert cgroups.watch_oom("gone") is None
    cgroups.kill("gone")
    assert cgroups.remove("gone")
    assert cgroups.usage("gone") == {"processes": 0, "threads": 0}


def test_the_root_goes_only_when_it_is_empty(cgroups: Cgroups, tmp_path: Path) -> None:
    cgroups.remove_root()
    assert list(tmp_path.glob("**/mesos/c"))


def test_no_permission_is_said_with_the_place(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "file").touch()
    for cgroups in (CgroupsV2("mesos", tmp_path / "file"), CgroupsV1("mesos", {"devices": tmp_path / "file"})):
        with pytest.raises(Unavailable) as refused:
            cgroups.check()
        assert str(refused.value) == golden


def real_cgroups(root: str) -> list[tuple[Cgroups, list[Path]]]:
    """Return the versions that this machine has, with the root cgroup of each hierarchy."""
    mounts = current_mounts()
    v1_mounts = hierarchies_v1(mounts)
    found: list[tuple[Cgroups, list[Path]]] = []
    if v1_mounts:
        found.append((CgroupsV1(root, v1_mounts), [mount / root for mount in dict.fromkeys(v1_mounts.values())]))
    found += [(CgroupsV2(root, Path(m.path)), [Path(m.path) / root]) for m in mounts if m.kind == "cgroup2"][:1]
    return found


@pytest.fixture(params=range(len(real_cgroups("x"))), ids=[f"v{one.version}" for one, _ in real_cgroups("x")])
def real(request: pytest.FixtureRequest) -> Iterator[tuple[Cgroups, list[Path]]]:
    cgroups, roots = real_cgroups(f"mesos-test-{uuid.uuid4().hex[:12]}")[request.param]
    cgroups.check()
    yield cgroups, roots
    cgroups.remove_root()
    assert [root for root in roots if root.exists()] == []


@pytest.mark.root
def test_a_real_cgroup_is_emptied_and_removed_with_those_below_it(real: tuple[Cgroups, list[Path]]) -> None:
    cgroups, roots = real
    for root in roots:
        (root / "c" / "below").mkdir(parents=True)
    # cpuset takes no process before it has CPUs and memory nodes, which only a runtime gives it.
    homes = [root for root in roots if "cpuset" not in str(root)]
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        try:
            for home in homes:
                (home / "c" / "cgroup.procs").write_text(str(first.pid))
                (home / "c" / "below" / "cgroup.procs").write_text(str(second.pid))
            assert cgroups.pids("c") == {first.pid, second.pid}
            assert cgroups.usage("c")["processes"] == 2
            assert not cgroups.remove("c")
            cgroups.kill("c")
            assert (first.wait(), second.wait()) == (-9, -9)
        finally:
            first.kill()
            second.kill()
    assert cgroups.pids("c") == frozenset()
    assert cgroups.remove("c")


@pytest.mark.root
def test_processes_of_a_threaded_cgroup_are_known_and_killed() -> None:
    """As runc makes those of nested containers, where cgroups are of version 2 alone."""
    found = [(one, roots) for one, roots in real_cgroups(f"mesos-test-{uuid.uuid4().hex[:12]}") if one.version == 2]
    if not found:
        pytest.skip("this machine has no cgroup2 mounted")
    (cgroups, (root,)) = found[0]
    cgroups.check()
    threaded = root / "c" / "mesos" / "n"
    threaded.mkdir(parents=True)
    program = "import threading, time; [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(3)]"
    with subprocess.Popen([sys.executable, "-c", f"{program}; print(flush=True)"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for cgroup in (root / "c" / "mesos", threaded):
                (cgroup / "cgroup.type").write_text("threaded")
            (root / "c" / "cgroup.procs").write_text(str(process.pid))
            (threaded / "cgroup.procs").write_text(str(process.pid))
            with pytest.raises(OSError, match="not supported"):
                (threaded / "cgroup.procs").read_text()
            assert cgroups.pids("c.n") == cgroups.pids("c") == {process.pid}
            for session in ("c.session", "c.n.session"):
                (processes,) = cgroups.make(session)
                processes.write_text(str(process.pid))
                assert cgroups.pids(session) == cgroups.pids("c") == {process.pid}
            cgroups.kill("c.n.session")
            assert process.wait() == -9
        finally:
            process.kill()
            process.wait()
            assert cgroups.remove("c")
            cgroups.remove_root()
    assert not root.exists()
