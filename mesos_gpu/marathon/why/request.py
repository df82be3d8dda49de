"""What one instance of an app, pod or job requests, and how a Marathon matches offers, read from what it shows.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from mesos_gpu.marathon.definitions.app import app_as_shown
from mesos_gpu.marathon.definitions.app_settings import MATCHING_FLAGS
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour, Rules
from mesos_gpu.marathon.matching.reasons import Reason

_E = TypeVar("_E", GpuBehaviour, RolesBehaviour)


class Request(Struct, frozen=True):
    """A RunSpec, and what people call it."""

    spec: RunSpec
    id: str
    is_job: bool = False
    """Whether it is a run of a job, called by the job's name; `instances` are the members of a gang then."""
    deploying: bool = False
    """Whether a deployment of it is under way, so that a change has to be forced."""

    @property
    def one_per_host(self) -> bool:
        """Return whether each member of a gang needs a machine of its own."""
        return "gang" in self.spec.document and bool(self.spec.document["gang"]["onePerHost"])

    @property
    def one_missing(self) -> float:
        """Return the minimumHealthCapacity by which one instance may be missing, rounded down so that it always may."""
        return (self.spec.instances - 1) * 1000 // self.spec.instances / 1000

    @property
    def constraints(self) -> tuple[tuple[str, ...], ...]:
        """Return its constraints."""
        return tuple(tuple(str(part) for part in constraint) for constraint in self.spec.document["constraints"])

    @property
    def command(self) -> str:
        """Return the command that changes it."""
        kind = "job" if self.is_job else "pod" if self.spec.is_pod else "app"
        return f"mesos-gpu {kind} update{' --force' * self.deploying} {self.id}"

    def updated(self, *words: str) -> str:
        """Return the command that changes what is requested; `words` as an app would have them."""
        if self.is_job:
            words = tuple(f"run.{word}" for word in words if not word.startswith("instances="))
        return f"`{self.command} {' '.join(words)}`"


def request_of(document: Mapping[str, Any], *, is_job: bool = False) -> Request:
    """Return what an app or a pod, as Marathon shows it, requests."""
    deploying = bool(document.get("deployments")) and not is_job
    return Request(spec_of(document), str(document.get("id", "")), is_job, deploying)


def spec_of(document: Mapping[str, Any]) -> RunSpec:
    """Return an app or a pod, as Marathon shows it, as a RunSpec."""
    if isinstance(document.get("containers"), list):
        from mesos_gpu.marathon.definitions.pod import pod_as_shown  # most are apps, and need not wait for these

        return RunSpec(pod_as_shown(document))
    return RunSpec(app_as_shown(document))


def rules_shown(config: Mapping[str, Any], queued: Mapping[str, Any]) -> Rules:
    """Return how a Marathon matches offers, as far as the `marathon_config` of its /v2/info shows it.

    Mesosphere's does not show whether GPUs are kept for those that use some; its reasons against offers give it away.
    """
    told = [reason for unused in queued.get("lastUnusedOffers") or [] for reason in unused.get("reason") or []]
    kept = GpuBehaviour.RESTRICTED if Reason.DECLINED_SCARCE_RESOURCES in told else GpuBehaviour.UNRESTRICTED
    flags = dict(feature.split("=", 1) for feature in config.get("features") or () if "=" in str(feature))
    roles, gpus = (flags.get(name) for name in MATCHING_FLAGS)
    return Rules(_one_of(GpuBehaviour, gpus, kept), _one_of(RolesBehaviour, roles, RolesBehaviour.ANY))


def _one_of(kind: type[_E], value: object, otherwise: _E) -> _E:
    return next((one for one in kind if one.value == value), otherwise)
