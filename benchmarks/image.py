"""A cold pull of an image into the store, beside `skopeo copy` and `umoci unpack` of the same image.

    sudo ./run bench image [--runs 7] [--layers 3 30] [--mib 64]
    sudo ./run bench image --runs 1 --layers 3 --mib 2048     # an image of 2 GiB

The registry is Debian's docker-registry on 127.0.0.1; the images are busybox, half the bytes random and half text, in
as many layers as said. The store is made anew for each run; its extraction processes are started within the time. The
two take turns, so that a busy machine slows both. skopeo and umoci make one root filesystem; the store makes layer
folders that every container shares. Then a container's start from the store, warm, beside a bare run: see
image_start.py; and what memory a pull takes: image_memory.py.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import image_memory, image_start
from benchmarks.kept import figure
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore
from tests.support.images.build import BuiltImage, Layer, base_layer, file, folder, tar_of
from tests.support.images.registry import RealRegistry

PULL_AIM = 0.4
FILES = 20
"""In each layer."""


def image_of(layers: int, mib: int) -> BuiltImage:
    """An image of so many layers, busybox being the lowest, and about so many MiB when unpacked."""
    size = (mib << 20) // ((layers - 1) * FILES)
    made = [base_layer()]
    for number in range(1, layers):
        name = f"data/{number}"
        text = (f"layer {number} says the same again\n" * (size // 30 + 1)).encode()[:size]
        files = (file(f"{name}/{n}", os.urandom(size) if n % 2 else text) for n in range(FILES))
        made.append(Layer(tar_of(folder("data"), folder(name), *files)))
    return BuiltImage(made, {"Cmd": ["sh"]})


async def store_s(url: str, name: str, directory: Path) -> float:
    store = ImageStore(directory, open_source(url))
    await store.recover()
    began = time.perf_counter()
    await store.pull(name)
    took = time.perf_counter() - began
    await store.close()
    return took


def tools_s(host: str, name: str, directory: Path) -> tuple[float, float]:
    layout = f"{directory}/layout"
    copy = [
        "skopeo",
        "--insecure-policy",
        "copy",
        "-q",
        "--src-tls-verify=false",
        f"docker://{host}/{name}",
        f"oci:{layout}:i",
    ]
    began = time.perf_counter()
    subprocess.run(copy, check=True)
    copied = time.perf_counter()
    subprocess.run(
        ["umoci", "unpack", "--image", f"{layout}:i", f"{directory}/bundle"], check=True, capture_output=True
    )
    return copied - began, time.perf_counter() - copied


def show(label: str, times: list[float]) -> None:
    print(f"  {label:28} median {statistics.median(times) * 1e3:6.0f} ms   worst {max(times) * 1e3:6.0f} ms")


def compare(registry: RealRegistry, folder: Path, layers: int, mib: int, runs: int) -> None:
    name = f"bench/layers-{layers}"
    image = image_of(layers, mib)
    registry.push(name, image)
    packed = sum(len(layer.blob) for layer in image.layers) >> 20
    print(f"{layers} layers, {packed} MiB packed, {mib} MiB unpacked, {runs} runs")
    ours, copies, unpacks = [], [], []
    for _ in range(runs + 1):
        for part in ("store", "tools"):
            directory = folder / part
            directory.mkdir()
            if part == "store":
                ours.append(asyncio.run(store_s(registry.url, name, directory)))
            else:
                copied, unpacked = tools_s(registry.host, name, directory)
                copies.append(copied)
                unpacks.append(unpacked)
            shutil.rmtree(directory)
    tools = [copied + unpacked for copied, unpacked in zip(copies[1:], unpacks[1:], strict=True)]
    show("store.pull()", ours[1:])
    show("skopeo copy", copies[1:])
    show("umoci unpack", unpacks[1:])
    show("skopeo copy + umoci unpack", tools)
    print(f"  ratio of medians: {statistics.median(ours[1:]) / statistics.median(tools):.2f} (aim: {PULL_AIM})")
    what = f"cold pull, {layers} layers, {packed} MiB packed, {mib} unpacked, median of {runs}"
    beside = ("`skopeo copy` + `umoci unpack`", statistics.median(tools) * 1e3)
    figure(f"pull, {layers} layers", what, statistics.median(ours[1:]) * 1e3, "ms", beside=beside, aim=PULL_AIM)
    peaks = image_memory.measured(registry.url, name, folder / "memory")
    print(
        f"  memory of a pull: the store's process {peaks['before']:.0f} MiB before and {peaks['own']:.0f} at its peak, "
        f"a worker {peaks['worker']:.0f} at its peak"
    )
    own = f"cold pull of {mib} MiB in {layers} layers: what the store's process takes more at its peak"
    figure(f"memory, {layers} layers", own, peaks["own"] - peaks["before"], "MiB")
    a_worker = f"cold pull of {mib} MiB in {layers} layers: a worker at its peak"
    figure(f"memory of a worker, {layers} layers", a_worker, peaks["worker"], "MiB")
    shutil.rmtree(folder / "memory")
    place = folder / "start"
    place.mkdir()
    image_start.show(*asyncio.run(image_start.start_ms(registry.url, name, place, 4 * runs)), layers)
    shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 30])
    parser.add_argument("--mib", type=int, default=64)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="mesos-gpu-benchmark-") as name,
        RealRegistry(Path(name) / "registry") as registry,
    ):
        for layers in options.layers:
            compare(registry, Path(name), layers, options.mib, options.runs)


if __name__ == "__main__":
    main()
