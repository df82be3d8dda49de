"""Flags and environment of mesos-gpu-marathon, and what follows from them. Names and defaults are Marathon's."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon.app import FEATURES, AppRules
from mesos_gpu.marathon.matching import GpuBehaviour, RolesBehaviour
from mesos_gpu.marathon.ports import LOCAL_PORT_MAX, LOCAL_PORT_MIN
from mesos_gpu.marathon.settings import Settings
from mesos_gpu.marathon.state import MAX_VERSIONS
from mesos_gpu.marathon.store_zookeeper import ZkLimits
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.mesos.leader import parse_zk_url

PREFIX = "MARATHON_"
API_VERSION = "1.11.0"
"""The Marathon whose API this is."""

FLAGS = (
    Flag("master", "text", None, "The Mesos master: host:port, or zk://host1:port1,host2:port2/path. Required."),
    Flag("http_address", "text", "127.0.0.1", "The address to listen on."),
    Flag("http_port", "integer", 8080, "The port to listen on; 0 takes a free one."),
    Flag("http_credentials", "text", None, "user:password that every call must carry (HTTP basic authentication)."),
    Flag("insecure", "boolean", False, "Listen beyond this machine without --http_credentials."),
    Flag("hostname", "text", None, "The name of this machine that Mesos and clients are told."),
    Flag("webui_url", "text", None, "The URL of this Marathon that Mesos shows."),
    Flag("mesos_leader_ui_url", "text", None, "The URL of Mesos that clients are told."),
    Flag("mesos_role", "text", "*", "The role to register with; apps run in it."),
    Flag("mesos_user", "text", None, "The user that tasks run as unless their app names one; default: our own."),
    Flag("mesos_authentication_principal", "text", None, "The principal to register as, and to reserve as."),
    Flag("mesos_authentication_secret_file", "path", None, "File with its secret, for a master that wants to see it."),
    Flag("framework_name", "text", "marathon", "The name to register with."),
    Flag("failover_timeout", "integer", 604800, "Seconds for which Mesos keeps the tasks when this Marathon is away."),
    Flag("store_path", "path", None, "The file to keep apps and instances in. Default: in the user's state folder."),
    Flag("zk", "text", None, "zk://host1:port1,host2:port2/path: keep them there, and be one of several Marathons."),
    Flag("zk_timeout", "integer", 10000, "Milliseconds that a read or write in ZooKeeper may take."),
    Flag("zk_session_timeout", "integer", 10000, "Milliseconds after which a leader that vanished is followed."),
    Flag("zk_compression", "boolean", True, "Compress large documents in ZooKeeper."),
    Flag("zk_compression_threshold", "integer", 65536, "Bytes beyond which a document is large."),
    Flag("zk_max_node_size", "integer", 1024000, "Bytes in a node of ZooKeeper at most."),
    Flag("enable_features", "list", ("gpu_resources",), f"Features to switch on: {', '.join(sorted(FEATURES))}."),
    Flag(
        "gpu_scheduling_behavior",
        "text",
        "restricted",
        "May apps without GPUs use agents with some: restricted (no), unrestricted.",
    ),
    Flag(
        "accepted_resource_roles_default_behavior",
        "text",
        "any",
        "What apps without acceptedResourceRoles take: any (of their role and unreserved), unreserved, reserved.",
    ),
    Flag("env_vars_prefix", "text", "", "Goes before HOST and the PORT variables of tasks."),
    Flag("default_network_name", "text", None, "The container network of apps that name none."),
    Flag("max_instances_per_offer", "integer", 5, "Instances started on one offer at most."),
    Flag("launch_tokens", "integer", 100, "Tasks started in an interval at most that have not come to run yet."),
    Flag("launch_token_refresh_interval", "integer", 30000, "Milliseconds of that interval."),
    Flag("decline_offer_duration", "integer", 120000, "Milliseconds for which an unused offer is refused."),
    Flag("min_revive_offers_interval", "integer", 5000, "Milliseconds between two calls for offers, on average."),
    Flag("task_launch_timeout", "integer", 300000, "Milliseconds after which a task that does not run is ended."),
    Flag(
        "task_reservation_timeout",
        "integer",
        20000,
        "Milliseconds within which an agent must show what was reserved on it for an app with persistent volumes.",
    ),
    Flag(
        "max_concurrent_marathon_health_checks",
        "integer",
        256,
        "Health and readiness checks that Marathon itself runs at a time.",
    ),
    Flag("kill_retry_timeout", "integer", 30000, "Milliseconds after which the end of a task is asked for again."),
    Flag("reconciliation_initial_delay", "integer", 15000, "Milliseconds until task states are asked for again."),
    Flag("reconciliation_interval", "integer", 600000, "Milliseconds between later such questions."),
    Flag("max_running_deployments", "integer", 100, "Deployments that may run at a time."),
)


def checked(flags: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the flags. Raises BadFlag for values that do not go, or not together."""
    if not flags["master"]:
        raise BadFlag("master", "is needed, as in --master=127.0.0.1:5050 (or MARATHON_MASTER in the environment)")
    if not 0 <= flags["http_port"] <= 65535:
        raise BadFlag("http_port", "ports run from 0 to 65535")
    if flags["zk"] is not None:
        parse_zk_url("zk", flags["zk"])
        if flags["store_path"] is not None:
            raise BadFlag("store_path", "with --zk everything is kept in ZooKeeper; give one of the two")
    unknown = sorted(set(flags["enable_features"]) - FEATURES)
    if unknown:
        raise BadFlag("enable_features", f"{unknown[0]} is none of {', '.join(sorted(FEATURES))}")
    if flags["gpu_scheduling_behavior"] not in list(GpuBehaviour):
        raise BadFlag("gpu_scheduling_behavior", "must be restricted or unrestricted")
    if flags["accepted_resource_roles_default_behavior"] not in list(RolesBehaviour):
        raise BadFlag("accepted_resource_roles_default_behavior", "must be any, unreserved or reserved")
    if flags["mesos_authentication_secret_file"] is not None and flags["mesos_authentication_principal"] is None:
        raise BadFlag(
            "mesos_authentication_secret_file", "is the secret of --mesos_authentication_principal; give both"
        )
    if flags["http_credentials"] is not None and ":" not in flags["http_credentials"]:
        raise BadFlag("http_credentials", "must be user:password")
    if flags["http_credentials"] is None and not flags["insecure"] and not _is_loopback(flags["http_address"]):
        raise BadFlag(
            "http_address",
            f"{flags['http_address']} can be reached from other machines, and anybody there could run anything here: "
            "set --http_credentials, or --insecure if that is meant",
        )
    for name in (
        "max_instances_per_offer",
        "min_revive_offers_interval",
        "max_concurrent_marathon_health_checks",
        "kill_retry_timeout",
        "task_launch_timeout",
        "task_reservation_timeout",
        "launch_tokens",
        "zk_timeout",
        "zk_session_timeout",
        "zk_max_node_size",
    ):
        if flags[name] < 1:
            raise BadFlag(name, "must be 1 or more")
    return flags


