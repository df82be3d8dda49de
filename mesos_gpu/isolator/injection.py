"""Whether a container gets the NVIDIA volume: what its image, or its task, says about that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tasks import DRIVER_LABEL

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = "void"
NEEDED_LABEL = DRIVER_LABEL


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """The part of an image's configuration that decides; both empty is an image that says nothing."""

    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def should_inject(image_env: Mapping[str, str], image_labels: Mapping[str, str]) -> bool:
    """Return whether a container of this image gets the NVIDIA volume, whether or not it asks for GPUs.

    The variable NVIDIA_VISIBLE_DEVICES comes first: empty and `void` say no, anything else yes, and it never selects
    GPUs. Without it, the label com.nvidia.volumes.needed says yes, with any value. Raises BadInput.
    Source: Mesos src/slave/containerizer/mesos/isolators/gpu/volume.cpp, NvidiaVolume::shouldInject.
    """
    for values in (image_env, image_labels):
        if not isinstance(values, Mapping):
            raise BadInput(f"the variables and labels of an image are mappings, not {values!r}")
    visible = image_env.get(VISIBLE_DEVICES)
    if visible is not None:
        return visible not in ("", NO_DEVICES)
    return NEEDED_LABEL in image_labels
