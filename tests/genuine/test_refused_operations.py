"""Operations that a master refuses, and updates of a framework: a genuine one and ours in the same words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing import MesosBox
from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.genuine.scheduler import subscribed
from tests.support.master.live import soon

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

PERSISTENT = {"persistence": {"id": "v", "principal": "p"}, "volume": {"mode": "RW", "container_path": "d"}}


def some(name: str, value: float, **more: object) -> Document:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


def reserved(name: str, value: float, role: str = "other", **more: object) -> Document:
    return some(name, value, reservations=[{"type": "DYNAMIC", "role": role, "principal": "p"}], **more)


def operation(kind: str, *resources: Document) -> Document:
    field = "resources" if kind in ("RESERVE", "UNRESERVE") else "volumes"
    return {"type": kind, kind.lower(): {field: list(resources)}}


def volume(**changes: Any) -> Document:
    return reserved("disk", 1, disk={**PERSISTENT, **changes})


OPERATIONS: Mapping[str, Document] = {
    **{f"{kind} of nothing": {"type": kind} for kind in ("RESERVE", "UNRESERVE", "CREATE", "DESTROY", "GROW_VOLUME")},
    **{f"{kind} of none": operation(kind) for kind in ("RESERVE", "UNRESERVE", "CREATE", "DESTROY")},
    "for everybody": operation("RESERVE", reserved("cpus", 1, "*")),
    "for another role": operation("RESERVE", reserved("cpus", 1)),
    "for a bad role": operation("RESERVE", reserved("cpus", 1, "/a")),
    "statically": operation("RESERVE", some("cpus", 1, reservations=[{"type": "STATIC", "role": "other"}])),
    "unreserved": operation("RESERVE", some("cpus", 1)),
    "less than nothing": operation("RESERVE", reserved("cpus", -1)),
    "half a GPU": operation("RESERVE", reserved("gpus", 0.5)),
    "of another": {"type": "RESERVE", "reserve": {"source": [some("cpus", 1)], "resources": [reserved("cpus", 1)]}},
    "refined for a stranger": operation(
        "RESERVE",
        some("cpus", 1, reservations=[{"type": "DYNAMIC", "role": "a"}, {"type": "DYNAMIC", "role": "b"}]),
    ),
    "refined statically": operation(
        "RESERVE",
        some("cpus", 1, reservations=[{"type": "DYNAMIC", "role": "a"}, {"type": "STATIC", "role": "a/b"}]),
    ),
    "in two formats": operation("RESERVE", reserved("cpus", 1, role="other") | {"role": "another"}),
    "not reserved": operation("UNRESERVE", some("cpus", 1)),
    "no volume": operation("CREATE", some("disk", 1)),
    "volume of cpus": operation("CREATE", some("cpus", 1, disk=PERSISTENT)),
    "unreserved volume": operation("CREATE", some("disk", 1, disk=PERSISTENT)),
    "volume to read": operation("CREATE", volume(volume={"mode": "RO", "container_path": "d"})),
    "volume's name": operation("CREATE", volume(persistence={"id": "a/b", "principal": "p"})),
    "volume of the host": operation("CREATE", volume(volume={"mode": "RW", "container_path": "d", "host_path": "/x"})),
    "volume that is not there": operation("DESTROY", volume()),
    "growing no volume": {
        "type": "GROW_VOLUME",
        "grow_volume": {"volume": some("disk", 1), "addition": some("disk", 1)},
    },
    "shrinking all": {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": some("disk", 1), "subtract": {"value": 1}}},
    "disk": {"type": "CREATE_DISK", "create_disk": {"source": some("disk", 1), "target_type": "MOUNT"}},
    "no disk": {"type": "DESTROY_DISK", "destroy_disk": {"source": some("disk", 1)}},
}
UPDATES: tuple[Document, ...] = (
    {"user": "other"},
    {"checkpoint": True},
    {"role": "a/", "capabilities": []},
    {"principal": "other"},
    {"id": {"value": "other"}},
    {"failover_timeout": 1e300},
)


def plain(text: str, **names: str) -> str:
    """Return words without what is another's: ids, addresses."""
    for name, value in names.items():
        text = text.replace(value, name)
    return re.sub(r"slave\(1\)@127.0.0.1:\d+", "PID", text)


async def refusals(box: MesosBox) -> dict[str, tuple[object, str]]:
    async with subscribed(box) as framework:
        scheduler, offer = framework.scheduler, await framework.offer(2)
        names = {"AGENT": offer["agent_id"]["value"], "FRAMEWORK": str(framework.id)}
        asked = [{**one, "id": {"value": name}} for name, one in OPERATIONS.items()]
        body = {"offer_ids": [offer["id"]], "operations": asked, "filters": {"refuse_seconds": 0}}
        answer = await scheduler.call("ACCEPT", body)
        assert answer.status == 202, await answer.text()
        found: dict[str, tuple[object, str]] = {}
        while len(found) < len(OPERATIONS):
            event = await soon(scheduler.events.get())
            assert event is not None
            if event["type"] == "UPDATE_OPERATION_STATUS":
                status = event["update_operation_status"]["status"]
                found[status["operation_id"]["value"]] = status["state"], plain(status["message"], **names)
        (state,) = [one for one in box.state()["frameworks"] if one["id"] == framework.id]
        info = {"user": state["user"], "name": state["name"], "id": {"value": state["id"]}}
        for change in UPDATES:
            answer = await scheduler.call("UPDATE_FRAMEWORK", {"framework_info": {**info, **change}})
            found[f"update {change}"] = answer.status, plain(await answer.text(), **names)
        return found


async def test_ours_refuses_operations_as_a_genuine_master_does(
    newest: Release, make_box: MakeBox, mesos_box: Callable[..., MesosBox]
) -> None:
    wanted, found = await refusals(make_box(newest, gpus=2)), await refusals(mesos_box(gpus=2))
    assert {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]} == {}
    assert {state for state, _ in wanted.values()} >= {"OPERATION_ERROR", 400}
