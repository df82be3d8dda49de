"""What the agent's flags come to."""

from __future__ import annotations

import asyncio
import json
import pwd
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec import Struct

from mesos_gpu.agent import service
from mesos_gpu.agent.configuration import Configuration, check_mig, divisions, gc_rules, read_configuration
from mesos_gpu.agent.decisions.collecting import GcRules
from mesos_gpu.agent.flags import COMMAND_LINE, AgentFlags
from mesos_gpu.agent.model.executors import ExecutorPatience
from mesos_gpu.agent.running.hardening import check_apparmor, open_user_namespaces
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.life.opening import NETWORKS
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.seccomp_default import DEFAULT
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.gpu.make import Make
from mesos_gpu.mesos.flags import flags_as_text, parse_flags
from mesos_gpu.mesos.shares.levels import Level
from tests.support.golden import Golden


def read(*argv: str) -> Configuration:
    return read_configuration(parse_flags(COMMAND_LINE, ["--work_dir=/w", *argv], {})[0])


def test_folders_that_no_flag_names_lie_in_the_work_dir() -> None:
    said = read("--image_providers=docker")
    assert (said.work_dir, said.runtime_dir) == (Path("/w"), Path("/w/run"))
    assert said.fetch.folder == Path("/w/fetch")
    assert said.images is not None
    assert said.images.folder == Path("/w/store/docker")
    assert said.networks.folder == Path("/w/run") / NETWORKS
    assert read("--network_cni_root_dir_persist=true").networks.folder == Path("/w") / NETWORKS


def test_without_flags_there_are_gpus_and_neither_images_nor_networks_nor_quotas() -> None:
    said = read()
    assert (said.gpus.isolated, said.gpus.devices, said.gpus.kill_for_ill) == (True, None, False)
    assert said.images is None
    assert said.networks.config_dir is None
    assert said.address.domain_socket is None
    assert said.tasks.disk is None
    assert said.tasks.executors == ExecutorPatience()


def test_an_address_that_others_use_is_the_one_to_be_reached_at() -> None:
    assert read().address.reached_at == "127.0.0.1"
    assert read("--advertise_ip=10.0.0.7").address.reached_at == "10.0.0.7"


@pytest.mark.parametrize(
    ("argv", "disk"),
    [
        (["--isolation=disk/du"], DiskRules(15.0, enforce=False)),
        (["--isolation=posix/disk", "--enforce_container_disk_quota=true"], DiskRules(15.0, enforce=True)),
        (["--enforce_container_disk_quota=true"], None),
    ],
)
def test_sandboxes_are_measured_where_an_isolator_says_so(argv: list[str], disk: DiskRules | None) -> None:
    assert read(*argv).tasks.disk == disk


def test_whoever_the_agent_is_to_the_master_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "credential"
    file.write_text(json.dumps({"principal": "agent", "secret": "s"}))
    file.chmod(0o600)
    credential = read(f"--credential={file}").master.credential
    assert credential is not None
    assert credential.principal == "agent"
    with pytest.raises(BadFlag, match="--credential"):
        read(f"--credential={tmp_path}/none")


@pytest.mark.parametrize("word", ["--work_dir=", "--reconfiguration_policy=any"])
def test_what_cannot_be_meant_is_refused_by_the_flags_name(word: str) -> None:
    with pytest.raises(BadFlag, match=word.partition("=")[0]):
        read(word)


