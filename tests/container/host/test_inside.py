"""Root file systems made by strangers: no path in one leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mesos_gpu.container.host.inside import find_image_user, make_folder, resolve
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.golden import Golden


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "passwd").write_text("root:x:0:0::/:\nme:x:1000:100::/:\nbroken\nodd:x:a:b::/:\n")
    (root / "etc" / "group").write_text("root:x:0:\nusers:x:100:\nvideo:x:44:me,you\n")
    return root


@pytest.mark.parametrize(
    ("link", "path", "found"),
    [
        (None, "/a/b", "a/b"),
        (None, "/../../etc", "etc"),
        (None, "a/./../b", "b"),
        ("/etc", "/link/passwd", "etc/passwd"),
        ("../../../etc", "/link/passwd", "etc/passwd"),
        ("/link2", "/link/x", "link2/x"),
    ],
)
def test_links_are_followed_inside(root: Path, link: str | None, path: str, found: str) -> None:
    if link is not None:
        (root / "link").symlink_to(link)
    assert resolve(root, path) == root / found


def test_links_that_go_round_are_refused(root: Path, golden: Golden) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(ContainerError) as refused:
        resolve(root, "/a/x")
    assert str(refused.value) == golden


def test_a_folder_is_made_inside_whatever_the_links_say(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(f"../../../../../../../..{tmp_path}/outside")
    make_folder(root, "/out/deep")
    assert not (tmp_path / "outside").exists()
    assert (root / str(tmp_path / "outside").lstrip("/") / "deep").is_dir()


def test_a_folder_cannot_be_where_a_file_is(root: Path, golden: Golden) -> None:
    with pytest.raises(ContainerError) as refused:
        make_folder(root, "/etc/passwd/x")
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("me", HostUser(1000, 100, (44,))),
        ("1000", HostUser(1000, 100, (44,))),
        ("1234", HostUser(1234, 0)),
        ("1234:5", HostUser(1234, 5)),
        ("me:video", HostUser(1000, 44)),
        ("root", HostUser(0, 0)),
    ],
)
def test_a_user_is_whom_the_images_own_files_say(root: Path, text: str, user: HostUser) -> None:
    assert find_image_user(root, text) == user


@pytest.mark.parametrize(
    "text",
    [
        *("nobody", "odd", "me:nogroup", ""),
        *("4294967295", "1:4294967295", "4294967296", pytest.param("9" * 5000, id="5000 digits")),
    ],
)
def test_an_unknown_user_or_group_is_refused(root: Path, text: str, golden: Golden) -> None:
    """To the kernel 4294967295 means "as it is", which is root."""
    with pytest.raises(BadInput) as refused:
        find_image_user(root, text)
    assert str(refused.value) == golden


def test_accounts_that_are_a_pipe_or_lead_outside_are_not_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("spy:x:5:5::/:\n")
    (root / "etc" / "passwd").unlink()
    os.mkfifo(root / "etc" / "passwd")
    with pytest.raises(BadInput):
        find_image_user(root, "me")
    (root / "etc" / "passwd").unlink()
    (root / "etc" / "passwd").symlink_to("../../passwd")
    with pytest.raises(BadInput):
        find_image_user(root, "spy")
