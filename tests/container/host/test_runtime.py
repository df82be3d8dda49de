from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.container.host import runtime as runtimes
from mesos_gpu.container.host.runtime import Runtime, find_conmon, find_init, find_runtime
from mesos_gpu.errors import ContainerError, CutOff, Unavailable
from tests.support.golden import Golden


@pytest.fixture
def bin_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty machine: programs are found in this folder alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(runtimes, "MORE_FOLDERS", ())
    return tmp_path


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


async def accept(_: Runtime) -> None:
    pass


async def refuse_crun(runtime: Runtime) -> None:
    if runtime.name == "crun":
        raise ContainerError("cgroups in hybrid mode not supported")


async def refuse(_: Runtime) -> None:
    raise ContainerError("Read-only file system")


async def test_crun_is_preferred(bin_only: Path) -> None:
    install(bin_only, "crun", "runc")
    assert (await find_runtime(accept)).path == bin_only / "crun"


async def test_runc_is_taken_when_crun_cannot_run_a_container(bin_only: Path) -> None:
    install(bin_only, "crun", "runc")
    assert (await find_runtime(refuse_crun)).name == "runc"


async def test_a_probe_that_was_killed_says_nothing_about_its_runtime(bin_only: Path, golden: Golden) -> None:
    install(bin_only, "crun", "runc")
    tried: list[str] = []

    async def killed_twice(runtime: Runtime) -> None:
        tried.append(runtime.name)
        if len(tried) < 3:
            raise CutOff("killed")

    assert (await find_runtime(killed_twice)).name == "crun"
    assert tried == ["crun"] * 3

    async def killed(runtime: Runtime) -> None:
        tried.append(runtime.name)
        raise CutOff("killed")

    with pytest.raises(Unavailable) as refused:
        await find_runtime(killed)
    assert str(refused.value) == golden
    assert tried == ["crun"] * 6


async def test_without_a_runtime_the_error_names_the_packages(bin_only: Path, golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        await find_runtime(accept)
    assert str(refused.value) == golden


async def test_when_none_works_the_error_has_what_each_said(bin_only: Path) -> None:
    install(bin_only, "crun", "runc")
    with pytest.raises(Unavailable, match=r"crun: Read-only file system; .*runc: Read-only"):
        await find_runtime(refuse)


def test_without_conmon_or_an_init_the_error_names_the_packages(bin_only: Path, golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        find_conmon()
    assert str(refused.value) == golden
    with pytest.raises(Unavailable) as refused:
        find_init()
    assert str(refused.value) == golden


def test_any_of_the_known_inits_will_do(bin_only: Path) -> None:
    install(bin_only, "catatonit")
    assert find_init() == (str(bin_only / "catatonit"), "--")


def test_who_is_started_in_its_cgroup_is_sent_to_no_other(tmp_path: Path) -> None:
    """crun knows no cgroup of a nested container, and would look for the one below it at the root of all."""
    crun, enter = Runtime("crun", Path("/usr/bin/crun")), [Path("/sys/fs/cgroup/p/mesos/c/mesos/s/cgroup.procs")]
    words = crun.entering(tmp_path, "p.c", tmp_path, enter, None)
    assert not [word for word in words if word.startswith("--cgroup=")]
    assert f"echo $$ > {enter[0]}" in words[2]
    assert "--cgroup=mesos/s" in crun.entering(tmp_path, "p", tmp_path, enter, "mesos/s")


def test_a_complaint_is_what_the_runtime_logged_as_an_error(tmp_path: Path) -> None:
    crun = Runtime("crun", Path("/usr/bin/crun"))
    assert crun.complaint(tmp_path) is None
    (tmp_path / "runtime.log").write_text(
        '{"msg": "no cpuset", "level": "warning", "time": ""}\n'
        '{"msg": "cannot find uid", "level": "error", "time": ""}\n'
        "not json\n"
    )
    assert crun.complaint(tmp_path) == "cannot find uid; not json"
