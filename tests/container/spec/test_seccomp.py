"""Profiles of system calls: Docker's format in, what an OCI runtime reads out."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.container.spec.bundle import CAPABILITIES
from mesos_gpu.container.spec.hardening import usual_pids_limit
from mesos_gpu.container.spec.seccomp import Machine, read_machine, read_profile
from mesos_gpu.container.spec.seccomp_default import DEFAULT, NEW_NAMESPACES
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

PC = Machine("x86_64", (6, 8))
BREAKS_OUT = (
    *("mount", "umount2", "unshare", "setns", "pivot_root", "open_tree", "fsopen", "move_mount", "mount_setattr"),
    *("bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "io_uring_setup", "kexec_load"),
    *("init_module", "finit_module", "reboot", "swapon", "open_by_handle_at", "iopl", "settimeofday", "acct"),
)
GPU_PROGRAMS = (
    *("ioctl", "mmap", "mlock", "mbind", "get_mempolicy", "set_mempolicy", "memfd_create", "process_vm_readv"),
    *("process_vm_writev", "pidfd_open", "pidfd_getfd", "ptrace", "shmget", "sched_setaffinity", "prctl", "eventfd2"),
)


def allowed(machine: Machine = PC, capabilities: tuple[str, ...] = CAPABILITIES) -> dict[str, list[Any]]:
    """Return the calls that the default lets through, each with the conditions on its arguments."""
    found: dict[str, list[Any]] = {}
    for rule in DEFAULT.document(machine, capabilities)["syscalls"]:
        if rule["action"] == "SCMP_ACT_ALLOW":
            for name in rule["names"]:
                found.setdefault(name, []).append(rule.get("args"))
    return found


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "s390x", "ppc64le", "riscv64"])
def test_by_default_nothing_gets_through_that_breaks_out_and_gpu_programs_work(machine: str) -> None:
    here = allowed(Machine(machine, (6, 8)))
    assert not [name for name in BREAKS_OUT if name in here]
    assert not [name for name in GPU_PROGRAMS if name not in here]


def test_new_namespaces_are_refused_and_threads_are_not() -> None:
    document = DEFAULT.document(PC, CAPABILITIES)
    (clone,) = [rule for rule in document["syscalls"] if "clone" in rule["names"]]
    wanted = {"index": 0, "value": NEW_NAMESPACES, "op": "SCMP_CMP_MASKED_EQ", "valueTwo": 0}
    assert clone["args"] == [wanted]
    (clone3,) = [rule for rule in document["syscalls"] if "clone3" in rule["names"]]
    assert (clone3["action"], clone3["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert (document["defaultAction"], document["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert document["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    on_s390 = [rule for rule in DEFAULT.document(Machine("s390x", (6, 8)), ())["syscalls"] if "clone" in rule["names"]]
    assert [rule["args"][0]["index"] for rule in on_s390] == [1]


def test_what_a_container_may_do_anyhow_is_not_filtered() -> None:
    assert "chroot" in allowed()
    assert "chroot" not in allowed(capabilities=())
    assert "mount" in allowed(capabilities=("CAP_SYS_ADMIN",))
    assert None in allowed(capabilities=("CAP_SYS_ADMIN",))["clone"]


def test_old_kernels_have_no_ptrace_that_could_leave_the_filter() -> None:
    assert "ptrace" not in allowed(Machine("x86_64", (4, 4)))
    assert "ptrace" in allowed(Machine("x86_64", (4, 8)))


PROFILE = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {"names": ["uname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
        {"name": "chmod", "action": "SCMP_ACT_KILL", "args": [{"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}]},
        {"names": ["swapon"], "action": "SCMP_ACT_ERRNO", "excludes": {"arches": ["amd64"]}},
        {"names": ["swapoff"], "action": "SCMP_ACT_ERRNO", "excludes": {"minKernel": "7.0"}},
    ],
}


def test_a_profile_of_somebody_is_read_as_docker_does() -> None:
    assert read_profile(PROFILE, "mine").document(PC, ())["syscalls"] == [
        {"names": ["uname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
        {"names": ["chmod"], "action": "SCMP_ACT_KILL", "args": [{"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}]},
        {"names": ["swapoff"], "action": "SCMP_ACT_ERRNO"},
    ]
    named = {**PROFILE, "archMap": None, "architectures": ["SCMP_ARCH_X86_64"]}
    assert read_profile(named, "mine").document(PC, ())["architectures"] == ["SCMP_ARCH_X86_64"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        {"defaultAction": "ALLOW", "syscalls": []},
        {"defaultAction": "SCMP_ACT_ALLOW"},
        {**PROFILE, "syscalls": [{"action": "SCMP_ACT_ALLOW"}]},
        {**PROFILE, "syscalls": [{"names": ["x"], "action": "ALLOW"}]},
        {**PROFILE, "syscalls": [{"names": ["x"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 9}]}]},
        {**PROFILE, "syscalls": ["x"]},
        {**PROFILE, "archMap": [{}]},
    ],
)
def test_what_is_no_profile_is_refused_by_its_name(wrong: Any, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_profile(wrong, "mine")
    assert str(refused.value) == golden


def test_a_machine_is_what_uname_says() -> None:
    assert read_machine("x86_64", "6.18.44-fc-v657") == Machine("x86_64", (6, 18))
    assert read_machine("aarch64", "strange") == Machine("aarch64", (0, 0))


def test_a_container_leaves_processes_for_others() -> None:
    assert [usual_pids_limit(most) for most in (4194304, 32768, 1)] == [32768, 16384, 1]
