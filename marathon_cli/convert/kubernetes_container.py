"""Reads one container of a Kubernetes pod: command, variables, resources, ports and probes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from marathon_cli.convert import gpu_requests, quantities
from marathon_cli.convert.gpu_requests import is_driver_path
from marathon_cli.convert.model import NOBODY_TYPES, Container, Limit, Mount, Notes, Place, Port, Probe, Timing
from marathon_cli.convert.shell import join
from marathon_cli.convert.source import Section

_MOST_CHARACTERS = 64 * 1024
"""A command is one argument of a shell, which Linux lets be 128 KiB long."""

_UNNAMED = "its image's own program is not known here; name it (command), then the command can write the files"


class ConfigMaps:
    """The ConfigMaps of a file, by name; what nobody takes of them is noted at the end."""

    def __init__(self, objects: Iterable[Section]) -> None:
        self._objects: dict[str, Section] = {}
        for item in objects:
            metadata = item.section("metadata")
            self._objects[metadata.text("name") or ""] = item
            metadata.ignore(*metadata)
        self._read: dict[str, dict[str, str]] = {}

    def get(self, name: str) -> dict[str, str] | None:
        """Return the texts of a ConfigMap; None where the file has none of that name."""
        item = self._objects.get(name)
        if item is None:
            return None
        if name not in self._read:
            self._read[name] = {key: value or "" for key, (value, _) in item.texts_by_key("data").items()}
        return self._read[name]

    def finish(self, notes: Notes) -> None:
        """Note the ConfigMaps that nobody takes, and what of the others is not carried over."""
        for name, item in self._objects.items():
            if name not in self._read:
                notes.lost(item.at("kind"), f"the ConfigMap {name}: nothing in this file takes it")
                continue
            item.ignore("apiVersion", "kind", "immutable")
            item.lose("only texts are carried over", "binaryData")
            item.finish()


def write_files(source: Section, maps: ConfigMaps, container: Container, path: str, below: str | None) -> str | None:
    """Have a container's command write a ConfigMap's files to `path` before its program starts.

    `source` is the volume's `configMap`; `below` names the one file that is mounted (subPath). Return why it cannot
    be; None when it is done.
    """
    name = source.text("name") or ""
    data = maps.get(name)
    source.ignore("optional")
    if data is None:
        source.ignore(*source)
        return f"the ConfigMap {name} is not in this file; files are brought into the sandbox with `fetch`"
    files = {key: (key, source.text("defaultMode")) for key in data}
    if "items" in source:
        files = {}
        for item in source.sections("items"):
            key = item.text("key") or ""
            files[key] = (item.text("path") or key, item.text("mode") or source.text("defaultMode"))
    if not container.entrypoint:
        return _UNNAMED
    lines = []
    for key, (file, mode) in files.items():
        if key not in data:
            return f"the ConfigMap {name} has no {key}"
        if below is None:
            lines.append(_line(f"{path.rstrip('/')}/{file}", data[key], mode))
        elif below == file:
            lines.append(_line(path, data[key], mode))
    if sum(map(len, [*container.before, *lines])) > _MOST_CHARACTERS:
        return "its files are too large for a command; bring them into the sandbox with `fetch`"
    if below is not None and not lines:
        return f"the ConfigMap {name} has no file {below}"
    container.before += lines
    return None


def note_of(place: Place, notes: Notes) -> None:
    """Note what is different about files that the command writes."""
    notes.check(place, "the command writes its files before the program starts; they do not change with the ConfigMap")


def _line(path: str, text: str, mode: str | None) -> str:
    folder = path.rpartition("/")[0] or "/"
    chmod = f" && chmod {_octal(mode)} {join([path])}" if mode is not None else ""
    return f"mkdir -p {join([folder])} && printf %s {join([text])} > {join([path])}{chmod}"


def _octal(mode: str) -> str:
    """Return a file's mode in octal digits: YAML says 0755 or 0o755, JSON 493."""
    if mode.startswith("0"):
        return mode.removeprefix("0o").lstrip("0") or "0"
    return f"{int(mode):o}" if mode.isdigit() else "644"


