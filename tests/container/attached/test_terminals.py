"""Containers on a terminal of their own, under both runtimes: real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import ContainerConfig, Containerizer
from mesos_gpu.container.attached.switchboard import MAX_BEHIND, Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import SessionConfig
from mesos_gpu.container.spec.runtime_spec import Command
from tests.support.container.box import Box

pytestmark = pytest.mark.root

RUNTIMES = ("crun", "runc")
ECHO = (
    'stty -echo; echo ready; while read line; do echo "heard $line"; [ $line != size ] || stty size; done; '
    "echo over; exit 3"
)


def on_terminal(box: Box, name: str, shell: str, window: tuple[int, int] | None = None) -> ContainerConfig:
    return replace(box.config(name, shell=shell), terminal=True, window=window)


def board_of(containerizer: Containerizer, name: str = "shell") -> Switchboard:
    board = containerizer.switchboard(name)
    assert board is not None
    return board


async def until(attachment: Attachment, text: bytes) -> bytes:
    said = b""
    while text not in said:
        try:
            stream, data = await asyncio.wait_for(attachment.__anext__(), 60)
        except (asyncio.TimeoutError, StopAsyncIteration):
            raise AssertionError(f"{text!r} was not said, but {said!r}") from None
        assert stream == "STDOUT"
        said += data
    return said


async def rest(attachment: AsyncIterator[tuple[str, bytes]]) -> bytes:
    return b"".join([data async for _, data in attachment])


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_container_is_typed_into_resized_and_heard_by_several(box: Box, runtime: str) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    line = f"tty; stty size; {ECHO}"
    await containerizer.launch(on_terminal(box, "shell", line, window=(31, 97)))
    board = board_of(containerizer)
    first, second = board.attach(), board.attach()
    box.until_said("shell", "ready")
    await board.write(b"one\n")
    await until(first, b"heard one\r\n")
    await until(second, b"heard one\r\n")
    second.close()
    board.resize(40, 120)
    await board.write(b"size\n")
    await until(first, b"40 120")
    board.end_input()
    assert b"over" in await rest(first)
    assert (await containerizer.wait("shell")).exit_code == 3
    begin = "/dev/pts/0\n31 97\nready\nheard one\n"
    assert box.said("shell").replace("/dev/console", "/dev/pts/0") == f"{begin}heard size\n40 120\nover\n"
    assert box.said("shell", "stderr") == "", "a terminal has one stream"


async def test_nobody_has_to_be_attached_and_one_who_does_not_read_holds_nobody_up(box: Box) -> None:
    containerizer = await box.open()
    flood = "yes 0123456789 | head -c 4000000; echo; echo done"
    await containerizer.launch(on_terminal(box, "alone", flood))
    assert (await containerizer.wait("alone")).exit_code == 0
    assert box.said("alone").endswith("done\n")
    assert box.said("alone").count("\n") > 4_000_000 // 11

    await containerizer.launch(on_terminal(box, "shell", f"read go; {flood}"))
    stalled = board_of(containerizer).attach()
    await board_of(containerizer).write(b"\n")
    assert (await containerizer.wait("shell")).exit_code == 0
    assert box.said("shell").endswith("done\n")
    assert stalled.behind <= 2 * MAX_BEHIND
    assert len(await rest(stalled)) < 4_000_000, "it was cut off"


async def test_a_command_that_is_over_at_once_has_said_all_and_its_status_is_known(box: Box) -> None:
    containerizer = await box.open()
    for number in range(5):
        await containerizer.launch(on_terminal(box, f"quick{number}", "echo said; exit 4"))
    for number in range(5):
        assert (await containerizer.wait(f"quick{number}")).exit_code == 4
        assert box.said(f"quick{number}") == "said\n"


async def test_ctrl_c_interrupts_and_a_kill_ends_with_nothing_left(box: Box) -> None:
    containerizer = await box.open()
    await containerizer.launch(on_terminal(box, "shell", "trap 'echo interrupted; exit 5' INT; echo ready; cat"))
    box.until_said("shell", "ready")
    ended = asyncio.ensure_future(containerizer.wait("shell"))
    while not ended.done():
        await board_of(containerizer).write(b"\x03")
        await asyncio.wait([ended], timeout=0.5)  # again: the shell may just have been about to start the command
    assert ended.result().exit_code == 5
    assert "interrupted" in box.said("shell")
    await containerizer.launch(on_terminal(box, "held", "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done"))
    box.until_said("held", "ready")
    heard = board_of(containerizer, "held").attach()
    await containerizer.destroy("held")
    await rest(heard)
    assert box.leftovers(root_cgroup=True) == []


async def test_commands_and_sessions_inside_have_no_part_in_the_terminal(box: Box) -> None:
    containerizer = await box.open(runtimes=("crun",))
    await containerizer.launch(on_terminal(box, "shell", ECHO, window=(31, 97)))
    output = box.folder / "checked"
    assert await containerizer.execute("shell", Execution(("sh", "-c", "tty; exit 6"), output, {})) == 6
    assert output.read_text() == "not a tty\n"
    piped = await containerizer.enter(SessionConfig("shell.one", Command(value="echo mine")))
    assert await rest(piped) == b"mine\n"
    other = await containerizer.enter(
        SessionConfig("shell.two", Command(value="tty; sleep 0.1; echo mine"), terminal=True)
    )
    assert b"mine" in await rest(other)
    assert "mine" not in box.said("shell")


async def test_a_nested_container_has_a_terminal_too(box: Box) -> None:
    containerizer = await box.open()
    await containerizer.launch(box.config("parent", shell="sleep 600"))
    await containerizer.launch(replace(on_terminal(box, "parent.shell", ECHO), cpus_milli=0, mem_bytes=0))
    board = board_of(containerizer, "parent.shell")
    heard = board.attach()
    box.until_said("parent.shell", "ready")
    await board.write(b"you\n")
    await until(heard, b"heard you")
    await containerizer.destroy("parent")
    assert box.leftovers(root_cgroup=True) == []


async def test_a_runtime_that_refuses_leaves_no_holder(box: Box) -> None:
    containerizer = await box.open()
    config = replace(on_terminal(box, "shell", ""), argv=("/no/such/program",))
    end: object
    try:
        await containerizer.launch(config)
        end = (await containerizer.wait("shell")).exit_code
    except Exception as error:  # which of both, depends on the init
        end = error
    assert end != 0
    assert box.leftovers(root_cgroup=True) == []


async def test_a_terminal_outlives_the_agent(box: Box) -> None:
    script = f"""
