"""What flags say of how containers are hardened: system calls, AppArmor, privileges, processes, user namespaces.

Source: Mesos src/slave/flags.cpp, src/slave/containerizer/mesos/isolators/linux/{seccomp,nnp}.cpp.
"""

from __future__ import annotations

import grp
import pwd
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.agent.model.namespace_exits import NamespaceExits
from mesos_gpu.container.life.opening import usual_hardening
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.container.spec.id_pool import IdPool, Owner, check_others, cut, subordinate
from mesos_gpu.container.spec.user_namespace import FEWEST, read_range
from mesos_gpu.errors import BadFlag, BadInput

UNCONFINED = "unconfined"
NO_NEW_PRIVILEGES = "linux/nnp"
DEFAULT_OWNER = "mesos-gpu"
"""Whose subordinate numbers `--userns_remap=default` means; Docker's `default` is its user dockremap."""


def open_hardening(flags: AgentFlags) -> tuple[Hardening, Profiles]:
    """Return how containers are hardened, and the profiles that tasks may name. Raises BadFlag."""
    folder, name, limit = flags.seccomp_config_dir, flags.seccomp_profile_name, flags.container_pids_limit
    if folder is not None and not Path(folder).is_dir():
        raise BadFlag("seccomp_config_dir", f"'{folder}' is not a folder of Seccomp profiles")
    profiles, found = Profiles(None if folder is None else Path(folder).absolute()), usual_hardening()
    if name == UNCONFINED:
        found = replace(found, seccomp=None)
    elif name is not None:
        if folder is None:
            raise BadFlag("seccomp_config_dir", "is needed with --seccomp_profile_name: the folder that it is in")
        try:
            found = replace(found, seccomp=profiles.read(name))
        except BadInput as error:
            raise BadFlag("seccomp_profile_name", str(error)) from None
    if limit is not None:
        found = replace(found, pids_limit=limit or None)
    nnp, confined = NO_NEW_PRIVILEGES in flags.isolation, not flags.user_privileges
    if flags.apparmor_profile:
        check_apparmor(flags.apparmor_profile)
        found = replace(found, apparmor=flags.apparmor_profile)
    return replace(found, no_new_privileges=nnp, users_confined=confined), profiles


def check_apparmor(profile: str, root: Path = Path("/")) -> None:
    """Raise BadFlag unless the kernel has AppArmor on and this profile loaded; `root` is where /sys lies."""
    try:
        on = (root / "sys/module/apparmor/parameters/enabled").read_text().strip() == "Y"
    except OSError:
        on = False
    if not on:
        raise BadFlag("apparmor_profile", f"this kernel has no AppArmor, or has it off, so {profile} cannot hold")
    listed = root / "sys/kernel/security/apparmor/profiles"
    try:
        # `docker-default (enforce)`
        loaded = [line.rpartition(" (")[0] for line in listed.read_text().splitlines()]
    except OSError as error:
        raise BadFlag("apparmor_profile", f"which profiles are loaded cannot be read: {error}") from None
    if profile not in loaded:
        raise BadFlag(
            "apparmor_profile",
            f"{profile} is not loaded (`aa-status` lists those that are): `apparmor_parser -r FILE` loads one; "
            "docker-default is there where Docker runs",
        )


def open_user_namespaces(text: str | None, each: int = FEWEST, root: Path = Path("/")) -> IdPool | None:
    """Return the numbers that --userns_remap gives to users of containers, None where they have no namespace.

    Each container has `each` of them (--userns_remap_size). Raises BadFlag for what is no such range, and for one in
    which a user or group of this host lies, or numbers that /etc/subuid or /etc/subgid gives to somebody else; `root`
    is where /etc lies.
    """
    if not text:
        if each != FEWEST:
            raise BadFlag("userns_remap_size", "is the size of what --userns_remap gives, which is not given")
        return None
    try:
        texts = _texts(root)
        owners = () if text[:1].isdigit() else _owners(text)
        ids = subordinate(*owners, *texts) if owners else read_range(text)
        # Numbers that are set aside for agents, or for root, are nobody else's.
        check_others(ids, owners or (Owner(DEFAULT_OWNER), Owner("root", 0)), *texts)
    except (BadInput, OSError) as error:
        raise BadFlag("userns_remap", str(error)) from None
    accounts = [(f"user {entry.pw_name}", entry.pw_uid) for entry in pwd.getpwall()]
    accounts += [(f"group {entry.gr_name}", entry.gr_gid) for entry in grp.getgrall()]
    for name, number in accounts:
        if number in ids:
            words = f"the {name} of this host, {number}, lies in {ids}, so that containers could act as it"
            raise BadFlag("userns_remap", f"{words}; name a range that is nobody's, as /etc/subuid would")
    try:
        return cut(ids, each)
    except BadInput as error:
        raise BadFlag("userns_remap_size", str(error)) from None


def _owners(text: str) -> tuple[Owner, Owner]:
    """Return the user and the group that USER, USER:GROUP or `default` names."""
    user, _, group = (DEFAULT_OWNER if text == "default" else text).partition(":")
    uid = gid = None
    with suppress(KeyError):
        uid = pwd.getpwnam(user).pw_uid
    with suppress(KeyError):
        gid = grp.getgrnam(group or user).gr_gid
    return Owner(user, uid), Owner(group or user, gid)


def _texts(root: Path) -> list[str]:
    """Return /etc/subuid and /etc/subgid, "" for one that does not exist. Raises OSError."""
    files = [root / "etc" / name for name in ("subuid", "subgid")]
    return [path.read_text() if path.exists() else "" for path in files]


def open_exits(users: IdPool | None, *, allowed: bool) -> NamespaceExits:
    """Return which tasks may do without a user namespace. Raises BadFlag where nobody has one."""
    if allowed and users is None:
        raise BadFlag("userns_remap_exempt", "exempts tasks from --userns_remap, which is not given")
    return NamespaceExits(remapped=users is not None, allowed=allowed)
