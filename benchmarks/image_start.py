"""A container's start in an image from a warm store, beside a bare run of the same on an unpacked root file system.

Part of benchmarks/image.py. The bare run is the runtime's `run` of `true` to its end, on layers put together into one
folder beforehand; ours mounts the layers for each container, and adds conmon, checkpoints and two output files.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.container import CGROUPS_ROOT, SETTLE_S, WARM_UPS, NoIsolator, bare_ms
from benchmarks.kept import figure
from mesos_gpu.container import ContainerConfig, Containerizer, open_containerizer
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.runtime import RUNTIMES, find_program
from mesos_gpu.container.spec.config import ImageAsk
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import Image, ImageStore

AIMS = {3: 1.2, 30: 1.3}
"""By the number of layers."""


async def start_ms(url: str, name: str, folder: Path, runs: int) -> tuple[list[float], list[float]]:
    """Return how long our starts and the bare runs of an image took, taking turns."""
    store = ImageStore(folder / "store", open_source(url))
    containerizer = await open_containerizer(
        runtime_dir=folder / "run", isolator=NoIsolator(), cgroups_root=CGROUPS_ROOT, images=store
    )
    mounts = MountNamespace(folder / "run" / "host")
    ours, bare = [], []
    try:
        await mounts.open()
        await containerizer.recover(())
        image = await store.pull(name)
        runtime = next(path for path in map(find_program, RUNTIMES) if path is not None)
        bundle = await _bundle(containerizer, image, name, folder)
        for turn in range(WARM_UPS + runs):
            await asyncio.sleep(SETTLE_S)
            ours.append(await _launch_ms(containerizer, name, folder, f"ours-{turn}"))
            await asyncio.sleep(SETTLE_S)
            bare.append(await mounts.run(partial(bare_ms, runtime, bundle, f"bare-{turn}")))
    finally:
        await containerizer.close()
        mounts.close()
        await store.close()
    return ours[WARM_UPS:], bare[WARM_UPS:]


def show(ours: list[float], bare: list[float], layers: int) -> None:
    """Print both and their ratio."""
    for label, times in (("launch() from a warm store", ours), ("bare run, unpacked root", bare)):
        print(f"  {label:28} median {statistics.median(times):6.1f} ms   worst {max(times):6.1f} ms")
    aim = AIMS.get(layers)
    beside = ("bare run, unpacked root", statistics.median(bare))
    what = f"start from a warm store, {layers} layers, median of {len(ours)}"
    figure(f"start, {layers} layers", what, statistics.median(ours), "ms", beside=beside, aim=aim)
    said = "" if aim is None else f" (aim: {aim})"
    print(f"  ratio of medians: {statistics.median(ours) / statistics.median(bare):.2f}{said}")


def _config(name: str, container_id: str, folder: Path, *command: str) -> ContainerConfig:
    ask = ImageAsk(name, Command(shell=False, value=command[0], arguments=command))
    return ContainerConfig(container_id, folder, (), {}, None, 1000, 64 << 20, 0, ask)


async def _launch_ms(containerizer: Containerizer, name: str, folder: Path, container_id: str) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await containerizer.launch(_config(name, container_id, folder, "true"))
    took = loop.time() - began
    await containerizer.wait(container_id)
    await containerizer.destroy(container_id)
    return took * 1e3


async def _bundle(containerizer: Containerizer, image: Image, name: str, folder: Path) -> Path:
    """Make a bundle like ours, but with its root unpacked."""
    bundle = folder / "bare"
    for layer in image.layers:  # the benchmark's images hide nothing
        shutil.copytree(layer, bundle / "rootfs", symlinks=True, dirs_exist_ok=True)
    await containerizer.launch(_config(name, "sample", folder, "sleep", "60"))
    document = msgspec.json.decode((folder / "run" / "bundles" / "sample" / "config.json").read_bytes())
    await containerizer.destroy("sample")
    document["root"]["path"] = str(bundle / "rootfs")
    for mount in document["mounts"]:  # ours is held at a place of its own while the container starts
        if mount["source"].endswith("/shown/sandbox"):
            mount["source"] = str(folder)
    document["process"]["args"] = [*document["process"]["args"][:-2], "true"]
    (bundle / "config.json").write_bytes(msgspec.json.encode(document))
    return bundle
