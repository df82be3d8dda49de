"""The agent hosts device plugins that know nothing of it: examples/device-plugins, as processes, in a box."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import POD_RESOURCES, Stub, channel
from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing import MesosBox
from tests.support.golden import Golden
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler, soon, until

pytestmark = pytest.mark.root

EXAMPLES = Path(__file__).parents[3] / "examples" / "device-plugins"
LED, GPU = "example.com/led", "example.com/gpu"


class Plugins:
    """Plugins as processes, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, count: int) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(self.folder), str(count)]
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Plugins]:
    with ExitStack() as stack:
        (tmp_path / "plugins").mkdir()
        made = Plugins(tmp_path / "plugins")
        stack.callback(made.end)
        yield made


def units(box: MesosBox) -> dict[str, float]:
    """Return the units that the master has of the agent."""
    (slave,) = box.state()["slaves"]
    return {name: value for name, value in slave["resources"].items() if "/" in name or name == "gpus"}


def scalars(wanted: dict[str, float]) -> list[Document]:
    whole = {"cpus": 0.1, "mem": 32.0, **wanted}
    return [{"name": name, "type": "SCALAR", "scalar": {"value": value}} for name, value in whole.items()]


class Framework:
    """A scheduler that asks for units by name."""

    def __init__(self, box: MesosBox) -> None:
        self.box, self.scheduler = box, Scheduler(box.url)
        self.offers: list[Document] = []

    async def run(self, task_id: str, line: str, **wanted: float) -> Document:
        """Launch a task with units (of `led`, `card`, `gpus`); return its first status after STARTING."""
        names = {"led": LED, "card": GPU, "gpus": "gpus"}
        resources = scalars({names[name]: value for name, value in wanted.items()})
        status: Document = {"reason": "REASON_INVALID_OFFERS"}
        while status.get("reason") == "REASON_INVALID_OFFERS":  # the agent had registered again meanwhile
            offer = await self._offer({r["name"]: r["scalar"]["value"] for r in resources})
            named = {"name": task_id, "task_id": {"value": task_id}, "agent_id": offer["agent_id"]}
            task = {**named, "resources": resources, "command": {"value": line}}
            await self.scheduler.launch(offer, task, refuse_s=0)
            while (status := await self.status(task_id))["state"] == "TASK_STARTING":
                pass
        return status

    async def status(self, task_id: str) -> Document:
        """Return what is said next of a task."""
        while True:
            status = await self._take()
            if status is not None and status["task_id"]["value"] == task_id:
                return status

    async def kill(self, task_id: str) -> None:
        await self.scheduler.call("KILL", {"task_id": {"value": task_id}})
        assert (await self.status(task_id))["state"] == "TASK_KILLED"

    async def _take(self) -> Document | None:
        event = await soon(self.scheduler.events.get())
        assert event is not None, self.box.logs()
        if event["type"] == "OFFERS":
            self.offers += event["offers"]["offers"]
        elif event["type"] == "RESCIND":
            self.offers = [offer for offer in self.offers if offer["id"] != event["rescind"]["offer_id"]]
        elif event["type"] == "UPDATE":
            status: Document = event["update"]["status"]
            if status.get("uuid"):
                await self.scheduler.acknowledge(status)
            return status
        return None

    async def _offer(self, wanted: dict[str, float]) -> Document:
        while True:
            while not self.offers or not self.scheduler.events.empty():
                await self._take()
            offer = self.offers.pop()
            has = {r["name"]: r["scalar"]["value"] for r in offer["resources"] if "scalar" in r}
            if all(has.get(name, 0) >= value for name, value in wanted.items()):
                return offer
            await self.scheduler.call("DECLINE", {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0}})


@pytest.fixture
async def framework(mesos_box: Callable[..., MesosBox], plugins: Plugins) -> AsyncIterator[Framework]:
    flags = {
        "device_plugins_dir": str(plugins.folder),
        "pod_resources_socket": str(plugins.folder / "pods/kubelet.sock"),
    }
    box = mesos_box(gpus=1, agent_flags=flags, master_flags={"allocation_interval": "50ms"})
    made = Framework(box)
    await made.scheduler.subscribe(framework_info(capabilities="GPU_RESOURCES", failover_timeout=1000.0))
    yield made
    await made.scheduler.close()


async def until_equal(look: Callable[[], Any], wanted: Any) -> None:
    try:
        await until(lambda: look() == wanted)
    except asyncio.TimeoutError:
        assert look() == wanted, "not in time"


async def until_units(framework: Framework, **wanted: float) -> None:
    names = {"led": LED, "card": GPU, "gpus": "gpus"}
    expected = {"gpus": 1.0} | {names[name]: value for name, value in wanted.items()}
    await until_equal(lambda: units(framework.box), {name: value for name, value in expected.items() if value})


async def pods(path: Path) -> Any:
    """Ask as dcgm-exporter does."""
    async with channel(str(path)) as connection:
        answer = await Stub(POD_RESOURCES, connection).call("List", message("v1.ListPodResourcesRequest")(), timeout=20)
    return answer.pod_resources


