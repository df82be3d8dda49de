#!/usr/bin/env python3
"""Run a command in a container with one simulated GPU, without any Mesos: the isolator and containers as a library.

sudo python examples/gpu_container.py [COMMAND]      (needs crun or runc, conmon, and tini or catatonit)
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from mesos_gpu.container import ContainerConfig, open_containerizer
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator, NvidiaVolume, open_driver


async def run(command: str, folder: Path) -> int:
    driver = open_driver("simulated", simulated_gpus=4)
    volume = NvidiaVolume.create(folder / "volumes", driver)
    isolator = NvidiaGpuIsolator(driver.gpus(), driver, volume, Checkpoints(folder / "gpus"))
    containers = await open_containerizer(
        runtime_dir=folder / "run", isolator=isolator, cgroups_root="gpu-container-example", runtimes=("crun", "runc")
    )
    try:
        await containers.recover(())  # of an earlier run: isolator.recover, then cleanup of what is unknown
        sandbox = folder / "sandbox"
        sandbox.mkdir(exist_ok=True)
        argv = ("/bin/sh", "-c", command)
        config = ContainerConfig("one", sandbox, argv, {}, None, cpus_milli=500, mem_bytes=64 << 20, gpus=1)
        await containers.launch(config)  # isolator.prepare
        print("holds", *(gpu.uuid for gpu in isolator.status("one")))
        end = await containers.wait("one")  # isolator.cleanup
        print((sandbox / "stdout").read_text(), (sandbox / "stderr").read_text(), sep="", end="")
        return end.exit_code if end.exit_code is not None else 1
    finally:
        await containers.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gpu-container-") as name:
        sys.exit(asyncio.run(run(" ".join(sys.argv[1:]) or "nvidia-smi", Path(name))))
