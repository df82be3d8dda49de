"""Why an app does not run, and what would make it run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Rules
from mesos_gpu.marathon.why.answer import Answer, answer
from mesos_gpu.marathon.why.change import Held
from mesos_gpu.marathon.why.facts import Situation, holders_of
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.marathon.why.verdict import verdict_of
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app

QUEUED = {"count": 1, "delay": {"timeLeftSeconds": 0}}


def asked(
    document: dict[str, Any], agents: Sequence[Machine] = (), *, queued: Any = QUEUED, keeps: bool = False, **more: Any
) -> Answer:
    request = request_of(document)
    rules, held = Rules(GpuBehaviour.RESTRICTED if keeps else GpuBehaviour.UNRESTRICTED), more.get("held", {})
    verdicts = [verdict_of(request, a, rules, holders=holders_of(held.get(a.id, ()))) for a in agents]
    return answer(Situation(document, request, queued=queued, agents=agents, verdicts=verdicts, rules=rules, **more))


def holding(name: str, gpus: int) -> Held:
    return Held(f"{name}.1", name, {"gpus": 1000 * gpus}, "*", True)


@pytest.mark.parametrize(
    ("document", "running", "state"),
    [(app(), 1, "running"), (app(instances=0), 0, "stopped"), (app(instances=2), 1, "starting")],
)
def test_an_app_that_does_not_wait_says_so(document: dict[str, Any], running: int, state: str) -> None:
    assert asked(document, queued=None, running=running).state == state


def test_an_app_in_backoff_is_told_to_look_at_its_log_and_at_its_command(golden: Golden) -> None:
    document = app(cmd="nvidia-smi", lastTaskFailure={"message": "Command exited with status 9"})
    found = asked(document, [agent()], queued={"count": 1, "delay": {"timeLeftSeconds": 12}})
    assert found.state == "delayed"
    assert found.headline == golden
    assert found.remedies == golden


def test_an_app_with_room_whose_tasks_are_refused_is_told_what_was_said_of_the_last(golden: Golden) -> None:
    failure = {"message": "Principal 'm' is not authorized to launch tasks as 'root'", "version": "2"}
    found = asked(app(version="2", lastTaskFailure=failure), [agent()])
    assert found.state == "waiting"
    assert found.headline == golden
    # What an earlier version failed of says nothing of this one.
    assert "Principal" not in asked(app(version="3", lastTaskFailure=failure), [agent()]).headline


def test_without_agents_nothing_can_run() -> None:
    assert asked(app()).state == "impossible"


def test_more_gpus_than_any_machine_has_is_impossible_and_the_most_is_told(golden: Golden) -> None:
    found = asked(app(gpus=8), [agent("a"), agent("b", total={"gpus": 6})])
    assert found.state == "impossible"
    assert found.remedies == golden


def test_a_constraint_that_no_agent_fulfils_is_told_with_the_values_there_are(golden: Golden) -> None:
    agents = [agent("a", attributes={"gpu_model": "H200"}), agent("b", attributes={"gpu_model": "H200"})]
    found = asked(app(constraints=[["gpu_model", "IS", "A100"]]), agents)
    assert found.remedies[0] == golden
    found = asked(app(constraints=[["rack", "IS", "r1"]]), agents)
    assert found.remedies[0] == golden


def test_gpus_of_other_roles_are_told_by_role(golden: Golden) -> None:
    one = agent(reserved_resources={"web": {"gpus": 4}}, unreserved_resources={"cpus": 8, "mem": 16384})
    found = asked(app(), [one])
    assert found.state == "impossible"
    assert found.remedies[0] == golden


def test_a_full_agent_is_told_with_the_app_that_would_make_room(golden: Golden) -> None:
    one = agent(used={"gpus": 4})
    held = {one.id: [holding("/big", 3), holding("/small", 1)]}
    found = asked(app(), [one], held=held)
    assert found.state == "waiting"
    assert found.remedies == (golden,)


def test_room_that_nobody_alone_can_make_is_told_as_what_is_missing(golden: Golden) -> None:
    one = agent(used={"gpus": 4})
    held = {one.id: [holding(f"/a{n}", 1) for n in range(4)]}
    assert asked(app(), [one], held=held).remedies == (golden,)


def test_a_machine_that_lacks_nothing_would_do_with_nothing(golden: Golden) -> None:
    queued = QUEUED | {"order": {"members": 2, "membersThatFit": 0}}
    found = asked(app(gang={"size": 2}, instances=2), [agent("a"), agent("b")], queued=queued)
    assert (found.headline, found.remedies) == (golden, ())


def test_a_gang_with_too_few_machines_could_never_start(golden: Golden) -> None:
    queued = QUEUED | {"order": {"members": 2, "membersThatFit": 1}}
    found = asked(app(gang={"size": 2}, instances=2), [agent("a"), agent("a")], queued=queued)
    assert found.state == "impossible"
    assert found.headline == golden
    assert "gang.onePerHost=false" in found.remedies[0]
    together = app(gang={"size": 2, "onePerHost": False}, instances=2)
    assert asked(together, [agent("a")], queued=queued).state == "waiting"
    assert asked({**together, "gpus": 3}, [agent("a")], queued=queued).state == "impossible"


def test_gpus_scattered_over_machines_are_told(golden: Golden) -> None:
    agents = [agent(name, used={"gpus": 3}) for name in ("a", "b", "c")]
    assert asked(app(), agents).remedies[0] == golden


def test_an_upgrade_that_waits_for_its_own_gpus_is_blocked_and_told_how_to_go_on() -> None:
    one = agent(used={"gpus": 4})
    held = {one.id: [holding("/train", 4)]}
    found = asked(app(instances=2), [one, agent("cpu", total={"gpus": 0})], held=held, upgrading=True)
    assert found.state == "blocked"
    assert "minimumHealthCapacity=0.5 upgradeStrategy.maximumOverCapacity=0" in found.remedies[0]
    assert asked(app(instances=2), [one], held=held).state == "waiting"


def test_what_marathon_says_of_a_blocked_deployment_is_passed_on(golden: Golden) -> None:
    blocker = {"app": "/train", "message": "told", "suggestion": {"upgradeStrategy": {"maximumOverCapacity": 0}}}
    found = asked(app(), [agent()], blockers=[blocker])
    assert (found.state, found.headline) == ("blocked", "told")
    assert found.remedies[0] == golden


def test_a_quota_limit_is_told(golden: Golden) -> None:
    roles = [{"name": "ml", "quota": {"limit": {"gpus": 4.0}, "consumed": {"gpus": 3.0}}}]
    found = asked(app(), [agent()], roles=roles)
    assert found.state == "blocked"
    assert found.headline == golden


def test_where_there_is_room_marathons_word_is_told(golden: Golden) -> None:
    one = agent()
    offer = {"offer": {"agentId": one.id}, "reason": ["AgentMaintenance"]}
    found = asked(app(), [one], queued={**QUEUED, "lastUnusedOffers": [offer]})
    assert found.state == "waiting"
    assert found.headline == golden
    assert found.document()["agents"][0]["lastOffer"] == ["AgentMaintenance"]


def test_an_app_without_gpus_is_told_how_it_gets_onto_gpu_agents() -> None:
    found = asked(app(gpus=0), [agent()], keeps=True)
    assert found.state == "impossible"
    assert "GPU_SCHEDULING_BEHAVIOR" in found.remedies[0]


def test_a_marathon_without_gpu_offers_is_told() -> None:
    found = asked(app(gpus=0), [agent()], takes_gpu_offers=False)
    assert found.state == "blocked"
    assert "--enable_features gpu_resources" in found.remedies[0]


def test_where_the_master_is_silent_marathons_reasons_stand_alone(golden: Golden) -> None:
    offers = [{"offer": {"agentId": str(n)}, "reason": ["InsufficientGpus"]} for n in range(2)]
    found = asked(app(), queued={**QUEUED, "lastUnusedOffers": offers}, agents_known=False)
    assert (found.state, found.headline) == ("waiting", golden)


def test_a_drained_agent_that_would_do_is_told(golden: Golden) -> None:
    found = asked(app(), [agent(deactivated=True)])
    assert found.remedies == (golden,)


def test_more_instances_than_there_is_room_for_is_told(golden: Golden) -> None:
    full = agent(used={"gpus": 4})
    assert asked(app(instances=3), [full]).remedies[0] == golden


def test_what_would_keep_the_memory_of_a_part_is_told(golden: Golden) -> None:
    share = app(gpus=0, cpus=99, gpuShare={"memGiB": 6, "weight": 2})
    cards = {"gpu_shared_cards": "2=GPU-a/15/watcher,3=GPU-b/4/cgroup"}
    total = {"gpu_mem": "[2000-2014, 3000-3003]", "gpu_slices": "[2000-2024, 3000-3024]"}
    found = asked(share, agents=[agent("a", attributes=cards, total=total)])
    assert found.headline == golden
    assert found.remedies == golden
    # Agents of before do not say it, and who wants no part is not told.
    before = {"gpu_shared_cards": "2=GPU-a/15"}
    for wanted, there in ((share, before), (app(gpus=0, cpus=99), cards)):
        assert asked(wanted, agents=[agent("a", attributes=there, total=total)]).remedies == golden


def test_an_app_whose_gpus_are_put_away_says_for_whom(golden: Golden) -> None:
    away = {"id": "a", "suspension": {"state": "suspended", "for": "/urgent", "since": "2023-01-01T00:00:00.000Z"}}
    found = asked(app(instances=2) | {"tasks": [away, {"id": "b"}]}, queued=None, running=2)
    assert found.headline == golden
    by_hand = {"id": "b", "suspension": {"state": "suspended", "for": None, "since": "2023-01-01T00:00:00.000Z"}}
    headline = asked(app(instances=2) | {"tasks": [away, by_hand]}, queued=None, running=2).headline
    assert headline == golden


def test_an_app_says_what_agents_refused_and_of_whom_more_is_asked_than_was_done(golden: Golden) -> None:
    since = {"since": "2023-01-01T00:00:00.000Z", "unanswered": 2}
    asked_for = {"id": "a", "suspension": {"state": "asked", "for": "/urgent", **since}}
    no = {"what": "suspend", "reason": "no driver.", "for": "/urgent", "at": "2023-01-01T00:00:00.000Z"}
    away = {"id": "c", "suspension": {"state": "suspended", "for": "/urgent", "since": "2023-01-01T00:00:00.000Z"}}
    stays = away | {"suspensionRefused": no | {"what": "resume", "reason": "no GPU is free"}}
    tasks = [asked_for, {"id": "b", "suspensionRefused": no}, stays]
    headline = asked(app(instances=3) | {"tasks": tasks}, queued=None, running=3).headline
    assert headline == golden


def test_what_keeps_a_running_app_to_its_part_is_said_of_the_agents_that_run_it(golden: Golden) -> None:
    document = app(gpus=0, gpuShare={"memGiB": 6}, tasks=[{"id": "t", "slaveId": "A-a"}])
    there = agent("a", attributes={"gpu_shared_cards": "0=GPU-a/16/watcher"})
    elsewhere = agent("b", attributes={"gpu_shared_cards": "0=GPU-b/16/cgroup"})
    found = asked(document, [there, elsewhere], queued=None, running=1)
    assert (found.state, found.remedies) == (
        "running",
        (golden,),
    )
