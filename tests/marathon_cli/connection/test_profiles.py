"""Profiles on disk, and `mesos-gpu config`."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.connection.profiles import ProfileStore, parse, with_value, without
from mesos_gpu.errors import BadInput, NotFound, Unavailable
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Run, ScriptedServer

TEXT = """# ours
use = prod

[prod]
; the big one
marathon-url = https://m.example.org
user=ci

[test]
marathon_url = "http://127.0.0.1:8080"
"""
names = st.sampled_from(["a", "b.c", "D-1"])
keys = st.sampled_from(["user", "marathon-url", "ca"])
values = st.sampled_from(["http://one", "https://two:8080/x"])


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "config-home" / "mesos-gpu")


def test_a_file_is_read_with_comments_quotes_and_underscores() -> None:
    found = parse(TEXT, "f")
    assert found.use == "prod"
    assert found.profiles == {
        "prod": {"marathon-url": "https://m.example.org", "user": "ci"},
        "test": {"marathon-url": "http://127.0.0.1:8080"},
    }


def test_a_key_of_an_earlier_version_has_no_effect() -> None:
    assert parse("[a]\nresident = false\nuser = ci\n", "f").profiles == {"a": {"user": "ci"}}


def test_a_broken_file_is_refused_with_every_line_that_is_wrong(golden: Golden) -> None:
    text = "user = x\n[a b]\n[a]\nnonsense\nmarathn-url = x\nuser = 1\nuser = 2\nhttp-timeout = soon\n"
    with pytest.raises(BadInput) as refused:
        parse(text, "/c/config")
    assert str(refused.value) == golden
    assert re.findall(r" (\d+):", str(refused.value)) == ["1", "2", "4", "5", "7", "8"]


@given(st.lists(st.tuples(names, keys, values | st.none()), max_size=12))
def test_changes_line_by_line_are_those_of_a_table_and_comments_stay(
    changes: list[tuple[str, str, str | None]],
) -> None:
    text, table = "# mine\n[a]\n# of a\n", {"a": dict[str, str]()}
    for section, key, value in changes:
        text = with_value(text, section, key, value)
        if value is None:
            table.get(section, {}).pop(key, None)
        else:
            table.setdefault(section, {})[key] = value
    assert parse(text, "f").profiles == table
    assert "# mine\n" in text
    assert "# of a\n" in text
    for section in list(table):
        text = without(text, section)
        del table[section]
        assert parse(text, "f").profiles == table


def test_secrets_are_in_a_file_of_their_own_for_its_owner_alone(store: ProfileStore) -> None:
    store.set("prod", "marathon-url", "https://m")
    store.set("prod", "token", "s3cret")
    assert store.profile("prod") == {"marathon-url": "https://m", "token": "s3cret"}
    assert "s3cret" not in store.config.read_text()
    assert stat.S_IMODE(store.secrets.stat().st_mode) == 0o600
    assert [path.name for path in sorted(store.folder.iterdir())] == ["config", "secrets"]


def test_secrets_that_others_may_read_are_refused_with_what_to_do(store: ProfileStore, golden: Golden) -> None:
    store.set("prod", "token", "x")
    store.secrets.chmod(0o640)
    with pytest.raises(BadInput) as refused:
        store.read()
    assert str(refused.value) == golden


def test_a_secret_in_the_open_file_is_refused(store: ProfileStore, golden: Golden) -> None:
    store.folder.mkdir(parents=True)
    store.config.write_text("[prod]\npassword = x\n")
    with pytest.raises(BadInput) as refused:
        store.read()
    assert str(refused.value) == golden


def test_a_link_into_dotfiles_stays_a_link_and_modes_stay(store: ProfileStore, tmp_path: Path) -> None:
    store.folder.mkdir(parents=True)
    target = tmp_path / "dotfiles"
    target.write_text("# mine\n")
    target.chmod(0o640)
    store.config.symlink_to(target)
    store.set("a", "user", "me")
    assert store.config.is_symlink()
    assert target.read_text() == "# mine\n\n[a]\nuser = me\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_files_that_cannot_be_read_are_said(store: ProfileStore, golden: Golden) -> None:
    store.folder.mkdir(parents=True)
    store.config.mkdir()
    with pytest.raises(Unavailable) as refused:
        store.read()
    assert str(refused.value) == golden
    store.config.rmdir()
    store.config.write_bytes(b"\xff")
    with pytest.raises(BadInput) as refused:
        store.read()
    assert str(refused.value) == golden


def test_an_unknown_profile_is_refused_with_the_nearest(store: ProfileStore, golden: Golden) -> None:
    with pytest.raises(NotFound) as refused:
        store.use("prod")
    assert str(refused.value) == golden
    store.set("prod", "user", "me")
    with pytest.raises(NotFound) as refused:
        store.use("prd")
    assert str(refused.value) == golden


def test_the_folder_is_where_xdg_says() -> None:
    assert ProfileStore.of({"XDG_CONFIG_HOME": "/x"}).folder == Path("/x/mesos-gpu")
    assert ProfileStore.of({"MESOS_GPU_CONFIG_DIR": "/y", "XDG_CONFIG_HOME": "/x"}).folder == Path("/y")
    for environ in ({}, {"XDG_CONFIG_HOME": "relative"}):
        assert ProfileStore.of(environ).folder == Path.home() / ".config/mesos-gpu"


@pytest.fixture
def config(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `mesos-gpu` with profiles of its own, and no variable that names a server."""
    monkeypatch.delenv("MARATHON_URL")
    monkeypatch.setenv("MESOS_GPU_CONFIG_DIR", str(tmp_path / "config"))
    return run


