"""Reads `docker run` and `nvidia-docker run` command lines.

Sources: Docker's reference of `docker run`; nvidia-docker 1's NV_GPU and its volumes, nvidia-docker 2's runtime.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from marathon_cli.convert import quantities
from marathon_cli.convert.gpu_requests import (
    cdi_gpu,
    is_cdi_name,
    is_driver_path,
    is_driver_volume,
    is_gpu_node,
    is_nvidia_node,
    node_inside,
)
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
from marathon_cli.convert.shell import Word, commands
from marathon_cli.convert.variables import EnvFile, ReadFile, file_variables

ALL_GPUS = "all has no number: 1 is written here, as apps say how many GPUs they take"
NO_NODES = "apps have GPUs, and devices by their CDI names, vendor.com/class=name, but no nodes of the machine"
NO_DEVICES = "the agent chooses which GPUs; their number is kept"
DRIVER = "the driver comes with the GPU, at /usr/local/nvidia"
_PORTS = re.compile(
    r"(?:(?P<ip>\[[^]]*\]|[0-9]+(?:\.[0-9]+){3}):)?(?:(?P<machine>[0-9-]*):)?(?P<port>[0-9-]+)(?:/(?P<protocol>\w+))?"
)
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def take_gpus(container: Container, text: str, place: Place, notes: Notes) -> None:
    """Give a container what `--gpus TEXT` asks for: `all`, `2`, `device=0,2`, `"device=GPU-…",capabilities=utility`."""
    count: int | None = None
    for part in next(csv.reader([text.strip()]), []):
        key, equals, value = part.strip("'\"").partition("=")
        if not equals and (key == "all" or key.isdigit()):
            key, value = "count", key
        if key == "count":
            count = _count(container, value, place, notes)
        elif key == "device":
            count = visible_gpus(value)
            notes.check(place, NO_DEVICES)
        elif key == "capabilities" and value:
            container.env.setdefault("NVIDIA_DRIVER_CAPABILITIES", value.replace(" ", ","))
        elif key not in ("driver", "options", "capabilities"):
            raise notes.bad(place, f"{text!r} is not a request for GPUs such as all, 2 or device=0,1")
    container.gpus = 1 if count is None else count


def take_visible(container: Container, devices: str | None, place: Place, notes: Notes) -> None:
    """Give a container what NVIDIA_VISIBLE_DEVICES (or NV_GPU) names to NVIDIA's runtime; None: it is not set."""
    if devices is None or devices == "all":
        container.gpus = max(1, container.gpus)
        notes.check(place, ALL_GPUS)
    elif devices in ("", "void", "none"):
        container.gpus = 0
    else:
        container.gpus = visible_gpus(devices)
        notes.check(place, NO_DEVICES)


def visible_gpus(devices: str) -> int:
    """Return how many GPUs a list of indices or UUIDs names; commas or spaces part them."""
    return len({name for name in re.split(r"[,\s]+", devices) if name})


def ports(text: str, place: Place, notes: Notes) -> list[Port]:
    """Return the ports of `[[ip:][machine]:]port[-port][/protocol]`."""
    found = _PORTS.fullmatch(text)
    inside = _range(found["port"]) if found else None
    outside = _range(found["machine"]) if found and found["machine"] else None
    if found is None or inside is None or (found["machine"] and outside is None):
        raise notes.bad(place, f"{text!r} is not a port such as 8080:80")
    if found["ip"]:
        notes.lost(place, f"the address {found['ip']}: tasks listen on the machine's own")
    machines: list[int | None] = list(outside) if outside and len(outside) == len(inside) else [None] * len(inside)
    protocol = (found["protocol"] or "tcp").lower()
    return [Port(place, port, machine, None, protocol) for port, machine in zip(inside, machines, strict=True)]