import asyncio, os, signal
from pathlib import Path
from tests.support.container.box import Box
from tests.container.attached.test_terminals import ECHO, board_of, on_terminal, until
async def main():
    box = Box(Path({str(box.folder)!r}))
    box.cgroups_root = {box.cgroups_root!r}
    containerizer = await box.open()
    for name in ("shell", "ends"):
        await containerizer.launch(on_terminal(box, name, ECHO))
        box.until_said(name, "ready")
        heard = board_of(containerizer, name).attach()
        await board_of(containerizer, name).write(b"first\\n")
        await until(heard, b"heard first")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=Path.cwd())
    status = await process.wait()
    second = await box.open(live=["shell", "ends"])
    assert status == -signal.SIGKILL
    board = board_of(second)
    heard = board.attach()
    await board.write(b"second\n")
    assert b"first" not in await until(heard, b"heard second"), "from now on"
    await second.close()
    third = await box.open(live=["shell", "ends"])
    board_of(third, "ends").end_input()
    assert (await third.wait("ends")).exit_code == 3
    board_of(third).end_input()
    assert (await third.wait("shell")).exit_code == 3
    assert box.said("shell") == "ready\nheard first\nheard second\nover\n"


async def test_a_container_whose_holder_is_killed_is_hung_up(box: Box) -> None:
    containerizer = await box.open()
    await containerizer.launch(on_terminal(box, "shell", "echo ready; exec sleep 600"))
    box.until_said("shell", "ready")
    heard = board_of(containerizer).attach()
    holder = containerizer.record("shell").holder_pid
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    await rest(heard)
    assert (await asyncio.wait_for(containerizer.wait("shell"), 60)).signal == signal.SIGHUP
