"""ENTRYPOINT and CMD against CommandInfo: the whole table of Mesos' docker/runtime isolator (runtime.cpp)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.bundle import CAPABILITIES
from mesos_gpu.container.spec.config import CONTAINER_ID
from mesos_gpu.container.spec.hardening import usual_pids_limit
from mesos_gpu.container.spec.nesting import (
    cgroup_of,
    deepest_first,
    descendants,
    entering,
    leaf,
    parent_of,
    without_gpus,
)
from mesos_gpu.container.spec.runtime_spec import Command, image_environment, merge
from mesos_gpu.container.spec.seccomp import Machine, read_machine, read_profile
from mesos_gpu.container.spec.seccomp_default import DEFAULT, NEW_NAMESPACES
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.container.state.recovering import recovered
from mesos_gpu.errors import BadInput
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.isolator.plan import DeviceRule, LaunchPlan
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DOCKER_COMMAND, DRIVER_LABEL
from tests.support.golden import Golden

E, C = ("/entry", "e1"), ("/cmd", "c1")
IMAGES = {
    "nothing": ImageConfig(),
    "cmd": ImageConfig(cmd=C),
    "entrypoint": ImageConfig(entrypoint=E),
    "both": ImageConfig(entrypoint=E, cmd=C),
}
ERROR = None
SH = ("/bin/sh", "-c", "value")

# (shell, value, argv) -> what runs with: nothing, cmd, entrypoint, both. arguments[0] of a value is argv[0].
TABLE = {
    (False, None, ()): (ERROR, C, E, (*E, *C)),
    (False, None, ("a", "b")): (ERROR, (C[0], "a", "b"), (*E, "a", "b"), (*E, "a", "b")),
    (False, "value", ()): (("value",),) * 4,
    (False, "value", ("value", "a")): (("value", "a"),) * 4,
    (True, None, ()): (ERROR,) * 4,
    (True, None, ("a",)): (ERROR,) * 4,
    (True, "value", ()): (SH,) * 4,
    (True, "value", ("a",)): (SH,) * 4,
}
CELLS = [
    (Command(shell, value, arguments), image, expected)
    for (shell, value, arguments), row in TABLE.items()
    for image, expected in zip(IMAGES, row, strict=True)
]


@pytest.mark.parametrize(("command", "image", "expected"), CELLS)
def test_a_command_and_an_image_are_merged_as_in_mesos(
    command: Command, image: str, expected: tuple[str, ...] | None, golden: Golden
) -> None:
    if expected is ERROR:
        with pytest.raises(BadInput) as refused:
            merge(command, IMAGES[image])
        assert str(refused.value) == golden
    else:
        assert merge(command, IMAGES[image]) == expected


def test_with_a_label_arguments_take_the_place_of_cmd_as_in_docker() -> None:
    labels = {COMMAND_LABEL: DOCKER_COMMAND}
    words = Command(shell=False, arguments=("a", "b"))
    assert [merge(words, image, labels) for image in IMAGES.values()] == [
        ("a", "b"),
        ("a", "b"),
        (*E, "a", "b"),
        (*E, "a", "b"),
    ]
    assert merge(Command(shell=False), IMAGES["both"], labels) == (*E, *C)
    assert merge(words, IMAGES["cmd"], {COMMAND_LABEL: "mesos"}) == (C[0], "a", "b")


def test_the_driver_that_a_task_asks_for_is_found_as_in_nvidias_images() -> None:
    labels = {DRIVER_LABEL: ""}
    image = ImageConfig(env={"PATH": "/bin:/usr/local/nvidia/bin"})
    found = image_environment(image, {"LD_LIBRARY_PATH": "/mine"}, injected=True, labels=labels)
    assert found["PATH"] == "/bin:/usr/local/nvidia/bin"
    assert found["LD_LIBRARY_PATH"] == "/mine:/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
    assert "LD_LIBRARY_PATH" not in image_environment(image, {}, injected=True)
    assert "LD_LIBRARY_PATH" not in image_environment(image, {}, injected=False, labels=labels)


def test_an_empty_entrypoint_is_none() -> None:
    assert merge(Command(shell=False), ImageConfig(entrypoint=(), cmd=C)) == C


def test_the_tasks_variables_go_over_the_images() -> None:
    image = ImageConfig(env={"PATH": "/image", "A": "image", "B": "image"})
    assert image_environment(image, {"A": "task"}, injected=False) == {"PATH": "/image", "A": "task", "B": "image"}


@pytest.mark.parametrize("image", [{}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}])
@pytest.mark.parametrize("task", [{}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}])
def test_what_the_driver_offers_is_not_for_image_or_task_to_say(image: dict[str, str], task: dict[str, str]) -> None:
    with_driver = image_environment(ImageConfig(env=image), task, injected=True)
    assert with_driver["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert "NVIDIA_DRIVER_CAPABILITIES" not in image_environment(ImageConfig(env=image), task, injected=False)


PART = st.text("ab1-_", min_size=1, max_size=3).filter(lambda text: text[0] not in "-_")
ID = st.lists(PART, min_size=1, max_size=4).map(".".join)

PARENT: dict[str, Any] = {
    "args": ["/usr/bin/tini", "--", "sh"],
    "env": ["PATH=/bin", "A=1", "EQUALS=a=b"],
    "cwd": "/sandbox",
    "user": {"uid": 7, "gid": 8, "additionalGids": [9]},
    "capabilities": {"bounding": ["CAP_KILL"]},
    "terminal": False,
}


@given(ID)
def test_an_id_is_its_parents_and_its_own_part(container_id: str) -> None:
    assert CONTAINER_ID.fullmatch(container_id)
    parent = parent_of(container_id)
    assert container_id == (leaf(container_id) if parent is None else f"{parent}.{leaf(container_id)}")
    assert parent is None or cgroup_of(container_id) == f"{cgroup_of(parent)}/mesos/{leaf(container_id)}"


@given(st.sets(ID), ID)
def test_descendants_come_before_what_they_lie_in(ids: set[str], root: str) -> None:
    found = descendants(root, ids)
    assert set(found) == {one for one in ids if one.startswith(f"{root}.")}
    assert all(found.index(one) < found.index(parent) for one in found if (parent := parent_of(one)) in found)
    assert deepest_first(reversed(found)) == found


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a..b", "a/b", "a.-b", "a b", "a" * 241])
def test_what_is_no_path_of_ids_is_no_id(bad: str) -> None:
    assert not CONTAINER_ID.fullmatch(bad)


def test_a_session_has_its_parents_surroundings_and_its_own_command(golden: Golden) -> None:
    process = entering(PARENT, Command(value="echo hi"), {"A": "2", "B": "3"}, None, terminal=True)
    assert process["args"] == ["/bin/sh", "-c", "echo hi"]
    assert process["env"] == ["PATH=/bin", "A=2", "EQUALS=a=b", "B=3"]
    assert (process["cwd"], process["user"]) == ("/sandbox", PARENT["user"])
    assert process["capabilities"] == PARENT["capabilities"]
    assert process["terminal"] is True
    executor = {**PARENT, "env": [*PARENT["env"], "MESOS_EXECUTOR_AUTHENTICATION_TOKEN=a.b.c"]}
    assert entering(executor, Command(value="env"), {}, None)["env"] == PARENT["env"]
    process = entering(PARENT, Command(False, "ls", ("ls", "-l")), {}, HostUser(1, 2, (3,)))
    assert process["args"] == ["ls", "-l"]
    assert process["user"] == {"uid": 1, "gid": 2, "additionalGids": [3]}
    with pytest.raises(BadInput) as refused:
        entering(PARENT, Command(), {}, None)
    assert str(refused.value) == golden


def test_a_policy_of_its_own_has_no_gpu() -> None:
    plan = LaunchPlan(rules=(DeviceRule("c", 195, 0, "rw"),), environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1", "X": "y"})
    assert without_gpus(plan) == LaunchPlan(environment={"NVIDIA_VISIBLE_DEVICES": "void", "X": "y"})


def test_what_is_taken_up_after_a_restart() -> None:
    def record(name: str, **more: Any) -> Record:
        return Record(container_id=name, boot_id="b", sandbox="/s", **{"step": "running", **more})

    records = [
        record("live"),
        record("live.nested"),
        record("live.nested.deeper", step="ended"),
        record("live.session", session=True),
        record("live.half", step="preparing"),
        record("stranger"),
        record("stranger.nested"),
        record("alone", standalone=True),
        record("alone.nested"),
        record("over", step="ended"),
        record("over.nested"),
    ]
    kept = recovered({**{one.container_id: one for one in records}, "broken": None}, ["live", "over", "broken"])
    assert sorted(kept) == ["alone", "alone.nested", "live", "live.nested", "live.nested.deeper", "over"]


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
