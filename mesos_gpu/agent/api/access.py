"""Who may use the agent's endpoints: and which realm guards what.

Source: Mesos src/slave/flags.cpp, src/slave/slave.cpp (initialize: authenticators, and the realm of each route),
src/slave/constants.hpp (the realms' names).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.security.authentication import Authenticator, Bearer, Realm
from mesos_gpu.mesos.security.authorization import Acls
from mesos_gpu.process.access import BASIC, READONLY, READWRITE, LiveFiles, basic, open_acls, read_secrets
from mesos_gpu.process.authentication import Gate
from mesos_gpu.process.program import read_secret

log = logging.getLogger(__name__)

EXECUTORS, NOBODY_ASKED, JWT = "executors", "open", "jwt"
_USES = {
    **dict.fromkeys(("health", "version", "system/stats.json", "help"), NOBODY_ASKED),
    **dict.fromkeys(("api/v1", "logging/toggle"), READWRITE),
    **dict.fromkeys(("state", "flags", "metrics/snapshot", "containers", "monitor/statistics"), READONLY),
    **dict.fromkeys(("files/browse", "files/read", "files/download", "files/debug"), READONLY),
    "api/v1/executor": EXECUTORS,
}


def use_of(endpoint: str, method: str) -> str:
    """Return what an endpoint is for, by its name without `/slave(1)`: what guards it.

    What is not known is looked at, and changed by anything but GET and HEAD.
    """
    return _USES.get(endpoint, READONLY if method in ("GET", "HEAD") else READWRITE)


@dataclass(frozen=True, slots=True)
class Access:
    """What the flags come to. `executor_key`: what executors' tokens are signed with, None when they are given none."""

    gate: Gate
    acls: Acls
    executor_key: bytes | None = field(default=None, repr=False)
    live: LiveFiles = field(default_factory=LiveFiles)
    """Keeps what files say."""


def protections(flags: AgentFlags) -> dict[str, bool]:
    """Return the flags with which only authenticated callers can see or change anything over HTTP."""
    return {
        "authenticate_http_readonly": flags.authenticate_http_readonly,
        "authenticate_http_readwrite": flags.authenticate_http_readwrite,
    }


def authenticates_all(flags: AgentFlags) -> bool:
    """Return whether no HTTP request is answered without credentials or a token, also not over a socket file."""
    return all(protections(flags).values()) and flags.authenticate_http_executors


def open_access(flags: AgentFlags) -> Access:
    """Return who may use an agent with these flags. Raises BadFlag."""
    keys = () if flags.jwt_secret_key is None else _keys(flags.jwt_secret_key)
    if flags.authenticate_http_executors and not keys:
        raise BadFlag("jwt_secret_key", "must be specified when --authenticate_http_executors is set to true")
    tokens = flags.authenticate_http_executors or JWT in (flags.http_authenticators or ())
    if flags.authenticate_http_readwrite and not tokens:
        log.warning(
            "--authenticate_http_readwrite without --authenticate_http_executors: task groups cannot run here, because "
            "their executor makes its containers by the same calls as operators, and has no secret to show"
        )
    live = LiveFiles()
    secrets = read_secrets("http_credentials", flags.http_credentials, live)
    asked = (
        (READONLY, "mesos-agent-readonly", "authenticate_http_readonly", flags.authenticate_http_readonly),
        (READWRITE, "mesos-agent-readwrite", "authenticate_http_readwrite", flags.authenticate_http_readwrite),
        (EXECUTORS, "mesos-agent-executor", "authenticate_http_executors", flags.authenticate_http_executors),
    )
    realms = {
        # A token that an executor shows identifies it, also where executors without one are let in.
        use: Realm(name, _authenticators(flags, use, flag, secrets, keys), required=required)
        for use, name, flag, required in asked
        if required or (use == EXECUTORS and keys)
    }
    acls = open_acls(flags.acls, live, authenticating=any(protections(flags).values()))
    return Access(Gate(realms, flags.login_hint), acls, keys[0] if keys else None, live)


def _keys(value: str) -> list[bytes]:
    """Return the keys of --jwt_secret_key: a file, or several after commas, each an absolute path. Raises BadFlag."""
    first, *others = re.split(",(?=/)", value) if value.startswith("/") else [value]
    keys = [read_secret("jwt_secret_key", one).encode() for one in (first, *others)]
    if b"" in keys:
        raise BadFlag("jwt_secret_key", f"{(first, *others)[keys.index(b'')]} is empty")
    return keys


def _authenticators(
    flags: AgentFlags, use: str, flag: str, secrets: Mapping[str, str] | None, keys: Sequence[bytes]
) -> list[Authenticator]:
    """Return the ways into a realm. An executor cannot have a secret of its own: it has nothing but its token."""
    asked = flags.http_authenticators
    if asked is None:
        asked = (BASIC, JWT) if flags.authenticate_http_executors else (BASIC,)
    found: list[Authenticator] = []
    if BASIC in asked and use != EXECUTORS:
        found.append(basic("http_credentials", secrets, asked_by=flag))
    if JWT in asked and not keys:
        raise BadFlag("jwt_secret_key", f"is needed with --http_authenticators={JWT}")
    if keys and (JWT in asked or use == EXECUTORS):
        found.append(Bearer(keys))
    return found
