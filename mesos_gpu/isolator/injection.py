"""The launch plan of a container, and whether its image or task requests the NVIDIA volume. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import gpu_nodes, rule_for
from mesos_gpu.isolator.plan import Change, LaunchPlan
from mesos_gpu.mesos.tasks import DRIVER_LABEL

if TYPE_CHECKING:
    from mesos_gpu.isolator.volume import NvidiaVolume

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = "void"
NEEDED_LABEL = DRIVER_LABEL
NO_LABELS: Mapping[str, str] = MappingProxyType({})


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


class Planner:
    """Makes launch plans; `control_nodes` are in all of them, and the files of `volume` in those that want it."""

    def __init__(self, control_nodes: Iterable[DeviceNode], volume: NvidiaVolume | None) -> None:
        self._control_nodes, self._volume = tuple(control_nodes), volume

    def plan(self, gpus: frozenset[Gpu], image: ImageManifest | bool, labels: Mapping[str, str]) -> LaunchPlan:
        """Return what a container needs to use these GPUs; `image` and `labels` as in NvidiaGpuIsolator.prepare."""
        ordered = tuple(sorted(gpus))
        nodes = (*gpu_nodes(ordered), *self._control_nodes)
        files = self._files(image, labels)
        return LaunchPlan(
            gpus=ordered,
            nodes=nodes,
            rules=tuple(map(rule_for, nodes)),
            mounts=files.mounts,
            environment={VISIBLE_DEVICES: ",".join(gpu.uuid for gpu in ordered) or NO_DEVICES},
            search_paths=files.search_paths,
        )

    def change(self, before: frozenset[Gpu], after: frozenset[Gpu]) -> Change:
        """Return the change of a container that held the GPUs `before` and holds those in `after`."""
        old, new = gpu_nodes(sorted(before)), gpu_nodes(sorted(after))
        return Change(
            added=tuple(sorted(after - before)),
            removed=tuple(sorted(before - after)),
            opened=tuple(node for node in new if node not in old),
            closed=tuple(node for node in old if node not in new),
            plan=self.plan(after, False, NO_LABELS),
        )

    def _files(self, image: ImageManifest | bool, labels: Mapping[str, str]) -> LaunchPlan:
        """Return the part of a plan that shows a container the driver's files; empty if it does not want them."""
        if self._volume is None:
            return LaunchPlan()
        if isinstance(image, ImageManifest):
            wanted, has_image = should_inject(image.environment, image.labels), True
        else:
            wanted, has_image = image or self._volume.is_nowhere_else, image
        return self._volume.plan(image=has_image) if wanted or NEEDED_LABEL in labels else LaunchPlan()
