"""Who may use the master's endpoints, and which realm guards what.

Source: Mesos src/master/flags.cpp, src/master/master.cpp (initialize: the realm of each route), main.cpp (those of
libprocess itself), src/master/constants.hpp (their names).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from mesos_gpu.errors import BadFlag
from mesos_gpu.master.flags import MasterFlags
from mesos_gpu.mesos.security.authentication import Realm
from mesos_gpu.mesos.security.authorization import Acls
from mesos_gpu.process.access import (
    READONLY,
    READWRITE,
    LiveFiles,
    basic,
    open_acls,
    read_secrets,
)
from mesos_gpu.process.authentication import Gate

FRAMEWORKS, NOBODY_ASKED = "frameworks", "open"
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


def authenticates_drivers(flags: MasterFlags) -> bool:
    """Return whether scheduler drivers must authenticate: by default, if frameworks over HTTP must."""
    asked = flags.authenticate_frameworks
    return flags.authenticate_http_frameworks if asked is None else asked


def protections(flags: MasterFlags) -> dict[str, bool]:
    """Return the flags with which only authenticated callers can see or do anything over the network."""
    return {
        "authenticate_http_readonly": flags.authenticate_http_readonly,
        "authenticate_http_readwrite": flags.authenticate_http_readwrite,
        "authenticate_http_frameworks": flags.authenticate_http_frameworks,
        # Unless it is given, drivers are treated as frameworks over HTTP.
        "authenticate_frameworks": flags.authenticate_frameworks is not False,
        "authenticate_agents": flags.authenticate_agents,
    }


def open_access(flags: MasterFlags) -> Access:
    """Return who may use a master with these flags. Raises BadFlag."""
    if flags.authenticate_http_frameworks and flags.http_framework_authenticators is None:
        raise BadFlag(
            "http_framework_authenticators",
            "is missing: it must be used in conjunction with --authenticate_http_frameworks, as in "
            "--http_framework_authenticators=basic",
        )
    live = LiveFiles()
    secrets = read_secrets("credentials", flags.credentials, live)
    asked = (
        (READONLY, "mesos-master-readonly", "authenticate_http_readonly", flags.authenticate_http_readonly),
        (READWRITE, "mesos-master-readwrite", "authenticate_http_readwrite", flags.authenticate_http_readwrite),
        (FRAMEWORKS, "mesos-master-scheduler", "authenticate_http_frameworks", flags.authenticate_http_frameworks),
    )
    realms = {use: Realm(name, [basic("credentials", secrets, asked_by=flag)]) for use, name, flag, on in asked if on}
    authenticating = any(on for *_, on in asked) or authenticates_drivers(flags) or flags.authenticate_agents
    acls = open_acls(flags.acls, live, authenticating=authenticating)
    return Access(Gate(realms, flags.login_hint), acls, secrets, live)
