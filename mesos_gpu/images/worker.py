"""The process that unpacks layers: one job a line on stdin, one answer a line on stdout.

A process rather than a thread: it does not hold the event loop up, it can be ended in the middle, what it may take is
limited by the kernel, and a parser that a hostile layer brings down is not the agent's. Each cold pull starts it, so it
imports little: json and not msgspec, no pathlib, zstd for a layer of it alone, and nothing of `site`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from dataclasses import asdict

from mesos_gpu.base.linux import libc
from mesos_gpu.errors import ImageError
from mesos_gpu.images.layers import extract_layer
from mesos_gpu.images.unpacked import Answer, Job, LayerLimits

MAX_MEMORY = 1 << 30


def main(parent: int) -> None:
    """Work until stdin ends, or until the process `parent` is gone."""
    libc.end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the agent, which ends us
    os.umask(0)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        words = json.loads(line)
        job = Job(**{**words, "limits": LayerLimits(**words["limits"])})
        try:
            answer = Answer(extracted=extract_layer(job.blob, job.into, job.diff_id, job.limits))
        except ImageError as error:
            answer = Answer(error=str(error))
        sys.stdout.buffer.write(json.dumps(asdict(answer)).encode() + b"\n")
        sys.stdout.buffer.flush()
