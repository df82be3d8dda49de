from __future__ import annotations

import re
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.state.state import MasterState
from tests.support.master.at_once import agents
from tests.support.master.build import NOW, add_agent, new_state


def test_a_first_start_knows_nobody(tmp_path: Path) -> None:
    assert Registry(tmp_path / "new" / "dir").load() == Record()


def test_what_was_saved_is_known_again(tmp_path: Path) -> None:
    state = new_state()
    here, away = add_agent(state), add_agent(state, port=5052)
    agents.unreachable(state, away.id, NOW)
    state.gone["before"] = NOW.wall_s
    Registry(tmp_path).save(state.record())
    record = Registry(tmp_path).load()
    assert record == state.record()
    assert (record.agents[here.id].info, record.unreachable[away.id].since_s) == (here.info, NOW.wall_s)
    again = MasterState(state.master_info, state.settings, NOW, record)
    assert (set(again.recovered), set(again.unreachable)) == ({here.id}, {away.id})


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    registry, state = Registry(tmp_path), new_state()
    registry.save(state.record())
    first = (tmp_path / "registry.json").stat().st_ino
    add_agent(state)
    registry.save(state.record())
    assert (tmp_path / "registry.json").stat().st_ino != first
    assert [path.name for path in tmp_path.iterdir()] == ["registry.json"]
    assert registry.size == (tmp_path / "registry.json").stat().st_size


@pytest.mark.parametrize("text", ["", "{", "[]", '{"agents": [{}], "masters": []}', '{"agents": []}'])
def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "registry.json").write_text(text)
    with pytest.raises(Unavailable, match="is damaged"):
        Registry(tmp_path).load()


def test_a_work_dir_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=re.escape(str(tmp_path / "file" / "dir"))):
        Registry(tmp_path / "file" / "dir")
