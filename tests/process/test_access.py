"""Files of credentials and lists count again when they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.process.access import LiveFiles, basic, open_acls, read_secrets

FLAGS = {"authorizers": "local", "authenticate": True}
ANNA, BELA = "Basic YW5uYTpzZWNyZXQ=", "Basic YmVsYTpzZWNyZXQ="


def credentials(*names: str) -> str:
    return json.dumps({"credentials": [{"principal": name, "secret": "secret"} for name in names]})


def lists(*names: str, permissive: bool = False) -> str:
    entry = {"principals": {"values": list(names)}, "users": {"type": "ANY"}}
    return json.dumps({"permissive": permissive, "run_tasks": [entry]})


def write(path: Path, text: str) -> None:
    """Replace a file as programs do that must not leave half of one."""
    new = path.with_name("new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


def test_who_is_in_the_file_now_is_known(tmp_path: Path) -> None:
    path, live = tmp_path / "credentials", LiveFiles()
    write(path, credentials("anna"))
    known = basic("credentials", read_secrets("credentials", str(path), live), asked_by="x")
    assert known.authenticate(ANNA, 0.0) == Principal("anna")
    write(path, credentials("bela"))
    assert known.authenticate(BELA, 0.0) is None
    live.look()
    assert (known.authenticate(ANNA, 0.0), known.authenticate(BELA, 0.0)) == (None, Principal("bela"))


def test_what_the_file_allows_now_is_allowed(tmp_path: Path) -> None:
    path, live = tmp_path / "acls", LiveFiles()
    write(path, lists("anna"))
    acls = open_acls({**FLAGS, "acls": str(path)}, "authorizers", ["authenticate"], live)

    def may() -> list[bool]:
        return [acls.approved("run_tasks", Principal(name), "root") for name in ("anna", "bela")]

    assert may() == [True, False]
    write(path, lists("bela"))
    live.look()
    assert may() == [False, True]


@pytest.mark.parametrize("text", ["", "{", '{"run_taks": []}', lists("bela", permissive=True)])
def test_a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path, live = tmp_path / "acls", LiveFiles()
    write(path, lists("anna"))
    acls = open_acls({**FLAGS, "acls": str(path)}, "authorizers", ["authenticate"], live)
    write(path, text)
    live.look()
    live.look()
    assert acls.approved("run_tasks", Principal("anna"), "root")
    assert caplog.text.count("so what it said before counts") == 1
    path.unlink()
    live.look()
    assert acls.approved("run_tasks", Principal("anna"), "root")


async def test_values_that_are_no_files_are_not_followed(tmp_path: Path) -> None:
    live = LiveFiles()
    flags: dict[str, Any] = {**FLAGS, "acls": lists("anna")}
    assert open_acls(flags, "authorizers", ["authenticate"], live).approved("run_tasks", Principal("anna"), "x")
    assert read_secrets("credentials", None, live) is None
    await live.follow()  # ends at once: there is nothing to look at
    with pytest.raises(BadFlag):
        read_secrets("credentials", str(tmp_path / "nothing"), live)
