"""The job: a document read and checked, and what runs it as an app would be run. Pure.

Source: Metronome's API (jobspec, schedulespec) and its validation. Unlike Marathon it refuses unknown keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import INVALID_JSON, AppRules, read_app
from mesos_gpu.marathon.definitions.app_schema import JOB
from mesos_gpu.marathon.definitions.app_words import shape_problem
from mesos_gpu.marathon.definitions.cron import cron_problem, zone_problem
from mesos_gpu.marathon.definitions.queue_rules import FIELDS
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.model.jobs import Schedule, run_spec_id

Document = dict[str, Any]

_OPERATORS = {"EQ": "IS"}
_PLACES = {"/constraints": "/placement/constraints", "/fetch": "/artifacts", "/container/volumes": "/volumes"}
_SAME = ("cmd", "args", "cpus", "mem", "disk", "gpus", "gpuShare", "user", "env", "secrets", *FIELDS)

_READ_MOST = 256
_READ: dict[int, tuple[Mapping[str, Any], AppRules, Document]] = {}
"""Jobs that were read as apps, by identity: a job's document never changes, and is kept here lest another takes its."""


@dataclass(frozen=True, slots=True)
class JobAsked:
    """What a document asks for. `definition` is canonical, without the schedules; those have no next time yet."""

    definition: Document
    schedules: tuple[Schedule, ...]


def read_job(document: object, rules: AppRules) -> JobAsked:
    """Return what `document` (parsed JSON) asks for, with every default filled in.

    Raises InvalidApp with every problem of the first stage that finds one, unknown keys among them.
    """
    job = _filled(document)
    schedules = tuple(_schedule(item, f"/schedules({index})") for index, item in enumerate(job.pop("schedules")))
    twice = {item.id for item in schedules if [other.id for other in schedules].count(item.id) > 1}
    if twice:
        raise InvalidApp([_wrong("/schedules", f"there are two schedules {min(twice)!r}")])
    run_spec(job, "x", "1970-01-01T00:00:00.000Z", rules)
    return JobAsked(job, schedules)


def read_schedule(document: object) -> Schedule:
    """Return the schedule that `document` (parsed JSON) defines, without its next time. Raises InvalidApp."""
    if not isinstance(document, Mapping):
        raise InvalidApp([shape_problem("/", "type", "object", document)], stage=INVALID_JSON)
    # A schedule is part of a job's schema.
    whole = {"id": "x", "run": {"cmd": "x"}, "schedules": [document]}
    try:
        (schedule,) = _filled(whole)["schedules"]
    except InvalidApp as error:
        problems = [
            replace(problem, path=problem.path.removeprefix("/schedules(0)") or "/") for problem in error.problems
        ]
        raise InvalidApp(problems, stage=error.stage) from None
    return _schedule(schedule, "")


def run_spec(job: Mapping[str, Any], run_id: str, version: str, rules: AppRules) -> RunSpec:
    """Return what carries out a run of a canonical job. Raises InvalidApp, with paths in the job's document."""
    definition = {
        **_read_app(job, rules),
        "id": run_spec_id(job["id"], run_id),
        # A run on a machine that is away may still be going on, or come back: it is never started a second time.
        "unreachableStrategy": "disabled",
    }
    return versioned(definition, version, None)


def _read_app(job: Mapping[str, Any], rules: AppRules) -> Document:
    """Return the app that a canonical job is run as, the same for all its runs: those of the last jobs are kept."""
    known = _READ.get(id(job))
    if known is not None and known[0] is job and known[1] == rules:
        return known[2]
    try:
        app = read_app(_as_app(job), replace(rules, enforced_groups=frozenset()))
    except InvalidApp as error:
        raise InvalidApp([replace(problem, path=_place(problem.path)) for problem in error.problems]) from None
    if len(_READ) >= _READ_MOST:
        _READ.clear()
    _READ[id(job)] = (job, rules, app)
    return app


