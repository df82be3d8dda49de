"""Which machines: what Kubernetes and Swarm say with node labels, as Marathon's constraints on agents' attributes.

The attributes gpu_model, gpu_memory_mib and gpu_count are those that mesos-gpu-agent adds (docs/do/gpus.md).
Sources: GKE's and AKS' node labels, NVIDIA's GPU feature discovery, Kubernetes' well-known labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from marathon_cli.convert.model import Notes, Place

ALPHA = "alpha.kubernetes.io/nvidia-gpu"
GPU = "nvidia.com/gpu"

# NVML's name has the memory of an A100 in it, and there are two; other models are told apart by their name alone.
_MEMORY = {"nvidia-tesla-a100": "40gb", "nvidia-a100-80gb": "80gb"}
_MODEL = re.compile(r"(?:nvidia-)?(?:tesla-)?(rtx-pro-[0-9]+|[a-z]+[0-9]+[a-z]?)(?:-.*)?")
_FIELDS = {
    "nvidia.com/gpu.product": "gpu_model",
    "alpha.kubernetes.io/nvidia-gpu-name": "gpu_model",
    "nvidia.com/gpu.memory": "gpu_memory_mib",
    "nvidia.com/gpu.count": "gpu_count",
    "kubernetes.io/hostname": "hostname",
    "topology.kubernetes.io/zone": "@zone",
    "topology.kubernetes.io/region": "@region",
    "failure-domain.beta.kubernetes.io/zone": "@zone",
    "failure-domain.beta.kubernetes.io/region": "@region",
}
# True of every agent that has what the app asks for.
_SO_ANYWAY = {
    ("accelerator", "nvidia"),
    ("kubernetes.azure.com/accelerator", "nvidia"),
    ("nvidia.com/gpu.present", "true"),
    ("kubernetes.io/os", "linux"),
    ("beta.kubernetes.io/os", "linux"),
}
_NOTHING_LIKE_IT = (
    "cloud.google.com/gke-gpu-driver-version",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-nodepool",
)
_ACCELERATOR_LABELS = ("cloud.google.com/gke-accelerator", "accelerator")
_IS_VALUE = re.compile(r"[a-zA-Z0-9_/.-]*")


def model_pattern(accelerator: str) -> str | None:
    """Return the expression that the model of a GKE accelerator type fulfils: `nvidia-tesla-k80` and no K80m.

    None for a name of another kind.
    """
    name = accelerator.lower()
    found = _MODEL.fullmatch(name)
    if found is None:
        return None
    memory = f"{_MEMORY[name]}.*" if name in _MEMORY else ""
    return f"(?i)(.*[^a-z0-9])?{found[1]}([^a-z0-9].*)?{memory}"


def constraint(label: str, value: str, place: Place, notes: Notes) -> list[str] | None:
    """Return the constraint for a node label; None where none is needed, or possible, which is noted."""
    if (label, value) in _SO_ANYWAY:
        return None
    if label in _NOTHING_LIKE_IT:
        notes.lost(place, "agents have no such attribute; give them an attribute (--attributes) and constrain it")
        return None
    pattern = model_pattern(value) if label in _ACCELERATOR_LABELS else None
    if pattern is not None:
        return ["gpu_model", "LIKE", pattern]
    if label not in _FIELDS:
        notes.check(place, f"agents need this attribute: --attributes='{label}:{value}'")
    if _IS_VALUE.fullmatch(value):
        return [_FIELDS.get(label, label), "IS", value]
    return [_FIELDS.get(label, label), "LIKE", re.escape(value)]


def expression(label: str, operator: str, values: Sequence[str], place: Place, notes: Notes) -> list[str] | None:
    """Return the constraint for a node affinity expression; None where there is none, which is noted."""
    if operator == "In" and len(values) == 1:
        return constraint(label, values[0], place, notes)
    field = "gpu_model" if label in _ACCELERATOR_LABELS else _FIELDS.get(label, label)
    if operator in ("In", "NotIn") and values:
        patterns = [(model_pattern(v) if label in _ACCELERATOR_LABELS else None) or re.escape(v) for v in values]
        # Flags of an expression stand at its start only.
        flag = "(?i)" if any(p.startswith("(?i)") for p in patterns) else ""
        together = "|".join(p.removeprefix("(?i)") for p in patterns)
        found = [field, "LIKE" if operator == "In" else "UNLIKE", flag + together]
    elif operator in ("Exists", "DoesNotExist"):
        found = [field, "LIKE" if operator == "Exists" else "UNLIKE", ".*"]
    else:
        notes.lost(place, f"constraints have no operator {operator}")
        return None
    if field == label:
        notes.check(place, f"agents need the attribute {label} (--attributes)")
    return found