def settings(flags: Mapping[str, Any]) -> Settings:
    """Return what the deciding part needs of the flags."""
    rules = AppRules(
        mesos_role=flags["mesos_role"],
        features=frozenset(flags["enable_features"]),
        default_network_name=flags["default_network_name"],
    )
    return Settings(
        rules=rules,
        gpu_behaviour=GpuBehaviour(flags["gpu_scheduling_behavior"]),
        roles_behaviour=RolesBehaviour(flags["accepted_resource_roles_default_behavior"]),
        principal=flags["mesos_authentication_principal"],
        env_prefix=flags["env_vars_prefix"],
        max_instances_per_offer=flags["max_instances_per_offer"],
        decline_offer_s=flags["decline_offer_duration"] / 1000,
        min_revive_interval_s=flags["min_revive_offers_interval"] / 1000,
        launch_timeout_s=flags["task_launch_timeout"] / 1000,
        reservation_timeout_s=flags["task_reservation_timeout"] / 1000,
        max_concurrent_checks=flags["max_concurrent_marathon_health_checks"],
        kill_retry_s=flags["kill_retry_timeout"] / 1000,
        reconcile_initial_s=flags["reconciliation_initial_delay"] / 1000,
        reconcile_interval_s=flags["reconciliation_interval"] / 1000,
        max_running_deployments=flags["max_running_deployments"],
        launch_tokens=flags["launch_tokens"],
        launch_token_refresh_s=flags["launch_token_refresh_interval"] / 1000,
    )


