"""The MIG profiles of the models that are sold, for plans without the GPU. A GPU that is there says them itself. Pure.

Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles", and what `nvidia-smi mig -lgip -lgipp` prints
of these models. Sizes are memory slices: four on an A30, eight on the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mesos_gpu.gpu.mig_layout import MigProfile

_SEVEN = (0, 1, 2, 3, 4, 5, 6)


def _eighths(one: str, two: str, half: str, whole: str) -> Sequence[MigProfile]:
    """Return the profiles of a GPU of eight memory slices; the arguments are the memory of 1, 2, 4 and 8 of them."""
    return (
        MigProfile(f"1g.{one}", 19, 1, _SEVEN, 7),
        MigProfile(f"1g.{one}+me", 20, 1, _SEVEN, 1),
        MigProfile(f"1g.{two}", 15, 2, (0, 2, 4, 6), 4),
        MigProfile(f"2g.{two}", 14, 2, (0, 2, 4), 3),
        MigProfile(f"3g.{half}", 9, 4, (0, 4), 2),
        MigProfile(f"4g.{half}", 5, 4, (0,), 1),
        MigProfile(f"7g.{whole}", 0, 8, (0,), 1),
    )


MODELS: Mapping[str, Sequence[MigProfile]] = {
    "A30": (
        MigProfile("1g.6gb", 14, 1, (0, 1, 2, 3), 4),
        MigProfile("1g.6gb+me", 21, 1, (0, 1, 2, 3), 1),
        MigProfile("2g.12gb", 5, 2, (0, 2), 2),
        MigProfile("2g.12gb+me", 6, 2, (0, 2), 1),
        MigProfile("4g.24gb", 0, 4, (0,), 1),
    ),
    "A100-40GB": _eighths("5gb", "10gb", "20gb", "40gb"),
    "A100-80GB": _eighths("10gb", "20gb", "40gb", "80gb"),
    "H100-80GB": _eighths("10gb", "20gb", "40gb", "80gb"),
    "H200-141GB": _eighths("18gb", "35gb", "71gb", "141gb"),
}


def profiles_of(name: str, memory_mib: int | None) -> Sequence[MigProfile]:
    """Return the profiles of a GPU that calls itself so, such as `NVIDIA A100-SXM4-40GB`; none where it has none."""
    for model, profiles in MODELS.items():
        kind, _, size = model.partition("-")
        if not re.search(rf"\b{kind}\b", name):
            continue
        gib = int(size.removesuffix("GB")) if size else 0
        # The A100 is sold in two sizes; what it has tells them apart where the name does not.
        if kind != "A100" or size in name or abs((memory_mib or 0) / 1024 - gib) < gib / 4:
            return profiles
    return ()
