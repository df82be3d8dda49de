"""The manifest of docs/do/kubernetes.md, as each stage of Kubernetes wrote it, runs with the page's commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.testing import BoxFactory, MesosBox
from tests.support.images.build import cuda_image, save_archive

pytestmark = pytest.mark.root

PAGE = (Path(__file__).parents[2] / "docs" / "do" / "kubernetes.md").read_text(encoding="utf-8")
FIRST = "alpha.kubernetes.io/nvidia-gpu: 1"


def page_manifest() -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.S)
    assert found
    assert FIRST in found[1]
    return found[1]


def page_stages() -> list[tuple[str, str, int]]:
    """The page's last table: stage, limit, and how many GPUs that is."""
    rows = re.findall(r"^\| (1\.\d) \| `([^`]+)` \| (?:`\"gpus\": (\d)`|the same)", PAGE, re.M)
    return [(stage, limit, int(count or limit.rpartition(" ")[2])) for stage, limit, count in rows]


@pytest.fixture
def box(mesos_box: BoxFactory, tmp_path: Path) -> MesosBox:
    save_archive(tmp_path / "cuda:8.0.tar", cuda_image())
    return mesos_box(gpus=3, docker_registry=tmp_path, marathon=True)


def mesos_gpu(box: MesosBox, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "marathon_cli", *words],
        env={**os.environ, "MARATHON_URL": str(box.marathon_url)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_manifest_of_each_stage_runs_with_as_many_gpus(box: MesosBox, tmp_path: Path) -> None:
    stages = page_stages()
    assert [stage for stage, _, _ in stages] == ["1.3", "1.6", "1.8"]
    for stage, limit, gpus in stages:
        pod, job = tmp_path / "pod.yaml", tmp_path / "gpu-test.json"
        name = f"gpu-test-{stage.replace('.', '-')}"
        pod.write_text(page_manifest().replace(FIRST, limit).replace("name: gpu-test", f"name: {name}"))
        job.write_text(mesos_gpu(box, "convert", str(pod)))
        assert json.loads(job.read_text())["run"]["gpus"] == gpus
        mesos_gpu(box, "job", "add", str(job))
        mesos_gpu(box, "job", "run", name, "--wait", "--timeout=60")
        (sandbox,) = box.agents[0].work_dir.glob(f"slaves/*/frameworks/*/executors/*{name}*/runs/*-*")
        said = (sandbox / "stdout").read_text().splitlines()
        assert said[0] == str(gpus)
        assert len([line for line in said if "UUID: " in line]) == gpus
