"""Output of containers that is kept in files of limited size, also while no agent is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import Containerizer
from mesos_gpu.container.host.users import find_user
from mesos_gpu.container.spec.output import Kept, OutputLimits
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import ContainerError
from tests.support.container.box import Box
from tests.support.container.waiting import until

pytestmark = pytest.mark.root

LIMITS = OutputLimits(Kept(8192, 3), Kept(4096))
COUNT = 'i=0; while [ $i -lt {} ]; do echo "line $i of many"; i=$((i + 1)); done; '


def files(box: Box, name: str) -> dict[str, int]:
    """Return the sizes of what is there; a file that is renamed just then, as rotation does, is left out."""
    found = {}
    for path in (box.folder / "sandboxes" / name).iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found


async def test_a_containers_output_is_kept_within_its_limits(box: Box, containerizer: Containerizer) -> None:
    shell = COUNT.format(2000) + "echo bad >&2; echo the end"
    config = replace(box.config("c", shell=shell, user="nobody"), output=LIMITS)
    os.chown(config.sandbox, find_user("nobody").uid, -1)  # as agents do
    await containerizer.launch(config)
    assert (await containerizer.wait("c")).exit_code == 0
    found = files(box, "c")
    assert sorted(found) == ["stderr", "stdout", "stdout.1", "stdout.2", "stdout.3"]
    assert max(found.values()) <= 8192
    text = "".join(box.said("c", name) for name in ("stdout.3", "stdout.2", "stdout.1", "stdout")).splitlines()
    first = 2001 - len(text)
    assert text == [*(f"line {number} of many" for number in range(first, 2000)), "the end"]
    assert box.said("c", "stderr") == "bad\n"
    owners = {path.stat().st_uid for path in (box.folder / "sandboxes" / "c").iterdir()}
    assert owners == {find_user("nobody").uid}


async def test_it_goes_on_while_no_agent_is_there_and_is_taken_up_again(box: Box) -> None:
    first = await box.open()
    go = box.folder / "sandboxes" / "c" / "go"
    shell = f"echo begun; until [ -e go ]; do sleep 0.02; done; {COUNT.format(2000)} echo the end"
    await first.launch(replace(box.config("c", shell=shell), output=LIMITS))
    box.until_said("c", "begun")
    await first.close()
    go.touch()
    until(lambda: "stdout.3" in files(box, "c"))
    box.until_exit_file("c")
    second = await box.open(["c"])
    assert (await second.wait("c")).exit_code == 0
    assert box.said("c").endswith("the end\n")
    assert "begun" not in box.said("c", "stdout.1")


async def test_a_terminal_is_kept_within_its_limits_too(box: Box, containerizer: Containerizer) -> None:
    config = replace(box.config("c", shell=COUNT.format(500) + "echo the end"), output=LIMITS, terminal=True)
    await containerizer.launch(config)
    assert (await containerizer.wait("c")).exit_code == 0
    found = files(box, "c")
    assert "stdout.1" in found
    assert max(found.values()) <= 8192
    assert box.said("c").endswith("the end\n")


async def test_who_writes_for_a_container_runs_as_its_user_and_ends_with_it(
    box: Box, containerizer: Containerizer
) -> None:
    config = replace(box.config("c", shell="echo ready; sleep 60", user="nobody"), output=LIMITS)
    await containerizer.launch(config)
    box.until_said("c", "ready")
    pid = containerizer.record("c").rotator_pid
    assert pid is not None
    status = Path(f"/proc/{pid}/status").read_text()
    uid = find_user("nobody").uid
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n" in status
    assert "Groups:\t \n" in status
    open_ = {str(fd.readlink()).partition(":")[0] for fd in Path(f"/proc/{pid}/fd").iterdir()}
    sandbox = str(box.folder / "sandboxes" / "c")
    assert open_ == {"/dev/null", "pipe", sandbox, f"{sandbox}/stdout", f"{sandbox}/stderr"}
    await asyncio.gather(containerizer.wait("c"), containerizer.kill("c", 0.0))
    assert not Path(f"/proc/{pid}").exists()


async def test_a_launch_that_fails_leaves_nobody(
    box: Box, containerizer: Containerizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ContainerError("no")

    monkeypatch.setattr(Conmon, "start", refuse)
    with pytest.raises(ContainerError, match="no"):
        await containerizer.launch(replace(box.config("c", "true"), output=LIMITS))
    assert [line for line in box.leftovers() if "process" in line] == []
