"""What a valid app may ask for that this scheduler cannot give yet: refused, so that nothing is silently left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem

# Keys of an app that would be ignored, and what each asks for.
_KEYS = {
    "healthChecks": "health checks are",
    "check": "Mesos checks are",
    "readinessChecks": "readiness checks are",
    "secrets": "secrets are",
    "executor": "executors other than //cmd are",
}


def refuse_unsupported(app: Mapping[str, Any], *, mesos_role: str) -> None:
    """Raise InvalidApp with everything in a canonical app that cannot be done yet."""
    problems = list(_problems(app, mesos_role))
    if problems:
        raise InvalidApp(problems)


def _problems(app: Mapping[str, Any], mesos_role: str) -> Iterator[Problem]:
    for key, what in _KEYS.items():
        if app.get(key) and app[key] != "//cmd":
            yield _problem(f"/{key}", f"{what} not supported by this Marathon yet", f"remove `{key}`")
    for index, network in enumerate(app["networks"]):
        if network["mode"] != "host":
            sentence = f"networks of mode {network['mode']} are not supported by this Marathon yet"
            yield _problem(f"/networks({index})", sentence, "use host networking")
    for index, volume in enumerate(app.get("container", {}).get("volumes", [])):
        if "hostPath" not in volume:
            sentence = "only volumes with a hostPath are supported by this Marathon yet"
            yield _problem(f"/container/volumes({index})", sentence, "use a volume with `hostPath`")
    if app["role"] != mesos_role:
        sentence = f"this Marathon only runs apps in its own role, {mesos_role}"
        yield _problem("/role", sentence, "remove `role`")


def _problem(path: str, sentence: str, suggestion: str) -> Problem:
    return Problem(path, sentence, sentence, suggestion)