def volume_mount(text: str, place: Place, notes: Notes) -> Mount | None:
    """Return the mount of `source:path[:options]`; None for what needs no place here, which is noted."""
    source, colon, rest = text.partition(":")
    path, _, options = rest.partition(":")
    if not colon:
        notes.lost(place, f"{text} is a volume without a name: the container's own files are there, and end with it")
        return None
    if is_driver_volume(source) or is_driver_path(source):
        notes.lost(place, DRIVER)
        return None
    return mount_of(source, path, "ro" in options.split(","), place, notes)


def mount_of(source: str, path: str, read_only: bool, place: Place, notes: Notes) -> Mount | None:
    """Return the mount of a folder of the machine; a volume that Docker manages has no counterpart, which is noted."""
    if source.startswith((".", "~")):
        notes.check(place, f"write {source} as a whole path, which all agents have")
    elif not source.startswith(("/", "$")):
        why = "use a folder of the machine, or a persistent volume of Marathon"
        notes.lost(place, f"{source} is a volume that Docker manages: {why}")
        return None
    return Mount(place, path, source, None, read_only)


def _count(container: Container, value: str, place: Place, notes: Notes) -> int:
    if value in ("all", "-1"):
        notes.check(place, ALL_GPUS)
        return 1
    if not value.isdigit():
        raise notes.bad(place, f"{value!r} is not a number of GPUs")
    return int(value)


def _range(text: str) -> range | None:
    found = _RANGE.fullmatch(text)
    if found is None or int(found[2] or found[1]) < int(found[1]) or int(found[2] or found[1]) > 65535:
        return None
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def take_device(container: Container, name: str, place: Place, notes: Notes) -> None:
    """Give a container a device of another vendor by its CDI name, where its agent gives such to tasks."""
    if name not in container.devices:
        container.devices.append(name)
    notes.check(place, f"{name}: the agent needs the vendor's CDI file, and --cdi_devices={name.partition('=')[0]}")


PROGRAMS = ("docker", "nvidia-docker", "podman")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
_SHORT = {
    **{"a": "attach", "c": "cpu-shares", "d": "detach", "e": "env", "h": "hostname", "i": "interactive"},
    **{"l": "label", "m": "memory", "p": "publish", "P": "publish-all", "q": "quiet", "t": "tty", "u": "user"},
    **{"v": "volume", "w": "workdir"},
}
_FLAGS = {
    *("detach", "disable-content-trust", "init", "interactive", "no-healthcheck", "oom-kill-disable", "privileged"),
    *("publish-all", "quiet", "read-only", "rm", "sig-proxy", "tty", "use-api-socket"),
}
_NOTHING_NEEDED = {
    *("rm", "sig-proxy", "quiet", "init", "attach", "detach-keys", "disable-content-trust", "cidfile"),
    *("platform", "log-driver", "log-opt", "no-healthcheck", "volume-driver", "oom-kill-disable"),
}
_WHY = {
    "privileged": "a container gets its GPUs without it, and there is no such mode",
    "cap-add": "containers have the capabilities that the agents allow (--bounding_capabilities)",
    "cap-drop": "containers have the capabilities that the agents allow (--bounding_capabilities)",
    "link": "tasks find each other through Marathon, Mesos-DNS or a load balancer",
    "ulimit": "limits are those of the agent",
    "ipc": "containers have a /dev/shm of their own; linuxInfo.ipcInfo.shmSize sets its size",
    "tmpfs": "a folder in memory; the container's own files are on disk",
    "publish-all": "name the ports",
}


@dataclass(slots=True)
class _Options:
    """The options of one command line, as they were given."""

    given: list[tuple[str, str, Place]] = field(default_factory=list)

    def of(self, *names: str) -> list[tuple[str, Place]]:
        return [(value, place) for name, value, place in self.given if name in names]

    def last(self, *names: str) -> tuple[str, Place] | None:
        found = self.of(*names)
        return found[-1] if found else None


def is_command(text: str) -> bool:
    """Return whether a text looks like a script with a docker command in it."""
    try:
        return any(_program(words) is not None for words in commands(text))
    except ValueError:
        return False


