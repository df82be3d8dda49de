"""Flags and environment of mesos-gpu-marathon, and what follows from them. Names and defaults are Marathon's."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.api.openapi_routes import API_VERSION
from mesos_gpu.marathon.definitions.app import FEATURES, AppRules
from mesos_gpu.marathon.definitions.app_settings import GANGS, GPU_SHARE, MATCHING_FLAGS
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.store.zk_limits import ZkLimits
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.placement.policies import POLICIES

LOGGING_LEVELS: Mapping[str, int] = {
    "off": logging.CRITICAL + 1,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
    "all": logging.DEBUG,
}
"""--logging_level in Python's terms."""
HTTPS_PORT = 8443
"""Where https is served unless --https_port says otherwise."""
_LONGEST_WINDOW_MS = 5000
"""Of --offer_window: half of the shortest --offer_timeout that masters are run with."""
_POSITIVE = (
    "priority_aging",
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
    "zk_max_versions",
    "task_launch_confirm_timeout",
    "mesos_heartbeat_interval",
    "mesos_heartbeat_failure_threshold",
    "leader_proxy_connection_timeout",
    "leader_proxy_read_timeout",
    "leader_proxy_max_open_connections",
    "max_apps",
    "http_max_concurrent_requests",
)
"""Flags whose numbers are 1 or more, where they are given."""
_SHOWN = (
    "decline_offer_duration",
    "default_network_name",
    "env_vars_prefix",
    "launch_token_refresh_interval",
    "local_port_max",
    "local_port_min",
    "maintenance_mode",
    "max_instances_per_offer",
    "mesos_bridge_name",
    "mesos_heartbeat_failure_threshold",
    "mesos_heartbeat_interval",
    "min_revive_offers_interval",
    "new_group_enforce_role",
    "reconciliation_initial_delay",
    "reconciliation_interval",
    "task_launch_confirm_timeout",
    "task_launch_timeout",
    "task_reservation_timeout",
)
"""Flags that /v2/info shows as they are."""
_ZOOKEEPER = (
    "zk_timeout",
    "zk_session_timeout",
    "zk_compression",
    "zk_compression_threshold",
    "zk_max_node_size",
    "zk_max_versions",
)


