"""From launch() to a running container, beside a bare run of the same bundle by the same OCI runtime.

    sudo .venv/bin/python benchmarks/container.py [--runs 30] [--runtime crun|runc]

The two take turns, so that a busy machine slows both. The bare run starts the container, waits for its end (it runs
`true`) and removes it, in one process; launch() adds conmon, checkpoints and two output files. Takes a few seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from benchmarks.kept import figure
from mesos_gpu.container import ContainerConfig, Containerizer, open_containerizer
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.runtime import find_program
from mesos_gpu.container.spec.bundle import DEFAULT_PATH
from mesos_gpu.container.spec.isolation import NO_LABELS
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import LaunchPlan

WARM_UPS = 3
SETTLE_S = 0.03  # the kernel takes a container's namespaces and cgroups apart after its end, which slows the next start
CGROUPS_ROOT = "mesos-benchmark"


class NoIsolator:
    def recover(self, live: Collection[str]) -> frozenset[str]:
        return frozenset()

    def prepare(
        self,
        container_id: str,
        gpus: int,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> LaunchPlan:
        return LaunchPlan()

    def cleanup(self, container_id: str) -> None:
        pass


def config_of(name: str, folder: Path, *argv: str) -> ContainerConfig:
    return ContainerConfig(name, folder, argv, {"PATH": DEFAULT_PATH}, None, 1000, 64 << 20, 0)


async def launch_ms(containerizer: Containerizer, name: str, folder: Path) -> float:
    began = time.perf_counter()
    await containerizer.launch(config_of(name, folder, "true"))
    took = time.perf_counter() - began
    await containerizer.wait(name)
    await containerizer.destroy(name)
    return took * 1e3


def bare_ms(runtime: Path, bundle: Path, name: str) -> float:
    document = json.loads((bundle / "config.json").read_text())
    document["linux"]["cgroupsPath"] = f"/{CGROUPS_ROOT}/{name}"
    (bundle / "config.json").write_text(json.dumps(document))
    command = [str(runtime), f"--root={bundle / 'state'}", "run", "--bundle", str(bundle), name]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1e3


async def copy_bundle(containerizer: Containerizer, run: Path, bundle: Path) -> None:
    """Keep the config.json that launch() writes."""
    await containerizer.launch(config_of("sample", bundle, "sleep", "60"))
    document = json.loads((run / "bundles" / "sample" / "config.json").read_text())
    await containerizer.destroy("sample")
    document["process"]["args"] = [*document["process"]["args"][:-2], "true"]
    (bundle / "config.json").write_text(json.dumps(document))


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def show(label: str, times: list[float]) -> None:
    print(f"{label:28} median {statistics.median(times):6.1f} ms   p95 {p95(times):6.1f} ms   of {len(times)}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--runtime", choices=("crun", "runc"), default=None)
    options = parser.parse_args()
    runtimes = (options.runtime,) if options.runtime else ("crun", "runc")
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-benchmark-") as name:
        folder = Path(name)
        containerizer = await open_containerizer(
            runtime_dir=folder / "run", isolator=NoIsolator(), cgroups_root=CGROUPS_ROOT, runtimes=runtimes
        )
        mounts = MountNamespace(folder / "run" / "host")
        try:
            await mounts.open()
            await containerizer.recover(())
            program = next(path for path in map(find_program, runtimes) if path is not None)
            await copy_bundle(containerizer, folder / "run", folder)
            ours, bare = [], []
            for turn in range(WARM_UPS + options.runs):
                await asyncio.sleep(SETTLE_S)
                ours.append(await launch_ms(containerizer, f"ours-{turn}", folder))
                await asyncio.sleep(SETTLE_S)
                bare.append(await mounts.run(partial(bare_ms, program, folder, f"bare-{turn}")))
        finally:
            await containerizer.close()
            mounts.close()
    ours, bare = ours[WARM_UPS:], bare[WARM_UPS:]
    show("launch() to running", ours)
    show(f"bare {program.name} run", bare)
    beside = (f"bare `{program.name} run`", statistics.median(bare))
    what = f"launch() to running, median of {len(ours)}"
    figure(program.name, what, statistics.median(ours), "ms", beside=beside, note=f"p95 {p95(ours):.1f} ms")
    print(f"ratio of medians: {statistics.median(ours) / statistics.median(bare):.2f}")


if __name__ == "__main__":
    asyncio.run(main())
