"""A box that pulls from a registry of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mesos_gpu.local.plan import runtime_dir
from tests.support.box.live import LiveBox, Standing
from tests.support.images.registry import RealRegistry


@pytest.fixture(scope="module")
def standing_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with RealRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def pulling(standing_registry: RealRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    made = Standing(tmp_path_factory.mktemp("pulling"), f"--docker_registry={standing_registry.url}")
    yield made
    made.down()


@pytest.fixture
def images_box(pulling: Standing) -> Iterator[LiveBox]:
    """A box that pulls from `standing_registry`; others had it before, but it has no image."""
    box = pulling.box()
    box.ok("image", "prune")
    yield box
    pulling.clean()


def image_app(name: str, image: str, **more: Any) -> dict[str, Any]:
    container = {"type": "MESOS", "docker": {"image": image}}
    return {"id": name, "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1, "container": container, **more}


def failure(box: LiveBox, app: dict[str, Any]) -> str:
    """Add an app that fails and return what Marathon was told; then nothing of it is left."""
    name = app["id"]
    box.ok("app", "add", "-", text=json.dumps(app))
    box.until("the failure is shown", lambda: "lastTaskFailure" in box.marathon(f"/v2/apps/{name}")["app"])
    found = box.marathon(f"/v2/apps/{name}")["app"]["lastTaskFailure"]
    assert found["state"] == "TASK_FAILED", found
    box.ok("app", "remove", name, "--wait")
    box.until("no GPU stays behind", lambda: box.gpus_free() == 4)
    bundles = runtime_dir(box.work_dir) / "agent1" / "bundles"
    box.until("no root file system stays behind", lambda: not list(bundles.glob("*")))
    return str(found["message"])
