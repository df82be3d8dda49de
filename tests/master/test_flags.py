from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.master.configuration import check_flags, min_allocatable, settings, shown_flags
from mesos_gpu.master.flags import COMMAND_LINE, MasterFlags
from mesos_gpu.mesos.flags import parse_flags
from tests.support.master.build import recorded
from tests.support.master.live import master_flags


def test_defaults_are_those_of_a_machine_with_gpus(tmp_path: Path) -> None:
    rules = settings(master_flags(tmp_path)).rules
    assert rules.filter_gpu_resources
    assert rules.excluded_names == {"gpus"}
    assert rules.min_allocatable == ({"cpus": 10}, {"mem": 32000}, {"gpus": 1000})


def test_flags_come_from_the_environment_too() -> None:
    flags = parse_flags(COMMAND_LINE, [], {"MESOS_WORK_DIR": "/w", "MESOS_FILTER_GPU_RESOURCES": "false"})[0]
    check_flags(flags)
    assert not settings(flags).rules.filter_gpu_resources
    assert shown_flags(flags)["filter_gpu_resources"] == "false"


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--port=70000", "port"),
        ("--ip=nowhere", "ip"),
        ("--ip=0.0.0.0", "advertise_ip"),
        ("--ip=10.0.0.1", "ip"),
        ("--allocation_interval=0secs", "allocation_interval"),
        ("--agent_ping_timeout=0ms", "agent_ping_timeout"),
        ("--max_agent_ping_timeouts=0", "max_agent_ping_timeouts"),
        ("--registry_gc_interval=0secs", "registry_gc_interval"),
        ("--registry_max_agent_count=-1", "registry_max_agent_count"),
        ("--recovery_agent_removal_limit=50", "recovery_agent_removal_limit"),
        ("--recovery_agent_removal_limit=101%", "recovery_agent_removal_limit"),
        ("--recovery_agent_removal_limit=few%", "recovery_agent_removal_limit"),
        ("--min_allocatable_resources=cpus", "min_allocatable_resources"),
        ("--min_allocatable_resources=ports:[1-2]", "min_allocatable_resources"),
    ],
)
def test_what_cannot_work_is_refused_by_name(tmp_path: Path, word: str, flag: str) -> None:
    with pytest.raises(BadFlag) as refused:
        check_flags(master_flags(tmp_path, word))
    assert refused.value.flag == flag


def test_a_wider_address_must_be_meant(tmp_path: Path) -> None:
    with pytest.raises(BadFlag, match="--insecure"):
        check_flags(master_flags(tmp_path, "--ip=10.0.0.1"))
    check_flags(master_flags(tmp_path, "--ip=10.0.0.1", "--insecure"))


def test_a_work_dir_is_needed() -> None:
    with pytest.raises(BadFlag, match="work_dir"):
        parse_flags(COMMAND_LINE, [], {})


def test_minimums_may_be_none_or_several_together() -> None:
    assert min_allocatable("") == ()
    assert min_allocatable("cpus:1;gpus:1|mem:32") == ({"cpus": 1000, "gpus": 1000}, {"mem": 32000})


def test_both_sorters_are_drf_or_both_are_random(tmp_path: Path) -> None:
    assert settings(master_flags(tmp_path)).draw is None
    chance = settings(master_flags(tmp_path, "--role_sorter=random", "--framework_sorter=random")).draw
    assert chance is not None
    assert 0 <= chance() < 1
    older = master_flags(tmp_path, "--user_sorter=random", "--framework_sorter=random")
    assert settings(older).draw is not None
    assert shown_flags(older)["role_sorter"] == "random"
    assert "user_sorter" not in shown_flags(older)
    for words, flag in [
        (("--role_sorter=random",), "framework_sorter"),
        (("--framework_sorter=random",), "framework_sorter"),
        (("--role_sorter=fair", "--framework_sorter=fair"), "role_sorter"),
        (("--user_sorter=fair",), "user_sorter"),
    ]:
        with pytest.raises(BadFlag) as refused:
            check_flags(master_flags(tmp_path, *words))
        assert refused.value.flag == flag


