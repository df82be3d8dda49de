"""Reads what only a Kubernetes StatefulSet has: claims of each instance, names, and one instance after the other."""

from __future__ import annotations

import math

from marathon_cli.convert import quantities
from marathon_cli.convert.model import Notes, Workload
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
