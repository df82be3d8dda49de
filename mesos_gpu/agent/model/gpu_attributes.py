"""What an agent tells schedulers about its GPUs, as attributes that constraints can name. Not Mesos': ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.shares.gpu_links import LINKS_ATTRIBUTE, Sets, links_text
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, SharedCard, cards_text

NAMES = ("gpu_model", "gpu_memory_mib", "gpu_driver", "gpu_count", LINKS_ATTRIBUTE)
"""The attributes that `with_gpus` adds."""


def with_gpus(
    said: Sequence[Mapping[str, Any]], gpus: Sequence[Gpu], driver: str | None, linked: Sets = ()
) -> list[dict[str, Any]]:
    """Return the attributes `said` (--attributes) and those of the GPUs; what the operator said of them stays.

    `gpu_model` is NVML's name as an attribute can hold it (`NVIDIA-H200`; several models: sorted, joined by `/`),
    `gpu_memory_mib` the memory of the smallest GPU, `gpu_driver` the driver's version, `gpu_count` how many there are,
    `gpu_nvlink` which of them share NVLink (`linked`). What the driver does not report is left out; without GPUs there
    are none.
    """
    if not gpus:
        return [dict(attribute) for attribute in said]
    models = "/".join(sorted({_as_text(gpu.name) for gpu in gpus}))
    memory = [gpu.memory_mib for gpu in gpus if gpu.memory_mib is not None]
    found = [_text("gpu_model", models)] if models else []
    found += [_scalar("gpu_memory_mib", min(memory))] if memory else []
    found += [_text("gpu_driver", _as_text(driver))] if driver else []
    found += [_scalar("gpu_count", len(gpus))]
    found += [_text(LINKS_ATTRIBUTE, links_text(linked))] if linked else []
    taken = {attribute["name"] for attribute in said}
    return [*(dict(attribute) for attribute in said), *(a for a in found if a["name"] not in taken)]


def with_shared_cards(said: Sequence[Mapping[str, Any]], cards: Sequence[SharedCard]) -> list[dict[str, Any]]:
    """Return attributes with which cards are shared, so that tasks can name them by UUID or size."""
    kept = [dict(attribute) for attribute in said if attribute["name"] != CARDS_ATTRIBUTE]
    if not cards:
        return kept
    return [*kept, _text(CARDS_ATTRIBUTE, cards_text(cards))]


def _as_text(words: str) -> str:
    """Return words without what the grammar of attributes does not allow (Mesos src/common/attributes.cpp)."""
    return re.sub(r"[^A-Za-z0-9_./-]+", "-", words.strip()).strip("-")


def _text(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "type": "TEXT", "text": {"value": value}}


def _scalar(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "type": "SCALAR", "scalar": {"value": float(value)}}
