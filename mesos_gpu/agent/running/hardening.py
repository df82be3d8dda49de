"""What flags say of how containers are hardened: system calls, privileges, processes.

Source: Mesos src/slave/flags.cpp, src/slave/containerizer/mesos/isolators/linux/{seccomp,nnp}.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mesos_gpu.container.life.opening import usual_hardening
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.errors import BadFlag, BadInput

UNCONFINED = "unconfined"
NO_NEW_PRIVILEGES = "linux/nnp"


def open_hardening(flags: Mapping[str, Any]) -> tuple[Hardening, Profiles]:
    """Return how containers are hardened, and the profiles that tasks may name. Raises BadFlag."""
    folder, name, limit = flags["seccomp_config_dir"], flags["seccomp_profile_name"], flags["container_pids_limit"]
    if folder is not None and not Path(folder).is_dir():
        raise BadFlag("seccomp_config_dir", f"'{folder}' is not a folder of Seccomp profiles")
    if limit is not None and limit < 0:
        raise BadFlag("container_pids_limit", f"{limit} is negative; 0 sets no limit")
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
    nnp, confined = NO_NEW_PRIVILEGES in flags["isolation"], not flags["user_privileges"]
    return replace(found, no_new_privileges=nnp, users_confined=confined), profiles
