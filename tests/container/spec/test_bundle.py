from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.bundle import BASE_MOUNTS, CAPABILITIES, HostSetting, compose, cpu_limits
from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Volume, check_config, read_status
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.container.spec.linux import (
    UNLIMITED,
    USUAL,
    LinuxSettings,
    Rlimit,
    capabilities_document,
    memory_document,
    rlimits_document,
    with_shm,
)
from mesos_gpu.container.spec.requirements import DriverFacts, unmet
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.container.spec.submounts import Submount, with_mounts
from mesos_gpu.errors import BadInput, ContainerError
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.isolator.plan import DEFAULT_PATH, BindMount, DeviceRule, LaunchPlan
from tests.support.golden import Golden

HOST = HostSetting("/run/agent/host", "mesos", ("/usr/bin/tini", "--"), (DeviceRule("c", 1, 3, "rwm"),))
CONFIG = ContainerConfig(
    container_id="c-1",
    sandbox=Path("/srv/sandbox"),
    argv=("/bin/sh", "-c", "nvidia-smi"),
    environment={"PATH": "/bin", "A": "1"},
    user="nobody",
    cpus_milli=1100,
    mem_bytes=160 << 20,
    gpus=1,
)
USER = HostUser(65534, 65533, (4, 24))
GPU = LaunchPlan(nodes=(DeviceNode("/dev/nvidia0", 195, 0),), rules=(DeviceRule("c", 195, 0, "rwm"),))
names = st.text(st.characters(codec="ascii", exclude_characters="=:\0"), min_size=1, max_size=6)


def composed(plan: LaunchPlan = GPU, **host: Any) -> dict[str, Any]:
    return compose(CONFIG, plan, USER, HostSetting(**{**_fields(HOST), **host}))


def _fields(host: HostSetting) -> dict[str, Any]:
    return {name: getattr(host, name) for name in HostSetting.__slots__}


def test_the_init_is_process_one_and_runs_the_command_in_the_sandbox_as_the_user() -> None:
    process = composed()["process"]
    assert process["args"] == ["/usr/bin/tini", "--", "/bin/sh", "-c", "nvidia-smi"]
    assert process["cwd"] == "/srv/sandbox"
    assert process["user"] == {"uid": 65534, "gid": 65533, "additionalGids": [4, 24]}
    assert "rlimits" not in process


def test_a_terminal_is_as_large_as_was_asked_and_only_then_there() -> None:
    assert not composed()["process"]["terminal"]
    process = compose(replace(CONFIG, terminal=True, window=(24, 80)), GPU, USER, HOST)["process"]
    assert (process["terminal"], process["consoleSize"]) == (True, {"height": 24, "width": 80})
    assert "consoleSize" not in compose(replace(CONFIG, terminal=True), GPU, USER, HOST)["process"]


def test_a_task_can_neither_mount_nor_administer() -> None:
    held = composed()["process"]["capabilities"]
    assert "CAP_SYS_ADMIN" not in CAPABILITIES
    assert all(set(kind) == set(CAPABILITIES) for kind in held.values())
    assert not {"inheritable", "ambient"} & set(held)


def test_who_is_not_root_gains_nothing_where_users_are_confined() -> None:
    asked = replace(CONFIG, linux=replace(CONFIG.linux, effective=("CAP_SETUID",), bounding=("CAP_SETUID",)))
    walls = HostSetting(**{**_fields(HOST), "hardening": Hardening(users_confined=True)})
    free, confined, roots = (
        compose(asked, GPU, user, host)["process"]
        for user, host in ((USER, HOST), (USER, walls), (HostUser(0, 0, ()), walls))
    )
    assert "ambient" in free["capabilities"]
    assert not free["noNewPrivileges"]
    assert not {"inheritable", "ambient"} & set(confined["capabilities"])
    assert confined["noNewPrivileges"]
    assert "ambient" in roots["capabilities"]
    assert not roots["noNewPrivileges"]


