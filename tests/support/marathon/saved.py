"""The rows that Marathon's store has after some saves."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.groups import Root
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import Job
from mesos_gpu.marathon.model.usage import Period, RunTimes, Sum
from mesos_gpu.marathon.state.actions import (
    Save,
)
from mesos_gpu.marathon.state.settings import MAX_VERSIONS
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table


class Saved:
    """What a store has: the rows of before, and the saves that were applied to them."""

    def __init__(self, before: Lasting | None = None) -> None:
        lasting = Lasting() if before is None else before
        self.versions: dict[str, tuple[RunSpec, ...]] = dict(lasting.versions)
        self.instances: dict[str, Instance] = dict(lasting.instances)
        self.deployments: dict[str, Any] = dict(lasting.deployments)
        self.failures: dict[str, Any] = dict(lasting.failures)
        self.framework_id = lasting.framework_id
        self.roots: tuple[Root, ...] = lasting.roots
        self.jobs: dict[str, Job] = dict(lasting.jobs)
        self.usage: dict[str, Period] = dict(lasting.usage)
        self.usage_open: dict[str, Sum] = dict(lasting.usage_open)
        self.run_times: dict[str, RunTimes] = dict(lasting.run_times)
        self.counted_until_s: float | None = lasting.counted_until_s

    def save(self, change: Save) -> None:
        for app_id, spec in change.apps.items():
            if spec is None:
                self.versions.pop(app_id, None)
            else:
                self.versions[app_id] = (spec, *self.versions.get(app_id, ()))[:MAX_VERSIONS]
        table: Any
        for table, rows in (
            (self.instances, change.instances),
            (self.deployments, change.deployments),
            (self.failures, change.failures),
            (self.jobs, change.jobs),
            (self.usage, change.usage),
            (self.usage_open, change.usage_open),
            (self.run_times, change.run_times),
        ):
            for key, value in rows.items():
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
        if change.root is not None:
            self.roots = (change.root, *self.roots)[:MAX_VERSIONS]
        if change.framework_id is not None:
            (self.framework_id,) = change.framework_id
        if change.counted_until_s is not None:
            self.counted_until_s = change.counted_until_s

    def load(self) -> Lasting:
        return Lasting(
            framework_id=self.framework_id,
            versions=Table(dict(self.versions)),
            instances=Table(dict(self.instances)),
            deployments=Table(dict(self.deployments)),
            failures=Table(dict(self.failures)),
            roots=self.roots,
            jobs=Table(dict(self.jobs)),
            usage=Table(dict(self.usage)),
            usage_open=Table(dict(self.usage_open)),
            run_times=Table(dict(self.run_times)),
            counted_until_s=self.counted_until_s,
        )
