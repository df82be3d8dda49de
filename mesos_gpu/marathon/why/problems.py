"""All that is wrong with what somebody wrote, with what to do: for the command line and the page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import AppRules, read_app, unknown_keys


def app_problems(document: object, rules: AppRules) -> list[Problem]:
    """Return what is wrong with an app, unknown keys included, which Marathon itself leaves out without a word."""
    return _problems(document, unknown_keys, lambda one: read_app(one, rules))


def pod_problems(document: object, rules: AppRules) -> list[Problem]:
    """Return what is wrong with a pod, unknown keys included."""
    from mesos_gpu.marathon.definitions.app_schema import POD  # who adds an app need not wait for these
    from mesos_gpu.marathon.definitions.pod import read_pod

    return _problems(document, POD.unknown_keys, lambda one: read_pod(one, rules))


def job_problems(document: object) -> list[Problem]:
    """Return what is wrong with the shape of a job, unknown keys included."""
    from mesos_gpu.marathon.definitions.app_schema import JOB

    if not isinstance(document, Mapping):
        return [Problem("/", "error.expected.jsobject", "a job is an object in { }")]
    return [*JOB.unknown_keys(document), *JOB.shape_problems(JOB.clean(document))]


def _problems(
    document: object, unknown: Callable[[Mapping[str, Any]], list[Problem]], read: Callable[[object], object]
) -> list[Problem]:
    problems = list(unknown(document)) if isinstance(document, Mapping) else []
    try:
        read(document)
    except InvalidApp as error:
        problems += error.problems
    return problems
