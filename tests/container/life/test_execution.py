"""One more command in a container that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos_gpu.container import Containerizer
from mesos_gpu.container.life.execution import PID_FILES, Execution
from mesos_gpu.errors import ContainerError, NotFound
from mesos_gpu.isolator.plan import DEFAULT_PATH
from tests.support.container.box import Box
from tests.support.golden import Golden

pytestmark = pytest.mark.root


def shell(box: Box, line: str, timeout_s: float | None = 30.0, **environment: str) -> Execution:
    return Execution(("/bin/sh", "-c", line), box.folder / "sandboxes" / "c" / "stderr", environment, timeout_s)


async def test_a_command_has_the_containers_user_folder_environment_cgroup_and_namespaces(
    box: Box, containerizer: Containerizer
) -> None:
    variables = {"PATH": DEFAULT_PATH, "A": "container", "B": "container"}
    (box.folder / "sandboxes" / "c").mkdir(parents=True)
    (box.folder / "sandboxes" / "c").chmod(0o777)
    look = "id -un; pwd; readlink /proc/self/ns/mnt; grep :memory: /proc/self/cgroup; echo $A $B"
    config = box.config("c", shell=f"{look}; echo up; exec sleep 600", user="nobody", environment=variables)
    await containerizer.launch(config)
    box.until_said("c", "up")
    assert await containerizer.execute("c", shell(box, f"{look}; exit 5", B="check")) == 5
    assert box.said("c", "stderr") == box.said("c").replace("container container\nup\n", "container check\n")
    assert await containerizer.execute("c", shell(box, "kill -9 $$")) == 137


async def test_one_that_takes_too_long_is_ended_with_all_it_has_made(
    box: Box, containerizer: Containerizer, golden: Golden
) -> None:
    await containerizer.launch(box.config("c", shell="echo up; exec sleep 600"))
    box.until_said("c", "up")
    before = containerizer._cgroups.pids("c")
    with pytest.raises(ContainerError) as refused:
        await containerizer.execute("c", shell(box, "sleep 601 & (sleep 602 & sleep 603) & wait", 0.5))
    assert str(refused.value) == golden
    while containerizer._cgroups.pids("c") != before:  # noqa: ASYNC110 - the container's init reaps orphans
        await asyncio.sleep(0.01)
    assert list((box.folder / "run" / "bundles" / "c").glob("exec-*")) == []


async def test_what_a_killed_agent_had_begun_is_ended_by_the_next(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", shell="echo up; exec sleep 600"))
    box.until_said("c", "up")
    before = containerizer._cgroups.pids("c")
    probing = asyncio.ensure_future(containerizer.execute("c", shell(box, "sleep 601")))
    bundle = box.folder / "run" / "bundles" / "c"
    while not [path for path in bundle.glob(PID_FILES) if path.read_text()]:  # noqa: ASYNC110 - the runtime writes it
        await asyncio.sleep(0.01)
    (pid_file,) = bundle.glob(PID_FILES)
    containerizer._executor.end_strays("c", bundle)
    while containerizer._cgroups.pids("c") != before:  # noqa: ASYNC110 - the container's init reaps orphans
        await asyncio.sleep(0.01)
    assert not pid_file.exists()
    assert await probing == 137


async def test_nothing_runs_in_a_container_that_is_gone(box: Box, containerizer: Containerizer, tmp_path: Path) -> None:
    await containerizer.launch(box.config("c", "true"))
    await containerizer.wait("c")
    with pytest.raises(NotFound):
        await containerizer.execute("c", shell(box, "true"))
