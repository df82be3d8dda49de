"""What is written down is found again, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints, read_log
from mesos_gpu.agent.disk.recovery import Recovered, recover
from mesos_gpu.agent.disk.syncing import Syncing
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.errors import Conflict, Unavailable
from mesos_gpu.mesos.ids import ExecutorId
from mesos_gpu.mesos.messages import encode
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, framework, key, task
from tests.support.golden import Golden

BOOT = "boot-1"
INFO = {"hostname": "h", "port": 5051, "id": {"value": AGENT_ID}}


@pytest.fixture
def checkpoints(tmp_path: Path) -> AgentCheckpoints:
    made = AgentCheckpoints(tmp_path)
    made.open()
    made.save_boot_id(BOOT)
    made.save_agent(INFO)
    return made


def recovered(checkpoints: AgentCheckpoints, boot: str = BOOT) -> Recovered:
    return recover(AgentCheckpoints(checkpoints.work_dir), boot)


def test_an_empty_folder_has_no_agent(tmp_path: Path) -> None:
    made = AgentCheckpoints(tmp_path)
    made.open()
    assert recover(made, BOOT) == Recovered()


def test_the_layout_is_that_of_mesos(checkpoints: AgentCheckpoints, tmp_path: Path) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.log(key(), "c1", {"type": "ACK", "uuid": "x"})
    checkpoints.close_run(key(), "c1")
    meta = tmp_path / "meta"
    agent = meta / "slaves" / AGENT_ID
    run = agent / "frameworks" / FRAMEWORK_ID / "executors" / "t1" / "runs" / "c1"
    for path in (
        meta / "boot_id",
        meta / "slaves" / "latest" / "slave.info",
        agent / "frameworks" / FRAMEWORK_ID / "framework.info",
        run / "tasks" / "t1" / "task.info",
        run / "tasks" / "t1" / "task.updates",
        run / "executor.sentinel",
    ):
        assert path.is_file(), path
    assert (run.parent / "latest").resolve() == run


def test_the_folders_around_an_agents_id_are_synced(
    checkpoints: AgentCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("mesos_gpu.agent.disk.checkpoints.sync_folder", synced.append)
    checkpoints.save_agent(INFO)
    assert {checkpoints.meta, checkpoints.meta / "slaves"} <= set(synced)


def test_everything_written_is_found(checkpoints: AgentCheckpoints) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.log(key(), "c1", {"type": "ACK", "uuid": "x"})
    checkpoints.save_holdings([{"name": "gpus"}], [{"uuid": "u"}])
    checkpoints.save_drain({"gone": True})
    found = recovered(checkpoints)
    assert found.agent == INFO
    assert not found.rebooted
    assert found.frameworks == {FRAMEWORK_ID: framework()}
    assert [(run.container_id, run.task_info, run.records, run.complete) for run in found.runs] == [
        ("c1", task(), ({"type": "ACK", "uuid": "x"},), False)
    ]
    assert found.resources == ({"name": "gpus"},)
    assert found.operations == ({"uuid": "u"},)
    assert found.drain == {"gone": True}


def test_what_the_last_process_may_not_have_synced_is_by_this_one(
    checkpoints: AgentCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been killed before; a folder that is there already is no new one to whoever writes into it next."""
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.log(key(), "c1", {"type": "ACK", "uuid": "x"})
    again, wrote = AgentCheckpoints(checkpoints.work_dir), set[Path]()
    monkeypatch.setattr(again.syncing, "wrote", lambda *paths: wrote.update(paths))
    recover(again, BOOT)
    frameworks = again.meta / "slaves" / AGENT_ID / "frameworks"
    log = frameworks / FRAMEWORK_ID / "executors" / "t1" / "runs" / "c1" / "tasks" / "t1" / "task.updates"
    around = [folder for folder in log.parents if frameworks in (folder, *folder.parents)]
    assert wrote == {log, log.with_name("task.info"), *around}


