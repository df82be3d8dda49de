"""Reads Compose files: every service becomes a workload. Source: the Compose specification (and version 2 files)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TypeVar

from marathon_cli.convert import docker, gpu_requests, quantities
from marathon_cli.convert.gpu_requests import cdi_gpu, is_cdi_name, is_driver_path, is_driver_volume
from marathon_cli.convert.model import (
    GROUP_OF_THE_USER,
    NOBODY_TYPES,
    Container,
    Mount,
    Notes,
    Place,
    Port,
    Probe,
    Timing,
    Workload,
)
from marathon_cli.convert.source import Section
from marathon_cli.convert.variables import EnvFile, ReadFile, dot_env, file_variables, interpolate

_PLACEMENT = re.compile(r"\s*([\w.\-]+)\s*(==|!=)\s*(.+?)\s*")
_CLUSTER = "tasks find each other through Marathon, Mesos-DNS or a load balancer"
_Value = TypeVar("_Value")


def is_compose(document: Section) -> bool:
    """Return whether this is a Compose file."""
    return document.is_object("services")


def read(
    document: Section, environ: Mapping[str, str], notes: Notes, read_file: ReadFile | None = None
) -> list[Workload]:
    """Return a workload for each service; their names are `project/service` where the file names the project.

    `read_file` returns the files that it names (`env_file`), and `.env`, whose variables stand behind `environ`.
    """
    environ = {**dot_env(environ, read_file), **environ}
    project = document.text("name")
    document.ignore("version", *(key for key in document if key.startswith("x-")))
    document.lose(_CLUSTER, "networks")
    document.lose("use a folder of the machine, or a persistent volume of Marathon", "volumes")
    document.lose("files are brought into the sandbox with `fetch`; secrets need a store", "configs", "secrets")
    services = document.section("services")
    found = []
    for name in services:
        reader = _Service(services.section(name), environ, notes, read_file)
        found.append(reader.read(f"{project}/{name}" if project else name, project))
    document.finish()
    return found


class _Service:
    """Reads one service."""

    def __init__(self, section: Section, environ: Mapping[str, str], notes: Notes, read_file: ReadFile | None) -> None:
        self._section, self._environ, self._notes, self._read_file = section, environ, notes, read_file

    def read(self, name: str, project: str | None) -> Workload:
        section, notes = self._section, self._notes
        container = Container(name.rpartition("/")[2], section.place, self._text("image") or "")
        workload = Workload(name, section.place, [container])
        if not container.image and "build" not in section:
            raise notes.bad(section.place, "image: is missing; build the image, push it, and name it")
        if not container.image:
            # The name that Compose gives what it builds.
            container.image = name.replace("/", "-").lower()
            what = f"an image {container.image} is not there: build it, push it to a registry, and name it"
            notes.check(section.at("build"), what)
        section.lose("build the image and push it to a registry", "build")
        if (named := section.text("container_name")) is not None:
            notes.check(section.at("container_name"), f"its id is /{name}, not {named}")
        container.entrypoint = self._words("entrypoint") or None
        container.args = self._words("command") or []
        container.workdir, container.workdir_at = self._text("working_dir"), section.at("working_dir")
        user = self._text("user")
        container.user, _, group = (user or "").partition(":")
        container.user = container.user or None
        if group:
            notes.lost(section.at("user"), GROUP_OF_THE_USER)
        if section.flag("stdin_open"):
            notes.lost(section.at("stdin_open"), NOBODY_TYPES)
        container.tty = section.flag("tty")
        container.force_pull = section.text("pull_policy") == "always"
        self._read_variables(container)
        self._read_resources(container, workload)
        if container.gpus:
            # Compose stops a container before it starts the next; Marathon's default would need twice the GPUs.
            workload.healthy_part, workload.extra_part = 0.0, 0.0
        self._read_ports(container)
        self._read_volumes(container)
        container.alive = self._health()
        self._read_life(workload)
        workload.labels = {key: value or "" for key, (value, _) in self._map("labels").items()}
        needed = [item for item, _ in section.texts("depends_on")] if section.is_list("depends_on") else []
        if section.is_object("depends_on"):
            others = section.section("depends_on")
            needed = list(others)
            others.ignore(*needed)
        workload.after = [f"{project}/{item}" if project else item for item in needed]
        if "profiles" in section:
            notes.check(section.at("profiles"), "Compose starts it only when one of its profiles is asked for")
        section.ignore("stdin_open", "init", "platform", "logging", "profiles", "attach", "restart_policy")
        section.lose("a container gets its GPUs without it, and there is no such mode", "privileged")
        section.lose(_CLUSTER, "networks", "links", "external_links", "hostname", "network_mode", "extra_hosts")
        section.lose("containers have a /dev/shm of their own; shm_size sets its size", "ipc")
        section.lose("files are brought into the sandbox with `fetch`; secrets need a store", "configs", "secrets")
        return workload

    def _text(self, key: str) -> str | None:
        text = self._section.text(key)
        return None if text is None else self._filled(text, self._section.at(key))

    def _filled(self, text: str, place: Place) -> str:
        found, unknown = interpolate(text, self._environ)
        for name in unknown:
            self._notes.check(place, f"{name} is not set in the environment: write its value")
        return found

    def _words(self, key: str) -> list[str] | None:
        section = self._section
        if section.is_list(key):
            return [self._filled(text, place) for text, place in section.texts(key)]
        text = self._text(key)
        try:
            return None if text is None else shlex.split(text)
        except ValueError as error:
            raise self._notes.bad(section.at(key), f"cannot be split into words: {error}") from None

    def _map(self, key: str) -> dict[str, tuple[str | None, Place]]:
        """Return what may be written as an object or as a list of KEY=VALUE."""
        section = self._section
        if not section.is_list(key):
            pairs = section.texts_by_key(key)
        else:
            pairs = {}
            for text, place in section.texts(key):
                name, equals, value = text.partition("=")
                pairs[name] = (value if equals else None, place)
        return {
            name: (None if value is None else self._filled(value, place), place)
            for name, (value, place) in pairs.items()
        }

    def _read_variables(self, container: Container) -> None:
        for named in self._env_files():
            container.env.update(file_variables(named, self._environ, self._read_file, self._notes))
        for name, (value, place) in self._map("environment").items():
            if value is None and name not in self._environ:
                self._notes.lost(place, f"{name} comes from the environment, where it is not set")
            else:
                container.env[name] = self._environ[name] if value is None else value

    def _env_files(self) -> Iterator[EnvFile]:
        section = self._section
        if not section.is_list("env_file"):
            if (text := self._text("env_file")) is not None:
                yield EnvFile(section.at("env_file"), text)
            return
        for item in section.items("env_file"):
            if isinstance(item, Section):
                path, required = item.text("path") or "", (item.text("required") or "true").lower() != "false"
                yield EnvFile(item.place, self._filled(path, item.place), required, item.text("format") == "raw")
            else:
                yield EnvFile(item[1], self._filled(*item))

    def _read_resources(self, container: Container, workload: Workload) -> None:
        section = self._section
        deploy = section.section("deploy")
        resources = deploy.section("resources")
        limits, reserved = resources.section("limits"), resources.section("reservations")
        cpus = limits.read("cpus", quantities.cpus)
        container.cpus = _or(reserved.read("cpus", quantities.cpus), _or(cpus, section.read("cpus", quantities.cpus)))
        container.cpus_limit = None if cpus == container.cpus else cpus
        limit = _or(limits.read("memory", quantities.docker_mib), section.read("mem_limit", quantities.docker_mib))
        least = _or(
            reserved.read("memory", quantities.docker_mib), section.read("mem_reservation", quantities.docker_mib)
        )
        container.mem_mib = _or(least, limit)
        if least is not None and limit != least:
            container.mem_limit_mib = "unlimited" if limit is None else limit
        container.shm_mib = section.read("shm_size", quantities.docker_mib)
        self._read_gpus(container, reserved)
        self._read_deploy(deploy, workload)

    def _read_gpus(self, container: Container, reserved: Section) -> None:
        """Count the GPUs: reserved devices, `gpus`, the runtime nvidia, or device nodes."""
        section, notes = self._section, self._notes
        visible_at = section.at("environment")
        visible = container.env.pop("NVIDIA_VISIBLE_DEVICES", None)
        runtime = section.text("runtime")
        named = [(name, place) for name, place in section.texts("devices") if is_cdi_name(name)]
        nodes = [(text.partition(":")[0], at) for text, at in section.texts("devices") if not is_cdi_name(text)]
        by_cdi = {gpu: place for name, place in named if (gpu := cdi_gpu(name)) is not None}
        for name, place in named:
            if cdi_gpu(name) is None:
                docker.take_device(container, name, place, notes)
        for node, place in nodes:
            if not is_driver_path(node):
                notes.lost(place, f"{node}: {docker.NO_NODES}")
        requests = reserved.sections("devices")
        if section.is_list("gpus"):
            requests += section.sections("gpus")
        elif (text := section.text("gpus")) is not None:
            docker.take_gpus(container, text, section.at("gpus"), notes)
            return
        for request in requests:
            self._read_request(container, request)
        if requests:
            return
        if runtime == "nvidia":
            docker.take_visible(container, visible, visible_at if visible else section.at("runtime"), notes)
        elif runtime is not None:
            notes.lost(section.at("runtime"), "the agents have one runtime for all")
        elif by_cdi:
            wanted = "all" if "all" in by_cdi else ",".join(by_cdi)
            docker.take_visible(container, wanted, next(iter(by_cdi.values())), notes)
        elif nodes:
            container.gpus = len({node for node, _ in nodes if re.fullmatch(r"/dev/nvidia[0-9]+", node)})

    def _read_request(self, container: Container, request: Section) -> None:
        driver, words = request.text("driver") or "nvidia", request.words("capabilities") or []
        request.ignore("options")
        if driver != "nvidia":
            self._notes.lost(request.at("driver"), f"there are NVIDIA GPUs only, not {driver}")
            request.ignore("count", "device_ids")
            return
        before = container.gpus
        if "device_ids" in request:
            container.gpus = len({text for text, _ in request.texts("device_ids")})
            self._notes.check(request.at("device_ids"), docker.NO_DEVICES)
        else:
            docker.take_gpus(container, request.text("count") or "all", request.at("count"), self._notes)
        container.gpus += before
        wanted = [word for word in words if word not in ("gpu", "nvidia")]
        if wanted:
            container.env.setdefault("NVIDIA_DRIVER_CAPABILITIES", ",".join(wanted))

    def _read_deploy(self, deploy: Section, workload: Workload) -> None:
        replicas, scale = deploy.integer("replicas"), self._section.integer("scale")
        workload.instances = 1 if _or(replicas, scale) is None else _or(replicas, scale) or 0
        if deploy.text("mode") == "global":
            workload.constraints.append(["hostname", "UNIQUE"])
            self._notes.check(deploy.at("mode"), "`instances` does not follow the number of machines: set it to that")
        policy = deploy.section("restart_policy")
        workload.once = policy.text("condition") in ("none", "on-failure")
        workload.restart_on_failure = policy.text("condition") == "on-failure"
        for text, place in deploy.section("placement").texts("constraints"):
            workload.constraints += filter(None, [_constraint(text, place, self._notes)])

    def _read_ports(self, container: Container) -> None:
        for item in self._section.items("ports"):
            if isinstance(item, Section):
                number, machine = item.integer("target") or 0, item.integer("published")
                item.ignore("mode", "app_protocol")
                port = Port(item.place, number, machine, item.text("name"), item.text("protocol") or "tcp")
                container.ports.append(port)
            else:
                text, place = item
                container.ports += docker.ports(self._filled(text, place), place, self._notes)
        for text, place in self._section.texts("expose"):
            container.ports += docker.ports(text, place, self._notes)

    def _read_volumes(self, container: Container) -> None:
        for item in self._section.items("volumes"):
            mount: Mount | None
            if not isinstance(item, Section):
                text, place = item
                mount = docker.volume_mount(self._filled(text, place), place, self._notes)
            else:
                kind, source, path = item.text("type"), item.text("source") or "", item.text("target") or ""
                source, read_only = self._filled(source, item.place), item.flag("read_only")
                item.ignore("bind", "volume", "tmpfs")
                if is_driver_volume(source) or is_driver_path(source):
                    self._notes.lost(item.place, docker.DRIVER)
                    mount = None
                elif kind == "tmpfs":
                    mount = Mount(item.place, path, None, path.strip("/").replace("/", "-"))
                else:
                    mount = docker.mount_of(source or "(no name)", path, read_only, item.place, self._notes)
            if mount is not None:
                container.mounts.append(mount)

    def _health(self) -> Probe | None:
        section = self._section
        if "healthcheck" not in section:
            return None
        check = section.section("healthcheck")
        test = check.words("test") if check.is_list("test") else ["CMD-SHELL", check.text("test") or ""]
        timing = Timing(
            check.read("interval", quantities.seconds) or 30,
            check.read("timeout", quantities.seconds) or 30,
            check.integer("retries") or 3,
            grace_s=check.read("start_period", quantities.seconds) or 0,
        )
        check.ignore("start_interval")
        if check.flag("disable") or not test or test[0] == "NONE":
            return None
        command = test[1] if test[0] == "CMD-SHELL" else shlex.join(test[1:] if test[0] == "CMD" else test)
        return Probe(section.at("healthcheck"), command=command.replace("$$", "$"), timing=timing)

    def _read_life(self, workload: Workload) -> None:
        restart = self._section.text("restart")
        policy = (restart or "").partition(":")[0]
        if policy in ("no", "on-failure"):
            workload.once = True
            workload.restart_on_failure = policy == "on-failure"
        elif policy not in ("always", "unless-stopped") and not workload.once:
            what = 'an app is started again when it ends; `restart: "no"` makes a job of it, which is not'
            self._notes.check(workload.at, what)
        if restart and ":" in restart:
            self._notes.check(
                self._section.at("restart"),
                "a job is started again until it succeeds; the number of tries cannot be limited",
            )
        workload.kill_grace_s = self._section.read("stop_grace_period", quantities.seconds)


def _constraint(text: str, place: Place, notes: Notes) -> list[str] | None:
    found = _PLACEMENT.fullmatch(text)
    if found is None:
        raise notes.bad(place, f"{text!r} is not a constraint such as node.labels.gpu==true")
    name, operator, value = found.groups()
    label = "kubernetes.io/hostname" if name == "node.hostname" else name.removeprefix("node.labels.")
    if name.startswith(("node.role", "node.id", "node.platform")):
        notes.lost(place, "agents have no such attribute")
        return None
    return gpu_requests.expression(label, "In" if operator == "==" else "NotIn", [value], place, notes)


def _or(first: _Value | None, second: _Value | None) -> _Value | None:
    return second if first is None else first
