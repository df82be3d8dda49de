"""Who may use the agent's endpoints: its flags, and which realm guards what.

Source: Mesos src/slave/flags.cpp, src/slave/slave.cpp (initialize: authenticators, and the realm of each route),
src/slave/constants.hpp (the realms' names).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.mesos.security.authentication import Authenticator, Bearer, Realm
from mesos_gpu.mesos.security.authorization import Acls
from mesos_gpu.process.access import ACCESS_FLAGS, BASIC, READONLY, READWRITE, LiveFiles, basic, open_acls, read_secrets
from mesos_gpu.process.authentication import Gate
from mesos_gpu.process.program import read_secret

log = logging.getLogger(__name__)

EXECUTORS, NOBODY_ASKED, JWT = "executors", "open", "jwt"
AGENT_ACCESS_FLAGS: Sequence[Flag] = (
    *ACCESS_FLAGS,
    Flag(
        "http_authenticators",
        "list",
        None,
        "How callers show who they are: basic, jwt; default: those that are needed.",
    ),
    Flag(
        "http_credentials",
        "path",
        None,
        'File of the credentials of callers: {"credentials": [{"principal": ..., "secret": ...}]}, or a line for each.',
    ),
    Flag("authenticate_http_executors", "boolean", False, "Listen only to executors with the token they were given."),
    Flag("jwt_secret_key", "path", None, "File with the key that signs executors' tokens."),
    Flag("authorizer", "text", "local", "Authorizer that applies --acls: local."),
)
WALLS = ("authenticate_http_readonly", "authenticate_http_readwrite")
"""With these, nobody can see or change anything over HTTP without having shown who they are."""
_REALMS = {
    READONLY: ("authenticate_http_readonly", "mesos-agent-readonly"),
    READWRITE: ("authenticate_http_readwrite", "mesos-agent-readwrite"),
    EXECUTORS: ("authenticate_http_executors", "mesos-agent-executor"),
}
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


def open_access(flags: Mapping[str, Any]) -> Access:
    """Return who may use an agent with these flags. Raises BadFlag."""
    key = None
    if flags["jwt_secret_key"] is not None:
        key = read_secret("jwt_secret_key", flags["jwt_secret_key"]).encode()
        if not key:
            raise BadFlag("jwt_secret_key", "is empty")
    if flags["authenticate_http_executors"] and key is None:
        raise BadFlag("jwt_secret_key", "must be specified when --authenticate_http_executors is set to true")
    tokens = flags["authenticate_http_executors"] or JWT in (flags["http_authenticators"] or ())
    if flags["authenticate_http_readwrite"] and not tokens:
        log.warning(
            "--authenticate_http_readwrite without --authenticate_http_executors: task groups cannot run here, because "
            "their executor makes its containers by the same calls as operators, and has no secret to show"
        )
    live = LiveFiles()
    secrets = read_secrets("http_credentials", flags["http_credentials"], live)
    realms = {
        # A token that an executor shows identifies it, also where executors without one are let in.
        use: Realm(name, _authenticators(flags, use, flag, secrets, key), required=flags[flag])
        for use, (flag, name) in _REALMS.items()
        if flags[flag] or (use == EXECUTORS and key is not None)
    }
    return Access(Gate(realms, flags["login_hint"]), open_acls(flags, "authorizer", WALLS, live), key, live)


def _authenticators(
    flags: Mapping[str, Any], use: str, flag: str, secrets: Mapping[str, str] | None, key: bytes | None
) -> list[Authenticator]:
    """Return the ways into a realm. An executor cannot have a secret of its own: it has nothing but its token."""
    asked = flags["http_authenticators"]
    if asked is None:
        asked = (BASIC, JWT) if flags["authenticate_http_executors"] else (BASIC,)
    strange = [name for name in asked if name not in (BASIC, JWT)]
    if strange:
        raise BadFlag("http_authenticators", f"{strange[0]} is not supported; {BASIC} and {JWT} are")
    found: list[Authenticator] = []
    if BASIC in asked and use != EXECUTORS:
        found.append(basic("http_credentials", secrets, asked_by=flag))
    if JWT in asked and key is None:
        raise BadFlag("jwt_secret_key", f"is needed with --http_authenticators={JWT}")
    if key is not None and (JWT in asked or use == EXECUTORS):
        found.append(Bearer(key))
    return found
