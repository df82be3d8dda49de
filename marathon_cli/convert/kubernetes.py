"""Reads Kubernetes' Pod, Deployment, ReplicaSet, ReplicationController, StatefulSet, Job and CronJob.

Source: the Kubernetes API reference, v1, apps/v1 and batch/v1 (and the older groups of the same kinds).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from marathon_cli.convert import gpu_requests, quantities
from marathon_cli.convert.kubernetes_container import USERS_HAVE_NAMES, ConfigMaps, Volumes, read_container
from marathon_cli.convert.model import Container, Mount, Notes, Schedule, Workload
from marathon_cli.convert.shell import join
from marathon_cli.convert.source import Section

KIND = "StatefulSet"
_DEFAULT_MIB = 1024


def read_claims(spec: Section, notes: Notes) -> dict[str, int]:
    """Return the claims that every instance gets one of, in MiB; none for other kinds."""
    found: dict[str, int] = {}
    for claim in spec.sections("volumeClaimTemplates"):
        claim.ignore("apiVersion", "kind", "status")
        metadata, wanted = claim.section("metadata"), claim.section("spec")
        name = metadata.text("name") or ""
        metadata.ignore("creationTimestamp", "labels", "annotations")
        resources = wanted.section("resources")
        size = resources.section("requests").read("storage", quantities.mib)
        resources.lose("a volume has the size that it is made with", "limits")
        if size is None:
            notes.check(claim.place, f"it says nothing of its size: {_DEFAULT_MIB} MiB are written here")
        found[name] = size or _DEFAULT_MIB
        wanted.lose("a persistent volume is on the disk of the agent that its instance stays on", "storageClassName")
        wanted.ignore("accessModes", "volumeMode")
        notes.check(
            claim.place,
            "a persistent volume: it and its instance stay on one agent, and it goes when the app is removed. "
            "The app's role must not be * (Marathon's --mesos_role, or `role`)",
        )
    return found


def read_set(spec: Section, workload: Workload, notes: Notes) -> None:
    """Read how the instances of a StatefulSet are named, started and replaced."""
    strategy = spec.section("updateStrategy")
    workload.replaced_at = spec.at("updateStrategy")
    rolling = strategy.section("rollingUpdate")
    gone = rolling.read("maxUnavailable", lambda text: quantities.part(text, workload.instances, upwards=True))
    if strategy.text("type") == "OnDelete":
        notes.lost(strategy.at("type"), "an update replaces the instances, one after the other")
    rolling.lose("an update reaches all instances", "partition")
    count = max(1, workload.instances)
    # One ends before another begins, as Marathon wants it for volumes that stay where they are.
    workload.healthy_part = math.floor((count - min(gone or 1, count)) / count * 10_000) / 10_000
    workload.extra_part = 0.0
    spec.lose("instances have no names of their own: they are found through Marathon or Mesos-DNS", "serviceName")
    spec.ignore("persistentVolumeClaimRetentionPolicy")
    spec.lose("instances are not numbered", "ordinals")
    if count > 1 and spec.text("podManagementPolicy") != "Parallel":
        at = spec.at("podManagementPolicy")
        notes.check(at, "the instances start together, and none of them is the first: they have no numbers")
    spec.ignore("podManagementPolicy")


_OTHERWISE = "put what it does into the image or into the command, `fetch` its files, or run it as a job before"


def read_first(items: Sequence[Section], containers: list[Container], volumes: Volumes, notes: Notes) -> None:
    """Make the `initContainers` of a pod part of its `containers`; what cannot be, is noted. Raises BadInput."""
    mains = list(containers)
    for item in items:
        stays = item.text("restartPolicy") == "Always"
        first = read_container(item, volumes, notes)
        if stays:
            notes.check(first.at, f"{first.name} starts together with the others, not before them")
            containers.append(first)
            continue
        why = _obstacle(first, mains)
        if why is not None:
            notes.lost(item.place, f"{first.name}, which runs before the others: {why}")
            continue
        _join(first, mains[0], notes)


def _obstacle(first: Container, mains: Sequence[Container]) -> str | None:
    """Return why a container cannot be the first step of the command of the only other one."""
    if len(mains) != 1:
        return f"the containers of a pod start together; {_OTHERWISE}"
    (main,) = mains
    if first.image != main.image:
        return f"its image {first.image} is not that of {main.name}, and a task has one image; {_OTHERWISE}"
    if not first.entrypoint:
        return "the program of its image is not known here; name it (command), then it can be the command's first step"
    if not main.entrypoint:
        return f"the program of {main.name}'s image is not known here; name it (command), then this can run before it"
    if first.user not in (None, main.user):
        return f"it runs as {first.user}, and a task's command runs as one user"
    return None


def _join(first: Container, main: Container, notes: Notes) -> None:
    """Let `main` run what `first` runs before its own program."""
    for mount in first.mounts:
        if not any(_same(mount, other) for other in main.mounts):
            if any(mount.path == other.path for other in main.mounts):
                notes.lost(mount.at, f"{main.name} has another volume at {mount.path}")
            else:
                main.mounts.append(mount)
    own = [f"{name}={value}" for name, value in first.env.items() if main.env.get(name) != value]
    line = join([*(["env", *own] if own else []), *(first.entrypoint or []), *first.args])
    main.before += [*first.before, f"(cd {join([first.workdir])} && {line})" if first.workdir else line]
    for name, more in (("gpus", first.gpus), ("cpus", first.cpus), ("mem_mib", first.mem_mib)):
        least = getattr(main, name)
        if more is not None and least is not None and more > least:
            setattr(main, name, more)
    notes.check(first.at, f"the first step of {main.name}'s command, in its container and each time that it starts")


def _same(one: Mount, other: Mount) -> bool:
    return (one.path, one.host, one.empty) == (other.path, other.host, other.empty)


_TEMPLATED = ("Deployment", "ReplicaSet", "ReplicationController", KIND)
KINDS = ("Pod", *_TEMPLATED, "Job", "CronJob")
_OF_THE_SERVER = ("status",)
_INSTEAD = {
    "Service": "a Mesos task's ports are found through Marathon, Mesos-DNS or a load balancer such as Marathon-LB",
    "Ingress": "a load balancer such as Marathon-LB does this",
    "Secret": "secrets lie in the store of the cluster; apps name them in `secrets`",
    "PersistentVolumeClaim": "use a folder of the machine, or a persistent volume of Marathon",
    "DaemonSet": 'an app with the constraint ["hostname", "UNIQUE"] and as many instances as machines is the nearest',
    "Namespace": "groups are made with their apps",
}


_ITS_OWN = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/", "batch.kubernetes.io/", "autoscaling.alpha.")
"""What kubectl and the controllers write about an object into it."""

_CRON = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def is_kubernetes(document: Section) -> bool:
    """Return whether this is an object of Kubernetes."""
    return "apiVersion" in document and "kind" in document


def read(documents: Iterable[Section], notes: Notes) -> list[Workload]:
    """Return the workloads of a file; objects of other kinds are noted. Raises BadInput."""
    objects = list(_objects(documents))
    maps = ConfigMaps(item for kind, item in objects if kind == "ConfigMap")
    found: list[Workload] = []
    for kind, item in objects:
        item.ignore("apiVersion", *_OF_THE_SERVER)
        if kind in KINDS:
            found.append(_workload(item, kind, maps, notes))
            item.finish()
    for kind, item in objects:
        if kind == "Service":
            notes.lost(item.at("kind"), f"a Service has no counterpart: {_INSTEAD[kind]}{_leads_to(item, found)}")
        elif kind != "ConfigMap" and kind not in KINDS:
            instead = _INSTEAD.get(kind)
            notes.lost(item.at("kind"), f"a {kind} has no counterpart{f': {instead}' if instead else ''}")
    maps.finish(notes)
    return found


def _objects(documents: Iterable[Section]) -> Iterator[tuple[str, Section]]:
    """Yield kind and object of all that is in a file; in a DeploymentList, objects need not say what they are."""
    for document in documents:
        kind = document.text("kind") or ""
        if kind.endswith("List") and document.is_list("items"):
            document.ignore("apiVersion", "metadata")
            for item in document.sections("items"):
                yield item.text("kind") or kind.removesuffix("List"), item
            document.finish(below=False)
        else:
            yield kind, document


def _leads_to(service: Section, workloads: Sequence[Workload]) -> str:
    """Return which ports of which workloads of the file a Service leads to."""
    spec = service.section("spec")
    selector = {key: value or "" for key, (value, _) in spec.texts_by_key("selector").items()}
    names = [w.name for w in workloads if selector and selector.items() <= w.labels.items()]
    ports = [(port.text("port") or "", port.text("targetPort")) for port in spec.sections("ports")]
    if not names or not ports:
        return ""
    led = ", ".join(f"{port} to {target or port}" for port, target in ports)
    return f". This one leads port {led} of {' and '.join(names)}"


def _workload(item: Section, kind: str, maps: ConfigMaps, notes: Notes) -> Workload:
    workload = Workload("", item.place)
    _read_metadata(item.section("metadata"), workload, notes)
    spec = item.section("spec")
    workload.once = kind in ("Job", "CronJob")
    if kind == "Pod":
        restart = _read_pod(spec, workload, maps, notes)
        workload.once = restart in ("Never", "OnFailure")
    else:
        job = spec
        if kind == "CronJob":
            workload.schedule = _schedule(spec)
            outer = spec.section("jobTemplate")
            _read_labels(outer.section("metadata"), workload)
            job = outer.section("spec")
        template = job.section("template")
        _read_labels(template.section("metadata"), workload)
        if kind in _TEMPLATED:
            _read_replicas(spec, workload)
        claims_mib = read_claims(spec, notes) if kind == KIND else {}
        restart = _read_pod(template.section("spec"), workload, maps, notes, claims_mib)
        if kind == KIND:
            read_set(spec, workload, notes)
        elif kind in _TEMPLATED:
            _read_strategy(spec, workload, notes)
        else:
            _read_job(job, workload, restart, notes)
    if kind == "Pod":
        workload.restart_on_failure = restart == "OnFailure"
    return workload


def _read_metadata(metadata: Section, workload: Workload, notes: Notes) -> None:
    name, namespace = metadata.text("name"), metadata.text("namespace")
    workload.at = metadata.at("name")
    if name is None:
        name = (metadata.text("generateName") or "unnamed").rstrip("-")
        notes.check(metadata.at("generateName"), f"ids are not generated: this is {name}")
    workload.name = name if namespace in (None, "default") else f"{namespace}/{name}"
    _read_labels(metadata, workload)


def _read_labels(metadata: Section, workload: Workload) -> None:
    """Add an object's labels; those that the workload has from further out stay."""
    labels = {key: value or "" for key, (value, _) in metadata.texts_by_key("labels").items()}
    workload.labels = {**labels, **workload.labels}
    metadata.ignore("uid", "resourceVersion", "creationTimestamp", "generation", "selfLink", "managedFields")
    metadata.ignore("ownerReferences")
    annotations = metadata.section("annotations")
    if any(not key.startswith(_ITS_OWN) for key in annotations):
        metadata.notes.lost(
            metadata.at("annotations"), "they speak to Kubernetes' controllers; labels are carried over"
        )
    annotations.ignore(*annotations)


