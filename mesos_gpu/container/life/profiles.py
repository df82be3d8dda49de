"""Seccomp profiles in files, and which of them a container has.

Source: Mesos src/slave/containerizer/mesos/isolators/linux/seccomp.cpp.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.container.spec.bundle import HostSetting
from mesos_gpu.container.spec.linux import LinuxSettings
from mesos_gpu.container.spec.seccomp import Profile, read_profile
from mesos_gpu.errors import BadInput


class Profiles(Struct, frozen=True):
    """The profiles of one agent; `folder` is that of --seccomp_config_dir."""

    folder: Path | None = None

    def read(self, name: str) -> Profile:
        """Return a profile by its path in the folder. Raises BadInput."""
        if self.folder is None:
            raise BadInput(f"no Seccomp profile {name!r}: this agent has no folder of them (--seccomp_config_dir)")
        place = PurePosixPath(name)
        if not place.parts or place.is_absolute() or ".." in place.parts or "\0" in name:
            raise BadInput(f"the Seccomp profile {name!r} is not a path in the folder of --seccomp_config_dir")
        try:
            document = msgspec.json.decode((self.folder / place).read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInput(f"Failed to read Seccomp profile '{name}': {words}") from None
        return read_profile(document, name)

    def fitted(self, host: HostSetting, settings: LinuxSettings) -> HostSetting:
        """Return the setting of a container that may ask for a profile of its own, or for none. Raises BadInput."""
        if settings.seccomp_profile is None and not settings.unconfined:
            return host
        profile = None if settings.seccomp_profile is None else self.read(settings.seccomp_profile)
        return replace(host, hardening=replace(host.hardening, seccomp=profile))