def read(text: str, environ: Mapping[str, str], notes: Notes, read_file: ReadFile | None = None) -> list[Workload]:
    """Return a workload for each `docker run` of a script. `environ` may have NV_GPU. Raises BadInput.

    `read_file` returns what `--env-file` names.
    """
    try:
        found = commands(text)
    except ValueError as error:
        raise notes.bad(Place(1, "command line"), str(error)) from None
    return read_words(found, environ, notes, read_file)


def read_words(
    script: Sequence[Sequence[Word]], environ: Mapping[str, str], notes: Notes, read_file: ReadFile | None = None
) -> list[Workload]:
    """Return a workload for each command of a script that is a `docker run`; others are noted."""
    workloads: list[Workload] = []
    for words in script:
        begun = _program(words)
        verb = _verb(words, begun) if begun is not None else None
        if begun is None or verb is None:
            said = shlex.join(word.text for word in words[:3])
            notes.lost(Place(words[0].line, said), "only `docker run` and `docker create` are converted")
            continue
        variables = {**environ, **_assignments(words[:begun])}
        nvidia = words[begun].text.endswith("nvidia-docker")
        workloads.append(_workload(words[verb:], variables, nvidia, notes, read_file))
    return workloads


def _program(words: Sequence[Word]) -> int | None:
    """Return which word is the program docker; before it may stand variables, sudo and a prompt."""
    for index, word in enumerate(words):
        if word.text.rpartition("/")[2] in PROGRAMS:
            return index
        if not (_ASSIGNMENT.fullmatch(word.text) or word.text in ("sudo", "env", "exec", "time", "$", "-E")):
            return None
    return None


def _verb(words: Sequence[Word], program: int) -> int | None:
    """Return which word is the first behind `run` or `create`."""
    rest = [word.text for word in words[program + 1 : program + 3]]
    if rest[:1] in (["run"], ["create"]):
        return program + 2
    return program + 3 if rest in (["container", "run"], ["container", "create"]) else None


def _assignments(words: Sequence[Word]) -> dict[str, str]:
    found = (_ASSIGNMENT.fullmatch(word.text) for word in words)
    return {match[1]: match[2] for match in found if match}


def _workload(
    words: Sequence[Word], environ: Mapping[str, str], nvidia: bool, notes: Notes, read_file: ReadFile | None
) -> Workload:
    options, image, behind = _parse(words, notes)
    place = Place(image.line, image.text)
    for word in words:
        if word.left:
            notes.check(Place(word.line, word.text), f"write what a shell would have put in place of {word.left}")
    name = options.last("name")
    container = Container(_name_of(image.text), place, image.text)
    workload = Workload(name[0] if name else container.name, name[1] if name else place, [container])
    _take_command(container, options, behind, notes)
    for text, at in options.of("env-file"):
        container.env.update(file_variables(EnvFile(at, text, raw=True), environ, read_file, notes))
    _take_variables(container, options, environ)
    _take_gpus(container, options, nvidia, environ, place, notes)
    if container.gpus:
        # One stops a container before one starts the next; Marathon's default would need twice the GPUs.
        workload.healthy_part, workload.extra_part = 0.0, 0.0
    _take_resources(container, options, notes)
    for text, at in options.of("publish"):
        container.ports += ports(text, at, notes)
    for text, at in options.of("expose"):
        container.ports += ports(text, at, notes)
    _take_mounts(container, options, notes)
    _take_health(container, options, notes)
    _take_life(workload, options, notes)
    _take_placement(container, options, notes)
    workload.labels = dict(text.partition("=")[::2] for text, _ in options.of("label"))
    for option, value, at in options.given:
        if option not in _TAKEN and option not in _NOTHING_NEEDED and not (option in _FLAGS and value == "false"):
            notes.lost(at, _WHY.get(option, "there is no counterpart"))
    return workload


