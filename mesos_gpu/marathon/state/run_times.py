"""How long one-off runs took, by what they run and with how many GPUs: their apps go, and this stays a while.

Pure. A repeated run is known again by its command, image, role and GPUs, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.model.usage import RunTimes
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.state import Books

ONE_OFF = "MESOS_GPU_RUN"
"""The label of an app that runs once; `mesos-gpu run` makes such."""
KEPT_TIMES = 10
KEPT_S = 30 * 86400.0
KEPT_KINDS = 500


class _What(Struct, frozen=True):
    cmd: Any
    args: Any
    image: Any
    role: Any
    gpus: Any
    nodes: Any


def is_one_off(spec: RunSpec) -> bool:
    """Return whether an app runs once."""
    return not spec.is_pod and ONE_OFF in (spec.document.get("labels") or {})


def kind_of(spec: RunSpec) -> str:
    """Return what tells a one-off run from others: two of one kind take about as long."""
    document = spec.document
    container: Mapping[str, Any] = document.get("container") or {}
    image = (container.get("docker") or {}).get("image")
    what = _What(document.get("cmd"), document.get("args"), image, document["role"], spec.gpus, spec.gang_size)
    return sha256(msgspec.json.encode(what)).hexdigest()[:32]


def times_of(books: Books, spec: RunSpec) -> tuple[float, ...]:
    """Return how long earlier runs of the kind took, in seconds, the latest last."""
    known = books.run_times.get(kind_of(spec)) if is_one_off(spec) else None
    return () if known is None else known.times_s


def learn(draft: Draft, spec: RunSpec | None, task: Task, ended_s: float) -> None:
    """Take note of how long a task took that has finished; nothing of apps that are meant to run on."""
    if spec is None or not is_one_off(spec) or task.started_at_s is None:
        return
    kind = kind_of(spec)
    known = draft.run_times.get(kind) or RunTimes(())
    took_s = round(max(0.0, ended_s - task.started_at_s), 3)
    draft.run_times.put(kind, RunTimes((*known.times_s, took_s)[-KEPT_TIMES:], draft.now_s))
    oldest = sorted(draft.run_times.items(), key=lambda item: -item[1].latest_s)
    for number, (key, each) in enumerate(oldest):
        if number >= KEPT_KINDS or each.latest_s < draft.now_s - KEPT_S:
            draft.run_times.drop(key)
