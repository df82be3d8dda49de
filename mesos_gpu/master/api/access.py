"""Who may use the master's endpoints: its flags, and which realm guards what.

Source: Mesos src/master/flags.cpp, src/master/master.cpp (initialize: the realm of each route), main.cpp (those of
libprocess itself), src/master/constants.hpp (their names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.mesos.security.authentication import Realm
from mesos_gpu.mesos.security.authorization import Acls
from mesos_gpu.process.access import (
    ACCESS_FLAGS,
    BASIC,
    READONLY,
    READWRITE,
    LiveFiles,
    basic,
    check_authenticators,
    open_acls,
    read_secrets,
)
from mesos_gpu.process.authentication import Gate

FRAMEWORKS, NOBODY_ASKED = "frameworks", "open"
MASTER_ACCESS_FLAGS: Sequence[Flag] = (
    *ACCESS_FLAGS,
    Flag("http_authenticators", "text", BASIC, "How callers show who they are: basic."),
    Flag("authorizers", "text", "local", "Authorizer that applies --acls: local."),
    Flag("authenticate_http_frameworks", "boolean", False, "Subscribe only frameworks that have shown who they are."),
    Flag("http_framework_authenticators", "text", None, "How frameworks show who they are: basic."),
)
WALLS = (
    "authenticate_http_readonly",
    "authenticate_http_readwrite",
    "authenticate_http_frameworks",
    "authenticate_frameworks",
    "authenticate_agents",
)
"""With all of these, nobody can see or do anything over the network without having shown who they are."""
_REALMS = {
    READONLY: ("authenticate_http_readonly", "mesos-master-readonly"),
    READWRITE: ("authenticate_http_readwrite", "mesos-master-readwrite"),
    FRAMEWORKS: ("authenticate_http_frameworks", "mesos-master-scheduler"),
}
_USES = {
    **dict.fromkeys(("health", "redirect", "version", "system/stats.json", "help"), NOBODY_ASKED),
    **dict.fromkeys(("api/v1", "weights", "quota", "teardown", "logging/toggle"), READWRITE),
    **dict.fromkeys(("reserve", "unreserve", "create-volumes", "destroy-volumes"), READWRITE),
    **dict.fromkeys(("maintenance/schedule", "machine/down", "machine/up"), READWRITE),
    "api/v1/scheduler": FRAMEWORKS,
}


def use_of(endpoint: str, method: str) -> str:
    """Return what an endpoint is for, by its name without `/master`, whatever the method: what guards it.

    What is not known is looked at.
    """
    return _USES.get(endpoint, READONLY)


class Access(Struct, frozen=True):
    """What the flags come to. `secrets` None: this master knows none. `live` keeps what files say."""

    gate: Gate
    acls: Acls
    secrets: Mapping[str, str] | None
    live: LiveFiles = field(default_factory=LiveFiles)


def open_access(flags: Mapping[str, Any]) -> Access:
    """Return who may use a master with these flags. Raises BadFlag."""
    check_authenticators(flags, "http_authenticators", "http_framework_authenticators")
    if flags["authenticate_http_frameworks"] and flags["http_framework_authenticators"] is None:
        raise BadFlag(
            "http_framework_authenticators",
            "is missing: it must be used in conjunction with --authenticate_http_frameworks, as in "
            "--http_framework_authenticators=basic",
        )
    live = LiveFiles()
    secrets = read_secrets("credentials", flags["credentials"], live)
    realms = {
        use: Realm(name, [basic("credentials", secrets, asked_by=flag)])
        for use, (flag, name) in _REALMS.items()
        if flags[flag]
    }
    return Access(Gate(realms, flags["login_hint"]), open_acls(flags, "authorizers", WALLS, live), secrets, live)
