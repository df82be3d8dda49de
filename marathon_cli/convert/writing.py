"""Makes the documents: Marathon apps and pods, and jobs in Metronome's form. What a form cannot say is noted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from marathon_cli.convert.gpu_requests import take_variables
from marathon_cli.convert.model import Container, Notes, Port, Probe, Timing, Workload
from marathon_cli.convert.shell import join
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DEVICES_LABEL, DOCKER_COMMAND

Form = Literal["app", "pod", "job"]
FORMS: Sequence[Form] = ("app", "pod", "job")
DEFAULT_CPUS, DEFAULT_MEM_MIB = 1.0, 1024
"""What is written where the source does not limit memory: Marathon's own 128 MiB is too little for any CUDA program."""

_ONLY_APPS = "persistent volumes are for apps of one container; an empty folder is there, which ends with the task"
_SHELLS = (["sh", "-c"], ["/bin/sh", "-c"])
_LEAST_JOB_MEM_MIB, _LEAST_JOB_CPUS = 32, 0.01
Document = dict[str, Any]


class Converted(NamedTuple):
    """A document, its form, and the command that runs it."""

    form: Form
    document: Document


def form_of(workload: Workload) -> Form:
    """Return the form that says a workload best: a job for what ends, a pod for several containers."""
    if len(workload.containers) > 1:
        return "pod"
    return "job" if workload.once else "app"


def write(workload: Workload, form: Form | None, notes: Notes) -> Converted:
    """Return the document of a workload. Raises BadInput when `form` cannot hold it."""
    chosen = form or form_of(workload)
    if len(workload.containers) > 1 and chosen != "pod":
        names = ", ".join(container.name for container in workload.containers)
        raise BadInput(f"{notes.name}: {workload.name} has several containers ({names}); only a pod holds them")
    if workload.once and chosen == "pod" and len(workload.containers) > 1:
        notes.check(workload.at, "its containers end; a pod is started again then")
    if workload.schedule is not None and chosen != "job":
        raise BadInput(f"{notes.name}: {workload.name} has a schedule, which only a job has")
    take_variables(workload, notes)
    for container in workload.containers:
        if container.mem_mib is None:
            what = f"the source says nothing of memory: {DEFAULT_MEM_MIB} MiB are written here, and are the limit"
            notes.check(container.at, what)
    writers = {"app": _app, "pod": _pod, "job": _job}
    return Converted(chosen, writers[chosen](workload, notes))


def _app(workload: Workload, notes: Notes) -> Document:
    (container,) = workload.containers
    app: Document = {"id": f"/{_path(workload, notes)}", **_command(container, notes)}
    app |= {"cpus": container.cpus or DEFAULT_CPUS, "mem": container.mem_mib or DEFAULT_MEM_MIB}
    app |= _given(
        disk=container.disk_mib, gpus=container.gpus or None, gpuShare=container.share, instances=workload.instances
    )
    docker: Document = {"image": container.image, **_given(forcePullImage=container.force_pull or None)}
    app["container"] = {"type": "MESOS", "docker": docker, **_given(volumes=_volumes(container, notes, kept=True))}
    if container.shm_mib is not None:
        app["container"]["linuxInfo"] = _shared_memory(container.shm_mib)
    labels = {**workload.labels, **_command_labels(app), **_device_labels(container)}
    app |= _given(env=container.env, labels=labels, constraints=workload.constraints, user=container.user)
    app |= _given(tty=container.tty or None, resourceLimits=_limits(container))
    app |= _ports(container, notes)
    if container.alive is not None:
        app |= _given(healthChecks=[check for check in [_app_check(container.alive, container, notes)] if check])
    if container.ready is not None:
        app |= _given(readinessChecks=_readiness(container.ready, container, notes))
    app |= _given(taskKillGracePeriodSeconds=workload.kill_grace_s, upgradeStrategy=_upgrade(workload))
    return app | _given(dependencies=[f"/{_id(name)}" for name in workload.after])