# What else Mesos' documentation of masters names (docs/configuration/master.md, master-and-agent.md).
DOCUMENTED = [
    *("acls", "agent_removal_rate_limit", "authenticate", "authenticate_http", "authenticate_slaves", "authorizers"),
    *("cluster", "credentials", "domain", "fair_sharing_excluded_resource_names", "firewall_rules", "hooks"),
    *("http_authenticators", "http_framework_authenticators", "advertise_ip", "advertise_port", "external_log_file"),
    *("ip_discovery_command", "log_dir", "master_contender", "master_detector", "max_executors_per_agent"),
    *("max_executors_per_slave", "max_slave_ping_timeouts", "modules", "modules_dir", "offer_timeout", "quorum"),
    *("rate_limits", "recovery_slave_removal_limit", "roles", "slave_ping_timeout", "slave_removal_rate_limit"),
    *("slave_reregister_timeout", "user_sorter", "weights", "whitelist", "zk"),
]


def taken(*words: str) -> tuple[MasterFlags, list[str]]:
    flags, said = parse_flags(COMMAND_LINE, ["--work_dir=/w", *words], {})
    check_flags(flags)
    return flags, said


def test_every_flag_of_mesos_is_known() -> None:
    known = COMMAND_LINE.known().keys()
    shown = recorded()["get"]["idle"]["/state"]["body"]["flags"]
    assert set(DOCUMENTED) - known == set()
    assert set(shown) - known == {"help", "version"}


def test_the_line_of_a_usual_unit_can_be_kept() -> None:
    words = [
        "--quorum=2",
        "--registry=replicated_log",
        "--log_dir=/var/log/mesos",
        "--logging_level=WARNING",
        "--quiet",
    ]
    _, said = taken(*words, "--webui_dir=/usr/share/mesos/webui", "--allocator=hierarchical", "--whitelist=*")
    assert [line.split(" ")[0] for line in said] == [f"--{name}" for name in NAMED]


NAMED = ["quorum", "registry", "log_dir", "logging_level", "quiet", "webui_dir"]


def test_old_names_are_taken_for_the_newer_ones() -> None:
    mine, said = taken("--slave_ping_timeout=20secs", "--max_slave_ping_timeouts=7", "--authenticate=false")
    assert (mine.agent_ping_timeout, mine.max_agent_ping_timeouts, said) == (20.0, 7, [])
    with pytest.raises(BadFlag, match="--authenticate_frameworks"):
        taken("--authenticate")


def test_what_somebody_relies_on_is_refused_all_at_once() -> None:
    with pytest.raises(BadFlag) as refused:
        taken("--whitelist=/etc/agents", "--modules=x", "--allocator=mine", "--firewall_rules=x")
    for name in ("whitelist", "modules", "allocator", "firewall_rules"):
        assert name in str(refused.value)


def test_root_may_be_kept_from_submitting(tmp_path: Path) -> None:
    assert settings(taken("--no-root_submissions", f"--work_dir={tmp_path}")[0]).root_submissions is False


@pytest.mark.parametrize(
    ("word", "setting", "value"),
    [
        ("--no-publish_per_framework_metrics", "framework_metrics", False),
        ("--max_operator_event_stream_subscribers=3", "max_watchers", 3),
        ("--registry_max_agent_age=1mins", "registry_max_agent_age_s", 60),
        ("--registry_max_agent_count=3", "registry_max_agent_count", 3),
        ("--allocation_interval=3secs", "allocation_interval_s", 3),
        ("--offer_timeout=3secs", "offer_timeout_s", 3),
        ("--no-root_submissions", "root_submissions", False),
        ("--roles=a", "roles", {"a", "*"}),
        ("--check_invariants", "check_invariants", True),
        ("--authenticate_frameworks", "authenticate_frameworks", True),
    ],
)
def test_a_flag_changes_its_own_setting_and_no_other(tmp_path: Path, word: str, setting: str, value: object) -> None:
    before, after = settings(master_flags(tmp_path)), settings(master_flags(tmp_path, word))
    changed = {name for name in after.__struct_fields__ if getattr(after, name) != getattr(before, name)}
    assert (changed, getattr(after, setting)) == ({setting}, value)