def test_a_profile_of_apparmor_has_to_be_loaded(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        check_apparmor("docker-default", tmp_path)
    assert str(refused.value) == golden
    enabled = tmp_path / "sys/module/apparmor/parameters/enabled"
    enabled.parent.mkdir(parents=True)
    enabled.write_text("N\n")
    with pytest.raises(BadFlag) as refused:
        check_apparmor("docker-default", tmp_path)
    assert str(refused.value) == golden
    enabled.write_text("Y\n")
    with pytest.raises(BadFlag) as refused:
        check_apparmor("docker-default", tmp_path)
    assert str(refused.value) == golden
    profiles = tmp_path / "sys/kernel/security/apparmor/profiles"
    profiles.parent.mkdir(parents=True)
    profiles.write_text("/usr/sbin/cupsd (enforce)\ndocker-default (enforce)\n")
    check_apparmor("docker-default", tmp_path)
    with pytest.raises(BadFlag) as refused:
        check_apparmor("mine", tmp_path)
    assert str(refused.value) == golden


def test_a_range_in_which_a_user_of_the_host_lies_is_refused(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.struct_passwd(("ldap", "x", 1_600_000_007, 7, "", "/", "/"))])
    with pytest.raises(BadFlag) as refused:
        read("--userns_remap=1600000000:65536")
    assert str(refused.value) == golden
    users = read("--userns_remap=1700000000:131072").tasks.users
    assert users == IdPool(IdRange(1_700_000_000, 131072))
    assert not users.shared
    wide = read("--userns_remap=1700000000:262144", "--userns_remap_size=131072").tasks.users
    assert wide == IdPool(IdRange(1_700_000_000, 262144), 131072)
    assert read().tasks.users is None


def test_numbers_of_containers_may_be_those_of_a_subordinate_user(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "etc").mkdir()
    with pytest.raises(BadFlag) as refused:
        open_user_namespaces("default", root=tmp_path)
    assert str(refused.value) == golden
    for name in ("subuid", "subgid"):
        (tmp_path / "etc" / name).write_text("mesos-gpu:1879048192:1048576\n0:1900000000:65536\n")
    expected = IdPool(IdRange(1_879_048_192, 1_048_576))
    assert open_user_namespaces("default", root=tmp_path) == expected
    assert open_user_namespaces("mesos-gpu", root=tmp_path) == expected
    assert open_user_namespaces("mesos-gpu:mesos-gpu", root=tmp_path) == expected
    assert open_user_namespaces("root", root=tmp_path) == IdPool(IdRange(1_900_000_000, 65536))
    assert open_user_namespaces("1879048192:131072", root=tmp_path) == IdPool(IdRange(1_879_048_192, 131_072))
    for name in ("subuid", "subgid"):
        with (tmp_path / "etc" / name).open("a") as file:
            file.write("alice:1879113728:65536\n")
        for text in ("1879048192:131072", "default"):
            with pytest.raises(BadFlag, match="alice"):
                open_user_namespaces(text, root=tmp_path)
        (tmp_path / "etc" / name).write_text("mesos-gpu:1879048192:1048576\n0:1900000000:65536\n")
    with pytest.raises(BadFlag) as refused:
        open_user_namespaces("nobodys", root=tmp_path)
    assert str(refused.value) == golden


def test_containers_are_filtered_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    usual = read().tasks.hardening
    assert usual.seccomp is DEFAULT
    assert not usual.no_new_privileges
    assert usual.pids_limit is not None
    assert read("--seccomp_profile_name=unconfined").tasks.hardening.seccomp is None
    assert read("--container_pids_limit=0").tasks.hardening.pids_limit is None
    assert read("--isolation=cgroups/cpu,linux/nnp,linux/seccomp").tasks.hardening.no_new_privileges
    assert not usual.users_confined
    assert read("--no-user_privileges").tasks.hardening.users_confined
    (tmp_path / "mine.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}')
    mine = read(f"--seccomp_config_dir={tmp_path}", "--seccomp_profile_name=mine.json").tasks.hardening.seccomp
    assert mine is not None
    assert mine.action == "SCMP_ACT_ALLOW"


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (["--seccomp_profile_name=mine.json"], "seccomp_config_dir"),
        (["--seccomp_config_dir=/no/such"], "seccomp_config_dir"),
        (["--seccomp_config_dir=/tmp", "--seccomp_profile_name=none.json"], "seccomp_profile_name"),
        (["--seccomp_config_dir=/tmp", "--seccomp_profile_name=../x"], "seccomp_profile_name"),
        (["--container_pids_limit=-1"], "container_pids_limit"),
        (["--apparmor_profile=no-such-profile"], "apparmor_profile"),
        (["--device_plugins_gpus=nvidia.com/gpu"], "device_plugins_gpus"),
        (["--device_plugins_dir=/d", "--device_plugins_gpus=nvidia.com/gpu"], "device_plugins_gpus"),
        (["--device_plugins_dir=/d", "--isolation=cgroups/cpu", "--device_plugins_gpus=gpus"], "device_plugins_gpus"),
        ([f"--device_plugins_dir=/{'d' * 107}"], "device_plugins_dir"),
        ([f"--pod_resources_socket=/{'d' * 107}"], "pod_resources_socket"),
        (["--cdi_devices=vendor"], "cdi_devices"),
        (["--cdi_devices=nvidia.com/gpu"], "cdi_devices"),
        (["--userns_remap_exempt"], "userns_remap_exempt"),
        (["--userns_remap=no-such-user"], "userns_remap"),
        (["--userns_remap_size=131072"], "userns_remap_size"),
        (["--userns_remap=1600000000:131072", "--userns_remap_size=100000"], "userns_remap_size"),
        (["--userns_remap=1600000000:131072", "--userns_remap_size=262144"], "userns_remap_size"),
        (["--userns_remap=1600000000:1000"], "userns_remap"),
        (["--userns_remap=0:65536"], "userns_remap"),
        (["--userns_remap=4294967290:65536"], "userns_remap"),
    ],
)
def test_walls_that_cannot_be_are_refused_by_the_flags_name(argv: list[str], flag: str) -> None:
    with pytest.raises(BadFlag, match=flag):
        read(*argv)


