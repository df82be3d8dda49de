from __future__ import annotations

import os
from pathlib import Path

import pytest

from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.sandbox import open_output, own_all, prepare_volumes
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.golden import Golden

ME = HostUser(os.geteuid(), os.getegid())


def test_output_is_appended_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("before\n")
    fd = open_output(tmp_path / "stdout", ME)
    os.write(fd, b"after\n")
    os.close(fd)
    assert (tmp_path / "stdout").read_text() == "before\nafter\n"


def test_a_link_in_the_sandbox_leads_nowhere(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "stdout").symlink_to(tmp_path / "secret")
    (tmp_path / "stderr").hardlink_to(tmp_path / "secret")
    for name in ("stdout", "stderr"):
        with pytest.raises(ContainerError) as refused:
            open_output(tmp_path / name, ME)
        assert str(refused.value) == golden
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize(("source", "destination"), [("link", "/mnt/x"), ("/srv", "link"), ("link/deep", "x")])
def test_a_link_that_was_fetched_leads_no_volume_elsewhere(
    tmp_path: Path, source: str, destination: str, golden: Golden
) -> None:
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (sandbox / "link").symlink_to("../elsewhere")
    config = ContainerConfig("c", sandbox, ("true",), {}, None, 100, 0, 0, volumes=(Volume(source, destination),))
    with pytest.raises(BadInput) as refused:
        prepare_volumes(config, ME)
    assert str(refused.value) == golden
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_pipe_or_a_folder_is_refused_and_not_waited_for(tmp_path: Path, golden: Golden) -> None:
    os.mkfifo(tmp_path / "stdout")
    (tmp_path / "stderr").mkdir()
    for name in ("stdout", "stderr"):
        with pytest.raises(ContainerError) as refused:
            open_output(tmp_path / name, ME)
        assert str(refused.value) == golden


@pytest.mark.root
def test_output_belongs_to_the_user(tmp_path: Path) -> None:
    nobody = find_user("nobody")
    os.close(open_output(tmp_path / "stdout", nobody))
    assert (tmp_path / "stdout").stat().st_uid == nobody.uid


@pytest.mark.root
def test_a_sandbox_is_given_away_whole_and_its_links_lead_nowhere(tmp_path: Path) -> None:
    sandbox = tmp_path / "sandbox"
    (sandbox / "fetched").mkdir(parents=True)
    (sandbox / "fetched/file").touch()
    (tmp_path / "elsewhere").touch()
    (sandbox / "link").symlink_to("../elsewhere")
    own_all(sandbox, find_user("nobody"))
    assert {path.lstat().st_uid for path in (sandbox, *sandbox.rglob("*"))} == {find_user("nobody").uid}
    assert (tmp_path / "elsewhere").stat().st_uid == os.geteuid()


def test_without_a_name_the_user_is_the_agents_own() -> None:
    assert (find_user(None).uid, find_user(None).gid) == (os.geteuid(), os.getegid())


def test_an_unknown_user_is_named(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        find_user("no-such-user")
    assert str(refused.value) == golden


@pytest.mark.root
def test_a_persistent_volume_belongs_to_whom_the_container_runs_as_and_what_is_in_it_does_not(tmp_path: Path) -> None:
    nobody = find_user("nobody")
    for name in ("sandbox", "volume"):
        (tmp_path / name).mkdir()
    (tmp_path / "volume" / "old").touch()
    volume = Volume(str(tmp_path / "volume"), "data", owned=True)
    config = ContainerConfig("c", tmp_path / "sandbox", ("true",), {}, "nobody", 100, 0, 0, volumes=(volume,))
    prepare_volumes(config, nobody)
    assert (tmp_path / "volume").stat().st_uid == nobody.uid
    assert (tmp_path / "volume" / "old").stat().st_uid == os.geteuid()
