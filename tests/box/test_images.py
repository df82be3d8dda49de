"""Images on a whole box: a real registry, real pulls, real containers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.box.images import failure, image_app
from tests.support.box.live import LiveBox
from tests.support.images.build import BuiltImage, Layer, base_layer, busybox_image, cuda_image, file, tar_of
from tests.support.images.registry import RealRegistry
from tests.support.places import EXAMPLES

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

Start = Callable[..., LiveBox]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RealRegistry]:
    with RealRegistry(tmp_path / "registry") as registry:
        yield registry


@pytest.fixture
def start(new_box: LiveBox, registry: RealRegistry) -> Start:
    def up(*flags: str, source: str | None = None) -> LiveBox:
        new_box.up("--gpu_driver=simulated", f"--docker_registry={source or registry.url}", *flags)
        return new_box

    return up


def test_docker_gpu_test_json_prints_the_table_from_inside_the_image(
    images_box: LiveBox, standing_registry: RealRegistry
) -> None:
    standing_registry.push("nvidia/cuda", cuda_image())
    box = images_box
    box.ok("app", "add", str(EXAMPLES / "docker-gpu-test.json"), "--wait")
    box.until("the table is printed", lambda: "NVIDIA-SMI" in box.log_of("docker-gpu-test"))
    assert box.gpus_free() == 3
    (image,) = json.loads(box.ok("image", "list", "--json"))
    assert image["reference"] == "nvidia/cuda:latest"
    assert len(image["used_by"]) == 1
    assert "0.0 MiB" in box.ok("image", "prune"), "what a container uses stays"
    box.ok("app", "remove", "docker-gpu-test", "--wait")
    box.until("the image is used no more", lambda: not json.loads(box.ok("image", "list", "--json"))[0]["used_by"])
    assert "nvidia/cuda:latest" in box.ok("image", "prune")
    assert json.loads(box.ok("image", "list", "--json")) == []


def test_what_an_image_says_of_gpus_widens_nothing(images_box: LiveBox, standing_registry: RealRegistry) -> None:
    says = {"Env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"]}
    standing_registry.push("greedy", busybox_image(run=says))
    box = images_box
    look = (
        'echo "visible $NVIDIA_VISIBLE_DEVICES $NVIDIA_DRIVER_CAPABILITIES"; '
        "ls /dev | sed -n 's/^\\(nvidia[0-9]\\)/node \\1/p'; nvidia-smi -L; echo looked; sleep 1000"
    )
    for name, gpus in (("one", 1), ("none", 0)):
        widened = {"NVIDIA_VISIBLE_DEVICES": "all"}
        box.add(image_app(name, "greedy", gpus=gpus, cmd=look, env=widened))
        box.until("it has looked", lambda name=name: "looked" in box.log_of(name))
        log = box.log_of(name)
        assert len(re.findall(r"^node nvidia\d", log, re.MULTILINE)) == gpus, log
        assert log.count("UUID: ") == gpus, log
        assert re.search(r"visible (GPU-[0-9a-f-]+|void) compute,utility", log), log
        assert ("visible void" in log) == (gpus == 0), log


def test_a_run_in_an_image_is_what_docker_run_is_with_the_driver_on_request_of_nobody(
    images_box: LiveBox, standing_registry: RealRegistry
) -> None:
    standing_registry.push("plain", busybox_image(run={"Env": ["PATH=/bin"], "Cmd": ["sh"]}))
    box = images_box
    assert box.ok("run", "--gpus", "0", "plain", "echo", "from", "the image") == "from the image\n"
    assert "GPU-" in box.ok("run", "plain", "nvidia-smi", "-L")
    without = box.cli("run", "--no-driver", "--label", "team=ml", "plain", "nvidia-smi", "-L")
    assert without.returncode != 0
    box.until("all GPUs are free again", lambda: box.gpus_free() == 4)
    box.ok("image", "prune")


def test_pulls_that_fail_say_why(start: Start, registry: RealRegistry) -> None:
    image = busybox_image(Layer(tar_of(file("big", b"x" * 100_000))))
    registry.push("damaged", image)
    (top,) = [digest for digest in image.blobs if image.blobs[digest] == image.layers[-1].blob]
    registry.blob_path(top).write_bytes(b"not what it was")
    registry.push("liar", BuiltImage([base_layer()], {"Cmd": ["sh"]}, diff_ids=["sha256:" + "0" * 64]))
    box = start()
    said = failure(box, image_app("unknown", "no/such", cmd="true"))
    assert "no/such" in said
    assert "Failed to launch container" in said
    assert "damaged" in failure(box, image_app("damaged", "damaged", cmd="true"))
    assert "liar" in failure(box, image_app("liar", "liar", cmd="true"))
    assert "'ghost'" in _ghost(box, registry)
    address = registry.url.removeprefix("http://")
    registry.stop()
    assert address in failure(box, image_app("down", "other", cmd="true"))
    assert not list((box.work_dir / "agent1" / "store" / "docker" / "unpacking").iterdir())


def _ghost(box: LiveBox, registry: RealRegistry) -> str:
    registry.push("ghost", busybox_image(run={"User": "ghost"}))
    return failure(box, image_app("ghost", "ghost", cmd="true"))


def test_archives_and_pulls_by_hand(start: Start, tmp_path: Path) -> None:
    from tests.support.images.build import save_archive

    save_archive(tmp_path / "archives" / "nvidia" / "cuda:latest.tar", cuda_image(), "nvidia/cuda:latest")
    box = start(source=str(tmp_path / "archives"))
    assert "nvidia/cuda:latest sha256:" in box.ok("image", "pull", "nvidia/cuda")
    missing = box.cli("image", "pull", "nothing")
    assert missing.returncode == 1
    assert "nothing" in missing.stderr
    box.ok("app", "add", str(EXAMPLES / "docker-gpu-test.json"), "--wait")
    box.until("the table is printed", lambda: "NVIDIA-SMI" in box.log_of("docker-gpu-test"))
