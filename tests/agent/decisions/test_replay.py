"""A killed agent's next process: from the log back to where every task stood, whatever the moment."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.agent.decisions.adopting import adopt_task, adopted
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.replay import Run, replay
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Fate, Phase
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.tasks import is_terminal
from tests.support.agent.decided import connected
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, at, framework, key, new_state, run, task
from tests.support.histories import examples

UNSURE = (Phase.LAUNCHING, Phase.CANCELLED)
INFO = framework(*ALL_CAPABILITIES)


def record(state: str, uuid: str, timestamp: float = 0.0) -> dict[str, Any]:
    return {"type": "UPDATE", "status": {"state": state, "uuid": uuid, "timestamp": timestamp}}


def replayed(*records: dict[str, Any], **more: Any) -> Any:
    return replay(Run(FRAMEWORK_ID, "c0", task(**more), records), "/sandbox", at(0.0))


def test_a_run_without_records_was_being_launched() -> None:
    stood, pending = replayed()
    assert (stood.phase, stood.state, pending) == (Phase.LAUNCHING, "TASK_STAGING", [])


def test_acknowledged_updates_are_not_pending_and_the_rest_is_in_order() -> None:
    stood, pending = replayed(record("TASK_STARTING", "1"), record("TASK_RUNNING", "2"), {"type": "ACK", "uuid": "1"})
    assert stood.phase is Phase.RUNNING
    assert [status["uuid"] for status in pending] == ["2"]


def test_a_kill_that_was_asked_for_is_remembered() -> None:
    stood, _ = replayed(record("TASK_RUNNING", "1"), {"type": "KILL", "fate": "killed", "reason": None})
    assert (stood.phase, stood.fate) == (Phase.ENDING, Fate.KILLED)
    stood, _ = replayed(record("TASK_STARTING", "1"), {"type": "KILL", "fate": "killed", "reason": None})
    assert stood.phase is Phase.CANCELLED


def kill_asked(ago_s: float, grace_s: float) -> dict[str, Any]:
    return {"type": "KILL", "fate": "killed", "reason": None, "grace_s": grace_s, "grace_ends_s": grace_s - ago_s}


def grace_after_restart(*kills: dict[str, Any]) -> float:
    stood, pending = replayed(record("TASK_RUNNING", "1"), *kills)
    (kill,) = (
        one for one in adopt_task(new_state(), Framework(INFO), stood, pending, at(0.0)) if isinstance(one, act.Kill)
    )
    return kill.grace_s


def test_a_task_that_was_asked_to_end_has_what_is_left_of_its_grace() -> None:
    assert grace_after_restart(kill_asked(10.0, 36.0)) == 26.0
    assert grace_after_restart(kill_asked(40.0, 36.0)) == 0.0
    assert grace_after_restart(kill_asked(10.0, 36.0), kill_asked(4.0, 9.0)) == 5.0
    assert grace_after_restart(kill_asked(-86400.0, 36.0)) == 36.0, "the record is of an earlier boot"
    assert grace_after_restart({"type": "KILL", "fate": "killed", "reason": None}) == 3.0, "of an older agent"


def test_asked_again_after_a_restart_a_task_gets_no_more_time() -> None:
    state = connected()
    patient = {"kill_policy": {"grace_period": {"nanoseconds": 36_000_000_000}}}
    handle(state, run(task(**patient)), at(0.0))
    handle(state, ev.Launched(key(), 1), at(0.0))
    logged = [one.record for one in handle(state, ev.KillTask(key()), at(0.0)) if isinstance(one, act.Log)]
    stood, pending = replayed(record("TASK_RUNNING", "1"), *(one for one in logged if one["type"] == "KILL"), **patient)
    after = new_state()
    adopt_task(after, Framework(INFO), stood, pending, at(0.0))
    assert [one for one in handle(after, ev.KillTask(key()), at(1.0)) if isinstance(one, act.Kill)] == []
    (sooner,) = (one for one in handle(after, ev.KillTask(key(), 5.0), at(1.0)) if isinstance(one, act.Kill))
    assert sooner.grace_s == 5.0


def test_a_clock_that_was_set_back_does_not_give_a_task_more_than_its_time() -> None:
    since = at(0.0).wall_s + 86400.0
    stood, _ = replayed(record("TASK_RUNNING", "1", since), max_completion_time={"nanoseconds": 30_000_000_000})
    assert stood.deadline_s == 30.0


def test_time_runs_on_while_the_agent_is_away() -> None:
    since = at(0.0).wall_s - 25.0
    stood, _ = replayed(record("TASK_RUNNING", "1", since), max_completion_time={"nanoseconds": 30_000_000_000})
    assert stood.deadline_s == 5.0


def test_a_second_word_about_a_running_task_does_not_wind_its_clock_up_again() -> None:
    since = at(0.0).wall_s - 25.0
    records = (record("TASK_RUNNING", "1", since), record("TASK_RUNNING", "2", since + 20.0))
    stood, _ = replayed(*records, max_completion_time={"nanoseconds": 30_000_000_000})
    assert stood.deadline_s == 5.0


def test_why_a_task_had_to_end_is_remembered() -> None:
    kill = {"type": "KILL", "fate": "gpu_ill", "reason": None, "why": "GPU 0 is unhealthy"}
    stood, _ = replayed(record("TASK_RUNNING", "1"), kill)
    assert (stood.phase, stood.fate, stood.why) == (Phase.ENDING, Fate.GPU_ILL, "GPU 0 is unhealthy")


class World:
    """An agent's state with its disk and its containers; `die` kills the agent at that very moment."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.saved = False
        self.closed = False
        self.container: str | None = None  # None, running, or how it ended
        self.delivered: list[dict[str, Any]] = []
        self.processes = 0
        self.state: AgentState = new_state()
        self.now = 0.0
        self.act(ev.Registered())

    def act(self, event: ev.Event, *, dies_after: int | None = None) -> bool:
        """Handle an event; carry out its actions, or only the first `dies_after`. Tell whether all were."""
        self.now += 1.0
        return self.perform(handle(self.state, event, at(self.now)), dies_after)

    def perform(self, actions: list[act.Action], dies_after: int | None = None) -> bool:
        for number, action in enumerate(actions):
            if number == dies_after:
                return False
            match action:
                case act.SaveTask():
                    self.saved = True
                case act.Log():
                    self.records.append(action.record)
                case act.Launch():
                    assert self.saved, "launched before it was written down"
                    assert self.container is None, "launched twice"
                    self.container = "running"
                case act.Kill() if self.container == "running":
                    self.container = "killed"
                case Forward():
                    logged = [r["status"]["uuid"] for r in self.records if r["type"] == "UPDATE"]
                    assert action.status["uuid"] in logged, "sent before it was logged"
                    if action.status not in self.delivered:
                        self.delivered.append(action.status)
                case act.Close():
                    self.closed = True
                case _:
                    pass
        return True

    def die(self) -> None:
        """Kill the agent and start its next process."""
        self.processes += 1
        self.state = new_state(1000 * self.processes)
        if self.saved:
            stood, pending = replay(
                Run(FRAMEWORK_ID, "c0", task(), tuple(self.records), self.closed), "/s", at(self.now)
            )
            if not self.closed:
                self.perform(adopt_task(self.state, Framework(INFO), stood, pending, at(0.0)))
                adopted(self.state)
                if stood.phase in UNSURE and self.container == "running":
                    self.act(ev.Launched(key(), None))
        self.act(ev.Registered())

    @property
    def phase(self) -> Phase | None:
        known = self.state.frameworks.task(key())
        return None if known is None else known.phase


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["launched", "kill", "ill", "too ill", "end", "ack", "retry", "die"]),
        st.sampled_from([None, 0, 1, 2]),
    ),
    max_size=30,
)
ILL = "GPU 0 is unhealthy"