def _read_replicas(spec: Section, workload: Workload) -> None:
    replicas = spec.integer("replicas")
    workload.instances = 1 if replicas is None else replicas
    spec.ignore("selector", "revisionHistoryLimit")
    spec.lose(
        "`--wait --timeout SECONDS` of the change does this, `--rollback-on-failure` more", "progressDeadlineSeconds"
    )


def _read_strategy(spec: Section, workload: Workload, notes: Notes) -> None:
    """Read how instances are replaced: Kubernetes' whole numbers, as the parts that Marathon counts with."""
    strategy = spec.section("strategy")
    workload.replaced_at = spec.at("strategy")
    rolling = strategy.section("rollingUpdate")
    if (strategy.text("type") or "RollingUpdate") == "Recreate":
        workload.healthy_part, workload.extra_part = 0.0, 0.0
        return
    count = max(1, workload.instances)

    def number(key: str, upwards: bool) -> int:
        found = rolling.read(key, lambda text: quantities.part(text, count, upwards=upwards))
        return quantities.part("25%", count, upwards=upwards) if found is None else found

    gone, more = min(number("maxUnavailable", upwards=False), count), number("maxSurge", upwards=True)
    # Marathon rounds the healthy ones up and the additional ones down.
    workload.healthy_part = math.floor((count - gone) / count * 10_000) / 10_000
    workload.extra_part = min(1.0, math.ceil(more / count * 10_000) / 10_000)
    gpus = sum(container.gpus for container in workload.containers)
    if gpus and gone == 0:
        need = f"{more * gpus} more GPUs" if more * gpus > 1 else "one more GPU"
        advice = "on full machines it waits forever. Kubernetes' strategy Recreate, here 0 and 0, does not"
        notes.check(workload.replaced_at, f"an update needs {need} than the app has; {advice}")


