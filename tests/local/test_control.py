"""The line to a box's supervisor: what is asked, answered and refused there."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.base.linux.peers import Credentials
from mesos_gpu.errors import BadInput, Conflict, NotFound, Unavailable
from mesos_gpu.local import control
from mesos_gpu.local.control import ENTER, Control, ask, socket_path
from tests.support.golden import Golden

WORK_DIR = Path("/no/such/box")


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "runtime_dir", lambda _: tmp_path / "run")


async def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    match request["ask"]:
        case "echo":
            return {"said": request["word"]}
        case "missing":
            raise NotFound("it is not there")
        case "taken":
            raise Conflict("it is taken")
        case _:
            raise RuntimeError("a bug")


async def asked(*requests: Mapping[str, Any]) -> list[Any]:
    """Return what each request was answered with, or raised."""
    line = Control(WORK_DIR, answer)
    await line.open()
    try:
        calls = (asyncio.to_thread(ask, WORK_DIR, request) for request in requests)
        return await asyncio.gather(*calls, return_exceptions=True)
    finally:
        await line.close()


def test_a_request_is_answered_and_several_at_once_are() -> None:
    requests = [{"ask": "echo", "word": str(n)} for n in range(5)]
    assert asyncio.run(asked(*requests)) == [{"said": str(n)} for n in range(5)]


def test_what_the_supervisor_raises_is_raised_here(golden: Golden) -> None:
    missing, taken, broken = asyncio.run(asked({"ask": "missing"}, {"ask": "taken"}, {"ask": "bug"}))
    assert (type(missing), str(missing)) == (NotFound, "it is not there")
    assert (type(taken), str(taken)) == (Conflict, "it is taken")
    assert (type(broken), str(broken)) == (Unavailable, golden)


def test_nobody_else_can_open_the_line() -> None:
    async def mode() -> int:
        line = Control(WORK_DIR, answer)
        await line.open()
        try:
            return stat.S_IMODE(socket_path(WORK_DIR).stat().st_mode)
        finally:
            await line.close()

    assert asyncio.run(mode()) == 0o600
    assert not socket_path(WORK_DIR).exists()


def test_another_user_who_got_there_is_told_no(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(control, "credentials_of", lambda _: Credentials(0, os.geteuid() + 1, 0))
    (refused,) = asyncio.run(asked({"ask": "echo", "word": "x"}))
    assert (type(refused), str(refused)) == (Unavailable, golden)


def test_another_user_may_enter_where_that_is_so_and_do_nothing_else(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    async def enter(uid: int) -> Mapping[str, Any]:
        return {"entered": uid}

    async def both() -> list[Any]:
        line = Control(WORK_DIR, answer, enter)
        await line.open()
        try:
            assert stat.S_IMODE(socket_path(WORK_DIR).stat().st_mode) == 0o666
            calls = (asyncio.to_thread(ask, WORK_DIR, one) for one in (ENTER, {"ask": "echo", "word": "x"}))
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await line.close()

    stranger = os.geteuid() + 1
    monkeypatch.setattr(control, "credentials_of", lambda _: Credentials(0, stranger, 0))
    entered, refused = asyncio.run(both())
    assert entered == {"entered": stranger}
    assert (type(refused), str(refused)) == (Unavailable, golden)


@pytest.mark.parametrize("text", [b"\n", b"[]\n", b"{", b"\xff\n"])
def test_what_is_no_request_is_refused_as_such(text: bytes) -> None:
    async def sent() -> dict[str, Any]:
        line = Control(WORK_DIR, answer)
        await line.open()
        try:
            reader, writer = await asyncio.open_unix_connection(str(socket_path(WORK_DIR)))
            writer.write(text)
            writer.write_eof()
            said: dict[str, Any] = json.loads(await reader.readline())
            writer.close()
            await writer.wait_closed()
            return said
        finally:
            await line.close()

    assert asyncio.run(sent())["kind"] == BadInput.__name__


def test_a_box_that_does_not_run_cannot_be_asked(golden: Golden) -> None:
    with pytest.raises(NotFound) as refused:
        ask(WORK_DIR, {"ask": "pools"})
    assert str(refused.value) == golden


async def test_other_users_who_say_nothing_are_sent_away_and_the_owner_is_heard(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    async def enter(user: int) -> Mapping[str, Any]:
        return {"entered": user}

    users = iter([*[65534] * (control.MAX_CALLERS + 5), 0])
    monkeypatch.setattr(control, "credentials_of", lambda _: Credentials(0, next(users), 0))
    monkeypatch.setattr(control, "LINE_S", 1.0)
    line = Control(WORK_DIR, answer, enter)
    await line.open()
    silent = []
    try:
        for _ in range(control.MAX_CALLERS + 5):
            silent.append(await asyncio.open_unix_connection(str(socket_path(WORK_DIR))))
        said = await asyncio.gather(*(asyncio.wait_for(reader.readline(), 20) for reader, _ in silent))
        assert len(set(said)) == 1
        assert json.loads(said[0]) == {"kind": "BadInput", "error": golden}
        assert await asyncio.to_thread(ask, WORK_DIR, {"ask": "echo", "word": "mine"}) == {"said": "mine"}
    finally:
        for _, writer in silent:
            writer.close()
        await line.close()
