"""What an app, a job or a container of a pod asks for of shared GPUs: by `gpuShare`, or by cGPU's variables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import BadInput, Problem
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.mesos.shares.cgpu import DISABLE, MEM_CONTAINER, NAMES, ShareAsk, padded, read_ask

Document = Mapping[str, Any]


def share_of(share: Document | None, variables: Document) -> ShareAsk | None:
    """Return the part of a GPU that is asked for, None for none; the two forms say the same. Raises BadInput."""
    if share is None and MEM_CONTAINER not in variables:
        return None
    texts = {name: value for name, value in variables.items() if isinstance(value, str) and name in NAMES}
    said = read_ask(texts)
    if share is None:
        return said
    asked = _read(share)
    if texts.get(DISABLE, "").strip().lower() == "true":
        raise BadInput(f"gpuShare asks for a part of a GPU and {DISABLE}=true for none: keep one of them")
    if said is not None and said != asked:
        raise BadInput(f"gpuShare and {MEM_CONTAINER} and its kin ask for different things: keep one of them")
    return asked


def kept_share_of(share: Document | None, variables: Document) -> ShareAsk | None:
    """Return the same of what is stored: None also for what earlier versions took and nobody can understand."""
    try:
        return share_of(share, variables)
    except BadInput:
        return None


def share_problems(
    path: str, share: Document | None, variables: Document, gpus: float, rules: AppRules
) -> Iterator[Problem]:
    """Yield what is wrong with what an app, or a container of a pod, at `path` ("" for an app) asks for."""
    variables_path = "environment" if path else "env"
    try:
        asked = share_of(share, variables)
    except BadInput as error:
        where = f"{path}/gpuShare" if share is not None else f"{path}/{variables_path}"
        yield Problem(where, str(error), str(error), "see docs/do/sharing.md for what can be asked")
        return
    if asked is not None and rules.known and not rules.shares:
        sentence = "this Marathon cannot ask for a part of a GPU: it would drop the request and start the task without"
        advice = "use this project's mesos-gpu-marathon, which can beside it on the same cluster, or ask for whole GPUs"
        yield Problem(
            f"{path}/gpuShare" if share is not None else f"{path}/{variables_path}", sentence, sentence, advice
        )
    if asked is not None and gpus:
        sentence = "whole GPUs (`gpus`) and a part of one are both asked for; a task has one or the other"
        advice = "remove `gpus`, or the share (gpuShare, ALIYUN_COM_GPU_MEM_CONTAINER)"
        yield Problem(path or "/", sentence, sentence, advice, "gpus")


def _read(share: Document) -> ShareAsk:
    memory = share["memGiB"]
    amounts = [memory] if isinstance(memory, int) else list(memory)
    devices = tuple(str(device) for device in share.get("devices", ()))
    if len(set(devices)) != len(devices):
        raise BadInput(f"devices names a card twice: {', '.join(devices)}")
    cards = share.get("cards", len(devices) or len(amounts))
    if devices and cards != len(devices):
        raise BadInput(f"cards is {cards}, and devices names {len(devices)}: keep one of them out")
    return ShareAsk(padded(amounts, cards), share["weight"], bool(share["highPriority"]), devices, share.get("cardGiB"))
