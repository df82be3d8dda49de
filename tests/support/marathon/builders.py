"""Values for the tests of the scheduler: apps, offers and statuses as short calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.definitions.app import AppRules, read_app
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.state.actions import Action
from mesos_gpu.marathon.state.events import (
    Event,
    Moment,
    Offered,
    PutApps,
    Status,
    Subscribed,
)
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State

ROLE = "slave_public"
RULES = AppRules(mesos_role=ROLE)
SETTINGS = Settings(rules=RULES)
T0 = 1_700_000_000.0
V0 = "2023-01-01T00:00:00.000Z"


def app(app_id: str = "/a", **changes: Any) -> dict[str, Any]:
    return {"id": app_id, "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, **changes}


def spec(app_id: str = "/a", *, version: str = V0, **changes: Any) -> RunSpec:
    return versioned(read_app(app(app_id, **changes), RULES), version, None)


def scalar(name: str, value: float, role: str = "*") -> dict[str, Any]:
    resource = {"name": name, "type": "SCALAR", "scalar": {"value": value}, "role": role}
    return {**resource, "allocation_info": {"role": ROLE}}


def ranges(name: str, *pairs: tuple[int, int], role: str = "*") -> dict[str, Any]:
    listed = [{"begin": begin, "end": end} for begin, end in pairs]
    return {
        "name": name,
        "type": "RANGES",
        "ranges": {"range": listed},
        "role": role,
        "allocation_info": {"role": ROLE},
    }


def offer(
    offer_id: str = "O1",
    *,
    agent: str = "S0",
    host: str = "h0",
    cpus: float = 4,
    mem: float = 4096,
    disk: float = 1000,
    gpus: float = 0,
    ports: Sequence[tuple[int, int]] = ((31000, 32000),),
    attributes: Mapping[str, str] | None = None,
    extra: Sequence[Mapping[str, Any]] = (),
    **changes: Any,
) -> dict[str, Any]:
    scalars = {"cpus": cpus, "mem": mem, "disk": disk, "gpus": gpus}
    resources = [scalar(name, value) for name, value in scalars.items() if value]
    if ports:
        resources.append(ranges("ports", *ports))
    texts = [{"name": n, "type": "TEXT", "text": {"value": v}} for n, v in (attributes or {}).items()]
    return {
        "id": {"value": offer_id},
        "framework_id": {"value": "F"},
        "agent_id": {"value": agent},
        "hostname": host,
        "resources": [*resources, *extra],
        "attributes": texts,
        "allocation_info": {"role": ROLE},
        **changes,
    }


def status(task_id: str, state: str = "TASK_RUNNING", **changes: Any) -> Status:
    return Status(
        {"task_id": {"value": task_id}, "state": state, "agent_id": {"value": "S0"}, "uuid": "dQ==", **changes}
    )


class Run:
    """One scheduler without its edges: events in, actions out, on a clock of its own."""

    def __init__(self, state: State | None = None, settings: Settings = SETTINGS, now_s: float = T0) -> None:
        self.state, self.settings, self.now_s = state or State(), settings, now_s
        self._events = 0

    def do(self, event: Event, *, after_s: float = 0.0) -> list[Action]:
        self.now_s += after_s
        self._events += 1
        self.state, actions = handle(self.state, event, self.moment, self.settings)
        return actions

    @property
    def moment(self) -> Moment:
        return Moment(self.now_s, ids_from(str(UUID(int=self._events))))

    def subscribe(self, framework_id: str = "F") -> list[Action]:
        return self.do(Subscribed(framework_id, "m:5050", again=False))

    def put(self, *documents: Mapping[str, Any], **options: Any) -> list[Action]:
        return self.do(PutApps(documents, f"d{self._events}", **options), after_s=1.0)

    def offer(self, **changes: Any) -> list[Action]:
        return self.do(Offered([offer(f"O{self._events}", **changes)]))

    def tasks(self, app_id: str = "/a") -> list[str]:
        return [i.task.id for i in self.state.instances_of(app_id) if i.task is not None]

    def run_all(self, app_id: str = "/a") -> None:
        """Give offers until nothing waits, and let every task run."""
        for _ in range(20):
            if not self.state.waiting:
                break
            self.offer(gpus=0)
            self.offer(gpus=8)
        for task_id in self.tasks(app_id):
            self.do(status(task_id))


def only(actions: Sequence[Action], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def container(name: str = "main", **changes: Any) -> dict[str, Any]:
    """A container of a pod."""
    resources = {"cpus": 0.1, "mem": 32, **changes.pop("resources", {})}
    return {"name": name, "exec": {"command": {"shell": "sleep 1000"}}, "resources": resources, **changes}


def pod(pod_id: str = "/p", *containers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"id": pod_id, "containers": list(containers) or [container("one"), container("two")], **changes}


def job(job_id: str = "j", **run: Any) -> dict[str, Any]:
    return {"id": job_id, "run": {"cmd": "true", "cpus": 0.1, "mem": 32, **run}}


def schedule(schedule_id: str = "s", cron: str = "* * * * *", **changes: Any) -> dict[str, Any]:
    return {"id": schedule_id, "cron": cron, **changes}


MOUNT = {"name": "data", "mountPath": "here"}


def keeping(pod_id: str = "/p", *, gpus: int = 0, instances: int = 1, **changes: Any) -> dict[str, Any]:
    """A pod of two containers, of which one writes to a volume and one reads it."""
    parts = [
        container("one", resources={"gpus": gpus, "disk": 5}, volumeMounts=[MOUNT]),
        container("two", volumeMounts=[{**MOUNT, "mountPath": "there", "readOnly": True}]),
    ]
    scaling = {"kind": "fixed", "instances": instances}
    volumes = [{"name": "data", "persistent": {"size": 100}}]
    return {**pod(pod_id, *parts, scaling=scaling, volumes=volumes), **changes}
