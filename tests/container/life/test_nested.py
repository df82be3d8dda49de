"""Containers in containers, and sessions inside them: real ones, under both runtimes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import ContainerConfig
from mesos_gpu.container.attached.switchboard import Attachment
from mesos_gpu.container.cgroups import find_cgroups
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import SessionConfig
from mesos_gpu.container.spec.nesting import cgroup_of
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput, Conflict, NotFound
from mesos_gpu.isolator.plan import DeviceRule, LaunchPlan
from tests.support.container.box import Box
from tests.support.golden import Golden

pytestmark = pytest.mark.root

RUNTIMES = ("crun", "runc")
NEST = "parent.child"
FOREVER = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"


def nested(box: Box, name: str = NEST, **more: object) -> ContainerConfig:
    shell = str(more.pop("shell", FOREVER))
    return replace(box.config(name, shell=shell, mem_bytes=0), cpus_milli=0, **more)  # type: ignore[arg-type]


def session(line: str, name: str = "parent.session", **more: object) -> SessionConfig:
    return SessionConfig(name, Command(value=line), **more)  # type: ignore[arg-type]


async def heard(attachment: Attachment) -> dict[str, bytes]:
    said: dict[str, bytes] = {"STDOUT": b"", "STDERR": b""}
    async for stream, data in attachment:
        said[stream] += data
    return said


def cgroups(pid: int) -> set[str]:
    return {line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()} - {"/"}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_nested_container_shares_limits_devices_and_end_of_its_parent(
    box: Box, runtime: str, golden: Golden
) -> None:
    rule = DeviceRule("c", 195, 1, "rwm")
    box.isolator.plan = LaunchPlan(rules=(rule,))
    containerizer = await box.open(runtimes=(runtime,))
    parent = await containerizer.launch(box.config("parent", shell=FOREVER, gpus=1))
    try_gpus = (
        "mkdir n; for i in 0 1; do mknod n/$i c 195 $i; { : < n/$i; } 2>&1 | sed 's/.*: //'; done; ps ax | wc -l; "
    )
    child = await containerizer.launch(nested(box, shell=try_gpus + FOREVER))
    grandchild = await containerizer.launch(nested(box, "parent.child.grandchild"))
    for name in ("parent", NEST, "parent.child.grandchild"):
        box.until_said(name, "ready")
    refused, opened, processes, _ = box.said(NEST).splitlines()
    assert (refused, opened) == ("Operation not permitted", "No such device or address")
    assert int(processes) <= 6, "it has a pid namespace of its own"
    for pid, name in ((parent, "parent"), (child, NEST), (grandchild, "parent.child.grandchild")):
        assert all(path.endswith(f"{box.cgroups_root}/{cgroup_of(name)}") for path in cgroups(pid))
    assert Path(f"/proc/{child}/ns/net").readlink() == Path(f"/proc/{parent}/ns/net").readlink()
    assert Path(f"/proc/{child}/ns/mnt").readlink() != Path(f"/proc/{parent}/ns/mnt").readlink()
    usage = await containerizer.usage("parent")
    assert usage["processes"] >= 8, "the parent's numbers have its children's in them"

    with pytest.raises(Conflict):
        await containerizer.launch(nested(box))
    with pytest.raises(NotFound) as refused:
        await containerizer.launch(nested(box, "nobody.child"))
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        await containerizer.launch(nested(box, "parent.greedy", gpus=1))
    assert str(refused.value) == golden

    await containerizer.send_signal(NEST, signal.SIGTERM)
    assert (await containerizer.wait(NEST)).exit_code == 7
    with pytest.raises(NotFound):
        await containerizer.record("parent.child.grandchild"), "children end before their parents"
    with pytest.raises(NotFound):
        await containerizer.send_signal(NEST, signal.SIGKILL)
    assert "parent" in containerizer.containers()

    await containerizer.launch(nested(box, "parent.other"))
    waiting = asyncio.ensure_future(containerizer.wait("parent.other"))
    await asyncio.sleep(0)
    os.kill(parent, signal.SIGKILL)
    assert (await containerizer.wait("parent")).signal == signal.SIGKILL
    assert waiting.done()
    assert (await waiting).signal == signal.SIGKILL
    for name in (NEST, "parent.other"):
        with pytest.raises(NotFound):
            await containerizer.wait(name)
    assert box.leftovers(root_cgroup=True) == []
    assert box.isolator.free == 4


async def test_a_nested_container_with_a_cgroup_of_its_own_has_its_limits_and_no_gpu(box: Box) -> None:
    box.isolator.plan = LaunchPlan(rules=(DeviceRule("c", 195, 1, "rwm"),))
    containerizer = await box.open()
    await containerizer.launch(box.config("parent", shell=FOREVER, gpus=1, mem_bytes=256 << 20))
    hog = "mkdir n; mknod n/1 c 195 1; (: < n/1); exec python3 -c 'x = bytearray(1 << 30)'"
    config = replace(box.config(NEST, shell=hog, mem_bytes=32 << 20), shares_cgroup=False)
    if find_cgroups(box.cgroups_root).version == 2:
        with pytest.raises(BadInput, match="share_cgroups=false"):
            await containerizer.launch(config)
        return
    await containerizer.launch(config)
    end = await containerizer.wait(NEST)
    assert end.oom
    assert end.mem_limit_bytes == 32 << 20
    assert "Operation not permitted" in box.said(NEST, "stderr")
    assert "parent" in containerizer.containers(), "its parent has other limits"


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_session_is_inside_its_parent_and_ends_with_its_first_process(
    box: Box, runtime: str, golden: Golden
) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    variables = {"PATH": "/usr/bin:/bin", "OWN": "parent's", "LEFT": "as it is"}
    await containerizer.launch(box.config("parent", shell=FOREVER, environment=variables, user="nobody"))
    await containerizer.launch(nested(box))
    box.until_said("parent", "ready")
    line = "echo $OWN $LEFT; id -un; pwd; ps ax | grep -c [t]rap; cat /proc/self/cgroup >&2; sleep 1000 & exit 3"
    said = await heard(await containerizer.enter(session(line, environment={"OWN": "session's"})))
    sandbox = str(box.folder / "sandboxes" / "parent")
    assert said["STDOUT"].decode().split("\n")[:3] == ["session's as it is", "nobody", sandbox]
    assert int(said["STDOUT"].split()[-1]) >= 1, "it sees its parent's processes"
    # Into the tree of version 2 beside those of version 1, runc's are moved when they run already.
    lines = [line for line in said["STDERR"].splitlines() if runtime == "crun" or not line.startswith(b"0::/..")]
    assert {line.rpartition(b":")[2] for line in lines} == {b"/mesos/session"}, "below its parent's cgroup"
    assert (await containerizer.wait("parent.session")).exit_code == 3
    await containerizer.destroy("parent.session")

    said = await heard(await containerizer.enter(session("ps ax | grep -c [t]rap", "parent.child.session")))
    assert int(said["STDOUT"]) == 2, "the init of the nested container and its shell, not the parent's"
    said = await heard(await containerizer.enter(SessionConfig("parent.typo", Command(False, "no-such-program"))))
    assert b"no-such-program" in said["STDERR"]
    executed = Execution(("sh", "-c", "cat /proc/self/cgroup"), box.folder / "executed", {})
    assert await containerizer.execute(NEST, executed) == 0
    assert {line.rpartition(":")[2] for line in executed.output.read_text().splitlines()} == {"/"}, "the child's own"
    with pytest.raises(BadInput) as refused:
        await containerizer.enter(session("true", "alone"))
    assert str(refused.value) == golden

    attachment = await containerizer.enter(session("cat; echo end", "parent.typed"))
    board = containerizer.switchboard("parent.typed")
    assert board is not None
    await board.write(b"typed\n")
    board.end_input()
    assert await heard(attachment) == {"STDOUT": b"typed\nend\n", "STDERR": b""}


async def test_a_session_on_a_terminal_is_resized_and_interrupted(box: Box) -> None:
    containerizer = await box.open(runtimes=("crun",))
    await containerizer.launch(box.config("parent", shell=FOREVER))
    # A terminal gets its size right after the command begins: one that looks at once may see 0 by 0.
    sized = 'while [ "$(stty size)" = "0 0" ]; do sleep 0.01; done; stty size'
    config = session(f"trap 'echo interrupted; stty size; exit 5' INT; tty; {sized}; sleep 1000 & wait", terminal=True)
    attachment = await containerizer.enter(replace(config, window=(31, 97)))
    board = containerizer.switchboard("parent.session")
    assert board is not None
    said = b""
    while b"31 97" not in said:
        said += (await attachment.__anext__())[1]
    assert b"/dev/pts/0" in said
    board.resize(40, 120)
    await board.write(b"\x03")
    said = (await heard(attachment))["STDOUT"]
    assert b"interrupted" in said
    assert b"40 120" in said
    assert (await containerizer.wait("parent.session")).exit_code == 5


async def test_a_slow_reader_holds_up_its_own_session_and_nobody_else(box: Box) -> None:
    containerizer = await box.open()
    await containerizer.launch(box.config("parent", shell=FOREVER))
    stalled = await containerizer.enter(session("yes | head -c 8000000", "parent.flood"))
    assert (await heard(await containerizer.enter(session("echo quick"))))["STDOUT"] == b"quick\n"
    size = 0
    async for _, data in stalled:
        size += len(data)
        assert stalled.behind <= (1 << 20) + 32768
    assert size == 8_000_000
    held = await containerizer.enter(session("yes", "parent.held"))
    await containerizer.destroy("parent.held")
    held.close()


async def test_a_new_process_takes_up_nested_containers_and_ends_the_sessions_of_the_dead_one(box: Box) -> None:
    script = f"""
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.container.box import Box
from tests.container.life.test_nested import nested, session, FOREVER
async def main():
    box = Box(Path({str(box.folder)!r}))
    box.cgroups_root = {box.cgroups_root!r}
    containerizer = await box.open()
    await containerizer.launch(box.config("parent", shell=FOREVER))
    await containerizer.launch(nested(box))
    await containerizer.launch(nested(box, "parent.quits", shell="exit 9"))
    await containerizer.launch(box.config("stranger", shell=FOREVER))
    await containerizer.launch(nested(box, "stranger.child"))
    await containerizer.enter(session("setsid sleep 1000"))
    await containerizer.wait("parent.quits")
    for name in ("parent", "parent.child"):
        box.until_said(name, "ready")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=Path.cwd())
    assert await process.wait() == -signal.SIGKILL
    containerizer = await box.open(live=["parent"])
    assert containerizer.containers() == {"parent", NEST}
    assert (await containerizer.wait("parent.quits")).exit_code == 9
    assert [left for left in box.leftovers(root_cgroup=True) if "session" in left or "stranger" in left] == []
    await containerizer.send_signal(NEST, signal.SIGTERM)
    assert (await containerizer.wait(NEST)).exit_code == 7
    await containerizer.launch(nested(box, "parent.again"))
    await containerizer.destroy("parent")
    assert box.leftovers(root_cgroup=True) == []
    assert list((box.folder / "run" / "containers").iterdir()) == []


async def test_a_standalone_container_is_taken_up_although_nobody_speaks_for_it(box: Box) -> None:
    first = await box.open()
    await first.launch(replace(box.config("alone", shell=FOREVER), standalone=True))
    await first.launch(nested(box, "alone.child"))
    await first.close()
    second = await box.open()
    assert second.containers() == {"alone", "alone.child"}
    record = json.loads((box.folder / "run" / "containers" / "alone.json").read_text())
    assert record["standalone"]
    await second.destroy("alone")
