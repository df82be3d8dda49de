"""Changes of pods: each becomes a deployment. Raises what the caller did wrong; then nothing has changed."""

from __future__ import annotations

from collections.abc import Mapping

from mesos_gpu.errors import Conflict, InvalidApp, NotFound
from mesos_gpu.marathon.decisions import requests
from mesos_gpu.marathon.definitions.pod import read_pod
from mesos_gpu.marathon.definitions.resident_rules import resident_pod_changes
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.model.groups import Group
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import PutPod


def put_pod(draft: Draft, event: PutPod) -> None:
    """Create or change a pod. Raises InvalidApp, Conflict, Locked, NotFound or TooMany."""
    version = requests.next_version(draft)
    spec, before = _defined(draft, event.document, version, "/", draft.groups())
    if event.create and before is not None:
        raise Conflict(f"A pod with id [{spec.id}] already exists.")
    if not event.create and before is None:
        raise NotFound(f"Pod '{spec.id}' does not exist")
    deploy = requests.deploy
    deploy(draft, event.deployment_id, {spec.id: before}, {spec.id: spec}, force=event.force, version=version)


def redefined(draft: Draft, document: object, version: str, *, base: str, groups: Mapping[str, Group]) -> RunSpec:
    """Return the pod that a document in a group's list of pods defines; the present one when it says the same.

    `groups` are those that are to be. Raises InvalidApp, or Conflict when an app has its id.
    """
    return _defined(draft, document, version, base, groups)[0]


def _defined(
    draft: Draft, document: object, version: str, base: str, groups: Mapping[str, Group]
) -> tuple[RunSpec, RunSpec | None]:
    definition = read_pod(document, requests.rules_for(draft, document, groups, base), base=base)
    before = draft.app(definition["id"])
    if before is not None and not before.is_pod:
        raise Conflict(f"An app with id [{before.id}] already exists.")
    if before is not None and before.definition == definition:
        return before, before
    spec = versioned(definition, version, before)
    if before is not None and (problems := list(resident_pod_changes(before, spec))):
        raise InvalidApp(problems)
    return spec, before
