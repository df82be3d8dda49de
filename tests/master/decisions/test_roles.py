"""Operators change weights and quota; the answers are those of a real master in the same situation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.master.decisions import launching, operations, subscriptions
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.views.views import roles_view
from mesos_gpu.mesos.resources import Resources
from tests.support.master.at_once import roles
from tests.support.master.build import NOW, add_agent, add_framework, check_books, events, new_state, offers
from tests.support.master.live import Scheduler, ScriptedAgent, framework_info, live_master
from tests.support.master.operator import Operator, recorded

R = Resources.parse


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    """A master with one agent and one framework in the role slave_public, as when it was recorded."""
    async with live_master(tmp_path) as master, aiohttp.ClientSession() as session:
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        await agent.start()
        try:
            await agent.register("cpus:2;gpus:4;mem:23081;disk:252899;ports:[31000-32000]")
            info = framework_info(capabilities="GPU_RESOURCES MULTI_ROLE", roles=["slave_public"])
            await scheduler.subscribe(info)
            yield Operator(master.url, session)
        finally:
            await scheduler.close()
            await agent.stop()


async def test_weights_and_quota_are_answered_as_recorded(operator: Operator) -> None:
    for kind in ["UPDATE_WEIGHTS", "GET_WEIGHTS", "/weights", "UPDATE_QUOTA", "GET_QUOTA", "/quota"]:
        await operator.repeat(recorded(kind))
    await operator.repeat(recorded("UPDATE_QUOTA", 1))
    status, shown = await operator.say("GET", "/roles")
    real = recorded("/roles")["response"]["body"]
    for role in [*shown["roles"], *real["roles"]]:
        for what in ("resources", "offered", "frameworks"):
            role.pop(what)  # what was offered in that moment
    assert (status, shown) == (200, real)


async def test_the_older_endpoints_do_the_same(operator: Operator) -> None:
    assert await operator.say("PUT", "/weights", [{"role": "ml", "weight": 3}]) == (200, "")
    assert await operator.say("GET", "/weights") == (200, [{"role": "ml", "weight": 3.0}])
    gpus = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 2}}]
    assert await operator.say("POST", "/quota", {"role": "ml", "guarantee": gpus}) == (200, "")
    status, body = await operator.say("POST", "/quota", {"role": "ml", "guarantee": gpus})
    assert (status, "already has quota" in body) == (400, True)
    many = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 9}}]
    status, body = await operator.say("POST", "/quota", {"role": "web", "guarantee": many})
    assert (status, body[:41]) == (409, "Quota guarantees overcommit the cluster (")
    assert await operator.say("POST", "/quota", {"role": "web", "guarantee": many, "force": True}) == (200, "")
    status, body = await operator.say("GET", "/quota")
    assert [config["role"] for config in body["configs"]] == ["ml", "web"]
    assert await operator.say("DELETE", "/master/quota/web") == (200, "")
    status, body = await operator.say("DELETE", "/quota/web")
    assert (status, body) == (400, "Failed to remove quota for path '/quota/web': Role 'web' has no quota set")
    assert await operator.say("POST", "/api/v1", {"type": "REMOVE_QUOTA", "remove_quota": {"role": "ml"}}) == (200, "")
    assert await operator.say("GET", "/quota") == (200, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "/weights", {}, 400, "Failed to parse update weights request JSON ('{}'): Expecting a JSON array"),
        ("PUT", "/weights", [{}], 400, "Failed to convert weights JSON array to protobuf"),
        ("PUT", "/weights", [{"role": "a", "weight": 0}], 400, "Invalid weight '0': Weights must be positive"),
        ("PUT", "/weights", [{"role": "a b", "weight": 1}], 400, "Invalid role 'a b'"),
        ("POST", "/weights", [], 405, "Expecting one of { 'GET', 'PUT' }, but received 'POST'."),
        ("PUT", "/quota", {}, 405, "Expecting one of { 'GET', 'POST', 'DELETE' }"),
        ("POST", "/quota", [], 400, "Failed to parse set quota request JSON '[]'"),
        ("POST", "/quota", {"guarantee": 1}, 400, "Failed to validate set quota request JSON"),
        ("DELETE", "/master/quota", None, 400, "for path '/master/quota': expected 3 tokens, found 2 tokens"),
    ],
)
async def test_what_cannot_be_is_refused(
    operator: Operator, method: str, path: str, body: Any, status: int, words: str
) -> None:
    answered, text = await operator.say(method, path, body)
    assert (answered, words in text) == (status, True), text


def test_weights_take_offers_back_when_a_role_in_use_is_concerned() -> None:
    state = new_state()
    add_agent(state)
    add_framework(state, role="ml")
    assert len(offers(state)) == 1
    assert not events(roles.update_weights(state, [{"role": "web", "weight": 2.0}]), "RESCIND")
    assert len(events(roles.update_weights(state, [{"role": "ml", "weight": 2.0}]), "RESCIND")) == 1
    check_books(state)


def test_twice_the_weight_is_due_twice_as_much() -> None:
    state = new_state()
    roles.update_weights(state, [{"role": "heavy", "weight": 2.0}])
    for port in range(5051, 5060):
        add_agent(state, "cpus:1;mem:100", port=port)
    heavy, light = add_framework(state, "h", role="heavy"), add_framework(state, "l", role="light")
    offers(state)
    assert (len(heavy.offers), len(light.offers)) == (6, 3)


def test_a_new_guarantee_takes_back_enough_offers_and_is_met() -> None:
    state = new_state()
    for port in (5051, 5052):
        add_agent(state, port=port)
    first = add_framework(state, "first", role="a")
    offers(state)
    second = add_framework(state, "second", role="b")
    actions = roles.set_quota(state, {"role": "b", "guarantee": R("gpus:3").to_json()})
    assert len(events(actions, "RESCIND")) == 1
    offers(state)
    assert [offer.resources.gpus for offer in second.offers.values()] == [3]
    assert sum(offer.resources.gpus for offer in first.offers.values()) == 5
    check_books(state)


def test_a_reservation_beyond_the_limit_is_made_and_counts() -> None:
    """Mesos checks no RESERVE against quota (src/master/http.cpp, reserve): the next offers show it."""
    state = new_state()
    agent = add_agent(state, "cpus:8;gpus:4;mem:4096")
    framework = add_framework(state, role="dev")
    roles.update_quota(state, {"quota_configs": [{"role": "dev", "limits": {"gpus": {"value": 3}}}]})
    assert [offer.resources.gpus for offer in offers(state)] == [3]
    two = {
        "name": "gpus",
        "type": "SCALAR",
        "scalar": {"value": 2},
        "reservations": [{"type": "DYNAMIC", "role": "dev"}],
    }
    reserve = {"type": "RESERVE", "reserve": {"resources": [two]}}
    for _ in range(2):
        assert operations.operate(state, agent, reserve)
        check_books(state)
    (shown,) = [role for role in roles_view(state)["roles"] if role["name"] == "dev"]
    assert (shown["quota"]["limit"]["gpus"], shown["quota"]["consumed"]["gpus"]) == (3.0, 4.0)
    assert sum(offer.resources.gpus for offer in offers(state)) == 4, "its reservations are always offered"
    launching.decline(state, framework, {"offer_ids": [{"value": o.id} for o in list(agent.offers.values())]}, NOW)
    half = {**reserve, "type": "UNRESERVE", "unreserve": reserve["reserve"]}
    assert operations.operate(state, agent, half)
    subscriptions.revive(state, framework, [])
    by_role = {r.role: r.amount for offer in offers(state) for r in offer.resources if r.name == "gpus"}
    assert by_role == {"dev": 2000, "*": 1000}, "two are reserved, so one more makes three"
    check_books(state)


def test_a_limit_that_goes_sets_free_what_it_held_back() -> None:
    state = new_state()
    add_agent(state)
    framework = add_framework(state, role="a")
    roles.update_quota(state, {"quota_configs": [{"role": "a", "limits": {"gpus": {"value": 1}}}]})
    offers(state)
    assert [offer.resources.gpus for offer in framework.offers.values()] == [1]
    roles.remove_quota(state, "a")
    offers(state)
    assert sum(offer.resources.gpus for offer in framework.offers.values()) == 4
    with pytest.raises(BadInput, match="Role 'a' has no quota set"):
        roles.remove_quota(state, "a")
    with pytest.raises(Conflict):
        roles.set_quota(state, {"role": "a", "guarantee": R("gpus:5").to_json()})


def test_a_restarted_master_knows_weights_and_quota(tmp_path: Path) -> None:
    state = new_state()
    roles.update_weights(state, [{"role": "ml", "weight": 2.5}])
    config = {"role": "ml", "guarantees": {"gpus": {"value": 1}}, "limits": {"gpus": {"value": 2}}}
    [save] = roles.update_quota(state, {"force": True, "quota_configs": [config]})
    record = state.record()
    assert not save.operation.apply(record), "the books say what is stored"
    Registry(tmp_path).save(record)
    again = new_state()
    again.recover(Registry(tmp_path).load())
    assert again.policy.weights == {"ml": 2.5}
    assert again.policy.quotas == {"ml": Quota({"gpus": 1000}, {"gpus": 2000})}
    add_agent(again)
    framework = add_framework(again, role="ml")
    offers(again)
    assert [offer.resources.gpus for offer in framework.offers.values()] == [2]