@settings(max_examples=examples(300))
@given(st.sampled_from([None, 1, 2, 3, 4]), STEPS)
def test_killed_at_any_moment_no_status_is_lost_and_the_task_ends_once(
    launch_dies_after: int | None, steps: list[tuple[str, int | None]]
) -> None:
    world = World()
    if not world.act(run(info=INFO), dies_after=launch_dies_after):
        world.die()
    if not world.saved:
        return
    for step, dies_after in [*steps, *FINALLY]:
        survived = True
        if step == "launched" and world.phase in UNSURE and world.container == "running":
            survived = world.act(ev.Launched(key(), 42), dies_after=dies_after)
        elif step == "launched" and world.phase in UNSURE and world.container is None:
            survived = world.act(ev.Vanished(key(), rebooted=False), dies_after=dies_after)
        elif step == "kill":
            survived = world.act(ev.KillTask(key()), dies_after=dies_after)
        elif step in ("ill", "too ill"):
            survived = world.act(ev.GpuIll(key(), ILL, kill=step == "too ill"), dies_after=dies_after)
        elif step == "end" and world.phase not in (None, Phase.OVER, Phase.LAUNCHING, Phase.CANCELLED):
            world.container = "ended"
            survived = world.act(ev.Ended(key(), Termination(exit_code=0)), dies_after=dies_after)
        elif step == "end" and world.phase is Phase.CANCELLED and world.container == "killed":
            survived = world.act(ev.Ended(key(), Termination(signal=9)), dies_after=dies_after)
        elif step == "ack" and (pending := world.state.streams.pending(key())):
            survived = world.act(ev.Acknowledged(key(), pending[0]["uuid"]), dies_after=dies_after)
        elif step == "retry":
            world.now += 1000.0
            survived = world.act(ev.Tick(), dies_after=dies_after)
        elif step == "die":
            survived = False
        if not survived:
            world.die()
    logged = [r["status"] for r in world.records if r["type"] == "UPDATE"]
    assert world.delivered == logged, "every logged update is delivered, in order, and nothing else"
    ends = [status for status in logged if is_terminal(status["state"])]
    assert len(ends) == 1
    assert logged[-1] is ends[0]
    assert world.closed
    assert world.state.frameworks.task(key()) is None
    assert sum(status.get("message") == ILL for status in logged if status is not ends[0]) <= 1
    fates = {r["fate"] for r in world.records if r["type"] == "KILL"}
    assert len(fates) <= 1
    if fates == {"gpu_ill"}:
        assert (ends[0]["state"], ends[0]["message"]) == ("TASK_FAILED", ILL)
    elif fates:
        assert ends[0]["state"] == "TASK_KILLED" or world.container == "ended"


# Whatever happened, in the end the container ends and everything is acknowledged.
FINALLY: list[tuple[str, int | None]] = [
    *[("launched", None), ("kill", None), ("launched", None), ("end", None)],
    *[("ack", None)] * 8,
    ("die", None),
]