def _pod(workload: Workload, notes: Notes) -> Document:
    mounts = [mount for container in workload.containers for mount in container.mounts]
    empty = {mount.empty.partition("/")[0] for mount in mounts if mount.empty}
    volumes: list[Document] = [{"name": _segment(name)} for name in sorted(empty)]
    containers = [_pod_container(container, workload, volumes, notes) for container in workload.containers]
    pod: Document = {"id": f"/{_path(workload, notes)}", "containers": containers}
    pod |= {"networks": [{"mode": "host"}], "scaling": {"kind": "fixed", "instances": workload.instances}}
    pod |= _given(labels=workload.labels, volumes=volumes)
    users = {container.user for container in workload.containers}
    pod |= _given(user=users.pop() if len(users) == 1 else None)
    if shared := max((container.shm_mib or 0 for container in workload.containers), default=0):
        pod["linuxInfo"] = _shared_memory(shared)
    rules = [
        {"fieldName": rule[0], "operator": rule[1], **_given(value=rule[2] if len(rule) > 2 else None)}
        for rule in workload.constraints
    ]
    scheduling = _given(upgrade=_upgrade(workload), placement={"constraints": rules} if rules else None)
    return pod | _given(scheduling=scheduling)


def _pod_container(container: Container, workload: Workload, volumes: list[Document], notes: Notes) -> Document:
    image = {"kind": "DOCKER", "id": container.image, **_given(forcePull=container.force_pull or None)}
    resources = {"cpus": container.cpus or DEFAULT_CPUS, "mem": container.mem_mib or DEFAULT_MEM_MIB}
    resources |= _given(disk=container.disk_mib, gpus=container.gpus or None)
    written: Document = {"name": _segment(container.name), "image": image, "resources": resources}
    written |= _given(gpuShare=container.share, labels=_device_labels(container))
    if container.shell is not None or container.workdir is not None or container.before:
        command = _command(container, notes)
        if "cmd" in command:
            written["exec"] = {"command": {"shell": command["cmd"]}}
    elif container.entrypoint or container.args:
        # Said in any case: left out, the image's own entrypoint may stay.
        argv = [*(container.entrypoint or []), *container.args]
        written["exec"] = {"command": {"argv": argv}, "overrideEntrypoint": bool(container.entrypoint)}
    written |= _given(environment=container.env, resourceLimits=_limits(container), tty=container.tty or None)
    written |= _given(endpoints=[_endpoint(port, i) for i, port in enumerate(container.ports)])
    mounts = []
    for mount in container.mounts:
        empty, slash, below = (mount.empty or "").partition("/")
        name = _segment(empty or mount.host or "")
        if slash:
            notes.check(mount.at, f"all of the volume {empty} is at {mount.path}, not its folder {below}")
        if mount.keeps_mib is not None:
            notes.lost(mount.at, f"a volume of {mount.keeps_mib} MiB: {_ONLY_APPS}")
        if mount.host is not None and {"name": name, "host": mount.host} not in volumes:
            volumes.append({"name": name, "host": mount.host})
        mounts.append({"name": name, "mountPath": mount.path, **_given(readOnly=mount.read_only or None)})
    written |= _given(volumeMounts=mounts)
    if container.alive is not None:
        written |= _given(healthCheck=_pod_check(container.alive, container, notes))
    if container.ready is not None:
        notes.lost(container.ready.at, "pods have no readiness checks")
    if workload.kill_grace_s is not None:
        written["lifecycle"] = {"killGracePeriodSeconds": workload.kill_grace_s}
    return written


def _job(workload: Workload, notes: Notes) -> Document:
    (container,) = workload.containers
    run: Document = {**_command(container, notes), "cpus": max(container.cpus or DEFAULT_CPUS, _LEAST_JOB_CPUS)}
    limit = container.mem_limit_mib if isinstance(container.mem_limit_mib, (int, float)) else None
    run["mem"] = max(limit or container.mem_mib or DEFAULT_MEM_MIB, _LEAST_JOB_MEM_MIB)
    run["disk"] = container.disk_mib or 0
    run |= _given(gpus=container.gpus or None, gpuShare=container.share)
    run["ucr"] = {"image": {"id": container.image, "kind": "docker", **_given(forcePull=container.force_pull or None)}}
    run |= _given(env=container.env, user=container.user, volumes=_volumes(container, notes))
    rules = [
        {"attribute": rule[0], "operator": rule[1], "value": rule[2]}
        for rule in workload.constraints
        if rule[1] in ("IS", "LIKE", "UNLIKE")
    ]
    if len(rules) < len(workload.constraints):
        notes.lost(workload.at, "a run is one task: it needs no rule of how tasks are spread")
    run |= _given(placement={"constraints": rules} if rules else None)
    policy = "ON_FAILURE" if workload.restart_on_failure else "NEVER"
    run["restart"] = {"policy": policy, **_given(activeDeadlineSeconds=workload.deadline_s)}
    run |= _given(taskKillGracePeriodSeconds=workload.kill_grace_s)
    if container.ports:
        notes.lost(container.ports[0].at, "jobs have no ports of their own")
    if container.tty:
        notes.lost(container.at, "a run of a job has no terminal; apps and pods have one (tty)")
    if container.shm_mib is not None:
        notes.lost(container.at, f"jobs cannot set the size of /dev/shm ({container.shm_mib} MiB); apps and pods can")
    for probe in filter(None, (container.alive, container.ready)):
        notes.lost(probe.at, "jobs have no health checks: they end")
    labels = {**workload.labels, **_command_labels(run), **_device_labels(container)}
    job: Document = {"id": _path(workload, notes, ".").replace("/", "."), **_given(labels=labels), "run": run}
    if workload.schedule is not None:
        job["schedules"] = [_schedule(workload)]
    return job


