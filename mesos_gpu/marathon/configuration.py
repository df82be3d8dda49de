"""What the flags of mesos-gpu-marathon mean together."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.api.openapi_routes import API_VERSION
from mesos_gpu.marathon.definitions.app import AppRules
from mesos_gpu.marathon.definitions.app_settings import GANGS, GPU_SHARE, MATCHING_FLAGS
from mesos_gpu.marathon.flags import IN_INFO, IN_ZOOKEEPER_INFO, MarathonFlags
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.store.zk_limits import ZkLimits
from mesos_gpu.mesos.flags import flags_of, without_credentials
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.mesos.security.tls_settings import TlsSettings

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


def checked(flags: MarathonFlags) -> MarathonFlags:
    """Return the flags. Raises BadFlag if they contradict each other."""
    if flags.zk is not None:
        parse_zk_url("zk", flags.zk)
        if flags.store_path is not None:
            raise BadFlag("store_path", "with --zk everything is kept in ZooKeeper; give one of the two")
    _check_authentication(flags)
    if flags.local_port_min > flags.local_port_max:
        raise BadFlag("local_port_min", f"is more than --local_port_max, which is {flags.local_port_max}")
    if flags.logging_level is not None and flags.logging_level.lower() not in LOGGING_LEVELS:
        raise BadFlag("logging_level", f"must be one of {', '.join(LOGGING_LEVELS)}")
    _check_http(flags)
    return flags


def _check_http(flags: MarathonFlags) -> None:
    if flags.http_credentials is not None and ":" not in flags.http_credentials:
        raise BadFlag("http_credentials", "must be user:password")
    if (flags.ssl_cert_file is None) != (flags.ssl_key_file is None):
        raise BadFlag("ssl_cert_file", "goes with --ssl_key_file; give both")
    if flags.disable_http and flags.ssl_cert_file is None:
        raise BadFlag("disable_http", "leaves nothing to listen at without --ssl_cert_file and --ssl_key_file")
    addresses = (("http_address", flags.http_address), ("https_address", flags.https_address))
    wide = [(name, address) for name, address in addresses if address and not _is_loopback(address)]
    if flags.http_credentials is None and not flags.insecure and wide:
        name, address = wide[0]
        raise BadFlag(
            name,
            f"{address} can be reached from other machines, and anybody there could run anything here: "
            "set --http_credentials, or --insecure if that is meant",
        )


def _check_authentication(flags: MarathonFlags) -> None:
    secrets = (
        ("mesos_authentication_secret_file", flags.mesos_authentication_secret_file),
        ("mesos_authentication_secret", flags.mesos_authentication_secret),
    )
    given = [name for name, value in secrets if value]
    if len(given) == 2:
        raise BadFlag(given[0], f"says the same as --{given[1]}; give one of the two")
    if given and flags.mesos_authentication_principal is None:
        raise BadFlag(given[0], "is the secret of --mesos_authentication_principal; give both")
    if flags.mesos_authentication and not given:
        raise BadFlag("mesos_authentication", "needs a principal, and its secret: --mesos_authentication_secret_file")


def settings(flags: MarathonFlags) -> Settings:
    """Return what the deciding part needs of the flags."""
    rules = AppRules(
        mesos_role=Role(flags.mesos_role),
        features=frozenset(flags.enable_features),
        default_network_name=flags.default_network_name,
        bridge_name=flags.mesos_bridge_name,
        strict=flags.strict_compatibility,
    )
    return Settings(
        rules=rules,
        gpu_behaviour=GpuBehaviour(flags.gpu_scheduling_behavior),
        placement_policy=flags.placement_policy,
        offer_window_s=flags.offer_window,
        roles_behaviour=RolesBehaviour(flags.accepted_resource_roles_default_behavior),
        gang_offer_hold_s=flags.gang_offer_hold,
        priority_aging_s=float(flags.priority_aging),
        principal=flags.mesos_authentication_principal,
        env_prefix=flags.env_vars_prefix,
        max_instances_per_offer=flags.max_instances_per_offer,
        decline_offer_s=flags.decline_offer_duration,
        min_revive_interval_s=flags.min_revive_offers_interval,
        launch_timeout_s=flags.task_launch_timeout,
        confirm_timeout_s=flags.task_launch_confirm_timeout,
        max_apps=flags.max_apps,
        max_versions=flags.zk_max_versions,
        service_ports=(flags.local_port_min, flags.local_port_max),
        draining_s=float(flags.draining_seconds) if flags.maintenance_mode else None,
        suppress_offers=flags.suppress_offers,
        groups_enforce_role=flags.new_group_enforce_role == "top",
        reservation_timeout_s=flags.task_reservation_timeout,
        max_concurrent_checks=flags.max_concurrent_marathon_health_checks,
        kill_retry_s=flags.kill_retry_timeout,
        reconcile_initial_s=flags.reconciliation_initial_delay,
        reconcile_interval_s=flags.reconciliation_interval,
        max_running_deployments=flags.max_running_deployments,
        launch_tokens=flags.launch_tokens,
        launch_token_refresh_s=flags.launch_token_refresh_interval,
        max_queued_offers=flags.max_queued_offers,
        offer_matching_timeout_s=flags.offer_matching_timeout,
    )


def http_settings(flags: MarathonFlags) -> HttpSettings:
    """Return how the API speaks HTTP."""
    return HttpSettings(
        credentials=flags.http_credentials,
        realm=flags.http_realm,
        login_hint=flags.login_hint,
        origins=flags.access_control_allow_origin,
        compression=flags.http_compression,
        unknown_uri_status=500 if flags.strict_compatibility else 404,
        max_requests=flags.http_max_concurrent_requests,
        proxy_connect_s=flags.leader_proxy_connection_timeout,
        proxy_read_s=flags.leader_proxy_read_timeout,
        proxy_connections=flags.leader_proxy_max_open_connections,
        leader_tls=_leader_tls(flags),
        only_https=flags.disable_http,
    )


def _leader_tls(flags: MarathonFlags) -> ssl.SSLContext | None:
    """Return the context for https connections to the leader; None without certificates. Raises BadFlag."""
    if flags.ssl_cert_file is None and flags.ssl_ca_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=flags.ssl_ca_file)
    except OSError as error:
        raise BadFlag("ssl_ca_file", f"cannot use {flags.ssl_ca_file}: {error.strerror or error}") from None
    context.check_hostname = not flags.leader_proxy_ssl_ignore_hostname
    return context


def secret(flags: MarathonFlags) -> str | None:
    """Return the secret that we show the master, None when it wants none. Raises BadFlag."""
    path = flags.mesos_authentication_secret_file
    if flags.mesos_authentication is False:
        return None
    if path is None:
        return flags.mesos_authentication_secret
    try:
        # An editor's newline at the end is not part of it.
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFlag("mesos_authentication_secret_file", f"{path} cannot be read: {error}") from None


def zk_limits(flags: MarathonFlags) -> ZkLimits:
    """Return how documents are kept in ZooKeeper."""
    return ZkLimits(flags.zk_max_versions, flags.zk_compression, flags.zk_compression_threshold, flags.zk_max_node_size)


def store_path(flags: MarathonFlags, state_home: str | None, home: str) -> Path:
    """Return where the store is: as asked, else in the user's state folder."""
    if flags.store_path is not None:
        return Path(flags.store_path)
    base = Path(state_home) if state_home else Path(home) / ".local" / "state"
    return base / "mesos-gpu" / "marathon.db"