_TAKEN = {
    *(
        "name",
        "entrypoint",
        "env",
        "env-file",
        "gpus",
        "runtime",
        "device",
        "cpus",
        "memory",
        "memory-reservation",
        "shm-size",
    ),
    *("cpu-quota", "cpu-period", "cpu-shares", "publish", "expose", "volume", "mount", "restart", "detach"),
    *(
        "stop-timeout",
        "workdir",
        "user",
        "tty",
        "interactive",
        "label",
        "network",
        "net",
        "pull",
        "health-cmd",
        "health-interval",
    ),
    *("health-retries", "health-timeout", "health-start-period"),
}


def _parse(words: Sequence[Word], notes: Notes) -> tuple[_Options, Word, list[str]]:
    """Return the options, the image, and the words behind it."""
    options, i = _Options(), 0
    while i < len(words) and words[i].text.startswith("-") and words[i].text != "-":
        text, line = words[i].text, words[i].line
        i += 1
        if text == "--":
            break
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            name = "network" if name == "net" else name
        else:
            # -itv=… is -i -t -v: flags may stand together, and the last of them may have a value.
            cluster = text[1:]
            while len(cluster) > 1 and _SHORT.get(cluster[0]) in _FLAGS and cluster[1] != "=":
                options.given.append((_SHORT[cluster[0]], "true", Place(line, f"-{cluster[0]}")))
                cluster = cluster[1:]
            if cluster[0] not in _SHORT:
                raise notes.bad(Place(line, text), "docker run has no such option")
            name, value = _SHORT[cluster[0]], cluster[1:].removeprefix("=")
            equals = "=" if cluster[1:] else ""
        place = Place(line, text.partition("=")[0])
        if not equals and name in _FLAGS:
            value = "true"
        elif not equals:
            if i == len(words):
                raise notes.bad(place, "a value is missing")
            value, i = words[i].text, i + 1
        options.given.append((name, value, place))
    if i == len(words):
        raise notes.bad(Place(words[-1].line if words else 1, "docker run"), "an image is missing")
    return options, words[i], [word.text for word in words[i + 1 :]]