def _schedule(spec: Section) -> Schedule:
    cron, zone = _cron(spec.text("schedule") or "")
    schedule = Schedule(
        cron,
        spec.text("timeZone") or zone,
        (spec.text("concurrencyPolicy") or "Allow") == "Allow",
        spec.integer("startingDeadlineSeconds"),
        not spec.flag("suspend"),
    )
    if spec.text("concurrencyPolicy") == "Replace":
        spec.notes.check(spec.at("concurrencyPolicy"), "a run that is under way is not replaced: none begins meanwhile")
    spec.ignore("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return schedule


def _cron(text: str) -> tuple[str, str | None]:
    """Return an expression of five fields, and the time zone in front of it, of the forms that robfig/cron has."""
    zone = None
    words = text.split()
    if words and words[0].startswith(("TZ=", "CRON_TZ=")):
        zone, words = words[0].partition("=")[2], words[1:]
    plain = " ".join(words)
    return _CRON.get(plain, plain), zone


def _read_job(spec: Section, workload: Workload, restart: str, notes: Notes) -> None:
    workload.deadline_s = spec.integer("activeDeadlineSeconds")
    if workload.deadline_s is not None:
        notes.check(spec.at("activeDeadlineSeconds"), "a run is not started again after that, but is not ended either")
    again = spec.integer("backoffLimit")
    workload.restart_on_failure = restart == "OnFailure" and again != 0
    if workload.restart_on_failure:
        until = "until it succeeds" if workload.deadline_s is None else "until its deadline"
        notes.check(spec.at("backoffLimit"), f"a run that fails is started again {until}, not {again or 6} times")
    elif again != 0:
        what = f"a run that fails is not started again, where Kubernetes makes up to {again or 6} pods more"
        notes.check(spec.at("backoffLimit"), f"{what}; restartPolicy OnFailure starts it again until it succeeds")
    for key in ("completions", "parallelism"):
        if (spec.integer(key) or 1) > 1:
            notes.lost(spec.at(key), f"a run is one task: `mesos-gpu job run` so many times, {spec.text(key)}")
    spec.ignore("selector", "manualSelector", "completionMode")
    spec.lose("runs stay in the history of their job", "ttlSecondsAfterFinished")


def _read_pod(
    spec: Section, workload: Workload, maps: ConfigMaps, notes: Notes, claims_mib: Mapping[str, int] | None = None
) -> str:
    """Read a pod's spec; return its restart policy."""
    volumes = Volumes.of(spec.sections("volumes"), maps, claims_mib or {})
    workload.containers = [read_container(item, volumes, notes) for item in spec.sections("containers")]
    if not workload.containers:
        raise notes.bad(spec.place, "containers: there is none")
    read_first(spec.sections("initContainers"), workload.containers, volumes, notes)
    workload.kill_grace_s = spec.integer("terminationGracePeriodSeconds")
    _read_placement(spec, workload, notes)
    security = spec.section("securityContext")
    user = security.text("runAsUser")
    for container in workload.containers:
        container.user = container.user or user
    if user is not None:
        notes.check(security.at("runAsUser"), USERS_HAVE_NAMES)
    if spec.flag("hostIPC"):
        notes.lost(
            spec.at("hostIPC"), "containers have a /dev/shm of their own; linuxInfo.ipcInfo.shmSize sets its size"
        )
    why = "give the agents a Docker configuration with the registry's login (--docker_config)"
    spec.lose(why, "imagePullSecrets")
    spec.lose("Kubernetes' own API is not there", "serviceAccountName", "serviceAccount")
    if spec.text("runtimeClassName") not in (None, "nvidia"):
        spec.notes.lost(spec.at("runtimeClassName"), "the agents have one runtime for all")
    spec.lose("no task makes room for another; roles and quotas share a cluster", "priorityClassName", "priority")
    spec.ignore("hostNetwork", "dnsPolicy", "schedulerName", "automountServiceAccountToken", "enableServiceLinks")
    return spec.text("restartPolicy") or "Always"


def _read_placement(spec: Section, workload: Workload, notes: Notes) -> None:
    for label, (value, place) in spec.texts_by_key("nodeSelector").items():
        workload.constraints += filter(None, [gpu_requests.constraint(label, value or "", place, notes)])
    if (node := spec.text("nodeName")) is not None:
        workload.constraints.append(["hostname", "IS", node])
    for toleration in spec.sections("tolerations"):
        # Machines with GPUs are kept for those that use them: Marathon's gpu_scheduling_behavior.
        if toleration.text("key") != gpu_requests.GPU:
            notes.lost(toleration.place, "agents have no taints; machines are kept for some by roles")
        toleration.ignore(*toleration)
    affinity = spec.section("affinity")
    wanted = affinity.section("nodeAffinity").section("requiredDuringSchedulingIgnoredDuringExecution")
    for index, term in enumerate(wanted.sections("nodeSelectorTerms")):
        if index > 0:
            notes.lost(term.place, "alternatives cannot be said with constraints, which must all hold")
            term.ignore(*term)
            continue
        for rule in term.sections("matchExpressions"):
            label, operator = rule.text("key") or "", rule.text("operator") or ""
            values = rule.words("values") or []
            workload.constraints += filter(None, [gpu_requests.expression(label, operator, values, rule.place, notes)])
    apart = affinity.section("podAntiAffinity")
    for rule in apart.sections("requiredDuringSchedulingIgnoredDuringExecution"):
        if rule.text("topologyKey") == "kubernetes.io/hostname":
            workload.constraints.append(["hostname", "UNIQUE"])
            rule.lose("instances of this one are kept apart, from each other and no others", "labelSelector")
