"""Which GPUs are divided into which MIG instances: the flag --mig_profiles. Pure."""

from __future__ import annotations

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.gpu.mig_layout import read_wanted


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


def check_mig(flags: AgentFlags) -> None:
    """Refuse profiles of instances that would be offered to nobody. Raises BadFlag."""
    if not divisions(flags.mig_profiles):
        return
    if flags.mig_strategy != "single":
        raise BadFlag("mig_profiles", "needs --mig_strategy=single: otherwise GPUs in MIG mode are left out")
    if "gpu/nvidia" not in flags.isolation:
        raise BadFlag("mig_profiles", "needs 'gpu/nvidia' in --isolation")
    if flags.nvidia_gpu_devices:
        raise BadFlag("mig_profiles", "cannot be with --nvidia_gpu_devices, whose instances would be others then")
