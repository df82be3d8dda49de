"""What /version tells of the build, as Mesos' VersionInfo: when this code was last changed or installed.

Source: Mesos src/version/version.cpp, include/mesos/mesos.proto (VersionInfo: build_time in seconds since 1970).
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.version import MESOS_VERSION

PACKAGE = Path(__file__).parent.parent


@cache
def build(package: Path = PACKAGE) -> Document:
    """Return the VersionInfo of this package; its time is that of its newest module, in whole seconds."""
    built_s = int(max((path.stat().st_mtime for path in package.rglob("*.py")), default=0.0))
    built = datetime.fromtimestamp(built_s, timezone.utc)
    return {
        "build_date": f"{built:%Y-%m-%d %H:%M:%S} UTC",
        "build_time": float(built_s),
        "build_user": "mesos-gpu",
        "version": MESOS_VERSION,
    }