def _schedule(workload: Workload) -> Document:
    schedule = workload.schedule
    if schedule is None:
        raise ValueError("a schedule is needed")
    return {
        "id": "default",
        "cron": schedule.cron,
        **_given(timezone=schedule.timezone, startingDeadlineSeconds=schedule.starting_deadline_s),
        "concurrencyPolicy": "ALLOW" if schedule.overlap else "FORBID",
        "enabled": schedule.enabled,
    }


def _command(container: Container, notes: Notes) -> Document:
    """Return `cmd` or `args`: args are the image's entrypoint's, a cmd is a shell's and takes its place."""
    line = container.shell
    if line is None and container.entrypoint:
        words = [*container.entrypoint, *container.args]
        line = words[2] if words[:2] in _SHELLS and len(words) == 3 else f"exec {join(words)}"
    if line is not None:
        moved = f"cd {join([container.workdir])} && {line}" if container.workdir else line
        return {"cmd": "\n".join([*(f"{step} || exit" for step in container.before), moved])}
    if container.workdir is not None:
        why = "the image's own folder is used; to go elsewhere, name the program (command, entrypoint) as well"
        notes.lost(container.workdir_at, why)
    return {"args": container.args} if container.args else {}


def _device_labels(container: Container) -> dict[str, str]:
    return {DEVICES_LABEL: ",".join(container.devices)} if container.devices else {}


def _command_labels(document: Document) -> dict[str, str]:
    """Return the label by which arguments are the program of an image without ENTRYPOINT, as they are to Docker."""
    return {COMMAND_LABEL: DOCKER_COMMAND} if "args" in document else {}


def _volumes(container: Container, notes: Notes, *, kept: bool = False) -> list[Document]:
    """Return the volumes of an app or a job: folders of the machine, and of the sandbox, shown where they are wanted.

    A host path that is not absolute lies in the sandbox (Mesos' isolator volume/sandbox_path); a persistent volume has
    its place there, too, and with `kept` those are made.
    """
    found: list[Document] = []
    for mount in container.mounts:
        mode = "RO" if mount.read_only else "RW"
        host, *below = (mount.host or mount.empty or "").split("/") if mount.host is None else (mount.host,)
        if mount.host is None:
            host = "/".join([_segment(host), *below])
        if mount.keeps_mib is not None and not kept:
            notes.lost(mount.at, f"a volume of {mount.keeps_mib} MiB: {_ONLY_APPS}")
        elif mount.keeps_mib is not None:
            disk = {"containerPath": host, "mode": "RW", "persistent": {"size": mount.keeps_mib}}
            found += [disk] if disk not in found else []
        found.append({"containerPath": mount.path, "hostPath": host, "mode": mode})
    return found


def _ports(container: Container, notes: Notes) -> Document:
    """Return the ports of an app on the machine's own network, where what listens on 8080 listens on the machine."""
    if not container.ports:
        return {"portDefinitions": []}
    for port in container.ports:
        if port.machine not in (None, port.number):
            what = f"on the machine's network it listens on {port.number}, not on {port.machine}"
            notes.check(port.at, what)
    definitions = [
        {"port": port.number, "protocol": port.protocol, "name": _port_name(port, index)}
        for index, port in enumerate(container.ports)
    ]
    what = "on the machine's network: one instance on each machine, unless the command listens on $PORT0"
    notes.check(container.ports[0].at, what)
    return {"portDefinitions": definitions, "requirePorts": True}


def _endpoint(port: Port, index: int) -> Document:
    return {"name": _port_name(port, index), "hostPort": port.number, "protocol": [port.protocol]}


