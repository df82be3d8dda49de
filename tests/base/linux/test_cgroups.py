"""The cgroups of a process, on machines with version 1, version 2 and both."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from mesos_gpu.base.linux.cgroups import (
    Membership,
    cgroups_of,
    container_of,
    container_of_process,
    is_populated,
    processes_in,
    read_cgroups,
)
from tests.support.shortages import no_descriptors

V1 = "12:cpu,cpuacct:/a/mesos/c1\n5:devices:/a/mesos/c1\n1:name=systemd:/init.scope\n"
V2 = "0::/a/mesos/c1/inner\n"


def test_version_1_lists_controllers_and_version_2_has_none() -> None:
    assert read_cgroups(V1 + V2) == (
        Membership(("cpu", "cpuacct"), "/a/mesos/c1"),
        Membership(("devices",), "/a/mesos/c1"),
        Membership(("name=systemd",), "/init.scope"),
        Membership((), "/a/mesos/c1/inner"),
    )


def test_a_path_can_contain_colons() -> None:
    assert read_cgroups("0::/a:b\n3:devices:/c:d\n") == (Membership((), "/a:b"), Membership(("devices",), "/c:d"))


@pytest.mark.parametrize(
    ("text", "root", "container"),
    [
        (V1, "mesos", "c1"),
        (V2, "mesos", "c1"),
        (V2, "a/mesos", "c1"),
        ("0::/mesos/c1\n", "mesos", "c1"),
        ("1:name=systemd:/init.scope\n0::/mesos/c1\n", "mesos", "c1"),
        ("0::/mesos\n", "mesos", ""),
        ("0::/mesos/\n", "mesos", ""),
        ("0::/amesos/c1\n", "mesos", ""),
        ("0::/mesosb/c1\n", "mesos", ""),
        ("0::/\n", "mesos", ""),
        ("", "mesos", ""),
    ],
)
def test_a_container_is_named_by_the_cgroup_below_that_of_all(text: str, root: str, container: str) -> None:
    assert container_of(read_cgroups(text), root) == container


def test_a_process_that_does_not_exist_has_no_cgroups() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert cgroups_of(child.pid) is None
    assert container_of_process(child.pid, "mesos") == ""


def test_this_process_has_cgroups() -> None:
    assert cgroups_of(os.getpid()) == cgroups_of("self") != ()


def test_a_process_that_cannot_be_seen_is_in_no_known_container() -> None:
    with no_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            cgroups_of(os.getpid())
        assert container_of_process(os.getpid(), "mesos") == ""


# --- which processes are in a cgroup -----------------------------------------------------------------------------


def cgroup(folder: Path, processes: str, threads: str = "") -> Path:
    """Make the files of a cgroup."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text(processes)
    (folder / "cgroup.threads").write_text(threads)
    return folder


def test_processes_of_a_cgroup_and_of_those_below_it_are_its_own(tmp_path: Path) -> None:
    cgroup(tmp_path / "c", "1\n2\n")
    cgroup(tmp_path / "c" / "inner" / "most", "3\n", "3\n4\n")
    assert processes_in(tmp_path / "c") == {1, 2, 3}
    assert processes_in(tmp_path / "c", "cgroup.threads") == {3, 4}
    assert processes_in(tmp_path / "gone") == set()
    assert not is_populated(tmp_path / "gone")


def test_a_process_of_another_pid_namespace_populates_a_cgroup_and_has_no_number(tmp_path: Path) -> None:
    cgroup(tmp_path, "")
    assert not is_populated(tmp_path)
    cgroup(tmp_path / "inner", "0\n")
    assert is_populated(tmp_path)
    assert processes_in(tmp_path) == set()


@pytest.mark.parametrize("threads", [lambda: f"{os.getpid()}\n", lambda: f"0\n{os.getpid()}\n"])
def test_a_threaded_cgroup_has_the_processes_of_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: object
) -> None:
    assert callable(threads)
    cgroup(tmp_path, "", threads())
    read = Path.read_text

    def unsupported(path: Path, *args: str) -> str:
        if path.name == "cgroup.procs":
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return read(path, *args)

    monkeypatch.setattr(Path, "read_text", unsupported)
    assert processes_in(tmp_path) == {os.getpid()}
    assert is_populated(tmp_path)


def test_a_cgroup_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    cgroup(tmp_path / "c", "1\n")
    with no_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            processes_in(tmp_path / "c")
        with pytest.raises(OSError, match="Too many open files"):
            is_populated(tmp_path / "c")
