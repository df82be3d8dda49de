"""Apps with persistent volumes: reserved once, used again by each task, given back to the last thousandth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.model.instances import Goal, Phase
from mesos_gpu.marathon.model.reservations import reserved_for
from mesos_gpu.marathon.state.actions import Decline, Exit, Kill, Launch, Reconcile, Revive, Save, Say, Suppress
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Disconnected,
    FrameworkError,
    KillTasks,
    Offered,
    RemoveApp,
    RestartApp,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.marathon.views.views import app_view, queue_view, task_views
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.marathon.builders import ROLE, Run, offer, only, status
from tests.support.marathon.residents import SHARED, VOLUME, Agent, one, resident


@pytest.fixture
def run() -> Run:
    started = Run(settings=SHARED)
    started.subscribe()
    return started


@pytest.fixture
def agent(run: Run) -> Agent:
    return Agent(run)


def test_what_a_task_needs_is_reserved_before_it_starts_and_the_gpu_with_it(run: Run, agent: Agent) -> None:
    run.put(resident(gpus=1, disk=10))
    agent.offer()
    assert agent.kinds == ["RESERVE", "CREATE"]
    assert (one(run).phase, one(run).reservation.agent_id) == (Phase.SCHEDULED, "S0")
    (volume,) = agent.volumes
    assert volume.startswith("a#data#")
    assert {reserved_for(r) for r in agent.kept} == {("F", one(run).id)}
    assert {r.role for r in agent.kept} == {ROLE}
    kept = agent.kept
    assert (kept.milli("gpus"), kept.milli("cpus"), kept.milli("disk")) == (1000, 100, 110_000)
    agent.settle()
    assert agent.kinds == ["RESERVE", "CREATE", "LAUNCH"]
    assert one(run).phase is Phase.RUNNING
    assert not run.state.lasting.deployments
    assert agent.kept == kept
    assert not agent.free.filter(lambda r: bool(r.reservations)), "the task has all that was reserved"


def test_the_task_is_told_of_its_volume_among_its_resources(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (info,) = agent.infos.values()
    (disk,) = (r["disk"] for r in info["resources"] if "disk" in r)
    assert disk["persistence"]["id"] == agent.volumes[0]
    assert disk["volume"] == {"container_path": "data", "mode": "RW"}
    assert "volumes" not in info["container"]


def test_the_reservation_is_on_disk_before_it_is_asked_for(run: Run, agent: Agent) -> None:
    run.put(resident())
    actions = agent.offer()
    (save,), (launch,) = ([a for a in actions if type(a).__name__ == kind] for kind in ("Save", "Launch"))
    assert actions.index(save) < actions.index(launch)
    assert not launch.task_infos
    assert launch.refuse_s == 0.0
    (instance,) = save.instances.values()
    assert instance.reservation.volumes[0].persistence_id == agent.volumes[0]


def test_a_task_that_ends_is_followed_by_one_with_the_same_volume_on_the_same_agent(run: Run, agent: Agent) -> None:
    run.put(resident(gpus=1))
    agent.settle()
    (first,), volumes, ports = list(agent.tasks), agent.volumes, one(run).task.ports
    agent.end(first)
    other = Agent(run, "S1", host="h1")
    other.settle()
    assert not other.kinds, "its volume is not there"
    (queued,) = queue_view(run.state, run.moment, last_offers=True)
    reasons = [unused["reason"] for unused in queued["lastUnusedOffers"] if unused["offer"]["agentId"] == "S1"]
    assert reasons in ([], [["NoCorrespondingReservationFound"]])
    run.do(Tick(), after_s=2)
    agent.settle()
    (second,) = agent.tasks
    assert (first.rpartition(".")[0], second.rpartition(".")[0]) == (one(run).id + "._app",) * 2
    assert second.endswith("._app.2")
    assert agent.volumes == volumes
    assert one(run).task.ports == ports
    assert agent.kinds.count("RESERVE") == 1


def test_while_it_waits_the_api_shows_its_last_task_and_its_volume(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    (running,) = task_views(run.state.instances_of("/a"))
    agent.end(task_id, "TASK_FAILED")
    (shown,) = task_views(run.state.instances_of("/a"), run.state.app("/a"))
    assert (shown["id"], shown["state"], shown["host"], shown["slaveId"]) == (task_id, "TASK_FAILED", "h0", "S0")
    assert not {"startedAt", "stagedAt", "version"} & shown.keys()
    (volume,) = shown["localVolumes"]
    assert running["localVolumes"] == shown["localVolumes"]
    assert volume == {
        "runSpecId": "/a",
        "containerPath": "data",
        "uuid": volume["uuid"],
        "persistenceId": f"a#data#{volume['uuid']}",
    }
    view = app_view(run.state, run.state.app("/a"))  # type: ignore[arg-type]
    assert (view["tasksStaged"], view["tasksRunning"]) == (0, 0)


def test_scaling_down_keeps_the_volume_and_scaling_up_uses_it_again(run: Run, agent: Agent) -> None:
    run.put(resident(instances=2))
    agent.settle()
    before = agent.volumes
    assert len(before) == 2
    (kill,) = only(run.put({"id": "/a", "instances": 1}), Kill)
    agent.end(kill.task_id, "TASK_KILLED")
    assert not run.state.lasting.deployments
    stopped = next(i for i in run.state.instances_of("/a") if not i.wanted)
    assert (stopped.goal, stopped.condition, stopped.resting) == (Goal.STOPPED, "Killed", True)
    agent.settle()
    assert agent.volumes == before
    assert len(agent.tasks) == 1
    run.put({"id": "/a", "instances": 2})
    agent.settle()
    assert agent.volumes == before
    assert agent.kinds.count("RESERVE") == 2
    assert {i.id for i in run.state.instances_of("/a")} == {stopped.id} | {
        i.id for i in run.state.instances_of("/a") if i.id != stopped.id
    }
    assert all(i.phase is Phase.RUNNING for i in run.state.instances_of("/a"))


def test_an_instance_that_waits_is_shelved_without_a_kill(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    agent.run.do(Offered([]))
    actions = run.put({"id": "/a", "instances": 0}, force=True)
    assert not only(actions, Kill)
    assert one(run).resting


def test_wiping_gives_the_volume_back_and_makes_a_new_one(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,), (volume,) = list(agent.tasks), agent.volumes
    run.do(KillTasks([task_id], "d", wipe=True))
    agent.end(task_id, "TASK_KILLED")
    agent.settle()
    assert [kind for kind in agent.kinds if kind in ("DESTROY", "UNRESERVE")] == ["DESTROY", "UNRESERVE"]
    assert len(agent.volumes) == 1
    assert agent.volumes != [volume]
    assert one(run).phase is Phase.RUNNING


def test_wiping_a_shelved_instance_frees_it_too(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    run.put({"id": "/a", "instances": 0})
    agent.end(task_id, "TASK_KILLED")
    run.do(KillTasks([task_id], "d", wipe=True))
    assert not run.state.instances_of("/a")
    agent.settle()
    assert agent.free == agent.whole


@pytest.mark.parametrize("volumes", [(VOLUME,), (VOLUME, {**VOLUME, "containerPath": "more"})])
def test_removing_the_app_frees_everything_to_the_last_thousandth(run: Run, agent: Agent, volumes: Any) -> None:
    run.put(resident(gpus=1, cpus=0.123, instances=2, volumes=volumes))
    agent.settle()
    assert len(agent.volumes) == 2 * len(volumes)
    assert agent.free != agent.whole
    run.do(RemoveApp("/a", "d"))
    for task_id in list(agent.tasks):
        agent.end(task_id, "TASK_KILLED")
    assert not run.state.lasting.deployments
    assert len(run.state.releasing) == 2
    (revive,) = only(run.do(Tick(), after_s=30), Revive) or [Revive()]
    assert revive == Revive()
    agent.settle()
    assert agent.free == agent.whole
    assert {i.released for i in run.state.lasting.instances.values()} == {True}
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    actions = run.do(Tick(), after_s=at_s - run.now_s)
    assert not run.state.lasting.instances
    assert only(actions, Suppress) == [Suppress()]


def test_offers_go_on_until_everything_is_given_back(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    run.put({"id": "/a", "instances": 0})
    agent.end(next(iter(agent.tasks)), "TASK_KILLED")
    assert run.state.suppressed
    assert only(run.do(RemoveApp("/a", "d"), after_s=60), Revive) == [Revive()]
    agent.settle()
    assert agent.free == agent.whole


def test_one_instance_goes_below_its_health_to_be_restarted(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (volume,) = agent.volumes
    (kill,) = only(run.do(RestartApp("/a", "d"), after_s=1), Kill)
    agent.end(kill.task_id, "TASK_KILLED")
    agent.settle()
    assert not run.state.lasting.deployments
    assert agent.volumes == [volume]


def test_instances_that_wait_with_their_volumes_count_for_constraints(run: Run, agent: Agent) -> None:
    run.put(resident(instances=2, gpus=1, constraints=[["hostname", "UNIQUE"]]))
    agent.settle()
    assert agent.kinds == ["RESERVE", "CREATE", "LAUNCH"]
    Agent(run, "S1", host="h1").settle()
    assert all(i.phase is Phase.RUNNING for i in run.state.instances_of("/a"))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"gpus": 2}, "/app(0)/gpus"),
        ({"cpus": 1}, "/app(0)/cpus"),
        ({"mem": 64}, "/app(0)/mem"),
        ({"disk": 1}, "/app(0)/disk"),
        ({"portDefinitions": [{"port": 0}, {"port": 0}]}, "/app(0)"),
        ({"container": {"type": "MESOS", "volumes": [{**VOLUME, "persistent": {"size": 200}}]}}, "/app(0)"),
        ({"container": {"type": "MESOS"}}, "/app(0)"),
        ({"upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}}, "/upgradeStrategy/maximum"),
        ({"unreachableStrategy": {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0}}, "/unreachableStrategy"),
    ],
)
def test_what_was_reserved_cannot_change(run: Run, agent: Agent, change: dict[str, Any], path: str) -> None:
    run.put(resident(gpus=1))
    agent.settle()
    with pytest.raises(InvalidApp) as caught:
        run.put({"id": "/a", **change})
    assert [p.path for p in caught.value.problems if p.path.startswith(path)]


def test_what_an_app_without_volumes_may_change_is_left_to_it(run: Run, golden: Golden) -> None:
    run.put(resident("/b", volumes=(), gpus=1))
    run.put({"id": "/b", "gpus": 2}, force=True)
    with pytest.raises(InvalidApp) as refused:
        run.put(resident("/b", gpus=2), force=True, partial=False)
    assert str(refused.value) == golden


def test_what_is_reserved_and_created_names_the_principal() -> None:
    run = Run(settings=replace(SHARED, principal="ops"))
    run.subscribe()
    run.put(resident(gpus=1))
    (launch,) = only(run.offer(gpus=1), Launch)
    reserve, create = launch.operations
    reserved = Resources.from_json(reserve["reserve"]["resources"])
    assert {each.principal for resource in reserved for each in resource.reservations} == {"ops"}
    (volume,) = Resources.from_json(create["create"]["volumes"])
    assert volume.disk["persistence"]["principal"] == volume.reservations[-1].principal == "ops"


def test_what_an_earlier_life_left_behind_is_given_back(run: Run, agent: Agent, golden: Golden) -> None:
    run.put(resident())
    agent.settle()
    agent.end(next(iter(agent.tasks)))
    forgetful = Run(settings=SHARED)
    forgetful.subscribe("F")
    agent.run = forgetful
    actions = agent.offer()
    assert agent.free == agent.whole
    assert only(actions, Say)[0].text == golden


def test_reservations_of_others_are_left_alone(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    agent.end(next(iter(agent.tasks)))
    stranger = Run(settings=SHARED)
    stranger.subscribe("G")
    agent.run = stranger
    kept = agent.kept
    assert only(agent.offer(), Decline)
    assert agent.kept == kept
    stranger.put(resident("/b"))
    agent.settle()
    assert agent.kept.contains(kept)
    assert len(agent.volumes) == 2


def test_after_a_crash_the_instance_finds_its_volume(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (volume,) = agent.volumes
    agent.end(next(iter(agent.tasks)))
    later = Run(restored(run.state.lasting), SHARED, now_s=run.now_s + 1000)
    later.do(Subscribed("F", "m:5050", again=True))
    agent.run = later
    agent.settle()
    assert agent.volumes == [volume]
    assert agent.kinds.count("RESERVE") == 1
    assert next(iter(agent.tasks)).endswith("._app.2")


def test_a_reservation_is_read_back_from_the_store_as_it_was(run: Run, agent: Agent, tmp_path: Path) -> None:
    run.put(resident())
    agent.settle()
    agent.end(next(iter(agent.tasks)))
    store = SqliteStore(tmp_path / "marathon.db")
    store.save([Save({}, dict(run.state.lasting.instances), {}, {})])
    assert store.load().instances == run.state.lasting.instances
    store.close()


def test_a_crash_between_removal_and_freeing_frees_all_the_same(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    run.do(RemoveApp("/a", "d"))
    agent.end(next(iter(agent.tasks)), "TASK_KILLED")
    later = Run(restored(run.state.lasting), SHARED, now_s=run.now_s + 1000)
    actions = later.do(Subscribed("F", "m:5050", again=True))
    assert only(actions, Revive) == [Revive()]
    assert not later.state.members
    agent.run = later
    agent.settle()
    assert agent.free == agent.whole


def test_a_reservation_that_never_comes_back_is_tried_again(run: Run, golden: Golden) -> None:
    run.put(resident())
    lost = run.offer()
    (launch,) = only(lost, Launch)
    run.do(CallFailed(launch, "broken pipe"))
    first = one(run)
    at_s = next_tick_s(run.state, run.settings, run.moment)
    actions = run.do(Tick(), after_s=21.0)
    assert at_s is not None
    assert at_s <= run.now_s
    assert only(actions, Say)[0].text == golden
    assert one(run).id != first.id
    agent = Agent(run)
    agent.settle()
    assert one(run).phase is Phase.RUNNING


def test_without_a_master_nothing_is_given_up_and_nobody_waits_for_it(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    run.do(Disconnected())
    run.do(Tick(), after_s=100)
    assert one(run).reservation is not None
    assert (next_tick_s(run.state, run.settings, run.moment) or run.now_s + 1) > run.now_s


def test_a_failed_call_without_tasks_does_not_ask_for_all_of_them(run: Run, agent: Agent) -> None:
    run.put(resident())
    (launch,) = only(agent.offer(), Launch)
    assert not only(run.do(CallFailed(launch, "broken pipe")), Reconcile)


def test_a_confirmed_reservation_waits_for_ever(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    # Seen again, though the app may not start yet.
    run.do(Offered([{**offer(agent="S0", ports=()), "resources": agent.free.to_json()}]))
    assert one(run).reservation.confirmed


def test_a_reservation_without_its_volume_is_not_confirmed(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    before = one(run)
    # The agent was killed between the two, and came back with what is reserved.
    reserved = Resources(r.without_volume() if r.persistence_id is not None else r for r in agent.free)
    agent.free = reserved
    run.do(Offered([{**offer(agent="S0", ports=()), "resources": reserved.to_json()}]))
    assert not one(run).reservation.confirmed
    run.do(Tick(), after_s=SHARED.reservation_timeout_s + 1)
    agent.settle()
    assert before.id != one(run).id
    assert len(agent.volumes) == 1
    assert len(agent.tasks) == 1


def test_what_was_reserved_for_a_task_that_never_got_there_is_in_doubt(run: Run, agent: Agent) -> None:
    run.put(resident())
    while not agent.tasks:
        agent.offer()
    (task,) = agent.tasks
    before = one(run)
    assert before.reservation.confirmed
    # The agent came back without the task, and without what was reserved: the link broke before either arrived.
    run.do(status(task, "TASK_GONE", reason="REASON_RECONCILIATION"))
    assert not one(run).reservation.confirmed
    run.do(Tick(), after_s=SHARED.reservation_timeout_s + 1)
    run.do(Tick(), after_s=1)
    assert before.id not in {instance.id for instance in run.state.instances_of("/a")}


def test_what_is_offered_again_is_in_doubt_no_more(run: Run, agent: Agent) -> None:
    run.put(resident())
    while not agent.tasks:
        agent.offer()
    (task,) = agent.tasks
    agent.end(task, "TASK_GONE")
    assert not one(run).reservation.confirmed
    agent.settle()
    assert one(run).reservation.confirmed
    assert len(agent.volumes) == 1


def test_what_is_offered_once_more_and_not_there_again_is_in_doubt_again(run: Run, agent: Agent) -> None:
    run.put(resident())
    before: set[str] = set()
    for _ in range(2):
        # The master offers what it was asked to reserve for as long as it has not heard of the agent again.
        while not agent.tasks:
            agent.offer()
        (task,) = agent.tasks
        before.add(one(run).id)
        agent.end(task, "TASK_GONE")
        assert not one(run).reservation.confirmed
    run.do(Tick(), after_s=SHARED.reservation_timeout_s + 1)
    run.do(Tick(), after_s=1)
    assert before.isdisjoint(instance.id for instance in run.state.instances_of("/a"))


def test_what_a_task_has_used_is_never_in_doubt(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (ran,) = agent.tasks
    agent.end(ran, "TASK_GONE")
    kept = one(run).reservation
    assert (kept.last_task_id, kept.confirmed) == (ran, True)
    while not agent.tasks:
        agent.offer()
    (task,) = agent.tasks
    agent.end(task, "TASK_DROPPED")
    kept = one(run).reservation
    assert (kept.last_task_id, kept.confirmed) == (ran, True)


def test_a_new_process_gives_unconfirmed_reservations_their_time_anew(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    later = Run(restored(run.state.lasting), SHARED, now_s=run.now_s + 1000)
    later.do(Subscribed("F", "m:5050", again=True))
    later.do(Tick(), after_s=1)
    agent.run = later
    agent.settle()
    assert agent.kinds == ["RESERVE", "CREATE", "LAUNCH"]


def test_an_upgrade_keeps_volumes_and_never_runs_two_on_one(run: Run, agent: Agent) -> None:
    run.put(resident(instances=2))
    agent.settle()
    volumes, ids = agent.volumes, {i.id for i in run.state.instances_of("/a")}
    run.put({"id": "/a", "env": {"NEW": "1"}})
    for _ in range(2):
        (killed,) = run.state.kills
        agent.end(killed, "TASK_KILLED")
        agent.settle(2)
    assert not run.state.lasting.deployments
    assert agent.volumes == volumes
    assert {i.id for i in run.state.instances_of("/a")} == ids
    assert all(task_id.endswith("._app.2") for task_id in agent.tasks)


def test_an_instance_that_waits_with_its_volume_is_upgraded_without_losing_it(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    volumes, waiting = agent.volumes, one(run).id
    agent.end(next(iter(agent.tasks)))
    run.put({"id": "/a", "env": {"NEW": "1"}})
    assert one(run).id == waiting
    assert one(run).version == run.state.app("/a").version  # type: ignore[union-attr]
    run.now_s += 10.0
    agent.settle()
    assert agent.volumes == volumes
    assert one(run).phase is Phase.RUNNING


def test_a_lost_agent_is_waited_for(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    run.do(status(task_id, "TASK_UNREACHABLE"))
    Agent(run, "S1", host="h1").settle()
    run.do(Tick(), after_s=100_000)
    assert (one(run).phase, one(run).task.id) == (Phase.UNREACHABLE, task_id)
    run.do(KillTasks([task_id], "d"))
    assert one(run).phase is Phase.UNREACHABLE
    run.do(status(task_id))
    assert one(run).phase is Phase.RUNNING


def test_scaling_down_on_a_lost_agent_ends_the_task_when_it_comes_back(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    run.do(status(task_id, "TASK_UNREACHABLE"))
    run.put({"id": "/a", "instances": 0}, force=True)
    assert one(run).goal is Goal.STOPPED
    assert only(run.do(status(task_id)), Kill) == [Kill(task_id, "S0")]
    agent.end(task_id, "TASK_KILLED")
    assert one(run).resting


def test_an_agent_that_an_operator_gave_up_takes_its_volumes_with_it(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    agent.end(next(iter(agent.tasks)), "TASK_GONE_BY_OPERATOR")
    assert one(run).reservation is None
    run.do(Tick(), after_s=5)
    other = Agent(run, "S1", host="h1")
    other.settle()
    assert one(run).reservation.agent_id == "S1"
    agent.offer()
    assert agent.free == agent.whole, "should it come back after all, what it kept is of no use"


def asked(run: Run) -> dict[str, str]:
    """Let it be time for asking a master about everything; return by which ids it is asked, and on which agents."""
    calls: list[Reconcile] = []
    while not calls:
        at_s = next_tick_s(run.state, run.settings, run.moment)
        assert at_s is not None
        calls = only(run.do(Tick(), after_s=max(0.1, at_s - run.now_s)), Reconcile)
    return {task_id: agent_id for call in calls for task_id, agent_id in call.agents.items()}


@pytest.mark.parametrize("state", ["TASK_GONE", "TASK_UNREACHABLE", "TASK_UNKNOWN"])
def test_what_waits_where_nothing_runs_hears_that_the_agent_is_gone(run: Run, agent: Agent, state: str) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    assert asked(run) == {task_id: "S0"}
    agent.end(task_id)
    run.do(Tick(), after_s=5)
    ((name, where),) = asked(run).items()
    assert (name not in (task_id, one(run).next_task_id), where) == (True, "S0")
    waiting = one(run)
    actions = run.do(status(name, state, agent_id={"value": "S0"}))
    assert one(run) == waiting, "it is there, or may come back"
    assert only(actions, Kill) == []
    run.do(status(name, "TASK_GONE_BY_OPERATOR", agent_id={"value": "S1"}))
    assert one(run) == waiting, "that is said of another"
    run.do(status(name, "TASK_GONE_BY_OPERATOR", agent_id={"value": "S0"}))
    assert one(run).reservation is None
    assert not only(run.do(Tick(), after_s=10), Launch)
    Agent(run, "S1", host="h1").settle()
    assert one(run).reservation.agent_id == "S1"
    run.do(status(name, "TASK_GONE_BY_OPERATOR", agent_id={"value": "S0"}))
    assert one(run).reservation.agent_id == "S1", "the answer came twice"


def test_offers_of_others_are_asked_for_in_the_place_of_an_agent_that_is_gone(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    agent.end(next(iter(agent.tasks)))
    run.do(Tick(), after_s=60)
    (name,) = asked(run)
    run.do(Tick(), after_s=60)
    gone = run.do(status(name, "TASK_GONE_BY_OPERATOR", agent_id={"value": "S0"}))
    assert len(only(gone, Revive)) == 1


def test_what_rests_on_an_agent_that_is_gone_is_forgotten(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    run.put({"id": "/a", "instances": 0}, force=True)
    agent.end(next(iter(agent.tasks)), "TASK_KILLED")
    assert one(run).resting
    (name,) = asked(run)
    run.do(status(name, "TASK_GONE_BY_OPERATOR", agent_id={"value": "S0"}))
    assert run.state.instances_of("/a") == []


@pytest.mark.parametrize("state", ["TASK_GONE", "TASK_FAILED"])
def test_an_agent_that_comes_back_with_another_id_is_known_by_the_volumes_it_has(
    run: Run, agent: Agent, state: str
) -> None:
    # As after SIGUSR1, or when a master that refused it sent it away: its tasks are over, its volumes are not.
    run.put(resident(instances=2))
    agent.settle()
    volumes, tasks = agent.volumes, list(agent.tasks)
    agent.name = "S1"
    agent.end(tasks[0], state)
    agent.end(tasks[1], state)
    run.do(Tick(), after_s=60)
    agent.settle()
    assert agent.volumes == volumes
    assert "DESTROY" not in agent.kinds
    assert [i.reservation.agent_id for i in run.state.instances_of("/a") if i.reservation] == ["S1", "S1"]
    assert [i.phase for i in run.state.instances_of("/a")] == [Phase.RUNNING, Phase.RUNNING]
    assert len(agent.tasks) == 2


def test_volumes_that_come_back_before_the_end_of_their_task_is_told_are_waited_with(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    volumes, (task_id,) = agent.volumes, agent.tasks
    run.do(status(task_id, "TASK_UNREACHABLE"))
    agent.name = "S1"
    agent.release(task_id)
    agent.settle()
    assert agent.volumes == volumes
    assert one(run).reservation.agent_id == "S0"
    run.do(status(task_id, "TASK_GONE"))
    run.do(Tick(), after_s=60)
    agent.settle()
    assert agent.volumes == volumes
    assert (one(run).phase, one(run).reservation.agent_id) == (Phase.RUNNING, "S1")


def test_a_new_framework_id_does_not_lose_volumes(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (volume,) = agent.volumes
    (task_id,) = agent.tasks
    assert not only(run.do(FrameworkError("Framework has been removed")), Exit)
    run.subscribe("F2")
    agent.free += agent.tasks.pop(task_id)
    agent.settle()
    assert agent.volumes == [volume]
    assert one(run).phase is Phase.RUNNING


def test_agents_with_gpus_are_spared_until_a_volume_is_there() -> None:
    run = Run()
    run.subscribe()
    run.put(resident())
    assert not only(run.offer(gpus=2), Launch), "restricted: an app without GPUs does not take an agent with some"
    agent = Agent(run, gpus=0)
    agent.offer()
    agent.free += Resources.parse("gpus:1").allocated(ROLE)
    agent.settle()
    assert one(run).phase is Phase.RUNNING
