"""Programs that run on a libnvidia-ml.so.1 of our own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

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


def stub_uuid(gpu: int, slot: int | None = None) -> str:
    """Return the UUID of GPU number `gpu` there, or of one of its MIG slots."""
    return f"GPU-{gpu:08x}-57b0-5bb0-8000-{0:012x}" if slot is None else f"MIG-{gpu:08x}-57b0-5bb0-8000-{slot:012x}"


def shown(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """Return what a program has shown. It must have ended well."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