def flags(*words: str) -> AgentFlags:
    return parse_flags(COMMAND_LINE, ["--work_dir=/w", "--master=h:5050", *words], {})[0]


def test_defaults_are_those_of_mesos() -> None:
    assert gc_rules(flags()) == GcRules(delay_s=604_800.0, headroom=0.1, watch_interval_s=60.0, nested=False)
    shown = flags_as_text(flags())
    assert (shown["gc_delay"], shown["gc_disk_headroom"], shown["disk_watch_interval"]) == ("1weeks", "0.1", "1mins")


@pytest.mark.parametrize(
    "word", ["--gc_disk_headroom=-0.1", "--gc_disk_headroom=1.1", "--gc_disk_headroom=nan", "--disk_watch_interval=0ns"]
)
def test_what_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(BadFlag, match=word[2:].partition("=")[0]):
        flags(word)
    flags("--gc_disk_headroom=1", "--gc_delay=0ns")


def effects(part: Any, path: str = "") -> dict[str, Any]:
    """All that flags come to, by path; what is shown of the flags themselves is left out."""
    if not isinstance(part, Struct):
        return {path: part}
    names = [name for name in part.__struct_fields__ if name not in ("shown", "access", "names")]
    return {key: it for name in names for key, it in effects(getattr(part, name), f"{path}.{name}").items()}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["--simulated_gpu_driver_version=550.1"], {".gpus.simulated_make": Make(driver_version="550.1")}),
        (["--simulated_gpu_topology=pcie"], {".gpus.simulated_make": Make(topology="pcie")}),
        (["--simulated_gpus=2"], {".gpus.simulated": 2}),
        (["--simulated_gpu_machine=2"], {".gpus.simulated_machine": 2}),
        (["--simulated_gpu_memory=1GB"], {".gpus.simulated_make": Make(memory_mib=1024)}),
        (["--gpu_retest_interval=5mins"], {".gpus.retest_interval_s": 300}),
        (["--gpu_unhealthy_action=kill"], {".gpus.kill_for_ill": True}),
        (["--no-gpu_attributes"], {".gpus.attributes": False}),
        (["--gpu_share_policy=2"], {".gpus.sharing.policy": 2}),
        (["--gpu_share_max_inst=3"], {".gpus.sharing.max_inst": 3}),
        (["--gpu_share_slice=5ms"], {".gpus.sharing.slice_s": 0.005}),
        (["--gpu_share_prio_ratio=20"], {".gpus.sharing.prio_ratio": 20}),
        (["--gpu_share_require=mps"], {".gpus.sharing.require": Level.MPS}),
        (["--gpu_share_memory_grace=1secs"], {".gpus.sharing.memory_grace_s": 1}),
        (["--gpu_share_mps_dir=/m"], {".gpus.sharing.mps": Path("/m")}),
        (["--gpu_share_tree=/t"], {".gpus.sharing.tree": Path("/t")}),
        (["--device_plugins_dir=/d"], {".devices.folder": Path("/d")}),
        (["--device_plugins_grace=1secs"], {".devices.grace_s": 1}),
        (
            ["--device_plugins_dir=/d", "--isolation=cgroups/cpu", "--device_plugins_gpus=nvidia.com/gpu"],
            {".devices.gpus_from": "nvidia.com/gpu"},
        ),
        (["--cdi_devices=all"], {".devices.cdi_kinds": ("all",)}),
        (["--cdi_dirs=/c"], {".devices.cdi_folders": (Path("/c"),)}),
        (["--image_providers=docker", "--image_gc_max_size=1GB"], {".images.keep.max_bytes": 1 << 30}),
        (["--image_providers=docker", "--image_gc_max_age=1days"], {".images.keep.max_age_s": 86400}),
        (["--image_providers=docker", "--image_gc_interval=5mins"], {".images.keep.interval_s": 300}),
        (["--image_providers=docker", "--docker_pull_timeout=5mins"], {".images.limits.pull_timeout_s": 300}),
        (["--registration_backoff_factor=3secs"], {".master.registration_backoff_s": 3}),
        (["--cgroups_enable_cfs"], {".tasks.cfs_quota": True}),
        (["--no-switch_user"], {".tasks.switch_user": False}),
        (["--recovery_timeout=1mins"], {".tasks.executors.recovery_s": 60}),
        (["--executor_registration_timeout=2mins"], {".tasks.executors.registration_s": 120}),
        (["--executor_reregistration_timeout=3secs"], {".tasks.executors.reregistration_s": 3}),
        (["--executor_shutdown_grace_period=4secs"], {".tasks.executors.shutdown_s": 4}),
        (["--fetcher_cache_size=1MB"], {".fetch.cache_bytes": 1 << 20}),
        (["--fetcher_stall_timeout=5secs"], {".fetch.fetcher.stall_timeout_s": 5}),
        (["--reconfiguration_policy=additive"], {".resources.policy": "additive"}),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_flag_changes_its_own_setting_and_no_other(words: list[str], changed: dict[str, Any]) -> None:
    before, after = effects(read(*words[:-1])), effects(read(*words))
    differing = {name for name in after if after[name] != before.get(name) and not name.endswith(".source")}
    assert {name: after[name] for name in differing} == changed


