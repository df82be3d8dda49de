"""Who is let in by a group of this machine, and where members could not come to."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.local.group import members_of, with_members
from mesos_gpu.local.plan import UpOptions
from tests.support.golden import Golden


def user(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose group gpu has alice by her primary group, bob by its list, and others who are no members."""
    me = os.geteuid()
    users = [user("alice", 1001, 500), user("bob", 1002, 100), user("carol", 1003, 100), user("me", me, 500)]
    users += [user("toor", 0, 500), user("marathon", 1004, 500)]
    lists = {"gpu": (500, ["bob", "gone"]), "none": (501, [])}
    groups = {name: grp.struct_group((name, "x", gid, names)) for name, (gid, names) in lists.items()}
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user("me", me, 500))
    monkeypatch.setattr(grp, "getgrnam", lambda name: groups[name])


def test_members_are_those_by_list_and_by_primary_group() -> None:
    assert members_of("gpu") == {"alice": 1001, "bob": 1002}


def test_a_group_that_is_not_there_or_has_nobody_is_said(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        members_of("nix")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        members_of("none")
    assert str(refused.value) == golden


def test_a_work_dir_that_members_cannot_reach_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(BadInput) as refused:
        with_members(UpOptions(work_dir=closed / "box", group="gpu"))
    assert str(closed / "box") in str(refused.value)
    assert with_members(UpOptions(work_dir=Path("/srv/no-box"), group="gpu")).members == {"alice": 1001, "bob": 1002}
    assert with_members(UpOptions(work_dir=closed / "box")).members == {}


def test_open_and_a_group_are_two_things(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        UpOptions(work_dir=Path("/srv/box"), group="gpu", open=True).checked()
    assert str(refused.value) == golden
