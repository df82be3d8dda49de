"""The two writers of device rules, each on a real cgroup with a process in it that tries to open devices."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.errors import ContainerError, NotFound, Unavailable
from mesos_gpu.isolator import bpf
from mesos_gpu.isolator.device_access import DeviceAccess, DevicesV1, DevicesV2, find_device_access
from mesos_gpu.isolator.device_program import assemble
from mesos_gpu.isolator.plan import DeviceRule

NULL, FULL = DeviceRule("c", 1, 3, "rwm"), DeviceRule("c", 1, 7, "rwm")
NOTHING = DeviceRule("a", None, None, "rwm")
PATHS = {"/dev/null": NULL, "/dev/full": FULL}


def mounted(kind: str, option: str = "") -> Path | None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, found, options, *_ = line.split()
        if found == kind and (not option or option in options.split(",")):
            return Path(place)
    return None


def start_v1(folder: Path) -> DeviceAccess:
    (folder / "devices.deny").write_text("a")
    return DevicesV1(folder)


HIERARCHIES = {
    "v1": (mounted("cgroup", "devices"), start_v1),
    "v2": (mounted("cgroup2"), DevicesV2),
}


@pytest.fixture(params=[name for name, (mount, _) in HIERARCHIES.items() if mount is not None])
def access(request: pytest.FixtureRequest) -> Iterator[DeviceAccess]:
    mount, start = HIERARCHIES[request.param]
    assert mount is not None
    folder = mount / f"mesos-test-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    try:
        yield start(folder)
    finally:
        folder.rmdir()


def can_open(access: DeviceAccess) -> set[DeviceRule]:
    """Which of the two devices a process in the cgroup can open; asked of a real one."""
    script = 'echo $$ >"$0/cgroup.procs" || exit 9; for path; do { : <$path; } 2>&- && echo $path; done; exit 0'
    command = ["bash", "-c", script, str(access.folder), *PATHS]
    done = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    return {PATHS[path] for path in done.stdout.split()}


@pytest.mark.root
def test_devices_are_opened_and_closed_one_by_one(access: DeviceAccess) -> None:
    access.change([NULL], [NULL], [])
    assert can_open(access) == {NULL}
    access.change([NULL, FULL], [FULL], [])
    assert can_open(access) == {NULL, FULL}
    access.change([FULL], [], [NULL])
    assert can_open(access) == {FULL}
    access.change([], [], [FULL])
    assert can_open(access) == set()


@pytest.mark.root
def test_a_cgroup_that_is_gone_is_an_os_error(access: DeviceAccess) -> None:
    gone = type(access)(access.folder / "gone")  # type: ignore[call-arg]
    with pytest.raises(OSError):
        gone.change([NULL], [NULL], [])


@pytest.mark.root
def test_several_programs_are_refused_for_all_of_them_must_allow() -> None:
    mount = mounted("cgroup2")
    if mount is None:
        return  # a machine of v1 alone
    folder = mount / f"mesos-test-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    try:
        for _ in range(2):
            with bpf.loaded(assemble([NULL])) as program:
                bpf.attach(folder, program)
        assert len(bpf.attached(folder)) == 2
        with pytest.raises(ContainerError, match="has 2 device programs"):
            DevicesV2(folder).change([NULL], [NULL], [])
    finally:
        folder.rmdir()


@pytest.mark.root
def test_what_the_kernels_verifier_says_is_in_the_error() -> None:
    endless = assemble([])[:-8]  # without its last instruction, the program runs off its end
    with pytest.raises(OSError, match=r"(?i)invalid argument.*(last insn|exit|jmp)"), bpf.loaded(endless):
        pass


@pytest.mark.root
def test_a_process_is_found_in_its_cgroup() -> None:
    mount = mounted("cgroup", "devices") or mounted("cgroup2")
    assert mount is not None
    folder = mount / f"mesos-test-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    try:
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                (folder / "cgroup.procs").write_text(str(process.pid))
                assert find_device_access(process.pid).folder == folder
            finally:
                process.kill()
        with pytest.raises(NotFound):
            find_device_access(process.pid)
    finally:
        folder.rmdir()


def test_the_root_cgroup_is_never_changed() -> None:
    if Path("/proc/1/cgroup").read_text() == Path(f"/proc/{os.getpid()}/cgroup").read_text():
        with pytest.raises(Unavailable, match=r"root cgroup|neither"):
            find_device_access(os.getpid())
