"""Two agents of one machine never give the same numbers to their containers' users."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesos_gpu.container.life.id_claims import _claim, claimed
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import Conflict
from tests.support.golden import Golden

EACH = 65536
ONE, OTHER = IdRange(10 * EACH, 4 * EACH), IdRange(14 * EACH, 4 * EACH)
ACROSS = IdRange(13 * EACH, 4 * EACH)


def claims_of(tmp_path: Path) -> list[str]:
    return sorted(path.read_text().split("\n")[0] for path in (tmp_path / "claims").glob("*.claim"))


def killed(ids: IdRange, runtime_dir: Path, claims: Path) -> None:
    """As an agent that claimed its numbers and did nothing any more."""
    with ExitStack() as closing:
        closing.enter_context(claimed(ids, runtime_dir, claims))
        (path,) = [path for path in claims.glob("*.claim") if str(runtime_dir) in path.read_text()]
        text = path.read_bytes()
    path.write_bytes(text)


def test_overlapping_numbers_are_one_agents_while_it_lives(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    with claimed(OTHER, tmp_path / "second", claims):
        with claimed(ONE, tmp_path / "first", claims):
            said = f"{ACROSS} .*--runtime_dir={tmp_path}/"
            with pytest.raises(Conflict, match=said), claimed(ACROSS, tmp_path / "third", claims):
                pass
        said = f"{OTHER}.*--runtime_dir={tmp_path}/second"
        with pytest.raises(Conflict, match=said), claimed(ACROSS, tmp_path / "third", claims):
            pass
    with claimed(ACROSS, tmp_path / "third", claims):
        assert claims_of(tmp_path) == [str(ACROSS)]
    assert claims_of(tmp_path) == []


def test_they_are_a_dead_agents_while_a_container_of_its_is_on_record(tmp_path: Path) -> None:
    claims, record = tmp_path / "claims", tmp_path / "first" / "containers" / "c.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    with claimed(ONE, tmp_path / "first", claims):
        pass  # its tasks run on
    with (
        pytest.raises(Conflict, match=f"{ONE}.*--runtime_dir={tmp_path}/first"),
        claimed(ACROSS, tmp_path / "third", claims),
    ):
        pass
    # It comes back itself, with other numbers as well: which its containers have is on record with each.
    with (
        claimed(ACROSS, tmp_path / "first", claims),
        claimed(OTHER.__class__(0x70000000, EACH), tmp_path / "x", claims),
    ):
        pass
    record.unlink()
    with claimed(ONE, tmp_path / "third", claims):
        assert claims_of(tmp_path) == [str(ONE)], "what nobody holds is removed"


def test_an_agent_with_other_numbers_keeps_those_of_its_containers(tmp_path: Path) -> None:
    claims, record = tmp_path / "claims", tmp_path / "first" / "containers" / "c.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    with claimed(ONE, tmp_path / "first", claims):
        pass  # its tasks run on
    for _ in range(2):
        with (
            claimed(OTHER, tmp_path / "first", claims),
            pytest.raises(Conflict, match=f"{ONE}.*--runtime_dir={tmp_path}/first"),
            claimed(ONE, tmp_path / "second", claims),
        ):
            pass
    with pytest.raises(Conflict, match=str(ONE)), claimed(ONE, tmp_path / "second", claims):
        pass
    record.unlink()
    with claimed(OTHER, tmp_path / "first", claims), claimed(ONE, tmp_path / "second", claims):
        assert claims_of(tmp_path) == sorted([str(ONE), str(OTHER)])


def test_what_a_killed_agent_or_one_that_wrote_nothing_left_is_nobodys(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    killed(ONE, tmp_path / "first", claims)
    (claims / "half.claim").write_text("65")
    with claimed(ACROSS, tmp_path / "third", claims):
        assert claims_of(tmp_path) == [str(ACROSS)]


def test_one_folder_is_one_agents(tmp_path: Path, golden: Golden) -> None:
    mine = tmp_path / "claims" / "mine.claim"
    held = _claim(ONE, tmp_path / "first", mine)
    with pytest.raises(Conflict) as refused:
        _claim(ONE, tmp_path / "first", mine)
    assert str(refused.value) == golden
    os.close(held)
