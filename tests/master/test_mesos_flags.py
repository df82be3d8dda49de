"""The flags of an existing mesos-master: each that Mesos knows is known, by a written rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.master.configuration import check_flags, settings
from mesos_gpu.master.flags import COMMAND_LINE, MasterFlags
from mesos_gpu.mesos.flags import parse_flags
from tests.support.master.build import recorded

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
