from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.master import agents
from mesos_gpu.master.actions import SaveRegistry
from mesos_gpu.master.engine import Engine, clock
from mesos_gpu.master.registry import Registry
from mesos_gpu.master.state import MasterState
from tests.master.build import NOW, add_agent, new_state, report


def saved(state: MasterState) -> SaveRegistry:
    action = state.registry()
    assert isinstance(action, SaveRegistry)
    return action


def test_a_first_start_knows_nobody(tmp_path: Path) -> None:
    assert Registry(tmp_path / "new" / "dir").load() == {}


def test_what_was_saved_is_known_again(tmp_path: Path) -> None:
    state = new_state()
    here, away = add_agent(state), add_agent(state, port=5052)
    agents.unreachable(state, away.id, NOW)
    Registry(tmp_path).save(saved(state).document)
    known = Registry(tmp_path).load()
    assert {agent_id: agent.since_s for agent_id, agent in known.items()} == {here.id: None, away.id: NOW.wall_s}
    assert known[here.id].info == here.info
    again = MasterState(state.master_info, state.settings, NOW, known)
    assert (set(again.recovered), set(again.unreachable)) == ({here.id}, {away.id})


def test_the_file_is_replaced_whole_and_only_for_news(tmp_path: Path) -> None:
    registry, state = Registry(tmp_path), new_state()
    registry.save(saved(state).document)
    first = (tmp_path / "registry.json").stat().st_ino
    registry.save(saved(state).document)
    assert (tmp_path / "registry.json").stat().st_ino == first
    add_agent(state)
    registry.save(saved(state).document)
    assert (tmp_path / "registry.json").stat().st_ino != first
    assert [path.name for path in tmp_path.iterdir()] == ["registry.json"]


def test_masters_are_remembered(tmp_path: Path) -> None:
    for name in ("m1", "m2"):
        registry = Registry(tmp_path)
        registry.load()
        registry.save({"master_id": name, "agents": []})
    assert '"m1"' in (tmp_path / "registry.json").read_text()
    assert '"m2"' in (tmp_path / "registry.json").read_text()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"agents": [{}], "masters": []}', '{"agents": []}'])
def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "registry.json").write_text(text)
    with pytest.raises(Unavailable, match="is damaged"):
        Registry(tmp_path).load()


def test_a_work_dir_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot make the work directory"):
        Registry(tmp_path / "file" / "dir")


async def test_no_agent_hears_an_id_that_is_not_on_disk(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "work")
    engine = Engine(new_state(), registry, now=clock)
    told: list[object] = []

    class Agents:
        def perform(self, action: object) -> None:
            told.append(action)

        def observe(self, agent_id: str) -> None:
            told.append(agent_id)

        def part(self, agent_id: str) -> None:
            told.append(agent_id)

    engine.agents = Agents()
    (tmp_path / "work").rmdir()
    engine.do(lambda state, now: agents.register(state, report(), now))
    assert told == []
    assert isinstance(engine.failed.exception(), Unavailable)
    engine.do(lambda state, now: agents.register(state, report(port=5052), now))
    assert told == []