def secret(flags: Mapping[str, Any]) -> str | None:
    """Return the secret that we show the master, None when it wants none. Raises BadFlag."""
    path = flags["mesos_authentication_secret_file"]
    if path is None:
        return None
    try:
        # An editor's newline at the end is no part of it.
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFlag("mesos_authentication_secret_file", f"{path} cannot be read: {error}") from None


def zk_limits(flags: Mapping[str, Any]) -> ZkLimits:
    """Return how documents are kept in ZooKeeper."""
    return ZkLimits(flags["zk_compression"], flags["zk_compression_threshold"], flags["zk_max_node_size"])


def store_path(flags: Mapping[str, Any], state_home: str | None, home: str) -> Path:
    """Return where the store is: as asked, else in the user's state folder."""
    if flags["store_path"] is not None:
        return Path(flags["store_path"])
    base = Path(state_home) if state_home else Path(home) / ".local" / "state"
    return base / "mesos-gpu" / "marathon.db"


def framework_info(flags: Mapping[str, Any], *, user: str, hostname: str, port: int) -> dict[str, Any]:
    """Return the FrameworkInfo to subscribe with, without an id."""
    capabilities = ["PARTITION_AWARE", "MULTI_ROLE", "REGION_AWARE", "TASK_KILLING_STATE"]
    if "gpu_resources" in flags["enable_features"]:
        capabilities.append("GPU_RESOURCES")
    principal = flags["mesos_authentication_principal"]
    return {
        "user": user,
        "name": flags["framework_name"],
        **({} if principal is None else {"principal": principal}),
        "roles": [flags["mesos_role"]],
        "checkpoint": True,
        "failover_timeout": float(flags["failover_timeout"]),
        "hostname": hostname,
        "webui_url": flags["webui_url"] or f"http://{hostname}:{port}",
        "capabilities": [{"type": name} for name in capabilities],
    }


def info(flags: Mapping[str, Any], *, hostname: str, port: int, build: str, tls: bool = False) -> dict[str, Any]:
    """Return what /v2/info shows, without the framework id; with `tls` the master is reached over https."""
    given = {name: flags[name] for name in ("framework_name", "mesos_role", "failover_timeout", "webui_url")}
    same = (
        "decline_offer_duration",
        "default_network_name",
        "env_vars_prefix",
        "launch_token_refresh_interval",
        "max_instances_per_offer",
        "min_revive_offers_interval",
        "reconciliation_initial_delay",
        "reconciliation_interval",
        "task_launch_timeout",
        "task_reservation_timeout",
    )
    zookeeper = {}
    if flags["zk"] is not None:
        names = (
            "zk_timeout",
            "zk_session_timeout",
            "zk_compression",
            "zk_compression_threshold",
            "zk_max_node_size",
        )
        # Without the credentials.
        zookeeper = {"zk": str(parse_zk_url("zk", flags["zk"])), **{name: flags[name] for name in names}}
        zookeeper["zk_max_versions"] = MAX_VERSIONS
    return {
        "name": "marathon",
        "version": API_VERSION,
        "buildref": build,
        "elected": True,
        "leader": f"{hostname}:{port}",
        "marathon_config": {
            **given,
            **{name: flags[name] for name in same},
            "master": flags["master"],
            "mesos_leader_ui_url": flags["mesos_leader_ui_url"]
            or _master_url(flags["master"], "https" if tls else "http"),
            "mesos_user": flags["mesos_user"],
            "launch_token": flags["launch_tokens"],
            "features": sorted(flags["enable_features"]),
            "hostname": hostname,
            "checkpoint": True,
            "ha": flags["zk"] is not None,
            "executor": "//cmd",
            "local_port_min": LOCAL_PORT_MIN,
            "local_port_max": LOCAL_PORT_MAX,
            "maintenance_mode": True,
            "new_group_enforce_role": "off",
        },
        "zookeeper_config": zookeeper,
        "http_config": {"http_port": port, "https_port": None},
    }


def _master_url(master: str, scheme: str) -> str | None:
    """Return the URL of a master that is named itself; the one behind ZooKeeper is not known here."""
    if master.startswith(("zk://", "zoo://")):
        return None
    name = master.removeprefix("http://").removeprefix("https://").rstrip("/")
    return f"{scheme}://{name}/" if ":" in name else f"{scheme}://{name}:5050/"


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
