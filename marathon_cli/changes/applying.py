"""Brings one thing to what a manifest says: created where it is not there, changed where it is another, else left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from marathon_cli.api.apps import Apps
from marathon_cli.api.groups import Groups
from marathon_cli.api.jobs import Jobs
from marathon_cli.api.pods import Pods
from marathon_cli.changes import rules as accepted
from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.document import check, definitions
from marathon_cli.screen.names import app_id, group_id
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.marathon.definitions.app import read_app
from mesos_gpu.marathon.definitions.app_schema import JOB
from mesos_gpu.marathon.definitions.pod import read_pod

if TYPE_CHECKING:
    from marathon_cli.clients.client import Change, Marathon
    from marathon_cli.document.check import Source
    from mesos_gpu.marathon.definitions.app_settings import AppRules

CREATED, CONFIGURED, UNCHANGED, DELETED = "created", "configured", "unchanged", "deleted"
Document = dict[str, Any]
_OF_A_JOB = ("activeRuns", "history", "historySummary", "schedules")
_PORTS = ("port", "hostPort", "servicePort")
_OF_ONE_MOMENT = ("version", "versionInfo")


class Outcome(NamedTuple):
    """What was done to one thing, and the deployment that it led to, where there is one."""

    kind: str
    id: str
    verb: str
    change: Change | None = None
    targets: tuple[ChangeTarget, ...] = ()


@dataclass(slots=True)
class Applying:
    """Carries manifests out on one Marathon. With `dry_run` it only says what would be done."""

    marathon: Marathon
    rules: AppRules
    force: bool = False
    dry_run: bool = False

    def check(self, kind: str, source: Source, document: Document) -> None:
        """Raise BadInput with every problem of a document."""
        if kind == "app":
            check.check_app(source, document, self.rules)
        elif kind == "pod":
            check.check_pod(source, document, self.rules)
        elif kind == "job":
            check.check_job(source, document)
        else:
            check.check_group(source, document, self.rules)

    def apply(self, kind: str, source: Source, document: Document) -> Outcome:
        """Bring one thing to what its document says. Raises as the server refuses it, BadInput with the place."""
        made = {"app": self._app, "pod": self._pod, "job": self._job, "group": self._group}[kind]
        with accepted.explained(source, document, self.rules, self.marathon.url):
            return made(document)

    def remove(self, kind: str, document: Document) -> Outcome:
        """Remove what a document defines. Raises NotFound."""
        name = name_of(kind, document)
        change: Change | None = None
        if self.dry_run:
            _SHOW[kind](self.marathon, name)
        elif kind == "app":
            change = Apps(self.marathon).remove(name, force=True)
        elif kind == "pod":
            change = Pods(self.marathon).remove(name, force=self.force)
        elif kind == "job":
            Jobs(self.marathon).remove(name, stop_runs=True)
        else:
            change = Groups(self.marathon).remove(name, force=True)
        targets = (ChangeTarget(kind, name, gone=True),) if kind in ("app", "pod") else ()
        return Outcome(kind, name, DELETED, change, targets)

    def whole(self, kind: str, document: Document) -> Document:
        """Return a document as it would be sent: with the instances that there are, where it does not say how many."""
        before = _there(kind, self.marathon, name_of(kind, document)) if kind in ("app", "pod") else None
        key = "instances" if kind == "app" else "scaling"
        return {key: before[key], **document} if before is not None and key in before else document

    def _app(self, document: Document) -> Outcome:
        name, apps = name_of("app", document), Apps(self.marathon)
        targets = (ChangeTarget("app", name),)
        current = _there("app", self.marathon, name)
        if current is None:
            change = None if self.dry_run else apps.add(document, force=self.force)[1]
            return Outcome("app", name, CREATED, change, targets)
        before = definitions.editable(current)
        after = {"instances": before.get("instances", 1), **document}
        if same(read_app(before, self.rules), read_app(after, self.rules)):
            return Outcome("app", name, UNCHANGED)
        change = None if self.dry_run else apps.put(name, after, force=self.force, partial=False)
        return Outcome("app", name, CONFIGURED, change, targets)

    def _pod(self, document: Document) -> Outcome:
        name, pods = name_of("pod", document), Pods(self.marathon)
        targets = (ChangeTarget("pod", name),)
        before = _there("pod", self.marathon, name)
        if before is None:
            change = None if self.dry_run else pods.add(document, force=self.force)[1]
            return Outcome("pod", name, CREATED, change, targets)
        scaling = {"scaling": before["scaling"]} if "scaling" in before else {}
        after = {**scaling, **document}
        if same(read_pod(definitions.without(before, "version"), self.rules), read_pod(after, self.rules)):
            return Outcome("pod", name, UNCHANGED)
        change = None if self.dry_run else pods.put(name, after, force=self.force)[1]
        return Outcome("pod", name, CONFIGURED, change, targets)

    def _job(self, document: Document) -> Outcome:
        name, jobs = name_of("job", document), Jobs(self.marathon)
        plain = {key: value for key, value in document.items() if key != "schedules"}
        wanted = {str(one.get("id") or "default"): one for one in document.get("schedules") or []}
        before = _there("job", self.marathon, name)
        verb = CREATED if before is None else UNCHANGED
        if before is None and not self.dry_run:
            jobs.add(plain)
            before = {**plain, "schedules": []}
            try:
                self._schedules(jobs, name, {}, wanted)
            except MesosGpuError:
                jobs.remove(name, stop_runs=True)  # all of it, or nothing
                raise
        elif before is not None:
            if not same(_canonical_job(definitions.without(before, *_OF_A_JOB)), _canonical_job(plain)):
                verb = CONFIGURED
                if not self.dry_run:
                    jobs.put(name, plain)
            there = {str(one.get("id") or "default"): one for one in before.get("schedules") or []}
            if self._schedules(jobs, name, there, wanted):
                verb = CONFIGURED
        return Outcome("job", name, verb)

    def _schedules(self, jobs: Jobs, name: str, there: Mapping[str, Document], wanted: Mapping[str, Document]) -> bool:
        """Bring the schedules of a job to those wanted; return whether that took anything."""
        changed = False
        for schedule_id, schedule in wanted.items():
            now = there.get(schedule_id)
            if now is not None and all(now.get(key) == value for key, value in schedule.items()):
                continue
            changed = True
            if self.dry_run:
                continue
            if now is None:
                jobs.add_schedule(name, schedule)
            else:
                jobs.put_schedule(name, schedule_id, {**definitions.without(now, "nextRunAt"), **schedule})
        for schedule_id in there.keys() - wanted.keys():
            changed = True
            if not self.dry_run:
                jobs.remove_schedule(name, schedule_id)
        return changed

    def _group(self, document: Document) -> Outcome:
        name, groups = name_of("group", document), Groups(self.marathon)
        current = _there("group", self.marathon, name)
        if current is None or (name == "/" and not any(current.get(key) for key in ("apps", "pods", "groups"))):
            change = None
            if not self.dry_run:
                put = name == "/"
                change = groups.put(name, document, force=self.force) if put else groups.add(document, force=self.force)
            return Outcome("group", name, CREATED, change)
        rest = {key: value for key, value in document.items() if key != "id"}
        if not groups.steps(name, rest):
            return Outcome("group", name, UNCHANGED)
        change = None if self.dry_run else groups.put(name, rest, force=self.force)
        return Outcome("group", name, CONFIGURED, change)


def name_of(kind: str, document: Mapping[str, Any]) -> str:
    """Return the id of what a document defines, as commands take it. Raises BadInput."""
    if kind == "job":
        return str(document.get("id"))
    if kind == "group":
        return group_id(str(document.get("id") or "/"))
    return app_id(str(document.get("id")))


def same(before: object, after: object, key: str = "") -> bool:
    """Return whether two canonical documents are the same, but for ports that a server has chosen."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = {*before, *after} - {*_OF_ONE_MOMENT}
        return all(same(before.get(one), after.get(one), one) for one in keys)
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(same(*pair, key) for pair in zip(before, after, strict=True))
    if key in _PORTS and after in (0, None):
        return True
    return before == after or (before in ({}, [], None) and after in ({}, [], None))


def _canonical_job(document: Mapping[str, Any]) -> Document:
    return JOB.with_defaults(JOB.clean(document))


_SHOW: Mapping[str, Callable[[Marathon, str], Document]] = {
    "app": lambda marathon, name: marathon.app(name),
    "pod": lambda marathon, name: Pods(marathon).show(name),
    "job": lambda marathon, name: Jobs(marathon).show(name),
    "group": lambda marathon, name: Groups(marathon).show(name),
}


def _there(kind: str, marathon: Marathon, name: str) -> Document | None:
    """Return what is there now under a name."""
    try:
        return dict(_SHOW[kind](marathon, name))
    except NotFound:
        return None
