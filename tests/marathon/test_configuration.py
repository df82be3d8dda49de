"""Flags, environment and what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marathon.models.info import MarathonInfo

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon import configuration
from mesos_gpu.marathon.flags import COMMAND_LINE, MarathonFlags
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.service import _open_link
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.process.endpoint import Endpoint
from tests.support.golden import Golden


def read(*argv: str, **environ: str) -> MarathonFlags:
    flags = parse_flags(COMMAND_LINE, ["--master=m:5050", *argv], environ)[0]
    configuration.checked(flags)
    return flags


def test_defaults_are_marathons() -> None:
    settings = configuration.settings(read())
    assert settings.role == "*"
    assert settings.rules.features == {"gpu_resources"}
    assert settings.gpu_behaviour is GpuBehaviour.RESTRICTED
    assert (settings.decline_offer_s, settings.min_revive_interval_s) == (120, 5)
    assert (settings.reconcile_initial_s, settings.reconcile_interval_s) == (15, 600)
    assert settings.max_instances_per_offer == 5


def test_the_environment_sets_flags_too() -> None:
    flags = read(MARATHON_MESOS_ROLE="slave_public", MARATHON_INSECURE="", MARATHON_HTTP_ADDRESS="0.0.0.0")
    assert flags.mesos_role == "slave_public"
    assert flags.insecure is True


@pytest.mark.parametrize(
    "argv",
    [
        ["--master="],
        ["--http_port=70000"],
        ["--enable_features=gpus"],
        ["--accepted_resource_roles_default_behavior=own"],
        ["--mesos_authentication_secret_file=/s"],
        ["--gpu_scheduling_behavior=undefined"],
        ["--http_credentials=user"],
        ["--http_address=0.0.0.0"],
        ["--http_address=marathon.example"],
        ["--https_address=0.0.0.0"],
        ["--ssl_cert_file=/c"],
        ["--https_port=70000"],
        ["--max_instances_per_offer=0"],
        ["--mesos_rol=x"],
    ],
    ids=" ".join,
)
def test_bad_flags(argv: list[str], golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        read(*argv)
    assert str(refused.value) == golden


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_needs_no_credentials(address: str) -> None:
    read(f"--http_address={address}")


def test_with_credentials_others_may_call() -> None:
    read("--http_address=0.0.0.0", "--http_credentials=u:p")


def test_the_framework_has_the_gpu_capability_with_the_feature_only() -> None:
    def capabilities(*argv: str) -> list[str]:
        document = configuration.framework_info(read(*argv), user="root", hostname="h", port=8080)
        return [c["type"] for c in document["capabilities"]]

    assert capabilities() == ["PARTITION_AWARE", "MULTI_ROLE", "REGION_AWARE", "TASK_KILLING_STATE", "GPU_RESOURCES"]
    assert "GPU_RESOURCES" not in capabilities("--enable_features=vips")


def test_the_framework_is_ours() -> None:
    document = configuration.framework_info(read("--mesos_role=r"), user="root", hostname="h", port=18080)
    assert (document["name"], document["user"], document["roles"]) == ("marathon", "root", ["r"])
    assert (document["checkpoint"], document["failover_timeout"]) == (True, 604800.0)
    assert document["webui_url"] == "http://h:18080"
    assert "role" not in document


@pytest.mark.parametrize(
    ("master", "url"),
    [
        ("m:5050", "http://m:5050/"),
        ("m", "http://m:5050/"),
        ("http://m:1/", "http://m:1/"),
        ("zk://z:2181/mesos", None),
    ],
)
def test_info_says_where_mesos_is(master: str, url: str | None) -> None:
    flags = read(f"--master={master}")
    shown = configuration.info(flags, hostname="h", port=1, build="b")
    assert shown["marathon_config"]["mesos_leader_ui_url"] == url
    assert shown["marathon_config"]["features"] == [
        "accepted_resource_roles_default_behavior=any",
        "gangs",
        "gpu_resources",
        "gpu_scheduling_behavior=restricted",
        "gpu_share",
    ]
    assert shown["leader"] == "h:1"
    assert shown["zookeeper_config"] == {}
    leading = configuration.info(flags, hostname="h", port=1, build="b", master="leader:5050")
    assert leading["marathon_config"]["mesos_leader_ui_url"] == "http://leader:5050/"
    with_zk = configuration.info(read("--zk=zk://u:p@z:1/m"), hostname="h", port=1, build="b")["zookeeper_config"]
    assert (with_zk["zk"], with_zk["zk_max_versions"]) == ("zk://z:1/m", 50)


@pytest.mark.parametrize("more", [[], ["--zk=zk://z:1/m", "--mesos_authentication_principal=ops"]])
def test_info_has_only_keys_that_the_public_client_knows(more: list[str]) -> None:
    shown = configuration.info(read(*more), hostname="h", port=1, build="b")
    known = MarathonInfo.from_json({**shown, "frameworkId": "F"})
    assert known.marathon_config.new_group_enforce_role == "off"


def test_the_store_is_in_the_users_state_folder_unless_told_otherwise() -> None:
    assert configuration.store_path(read(), None, "/home/u") == Path("/home/u/.local/state/mesos-gpu/marathon.db")
    assert configuration.store_path(read(), "/s", "/home/u") == Path("/s/mesos-gpu/marathon.db")
    assert configuration.store_path(read("--store_path=/x/y.db"), "/s", "/h") == Path("/x/y.db")


def test_the_framework_has_a_principal_where_one_is_given(tmp_path: Path, golden: Golden) -> None:
    def principal(*argv: str) -> str | None:
        document = configuration.framework_info(read(*argv), user="root", hostname="h", port=8080)
        return document.get("principal")

    assert principal() is None
    assert configuration.settings(read()).principal is None
    assert configuration.secret(read()) is None
    given = ["--mesos_authentication_principal=ops", f"--mesos_authentication_secret_file={tmp_path / 'secret'}"]
    assert principal(*given) == configuration.settings(read(*given)).principal == "ops"
    with pytest.raises(BadFlag) as refused:
        configuration.secret(read(*given))
    assert str(refused.value) == golden
    (tmp_path / "secret").write_text("s3cret\n")
    assert configuration.secret(read(*given)) == "s3cret"


def effects(flags: MarathonFlags) -> dict[str, Any]:
    """All that flags come to, by name."""
    parts = (configuration.settings(flags), configuration.http_settings(flags), configuration.zk_limits(flags))
    return {f"{type(part).__name__}.{name}": getattr(part, name) for part in parts for name in part.__struct_fields__}


@pytest.mark.parametrize(
    ("word", "changed"),
    [
        ("--http_realm=r", {"HttpSettings.realm": "r"}),
        ("--login_hint=h", {"HttpSettings.login_hint": "h"}),
        ("--http_credentials=u:p", {"HttpSettings.credentials": "u:p"}),
        ("--no-http_compression", {"HttpSettings.compression": False}),
        ("--http_max_concurrent_requests=3", {"HttpSettings.max_requests": 3}),
        ("--access_control_allow_origin=*", {"HttpSettings.origins": ("*",)}),
        ("--leader_proxy_connection_timeout=1500", {"HttpSettings.proxy_connect_s": 1.5}),
        ("--leader_proxy_read_timeout=2500", {"HttpSettings.proxy_read_s": 2.5}),
        ("--leader_proxy_max_open_connections=7", {"HttpSettings.proxy_connections": 7}),
        ("--no-zk_compression", {"ZkLimits.compression": False}),
        ("--zk_compression_threshold=10", {"ZkLimits.compression_threshold": 10}),
        ("--zk_max_node_size=10", {"ZkLimits.max_node_size": 10}),
        ("--zk_max_versions=3", {"ZkLimits.max_versions": 3, "Settings.max_versions": 3}),
        ("--offer_window=0", {"Settings.offer_window_s": 0}),
        ("--gang_offer_hold=1", {"Settings.gang_offer_hold_s": 0.001}),
        ("--priority_aging=60", {"Settings.priority_aging_s": 60}),
        ("--placement_policy=spread", {"Settings.placement_policy": "spread"}),
        ("--env_vars_prefix=X_", {"Settings.env_prefix": "X_"}),
        ("--max_instances_per_offer=9", {"Settings.max_instances_per_offer": 9}),
        ("--decline_offer_duration=1000", {"Settings.decline_offer_s": 1}),
        ("--min_revive_offers_interval=1000", {"Settings.min_revive_interval_s": 1}),
        ("--task_launch_timeout=1000", {"Settings.launch_timeout_s": 1}),
        ("--task_launch_confirm_timeout=1000", {"Settings.confirm_timeout_s": 1}),
        ("--task_reservation_timeout=1000", {"Settings.reservation_timeout_s": 1}),
        ("--max_apps=2", {"Settings.max_apps": 2}),
        ("--max_concurrent_marathon_health_checks=2", {"Settings.max_concurrent_checks": 2}),
        ("--kill_retry_timeout=1000", {"Settings.kill_retry_s": 1}),
        ("--reconciliation_initial_delay=1000", {"Settings.reconcile_initial_s": 1}),
        ("--reconciliation_interval=1000", {"Settings.reconcile_interval_s": 1}),
        ("--max_running_deployments=2", {"Settings.max_running_deployments": 2}),
        ("--launch_tokens=2", {"Settings.launch_tokens": 2}),
        ("--launch_token_refresh_interval=1000", {"Settings.launch_token_refresh_s": 1}),
        ("--max_queued_offers=0", {"Settings.max_queued_offers": 0}),
        ("--offer_matching_timeout=1000", {"Settings.offer_matching_timeout_s": 1}),
    ],
)
def test_a_flag_changes_its_own_setting_and_no_other(word: str, changed: dict[str, Any]) -> None:
    before, after = effects(read()), effects(read(word))
    assert {name: value for name, value in after.items() if value != before[name]} == changed


def test_a_silent_master_is_given_up_after_the_number_of_heartbeats_that_the_flags_name() -> None:
    flags = read("--mesos_heartbeat_interval=500", "--mesos_heartbeat_failure_threshold=3")
    link = _open_link(flags, None, "h", Endpoint("127.0.0.1", 0), None)
    assert (link._heartbeat_s, link._silence_s) == (0.5, 1.5)
