"""CDI devices of any vendor in containers of a live agent: asked for by name, or answered by a device plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.tasks import DEVICES_LABEL
from tests.support.agent.documents import scalar, task
from tests.support.agent.groups import launch, said
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.golden import Golden

pytestmark = pytest.mark.root

EXAMPLES = Path(__file__).parents[3] / "examples" / "device-plugins"
NIC, LED = "example.com/nic", "example.com/led"


def spec(folder: Path, kind: str, devices: dict[str, dict[str, Any]], **common: Any) -> None:
    listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    document = {"cdiVersion": "0.5.0", "kind": kind, "devices": listed, "containerEdits": common}
    (folder / f"{kind.replace('/', '-')}.json").write_text(json.dumps(document))


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    """Return a folder with the file of a vendor: a card that is a node, a variable, a firmware and a hook."""
    folder = tmp_path / "cdi"
    for made in (folder, tmp_path / "firmware", tmp_path / "seen"):
        made.mkdir()
    (tmp_path / "firmware" / "version").write_text("7\n")
    hook = {"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", 'cat >"$STATE"']}
    card = {
        "deviceNodes": [{"path": "/dev/nic0", "hostPath": "/dev/zero", "permissions": "r"}],
        "env": ["NIC=zero"],
        "hooks": [{**hook, "env": [f"STATE={tmp_path / 'state'}"], "timeout": 30}],
    }
    mount = {
        "hostPath": str(tmp_path / "firmware"),
        "containerPath": str(tmp_path / "seen"),
        "options": ["ro", "rbind"],
    }
    gone = {"deviceNodes": [{"path": "/dev/gone"}]}
    spec(folder, NIC, {"0": card, "gone": gone}, mounts=[mount], env=["NICS=yes"])
    return folder


@pytest.fixture
async def agent(tmp_path: Path, cdi: Path) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path, f"--cdi_devices={NIC}", f"--cdi_dirs={cdi}") as started:
        yield started


def named(*names: str) -> dict[str, Any]:
    return {"labels": {"labels": [{"key": DEVICES_LABEL, "value": ",".join(names)}]}}


async def test_a_task_has_the_device_that_it_names(agent: LiveAgent, tmp_path: Path) -> None:
    look = (
        f"echo $NIC $NICS; head -c 3 /dev/nic0 | wc -c; cat {tmp_path}/seen/version; touch {tmp_path}/seen/x || echo ro"
    )
    agent.run("t", look, **named(f"{NIC}=0"))
    assert await agent.ends("t") == "TASK_FINISHED", await agent.said("t", "stderr")
    assert await agent.said("t") == "zero yes\n3\n7\nro\n"
    state = json.loads((tmp_path / "state").read_text())
    assert state["id"], "the vendor's hook was told of the container"
    agent.run("plain", "echo $NIC; ls /dev/nic0 || echo none")
    assert await agent.ends("plain") == "TASK_FINISHED"
    assert await agent.said("plain") == "\nnone\n"


@pytest.mark.parametrize(
    ("name", "state"),
    [
        (f"{NIC}=9", "TASK_FAILED"),
        (f"{NIC}=gone", "TASK_FAILED"),
        ("other.org/x=1", "TASK_ERROR"),
        ("nvidia.com/gpu=0", "TASK_ERROR"),
    ],
)
async def test_what_is_not_there_or_not_given_is_said(agent: LiveAgent, name: str, state: str, golden: Golden) -> None:
    agent.run("t", "true", **named(name))
    assert (await agent.reaches("t", state))["message"] == golden


async def test_tasks_of_a_group_have_what_one_of_them_names(agent: LiveAgent, golden: Golden) -> None:
    launch(agent, task("one", "echo $NIC; head -c 3 /dev/nic0 | wc -c; sleep 600", **named(f"{NIC}=0")))
    await agent.reaches("one", "TASK_RUNNING")
    await agent.until_async(lambda: said(agent, "one"), "zero\n3\n")
    launch(agent, task("late", "true", **named(f"{NIC}=0")), new=False)
    assert (await agent.reaches("late", "TASK_ERROR"))["message"] == golden


@pytest.fixture
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two lamps of a plugin, which it gives by their CDI names."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "leds.cdi").touch()
    program = [sys.executable, str(EXAMPLES / "leds.py"), str(folder), "2"]
    with (folder / "leds.log").open("wb") as log:
        running = subprocess.Popen(program, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
    yield folder
    running.kill()
    running.wait(30)


def units(agent: LiveAgent) -> float:
    """Return how many lamps the newest registration has."""
    names = ("RegisterSlaveMessage", "ReregisterSlaveMessage")
    newest = [document for name, document in agent.master.received if name in names][-1]
    return sum(r["scalar"]["value"] for r in newest["slave"]["resources"] if r["name"] == LED)


async def test_a_plugins_cdi_answer_reaches_a_group_and_its_units_stay_until_the_executor_ends(
    tmp_path: Path, cdi: Path, plugins: Path
) -> None:
    nodes = {name: {"deviceNodes": [{"path": f"/dev/{name}", "hostPath": "/dev/zero"}]} for name in ("led0", "led1")}
    spec(cdi, LED, nodes, env=["LAMPS=cdi"])
    async with live_agent(tmp_path, f"--device_plugins_dir={plugins}", f"--cdi_dirs={cdi}") as agent:
        await agent.master.until(lambda: units(agent) == 2)
        line = "echo $LAMPS $LEDS; head -c 2 /dev/led0 | wc -c; "
        lamp, both = scalar(LED, 1.0), [scalar("cpus", 0.1), scalar("mem", 32.0)]
        launch(
            agent,
            {**task("short", f"{line} until [ -e {tmp_path}/end ]; do sleep 0.05; done"), "resources": [*both, lamp]},
            {**task("long", f"{line} sleep 600"), "resources": [*both, lamp]},
        )
        for name in ("short", "long"):
            await agent.reaches(name, "TASK_RUNNING")
            await agent.until_async(lambda name=name: said(agent, name), "cdi led0,led1\n2\n")
        # What a task held that has ended is its executor's still: it is not offered to others meanwhile.
        (tmp_path / "end").touch()
        assert await agent.ends("short") == "TASK_FINISHED"
        await agent.master.until(lambda: units(agent) == 1)
        agent.kill("long")
        assert await agent.ends("long") == "TASK_KILLED"
        await agent.master.until(lambda: units(agent) == 2)
        agent.run("next", "echo $LEDS; ls /dev | grep -c led", resources=[*both, scalar(LED, 2.0)])
        assert await agent.ends("next") == "TASK_FINISHED"
        assert await agent.said("next") == "led0,led1\n2\n"
        (cdi / "example.com-led.json").unlink()
        agent.run("unknown", "true", resources=[*both, lamp])
        refused = (await agent.reaches("unknown", "TASK_FAILED"))["message"]
        assert f"{LED}=led0" in refused
