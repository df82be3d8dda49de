"""A libnvidia-ml.so.1 of our own, and programs that run on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.simulated.libraries import NVML, simulated_library
from tests.support.nvml_program import PRELUDE, Program
from tests.support.places import ROOT


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a libnvidia-ml.so.1 that answers from a file."""
    folder = tmp_path_factory.mktemp("nvml")
    library = simulated_library(NVML, folder / "kept")
    if library is None:
        pytest.skip("needs a C compiler to build a libnvidia-ml.so.1: apt-get install gcc libc6-dev")
    (folder / NVML).write_bytes(library)
    return folder


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
