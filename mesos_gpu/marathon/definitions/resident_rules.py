"""What may not change once an app or a pod has persistent volumes: they are on an agent, with all that was reserved.

Source: Marathon state/AppDefinition.scala, residentUpdateIsValid.
"""

from __future__ import annotations

from collections.abc import Iterator

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.ports import service_ports_of
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.mesos.resource import milli

_RESOURCES = ("cpus", "mem", "disk", "gpus", "requirePorts")
_POD_ADVICE = "create a pod of another id, or remove this one first: its volumes go with it"
_ADVICE = "create an app of another id, or remove this one first: its volumes go with it"


def resident_changes(before: RunSpec, after: RunSpec, index: int = 0) -> Iterator[Problem]:
    """Yield a problem for every change that an app with persistent volumes may not make; none for other apps.

    Both have their service ports. `index` is the app's place among those of one change, which Marathon names in paths.
    """
    if not (before.resident or after.resident):
        return
    path = f"/app({index})"
    if _volumes(before) != _volumes(after):
        sentence = "Persistent volumes can not be changed!"
        yield Problem(path, sentence, sentence, _ADVICE)
    for name in _RESOURCES:
        if before.document.get(name) != after.document.get(name):
            yield _problem(f"{path}/{name}", "change resource requirements", name)
    if set(_host_ports(before)) != set(_host_ports(after)):
        yield _problem(path, "change host ports", "portDefinitions")


def resident_pod_changes(before: RunSpec, after: RunSpec) -> Iterator[Problem]:
    """Yield a problem for every change that a pod with persistent volumes may not make; none for other pods.

    Source: Marathon PodsValidation.residentUpdateIsValid.
    """
    if not (before.resident or after.resident):
        return
    changed = ["persistent volumes"] if _volumes(before) != _volumes(after) else []
    changed += [name for name in ("cpus", "mem", "disk", "gpus") if _asked(before, name) != _asked(after, name)]
    changed += ["host ports"] if set(_host_ports(before)) != set(_host_ports(after)) else []
    for what in changed:
        what += " cannot be updated" + ("" if what == "persistent volumes" else " if a pod has persistent volumes")
        yield Problem("/", what, what, _POD_ADVICE)


def _asked(spec: RunSpec, name: str) -> int:
    """Return the thousandths of a resource that the containers and their executor take together."""
    return milli(spec.document[name]) + milli(spec.executor_resources.get(name, 0))


def _volumes(spec: RunSpec) -> dict[str, object]:
    return {volume["containerPath"]: (volume["persistent"], volume.get("mode")) for volume in spec.persistent_volumes}


def _host_ports(spec: RunSpec) -> list[int]:
    if spec.document["networks"][0]["mode"] == "host":
        return service_ports_of(spec.document)
    mappings = spec.document.get("container", {}).get("portMappings", [])
    return [mapping["hostPort"] for mapping in mappings if "hostPort" in mapping]


def _problem(path: str, what: str, key: str) -> Problem:
    sentence = (
        f"Services with persistent volumes configured may not {what}. "
        "If you need to make this change, please create a new service."
    )
    return Problem(path, sentence, sentence, _ADVICE, key)