def test_that_runs_are_over_goes_with_the_next_sync(
    checkpoints: AgentCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut hours later would else bring back tasks of which nobody wants to hear any more."""
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    for name in ("t1", "t2"):
        checkpoints.save_task(key(name), "c1", task(name))
    wrote = set[Path]()
    monkeypatch.setattr(checkpoints.syncing, "wrote", lambda *paths: wrote.update(paths))
    checkpoints.close_run(key("t1"), "c1")
    executors = checkpoints.meta / "slaves" / AGENT_ID / "frameworks" / FRAMEWORK_ID / "executors"
    assert wrote == {executors / "t1" / "runs" / "c1"}
    checkpoints.close_runs(FRAMEWORK_ID)
    # `latest` is a link to the run: what is synced by that name is the run's own folder.
    assert wrote - {executors / "t1" / "runs" / "c1"} == {executors / name / "runs" / "latest" for name in ("t1", "t2")}


def test_another_boot_is_noticed_and_that_something_may_be_lost_by_the_processes_after_it(
    checkpoints: AgentCheckpoints,
) -> None:
    assert not recovered(checkpoints).doubt
    found = recovered(checkpoints, "boot-2")
    assert (found.rebooted, found.doubt) == (True, True)
    checkpoints.save_boot_id("boot-2")
    found = recovered(checkpoints, "boot-2")
    assert not found.rebooted
    assert found.doubt, "the one before may have been killed before it said so"
    checkpoints.save_doubt(doubt=False)
    assert not recovered(checkpoints, "boot-2").doubt
    checkpoints.save_doubt(doubt=False)


def test_tasks_whose_executor_was_lost_with_the_power_are_its_own_all_the_same(checkpoints: AgentCheckpoints) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task(), ExecutorId("pod"))
    ((run,), runs) = (recovered(checkpoints).executors, recovered(checkpoints).runs)
    assert (run.info["executor_id"]["value"], [one.task_info for one in run.tasks], runs) == ("pod", [task()], ())
    again = AgentCheckpoints(checkpoints.work_dir)
    again.open()
    recover(again, BOOT)
    again.log(key(), run.container_id, {"type": "ACK", "uuid": "x"}, ExecutorId(run.info["executor_id"]["value"]))
    assert recovered(checkpoints).executors[0].tasks[0].records == ({"type": "ACK", "uuid": "x"},)


def test_only_the_latest_run_of_an_executor_counts(checkpoints: AgentCheckpoints) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.close_run(key(), "c1")
    checkpoints.save_task(key(), "c2", task())
    assert [(run.container_id, run.complete) for run in recovered(checkpoints).runs] == [("c2", False)]


def test_an_agent_that_was_told_to_go_leaves_nothing_to_take_up(checkpoints: AgentCheckpoints) -> None:
    checkpoints.forget_agent()
    assert recovered(checkpoints) == Recovered()


def test_a_record_cut_short_is_cut_off_and_writing_goes_on_after_it(
    checkpoints: AgentCheckpoints, tmp_path: Path
) -> None:
    log = tmp_path / "task.updates"
    whole = b'{"type":"ACK","uuid":"1"}\n'
    damage = (
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"{}\n",
        b'{"type":"ACK","uuid":[]}\n',
        b'{"type":"UPDATE","status":7}\n',
    )
    unknown_fate = b'{"type":"KILL","fate":"eaten"}\n'
    for torn in (b'{"type":"UPD', b'{"type":"ACK","uuid":"2"}', b"\x00\x00\n", b"7\n", unknown_fate, *damage):
        log.write_bytes(whole + torn)
        assert read_log(log) == [{"type": "ACK", "uuid": "1"}]
        assert log.read_bytes() == whole


def test_what_is_half_there_is_skipped(checkpoints: AgentCheckpoints, tmp_path: Path) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.save_task(key("t2"), "c2", task("t2"))
    next(tmp_path.rglob("c1/tasks/t1/task.info")).write_bytes(b"")
    checkpoints.save_framework("other", framework())
    next(tmp_path.rglob("other/framework.info")).write_bytes(b"{")
    checkpoints.save_task(TaskKey("other", "t3"), "c3", task("t3"))
    assert [run.container_id for run in recovered(checkpoints).runs] == ["c2"]


def test_the_tasks_of_a_framework_that_was_skipped_are_not_taken_up_when_it_is_back(
    checkpoints: AgentCheckpoints, tmp_path: Path
) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    # The power went before it was on the disk; the next one is, as the framework has launched again.
    next(tmp_path.rglob("framework.info")).write_bytes(b"{")
    assert recovered(checkpoints, "boot-2").runs == ()
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key("t2"), "c2", task("t2"))
    assert [(run.container_id, run.complete) for run in recovered(checkpoints).runs] == [("c1", True), ("c2", False)]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="work_dir"):
        AgentCheckpoints(tmp_path / "file").open()


def test_the_folder_of_a_mesos_agent_is_left_alone(tmp_path: Path, golden: Golden) -> None:
    """It wrote protobuf: to take the folder for an empty one would leave its tasks running beside ours."""
    folder = tmp_path / "meta" / "slaves" / AGENT_ID
    folder.mkdir(parents=True)
    (folder / "slave.info").write_bytes(encode("mesos.SlaveInfo", {"hostname": "h", "port": 5051}))
    (folder.parent / "latest").symlink_to(AGENT_ID)
    with pytest.raises(Conflict) as refused:
        recover(AgentCheckpoints(tmp_path), "boot")
    assert str(refused.value) == golden


def test_what_is_written_down_is_for_the_agents_user_alone(tmp_path: Path) -> None:
    """Secrets of tasks are in task.info; files of an agent of before are behind the same door."""
    (tmp_path / "meta").mkdir(mode=0o755)
    checkpoints = AgentCheckpoints(tmp_path)
    checkpoints.open()
    checkpoints.save_agent({"id": {"value": "S0"}})
    key = TaskKey("f", "t")
    checkpoints.save_task(key, "c", {"task_id": {"value": "t"}})
    checkpoints.log(key, "c", {"update": 1})
    assert (tmp_path / "meta").stat().st_mode & 0o777 == 0o700
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.name for path in files} >= {"slave.info", "task.info", "task.updates"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


DAMAGE = [b"[]", b"7", b'"text"', b"null", b"{}", b'{"id": {"value": 7}}', b'{"id"', b'{"id": "\xff"}', b"[" * 100_000]


def test_an_agent_that_does_not_say_who_it_is_is_refused_in_words(
    checkpoints: AgentCheckpoints, golden: Golden
) -> None:
    """To begin again would end its tasks, and without the id none of them can be taken up."""
    assert problems(checkpoints, "slaves/latest/slave.info", [b"", *DAMAGE]) == golden


def test_reservations_that_cannot_be_read_are_not_given_away(checkpoints: AgentCheckpoints, golden: Golden) -> None:
    checkpoints.save_holdings([{"name": "gpus"}], [])
    damage = [b"", *DAMAGE, b'{"resources": [1], "operations": []}']
    assert problems(checkpoints, "resources/resources_and_operations.state", damage) == golden


def problems(checkpoints: AgentCheckpoints, name: str, damage: list[bytes]) -> list[str]:
    """Return the different messages with which recovery is refused when a file has each of these contents."""
    found = set()
    for data in damage:
        (checkpoints.meta / name).write_bytes(data)
        with pytest.raises(Conflict) as refused:
            recovered(checkpoints)
        found.add(str(refused.value))
    return sorted(found)


@pytest.mark.parametrize("data", DAMAGE)
def test_what_belongs_to_one_task_is_skipped_when_it_is_damaged(checkpoints: AgentCheckpoints, data: bytes) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_task(key(), "c1", task())
    checkpoints.save_task(key("t2"), "c2", task("t2"))
    next(checkpoints.meta.rglob("c1/tasks/t1/task.info")).write_bytes(data)
    assert [run.container_id for run in recovered(checkpoints).runs] == ["c2"]


@pytest.mark.parametrize("data", [data for data in DAMAGE if not data.endswith(b"}")])
def test_a_framework_or_a_drain_that_is_damaged_stops_nothing(checkpoints: AgentCheckpoints, data: bytes) -> None:
    checkpoints.save_framework(FRAMEWORK_ID, framework())
    checkpoints.save_drain({"gone": True})
    folder = checkpoints.meta / "slaves" / AGENT_ID
    (folder / "drain.config").write_bytes(data)
    (folder / "frameworks" / FRAMEWORK_ID / "framework.info").write_bytes(data)
    (folder / "frameworks" / FRAMEWORK_ID / "framework.pid").write_bytes(b"\xff")
    found = recovered(checkpoints)
    assert (found.agent, found.frameworks, found.drain) == (INFO, {}, None)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"\x00" * 36, b"two words", b"x" * 5000])
def test_a_boot_id_that_is_none_ends_no_tasks(checkpoints: AgentCheckpoints, data: bytes) -> None:
    """Containers know in which boot they were made; after a real reboot they are found gone one by one."""
    (checkpoints.meta / "boot_id").write_bytes(data)
    assert not recovered(checkpoints).rebooted


class Slow:
    """fsync that takes until it may go on, and keeps what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.go_on = threading.Event()
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        self.synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


def written(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_text(name)
    return [folder / name for name in names]


async def test_what_is_on_the_disk_is_not_waited_for(tmp_path: Path, slow: Slow) -> None:
    said: list[str] = []
    Syncing().after(lambda: said.append("at once"))
    assert said == ["at once"]


async def test_one_sync_serves_all_of_a_turn_and_what_comes_later_has_its_own(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    one, other, late = written(tmp_path, "one", "other", "late")
    syncing.wrote(one)
    syncing.after(lambda: said.append(("first", sorted(slow.synced))))
    syncing.wrote(other)
    second = syncing.synced()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    syncing.wrote(late)
    syncing.after(lambda: said.append(("late", sorted(slow.synced))))
    third = syncing.synced()
    assert said == []
    slow.go_on.set()
    await asyncio.wait_for(second(), 60)
    await asyncio.wait_for(third(), 60)
    await second()
    assert said == [("first", ["one", "other"]), ("late", ["late", "one", "other"])]
    syncing.close()


async def test_what_is_synced_together_is_synced_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A disk's flushes one after the other would be most of the time that a launch takes.
    together = threading.Barrier(3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: together.wait(60))
    syncing = Syncing()
    syncing.wrote(*written(tmp_path, "one", "other", "third"))
    await asyncio.wait_for(syncing.synced()(), 60)
    syncing.close()


async def test_who_asks_for_nothing_new_waits_for_what_is_under_way(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    done = syncing.synced()
    syncing.after(lambda: said.append("second"))
    assert said == []
    slow.go_on.set()
    await asyncio.wait_for(done(), 60)
    assert said == ["first", "second"]
    syncing.close()


async def test_what_waits_for_a_disk_that_fails_is_never_done(tmp_path: Path, slow: Slow) -> None:
    syncing, said, failed = Syncing(), [], []
    syncing.on_failure = failed.append
    slow.error = OSError(5, "Input/output error")
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    slow.go_on.set()
    done = syncing.synced()
    with pytest.raises(Unavailable, match="Input/output error"):
        await asyncio.wait_for(done(), 60)
    syncing.after(lambda: said.append("later"))
    with pytest.raises(Unavailable):
        await syncing.synced()()
    assert said == []
    assert failed == [slow.error]
    syncing.close()


async def test_nothing_begins_once_it_is_closed(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    syncing.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert said == slow.synced == []


async def test_its_threads_are_there_before_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing = Syncing()
    syncing.begin_threads()
    try:

        def refused(thread: threading.Thread) -> None:
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            for name in "abcdefghij":
                (tmp_path / name).touch()
                syncing.wrote(tmp_path / name)
            await asyncio.wait_for(syncing.synced()(), 60)
    finally:
        syncing.close()
