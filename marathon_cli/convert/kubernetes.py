"""Reads Kubernetes' Pod, Deployment, ReplicaSet, ReplicationController, Job and CronJob.

Source: the Kubernetes API reference, v1, apps/v1 and batch/v1 (and the older groups of the same kinds).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from marathon_cli.convert import accelerators, quantities
from marathon_cli.convert.kubernetes_container import USERS_HAVE_NAMES, Volumes, read_container
from marathon_cli.convert.model import Notes, Schedule, Workload
from marathon_cli.convert.source import Section

_TEMPLATED = ("Deployment", "ReplicaSet", "ReplicationController")
KINDS = ("Pod", *_TEMPLATED, "Job", "CronJob")
_OF_THE_SERVER = ("status",)
_INSTEAD = {
    "Service": "a Mesos task's ports are found through Marathon, Mesos-DNS or a load balancer such as Marathon-LB",
    "Ingress": "a load balancer such as Marathon-LB does this",
    "Secret": "secrets lie in the store of the cluster; apps name them in `secrets`",
    "PersistentVolumeClaim": "use a folder of the machine, or a persistent volume of Marathon",
    "StatefulSet": "persistent volumes of Marathon keep data with an instance",
    "DaemonSet": 'an app with the constraint ["hostname", "UNIQUE"] and as many instances as machines is the nearest',
    "Namespace": "groups are made with their apps",
}
ConfigMaps = Mapping[str, Mapping[str, str]]


def is_kubernetes(document: Section) -> bool:
    """Tell whether this is an object of Kubernetes."""
    return "apiVersion" in document and "kind" in document


def read(documents: Iterable[Section], notes: Notes) -> list[Workload]:
    """Return the workloads of a file; objects of other kinds are noted. Raises BadInput."""
    objects: list[Section] = []
    for document in documents:
        if document.text("kind") == "List":
            objects += document.sections("items")
            document.ignore("apiVersion", "metadata")
        else:
            objects.append(document)
    maps = _config_maps(objects)
    found: list[Workload] = []
    for item in objects:
        kind = item.text("kind") or ""
        item.ignore("apiVersion", *_OF_THE_SERVER)
        if kind in KINDS:
            found.append(_workload(item, kind, maps, notes))
            item.finish()
        elif kind != "ConfigMap":
            instead = _INSTEAD.get(kind)
            notes.lost(item.at("kind"), f"a {kind} has no counterpart{f': {instead}' if instead else ''}")
    return found


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
        else:
            _read_job(job, workload, notes)
        restart = _read_pod(template.section("spec"), workload, maps, notes)
        if kind in _TEMPLATED:
            _read_strategy(spec, workload, notes)
    workload.restart_on_failure |= restart == "OnFailure"
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
    metadata.lose("they speak to Kubernetes' own controllers; labels are carried over", "annotations")


def _read_replicas(spec: Section, workload: Workload) -> None:
    replicas = spec.integer("replicas")
    workload.instances = 1 if replicas is None else replicas
    spec.ignore("selector", "revisionHistoryLimit")


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
        advice = "on full machines it waits for ever. Kubernetes' strategy Recreate, here 0 and 0, does not"
        notes.check(workload.replaced_at, f"an update needs {need} than the app has; {advice}")


def _schedule(spec: Section) -> Schedule:
    schedule = Schedule(
        spec.text("schedule") or "",
        spec.text("timeZone"),
        (spec.text("concurrencyPolicy") or "Allow") == "Allow",
        spec.integer("startingDeadlineSeconds"),
        not spec.flag("suspend"),
    )
    if spec.text("concurrencyPolicy") == "Replace":
        spec.notes.check(spec.at("concurrencyPolicy"), "a run that is under way is not replaced: none begins meanwhile")
    spec.ignore("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return schedule


def _read_job(spec: Section, workload: Workload, notes: Notes) -> None:
    workload.deadline_s = spec.integer("activeDeadlineSeconds")
    if workload.deadline_s is not None:
        notes.check(spec.at("activeDeadlineSeconds"), "a run is not started again after that, but is not ended either")
    again = spec.integer("backoffLimit")
    workload.restart_on_failure = again != 0
    if again != 0:
        until = "until it succeeds" if workload.deadline_s is None else "until its deadline"
        notes.check(spec.at("backoffLimit"), f"a run that fails is started again {until}, not {again or 6} times")
    for key in ("completions", "parallelism"):
        if (spec.integer(key) or 1) > 1:
            notes.lost(spec.at(key), f"a run is one task: `mesos-gpu job run` so many times, {spec.text(key)}")
    spec.ignore("selector", "manualSelector", "completionMode")
    spec.lose("runs stay in the history of their job", "ttlSecondsAfterFinished")


def _read_pod(spec: Section, workload: Workload, maps: ConfigMaps, notes: Notes) -> str:
    """Read a pod's spec; return its restart policy."""
    volumes = Volumes.of(spec.sections("volumes"))
    workload.containers = [read_container(item, volumes, maps, notes) for item in spec.sections("containers")]
    if not workload.containers:
        raise notes.bad(spec.place, "containers: there is none")
    spec.lose("containers that run before the others: do it in the command", "initContainers")
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
    spec.ignore("hostNetwork", "dnsPolicy", "schedulerName", "automountServiceAccountToken", "enableServiceLinks")
    return spec.text("restartPolicy") or "Always"


def _read_placement(spec: Section, workload: Workload, notes: Notes) -> None:
    for label, (value, place) in spec.texts_by_key("nodeSelector").items():
        workload.constraints += filter(None, [accelerators.constraint(label, value or "", place, notes)])
    if (node := spec.text("nodeName")) is not None:
        workload.constraints.append(["hostname", "IS", node])
    for toleration in spec.sections("tolerations"):
        # Machines with GPUs are kept for those that use them: Marathon's gpu_scheduling_behavior.
        if toleration.text("key") != accelerators.GPU:
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
            workload.constraints += filter(None, [accelerators.expression(label, operator, values, rule.place, notes)])
    apart = affinity.section("podAntiAffinity")
    for rule in apart.sections("requiredDuringSchedulingIgnoredDuringExecution"):
        if rule.text("topologyKey") == "kubernetes.io/hostname":
            workload.constraints.append(["hostname", "UNIQUE"])
            rule.lose("instances of this one are kept apart, from each other and no others", "labelSelector")


def _config_maps(objects: Iterable[Section]) -> dict[str, dict[str, str]]:
    """Return the ConfigMaps of a file, by name."""
    return {
        item.section("metadata").text("name") or "": {
            key: value or "" for key, (value, _) in item.texts_by_key("data").items()
        }
        for item in objects
        if item.text("kind") == "ConfigMap"
    }