def framework_info(flags: MarathonFlags, *, user: str, hostname: str, port: int) -> dict[str, Any]:
    """Return the FrameworkInfo to subscribe with, without an id."""
    capabilities = ["PARTITION_AWARE", "MULTI_ROLE", "REGION_AWARE", "TASK_KILLING_STATE"]
    if "gpu_resources" in flags.enable_features:
        capabilities.append("GPU_RESOURCES")
    principal = flags.mesos_authentication_principal
    return {
        "user": user,
        "name": flags.framework_name,
        **({} if principal is None else {"principal": principal}),
        "roles": [flags.mesos_role],
        "checkpoint": True,
        "failover_timeout": float(flags.failover_timeout),
        "hostname": hostname,
        "webui_url": flags.webui_url or f"{'https' if flags.disable_http else 'http'}://{hostname}:{port}",
        "capabilities": [{"type": name} for name in capabilities],
    }


def unused(flags: MarathonFlags) -> list[str]:
    """Return what is said at start about flags of ours that do nothing without another."""
    if flags.ssl_cert_file is not None:
        return []
    given = (("https_port", flags.https_port), ("https_address", flags.https_address))
    return [f"--{name} does nothing without --ssl_cert_file and --ssl_key_file" for name, it in given if it is not None]


def https_settings(flags: MarathonFlags) -> TlsSettings | None:
    """Return how the API speaks TLS, None where it does not."""
    if flags.ssl_cert_file is None or flags.ssl_key_file is None:
        return None
    return TlsSettings(flags.ssl_cert_file, flags.ssl_key_file, tls_1_3=True)


def info(
    flags: MarathonFlags,
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
    return {
        "name": "marathon",
        "version": API_VERSION,
        "buildref": build,
        "elected": True,
        "leader": f"{hostname}:{port}",
        "marathon_config": {
            **_shown(flags, IN_INFO),
            "access_control_allow_origin": list(flags.access_control_allow_origin) or None,
            "mesos_leader_ui_url": flags.mesos_leader_ui_url
            or _master_url(master or flags.master, "https" if tls else "http"),
            "launch_token": flags.launch_tokens,
            "features": sorted(
                {
                    *flags.enable_features,
                    GPU_SHARE,
                    GANGS,
                    *(f"{name}={getattr(flags, name)}" for name in MATCHING_FLAGS),
                }
            ),
            "hostname": hostname,
            "checkpoint": True,
            "ha": flags.zk is not None,
            "executor": "//cmd",
        },
        "zookeeper_config": _zookeeper_info(flags),
        "http_config": {"http_port": None if flags.disable_http else port, "https_port": https_port},
    }


def _zookeeper_info(flags: MarathonFlags) -> dict[str, Any]:
    if flags.zk is None:
        return {}
    # Without the credentials.
    return {"zk": str(parse_zk_url("zk", flags.zk)), **_shown(flags, IN_ZOOKEEPER_INFO)}


def _shown(flags: MarathonFlags, part: str) -> dict[str, Any]:
    """Return the flags that a part of /v2/info shows as they are, but for the credentials of URLs."""
    shown = {
        flag.name: flag.kind.json(getattr(flags, flag.name))
        for flag in flags_of(MarathonFlags)
        if flag.shown_in == part
    }
    return {name: without_credentials(value) if isinstance(value, str) else value for name, value in shown.items()}


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
