"""The agent program with `--userns_remap`: tasks and task groups with simulated GPUs, across its death."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.agent.documents import task
from tests.support.agent.groups import launch
from tests.support.agent.groups import said as said_in_pod
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.folders import open_folder
from tests.support.golden import Golden
from tests.support.ids import EACH, first_of_ours
from tests.support.sharing.parts import part

pytestmark = pytest.mark.root

FIRST = first_of_ours()
FLAG = f"--userns_remap={FIRST}:{EACH}"
LOOK = r"""
xargs < /proc/self/uid_map; id -u
ls /dev | grep -E '^nvidia[0-9]+$' | wc -l; nvidia-smi -L | wc -l
for node in /dev/nvidia[0-9]*; do { : < $node; } 2>&1 | sed 's/.*: //'; done
touch /etc/mesos-gpu-test 2>&1 | sed 's/.*: //'
echo looked; exec sleep 600
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with open_folder() as place:
        yield place


@pytest.fixture
async def agent(place: Path) -> AsyncIterator[LiveAgent]:
    async with live_agent(place, FLAG) as live:
        yield live


async def test_tasks_have_their_gpus_and_are_nobody_on_the_host(agent: LiveAgent) -> None:
    agent.run("root", LOOK, gpus=2)
    agent.run("nobody", "", command={"value": LOOK, "user": "nobody"}, gpus=1)
    for task_id, gpus, uid in (("root", 2, 0), ("nobody", 1, 65534)):
        said = (await agent.until_said(task_id, "looked")).splitlines()
        # ENXIO from the kernel, which has no such driver here: it was allowed.
        expected = [f"0 {FIRST} {EACH}", str(uid), str(gpus), str(gpus), *gpus * ["No such device or address"]]
        assert said == [*expected, "Permission denied", "looked"]
    pids = [
        int(pid.name) for pid in Path("/proc").iterdir() if pid.name.isdecimal() and FIRST <= _uid(pid) < FIRST + EACH
    ]
    assert pids
    agent.run("other", "true", gpus=2)
    assert (await agent.reaches("other", "TASK_FAILED"))["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"
    await agent.signal(signal.SIGKILL)
    await agent.start(FLAG)
    agent.kill("root")
    await agent.reaches("root", "TASK_KILLED")
    agent.run("again", "nvidia-smi -L", gpus=3)
    await agent.reaches("again", "TASK_FINISHED")
    assert (await agent.said("again")).count("Simulated GPU") == 3


def _uid(process: Path) -> int:
    try:
        return os.stat(process).st_uid  # noqa: PTH116
    except OSError:
        return 0


async def test_a_task_that_may_do_without_is_who_it_is_on_the_host(place: Path) -> None:
    who = "xargs < /proc/self/uid_map; id -u; echo looked; exec sleep 600"
    out = {"labels": {"labels": [{"key": "USERNS", "value": "host"}]}}
    async with live_agent(place, FLAG, "--userns_remap_exempt") as agent:
        agent.run("out", "", command={"value": who, "user": "nobody"}, gpus=1, **out)
        agent.run("in", "", command={"value": who, "user": "nobody"}, gpus=1)
        assert (await agent.until_said("out", "looked")).splitlines() == ["0 0 4294967295", "65534", "looked"]
        assert (await agent.until_said("in", "looked")).splitlines() == [f"0 {FIRST} {EACH}", "65534", "looked"]
        # The next agent, which lets nobody out, takes it over as it is.
        await agent.signal(signal.SIGKILL)
        await agent.start(FLAG)
        agent.run("again", "", command={"value": who, "user": "nobody"}, **out)
        assert "(--userns_remap_exempt)" in (await agent.reaches("again", "TASK_ERROR"))["message"]
        agent.kill("out")
        await agent.reaches("out", "TASK_KILLED")


POOL = f"--userns_remap={FIRST}:{4 * EACH}"
"""What files bear, and three containers."""


async def test_shared_cards_and_their_tree(place: Path) -> None:
    """A part's files are the host's root's, who sets weights; a task finds its card, and no tree."""
    tree = place / "km"
    by_fuse = os.access("/dev/fuse", os.R_OK | os.W_OK)
    async with live_agent(place, POOL, "--shared_gpus=2", *([f"--gpu_share_tree={tree}"] if by_fuse else [])) as agent:
        look = (
            f"xargs < /proc/self/uid_map; ls /dev | grep nvidia2; nvidia-smi -L | wc -l; ls {tree} 2>/dev/null | wc -l"
        )
        for name, first in (("one", 0), ("two", 6)):
            agent.run(name, f"{look}; echo looked; exec sleep 600", resources=part(2, 6, first=first))
        said = [(await agent.until_said(name, "looked")).splitlines() for name in ("one", "two")]
        assert {lines[0] for lines in said} == {f"0 {FIRST + place * EACH} {EACH}" for place in (1, 2)}
        for lines in said:
            assert lines[1:3] == ["nvidia2", "1"]
        (card,) = await agent.get("/gpu_shares")
        assert len(card["containers"]) == 2
        if by_fuse:
            await agent.until((tree / "2").is_dir)
            await agent.until(lambda: len([path for path in (tree / "2").iterdir() if path.is_dir()]) == 2)
            folders = [path for path in (tree / "2").iterdir() if path.is_dir()]
            await asyncio.to_thread((folders[0] / "weight").write_text, "3")
            (card,) = await agent.get("/gpu_shares")
            assert sorted(container["weight"] for container in card["containers"]) == [1, 3]
            assert {lines[3] for lines in said} == {"0"}


async def test_a_task_of_a_group_fetches_local_files_as_its_user_in_the_namespace(
    agent: LiveAgent, place: Path, golden: Golden
) -> None:
    (place / "open").write_text("open")
    (place / "secret").write_text("secret")
    (place / "secret").chmod(0o600)
    for name, state in (("open", "TASK_FINISHED"), ("secret", "TASK_FAILED")):
        uris = [{"value": f"file://{place}/{name}"}]
        launch(agent, task(name, command={"value": f"cat {name}", "user": "root", "uris": uris}))
        status = await agent.reaches(name, state)
        if name == "open":
            assert await said_in_pod(agent, "open") == "open"
            await agent.master.got("ExitedExecutorMessage")
    assert status["message"] == golden
