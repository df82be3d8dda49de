"""What is outside of a scheduler, for tests of any history: its store, and a master with an agent that has GPUs."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.groups import Root
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import Job
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.model.usage import Period, RunTimes, Sum
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Call,
    Decline,
    Kill,
    Launch,
    Reconcile,
    Revive,
    Save,
    Suppress,
)
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Event,
    Offered,
    Status,
)
from mesos_gpu.marathon.state.settings import MAX_VERSIONS
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table
from tests.support.marathon.builders import offer, status

GPUS = 6
ENDS = ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST", "TASK_GONE")


class Disk:
    """What a store would hold: the saves, applied."""

    def __init__(self) -> None:
        self.versions: dict[str, tuple[RunSpec, ...]] = {}
        self.instances: dict[str, Instance] = {}
        self.deployments: dict[str, Any] = {}
        self.failures: dict[str, Any] = {}
        self.framework_id: str | None = None
        self.roots: tuple[Root, ...] = ()
        self.jobs: dict[str, Job] = {}
        self.usage: dict[str, Period] = {}
        self.usage_open: dict[str, Sum] = {}
        self.run_times: dict[str, RunTimes] = {}
        self.counted_until_s: float | None = None

    def save(self, change: Save) -> None:
        for app_id, spec in change.apps.items():
            if spec is None:
                self.versions.pop(app_id, None)
            else:
                self.versions[app_id] = (spec, *self.versions.get(app_id, ()))[:MAX_VERSIONS]
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
                    table.pop(key, None)  # type: ignore[attr-defined]
                else:
                    table[key] = value  # type: ignore[index]
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


class World:
    """A master and an agent with some GPUs: what runs there, and what it has to say."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[str, int]] = {}
        """State and GPUs by task id."""
        self.siblings: dict[str, tuple[str, ...]] = {}
        """The tasks that were started in one group, by the id of each."""
        self.ever: set[str] = set()
        self.healthy: set[str] = set()
        """Tasks that have said so."""
        self.outbox: list[Status] = []
        self.connected = False
        self.offered: dict[str, str] = {}
        """The agent of the offer that is out, by its id."""
        self.offers = 0

    @property
    def free(self) -> int:
        return GPUS - sum(gpus for _, gpus in self.tasks.values())

    def make_offer(self) -> Offered:
        """Offer one of two agents; the second one has no GPUs."""
        self.offers += 1
        agent = "S1" if self.offers % 3 == 0 else "S0"
        self.offered = {f"O{self.offers}": agent}
        gpus = self.free if agent == "S0" else 0
        return Offered([offer(f"O{self.offers}", agent=agent, host=f"h{agent}", gpus=gpus, cpus=100)])

    def report(self, task_id: str, state: str) -> None:
        """Change a task, and send its status until it is acknowledged."""
        if state in ENDS:
            del self.tasks[task_id]
        else:
            self.tasks[task_id] = (state, self.tasks[task_id][1])
        uuid = f"{task_id}/{state}/{len(self.outbox)}"
        self.outbox.append(status(task_id, state, uuid=uuid))
        if state in ENDS and state != "TASK_FINISHED":
            for sibling in self.siblings.get(task_id, ()):
                if sibling in self.tasks:
                    self.report(sibling, "TASK_KILLED")

    def call(self, call: Call, disk: Disk) -> list[Event]:
        if not self.connected:
            return [CallFailed(call, "not connected")]
        if isinstance(call, Launch):
            return self._launch(call, disk)
        if isinstance(call, Kill):
            if call.task_id in self.tasks:
                self.report(call.task_id, "TASK_KILLED")
                return []
            return [_answer(call.task_id, "TASK_UNKNOWN")]
        if isinstance(call, Acknowledge):
            self.outbox = [sent for sent in self.outbox if sent.status["uuid"] != call.status["uuid"]]
        if isinstance(call, Reconcile):
            asked = list(call.agents) or sorted(self.tasks)
            return [_answer(t, self.tasks[t][0] if t in self.tasks else "TASK_UNKNOWN") for t in asked]
        assert isinstance(call, (Acknowledge, Decline, Revive, Suppress))
        return []

    def _launch(self, call: Launch, disk: Disk) -> list[Event]:
        for task_id in call.task_ids:
            saved = disk.instances[instance_of(task_id) or ""]
            assert saved.task is not None, "launched without a record"
            assert saved.task.has(task_id), "launched without a record"
            assert task_id not in self.ever, "launched twice"
        if call.offer_id not in self.offered:
            return [_answer(task_id, "TASK_DROPPED") for task_id in call.task_ids]
        agent = self.offered.pop(call.offer_id)
        for group in call.groups:
            ids = tuple(info["task_id"]["value"] for info in group.task_infos)
            self.siblings.update(dict.fromkeys(ids, ids))
        for info in (*call.task_infos, *(info for group in call.groups for info in group.task_infos)):
            gpus = sum(int(r["scalar"]["value"]) for r in info["resources"] if r["name"] == "gpus")
            assert gpus == 0 or agent == "S0", "GPUs asked of an agent that has none"
            self.ever.add(info["task_id"]["value"])
            self.tasks[info["task_id"]["value"]] = ("TASK_STAGING", gpus)
        assert self.free >= 0, "more GPUs given than there are"
        return []


def _answer(task_id: str, state: str) -> Status:
    return Status({"task_id": {"value": task_id}, "state": state, "reason": "REASON_RECONCILIATION"})