def _port_name(port: Port, index: int) -> str:
    return _segment(port.name) if port.name else f"port{index}"


def _app_check(probe: Probe, container: Container, notes: Notes) -> Document | None:
    numbers = _timing(probe.timing)
    if probe.command is not None:
        return {"protocol": "COMMAND", "command": {"value": probe.command}, **numbers}
    port = _number(probe, container, notes)
    if port is None:
        return None
    if probe.path is None:
        return {"protocol": "MESOS_TCP", "port": port, **numbers}
    return {"protocol": "MESOS_HTTPS" if probe.https else "MESOS_HTTP", "path": probe.path, "port": port, **numbers}


def _pod_check(probe: Probe, container: Container, notes: Notes) -> Document | None:
    numbers = _timing(probe.timing)
    if probe.command is not None:
        return {"exec": {"command": {"shell": probe.command}}, **numbers}
    endpoint = _port_of(probe, container, notes)
    if endpoint is None:
        return None
    name = _port_name(container.ports[endpoint], endpoint)
    if probe.path is None:
        return {"tcp": {"endpoint": name}, **numbers}
    return {"http": {"endpoint": name, "path": probe.path, "scheme": "HTTPS" if probe.https else "HTTP"}, **numbers}


def _timing(timing: Timing) -> Document:
    return {
        "intervalSeconds": timing.interval_s,
        "timeoutSeconds": timing.timeout_s,
        "maxConsecutiveFailures": timing.failures,
        "gracePeriodSeconds": timing.grace_s,
        "delaySeconds": timing.delay_s,
    }


def _readiness(probe: Probe, container: Container, notes: Notes) -> list[Document]:
    index = _port_of(probe, container, notes) if probe.path is not None else None
    if index is None or probe.path is None:
        if probe.path is None:
            notes.lost(probe.at, "readiness checks are HTTP requests; during a deployment, health checks count as well")
        return []
    # Its timeout must be shorter than its interval.
    check = {"name": "readiness", "protocol": "HTTPS" if probe.https else "HTTP", "path": probe.path}
    name = _port_name(container.ports[index], index)
    interval_s, timeout_s = probe.timing.interval_s, probe.timing.timeout_s
    numbers = {"intervalSeconds": max(interval_s, timeout_s + 1), "timeoutSeconds": timeout_s}
    return [{**check, "portName": name, **numbers}]


def _number(probe: Probe, container: Container, notes: Notes) -> int | None:
    if str(probe.port).isdigit():
        return int(str(probe.port))
    index = _port_of(probe, container, notes)
    return None if index is None else container.ports[index].number


def _port_of(probe: Probe, container: Container, notes: Notes) -> int | None:
    for index, port in enumerate(container.ports):
        if probe.port is not None and str(probe.port) in (port.name, str(port.number)):
            return index
    notes.lost(probe.at, f"its port {probe.port} is none of the container's `ports`")
    return None


def _upgrade(workload: Workload) -> Document | None:
    if workload.healthy_part is None:
        return None
    return {"minimumHealthCapacity": workload.healthy_part, "maximumOverCapacity": workload.extra_part}


def _limits(container: Container) -> Document:
    return _given(cpus=container.cpus_limit, mem=container.mem_limit_mib)


def _shared_memory(mib: int) -> Document:
    return {"ipcInfo": {"mode": "PRIVATE", "shmSize": mib}}


def _path(workload: Workload, notes: Notes, by: str = "/") -> str:
    """Return the id without its slash in front; where it is another name, that is noted."""
    path = _id(workload.name)
    if path != workload.name.strip("/"):
        said = f"/{path}" if by == "/" else path.replace("/", by)
        notes.check(workload.at, f"its id is {said}: names have lower-case letters, digits and - only")
    return path


def _id(name: str) -> str:
    return "/".join(_segment(part, dots=True) for part in name.strip("/").split("/"))


def _segment(text: str, *, dots: bool = False) -> str:
    """Return a text as a name that Marathon allows."""
    other = r"[^a-z0-9.]+" if dots else r"[^a-z0-9]+"
    parts = re.sub(other, "-", text.lower()).split(".")
    return ".".join(part.strip("-") for part in parts if part.strip("-")) or "unnamed"


def _given(**values: Any) -> Document:
    """Return the values that are there: neither None nor empty."""
    return {key: value for key, value in values.items() if value is not None and value not in ({}, [])}