def test_the_first_profile_is_in_use_at_once_and_commands_go_there(
    config: Run, marathon: ScriptedServer, golden: Golden
) -> None:
    assert config("config", "set", "marathon-url", marathon.url).stderr == golden
    assert config("config", "set", "token", stdin="typed-unseen\n").exit_code == 0
    assert config("app", "list", "-q").exit_code == 0
    assert marathon.requests[0].headers["Authorization"] == "token=typed-unseen"


def test_a_profile_that_is_named_is_not_switched_to_unasked(config: Run, golden: Golden) -> None:
    made = config("config", "set", "marathon-url", "http://prod", "--profile", "prod")
    assert (made.exit_code, made.stderr) == (0, golden)
    assert [one["in_use"] for one in json.loads(config("config", "list", "--json").stdout)] == [False]
    assert "http://prod" not in config("config", "show").stdout


def test_profiles_are_listed_shown_changed_and_removed(config: Run, golden: Golden) -> None:
    for name in ("one", "two"):
        assert config("config", "set", "marathon-url", f"http://{name}", "--profile", name).exit_code == 0
    assert config("config", "set", "password", "hidden-word", "--profile", "two").exit_code == 0
    assert config("config", "use", "two").exit_code == 0
    assert config("config", "list", "-q").stdout.split() == ["one", "two"]
    assert [one["in_use"] for one in json.loads(config("config", "list", "--json").stdout)] == [False, True]
    shown = config("config", "show")
    assert "http://two" in shown.stdout
    assert shown.stdout == golden
    assert "hidden-word" not in shown.stdout
    assert "http://one" in config("config", "show", "one").stdout
    assert "http://one" in config("config", "show", "--profile", "one").stdout
    assert config("config", "unset", "password").exit_code == 0
    assert config("config", "unset", "password").exit_code == 1
    assert config("config", "unset", "--all").exit_code == 0
    assert config("config", "list", "-q").stdout.split() == ["one"]
    assert json.loads(config("config", "show", "--json").stdout) == []


def test_the_box_of_this_machine_is_shown_where_nothing_else_is_named(
    config: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESOS_GPU_WORK_DIR", str(tmp_path))
    note = {"pid": os.getpid(), "marathon": {"url": "http://127.0.0.1:8080"}}
    (tmp_path / "box.json").write_text(json.dumps(note))
    (shown,) = json.loads(config("config", "show", "--json").stdout)
    assert (shown["key"], shown["value"]) == ("marathon-url", "http://127.0.0.1:8080")
    assert shown["source"] == f"the box in {tmp_path}"
    config("config", "set", "marathon-url", "http://other")
    assert [one["value"] for one in json.loads(config("config", "show", "--json").stdout)] == ["http://other"]


def test_commands_name_the_profile_that_is_wrong(config: Run, tmp_path: Path, golden: Golden) -> None:
    config("config", "set", "marathon-url", "http://127.0.0.1:1", "--profile", "far")
    assert config("app", "list", "--profile", "far").stderr == golden
    assert config("app", "list", "--profile", "fra").stderr == golden
    (tmp_path / "config/config").write_text("[far]\nmarathn-url = x\n")
    broken = config("app", "list")
    assert broken.exit_code == 1
    assert broken.stderr == golden


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("set", "marathon-url", "ftp://x"), 1),
        (("set", "marathon-url", "http://ann:pw@h"), 1),
        (("set", "usr", "x"), 1),
        (("set", "user", " x"), 1),
        (("set", "user", "x", "--profile", "a b"), 1),
        (("unset",), 2),
        (("unset", "user", "--all"), 2),
        (("unset", "user"), 1),
        (("use",), 2),
        (("use", "nobody"), 1),
        (("show", "nobody"), 1),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    config: Run, tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    assert config("config", *words).exit_code == status
    assert not (tmp_path / "config").exists()


def test_every_key_is_listed(config: Run) -> None:
    assert "marathon-url" in config("config", "keys", "-q").stdout.split()
    assert "MARATHON_URL" in config("config", "keys").stdout
