"""docker-gpu-test.json, start to end: a registry, an image, a box that pulls from it, nvidia-smi inside the image.

`./run demo-image` runs this. The registry is Debian's docker-registry, on this machine only, and the image is made
here: busybox, with the label by which images ask for NVIDIA's driver, under the name nvidia/cuda. With
MESOS_GPU_DOCKER_REGISTRY=https://registry-1.docker.io it is the real one instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from examples.demo import run_on_a_box  # noqa: E402 - as a script, only its own folder is on the path
from tests.support.images.build import cuda_image  # noqa: E402
from tests.support.images.registry import RealRegistry  # noqa: E402


def main() -> int:
    """Run the demo; return the exit status."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mesos-gpu-demo-"))
        source = os.environ.get("MESOS_GPU_DOCKER_REGISTRY")
        if source is None:
            registry = stack.enter_context(RealRegistry(Path(folder) / "registry"))
            registry.push("nvidia/cuda", cuda_image())
            source = registry.url
            print(f"A registry with nvidia/cuda listens at {source}")
        return run_on_a_box(f"{folder}/box", "docker-gpu-test", "image", "list", up=(f"--docker_registry={source}",))


if __name__ == "__main__":
    sys.exit(main())
