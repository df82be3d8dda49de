"""The next state in the making: what one event changes.

What lasts (apps, instances, deployments, failures, the framework id) can only be changed through a Draft, which
writes down each change; so what is on disk cannot fall behind what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mesos_gpu.marathon.definitions.app_ids import top_group
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.groups import Group, Root, all_groups, enforced
from mesos_gpu.marathon.model.instances import COMING_UP, Goal, Instance, Phase
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.state.actions import Action, Publish, Save
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import PLAIN, TABLES, Books, State, is_timely, singled_out
from mesos_gpu.mesos.ids import TaskId

_OPENED = frozenset(TABLES)
_NONE: Mapping[str, Any] = {}


class Draft(Books):
    """The books while one event is handled: open. Each table is when it is first looked at: few are at one event."""

    def __init__(self, state: State, moment: Moment, settings: Settings) -> None:
        mine, theirs = vars(self), vars(state)
        for name in PLAIN:
            mine[name] = theirs[name]
        self._before = state
        self.now_s, self.settings = moment.now_s, settings
        self.new_id = moment.new_id
        """Makes an id that nothing has yet."""
        self.tokens = state.tokens.at(
            self.now_s, most=settings.launch_tokens, interval_s=settings.launch_token_refresh_s
        )
        self.actions: list[Action] = []
        self.ended: dict[TaskId, float] = {}
        """When tasks ended of which this event is the news, where their agent says so."""
        self.touched: set[str] = set()
        """Apps about whose instances something must be decided before the event is done."""
        self.came_on: set[str] = set()
        """Apps of which nothing has happened but that tasks have come on, from their start to running."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _OPENED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            table = vars(self)[name] = vars(self._before)[name].opened()
            return table

    def _changes(self, name: str) -> Mapping[str, Any]:
        """Return what was changed in a table."""
        table = vars(self).get(name)
        return _NONE if table is None else table.changes

    def pick(self) -> int:
        """Return a number to choose by; it differs from event to event."""
        return int(self.new_id().replace("-", ""), 16)

    def groups(self) -> dict[str, Group]:
        """Return every group but the root: those that were put, and those that ids imply."""
        return all_groups(self.roots[0].groups if self.roots else {}, self.versions)

    def put_root(self, root: Root) -> None:
        """Make `root` the present version of the tree."""
        self.roots = (root, *self.roots[: self.settings.max_versions - 1])

    def enforces_role(self, app_id: str) -> bool:
        """Return whether the top-level group of an app has enforceRole."""
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

    def has_members(self, app_id: str) -> bool:
        """Return whether an app has instances, also while the last of them are being ended."""
        return bool(self.members.of(app_id))

    def waiting_instances(self) -> list[Instance]:
        """Return the instances that wait for an offer."""
        return [self.instances[key] for key in self.waiting]

    def waiting_apps(self) -> set[str]:
        """Return the ids of apps with an instance that waits for an offer."""
        return set(self.waiting.apps())

    def singular_apps(self) -> list[str]:
        """Return the ids of apps that wait and are looked at apart from the others, sorted."""
        self._index_singular()
        return sorted(self.singular)

    def asked_before(self) -> bool:
        """Return whether offers were asked for, for everything that waited when the event came, and nothing else.

        What was asked for is never more than what waits, so their numbers tell; it saves a walk at most events.
        """
        before = self._before
        changed = self._changes("backoffs") or self._changes("versions") or self.suppressed
        if changed or self.releasing is not before.releasing or self.asked_for is not before.asked_for:
            return False
        return 0 < len(before.waiting) + len(before.releasing) == len(before.asked_for)

    def newly_asked(self) -> tuple[set[TaskId], list[Instance]]:
        """Return the ids of tasks that were to come before the event, and those that wait now, of what has changed."""
        before, now = self._before, self.instances
        changed = self.waiting.changes
        gone = {before.instances[key].next_task_id for key in changed if key in before.waiting}
        return gone, [now[key] for key, app_id in changed.items() if app_id is not None]

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
        self.members.add(instance.app_id, instance.id)
        if instance.phase is Phase.SCHEDULED:
            self.waiting.add(instance)
        else:
            self.waiting.drop(instance.id)
        self._stand_in_line(instance)
        self._index(before, instance)
        (self.came_on if before is not None and has_come_on(before, instance) else self.touched).add(instance.app_id)
        if before is None or before.phase is not instance.phase:
            self._publish_change(instance, instance.condition)

    def drop_instance(self, instance: Instance) -> None:
        """Forget an instance; of one with volumes a note remains until its agent has given them up."""
        before = self.instances.get(instance.id)
        if instance.reservation is None:
            self.instances.drop(instance.id)
            self._index(before, None)
        else:
            over = replace(instance, phase=Phase.ENDED, goal=Goal.DECOMMISSIONED, task=None, since_s=self.now_s)
            self.instances.put(instance.id, over)
            self._index(before, over)
            self.releasing |= {instance.id}
        self.waiting.drop(instance.id)
        self._leave_line(instance.id)
        self.members.discard(instance.app_id, instance.id)
        if instance.task is not None:
            self.kills.drop(instance.task.id)
            self._forget_checks(instance.task.id)
        self.touched.add(instance.app_id)

    def _stand_in_line(self, instance: Instance) -> None:
        """Keep `lines` in step: a run of one instance waits with those that ask for the same."""
        waits = instance.phase is Phase.SCHEDULED
        if waits and self.in_line.get(instance.id, ("", None))[1] == instance.since_s:
            return
        self._leave_line(instance.id)
        if not waits or self.settings.offer_statistics or run_of(instance.app_id) is None:
            return
        spec = self.app(instance.app_id)
        if spec is not None and spec.alike is not None and spec.instances == 1 and not spec.ordered:
            self.in_line.put(instance.id, (spec.alike, instance.since_s))
            self.lines = self.lines.with_turn(spec.alike, (instance.since_s, instance.id))

    def _leave_line(self, instance_id: str) -> None:
        stood = self.in_line.get(instance_id)
        if stood is not None:
            self.in_line.drop(instance_id)
            self.lines = self.lines.without(stood[0], (stood[1], instance_id))

    def forget_release(self, instance: Instance) -> None:
        """Forget an instance whose reservation is no longer looked after."""
        self.releasing -= {instance.id}
        self._index(self.instances.get(instance.id), None)
        self.instances.drop(instance.id)

    def _index(self, before: Instance | None, after: Instance | None) -> None:
        """Keep the books in step that say by other keys what `instances` says."""
        if after is not None and after.phase in COMING_UP:
            self.coming_up.add(after.app_id, after.id)
        elif before is not None and before.phase in COMING_UP:
            self.coming_up.discard(before.app_id, before.id)
        if after is not None and is_timely(after):
            self.timely.put(after.id, after.app_id)
        elif before is not None:
            self.timely.drop(before.id)

    def _index_singular(self) -> None:
        """Keep `singular` in step with what waits, and with what that asks for."""
        if not (self._changes("waiting") or self._changes("versions")):
            return
        waiting = self.waiting
        for app_id in {
            app_id for app_id in waiting.changes.values() if app_id is not None
        } | self.versions.changes.keys():
            if waiting.has_app(app_id) and singled_out(self.app(app_id)):
                self.singular.put(app_id, True)
            else:
                self.singular.drop(app_id)
        for app_id in list(self.singular):
            if not waiting.has_app(app_id):
                self.singular.drop(app_id)

    def _forget_checks(self, task_id: TaskId) -> None:
        self.health.drop(task_id)
        self.readiness.drop(task_id)

    def finish(self) -> tuple[State, list[Action]]:
        """Return the next state and what to do, Save first when something that lasts has changed."""
        before = self._before
        self._index_singular()
        save = Save(
            apps={key: versions[0] if versions else None for key, versions in self._changes("versions").items()},
            instances=self._changes("instances"),
            deployments=self._changes("deployments"),
            failures=self._changes("failures"),
            framework_id=(self.framework_id,) if self.framework_id != before.framework_id else None,
            root=self.roots[0] if self.roots is not before.roots else None,
            jobs=self._changes("jobs"),
            usage=self._changes("usage"),
            usage_open=self._changes("usage_open"),
            run_times=self._changes("run_times"),
            counted_until_s=self.counted_until_s if self.counted_until_s != before.counted_until_s else None,
        )
        changed = any((save.apps, save.instances, save.deployments, save.failures, save.jobs))
        changed = changed or bool(save.usage or save.usage_open or save.run_times) or save.counted_until_s is not None
        changed = changed or save.framework_id is not None or save.root is not None
        mine = vars(self)
        books = {name: mine[name] for name in PLAIN}
        for name in TABLES:
            if name in mine:
                books[name] = mine[name].closed()
        return State.after(before, books), [save, *self.actions] if changed else self.actions

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


_COURSE = {phase: at for at, phase in enumerate((Phase.SCHEDULED, *COMING_UP, Phase.RUNNING))}


def has_come_on(before: Instance, after: Instance) -> bool:
    """Return whether an instance has only come nearer to running: no more and no fewer are there for its app."""
    return (
        before.phase in _COURSE
        and _COURSE[before.phase] <= _COURSE.get(after.phase, -1)
        and (before.goal, before.version, before.reservation) == (after.goal, after.version, after.reservation)
        and after.wanted
    )