def checked(flags: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the flags. Raises BadFlag for values that do not go, or not together."""
    if not flags["master"]:
        raise BadFlag("master", "is needed, as in --master=127.0.0.1:5050 (or MARATHON_MASTER in the environment)")
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
    if flags["placement_policy"] not in POLICIES:
        raise BadFlag("placement_policy", f"{flags['placement_policy']} is none of {', '.join(POLICIES)}")
    if not 0 <= flags["offer_window"] <= _LONGEST_WINDOW_MS:
        raise BadFlag("offer_window", f"must be 0 to {_LONGEST_WINDOW_MS}; what is held longer, others cannot use")
    if not 0 <= flags["offer_matching_timeout"] <= _LONGEST_WINDOW_MS:
        raise BadFlag(
            "offer_matching_timeout", f"must be 0 to {_LONGEST_WINDOW_MS}; what is held longer, others cannot use"
        )
    if flags["max_queued_offers"] < 0:
        raise BadFlag("max_queued_offers", "must be 0 or more")
    if not 0 <= flags["gang_offer_hold"] <= _LONGEST_WINDOW_MS:
        raise BadFlag("gang_offer_hold", f"must be 0 to {_LONGEST_WINDOW_MS}; what is held longer, others cannot use")
    _check_authentication(flags)
    if flags["new_group_enforce_role"] not in ("off", "top"):
        raise BadFlag("new_group_enforce_role", "must be off or top")
    if not 0 < flags["local_port_min"] <= flags["local_port_max"] <= 65535:
        raise BadFlag("local_port_min", "must be from 1 to --local_port_max, and that 65535 at most")
    if flags["logging_level"] is not None and flags["logging_level"].lower() not in LOGGING_LEVELS:
        raise BadFlag("logging_level", f"must be one of {', '.join(LOGGING_LEVELS)}")
    if flags["draining_seconds"] < 0:
        raise BadFlag("draining_seconds", "must be 0 or more")
    _check_http(flags)
    for name in _POSITIVE:
        if flags[name] is not None and flags[name] < 1:
            raise BadFlag(name, "must be 1 or more")
    return flags


def _check_http(flags: Mapping[str, Any]) -> None:
    for name in ("http_port", "https_port"):
        if flags[name] is not None and not 0 <= flags[name] <= 65535:
            raise BadFlag(name, "ports run from 0 to 65535")
    if flags["http_credentials"] is not None and ":" not in flags["http_credentials"]:
        raise BadFlag("http_credentials", "must be user:password")
    if (flags["ssl_cert_file"] is None) != (flags["ssl_key_file"] is None):
        raise BadFlag("ssl_cert_file", "goes with --ssl_key_file; give both")
    wide = [name for name in ("http_address", "https_address") if flags[name] and not _is_loopback(flags[name])]
    if flags["http_credentials"] is None and not flags["insecure"] and wide:
        raise BadFlag(
            wide[0],
            f"{flags[wide[0]]} can be reached from other machines, and anybody there could run anything here: "
            "set --http_credentials, or --insecure if that is meant",
        )


def _check_authentication(flags: Mapping[str, Any]) -> None:
    given = [name for name in ("mesos_authentication_secret_file", "mesos_authentication_secret") if flags[name]]
    if len(given) == 2:
        raise BadFlag(given[0], f"says the same as --{given[1]}; give one of the two")
    if given and flags["mesos_authentication_principal"] is None:
        raise BadFlag(given[0], "is the secret of --mesos_authentication_principal; give both")
    if flags["mesos_authentication"] and not given:
        raise BadFlag("mesos_authentication", "needs a principal, and its secret: --mesos_authentication_secret_file")


def settings(flags: Mapping[str, Any]) -> Settings:
    """Return what the deciding part needs of the flags."""
    rules = AppRules(
        mesos_role=flags["mesos_role"],
        features=frozenset(flags["enable_features"]),
        default_network_name=flags["default_network_name"],
        bridge_name=flags["mesos_bridge_name"],
        strict=flags["strict_compatibility"],
    )
    return Settings(
        rules=rules,
        gpu_behaviour=GpuBehaviour(flags["gpu_scheduling_behavior"]),
        placement_policy=flags["placement_policy"],
        offer_window_s=flags["offer_window"] / 1000,
        roles_behaviour=RolesBehaviour(flags["accepted_resource_roles_default_behavior"]),
        gang_offer_hold_s=flags["gang_offer_hold"] / 1000,
        priority_aging_s=float(flags["priority_aging"]),
        principal=flags["mesos_authentication_principal"],
        env_prefix=flags["env_vars_prefix"],
        max_instances_per_offer=flags["max_instances_per_offer"],
        decline_offer_s=flags["decline_offer_duration"] / 1000,
        min_revive_interval_s=flags["min_revive_offers_interval"] / 1000,
        launch_timeout_s=flags["task_launch_timeout"] / 1000,
        confirm_timeout_s=flags["task_launch_confirm_timeout"] / 1000,
        max_apps=flags["max_apps"],
        max_versions=flags["zk_max_versions"],
        service_ports=(flags["local_port_min"], flags["local_port_max"]),
        draining_s=float(flags["draining_seconds"]) if flags["maintenance_mode"] else None,
        suppress_offers=flags["suppress_offers"],
        groups_enforce_role=flags["new_group_enforce_role"] == "top",
        reservation_timeout_s=flags["task_reservation_timeout"] / 1000,
        max_concurrent_checks=flags["max_concurrent_marathon_health_checks"],
        kill_retry_s=flags["kill_retry_timeout"] / 1000,
        reconcile_initial_s=flags["reconciliation_initial_delay"] / 1000,
        reconcile_interval_s=flags["reconciliation_interval"] / 1000,
        max_running_deployments=flags["max_running_deployments"],
        launch_tokens=flags["launch_tokens"],
        launch_token_refresh_s=flags["launch_token_refresh_interval"] / 1000,
        max_queued_offers=flags["max_queued_offers"],
        offer_matching_timeout_s=flags["offer_matching_timeout"] / 1000,
    )


def http_settings(flags: Mapping[str, Any]) -> HttpSettings:
    """Return how the API speaks HTTP."""
    return HttpSettings(
        credentials=flags["http_credentials"],
        realm=flags["http_realm"],
        login_hint=flags["login_hint"],
        origins=flags["access_control_allow_origin"],
        compression=flags["http_compression"],
        unknown_uri_status=500 if flags["strict_compatibility"] else 404,
        max_requests=flags["http_max_concurrent_requests"],
        proxy_connect_s=flags["leader_proxy_connection_timeout"] / 1000,
        proxy_read_s=flags["leader_proxy_read_timeout"] / 1000,
        proxy_connections=flags["leader_proxy_max_open_connections"],
    )


def secret(flags: Mapping[str, Any]) -> str | None:
    """Return the secret that we show the master, None when it wants none. Raises BadFlag."""
    path = flags["mesos_authentication_secret_file"]
    if flags["mesos_authentication"] is False:
        return None
    if path is None:
        given: str | None = flags["mesos_authentication_secret"]
        return given
    try:
        # An editor's newline at the end is not part of it.
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFlag("mesos_authentication_secret_file", f"{path} cannot be read: {error}") from None


def zk_limits(flags: Mapping[str, Any]) -> ZkLimits:
    """Return how documents are kept in ZooKeeper."""
    return ZkLimits(
        flags["zk_max_versions"], flags["zk_compression"], flags["zk_compression_threshold"], flags["zk_max_node_size"]
    )


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


def unused(flags: Mapping[str, Any]) -> list[str]:
    """Return what is said at start about flags of ours that do nothing without another."""
    given = [name for name in ("https_port", "https_address") if flags[name] is not None]
    if flags["ssl_cert_file"] is not None:
        return []
    return [f"--{name} does nothing without --ssl_cert_file and --ssl_key_file" for name in given]


def https_settings(flags: Mapping[str, Any]) -> TlsSettings | None:
    """Return how the API speaks TLS, None where it does not."""
    if flags["ssl_cert_file"] is None:
        return None
    return TlsSettings(flags["ssl_cert_file"], flags["ssl_key_file"], tls_1_3=True)


def info(
    flags: Mapping[str, Any],
    *,
    hostname: str,
    port: int,
    build: str,
    https_port: int | None = None,
    tls: bool = False,
    master: str | None = None,
) -> dict[str, Any]:
    """Return what /v2/info shows, without the framework id; with `tls` the master is reached over https.

    `master` is HOST:PORT of the one that took us in, as Marathon shows it (core/leadership: MesosLeaderInfo).
    """
    given = {name: flags[name] for name in ("framework_name", "mesos_role", "failover_timeout", "webui_url")}
    return {
        "name": "marathon",
        "version": API_VERSION,
        "buildref": build,
        "elected": True,
        "leader": f"{hostname}:{port}",
        "marathon_config": {
            **given,
            **{name: flags[name] for name in _SHOWN},
            "master": flags["master"],
            "access_control_allow_origin": list(flags["access_control_allow_origin"]) or None,
            "mesos_leader_ui_url": flags["mesos_leader_ui_url"]
            or _master_url(master or flags["master"], "https" if tls else "http"),
            "mesos_user": flags["mesos_user"],
            "launch_token": flags["launch_tokens"],
            "features": sorted(
                {*flags["enable_features"], GPU_SHARE, GANGS, *(f"{name}={flags[name]}" for name in MATCHING_FLAGS)}
            ),
            "hostname": hostname,
            "checkpoint": True,
            "ha": flags["zk"] is not None,
            "executor": "//cmd",
        },
        "zookeeper_config": _zookeeper_info(flags),
        "http_config": {"http_port": port, "https_port": https_port},
    }


def _zookeeper_info(flags: Mapping[str, Any]) -> dict[str, Any]:
    if flags["zk"] is None:
        return {}
    # Without the credentials.
    return {"zk": str(parse_zk_url("zk", flags["zk"])), **{name: flags[name] for name in _ZOOKEEPER}}


def _master_url(master: str, scheme: str) -> str | None:
    """Return the URL of a master that is named itself; of ZooKeeper, where there is none yet, None."""
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
