"""What a container asks for by its environment, as NVIDIA's hook reads it. Pure.

Sources: NVIDIA/nvidia-container-toolkit `cmd/nvidia-container-runtime-hook/container_config.go`,
`internal/config/image/cuda_image.go`; moby/moby `daemon/nvidia_linux.go` (what `--gpus` becomes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadInput

VISIBLE, CAPABILITIES = "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
_REQUIRE, _REQUIRE_CUDA, _CUDA = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"
_JETPACK, _DISABLE = "NVIDIA_REQUIRE_JETPACK", "NVIDIA_DISABLE_REQUIRE"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
SUPPORTED = ("compat32", "compute", "display", "graphics", "ngx", "utility", "video")
USUAL = ("compute", "utility")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The GPUs that a container wants: so many, or named ones, or all; none at all is the driver's files alone.

    `requirements` are expressions by the variable that has each; every one must hold.
    """

    count: int | None = None
    names: tuple[str, ...] = ()
    everything: bool = False
    capabilities: frozenset[str] = frozenset(USUAL)
    requirements: tuple[tuple[str, str], ...] = ()

    @property
    def any(self) -> bool:
        """Return whether it wants a GPU."""
        return self.everything or bool(self.names) or self.count is not None


def environment_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of an OCI configuration's process; of one that is there twice, the last."""
    entries = (config.get("process") or {}).get("env") or []
    return {name: value for name, _, value in (str(entry).partition("=") for entry in entries)}


def wanted(env: Mapping[str, str], requests: Sequence[Mapping[str, Any]] = ()) -> Wanted | None:
    """Return what a container wants; None for one that is left alone.

    `requests` are those of `docker run --gpus`, where they are known: there a number of GPUs is told from their
    indices, which Docker's variable does not. Raises BadInput for capabilities that there are not.
    """
    legacy = _CUDA in env and _REQUIRE_CUDA not in env
    visible = env.get(VISIBLE)
    if visible is None and legacy:
        visible = ALL
    names = [name for name in (part.strip() for part in (visible or "").split(",")) if name]
    if not names or "void" in names:
        return None
    facts = Wanted(capabilities=_capabilities(env, legacy), requirements=_requirements(env))
    first = next((name for name in names if name in (ALL, "none")), None)
    if first == "none":
        return facts
    asked = _docker_request(requests)
    if asked is not None:
        return _with(facts, *asked)
    return _with(facts, None, () if first == ALL else tuple(dict.fromkeys(names)), first == ALL)


def _with(facts: Wanted, count: int | None, names: tuple[str, ...], everything: bool) -> Wanted:
    return Wanted(count, names, everything, facts.capabilities, facts.requirements)


def _docker_request(requests: Sequence[Mapping[str, Any]]) -> tuple[int | None, tuple[str, ...], bool] | None:
    """Return the count, names and `all` of `--gpus`; None when there is no such request."""
    for request in requests:
        kinds = [kind for kinds in request.get("Capabilities") or [] for kind in kinds]
        if request.get("Driver") not in ("", None, "nvidia") or ("gpu" not in kinds and "nvidia" not in kinds):
            continue
        if ids := request.get("DeviceIDs"):
            return None, tuple(dict.fromkeys(str(name) for name in ids)), False
        count = int(request.get("Count") or 0)
        return (None, (), True) if count < 0 else (count, (), False)
    return None


def _capabilities(env: Mapping[str, str], legacy: bool) -> frozenset[str]:
    text = env.get(CAPABILITIES, "")
    asked = {part.strip() for part in text.split(",") if part.strip()}
    if not asked:
        return frozenset(SUPPORTED if legacy and CAPABILITIES not in env else USUAL)
    if ALL in asked:
        return frozenset(SUPPORTED)
    if not asked <= set(SUPPORTED):
        raise BadInput(f"unsupported capabilities found in '{text}' (allowed '{','.join(SUPPORTED)}')")
    return frozenset(asked)


def _requirements(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if env.get(_DISABLE) in _TRUE:
        return ()
    found = [
        (name, text)
        for name, text in sorted(env.items())
        if name.startswith(_REQUIRE) and not name.startswith(_JETPACK)
    ]
    version = env.get(_CUDA, "")
    if _REQUIRE_CUDA not in env and version:
        found.append((_CUDA, f"cuda>={'.'.join(version.split('.')[:2])}"))
    return tuple(found)


def resolved(names: Sequence[str], gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return names as the agent's book has them: `0:1`, the second MIG instance of GPU 0, by its UUID."""
    found = []
    for name in names:
        board, colon, part = name.partition(":")
        if colon and board.isdigit() and part.isdigit():
            parts = [gpu for gpu in gpus if gpu.get("mig") and str(gpu["index"]) == board]
            if int(part) >= len(parts):
                raise BadInput(f"there is no MIG instance {name} here; GPU {board} has {len(parts)}")
            name = str(parts[int(part)]["uuid"])
        found.append(name)
    return found