@pytest.mark.parametrize("confined", [False, True])
@pytest.mark.parametrize("uid", [0, 1000])
def test_an_empty_set_of_effective_capabilities_leaves_none(uid: int, confined: bool) -> None:
    none = replace(CONFIG, linux=replace(CONFIG.linux, effective=()))
    host = HostSetting(**{**_fields(HOST), "hardening": Hardening(users_confined=confined)})
    held = compose(none, GPU, HostUser(uid, uid, ()), host)["process"]["capabilities"]
    assert {name: names for name, names in held.items() if names} == {}


def test_everything_is_denied_but_the_base_devices_and_the_containers_own() -> None:
    assert composed()["linux"]["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
        {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rwm"},
    ]


def test_only_the_containers_gpu_nodes_are_made() -> None:
    (node,) = composed()["linux"]["devices"]
    assert node == {
        "path": "/dev/nvidia0",
        "type": "c",
        "major": 195,
        "minor": 0,
        "fileMode": 0o666,
        "uid": 0,
        "gid": 0,
    }


@pytest.mark.parametrize("path", ["/etc/nvidia0", "/dev/../etc/nvidia0", "/device"])
def test_a_node_outside_dev_is_refused_because_it_would_be_made_on_the_host(path: str, golden: Golden) -> None:
    with pytest.raises(ContainerError) as refused:
        composed(LaunchPlan(nodes=(DeviceNode(path, 195, 0),)))
    assert str(refused.value) == golden


def test_no_mount_point_needs_to_be_made_on_the_host() -> None:
    destinations = [mount["destination"] for mount in composed()["mounts"]]
    assert destinations == ["/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys/fs/cgroup"]
    there = ("/proc", "/dev", "/sys/fs/cgroup")
    assert all(path in there or path.startswith("/dev/") for path in destinations)


def test_mounts_of_the_plan_are_read_only_unless_said_otherwise() -> None:
    plan = LaunchPlan(mounts=(BindMount("/a", "/b"), BindMount("/c", "/d", read_only=False)))
    first, second = composed(plan)["mounts"][-2:]
    assert (first["source"], first["destination"], first["options"][:2]) == ("/a", "/b", ["rbind", "ro"])
    assert second["options"][:2] == ["rbind", "rw"]


def test_namespaces_are_pid_mount_ipc_and_cgroup_so_network_and_host_name_are_the_hosts() -> None:
    assert [n["type"] for n in composed()["linux"]["namespaces"]] == ["pid", "mount", "ipc", "cgroup"]


def test_cpu_is_a_share_unless_a_quota_is_asked() -> None:
    assert composed()["linux"]["resources"]["cpu"] == {"shares": 1126}
    assert composed(cfs_quota=True)["linux"]["resources"]["cpu"] == {
        "shares": 1126,
        "quota": 110_000,
        "period": 100_000,
    }
    assert cpu_limits(0, cfs_quota=True) == {"shares": 2, "quota": 1_000, "period": 100_000}


def test_memory_is_limited_and_the_number_of_processes_is_not() -> None:
    resources = composed()["linux"]["resources"]
    assert resources["memory"] == {"limit": 160 << 20}
    assert "pids" not in resources


def test_what_the_machine_cannot_limit_is_not_asked_of_the_runtime() -> None:
    assert set(composed(controllers=frozenset({"cpu"}))["linux"]["resources"]) == {"devices", "cpu"}
    assert set(composed(controllers=frozenset())["linux"]["resources"]) == {"devices"}


def test_the_cgroup_is_named_after_the_container() -> None:
    assert composed()["linux"]["cgroupsPath"] == "/mesos/c-1"


def test_a_container_has_a_path_unless_its_task_names_another() -> None:
    assert "PATH=/bin" in composed()["process"]["env"]
    assert compose(replace(CONFIG, environment={}), GPU, USER, HOST)["process"]["env"] == [f"PATH={DEFAULT_PATH}"]


def test_a_profile_of_apparmor_is_told_to_the_runtime_by_name() -> None:
    assert "apparmorProfile" not in composed()["process"]
    assert composed(hardening=Hardening(apparmor="docker-default"))["process"]["apparmorProfile"] == "docker-default"


def test_without_wishes_nothing_changes() -> None:
    usual = list(CAPABILITIES)
    assert capabilities_document(USUAL, CAPABILITIES) == {"bounding": usual, "effective": usual, "permitted": usual}
    assert memory_document(USUAL, 64) == {"limit": 64}
    assert rlimits_document(USUAL) == {}
    assert with_shm(BASE_MOUNTS, USUAL) == list(BASE_MOUNTS)


def test_capabilities_that_are_asked_for_are_all_there_are() -> None:
    asked = capabilities_document(LinuxSettings(effective=("CAP_CHOWN",)), CAPABILITIES)
    assert set(asked) == {"bounding", "effective", "permitted", "inheritable", "ambient"}
    assert {tuple(names) for names in asked.values()} == {("CAP_CHOWN",)}
    narrow = capabilities_document(LinuxSettings(bounding=("CAP_KILL",)), CAPABILITIES)
    assert {tuple(names) for names in narrow.values()} == {("CAP_KILL",)}


def test_limits_above_what_is_sure() -> None:
    assert memory_document(LinuxSettings(mem_limit_bytes=128), 64) == {"limit": 128, "reservation": 64}
    assert memory_document(LinuxSettings(mem_limit_bytes=UNLIMITED), 64) == {"limit": -1, "reservation": 64}
    assert cpu_limits(500, cfs_quota=False, limit_milli=2000) == {"shares": 512, "quota": 200000, "period": 100000}
    assert cpu_limits(500, cfs_quota=True, limit_milli=UNLIMITED) == {"shares": 512}
    assert cpu_limits(500, cfs_quota=True) == {"shares": 512, "quota": 50000, "period": 100000}


def test_rlimits_and_shared_memory() -> None:
    settings = LinuxSettings(rlimits=(Rlimit("RLIMIT_NOFILE", 1, 2),), shm_bytes=1 << 20)
    assert rlimits_document(settings) == {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}]}
    (shm,) = (mount for mount in with_shm(BASE_MOUNTS, settings) if mount["destination"] == "/dev/shm")
    assert "size=1048576" in shm["options"]


