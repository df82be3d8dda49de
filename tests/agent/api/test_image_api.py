"""/images of an agent, over a store on an OCI layout."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from mesos_gpu.agent.api.image_api import ImageApi, asks_for_driver
from mesos_gpu.agent.configuration import check_flags
from mesos_gpu.agent.flags import COMMAND_LINE, AgentFlags
from mesos_gpu.agent.running.images import AgentImages, image_settings, open_images
from mesos_gpu.errors import BadFlag
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.mesos.flags import parse_flags
from tests.support.frame import frame_app
from tests.support.golden import Golden
from tests.support.images.build import Layer, busybox_image, file, tar_of, write_layout

Client = TestClient[web.Request, web.Application]


def flags(*argv: str) -> AgentFlags:
    return parse_flags(COMMAND_LINE, ["--work_dir=/w", *argv], {})[0]


@pytest.fixture
async def images(tmp_path: Path) -> AsyncIterator[AgentImages]:
    write_layout(tmp_path / "layouts" / "all", {"one": busybox_image(Layer(tar_of(file("a", b"a"))))})
    said = flags("--image_providers=docker", f"--docker_registry=file:{tmp_path}/layouts")
    opened = open_images(image_settings(said, tmp_path))
    assert opened is not None
    await opened.recover()
    yield opened
    await opened.close()


@pytest.fixture
async def client(images: AgentImages) -> AsyncIterator[Client]:
    api = ImageApi(images)
    async with TestClient(TestServer(frame_app(api.shown(), api.called()))) as client:
        yield client


async def test_an_image_is_pulled_listed_and_pruned(client: Client) -> None:
    answer = await client.post("/images/pull", json={"reference": "all:one"})
    *steps, last = [json.loads(line) for line in (await answer.text()).splitlines()]
    assert last["image"]["reference"] == "all:one"
    assert all("progress" in step for step in steps)
    listed = await (await client.get("/images")).json()
    assert [image["reference"] for image in listed["images"]] == ["all:one"]
    assert listed["pulls"] == []
    assert [image["nvidia_driver"] for image in listed["images"]] == [False]
    pruned = await (await client.post("/slave(1)/images/prune", json={"max_bytes": 0})).json()
    assert pruned["images"] == ["all:one"]
    assert pruned["bytes"] == listed["bytes"] > 0


@pytest.mark.parametrize("reference", ["all:none", "Not A Name"])
async def test_a_pull_that_fails_ends_with_the_cause(client: Client, reference: str) -> None:
    answer = await client.post("/images/pull", json={"reference": reference})
    assert "error" in json.loads((await answer.text()).splitlines()[-1])


async def test_a_body_that_is_none_is_refused(client: Client) -> None:
    json = {"Content-Type": "application/json"}
    for body in ("{", '{"reference": 3}'):
        assert (await client.post("/images/pull", data=body, headers=json)).status == 400
        assert (await client.post("/images/pull", data=body)).status == 415, "text, which any web page may send"


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (["--image_providers=appc"], "image_providers"),
        (["--image_providers=docker", "--isolation=cgroups/cpu"], "isolation"),
        (["--sandbox_directory=relative"], "sandbox_directory"),
        (["--sandbox_directory=/a/../.."], "sandbox_directory"),
        (["--docker_pull_timeout=0secs"], "docker_pull_timeout"),
    ],
)
def test_flags_that_cannot_be_meant(argv: list[str], flag: str) -> None:
    with pytest.raises(BadFlag, match=f"--{flag}"):
        check_flags(flags(*argv))


def test_credentials_are_a_path_or_json_itself(tmp_path: Path, golden: Golden) -> None:
    providers = "--image_providers=docker"
    assert image_settings(flags(), tmp_path) is None
    for text in ('{"auths": {}}', str(tmp_path / "config.json")):
        (tmp_path / "config.json").write_text('{"auths": {}}')
        assert image_settings(flags(providers, f"--docker_config={text}"), tmp_path) is not None
    with pytest.raises(BadFlag) as refused:
        image_settings(flags(providers, "--docker_config=/no/such"), tmp_path)
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("config", "asks"),
    [
        (ImageConfig(), False),
        (ImageConfig(labels={"com.nvidia.volumes.needed": "nvidia_driver"}), True),
        (ImageConfig(env={"NVIDIA_VISIBLE_DEVICES": "all"}), True),
        (ImageConfig(env={"NVIDIA_VISIBLE_DEVICES": "void"}), False),
    ],
)
def test_whether_an_image_asks_for_the_driver_is_told(config: ImageConfig, asks: bool) -> None:
    assert asks_for_driver(config) == asks