def _name_of(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _take_command(container: Container, options: _Options, behind: list[str], notes: Notes) -> None:
    entrypoint = options.last("entrypoint")
    container.entrypoint = [entrypoint[0]] if entrypoint and entrypoint[0] else None
    container.args = behind
    if workdir := options.last("workdir"):
        container.workdir, container.workdir_at = workdir
    user = options.last("user")
    if user is not None:
        container.user, _, group = user[0].partition(":")
        if group:
            notes.lost(user[1], GROUP_OF_THE_USER)
    if (interactive := options.last("interactive")) and interactive[0] == "true":
        notes.lost(interactive[1], NOBODY_TYPES)
    container.tty = (options.last("tty") or ("false",))[0] == "true"
    container.force_pull = (options.last("pull") or ("",))[0] == "always"


def _take_variables(container: Container, options: _Options, environ: Mapping[str, str]) -> None:
    for text, _ in options.of("env"):
        name, equals, value = text.partition("=")
        container.env[name] = value if equals else environ.get(name, "")


def _take_gpus(
    container: Container, options: _Options, nvidia: bool, environ: Mapping[str, str], place: Place, notes: Notes
) -> None:
    """Count the GPUs, by whichever of the five ways they were asked for."""
    visible = container.env.pop("NVIDIA_VISIBLE_DEVICES", None)
    runtime, asked = options.last("runtime"), options.last("gpus")
    nodes = [node_inside(text) for text, _ in options.of("device")]
    by_cdi = [name for text, _ in options.of("device") if (name := cdi_gpu(text)) is not None]
    for text, at in options.of("device"):
        if is_cdi_name(text) and cdi_gpu(text) is None:
            take_device(container, text, at, notes)
        elif not is_nvidia_node(node_inside(text)) and cdi_gpu(text) is None:
            notes.lost(at, f"{text}: {NO_NODES}")
    if asked is not None:
        take_gpus(container, asked[0], asked[1], notes)
    elif nvidia:
        where = Place(place.line, "NV_GPU" if "NV_GPU" in environ else "nvidia-docker")
        take_visible(container, environ.get("NV_GPU", visible), where, notes)
    elif runtime is not None and runtime[0] == "nvidia":
        take_visible(container, visible, runtime[1], notes)
    elif by_cdi:
        take_visible(container, "all" if "all" in by_cdi else ",".join(by_cdi), place, notes)
    elif any(is_nvidia_node(node) for node in nodes):
        container.gpus = len({node for node in nodes if is_gpu_node(node)})
    elif visible not in (None, "", "void", "none"):
        take_visible(container, visible, place, notes)
    if runtime is not None and runtime[0] not in ("nvidia", "runc"):
        notes.lost(runtime[1], "the agents have one runtime for all")


def _take_resources(container: Container, options: _Options, notes: Notes) -> None:
    def number(name: str, reader: Callable[[str], float]) -> float | None:
        if (found := options.last(name)) is None:
            return None
        try:
            return reader(found[0])
        except ValueError as error:
            raise notes.bad(found[1], str(error)) from None

    container.cpus = number("cpus", quantities.cpus)
    if container.cpus is None and (quota := number("cpu-quota", float)) is not None:
        container.cpus = quota / (number("cpu-period", float) or 100_000)
    if container.cpus is None and (shares := number("cpu-shares", float)) is not None:
        container.cpus = shares / 1024
    limit, reserved = number("memory", quantities.docker_mib), number("memory-reservation", quantities.docker_mib)
    least = limit if reserved is None else reserved
    container.mem_mib = None if least is None else int(least)
    if reserved is not None and limit != reserved:
        container.mem_limit_mib = "unlimited" if limit is None else limit
    shm = number("shm-size", quantities.docker_mib)
    container.shm_mib = None if shm is None else int(shm)


def _take_mounts(container: Container, options: _Options, notes: Notes) -> None:
    for text, at in options.of("volume"):
        if mount := volume_mount(text, at, notes):
            container.mounts.append(mount)
    for text, at in options.of("mount"):
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        source = fields.get("source") or fields.get("src") or ""
        path = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
        read_only = any(fields.get(key, "false") in ("", "true", "1") for key in ("readonly", "ro"))
        if mount := mount_of(source or "(no name)", path, read_only, at, notes):
            container.mounts.append(mount)


def _take_health(container: Container, options: _Options, notes: Notes) -> None:
    command = options.last("health-cmd")
    if command is None:
        return

    def seconds(name: str, default: int) -> int:
        found = options.last(name)
        try:
            return default if found is None else quantities.seconds(found[0])
        except ValueError as error:
            raise notes.bad(found[1] if found else command[1], str(error)) from None

    container.alive = Probe(
        command[1],
        command=command[0],
        timing=Timing(
            seconds("health-interval", 30),
            seconds("health-timeout", 30),
            seconds("health-retries", 3),
            grace_s=seconds("health-start-period", 0),
        ),
    )


def _take_life(workload: Workload, options: _Options, notes: Notes) -> None:
    """Decide whether it is to run for good or to its end."""
    restart = options.last("restart")
    detached = (options.last("detach") or ("false",))[0] == "true"
    policy = restart[0].partition(":")[0] if restart else "no"
    workload.restart_on_failure = policy == "on-failure"
    workload.once = policy == "on-failure" or (policy == "no" and not detached)
    if restart and ":" in restart[0]:
        notes.check(restart[1], "a job is started again until it succeeds; the number of tries cannot be limited")
    if policy == "no" and detached:
        what = "an app is started again when it ends; `--to job` makes a job of it, which is not"
        notes.check((options.last("detach") or ("", workload.at))[1], what)
    if (stop := options.last("stop-timeout")) is not None:
        workload.kill_grace_s = quantities.seconds(stop[0]) if stop[0].isdigit() else None


def _take_placement(container: Container, options: _Options, notes: Notes) -> None:
    network = options.last("network")
    if network is not None and network[0] not in ("host", "bridge", "default"):
        notes.lost(network[1], f"network {network[0]}: tasks use the machine's own network")
    if network is not None and network[0] == "none":
        container.ports.clear()
