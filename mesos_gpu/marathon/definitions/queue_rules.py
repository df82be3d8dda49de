"""What is wrong with what an app, or a job, asks of the queue: gangs, and who gives way. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_settings import AppRules

App = dict[str, Any]

FIELDS = ("gang", "priority", "preemptible", "maxRuntimeSeconds")
"""What no other Marathon knows of."""


def queue_problems(app: App, rules: AppRules) -> Iterator[Problem]:
    """Yield what is wrong with a canonical app's `gang`, `priority`, `preemptible` and `maxRuntimeSeconds`."""
    asked = [name for name in FIELDS if name in app]
    if asked and rules.known and not rules.gangs:
        names = ", ".join(asked)
        sentence = f"this Marathon knows nothing of {names}: it would drop that and start each instance by itself"
        advice = "use this project's mesos-gpu-marathon, which can beside it on the same cluster"
        yield Problem(f"/{asked[0]}", sentence, sentence, advice)
    if "gang" in app:
        yield from _gang_problems(app, app["gang"]["size"])


def _gang_problems(app: App, size: int) -> Iterator[Problem]:
    if app["instances"] % size:
        sentence = f"instances ({app['instances']}) must be a multiple of gang.size ({size}): it counts the members"
        below = app["instances"] // size * size
        advice = f"write {below} or {below + size}" if below else f"write {size}"
        yield Problem("/instances", sentence, sentence, advice)
    if app["networks"][0]["mode"] != "host":
        sentence = "members of a gang reach one another by their machines' addresses: the network must be the host's"
        yield Problem("/networks", sentence, sentence, 'remove `networks`, or write [{"mode": "host"}]')
    if any("persistent" in volume for volume in app.get("container", {}).get("volumes", ())):
        sentence = "an app with persistent volumes starts where each of them is, and cannot be a gang"
        yield Problem("/gang", sentence, sentence, "keep the data on a shared file system, mounted as a host volume")
