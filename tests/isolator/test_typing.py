"""A program of an author passes mypy --strict with imports from one module and plain strings as ids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mesos_gpu.isolator
from tests.support.pages import blocks
from tests.support.places import ROOT

PAGE = ROOT / "docs/do/isolator.md"
PROGRAM = '''
"""A small containerizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mesos_gpu.isolator import (
    BASE_RULES, BadInput, CardPart, Change, Checkpoints, Conflict, ContainerError, ContainerId, DeviceError,
    DeviceNode, DeviceRule, Gpu, GpuDriver, GpuUsage, ImageManifest, LaunchPlan, LiveAccess, MesosGpuError,
    NotEnoughGpus, NotFound, NvidiaGpuAllocator, NvidiaGpuIsolator, NvidiaVolume, RunningAccess, Share, SharedCard,
    ShareRecords, SharingIsolator, Unavailable, device_rules, discover_gpus, gpu_nodes, open_driver, rule_for,
)


class Walls:
    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        print(*map(rule_for, nodes), *opened, *closed)

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return frozenset()


def access(pid: int) -> LiveAccess:
    return RunningAccess(pid) if pid > 1 else Walls()


def lowest(gpus: Collection[Gpu], count: int) -> frozenset[Gpu]:
    return frozenset(sorted(gpus)[:count])


class Containerizer:
    def __init__(self, folder: Path, driver: GpuDriver) -> None:
        volume: NvidiaVolume | None = NvidiaVolume.create(folder / "volumes", driver)
        *whole, last = driver.gpus()
        records = Checkpoints(folder / "gpus")
        self.whole = NvidiaGpuIsolator(whole, driver, volume, records, choice=lowest, live_access=access)
        card = SharedCard(last.index, last.uuid, last.memory_mib or 0)
        self.isolator = SharingIsolator(self.whole, [last], [card], ShareRecords(folder / "shares"))
        self.card = card

    def recover(self, live: list[str]) -> None:
        for orphan in self.isolator.recover(live):
            self.isolator.cleanup(orphan)

    def launch(self, name: str, gpus: int, spec: Mapping[str, Any]) -> dict[str, Any]:
        try:
            plan: LaunchPlan = self.isolator.prepare(
                name, gpus, image=ImageManifest({"NVIDIA_VISIBLE_DEVICES": "all"}), labels={"team": "a"}
            )
        except NotEnoughGpus as error:
            raise SystemExit(f"{error.asked} of {error.free}") from error
        except (BadInput, Conflict, Unavailable) as error:
            raise SystemExit(str(error)) from error
        return plan.to_oci({**spec, "linux": {"resources": {"devices": device_rules(BASE_RULES)}}})

    def share(self, name: str, gib: int) -> LaunchPlan:
        return self.isolator.prepare(name, 0, share=Share((CardPart(self.card.index, gib, 1),)))

    def resize(self, name: str, pid: int, gpus: float) -> Change | None:
        try:
            self.isolator.isolate(name, pid)
            return self.isolator.update(name, gpus)
        except (NotFound, ContainerError):
            return None

    def usage(self, name: str) -> Mapping[Gpu, GpuUsage]:
        return self.whole.usage(name)

    def close(self) -> None:
        self.isolator.close()


def main() -> None:
    try:
        driver = open_driver("auto")
    except DeviceError as error:
        raise SystemExit(str(error)) from error
    found = discover_gpus(gpus_asked=None, devices=None, isolating=True, found=driver.gpus())
    rules: list[DeviceRule] = [*BASE_RULES, *map(rule_for, gpu_nodes(found))]
    containers = Containerizer(Path("/var/lib/me"), driver)
    containers.recover(["one"])
    print(containers.launch("two", 1, {}), len(rules), containers.whole.held.get(ContainerId("two")))
    started: Callable[[], Change | None] = partial(containers.resize, "two", 77, 2.0)
    try:
        print(started(), containers.usage("two"), NvidiaGpuAllocator(found).allocate(1))
    except MesosGpuError as error:
        print(error)
    containers.close()


main()
'''


@pytest.mark.slow
def test_a_program_of_an_author_and_the_code_blocks_of_the_page_type_check(tmp_path: Path) -> None:
    texts = [block.text for block in blocks(ROOT, PAGE) if block.language == "python"]
    assert len(texts) >= 3
    for number, text in enumerate([PROGRAM, *texts]):
        (tmp_path / f"program{number}.py").write_text(text)
    # As for an installed package: errors in mesos_gpu itself, such as the untyped pynvml, are not reported.
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-mesos_gpu.*]\nfollow_imports = silent\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "mypy.ini",
            "--cache-dir",
            "cache",
            *sorted(tmp_path.glob("*.py")),
        ],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_is_exported() -> None:
    assert sorted(mesos_gpu.isolator.__all__) == sorted(set(mesos_gpu.isolator.__all__))
    assert all(hasattr(mesos_gpu.isolator, name) for name in mesos_gpu.isolator.__all__)
    public = {name for name in vars(mesos_gpu.isolator) if not name.startswith("_")}
    modules = {name for name in public if hasattr(getattr(mesos_gpu.isolator, name), "__spec__")}
    assert public - modules == set(mesos_gpu.isolator.__all__)
