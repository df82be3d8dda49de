"""Flags, environment and what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marathon.models.info import MarathonInfo

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon import configuration
from mesos_gpu.marathon.flags import FLAGS, PREFIX
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.mesos.flags import parse_flags
from tests.support.golden import Golden


def read(*argv: str, **environ: str) -> dict[str, Any]:
    flags = parse_flags(FLAGS, ["--master=m:5050", *argv], environ, prefix=PREFIX)
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
    assert flags["mesos_role"] == "slave_public"
    assert flags["insecure"] is True


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
    flags = {**read(), "master": master}
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
