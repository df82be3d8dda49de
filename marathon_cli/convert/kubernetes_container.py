"""Reads one container of a Kubernetes pod: command, variables, resources, ports and probes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from marathon_cli.convert import accelerators, quantities, shares
from marathon_cli.convert.kubernetes_maps import ConfigMaps
from marathon_cli.convert.kubernetes_volumes import Volumes
from marathon_cli.convert.model import NOBODY_TYPES, Container, Limit, Notes, Place, Port, Probe, Timing
from marathon_cli.convert.shell import join
from marathon_cli.convert.source import Section

USERS_HAVE_NAMES = "Mesos wants the name of a user that the machine knows, not a number"

_REFERENCE = re.compile(r"\$(\$)?\(([^()\s]+)\)")
_FIELDS = {"metadata.name": "MESOS_TASK_ID", "status.hostIP": "HOST", "spec.nodeName": "HOST"}
_Value = TypeVar("_Value")


def read_container(item: Section, volumes: Volumes, notes: Notes) -> Container:
    """Return a container of a pod's spec. Raises BadInput."""
    container = Container(item.text("name") or "", item.at("name"), item.text("image") or "")
    if not container.image:
        raise notes.bad(item.place, "image: is missing")
    container.force_pull = item.text("imagePullPolicy") == "Always"
    _read_variables(item, container, volumes.maps, notes)
    command, args = item.words("command"), item.words("args")
    container.entrypoint = [expand(word, container.env) for word in command] if command else None
    container.args = [expand(word, container.env) for word in args or []]
    container.workdir, container.workdir_at = item.text("workingDir"), item.at("workingDir")
    container.tty = item.flag("tty")
    _read_resources(item.section("resources"), container, notes)
    container.ports = [_port(port) for port in item.sections("ports")]
    for mount in item.sections("volumeMounts"):
        volumes.mount(mount, container, notes)
    container.alive = _probe(item, "livenessProbe")
    container.ready = _probe(item, "readinessProbe")
    _read_startup(item, container)
    security = item.section("securityContext")
    container.user = security.text("runAsUser")
    if container.user is not None:
        notes.check(security.at("runAsUser"), USERS_HAVE_NAMES)
    if security.flag("privileged"):
        notes.lost(security.at("privileged"), "a container gets its GPUs without it, and there is no such mode")
    for key in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot"):
        if not security.flag(key):
            security.ignore(key)
    if item.flag("stdin"):
        notes.lost(item.at("stdin"), NOBODY_TYPES)
    item.ignore("terminationMessagePath", "terminationMessagePolicy", "stdin", "stdinOnce")
    return container


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable, where there is one, and `$$(NAME)` by `$(NAME)`, as Kubernetes does."""

    def value(found: re.Match[str]) -> str:
        return found[0][1:] if found[1] else variables.get(found[2], found[0])

    return _REFERENCE.sub(value, text)


def _read_variables(item: Section, container: Container, maps: ConfigMaps, notes: Notes) -> None:
    for source in item.sections("envFrom"):
        prefix = source.text("prefix") or ""
        named = source.section("configMapRef")
        found = maps.get(named.text("name") or "")
        named.ignore("optional")
        if found is not None:
            container.env.update({prefix + key: value for key, value in found.items()})
        else:
            source.ignore("secretRef")
            notes.lost(source.place, "its variables are not in this file; write them into `env`")
    for variable in item.sections("env"):
        name = variable.text("name") or ""
        if name == "NVIDIA_VISIBLE_DEVICES":
            variable.ignore("value")
            notes.lost(variable.place, "the agent sets it: a container sees the GPUs that it was given, and no other")
            continue
        value = expand(variable.text("value") or "", container.env)
        if "valueFrom" in variable:
            taken = _value_from(variable.section("valueFrom"), name, maps, notes)
            if taken is None:
                continue
            value = taken
        container.env[name] = value


def _value_from(source: Section, name: str, maps: ConfigMaps, notes: Notes) -> str | None:
    place = source.place
    if "configMapKeyRef" in source:
        key = source.section("configMapKeyRef")
        key.ignore("optional")
        chosen, wanted = maps.get(key.text("name") or ""), key.text("key") or ""
        if chosen is not None and wanted in chosen:
            return chosen[wanted]
        notes.lost(place, f"{name} is in a ConfigMap that is not in this file; write its value into `env`")
    elif "fieldRef" in source:
        field = source.section("fieldRef")
        field.ignore("apiVersion")
        instead = _FIELDS.get(field.text("fieldPath") or "")
        notes.lost(place, f"every task has ${instead}; let the command use it" if instead else "tasks do not know this")
    elif "secretKeyRef" in source:
        source.ignore("secretKeyRef")
        notes.lost(
            place, f'{name} is a secret: "env": {{"{name}": {{"secret": ...}}}} with `secrets`, where there is a store'
        )
    else:
        source.ignore("resourceFieldRef")
        notes.lost(place, "tasks have MARATHON_APP_RESOURCE_CPUS, _MEM and _GPUS; let the command use them")
    return None


def _read_resources(resources: Section, container: Container, notes: Notes) -> None:
    limits, requests = resources.section("limits"), resources.section("requests")
    container.gpus = _gpus(limits, requests, notes)
    shares.take_units(limits, container, notes)
    cpus_limit, mem_limit = limits.read("cpu", quantities.cpus), limits.read("memory", quantities.mib)
    container.cpus = _or(requests.read("cpu", quantities.cpus), cpus_limit)
    container.mem_mib = _or(requests.read("memory", quantities.mib), mem_limit)
    container.cpus_limit = None if cpus_limit == container.cpus else cpus_limit
    container.mem_limit_mib = _limit(mem_limit, container.mem_mib)
    disk = _or(requests.read("ephemeral-storage", quantities.mib), limits.read("ephemeral-storage", quantities.mib))
    container.disk_mib = disk
    for part in (limits, requests):
        for key in part:
            if (key not in (shares.GPU_MEM, shares.GPU_COUNT) and "gpu" in key) or key.startswith("nvidia.com/"):
                part.lose("parts of GPUs are asked for by gpuShare: so many GiB (memGiB) and a weight", key)


def _gpus(limits: Section, requests: Section, notes: Notes) -> int:
    """Return how many GPUs a container gets. MIG instances are GPUs of an agent too, so they count."""
    found: int | None = None
    for part in (limits, requests):
        for key in part:
            mig = key.startswith("nvidia.com/mig-")
            if key in (accelerators.GPU, accelerators.ALPHA) or mig:
                count = part.read(key, quantities.whole) or 0
                if mig:
                    notes.check(
                        part.at(key), f"any GPU or MIG instance serves; constrain gpu_model to those with {key}"
                    )
                if found is None or part is limits:
                    found = (found or 0) + count if mig else max(found or 0, count)
    return found or 0


def _or(first: _Value | None, second: _Value | None) -> _Value | None:
    return second if first is None else first


def _limit(limit: int | None, request: int | None) -> Limit | None:
    if request is None or limit == request:
        return None
    return "unlimited" if limit is None else limit


def _port(item: Section) -> Port:
    number, machine = item.integer("containerPort") or 0, item.integer("hostPort")
    protocol = (item.text("protocol") or "tcp").lower()
    if protocol not in ("tcp", "udp"):
        item.notes.lost(item.at("protocol"), "ports are tcp or udp")
        protocol = "tcp"
    return Port(item.place, number, machine, item.text("name"), protocol)


def _probe(item: Section, key: str) -> Probe | None:
    if key not in item:
        return None
    probe = item.section(key)
    delay = probe.integer("initialDelaySeconds") or 0
    timing = Timing(
        probe.integer("periodSeconds") or 10,
        probe.integer("timeoutSeconds") or 1,
        probe.integer("failureThreshold") or 3,
        delay,
        delay,
    )
    probe.ignore("successThreshold")
    place: Place = item.at(key)
    if "exec" in probe:
        return Probe(place, command=join(probe.section("exec").words("command") or []), timing=timing)
    if "httpGet" in probe:
        get = probe.section("httpGet")
        https = (get.text("scheme") or "HTTP").upper() == "HTTPS"
        return Probe(place, path=get.text("path") or "/", port=get.text("port"), https=https, timing=timing)
    if "tcpSocket" in probe:
        return Probe(place, port=probe.section("tcpSocket").text("port"), timing=timing)
    return None


def _read_startup(item: Section, container: Container) -> None:
    """Read how long a container may take to start: until then its probe's failures do not count."""
    probe = _probe(item, "startupProbe")
    if probe is None:
        return
    if container.alive is None:
        item.notes.lost(probe.at, "without a livenessProbe nothing waits for it")
        return
    asked = probe.timing
    alive = container.alive.timing._replace(grace_s=asked.delay_s + asked.interval_s * asked.failures)
    container.alive = container.alive._replace(timing=alive)