async def test_devices_of_any_vendor_are_scalars_and_reach_containers(framework: Framework, plugins: Plugins) -> None:
    box = framework.box
    await until_units(framework)
    plugins.start("leds", 3)
    plugins.start("cards", 4)
    await until_units(framework, led=3, card=4)
    # What a plugin answers is in the container: variables, nodes that can be opened as it said, mounts.
    line = "echo LEDS=$LEDS CARDS=$CARDS; ls -l /dev/card-* /dev/led*; head -c 4 /dev/card-1 | wc -c; exec sleep 1000"
    both = await framework.run("both", line, led=2, card=2)
    assert both["state"] == "TASK_RUNNING", both
    said = box.sandbox("both") / "stdout"
    await until(lambda: said.read_text().endswith("\n4\n"))
    assert said.read_text().splitlines()[0] == "LEDS=led0,led1 CARDS=card-1,card-3", (
        "of one node, as the plugin prefers"
    )
    assert (plugins.folder / "cards.prepared").read_text() == "card-1 card-3\n"

    # Node tools are told who has what, as by a kubelet.
    (pod,) = await pods(plugins.folder / "pods/kubelet.sock")
    assert (pod.name, pod.namespace, pod.containers[0].name) == ("both", framework.scheduler.framework_id, "both")
    given = {devices.resource_name: list(devices.device_ids) for devices in pod.containers[0].devices}
    assert given == {GPU: ["card-1", "card-3"], LED: ["led0", "led1"]}

    # One that is ill lowers the total at once; the one that is held stays until its task ends.
    (plugins.folder / "cards.broken").write_text("card-0 card-1\n")
    await until_units(framework, led=3, card=3)
    half = await framework.run("half", "true", led=0.5)
    assert (half["state"], half["reason"]) == ("TASK_ERROR", "REASON_TASK_INVALID"), half

    # Over kill -9 of the agent nothing is lost and nothing is held twice.
    (agent,) = box.agents
    agent.kill()
    agent.start()
    await until_units(framework, led=3, card=3)
    third = await framework.run("third", "echo $LEDS $CARDS; exec sleep 1000", led=1, card=1)
    assert third["state"] == "TASK_RUNNING", third
    await until(lambda: (box.sandbox("third") / "stdout").read_text() == "led2 card-2\n")
    await framework.kill("both")
    await until_units(framework, led=3, card=2)
    (plugins.folder / "cards.broken").unlink()
    await until_units(framework, led=3, card=4)

    # A plugin that is gone: what is held stays, all else is offered no more; it comes back, and so do they.
    plugins.kill("leds")
    await until_units(framework, led=1, card=4)
    plugins.start("leds", 3)
    await until_units(framework, led=3, card=4)
    (plugins.folder / "cards.stubborn").touch()
    refused = await framework.run("refused", "true", card=3)
    assert refused["state"] == "TASK_FAILED"
    assert "RESOURCE_EXHAUSTED not today" in refused["message"], "the plugin's answer"
    (plugins.folder / "cards.stubborn").unlink()
    assert (await framework.run("last", "true", card=3, led=2))["state"] in ("TASK_RUNNING", "TASK_FINISHED")


async def test_gpus_of_tasks_are_told_to_node_tools(
    mesos_box: Callable[..., MesosBox], tmp_path: Path, golden: Golden
) -> None:
    socket = tmp_path / "pods" / "kubelet.sock"
    box = mesos_box(gpus=2, agent_flags={"pod_resources_socket": str(socket)})
    framework = Framework(box)
    await framework.scheduler.subscribe(framework_info(capabilities="GPU_RESOURCES", failover_timeout=1000.0))
    try:
        assert (await framework.run("train", "exec sleep 1000", gpus=1))["state"] == "TASK_RUNNING"
        async with channel(str(socket)) as connection:
            stub = Stub(POD_RESOURCES, connection)
            wanted = {"pod_name": "train", "pod_namespace": framework.scheduler.framework_id}
            got = await stub.call("Get", message("v1.GetPodResourcesRequest")(**wanted), timeout=20)
            (devices,) = got.pod_resources.containers[0].devices
            assert devices.resource_name == "nvidia.com/gpu"
            there = await stub.call("GetAllocatableResources", message("v1.AllocatableResourcesRequest")(), timeout=20)
            uuids = set(box.agents[0].gpu_uuids().values())
            assert set(devices.device_ids) < set(there.devices[0].device_ids) == uuids
            request = message("v1.GetPodResourcesRequest")(pod_name="nobody", pod_namespace="nowhere")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.call("Get", request, timeout=20)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            assert refused.value.details() == golden
        # The same names at /metrics, where dcgm-exporter has them.
        (busy,) = [line for line in metrics(box) if line.startswith("DCGM_FI_DEV_FB_USED") and 'pod="train"' in line]
        assert f'UUID="{devices.device_ids[0]}"' in busy
    finally:
        await framework.scheduler.close()


def metrics(box: MesosBox) -> list[str]:
    with urllib.request.urlopen(f"{box.agents[0].url}/metrics", timeout=30) as answer:
        return list(answer.read().decode().splitlines())
