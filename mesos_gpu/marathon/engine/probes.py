"""Which checks Marathon has to run now: of running tasks their health; of new ones, whether they are ready. Pure."""

from __future__ import annotations

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.checks import Probe, health_probes, readiness_probe
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.state import State


def probes(state: State) -> frozenset[Probe]:
    """Return all checks that are to run. Readiness is only asked for during a deployment, and until it is there."""
    found: set[Probe] = set()
    deployed = {app_id for deployment in state.deployments.values() for app_id in deployment.apps}
    for spec in state.apps():
        # An older version may have had checks when this one has none, and its tasks may still run.
        if not any(_has_checks(kept) for kept in state.versions[spec.id]):
            continue
        for instance in state.instances_of(spec.id):
            task, runs = instance.task, state.spec_of(instance)
            if task is None or runs is None or instance.phase is not Phase.RUNNING:
                continue
            found.update(health_probes(runs, task))
            known = state.readiness.get(task.id)
            if spec.id in deployed and (known is None or not known.ready):
                probe = readiness_probe(runs, task)
                found.update([probe] if probe is not None else [])
    return frozenset(found)


def _has_checks(spec: RunSpec) -> bool:
    return bool(spec.document["healthChecks"] or spec.document["readinessChecks"])