SINGLE = AgentFlags(mig_strategy="single")


def test_mig_profiles_name_the_instances_of_each_gpu() -> None:
    assert divisions("0:3g.20gb,2x1g.5gb; GPU-6b:none;") == {"0": "3g.20gb,2x1g.5gb", "GPU-6b": "none"}
    assert divisions(None) == divisions("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "3g.20gb",
        ":3g.20gb",
        "0:3g.20gb;0:none",
        "0:half",
    ],
)
def test_malformed_mig_profiles_are_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        divisions(text)
    assert str(refused.value) == golden


@pytest.mark.parametrize("flags", [{"mig_strategy": "none"}, {"isolation": ()}, {"nvidia_gpu_devices": ("0",)}])
def test_mig_profiles_that_would_not_be_offered_are_refused(flags: dict[str, Any], golden: Golden) -> None:
    check_mig(SINGLE.replace(mig_profiles="0:none"))
    check_mig(SINGLE.replace(**flags))
    with pytest.raises(BadFlag) as refused:
        check_mig(SINGLE.replace(**flags, mig_profiles="0:1g.5gb"))
    assert str(refused.value) == golden


async def test_an_agent_that_cannot_start_leaves_the_records_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_agent(*_: object) -> NoReturn:
        raise Unavailable("the work_dir is in use")

    monkeypatch.setattr(service, "open_agent", open_agent)
    record = tmp_path / "runtime" / "gpus.json"
    record.parent.mkdir()
    record.write_text("{}")
    words = [f"--work_dir={tmp_path}/work", f"--runtime_dir={record.parent}", "--master=192.0.2.1:5050"]
    with pytest.raises(Unavailable):
        await service.run(parse_flags(COMMAND_LINE, words, {})[0], asyncio.Event())
    assert record.read_text() == "{}"