_DRIVER = "the driver comes with the GPU, at /usr/local/nvidia"
_ELSEWHERE = "use a folder of the machine that all agents have, or a persistent volume of Marathon"


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of a pod by name; what a volume is becomes a note only where it is mounted, or at its own place."""

    by_name: Mapping[str, Section]
    maps: ConfigMaps
    claims_mib: Mapping[str, int] = field(default_factory=dict)
    """The claims that each instance of a StatefulSet has of its own, by name, with their sizes."""

    @classmethod
    def of(cls, sections: Iterable[Section], maps: ConfigMaps, claims_mib: Mapping[str, int]) -> Volumes:
        """Return the volumes of a pod's list."""
        return cls({section.text("name") or "": section for section in sections}, maps, claims_mib)

    def mount(self, item: Section, container: Container, notes: Notes) -> None:
        """Mount a volume into a container, as an entry of its `volumeMounts` says; what cannot be, is noted."""
        path, name, read_only = item.text("mountPath") or "", item.text("name") or "", item.flag("readOnly")
        below = item.text("subPath")
        item.ignore("mountPropagation")
        if name in self.claims_mib:
            if below is not None:
                notes.check(item.at("subPath"), f"all of the volume is at {path}, not its folder {below}")
            container.mounts.append(Mount(item.place, path, None, name, read_only, self.claims_mib[name]))
            return
        volume = self.by_name.get(name)
        if volume is None:
            raise notes.bad(item.at("name"), f"the pod has no volume {name!r}")
        if "hostPath" in volume:
            source = volume.section("hostPath")
            source.ignore("type")
            host = source.text("path") or ""
            if is_driver_path(host):
                notes.lost(item.place, _DRIVER)
                return
            container.mounts.append(Mount(item.place, path, f"{host}/{below}" if below else host, None, read_only))
        elif "emptyDir" in volume:
            source = volume.section("emptyDir")
            size = source.read("sizeLimit", quantities.mib)
            if path == "/dev/shm":
                source.ignore("medium")
                container.shm_mib = size
                if size is None:
                    notes.check(item.place, "/dev/shm has its usual size; give sizeLimit, or linuxInfo.ipcInfo.shmSize")
            else:
                folder = f"{name}/{below}" if below else name
                container.mounts.append(Mount(item.place, path, None, folder, read_only))
        elif "configMap" in volume:
            why = write_files(volume.section("configMap"), self.maps, container, path, below)
            if why is None:
                note_of(item.place, notes)
            else:
                notes.lost(volume.at("configMap"), f"volume {name}, mounted at {path}: {why}")
        else:
            kinds = [key for key in volume if key != "name"]
            volume.ignore(*kinds)
            why = _ELSEWHERE
            if name.startswith("kube-api-access-"):
                why = "Kubernetes' own API is not there"
            elif kinds in (["secret"], ["downwardAPI"], ["projected"]):
                why = "files are brought into the sandbox with `fetch`; secrets need a store of the cluster"
            notes.lost(volume.at(kinds[0] if kinds else "name"), f"volume {name}, mounted at {path}: {why}")


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
    gpu_requests.take_units(limits, container, notes)
    cpus_limit, mem_limit = limits.read("cpu", quantities.cpus), limits.read("memory", quantities.mib)
    container.cpus = _or(requests.read("cpu", quantities.cpus), cpus_limit)
    container.mem_mib = _or(requests.read("memory", quantities.mib), mem_limit)
    container.cpus_limit = None if cpus_limit == container.cpus else cpus_limit
    container.mem_limit_mib = _limit(mem_limit, container.mem_mib)
    disk = _or(requests.read("ephemeral-storage", quantities.mib), limits.read("ephemeral-storage", quantities.mib))
    container.disk_mib = disk
    for part in (limits, requests):
        for key in part:
            if (key not in (gpu_requests.GPU_MEM, gpu_requests.GPU_COUNT) and "gpu" in key) or key.startswith(
                "nvidia.com/"
            ):
                part.lose("parts of GPUs are asked for by gpuShare: so many GiB (memGiB) and a weight", key)


def _gpus(limits: Section, requests: Section, notes: Notes) -> int:
    """Return how many GPUs a container gets. MIG instances are GPUs of an agent too, so they count."""
    found: int | None = None
    for part in (limits, requests):
        for key in part:
            mig = key.startswith("nvidia.com/mig-")
            if key in (gpu_requests.GPU, gpu_requests.ALPHA) or mig:
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
