"""What `kubectl run --limits` and `--requests` ask for: CPUs, memory, GPUs, a part of a GPU. Pure.

Source: kubectl's HandleResourceRequirementsV1 (`cpu=200m,memory=512Mi`); GKE's `--limits=nvidia.com/gpu=1`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from marathon_cli.convert import quantities
from marathon_cli.convert.accelerators import ALPHA, GPU
from marathon_cli.convert.shares import GPU_MEM
from mesos_gpu.errors import BadInput

_KNOWN = ("cpu", "memory", "ephemeral-storage", GPU, ALPHA, GPU_MEM)


class Limits(NamedTuple):
    """What is asked for; None is what is not said. `gpu_mem_gib` is a part of a card."""

    gpus: int | None = None
    cpus: float | None = None
    mem_mib: int | None = None
    disk_mib: int | None = None
    gpu_mem_gib: int | None = None


def read_limits(texts: Sequence[str], option: str = "--limits") -> Limits:
    """Return what texts such as `cpu=2,memory=4Gi,nvidia.com/gpu=1` ask for. Raises BadInput with an example."""
    found = Limits()
    for part in ",".join(texts).split(","):
        name, equals, text = (word.strip() for word in part.partition("="))
        if not equals or not text:
            raise BadInput(f"{option} {part!r} is not NAME=QUANTITY, as in {option}=cpu=2,memory=4Gi,{GPU}=1")
        try:
            if name == "cpu":
                found = found._replace(cpus=quantities.cpus(text))
            elif name == "memory":
                found = found._replace(mem_mib=quantities.mib(text))
            elif name == "ephemeral-storage":
                found = found._replace(disk_mib=quantities.mib(text))
            elif name in (GPU, ALPHA):
                found = found._replace(gpus=quantities.whole(text))
            elif name == GPU_MEM:
                found = found._replace(gpu_mem_gib=quantities.whole(text))
            else:
                near = [GPU] if "gpu" in name else difflib.get_close_matches(name, _KNOWN, n=1)
                said = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KNOWN)}"
                raise BadInput(f"{option}: there is no resource {name}; {said}")
        except ValueError as error:
            raise BadInput(f"{option} {part}: {error}") from None
    return found