PROC = {"destination": "/proc", "type": "proc", "source": "proc"}
VOLUME = {"destination": "/data/", "type": "bind", "source": "/held/0", "options": ["rbind", "rw"]}
LATER = {"destination": "/data/sub/other", "type": "bind", "source": "/held/1", "options": ["rbind", "rw"]}


def test_mounts_below_a_folder_come_right_after_it_with_the_flags_that_they_have() -> None:
    """What the bundle mounts later lies over them."""
    below = {"/held/0": [Submount("sub", ("ro", "nosuid")), Submount("sub/deep", ())]}
    found = list(with_mounts([PROC, VOLUME, LATER], below))
    assert [found[0], found[1], found[4]] == [PROC, VOLUME, LATER]
    assert found[2] == {
        "destination": "/data/sub",
        "type": "bind",
        "source": "/held/0/sub",
        "options": ["rbind", "ro", "nosuid"],
    }
    assert (found[3]["destination"], found[3]["source"]) == ("/data/sub/deep", "/held/0/sub/deep")


def test_without_any_all_is_as_it_was() -> None:
    assert list(with_mounts([PROC, VOLUME], {})) == [PROC, VOLUME]


GOOD = ContainerConfig("c-1", Path("/tmp/sandbox"), ("true",), {"PATH": "/bin"}, None, 100, 1 << 20, 0)


