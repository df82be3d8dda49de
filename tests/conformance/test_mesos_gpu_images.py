"""Twins of Mesos' GPU tests that need an image (nvidia_gpu_isolator_tests.cpp), with real images on a whole box.

The originals take nvidia/cuda and tensorflow from the Internet; here the images are small, and what matters of them,
the label of the one and the variable of the other, is the same.
"""

from __future__ import annotations

import pytest

from tests.support.box.images import failure, image_app
from tests.support.box.live import LiveBox
from tests.support.images.build import BuiltImage, busybox_image, cuda_image
from tests.support.images.registry import RealRegistry

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

IMAGES = [
    pytest.param("nvidia/cuda", cuda_image(), id="ROOT_INTERNET_CURL_CGROUPS_NVIDIA_GPU_NvidiaDockerImage"),
    pytest.param(
        "tensorflow/tensorflow",
        busybox_image(run={"Env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"]}),
        id="ROOT_INTERNET_CURL_CGROUPS_NVIDIA_GPU_TensorflowGpuImage",
    ),
]


@pytest.mark.parametrize(("name", "image"), IMAGES)
def test_one_gpu_is_counted_in_the_image_and_without_one_nvidia_smi_fails(
    images_box: LiveBox,
    standing_registry: RealRegistry,
    name: str,
    image: BuiltImage,
) -> None:
    box = images_box
    standing_registry.push(name, image)
    box.add(image_app("one", name, cmd="nvidia-smi --list-gpus | wc -l; sleep 1000"))
    box.until("the GPUs are counted", lambda: box.log_of("one").strip() == "1")
    box.ok("app", "remove", "one", "--wait")
    assert "Command exited with status 6" in failure(box, image_app("none", name, gpus=0, cmd="nvidia-smi"))
