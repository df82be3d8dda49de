"""Everything the scheduler knows, and the draft in which one event changes it.

What lasts (apps, instances, deployments, failures, the framework id) can only be changed through a Draft, which
writes down each change; so what is on disk cannot fall behind what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid5

from mesos_gpu.marathon.definitions.app_ids import top_group
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.backoff import Backoff
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.groups import Group, Root, all_groups, enforced
from mesos_gpu.marathon.model.health import Results
from mesos_gpu.marathon.model.instances import Goal, Instance, Phase
from mesos_gpu.marathon.model.jobs import Job, run_spec_in
from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from mesos_gpu.marathon.state.actions import Action, Publish, Save
from mesos_gpu.marathon.state.events import Moment, ReadinessChecked
from mesos_gpu.marathon.state.members import Members
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.table import Table


@dataclass(frozen=True, slots=True)
class Lasting:
    """What is on disk. `versions` has all kept versions of each app, newest first; the first is the present one."""

    framework_id: str | None = None
    versions: Mapping[str, tuple[RunSpec, ...]] = field(default_factory=dict)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    failures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last failure of a task of each app, as `lastTaskFailure` shows it."""
    roots: tuple[Root, ...] = ()
    """All kept versions of the tree of groups, newest first."""
    jobs: Mapping[str, Job] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """What lasts, and what a new process learns anew."""

    lasting: Lasting = field(default_factory=Lasting)
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Instance ids by app id; also of apps that are gone while their tasks are being ended."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """App ids by id of an instance that waits for an offer."""
    subscribed: bool = False
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    kills: Mapping[str, float] = field(default_factory=dict)
    """When the end of a task was last asked for, by task id."""
    queue: Mapping[str, QueueEntry] = field(default_factory=dict)
    asked_for: frozenset[str] = frozenset()
    """Ids of tasks to come for which offers were asked."""
    revive_due: bool = False
    suppressed: bool = False
    revive_credit_s: float = 0.0
    reconcile_at_s: float | None = None
    health: Mapping[str, Results] = field(default_factory=dict)
    """Results of health checks by task id; a new process begins without any."""
    readiness: Mapping[str, ReadinessChecked] = field(default_factory=dict)
    """The last result of a readiness check by task id."""
    roles: frozenset[str] = frozenset()
    """The roles that the master knows us by; none when that is not known."""
    tokens: LaunchTokens = field(default_factory=LaunchTokens)
    region: str | None = None
    """The region of the master; other regions are only for apps that name one."""
    pending: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """By deployment: its present step, and the apps of it that are not done."""
    releasing: frozenset[str] = frozenset()
    """Ids of instances that are gone, and whose reservations are still to be given back."""

    def app(self, app_id: str) -> RunSpec | None:
        """Return the present version of an app or pod, or what carries out a run of a job."""
        versions = self.lasting.versions.get(app_id)
        return versions[0] if versions else run_spec_in(self.lasting.jobs, app_id)

    def apps(self) -> Iterable[RunSpec]:
        """Return the present version of every app and pod."""
        return (versions[0] for versions in self.lasting.versions.values())

    def instances_of(self, app_id: str) -> list[Instance]:
        """Return the instances of an app, oldest first."""
        found = [self.lasting.instances[key] for key in self.members.get(app_id, ())]
        return sorted(found, key=lambda i: (i.since_s, i.id))

    def spec_of(self, instance: Instance) -> RunSpec | None:
        """Return the version of its app that an instance runs, the present one when that is no longer kept."""
        versions = self.lasting.versions.get(instance.app_id)
        return version_of(versions, instance) or run_spec_in(self.lasting.jobs, instance.app_id)

    def deployments_of(self, app_id: str) -> list[Deployment]:
        """Return the deployments that touch an app."""
        return [d for d in self.lasting.deployments.values() if app_id in d.apps]


def version_of(versions: Sequence[RunSpec] | None, instance: Instance) -> RunSpec | None:
    """Return the version of its app that an instance runs, the present one when that is no longer kept."""
    if not versions:
        return None
    runs = instance.task.version if instance.task is not None else instance.version
    return next((spec for spec in versions if spec.version == runs), versions[0])


def restored(lasting: Lasting) -> State:
    """Return the state of a process that has just started over what is on disk."""
    members: dict[str, set[str]] = {}
    for instance in lasting.instances.values():
        if not instance.released:
            members.setdefault(instance.app_id, set()).add(instance.id)
    waiting = {i.id: i.app_id for i in lasting.instances.values() if i.phase is Phase.SCHEDULED}
    releasing = frozenset(i.id for i in lasting.instances.values() if i.released)
    return State(lasting, {app: frozenset(ids) for app, ids in members.items()}, waiting, releasing=releasing)


class Draft:
    """The next state in the making, while one event is handled."""

    def __init__(self, state: State, moment: Moment, settings: Settings) -> None:
        lasting = state.lasting
        self.now_s, self.settings = moment.now_s, settings
        self._seed, self._made = UUID(moment.seed), 0
        self._framework_id_before = self.framework_id = lasting.framework_id
        self.versions = Table(lasting.versions)
        self.instances = Table(lasting.instances)
        self.deployments = Table(lasting.deployments)
        self.failures = Table(lasting.failures)
        self._roots_before = self.roots = lasting.roots
        self.jobs = Table(lasting.jobs)
        self._members = Members(state.members)
        self._waiting = Table(state.waiting)
        self.backoffs = Table(state.backoffs)
        self.kills = Table(state.kills)
        self.queue = Table(state.queue)
        self.health = Table(state.health)
        self.readiness = Table(state.readiness)
        self.roles = state.roles
        self.region = state.region
        self.pending = Table(state.pending)
        self._releasing_before = self.releasing = state.releasing
        self.tokens = state.tokens.at(
            self.now_s, most=settings.launch_tokens, interval_s=settings.launch_token_refresh_s
        )
        self.subscribed, self.suppressed = state.subscribed, state.suppressed
        self.asked_for, self.revive_due = state.asked_for, state.revive_due
        self.revive_credit_s, self.reconcile_at_s = state.revive_credit_s, state.reconcile_at_s
        self.actions: list[Action] = []
        self.touched: set[str] = set()
        """Apps about whose instances something must be decided before the event is done."""

    def new_uuid(self) -> str:
        """Return an id that nothing has yet; the same seed gives the same ids in the same order."""
        self._made += 1
        return str(uuid5(self._seed, str(self._made)))

    def pick(self) -> int:
        """Return a number to choose by; it differs from event to event."""
        self._made += 1
        return uuid5(self._seed, str(self._made)).int

    def app(self, app_id: str) -> RunSpec | None:
        """Return the present version of an app or pod, or what carries out a run of a job."""
        versions = self.versions.get(app_id)
        return versions[0] if versions else run_spec_in(self.jobs.result, app_id)

    def spec_of(self, instance: Instance) -> RunSpec | None:
        """Return the version of its app that an instance runs, the present one when that is no longer kept."""
        versions = self.versions.get(instance.app_id)
        return version_of(versions, instance) or run_spec_in(self.jobs.result, instance.app_id)

    def apps(self) -> list[RunSpec]:
        """Return the present version of every app and pod."""
        return [versions[0] for versions in self.versions.values()]

    def groups(self) -> dict[str, Group]:
        """Return every group but the root: those that were put, and those that ids imply."""
        return all_groups(self.roots[0].groups if self.roots else {}, self.versions.result)

    def put_root(self, root: Root) -> None:
        """Make `root` the present version of the tree."""
        self.roots = (root, *self.roots[: self.settings.max_versions - 1])

    def enforces_role(self, app_id: str) -> bool:
        """Tell whether the top-level group of an app has enforceRole."""
        said = self.roots[0].groups if self.roots else {}
        return top_group(app_id) in enforced(said)

    def put_app(self, spec: RunSpec) -> None:
        """Make `spec` the present version of its app."""
        older = [kept for kept in self.versions.get(spec.id) or () if kept.version != spec.version]
        self.versions.put(spec.id, (spec, *older[: self.settings.max_versions - 1]))
        self.touched.add(spec.id)

    def drop_app(self, app_id: str) -> None:
        """Forget an app, its versions and its past; its instances are still to be ended."""
        self.versions.drop(app_id)
        for table in (self.backoffs, self.failures, self.queue):
            table.drop(app_id)
        self.touched.add(app_id)

    def members(self, app_id: str) -> list[Instance]:
        """Return the instances of an app, oldest first."""
        instances = self.instances.result
        return sorted([instances[key] for key in self._members.of(app_id)], key=lambda i: (i.since_s, i.id))

    def has_members(self, app_id: str) -> bool:
        """Tell whether an app has instances, also while the last of them are being ended."""
        return bool(self._members.of(app_id))

    def waiting(self) -> list[Instance]:
        """Return the instances that wait for an offer."""
        return [self.instances[key] for key in self._waiting.result]

    def waiting_apps(self) -> set[str]:
        """Return the ids of apps with an instance that waits for an offer."""
        return set(self._waiting.result.values())

    def all_asked_for(self) -> bool:
        """Tell whether offers were asked for, for everything that waits, and nothing has changed that since.

        What was asked for is never more than what waits, so their numbers tell; it saves a walk at most events.
        """
        changed = self._waiting.changes or self.backoffs.changes or self.versions.changes or self.suppressed
        if changed or self.releasing is not self._releasing_before:
            return False
        return 0 < len(self._waiting.result) + len(self.releasing) == len(self.asked_for)

    def put_instance(self, instance: Instance) -> None:
        """Add or change an instance."""
        before = self.instances.get(instance.id)
        self.instances.put(instance.id, instance)
        if (
            before is not None
            and before.task is not None
            and (instance.task is None or instance.task.id != before.task.id)
        ):
            self._forget_checks(before.task.id)
        self._members.add(instance.app_id, instance.id)
        if instance.phase is Phase.SCHEDULED:
            self._waiting.put(instance.id, instance.app_id)
        else:
            self._waiting.drop(instance.id)
        self.touched.add(instance.app_id)
        if before is None or before.phase is not instance.phase:
            self._publish_change(instance, instance.condition)

    def drop_instance(self, instance: Instance) -> None:
        """Forget an instance; of one with volumes a note remains until its agent has given them up."""
        if instance.reservation is None:
            self.instances.drop(instance.id)
        else:
            over = replace(instance, phase=Phase.ENDED, goal=Goal.DECOMMISSIONED, task=None, since_s=self.now_s)
            self.instances.put(instance.id, over)
            self.releasing |= {instance.id}
        self._waiting.drop(instance.id)
        self._members.discard(instance.app_id, instance.id)
        if instance.task is not None:
            self.kills.drop(instance.task.id)
            self._forget_checks(instance.task.id)
        self.touched.add(instance.app_id)

    def forget_release(self, instance: Instance) -> None:
        """Forget an instance whose reservation is no longer looked after."""
        self.releasing -= {instance.id}
        self.instances.drop(instance.id)

    def _forget_checks(self, task_id: str) -> None:
        self.health.drop(task_id)
        self.readiness.drop(task_id)

    def finish(self) -> tuple[State, list[Action]]:
        """Return the next state and what to do, Save first when something that lasts has changed."""
        lasting = Lasting(
            self.framework_id,
            self.versions.result,
            self.instances.result,
            self.deployments.result,
            self.failures.result,
            self.roots,
            self.jobs.result,
        )
        state = State(
            lasting,
            self._members.result,
            self._waiting.result,
            self.subscribed,
            self.backoffs.result,
            self.kills.result,
            self.queue.result,
            self.asked_for,
            self.revive_due,
            self.suppressed,
            self.revive_credit_s,
            self.reconcile_at_s,
            self.health.result,
            self.readiness.result,
            self.roles,
            self.tokens,
            self.region,
            self.pending.result,
            self.releasing,
        )
        save = Save(
            {key: versions[0] if versions else None for key, versions in self.versions.changes.items()},
            self.instances.changes,
            self.deployments.changes,
            self.failures.changes,
            (self.framework_id,) if self.framework_id != self._framework_id_before else None,
            self.roots[0] if self.roots is not self._roots_before else None,
            self.jobs.changes,
        )
        changed = any((save.apps, save.instances, save.deployments, save.failures, save.jobs))
        changed = changed or save.framework_id is not None or save.root is not None
        return state, [save, *self.actions] if changed else self.actions

    def _publish_change(self, instance: Instance, condition: str) -> None:
        fields = {
            "instanceId": instance.id,
            "condition": condition,
            "runSpecId": instance.app_id,
            "agentId": instance.task.agent_id if instance.task else None,
            "host": instance.task.host if instance.task else None,
            "runSpecVersion": instance.version,
        }
        self.actions.append(Publish("instance_changed_event", fields))
