"""Which GPUs are divided into which MIG instances: the flag --mig_profiles. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.gpu.mig_layout import read_wanted
from mesos_gpu.mesos.flags import Flag

MIG_FLAGS: Sequence[Flag] = (
    Flag(
        "mig_strategy",
        "text",
        "none",
        "GPUs in MIG mode: none leaves them out, single gives each instance.",
    ),
    Flag(
        "mig_profiles",
        "text",
        None,
        "How GPUs in MIG mode are divided when the agent starts, such as 0:3g.20gb,2x1g.5gb;1:7g.40gb; what is in use "
        "stays. Default: as they are.",
    ),
)


def divisions(text: str | None) -> dict[str, str]:
    """Return the division that is wished for of each GPU, by index or UUID. Raises BadFlag."""
    found: dict[str, str] = {}
    for part in (text or "").split(";"):
        if not part.strip():
            continue
        gpu, colon, division = (word.strip() for word in part.partition(":"))
        if not gpu or not colon:
            raise BadFlag("mig_profiles", f"'{part.strip()}' does not say GPU:PROFILE,...; write 0:3g.20gb,2x1g.5gb")
        if gpu in found:
            raise BadFlag("mig_profiles", f"names GPU {gpu} twice")
        try:
            read_wanted(division)
        except BadInput as error:
            raise BadFlag("mig_profiles", f"GPU {gpu}: {error}") from None
        found[gpu] = division
    return found


def check_mig(flags: Mapping[str, Any]) -> None:
    """Refuse profiles of instances that would be offered to nobody. Raises BadFlag."""
    if not divisions(flags["mig_profiles"]):
        return
    if flags["mig_strategy"] != "single":
        raise BadFlag("mig_profiles", "needs --mig_strategy=single: otherwise GPUs in MIG mode are left out")
    if "gpu/nvidia" not in flags["isolation"]:
        raise BadFlag("mig_profiles", "needs 'gpu/nvidia' in --isolation")
    if flags["nvidia_gpu_devices"]:
        raise BadFlag("mig_profiles", "cannot be with --nvidia_gpu_devices, whose instances would be others then")
