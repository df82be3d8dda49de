"""What would happen, asked over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon.builders import ROLE
from tests.support.marathon.service import Marathon


def slave(name: str, used: dict[str, float] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"A-{name}",
        "hostname": name,
        "pid": f"slave(1)@{name}:5051",
        "active": True,
        "resources": {"cpus": 8, "mem": 16384, "disk": 1000, "gpus": 4, "ports": "[31000-32000]"},
        "used_resources": used or {},
        "attributes": {"rack": "r1"},
        **more,
    }


def app(**more: Any) -> dict[str, Any]:
    return {"id": "/train", "cmd": "sleep 1000", "cpus": 1, "mem": 64, "gpus": 2, **more}


async def plan(marathon: Marathon, *documents: Any, agents: Any = (), roles: Any = (), status: int = 200) -> Any:
    await marathon.settled()  # subscribed
    body = {"documents": list(documents), "agents": list(agents), "roles": list(roles)}
    answer = await marathon.call("POST", "/v1/plan", body)
    assert answer.status == status, answer
    return answer.body


def one(document: dict[str, Any], kind: str = "app") -> dict[str, Any]:
    return {"kind": kind, "document": document}


async def test_a_plan_says_where_all_would_start_and_does_nothing(marathon: Marathon, golden: Golden) -> None:
    found = await plan(marathon, one(app(instances=3)), agents=[slave("g1", {"gpus": 2}), slave("g2")])
    assert (found["now"], found["summary"]) == (True, golden)
    assert sorted((start["host"], start["instances"]) for start in found["starts"]) == [("g1", 1), ("g2", 2)]
    assert found["starts"][0]["each"] == {"cpus": 1.0, "gpus": 2.0, "mem": 64.0}
    assert [[action["action"] for action in step] for step in found["steps"]] == [
        ["StartApplication"],
        ["ScaleApplication"],
    ]
    assert (await marathon.get("/v2/apps"))["apps"] == []


async def test_a_plan_says_what_waits_and_for_what(marathon: Marathon, golden: Golden) -> None:
    found = await plan(
        marathon, one(app(instances=2)), agents=[slave("g1"), slave("g2", {"gpus": 4}), slave("g3", {"cpus": 8})]
    )
    assert found["now"]
    found = await plan(marathon, one(app(instances=3)), agents=[slave("g1"), slave("g2", {"gpus": 4})])
    assert (found["now"], found["summary"]) == (False, golden)
    assert found["waits"] == [{"app": "/train", "instances": 1, "for": golden}]
    nothing = await plan(marathon, one(app()), agents=[slave("g1", deactivated=True)])
    assert nothing["waits"][0]["for"] == golden


async def test_a_quota_is_kept_to(marathon: Marathon) -> None:
    roles = [{"name": ROLE, "quota": {"limit": {"gpus": 3.0}, "consumed": {"gpus": 0.0}}}]
    found = await plan(marathon, one(app(instances=2)), agents=[slave("g1"), slave("g2")], roles=roles)
    assert [start["instances"] for start in found["starts"]] == [1]
    assert [wait["instances"] for wait in found["waits"]] == [1]


async def test_pods_groups_and_runs_of_jobs(marathon: Marathon) -> None:
    pod = {
        "id": "/p",
        "containers": [
            {"name": "c", "exec": {"command": {"shell": "sleep 9"}}, "resources": {"cpus": 1, "mem": 32, "gpus": 1}}
        ],
    }
    group = {"id": "/g", "apps": [{**app(), "id": "a"}, {**app(), "id": "b", "dependencies": ["a"]}]}
    job = {"id": "night", "run": {"cmd": "true", "cpus": 1, "mem": 32, "disk": 0, "gpus": 1}}
    agents = [slave("g1"), slave("g2")]
    found = await plan(marathon, one(pod, "pod"), one(group, "group"), one(job, "job"), agents=agents)
    assert found["now"], found
    assert {start["app"] for start in found["starts"]} == {"/p", "/g/a", "/g/b", "night"}


async def test_a_change_of_what_runs_is_planned_with_what_it_replaces(marathon: Marathon, golden: Golden) -> None:
    [task_id] = await marathon.running()
    there = (await marathon.get("/v2/apps/a"))["app"]
    host = there["tasks"][0]["host"]
    assert there["tasks"][0]["id"] == task_id
    found = await plan(
        marathon,
        one({"id": "/a", "cmd": "sleep 2000", "cpus": 0.1, "mem": 32}),
        agents=[slave("g1", resources={"cpus": 8, "mem": 999, "ports": "[31000-32000]"})],
    )
    assert (found["now"], found["summary"]) == (True, golden)
    assert found["ends"] == [{"app": "/a", "host": host, "instances": 1, "why": "replaced", "gpus": 0}]


@pytest.mark.parametrize("documents", [[], [{"kind": "cat", "document": {}}], [{"kind": "app"}], "all"])
async def test_what_cannot_be_planned_is_refused(marathon: Marathon, documents: Any) -> None:
    answer = await marathon.call("POST", "/v1/plan", {"documents": documents, "agents": []})
    assert answer.status in (400, 422), answer


async def test_a_bad_app_is_refused_as_when_it_is_sent(marathon: Marathon) -> None:
    await plan(marathon, one(app(gpus=0.5)), status=422)


async def test_when_says_of_what_waits_and_of_nothing(marathon: Marathon) -> None:
    assert (await marathon.call("POST", "/v2/apps", app())).status == 201
    asked = {"id": "train", "agents": [slave("g1", {"gpus": 3})]}
    found = (await marathon.call("POST", "/v1/when", asked)).body
    assert (found["id"], found["waiting"], found["firstSeconds"]) == ("/train", 1, [None, None, None])
    free = (await marathon.call("POST", "/v1/when", {"id": "/train", "agents": [slave("g1")]})).body
    assert free["firstSeconds"] == free["lastSeconds"] == [0.0, 0.0, 0.0]
    assert (await marathon.call("POST", "/v1/when", {"id": "none", "agents": []})).status == 404
    assert (await marathon.call("POST", "/v1/when", {"id": "", "agents": []})).status in (400, 422)


async def test_why_names_the_smallest_change_of_what_waits_in_order(marathon: Marathon) -> None:
    gang = {**app(gpus=2, instances=3), "gang": {"size": 3}}
    assert (await marathon.call("POST", "/v2/apps", gang)).status == 201
    asked = {"id": "train", "agents": [slave("g1"), slave("g2")]}
    found = (await marathon.call("POST", "/v1/why", asked)).body
    (step,) = found["change"]["steps"]
    assert (found["id"], found["change"]["agent"], step["kind"], step["value"]) == ("/train", "g1, g2", "size", 2)
    agents = [slave(f"g{at}") for at in range(3)]
    assert (await marathon.call("POST", "/v1/why", {**asked, "agents": agents})).body["change"] is None
    assert (await marathon.call("POST", "/v1/why", {"id": "none", "agents": []})).status == 404
    assert (await marathon.call("POST", "/v1/why", {"id": "", "agents": []})).status in (400, 422)
    assert (await marathon.call("POST", "/v1/why", {**asked, "agents": ["S0"]})).status == 400


@pytest.mark.parametrize("agents", [["S0"], [{"used_resources_full": 3}], [{"resources": {"cpus": 1, "ports": "x"}}]])
async def test_what_is_no_agent_is_refused(marathon: Marathon, agents: Any) -> None:
    await plan(marathon, one(app()), agents=agents, status=400)


@pytest.mark.parametrize("more", [{"priority": 5}, {"gang": {"size": 2}}])
async def test_a_plan_says_for_what_waits_in_order_what_agents_lack(
    marathon: Marathon, more: dict[str, Any], golden: Golden
) -> None:
    found = await plan(marathon, one(app(**more)), agents=[slave("g1", {"gpus": 3}), slave("g2", {"cpus": 7.5})])
    assert [wait["for"] for wait in found["waits"]] == golden, found


async def test_a_gang_whose_members_have_room_one_by_one(marathon: Marathon, golden: Golden) -> None:
    found = await plan(marathon, one(app(gang={"size": 5})), agents=[slave("g1"), slave("g2")])
    assert [wait["for"] for wait in found["waits"]] == golden, found
