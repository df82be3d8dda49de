"""What the agent's flags come to."""

from __future__ import annotations

import asyncio
import json
import pwd
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mesos_gpu.agent import service
from mesos_gpu.agent.configuration import Configuration, gc_rules, read_configuration
from mesos_gpu.agent.decisions.collecting import GcRules
from mesos_gpu.agent.flags import FLAGS, check_flags, flags_as_text
from mesos_gpu.agent.model.executors import ExecutorPatience
from mesos_gpu.agent.running.hardening import check_apparmor, open_user_namespaces
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.life.opening import NETWORKS
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.seccomp_default import DEFAULT
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.process.program import READY_FILE
from tests.support.golden import Golden


def read(*argv: str) -> Configuration:
    return read_configuration(parse_flags([*FLAGS, READY_FILE], ["--work_dir=/w", *argv], {}))


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


@pytest.mark.parametrize("more", [{"work_dir": None}, {"reconfiguration_policy": "any"}])
def test_what_cannot_be_meant_is_refused_by_the_flags_name(more: dict[str, Any]) -> None:
    flags = parse_flags([*FLAGS, READY_FILE], ["--work_dir=/w"], {})
    with pytest.raises(BadFlag, match=f"--{next(iter(more))}"):
        read_configuration({**flags, **more})


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


def flags(*words: str) -> dict[str, Any]:
    return parse_flags(FLAGS, ["--work_dir=/w", "--master=h:5050", *words], {})


def test_defaults_are_those_of_mesos() -> None:
    assert gc_rules(flags()) == GcRules(delay_s=604_800.0, headroom=0.1, watch_interval_s=60.0, nested=False)
    shown = flags_as_text(flags())
    assert (shown["gc_delay"], shown["gc_disk_headroom"], shown["disk_watch_interval"]) == ("1weeks", "0.1", "1mins")


@pytest.mark.parametrize(
    "word", ["--gc_disk_headroom=-0.1", "--gc_disk_headroom=1.1", "--gc_disk_headroom=nan", "--disk_watch_interval=0ns"]
)
def test_what_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(BadFlag, match=word[2:].partition("=")[0]):
        check_flags(flags(word))
    check_flags(flags("--gc_disk_headroom=1", "--gc_delay=0ns"))


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
        await service.run(parse_flags([*FLAGS, READY_FILE], words, {}), asyncio.Event())
    assert record.read_text() == "{}"