def _as_app(job: Mapping[str, Any]) -> Document:
    run = job["run"]
    app: Document = {key: run[key] for key in _SAME if key in run}
    app |= {
        "id": "/run",
        "instances": run.get("gang", {}).get("size", 1),
        "labels": job["labels"],
        "fetch": run["artifacts"],
        "portDefinitions": [],
        "maxLaunchDelaySeconds": run["maxLaunchDelay"],
        "constraints": [
            [item["attribute"], _OPERATORS.get(item["operator"], item["operator"]), *_value(item)]
            for item in run["placement"]["constraints"]
        ],
    }
    if "taskKillGracePeriodSeconds" in run:
        app["taskKillGracePeriodSeconds"] = math.ceil(run["taskKillGracePeriodSeconds"])
    container = _container(run)
    if run["networks"]:
        app["networks"] = run["networks"]
        if run["networks"][0]["mode"] != "host":
            del app["portDefinitions"]
            container = {**(container or {"type": "MESOS"}), "portMappings": []}
    return app if container is None else {**app, "container": container}


def _container(run: Mapping[str, Any]) -> Document | None:
    volumes = {"volumes": run["volumes"]} if run["volumes"] else {}
    if "docker" in run:
        return {"type": "DOCKER", "docker": dict(run["docker"]), **volumes}
    if "ucr" in run:
        image = run["ucr"]["image"]
        docker: Document = {"image": image["id"], "forcePullImage": image["forcePull"]}
        if "pullConfig" in image:
            docker["pullConfig"] = image["pullConfig"]
        return {"type": "MESOS", "docker": docker, **volumes}
    return {"type": "MESOS", **volumes} if volumes else None


def _value(constraint: Mapping[str, Any]) -> list[str]:
    return [constraint["value"]] if "value" in constraint else []


def _filled(document: object) -> Document:
    if not isinstance(document, Mapping):
        raise InvalidApp([shape_problem("/", "type", "object", document)], stage=INVALID_JSON)
    _refuse(JOB.unknown_keys(document), stage=INVALID_JSON)
    cleaned = JOB.clean(document)
    _refuse((_named(problem) for problem in JOB.shape_problems(cleaned)), stage=INVALID_JSON)
    job = JOB.with_defaults(cleaned)
    _refuse(_run_problems(job["run"]))
    return job


def _named(problem: Problem) -> Problem:
    if problem.path != "/id" or problem.code != "error.pattern":
        return problem
    sentence = "a job's id is names of lower-case letters, digits and `-` (not at the ends), joined by dots"
    return Problem("/id", "error.pattern", sentence, "such as `train.nightly`")


def _run_problems(run: Mapping[str, Any]) -> Iterable[Problem]:
    if "docker" in run and "ucr" in run:
        yield _wrong("/run", "a run has either docker or ucr, not both", "keep ucr: it takes GPUs")
    if run.get("ucr", {}).get("privileged"):
        yield _wrong("/run/ucr/privileged", "the Mesos containerizer has no privileged mode", "remove it")
    if run.get("ucr", {}).get("image", {}).get("kind") == "appc":
        yield _wrong("/run/ucr/image/kind", "images of kind appc are not supported", "use docker")


def _schedule(document: Mapping[str, Any], path: str) -> Schedule:
    zone = document.get("timeZone", document["timezone"])
    problems = [("cron", cron_problem(document["cron"])), ("timezone", zone_problem(zone))]
    _refuse(_wrong(f"{path}/{key}", problem) for key, problem in problems if problem is not None)
    return Schedule(
        id=document["id"],
        cron=document["cron"],
        timezone=zone,
        starting_deadline_s=document["startingDeadlineSeconds"],
        concurrency=document["concurrencyPolicy"],
        enabled=document["enabled"],
    )


def _place(path: str) -> str:
    stem, bracket, rest = path.partition("(")
    return "/run" + ("" if path == "/" else _PLACES.get(stem, stem) + bracket + rest)


def _wrong(path: str, sentence: str, suggestion: str | None = None) -> Problem:
    return Problem(path, sentence, sentence, suggestion)


def _refuse(problems: Iterable[Problem], stage: str = "Object is not valid") -> None:
    if found := list(problems):
        raise InvalidApp(found, stage=stage)
