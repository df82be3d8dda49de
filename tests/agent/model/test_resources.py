"""The agent's total and attributes from flags and facts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.model.device_units import is_units, refusal, stale_units, units_of, with_units
from mesos_gpu.agent.model.executors import NEXT_STAGE, IllegalTurn, Stage, Turn, next_stage
from mesos_gpu.agent.model.resources import (
    Machine,
    agent_resources,
    attributes_summary,
    changes,
    gpus_asked,
    parse_attributes,
    with_gpus,
)
from mesos_gpu.agent.model.updates import RETRY_MAX_S, RETRY_MIN_S, TaskKey, UpdateStreams
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden

BIG = Machine(cpus=8, mem_mib=32768, disk_mib=100_000)
SMALL = Machine(cpus=1, mem_mib=1500, disk_mib=8000)


def test_a_big_machine_keeps_a_gib_of_memory_and_five_of_disk() -> None:
    total = agent_resources(None, "*", BIG, 4)
    assert str(total) == "cpus:8; gpus:4; mem:31744; disk:94880; ports:[31000-32000]"


def test_a_small_machine_offers_half() -> None:
    total = agent_resources(None, "*", SMALL, 0)
    assert (total.value("mem"), total.value("disk"), total.gpus) == (750, 4000, 0)


def test_what_the_flag_names_is_not_detected_even_when_it_is_nothing() -> None:
    total = agent_resources("cpus:2;mem:0;ports:[1-2]", "*", BIG, None)
    assert (total.value("cpus"), total.value("mem"), total.ports, total.value("disk")) == (2, 0, ((1, 2),), 94880)


def test_json_resources_mean_the_same_as_text() -> None:
    text = '[{"name":"cpus","type":"SCALAR","scalar":{"value":2}},{"name":"mem","type":"SCALAR","scalar":{"value":64}}]'
    assert agent_resources(text, "*", BIG, 1) == agent_resources("cpus:2;mem:64", "*", BIG, 1)


@pytest.mark.parametrize("kind", ["MOUNT", "PATH"])
def test_a_disk_of_its_own_is_refused_before_anybody_keeps_data_on_another(kind: str, golden: Golden) -> None:
    source = {"type": kind, kind.lower(): {"root": "/fast"}}
    text = [{"name": "disk", "type": "SCALAR", "scalar": {"value": 10}, "disk": {"source": source}}]
    with pytest.raises(BadFlag) as refused:
        agent_resources(json.dumps(text), "*", SMALL, 0)
    assert str(refused.value) == golden


def test_detected_resources_belong_to_the_default_role() -> None:
    total = agent_resources("cpus(ml):2", "gpu", BIG, 2)
    assert total.reserved_roles() == ("gpu", "ml")
    assert total.reserved("gpu").gpus == 2


def test_gpus_of_a_text_pass_untouched_when_they_are_not_isolated() -> None:
    assert agent_resources("gpus:100", "*", BIG, None).gpus == 100


def test_gpus_that_vanished_are_taken_from_the_end_of_the_text() -> None:
    total = agent_resources("gpus(ml):1;gpus:2", "*", BIG, 2)
    assert (total.reserved("ml").gpus, total.unreserved().gpus) == (1, 1)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (None, None),
        ("cpus:1", None),
        ("mygpus:3", None),
        ("gpus:2", 2),
        ("gpus:0", 0),
        ("gpus(ml):1;gpus:1", 2),
        ('[{"name":"gpus","type":"SCALAR","scalar":{"value":3}}]', 3),
    ],
)
def test_how_many_gpus_a_text_asks_for(text: str | None, asked: int | None) -> None:
    assert gpus_asked(text) == asked


@pytest.mark.parametrize("text", ["gpus:0.5", "gpus:x", "gpus", "[{"])
def test_unusable_gpus_are_refused(text: str) -> None:
    with pytest.raises(BadFlag, match="resources"):
        gpus_asked(text)


def test_attributes_are_text_numbers_or_ranges() -> None:
    attributes = parse_attributes("gpu_model:stub;rack:r1;level:10;keys:[1-5,7-8]")
    assert attributes[0] == {"name": "gpu_model", "type": "TEXT", "text": {"value": "stub"}}
    assert attributes_summary(attributes) == {
        "gpu_model": "stub",
        "rack": "r1",
        "level": 10.0,
        "keys": "[1-5, 7-8]",
    }


@pytest.mark.parametrize("text", ["rack", ":x", "rack:", "k:[5-1]", "k:[a-b]"])
def test_unusable_attributes_are_refused(text: str) -> None:
    with pytest.raises(BadFlag, match="attributes"):
        parse_attributes(text)


def info(resources: str, **more: object) -> dict[str, object]:
    total = agent_resources(resources, "*", BIG, None)
    return {"hostname": "h", "port": 5051, "resources": total.to_json(), **more}


def test_gpus_that_are_not_to_be_offered_leave_the_other_resources_alone() -> None:
    total = Resources.parse("cpus:2;gpus(a):2;gpus(b):2;mem:10")
    less = with_gpus(total, 3, Resources())
    assert str(less) == str(Resources.parse("cpus:2;gpus(a):2;gpus(b):1;mem:10"))
    assert with_gpus(total, 4, Resources()) is total
    assert with_gpus(total, 0, Resources()).gpus == 0


def test_gpus_that_the_master_reserved_are_kept_for_a_master_ends_an_agent_without_them() -> None:
    total = Resources.parse("cpus:2;gpus(a):2;gpus(b):2")
    kept = Resources.parse("gpus(b):1")
    assert with_gpus(total, 0, kept).gpus == 1
    assert with_gpus(total, 0, kept).contains(kept)
    assert with_gpus(total, 2, kept).contains(kept)


def test_a_changed_agent_is_told_what_changed() -> None:
    before, now = info("cpus:2;gpus:4"), info("cpus:1;gpus:4", hostname="other")
    found = changes(before, now)
    assert len(found) == 2
    assert "hostname was 'h'" in found[0]
    assert "cpus:2" in found[1]


def test_a_vanished_gpu_is_no_change() -> None:
    assert changes(info("cpus:2;gpus:4"), info("cpus:2;gpus:3")) == []


def test_additive_lets_resources_and_attributes_grow_but_not_shrink() -> None:
    less, more = info("cpus:2"), info("cpus:3", attributes=parse_attributes("a:b"))
    assert changes(less, more)
    assert changes(less, more, "additive") == []
    assert changes(more, less, "additive")


X = "example.com/x"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [(X, True), ("nvidia.com/mig-1g.5gb", True), ("gpus", False), ("/x", False), ("x/", False), ("a/b/c", False)],
)
def test_extended_resources_have_a_domain(name: str, is_one: bool) -> None:
    assert is_units(name) is is_one


def test_units_are_counted_by_resource_and_gpus_where_they_come_from_a_plugin() -> None:
    resources = Resources.parse(f"cpus:1;gpus:2;{X}:3")
    assert units_of(resources) == {X: 3}
    assert units_of(resources, "nvidia.com/gpu") == {X: 3, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("resources", "running", "refused"),
    [
        (f"cpus:1;{X}:1", False, ""),
        (f"cpus:1;{X}:0.5", False, X),
        (f"cpus:1;{X}:1", True, X),
        ("cpus:1;gpus:1", True, "nvidia.com/gpu"),
        ("cpus:1", True, ""),
    ],
)
def test_a_task_gets_whole_devices_and_none_late(resources: str, running: bool, refused: str) -> None:
    info = {"resources": Resources.parse(resources).to_json()}
    problem = refusal(info, "nvidia.com/gpu", running=running)
    assert refused in problem if problem else not refused


def test_an_agent_has_units_beside_its_own_and_what_is_reserved_of_them_stays() -> None:
    own, nothing = Resources.parse("cpus:4;mem:1024"), Resources()
    total = with_units(own, {X: 2, "nvidia.com/gpu": 3}, nothing, "nvidia.com/gpu")
    assert (total.value(X), total.gpus, total.value("cpus")) == (2, 3, 4)
    kept = Resources.parse(f"{X}(ml):3")
    assert with_units(own, {X: 2}, kept, None).value(X) == 3
    assert with_units(own, {}, kept, None).value(X) == 3
    assert with_units(own, {X: 0}, nothing, None) == own


def test_units_that_a_task_left_in_its_executor_are_counted() -> None:
    executor, live = ({"resources": Resources.parse(text).to_json()} for text in (f"cpus:1;{X}:1", f"{X}:1;gpus:1"))
    held = {X: ["a", "b", "c"], "nvidia.com/gpu": ["g"]}
    assert stale_units(held, [executor, live], "nvidia.com/gpu") == {X: 1}
    assert stale_units(held, [executor], "nvidia.com/gpu") == {X: 2, "nvidia.com/gpu": 1}
    assert stale_units({X: ["a"]}, [executor], None) == {}


KEY = TaskKey("f", "t")


def update(state: str, uuid: str) -> dict[str, object]:
    return {"state": state, "uuid": uuid}


def connected() -> UpdateStreams:
    streams = UpdateStreams()
    assert streams.resume(0.0) == []
    return streams


def test_the_first_update_is_sent_at_once_and_the_second_waits_for_the_acknowledgement() -> None:
    streams = connected()
    assert [s.status["uuid"] for s in streams.add(KEY, update("TASK_STARTING", "1"), 0.0)] == ["1"]
    assert streams.add(KEY, update("TASK_RUNNING", "2"), 1.0) == []
    sends, done = streams.acknowledge(KEY, "1", 2.0)
    assert [s.status["uuid"] for s in sends] == ["2"]
    assert not done


def test_a_waiting_head_says_the_latest_state() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    streams.add(KEY, update("TASK_RUNNING", "2"), 0.0)
    streams.add(KEY, update("TASK_FINISHED", "3"), 0.0)
    (again,) = streams.retry(RETRY_MIN_S)
    assert (again.status["state"], again.latest_state) == ("TASK_STARTING", "TASK_FINISHED")


def test_an_update_without_acknowledgement_is_sent_again_after_10_s_doubling_to_10_minutes() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    waits = []
    now = 0.0
    for _ in range(9):
        due = streams.next_due_s
        assert due is not None
        assert streams.retry(due - 0.001) == []
        (again,) = streams.retry(due)
        assert again.status["uuid"] == "1"
        waits.append(due - now)
        now = due
    assert waits[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(waits[7:]) == {RETRY_MAX_S}


def test_an_acknowledgement_of_another_uuid_changes_nothing() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    assert streams.acknowledge(KEY, "other", 1.0) == ([], False)
    assert streams.acknowledge(TaskKey("f", "unknown"), "1", 1.0) == ([], False)
    assert streams.pending(KEY) == (update("TASK_STARTING", "1"),)


def test_the_stream_is_done_when_the_terminal_update_is_acknowledged() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_FINISHED", "1"), 0.0)
    assert streams.add(KEY, update("TASK_RUNNING", "2"), 0.0) == []
    assert streams.acknowledge(KEY, "1", 1.0) == ([], True)
    assert KEY not in streams
    assert streams.next_due_s is None


def test_nothing_leaves_while_there_is_no_master_and_everything_outstanding_when_it_is_back() -> None:
    streams = connected()
    streams.pause()
    assert streams.add(KEY, update("TASK_STARTING", "1"), 0.0) == []
    assert streams.next_due_s is None
    assert streams.retry(1e9) == []
    assert [s.status["uuid"] for s in streams.resume(5.0)] == ["1"]
    assert streams.next_due_s == 15.0


def test_only_one_framework_is_resent_when_its_scheduler_comes_back() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    streams.add(TaskKey("g", "t"), update("TASK_STARTING", "2"), 0.0)
    assert [s.status["uuid"] for s in streams.resend("g", 1.0)] == ["2"]


STEPS = st.lists(
    st.sampled_from(["add", "ack", "stale", "retry", "lose", "pause", "resume", "die"]), min_size=1, max_size=80
)


@given(STEPS)
@pytest.mark.timeout(60)
def test_any_history_delivers_every_update_in_order_as_logged(steps: list[str]) -> None:
    """The log is what the caller keeps; `die` rebuilds the streams from it, as a killed agent's next process does."""
    streams, now = connected(), 0.0
    log: list[dict[str, object]] = []
    acknowledged: list[str] = []
    first_seen: list[str] = []

    def deliver(sends: list[object]) -> None:
        for send in sends:
            uuid = send.status["uuid"]  # type: ignore[attr-defined]
            assert uuid == log[len(acknowledged)]["uuid"], "only the oldest unacknowledged update may be sent"
            if uuid not in first_seen:
                first_seen.append(uuid)

    for step in steps:
        now += 7.0
        if step == "add":
            status = update("TASK_RUNNING", f"u{len(log)}")
            log.append(status)
            deliver(list(streams.add(KEY, status, now)))
        elif step == "ack" and len(acknowledged) < len(first_seen):
            uuid = first_seen[len(acknowledged)]
            assert streams.expects(KEY, uuid)
            acknowledged.append(uuid)
            deliver(list(streams.acknowledge(KEY, uuid, now)[0]))
        elif step == "stale" and acknowledged:
            assert streams.acknowledge(KEY, acknowledged[-1], now) == ([], False)
        elif step == "retry":
            deliver(list(streams.retry(now)))
        elif step == "pause":
            streams.pause()
        elif step == "resume":
            deliver(list(streams.resume(now)))
        elif step == "die":
            streams = UpdateStreams()
            if log:
                streams.restore(KEY, log[len(acknowledged) :], str(log[-1]["state"]))
    deliver(list(streams.resume(now)))
    while len(acknowledged) < len(log):
        uuid = first_seen[len(acknowledged)]
        acknowledged.append(uuid)
        deliver(list(streams.acknowledge(KEY, uuid, now)[0]))
    assert first_seen == [status["uuid"] for status in log]


@pytest.mark.parametrize(("stage", "turn"), list(itertools.product(Stage, Turn)))
def test_every_pair_is_in_the_table_or_refused(stage: Stage, turn: Turn) -> None:
    if (stage, turn) in NEXT_STAGE:
        assert next_stage(stage, turn) is NEXT_STAGE[stage, turn]
    else:
        with pytest.raises(IllegalTurn, match=turn.value):
            next_stage(stage, turn)


def test_what_ends_never_begins_again() -> None:
    for (stage, _), after in NEXT_STAGE.items():
        if stage in (Stage.TERMINATING, Stage.TERMINATED):
            assert after in (Stage.TERMINATING, Stage.TERMINATED)
    assert {after for (stage, turn), after in NEXT_STAGE.items() if turn is Turn.ENDED} == {Stage.TERMINATED}
