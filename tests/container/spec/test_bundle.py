from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.bundle import CAPABILITIES, HostSetting, compose, cpu_limits
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import DeviceNode
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
