"""The credential of a box: made once, for its owner's eyes alone, in the forms that programs read."""

from __future__ import annotations

import json
import netrc
import os
import stat
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.credentials import (
    FOLDER,
    credential,
    hint,
    member_login_file,
    member_secret_file,
    prepare_credentials,
)
from tests.support.golden import Golden


def test_it_is_made_once_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    assert credential(tmp_path) is None
    prepare_credentials(tmp_path)
    made = credential(tmp_path)
    assert made is not None
    name, secret = made
    assert name == "box"
    assert len(secret) >= 32
    folder = tmp_path / FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    folder.chmod(0o755)
    prepare_credentials(tmp_path)
    assert credential(tmp_path) == made
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_is_there_in_the_forms_that_programs_read(tmp_path: Path) -> None:
    prepare_credentials(tmp_path)
    folder, made = tmp_path / FOLDER, credential(tmp_path)
    assert made is not None
    name, _, secret = netrc.netrc(folder / "netrc").authenticators("127.0.0.1") or ("", None, "")
    assert (name, secret) == ("box", made[1])
    assert (folder / "login").read_text() == f"box:{made[1]}"
    known = {one["principal"]: one["secret"] for one in json.loads((folder / "mesos.json").read_text())["credentials"]}
    assert known == {"box": made[1], "marathon": (folder / "marathon.secret").read_text()}
    assert len({*known.values(), (folder / "executors.key").read_text()}) == 3
    assert made[1] not in hint(tmp_path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / FOLDER).write_text("")
    with pytest.raises(Unavailable) as refused:
        prepare_credentials(tmp_path)
    assert str(refused.value) == golden


def test_members_have_files_that_each_alone_can_read_until_they_leave(tmp_path: Path) -> None:
    me = os.geteuid()
    prepare_credentials(tmp_path, {"alice": me, "bob": me})
    his = tmp_path / "members" / "alice"
    secret = (his / "secret").read_text()
    assert {stat.S_IMODE(path.stat().st_mode) for path in his.iterdir()} == {0o400}
    assert netrc.netrc(his / "netrc").authenticators("127.0.0.1") == ("alice", "", secret)
    assert member_login_file(tmp_path, "alice").read_text() == f"alice:{secret}"
    folder = tmp_path / FOLDER
    master, agents = (
        {one["principal"]: one["secret"] for one in json.loads((folder / name).read_text())["credentials"]}
        for name in ("mesos.json", "agents.json")
    )
    assert set(master) == {"box", "marathon", "alice", "marathon-of-alice", "bob", "marathon-of-bob"}
    assert set(agents) == {"box", "marathon", "alice", "bob"}
    assert master["marathon-of-alice"] == member_secret_file(tmp_path, "alice").read_text()
    assert len(set(master.values())) == len(master)
    prepare_credentials(tmp_path, {"alice": me})
    assert (his / "secret").read_text() == secret
    assert not (tmp_path / "members" / "bob").exists()
    prepare_credentials(tmp_path)
    assert not his.exists()
    prepare_credentials(tmp_path, {"alice": me})
    assert (his / "secret").read_text() != secret
