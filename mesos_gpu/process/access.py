"""Who may use the HTTP endpoints of a master or an agent, from the values of its flags."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.security.authentication import Basic
from mesos_gpu.mesos.security.authorization import OPEN, Acls, read_acls
from mesos_gpu.mesos.security.cram_md5 import read_credentials
from mesos_gpu.process.program import read_secret

log = logging.getLogger(__name__)

BASIC = "basic"
READONLY, READWRITE = "readonly", "readwrite"

LOOK_S = 1.0
"""How often files of credentials and lists are looked at."""
Kept: TypeAlias = dict[str, Any]


class LiveFiles:
    """Files that flags name, whose content counts again when it changes: who asks, and what he may do.

    What was read is changed in place, between two events of the loop. A file that says nothing that can be read leaves
    everything as it was, and the log says why; so does one that is gone for the moment.
    """

    def __init__(self) -> None:
        self._files: list[tuple[str, Path, Kept, Callable[[], Mapping[str, Any]]]] = []
        self._seen: dict[Path, object] = {}

    def add(self, flag: str, value: str | None, kept: Kept | None, read: Callable[[], Mapping[str, Any]]) -> None:
        """Keep `kept` as what `read` returns of the file that the flag's value names; a value that is none stays."""
        if value is not None and kept is not None and value.startswith("/"):
            path = Path(value)
            self._files.append((flag, path, kept, read))
            self._seen[path] = file_print(path)

    def look(self) -> None:
        """Read again what has changed."""
        for flag, path, kept, read in self._files:
            seen = file_print(path)
            if seen is None or seen == self._seen[path]:
                continue
            self._seen[path] = seen
            try:
                found = read()
            except BadFlag as error:
                log.warning("%s has changed and cannot be used, so what it said before counts: %s", path, error)
                continue
            kept.clear()
            kept.update(found)
            log.info("--%s: %s has changed, and counts", flag, path)

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while self._files:
            await asyncio.sleep(LOOK_S)
            self.look()


def file_print(path: Path) -> object:
    """Return what is different after each change of a file, None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_secrets(flag: str, value: str | None, live: LiveFiles) -> dict[str, str] | None:
    """Return secrets by principal from the file that a flag names, which `live` keeps; None without one.

    Raises BadFlag.
    """
    if value is None:
        return None

    def read() -> dict[str, str]:
        secrets = read_credentials(flag, read_secret(flag, value))
        if not secrets:
            raise BadFlag(flag, "must contain at least one credential")
        return secrets

    secrets = read()
    live.add(flag, value, secrets, read)
    return secrets


def open_acls(value: str | None, live: LiveFiles, *, authenticating: bool) -> Acls:
    """Return the lists of --acls; without any, everybody may do anything. Those of a file are kept by `live`.

    `authenticating`: a flag has callers asked who they are. Raises BadFlag.
    """
    if value is None:
        return OPEN
    if not authenticating:
        log.warning(
            "--acls without --authenticate_http_readonly and its like: callers are not asked to authenticate, so each "
            "counts as ANY"
        )

    def read() -> Acls:
        return read_acls("acls", read_secret("acls", value, shared=True))

    acls = read()
    lists = dict(acls.lists)

    def again() -> Mapping[str, Any]:
        found = read()
        if found.permissive != acls.permissive:
            raise BadFlag("acls", '"permissive" has changed, which takes a restart')
        return found.lists

    live.add("acls", value, lists, again)
    return replace(acls, lists=lists)


def basic(flag: str, secrets: Mapping[str, str] | None, *, asked_by: str) -> Basic:
    """Return what knows these secrets. Raises BadFlag when there are none: nobody could ever be let in."""
    if secrets is None:
        raise BadFlag(flag, f"is needed with --{asked_by}: the file of principals and secrets")
    return Basic(secrets)


def check_address(
    ip: str,
    advertise_ip: str | None,
    protections: Mapping[str, bool],
    *,
    insecure: bool,
    reached_by: str,
    credentials: str,
) -> None:
    """Check where a program is to listen: beyond its machine only when the flags `protections` are all set.

    `reached_by` says who needs the address, as "agents reach this master"; `credentials` is the flag with the secrets.
    Raises BadFlag.
    """
    for name, address in (("ip", ip), ("advertise_ip", advertise_ip)):
        if address is not None and not _is_ipv4(address):
            raise BadFlag(name, f"'{address}' is not an IPv4 address")
    if ip == "0.0.0.0" and advertise_ip is None:  # a word of Mesos, nothing listens  # nosec B104
        raise BadFlag("advertise_ip", f"is needed with --ip=0.0.0.0: the address that {reached_by} at")
    missing = " ".join(f"--{name}" for name, given in protections.items() if not given)
    if missing and not insecure and not ipaddress.IPv4Address(ip).is_loopback:
        raise BadFlag(
            "ip",
            f"{ip} is reachable from other machines, and not everybody there would have to show credentials: "
            f"say {missing} with --{credentials}, or --insecure if you mean it",
        )


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
