"""A libnvidia-ml.so.1 of our own, and programs that run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.gpu.simulated_library import NAME, simulated_library
from tests.support.places import ROOT

Program = Callable[..., "subprocess.CompletedProcess[str]"]

PRELUDE = """
import json, os, queue, sys
from dataclasses import asdict
from pathlib import Path
from mesos_gpu.gpu.mig import Capabilities
from mesos_gpu.gpu.nvml import NvmlDriver
from mesos_gpu.gpu.watch import Pace

def show(value):
    print(json.dumps(value), flush=True)

def change(**answers):
    '''Change the machine while the program runs on it; two underscores stand for a dot of a key.'''
    path = Path(os.environ["SIMULATED_NVML"])
    lines = "".join(f"{key.replace('__', '.')}={value}\\n" for key, value in answers.items())
    aside = path.with_suffix(".new")
    aside.write_text(lines + path.read_text())
    aside.rename(path)
"""


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a libnvidia-ml.so.1 that answers from a file."""
    folder = tmp_path_factory.mktemp("nvml")
    library = simulated_library(folder / "kept")
    if library is None:
        pytest.skip("needs a C compiler to build a libnvidia-ml.so.1: apt-get install gcc libc6-dev")
    (folder / NAME).write_bytes(library)
    return folder


def stub_uuid(gpu: int, slot: int | None = None) -> str:
    """Return the UUID of GPU number `gpu` there, or of one of its MIG slots."""
    return f"GPU-{gpu:08x}-57b0-5bb0-8000-{0:012x}" if slot is None else f"MIG-{gpu:08x}-57b0-5bb0-8000-{slot:012x}"


@pytest.fixture
def program(stub_library: Path, tmp_path: Path) -> Program:
    """Return a function that runs Python text in a process of its own, on a machine that answers as it is told."""

    def run(text: str, answers: Mapping[str, Any] | None) -> subprocess.CompletedProcess[str]:
        environment = {"LD_LIBRARY_PATH": str(stub_library), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        if answers is not None:
            file = tmp_path / "answers"
            file.write_text("".join(f"{key}={value}\n" for key, value in answers.items()))
            environment["SIMULATED_NVML"] = str(file)
        return subprocess.run(
            [sys.executable, "-c", PRELUDE + text],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )

    return run


def shown(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """Return what a program has shown. It must have ended well."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
