"""Gangs: they start whole or not at all, know of one another, and end together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions.blockers import blockers
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.definitions.app import read_app
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import Acknowledge, Action, Decline, Kill, Launch, Publish, Revive
from mesos_gpu.marathon.state.events import KillTasks, Offered, PutJob, RemoveApp, RestartApp, StartRun, Tick
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.store.rows import lasting_of, rows_of, saves_of
from mesos_gpu.marathon.views.views import app_view, queue_view
from mesos_gpu.master.events.operators import ReactivateAgent
from mesos_gpu.placement.demand import WHOLE, Machine
from tests.support.golden import Golden
from tests.support.marathon.builders import RULES, SETTINGS, Run, app, job, offer, only, status
from tests.support.marathon.stuck_in_order import ROLE, Cluster

SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)
PAIR = {"gang": {"size": 2}}


def machines(count: int, *, gpus: int = 2, first: int = 0, **changes: Any) -> list[Any]:
    def url(n: int) -> dict[str, Any]:
        return {"scheme": "http", "address": {"hostname": f"h{n}", "ip": f"10.0.0.{n}", "port": 5051}}

    return [
        offer(f"O{n}", agent=f"S{n}", host=f"h{n}", gpus=gpus, url=url(n), **changes)
        for n in range(first, first + count)
    ]


def subscribed(*apps: Mapping[str, Any], settings: Any = SHARED) -> Run:
    run = Run(settings=settings)
    run.subscribe()
    if apps:
        run.put(*apps)
    return run


def infos(actions: Sequence[Action]) -> list[dict[str, Any]]:
    return [info for launch in only(actions, Launch) for info in launch.task_infos]


def env(info: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in info["command"]["environment"]["variables"]}


def kills(actions: Sequence[Action]) -> set[str]:
    return {kill.task_id for kill in only(actions, Kill)}


def started(run: Run, count: int = 2, app_id: str = "/a", **options: Any) -> list[str]:
    run.do(Offered(machines(count, **options)))
    for task_id in run.tasks(app_id):
        run.do(status(task_id))
    return run.tasks(app_id)


def test_members_go_to_a_machine_each_and_know_of_one_another() -> None:
    run = subscribed(app("/a", gpus=2, **PAIR))
    members = sorted((env(info) for info in infos(run.do(Offered(machines(3))))), key=lambda each: each["RANK"])
    assert [each["RANK"] for each in members] == ["0", "1"]
    first, second = members
    assert len({each["HOST"] for each in members}) == 2
    same = ("GANG_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_RANK", "PEERS", "MPI_HOSTS")
    assert [first[name] for name in same] == [second[name] for name in same]
    assert first["MASTER_ADDR"] == first["PEERS"].split(",")[0] == f"10.0.0.{first['HOST'][1:]}"
    assert (first["WORLD_SIZE"], first["LOCAL_RANK"]) == ("2", "0")
    assert first["MPI_HOSTS"] == ",".join(f"{peer}:2" for peer in first["PEERS"].split(","))
    torch = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT")
    assert [second[name] for name in torch] == ["2", "1", "2", second["MASTER_ADDR"], second["MASTER_PORT"]]


def test_the_masters_port_is_taken_of_the_machine_of_rank_0_alone() -> None:
    run = subscribed(app("/a", gpus=1, portDefinitions=[], **PAIR))
    for info in infos(run.do(Offered(machines(2)))):
        ports = [r["ranges"]["range"] for r in info["resources"] if r["name"] == "ports"]
        port = int(env(info)["MASTER_PORT"])
        assert ports == ([[{"begin": port, "end": port}]] if env(info)["RANK"] == "0" else [])
    shown = app_view(run.state, run.state.app("/a"), ["tasks"])["tasks"]  # type: ignore[arg-type]
    assert sorted((t["gang"]["rank"], t["gang"]["size"], t["ports"]) for t in shown) == [(0, 2, []), (1, 2, [])]
    assert {t["gang"]["masterPort"] for t in shown} == {port}


def test_it_starts_whole_or_not_at_all_and_what_it_is_to_have_is_held_then_given_back_at_once() -> None:
    run = subscribed(app("/a", gpus=2, gang={"size": 3}), settings=replace(SHARED, offer_window_s=0.2))
    started_job = job("filler", gpus=2)
    run.do(PutJob(started_job))
    run.do(StartRun("filler", "X1"))
    run.do(Offered(machines(1, first=9)))
    assert len(run.state.instances) == 4
    assert infos(run.do(Offered(machines(2)))) == []
    assert len(run.state.held) == 2
    (queued,) = queue_view(run.state, run.moment)
    assert queued["order"] == {"place": 1, "members": 3, "membersThatFit": 2, "startsBy": None}

    at_s = next_tick_s(run.state, SHARED, run.moment)
    assert at_s is not None
    assert at_s <= run.now_s + SHARED.gang_offer_hold_s
    actions = run.do(Tick(), after_s=SHARED.gang_offer_hold_s)
    (decline,) = only(actions, Decline)
    assert (sorted(decline.offer_ids), 1.0 <= decline.refuse_s <= 4.0) == (["O0", "O1"], True)
    assert run.state.held == ()

    # The rest comes alone: what was given back is asked for again, and nothing starts by itself.
    assert infos(run.do(Offered(machines(1, first=2)), after_s=0.5)) == []
    revived = only(run.do(Tick(), after_s=10.0), Revive)
    assert revived or run.state.revived_s > at_s
    assert len(infos(run.do(Offered(machines(3, first=10))))) == 3


def test_members_that_may_be_packed_share_machines() -> None:
    run = subscribed(app("/a", gpus=1, gang={"size": 5, "onePerHost": False}))
    launched = only(run.do(Offered([*machines(2, gpus=3), *machines(1, gpus=8, first=5)])), Launch)
    assert [(launch.offer_id, len(launch.task_infos)) for launch in launched] == [("O5", 5)]
    ranks = [env(info)["RANK"] for info in infos(launched)]
    assert sorted(ranks) == list("01234")
    assert {env(info)["MPI_HOSTS"] for info in infos(launched)} == {"10.0.0.5:5"}


def test_constraints_hold_for_each_member_and_a_cluster_is_one_value_for_all() -> None:
    racks = [{**each, "attributes": [text("rack", rack)]} for each, rack in zip(machines(4), "abba", strict=True)]
    racks[0]["resources"] = [r for r in racks[0]["resources"] if r["name"] != "gpus"]
    run = subscribed(app("/a", gpus=2, constraints=[["rack", "CLUSTER"]], **PAIR))
    assert {env(info)["HOST"] for info in infos(run.do(Offered(racks)))} == {"h1", "h2"}


def text(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "type": "TEXT", "text": {"value": value}}


def test_without_a_port_for_rank_0_it_waits_and_ranks_begin_where_there_is_one() -> None:
    run = subscribed(app("/a", gpus=2, portDefinitions=[], **PAIR))
    assert infos(run.do(Offered(machines(2, ports=())))) == []
    reasons = queue_view(run.state, run.moment)[0]["processedOffersSummary"]["rejectSummaryLastOffers"]
    assert {row["reason"]: row["declined"] for row in reasons}["InsufficientPorts"] >= 1


@pytest.mark.parametrize("state", ["TASK_FAILED", "TASK_LOST", "TASK_KILLED"])
def test_when_one_dies_the_others_are_ended_and_all_start_again_together(state: str) -> None:
    run = subscribed(app("/a", gpus=2, backoffSeconds=0, **PAIR))
    one, other = started(run)
    assert kills(run.do(status(one, state))) == {other}
    assert infos(run.do(Offered(machines(2)), after_s=1.0)) == []
    run.do(status(other, "TASK_KILLED"))
    again = infos(run.do(Offered(machines(2)), after_s=10.0))
    assert len(again) == 2
    assert len({env(info)["GANG_ID"] for info in again}) == 1


def test_where_the_app_says_so_it_does_without_a_gang_that_has_lost_a_member() -> None:
    run = subscribed(app("/a", instances=4, gang={"size": 2, "onFailure": "END"}))
    run.do(Offered(machines(2)))
    tasks = started(run)
    gangs = {i.task.id: i.task.gang.id for i in run.state.instances_of("/a") if i.task and i.task.gang}
    mate = next(t for t in tasks if t != tasks[0] and gangs[t] == gangs[tasks[0]])
    assert kills(run.do(status(tasks[0], "TASK_FAILED"))) == {mate}
    run.do(status(mate, "TASK_KILLED"))
    spec = run.state.app("/a")
    assert spec is not None
    assert (spec.instances, sorted(run.tasks())) == (2, sorted(set(tasks) - {tasks[0], mate}))
    assert not run.state.waiting


def test_members_that_have_finished_wait_for_the_others() -> None:
    run = subscribed(app("/a", gpus=2, backoffSeconds=0, **PAIR))
    one, other = started(run)
    assert kills(run.do(status(one, "TASK_FINISHED"))) == set()
    assert (len(run.state.waiting), sorted(run.tasks())) == (0, sorted([one, other]))
    (shown,) = (t for t in app_view(run.state, run.state.app("/a"), ["tasks"])["tasks"] if t["id"] == one)  # type: ignore[arg-type]
    assert shown["state"] == "TASK_FINISHED"
    run.do(status(other, "TASK_FINISHED"))
    assert len(infos(run.do(Offered(machines(2)), after_s=10.0))) == 2


@pytest.mark.parametrize("late", ["TASK_STARTING", "TASK_RUNNING", "TASK_UNREACHABLE", "TASK_FINISHED", "TASK_FAILED"])
def test_what_comes_late_of_a_member_that_has_finished_changes_nothing(late: str) -> None:
    """It is acknowledged; genuine masters pass on what a network has held back."""
    run = subscribed(app("/a", gpus=2, backoffSeconds=0, **PAIR))
    one, other = started(run)
    run.do(status(one, "TASK_FINISHED"))
    before, actions = run.state, run.do(status(one, late))
    assert [action.status["state"] for action in actions if isinstance(action, Acknowledge)] == [late]
    assert kills(actions) == set()
    assert run.state.instances == before.instances
    run.do(status(other, "TASK_FINISHED"))
    assert len(infos(run.do(Offered(machines(2)), after_s=10.0))) == 2


def test_one_that_fails_after_another_has_finished_ends_the_gang_too() -> None:
    run = subscribed(app("/a", gpus=2, backoffSeconds=0, **PAIR))
    one, other = started(run)
    run.do(status(one, "TASK_FINISHED"))
    run.do(status(other, "TASK_FAILED"))
    assert len(run.state.waiting) == 2


def test_a_member_on_a_lost_agent_ends_the_gang_when_its_time_is_over() -> None:
    away = {"inactiveAfterSeconds": 60, "expungeAfterSeconds": 120}
    run = subscribed(app("/a", gpus=2, unreachableStrategy=away, **PAIR))
    one, other = started(run)
    assert kills(run.do(status(one, "TASK_UNREACHABLE"))) == set()
    assert kills(run.do(Tick(), after_s=30.0)) == set()
    assert kills(run.do(Tick(), after_s=31.0)) == {other}
    run.do(status(other, "TASK_KILLED"))
    assert len(run.state.waiting) == 2
    assert kills(run.do(status(one, "TASK_RUNNING"))) == {one}, "it is given up, and ended when it comes back"


def test_scaling_ends_and_starts_whole_gangs() -> None:
    run = subscribed(app("/a", gpus=1, instances=2, **PAIR))
    first = set(started(run))
    run.put({"id": "/a", "instances": 4}, force=True)
    second = set(started(run)) - first
    assert len(second) == 2
    asked = kills(run.put({"id": "/a", "instances": 2}, force=True))
    assert asked in (first, second)
    one = sorted(set(run.tasks()) - asked)[0]
    assert len(kills(run.do(KillTasks([one], "d", scale=True, force=True)))) == 2
    assert run.state.app("/a").instances == 0  # type: ignore[union-attr]


def test_a_rolling_restart_replaces_gang_by_gang() -> None:
    strategy = {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}
    run = subscribed(app("/a", gpus=1, instances=4, upgradeStrategy=strategy, **PAIR))
    tasks = set(started(run))
    run.do(Offered(machines(2)))
    for task_id in set(run.tasks()) - tasks:
        run.do(status(task_id))
    old = set(run.tasks())
    assert len(old) == 4
    ended = kills(run.do(RestartApp("/a", "d9", force=True), after_s=1.0))
    assert len(ended) == 2
    gangs = {i.task.gang.id for i in run.state.instances_of("/a") if i.task and i.task.gang and i.task.id in ended}
    assert len(gangs) == 1
    for task_id in sorted(ended):
        run.do(status(task_id, "TASK_KILLED"))
    started(run)
    rest = old - ended
    assert rest <= set(run.state.kills), "the second gang goes once the first has been replaced"


def test_a_new_gang_that_loses_a_member_during_a_restart_starts_again_as_a_whole() -> None:
    run = subscribed(app("/a", gpus=1, **PAIR))
    old = set(started(run))
    run.do(RestartApp("/a", "d9", force=True), after_s=1.0)
    run.do(Offered(machines(2)))
    lost, left = sorted(set(run.tasks()) - old)
    run.do(status(left))
    run.do(status(lost, "TASK_UNREACHABLE"))
    assert left in run.state.kills
    run.do(status(left, "TASK_KILLED"))
    again = sorted(set(run.tasks()) - old) or infos(run.do(Offered(machines(2)), after_s=100.0))
    assert len(again) == 2
    for task_id in sorted(set(run.tasks()) - old):
        run.do(status(task_id))
    for task_id in sorted(old):
        run.do(status(task_id, "TASK_KILLED"))
    assert not list(run.state.deployments.values())


def test_a_run_of_a_job_is_a_gang_that_succeeds_when_all_have() -> None:
    run = subscribed()
    run.do(PutJob(job("train", gpus=1, gang={"size": 2})))
    for run_id, ends in (("A1", ["TASK_FINISHED", "TASK_FINISHED"]), ("B1", ["TASK_FINISHED", "TASK_FAILED"])):
        run.do(StartRun("train", run_id), after_s=1.0)
        tasks = started(run, app_id=f"/train/{run_id}")
        assert len(tasks) == 2
        for task_id, end in zip(tasks, ends, strict=True):
            assert run_id in run.state.jobs["train"].runs
            run.do(status(task_id, end))
    history = run.state.jobs["train"].history
    assert (history.successes, history.failures) == (1, 1)
    assert not run.state.instances


def test_a_run_that_may_start_again_does_so_as_a_whole() -> None:
    run = subscribed()
    run.do(PutJob(job("train", gpus=1, gang={"size": 2}, restart={"policy": "ON_FAILURE"})))
    run.do(StartRun("train", "A1"))
    one, other = started(run, app_id="/train/A1")
    assert kills(run.do(status(one, "TASK_FAILED"))) == {other}
    run.do(status(other, "TASK_KILLED"))
    again = started(run, app_id="/train/A1") or started(run, app_id="/train/A1")
    run.now_s += 4000
    again = started(run, app_id="/train/A1")
    assert len(again) == 2
    assert not {one, other} & set(again)


def test_a_task_that_has_run_for_as_long_as_it_may_is_ended() -> None:
    run = subscribed(app("/a", maxRuntimeSeconds=60))
    (task,) = started(run, 1)
    assert (next_tick_s(run.state, SHARED, run.moment) or 0) <= run.now_s + 60
    assert kills(run.do(Tick(), after_s=59.0)) == set()
    assert kills(run.do(Tick(), after_s=1.0)) == {task}
    run.do(status(task, "TASK_KILLED"))
    assert len(run.state.waiting) == 1, "an app starts again"

    run.do(PutJob(job("short", maxRuntimeSeconds=60, restart={"policy": "ON_FAILURE"})))
    run.do(StartRun("short", "A1"))
    (task,) = started(run, 1, app_id="/short/A1")
    run.do(Tick(), after_s=61.0)
    run.do(status(task, "TASK_KILLED"))
    assert run.state.jobs["short"].history.failures == 1


# The order of what waits


def test_more_priority_starts_first_and_who_has_waited_long_enough_before_it() -> None:
    run = subscribed(app("/low", gpus=2))
    run.put(app("/high", gpus=2, priority=1))
    assert {info["name"] for info in infos(run.do(Offered(machines(1))))} == {"high"}
    run = subscribed(app("/low", gpus=2))
    run.now_s += 601
    run.put(app("/high", gpus=2, priority=1))
    assert {info["name"] for info in infos(run.do(Offered(machines(1))))} == {"low"}


def test_what_cannot_delay_a_gang_starts_before_it_and_what_could_does_not() -> None:
    run = subscribed()
    run.do(PutJob(job("first", gpus=2, maxRuntimeSeconds=100)))
    run.do(StartRun("first", "A1"))
    started(run, 1, app_id="/first/A1")
    run.put(app("/gang", gpus=2, gang={"size": 2}))
    for name, limit in (("short", 60), ("long", 600)):
        run.do(PutJob(job(name, gpus=1, maxRuntimeSeconds=limit)), after_s=1.0)
        run.do(StartRun(name, "A1"))
    actions = run.do(Offered(machines(1, first=1)))
    assert {info["name"].split(".")[-1] for info in infos(actions)} == {"short"}
    order = {item["app"]["id"]: item["order"] for item in queue_view(run.state, run.moment)}
    assert order["/gang"]["startsBy"] > "2023"
    assert run.state.places["/long/A1"].behind == "/gang"


def test_preemptible_ones_give_way_with_notice_and_it_is_told_who_took_what(golden: Golden) -> None:
    run = subscribed(app("/cheap", gpus=1, instances=2, preemptible=True, taskKillGracePeriodSeconds=30))
    tasks = started(run, 1, app_id="/cheap")
    run.put(app("/dear", gpus=2, priority=5), force=True)
    assert kills(run.do(Tick(), after_s=1.0)) == set(), "what is free may still be offered"
    actions = run.do(Tick(), after_s=4.0)
    assert kills(actions) == set(tasks)
    events = [p.fields for p in only(actions, Publish) if p.kind == "instance_preempted_event"]
    assert {(e["appId"], e["takenBy"], e["takenByPriority"], e["graceSeconds"]) for e in events} == {
        ("/cheap", "/dear", 5, 30)
    }
    failure = app_view(run.state, run.state.app("/cheap"), ["lastTaskFailure"])["lastTaskFailure"]  # type: ignore[arg-type]
    assert failure["message"] == golden
    assert kills(run.do(Tick(), after_s=4.0)) == set(), "once is enough"
    for task_id in tasks:
        run.do(status(task_id, "TASK_KILLED"))
    assert {info["name"] for info in infos(run.do(Offered(machines(1)), after_s=1.0))} == {"dear"}
    assert not run.state.backoffs


def test_what_is_free_but_given_back_counts_when_others_give_way() -> None:
    run = subscribed(app("/cheap", gpus=1, instances=3, preemptible=True))
    tasks = started(run, 2, app_id="/cheap")
    assert len(tasks) == 3
    run.put(app("/gang", gpus=2, **PAIR))
    (half,) = {i.task.agent_id for i in run.state.instances_of("/cheap") if i.task} - {
        agent
        for agent in ("S0", "S1")
        if sum(i.task.agent_id == agent for i in run.state.instances_of("/cheap") if i.task) == 2
    }
    run.do(Offered([offer("O9", agent=half, host=f"h{half[1:]}", gpus=1)]), after_s=1.0)
    assert run.state.places["/gang"].at_s is None, "services are not waited for"
    run.put({"id": "/gang", "priority": 5}, force=True)
    asked = kills(run.do(Tick(), after_s=4.0)) | kills(run.do(Tick(), after_s=4.0))
    assert asked == set(tasks)


def test_when_nothing_waits_in_order_any_more_all_is_as_in_marathon() -> None:
    run = subscribed(app("/plain", gpus=8), app("/gang", gpus=2, gang={"size": 3}))
    run.do(Offered(machines(2)))
    assert run.state.ordered
    assert run.state.places
    run.do(RemoveApp("/gang", "d8"))
    run.do(Tick(), after_s=3.0)
    state = run.state
    assert (state.ordered, state.gathering, state.held, state.away, state.freed, state.places) == (
        *(False, False, (), (), ()),
        {},
    )
    run.do(Offered(machines(1)))
    assert run.state.waiting
    assert not run.state.ordered


def test_a_run_that_gave_way_waits_again_and_has_not_failed() -> None:
    run = subscribed()
    run.do(PutJob(job("cheap", gpus=2, preemptible=True)))
    run.do(StartRun("cheap", "A1"))
    (task,) = started(run, 1, app_id="/cheap/A1")
    run.put(app("/dear", gpus=2, priority=5))
    run.do(Tick(), after_s=4.0)
    run.do(status(task, "TASK_KILLED"))
    assert (list(run.state.jobs["cheap"].runs), len(run.state.waiting)) == (["A1"], 2)


# Rules


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"instances": 3, **PAIR}, "/instances"),
        ({"networks": [{"mode": "container/bridge"}], "container": {"type": "MESOS"}, **PAIR}, "/networks"),
        ({"gang": {"size": 1}}, "/gang/size"),
        ({"priority": 101}, "/priority"),
        ({"maxRuntimeSeconds": 0}, "/maxRuntimeSeconds"),
    ],
)
def test_what_cannot_be_is_refused(changes: Mapping[str, Any], path: str, golden: Golden) -> None:
    with pytest.raises(InvalidApp) as raised:
        read_app(app("/a", **changes), RULES)
    (problem,) = raised.value.problems
    assert problem.path == path
    assert problem.message == golden


def test_another_marathon_is_not_sent_what_it_would_drop(golden: Golden) -> None:
    rules = dataclasses.replace(RULES, gangs=False)
    with pytest.raises(InvalidApp) as refused:
        read_app(app("/a", priority=1, **PAIR), rules)
    assert str(refused.value) == golden
    read_app(app("/a"), rules)


def test_a_gang_of_which_nothing_else_is_said_is_one() -> None:
    assert read_app(app("/a", gang={"size": 4}), RULES)["instances"] == 4


def begin_again(run: Run) -> list[Action]:
    """Have another Marathon go on with what this one has kept."""
    run.state = restored(lasting_of([row for save in saves_of(run.state.lasting) for row in rows_of(save)]))
    return run.subscribe()


def test_a_marathon_that_starts_again_knows_its_gangs_and_what_it_had_begun_to_end() -> None:
    run = subscribed(app("/a", gpus=2, **PAIR))
    one, other = started(run)
    assert kills(begin_again(run)) == set()
    assert kills(run.do(status(one, "TASK_FAILED"))) == {other}
    assert kills(begin_again(run)) == {other}, "nobody else would end it: it is wanted, and runs"


SOME = {"cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": []}


def starts(cluster: Cluster, app_id: str, within_s: float) -> bool:
    """Whether all that there is to be of an app runs, so much later at the latest."""

    def running() -> bool:
        return all(i.phase is Phase.RUNNING for i in cluster.state.instances_of(app_id))

    until_s = cluster.now_s + within_s
    while cluster.now_s < until_s and not running():
        cluster.until(cluster.now_s + 1)
    return running()


@pytest.mark.parametrize("machines", [2, 3, 4, 5])
def test_it_starts_although_another_role_is_offered_some_of_the_machines(machines: int) -> None:
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(machines)})
    cluster.put({**SOME, "id": "/small", "role": "team"})
    gang = {"gang": {"size": machines}, "instances": machines, "gpus": 1, "role": "web"}
    cluster.put({**SOME, "id": "/web/gang", **gang})
    assert starts(cluster, "/web/gang", 60.0)
    assert len(cluster.state.instances_of("/web/gang")) == machines


def test_a_machine_stays_refused_in_the_role_that_waits_while_it_is_offered_in_another() -> None:
    # The gang's role refused m0 for two minutes, and is not offered it again when m1 comes back; the other role is.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.deactivate("m1")
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 1, "role": ROLE})
    cluster.until(cluster.now_s + 15)
    assert not starts(cluster, "/gang", 0.0)
    (m1,) = (machine.id for machine in cluster.scenario().machines if machine.host == "m1")
    cluster.order(ReactivateAgent(m1))
    assert starts(cluster, "/gang", 30.0)


def test_what_comes_free_of_a_machine_is_offered_with_what_was_free_there() -> None:
    # What /busy gives back comes in an offer of the other role, beside the offer of the rest that is held.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,) * 2) for at in range(2)})
    cluster.put({**SOME, "id": "/busy", "gpus": 2, "role": ROLE, "preemptible": True})
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 2, "role": ROLE, "priority": 1})
    assert starts(cluster, "/gang", 30.0)


def test_what_gave_way_does_not_start_again_on_what_it_gave() -> None:
    # What /web/busy gives back is offered in its own role, beside the offer of the rest that is held for the gang.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.put({**SOME, "id": "/web/busy", "role": "web", "cpus": 3, "instances": 2, "preemptible": True})
    assert starts(cluster, "/web/busy", 30.0)
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "cpus": 3, "role": ROLE, "priority": 1})
    assert starts(cluster, "/gang", 30.0)


def test_machines_of_one_value_that_were_refused_at_different_times_come_together() -> None:
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,), "a100" if at < 2 else "t4") for at in range(4)})
    cluster.put({**SOME, "id": "/busy", "cpus": 3, "constraints": [["hostname", "IS", "m0"]], "role": ROLE})
    cluster.put({**SOME, "id": "/other", "cpus": 3, "constraints": [["hostname", "IS", "m2"]], "role": ROLE})
    gang = {"gang": {"size": 2}, "cpus": 3, "constraints": [["gpu_model", "CLUSTER"]], "role": ROLE}
    cluster.put({**SOME, "id": "/gang", **gang})
    cluster.until(cluster.now_s + 30)
    assert not starts(cluster, "/gang", 0.0)
    (task,) = (i.task for i in cluster.state.instances_of("/busy") if i.task is not None)
    cluster.ask(KillTasks([task.id], "D", scale=True, force=True))
    assert starts(cluster, "/gang", 30.0)


def test_offers_are_not_asked_for_again_and_again_while_a_quota_is_short() -> None:
    # Each of the machines would do for a member, and the quota lets the role have one of them at a time.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.limit(ROLE, {"gpus": 1000})
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 1, "role": ROLE})
    cluster.until(cluster.now_s + 60)
    revived: set[float] = set()
    until_s = cluster.now_s + 300
    while cluster.now_s < until_s:
        cluster.until(cluster.now_s + 1)
        revived.add(cluster.state.revived_s)
    assert len(revived) <= 11
    cluster.limit(ROLE, {"gpus": 2000})
    assert starts(cluster, "/gang", 60.0)


def found(run: Run) -> list[dict[str, Any]]:
    return [entry for deployment in run.state.lasting.deployments.values() for entry in blockers(run.state, deployment)]


@pytest.fixture
def full() -> Run:
    """Two instances hold both GPUs there are, and a new version is on its way with the default strategy."""
    run = Run()
    run.subscribe()
    run.put(app(instances=2, gpus=1))
    run.run_all()
    run.put({"id": "/a", "labels": {"x": "y"}})
    return run


def test_an_upgrade_that_waits_for_its_own_gpus_is_named(full: Run, golden: Golden) -> None:
    full.offer(gpus=0)
    (entry,) = found(full)
    assert entry["app"] == "/a"
    assert (entry["waitingInstances"], entry["gpusPerInstance"], entry["gpusHeldByOldInstances"]) == (2, 1, 2)
    assert entry["message"] == golden


def test_a_full_cluster_makes_no_offers_and_is_named_too(full: Run) -> None:
    assert len(found(full)) == 1


def test_what_is_suggested_lets_it_end(full: Run) -> None:
    (entry,) = found(full)
    actions = full.put({"id": "/a", **entry["suggestion"]}, force=True)
    (killed,) = only(actions, Kill)
    assert not found(full), "somebody is being ended: it continues"
    full.do(status(killed.task_id, "TASK_KILLED"))
    full.run_all()
    for kill in only(full.do(status(full.tasks()[0])), Kill):
        full.do(status(kill.task_id, "TASK_KILLED"))
    for _ in range(4):
        for task in [i.task for i in full.state.lasting.instances.values() if i.task and not i.wanted]:
            full.do(status(task.id, "TASK_KILLED"))
        full.run_all()
    assert not full.state.lasting.deployments


def test_free_gpus_elsewhere_that_do_not_fit_for_another_reason_are_no_deadlock(full: Run) -> None:
    full.offer(gpus=4, cpus=0.01)
    assert found(full) == []


def test_an_upgrade_that_moves_is_not_accused(full: Run) -> None:
    full.offer(gpus=2)
    assert found(full) == []


def test_an_app_without_gpus_or_a_first_deployment_is_not_accused() -> None:
    run = Run()
    run.subscribe()
    run.put(app("/first", gpus=4))
    run.put(app("/cpu"))
    assert found(run) == []


def test_free_gpus_where_the_app_may_not_go_are_none() -> None:
    run = Run()
    run.subscribe()
    old = app(instances=2, gpus=1, constraints=[["rack", "IS", "1"]])
    run.put(old)
    run.offer(gpus=2, attributes={"rack": "1"})
    for task_id in run.tasks():
        run.do(status(task_id))
    run.put({"id": "/a", "labels": {"x": "y"}})
    run.offer(gpus=4, agent="S1", host="h1", attributes={"rack": "2"})
    (entry,) = found(run)
    assert entry["gpusHeldByOldInstances"] == 2
    run.offer(gpus=4, agent="S2", host="h2", cpus=0.01, attributes={"rack": "1"})
    assert found(run) == [], "there are GPUs where it may go"


def test_old_instances_where_new_ones_may_not_go_hold_nothing_that_is_missing(full: Run) -> None:
    full.offer(gpus=0)
    assert len(found(full)) == 1
    full.put({"id": "/a", "constraints": [["gpu_model", "IS", "another"]]}, force=True)
    assert found(full) == []
