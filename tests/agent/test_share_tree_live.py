"""The tree of cGPU's files, mounted by an agent: read, written, refused, and healed after kills."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesos_gpu.base.linux.mounts import current_mounts
from tests.support.agent.live import LiveAgent, unstarted_agent
from tests.support.children import children
from tests.support.sharing.parts import part

pytestmark = pytest.mark.root


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with unstarted_agent(tmp_path) as live:
        yield live
    assert not any(mount.path == str(tmp_path / "km") for mount in current_mounts())


async def read(path: Path) -> str:
    """Return what is in a file, on a thread: its server is a child of the agent, and must not wait for us."""
    return await asyncio.to_thread(path.read_text)


def has(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except OSError:
        return False


def program(agent: LiveAgent) -> int | None:
    assert agent.process is not None
    return next((child for child, words in children(agent.process.pid) if "tree_program" in words), None)


def fuse_is_here() -> bool:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError:
        return False
    return True


async def refused(agent: LiveAgent, *flags: str) -> bool:
    """Tell whether this machine has no FUSE; then see that the agent says so, and start it without."""
    if fuse_is_here():
        return False
    with pytest.raises(AssertionError, match="/dev/fuse cannot be opened"):
        await agent.start(*flags)
    await agent.start(flags[0])
    return True


async def test_files_are_read_and_written_and_a_wrong_word_is_einval(agent: LiveAgent, tmp_path: Path) -> None:
    tree = tmp_path / "km"
    flags = ("--shared_gpus=2", f"--gpu_share_tree={tree}")
    if await refused(agent, *flags):
        return
    await agent.start(*flags)
    agent.run("one", "exec sleep 600", resources=part(2, 6, 2))
    await agent.reaches("one", "TASK_RUNNING")
    await agent.until(lambda: has(tree / "2" / "free_weight", "23\n"))
    (container,) = [path for path in (tree / "2").iterdir() if path.is_dir()]
    assert await read(container / "id") == f"{container.name}\n"
    assert await read(container / "memsize") == f"{6144 << 20}\n"
    shell = f"echo 3 > {tree}/2/policy && echo 4 > {container}/weight && cat {tree}/2/free_weight"
    done = await asyncio.create_subprocess_shell(shell, stdout=asyncio.subprocess.PIPE)
    assert (await done.communicate())[0] == b"21\n"
    (card,) = await agent.get("/gpu_shares")
    assert (card["policy"], card["containers"][0]["weight"]) == (3, 4)
    for file, wrong in ((tree / "2" / "policy", "9"), (container / "weight", "99"), (container / "memsize", "1")):
        with pytest.raises(OSError, match="Invalid argument"):
            await asyncio.to_thread(file.write_text, wrong)
    log = agent.log.read_text()
    assert "policy" in log
    assert "memsize" in log


async def test_a_tree_is_there_again_whoever_is_killed(agent: LiveAgent, tmp_path: Path) -> None:
    tree = tmp_path / "km"
    flags = ("--shared_gpus=2", f"--gpu_share_tree={tree}")
    if await refused(agent, *flags):
        return
    await agent.start(*flags)
    await agent.until(lambda: has(tree / "2" / "policy", "1\n"))
    before = program(agent)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    await agent.until(lambda: program(agent) not in (None, before) and has(tree / "2" / "policy", "1\n"))
    # Both at once: what is left is a mount that answers nothing.
    last = program(agent)
    assert last is not None
    os.kill(last, signal.SIGSTOP)
    await agent.signal(signal.SIGKILL)
    os.kill(last, signal.SIGKILL)
    await agent.start(*flags)
    await agent.until(lambda: has(tree / "2" / "policy", "1\n"))