def test_an_ordinary_container_is_accepted() -> None:
    check_config(GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"image": ImageAsk("a", Command(value="\0"))},
        {"volumes": (Volume("", "/a"),)},
        {"volumes": (Volume("a", "b"),)},
        {"volumes": (Volume("/a", "/b/../.."),)},
        {"volumes": (Volume("../a", "/b"),)},
        {"volumes": (Volume("/a", "/proc/sys"),)},
        {"volumes": (Volume("/a", "/dev"),)},
        {"volumes": (Volume("/a", "."),)},
        {"container_id": "../etc"},
        {"container_id": ""},
        {"container_id": ".hidden"},
        {"argv": ()},
        {"sandbox": Path("relative")},
        {"gpus": -1},
        {"argv": ("a\0b",)},
        {"environment": {"A": "\0"}},
        {"environment": {"A=B": "c"}},
        {"environment": {"": "c"}},
    ],
)
def test_what_cannot_be_a_container_is_refused_in_words(change: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        check_config(msgspec.structs.replace(GOOD, **change))
    assert str(refused.value) == golden


@pytest.mark.parametrize("status", [0, 1, 42, 127, 128, 255])
def test_an_exit_status_is_an_exit_code(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (status, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_status_above_128_is_a_signal(number: int) -> None:
    assert (read_status(128 + number).exit_code, read_status(128 + number).signal) == (None, number)


@pytest.mark.parametrize("status", [-1, 256])
def test_a_status_that_no_process_has_is_an_unknown_end(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (None, None)


DRIVER = DriverFacts("550.54.15", "12.4")


@pytest.mark.parametrize(
    "text",
    [
        "cuda>=12.0",
        "cuda>=12.4",
        "cuda=12.4",
        "cuda!=11.8",
        "cuda>11,cuda<13",
        "cuda>=99 driver>=550.54",
        "cuda>=99 brand=tesla,driver>=535,driver<551",
        "arch>=9.0",
        "",
        "nonsense",
    ],
)
def test_a_driver_that_fits(text: str) -> None:
    assert unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": text}), DRIVER) is None


@pytest.mark.parametrize("text", ["cuda>=12.5", "cuda>12.4", "cuda<12", "cuda>=99 driver>=560", "cuda>=12,driver<500"])
def test_a_driver_that_does_not_fit_is_named_with_what_was_asked(text: str) -> None:
    problem = unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": text}), DRIVER)
    assert problem is not None
    assert text in problem
    assert "CUDA 12.4" in problem
    assert "550.54.15" in problem


def test_a_label_asks_as_the_environment_does_which_counts_more() -> None:
    label = {"NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    assert unmet(ImageConfig(labels=label), DRIVER) is not None
    assert unmet(ImageConfig(labels=label, env={"NVIDIA_REQUIRE_CUDA": "cuda>=12"}), DRIVER) is None


def test_a_huge_number_is_more_than_any_driver_has() -> None:
    """Python refuses to read more than 4300 digits."""
    said = unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": f"cuda>={'9' * 100_000}"}), DriverFacts("550.1", "12.4"))
    assert said is not None
    assert "CUDA 12.4" in said
    assert len(said) < 500
    assert (
        unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": f"cuda>={'0' * 5000}12"}), DriverFacts("550.1", "12.4")) is None
    )


def test_every_requirement_has_to_hold() -> None:
    assert unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": "cuda>=12", "NVIDIA_REQUIRE_X": "driver>=999"}), DRIVER)


def test_an_image_that_only_says_its_cuda_needs_that() -> None:
    assert unmet(ImageConfig(env={"CUDA_VERSION": "12.4.1"}), DRIVER) is None
    assert unmet(ImageConfig(env={"CUDA_VERSION": "12.5.0"}), DRIVER) is not None
    both = {"CUDA_VERSION": "12.5.0", "NVIDIA_REQUIRE_CUDA": "cuda>=12.0"}
    assert unmet(ImageConfig(env=both), DRIVER) is None


def test_an_image_may_switch_its_own_needs_off_and_nothing_is_refused_without_a_driver() -> None:
    needs = {"NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    assert unmet(ImageConfig(env={**needs, "NVIDIA_DISABLE_REQUIRE": "true"}), DRIVER) is None
    assert unmet(ImageConfig(env=needs), DriverFacts()) is None
