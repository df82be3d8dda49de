"""Jobs that run when others have succeeded: which may depend on which, and when one is due. Pure.

Source: Metronome model/JobSpec (validateDependencies, validateSafeDelete) and jobspec/impl/JobSpecDependencyActor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.model.jobs import Job

PATH = "/dependencies"


def parents(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the jobs that a canonical job depends on."""
    return tuple(item["id"] for item in definition["dependencies"])


def dependency_problems(
    definition: Mapping[str, Any], schedules: Iterable[object], jobs: Mapping[str, Job]
) -> Iterator[Problem]:
    """Yield what speaks against a job with these schedules among the `jobs` that there are."""
    named = parents(definition)
    if len(set(named)) < len(named):
        yield _wrong("has double entries", "name each job once")
    if named and list(schedules):
        yield _wrong(
            "Jobs may not have both dependencies and schedules specified",
            "give the schedule to the first job of the chain",
        )
    if unknown := sorted(set(named) - jobs.keys() - {definition["id"]}):
        yield _wrong(f"Dependencies contain unknown jobs. unknown=[{', '.join(unknown)}]", "create them first")
    if definition["id"] in _all_before(named, jobs):
        yield _wrong("Dependencies have a cycle.", "a job cannot wait for itself, nor for one that waits for it")


def children(job_id: str, jobs: Mapping[str, Job]) -> list[Job]:
    """Return the jobs that depend on one."""
    # Looked at for every run that begins or ends, and most jobs depend on none.
    return [job for job in jobs.values() if job.definition["dependencies"] and job_id in parents(job.definition)]


def redefined(job: Job, definition: Mapping[str, Any]) -> Job:
    """Return a job with another definition; what it knows of parents that it keeps still counts."""
    return replace(job, definition=definition, succeeded=job.succeeded & set(parents(definition)))


def after_start(parent_id: str, jobs: Mapping[str, Job]) -> Iterator[Job]:
    """Yield the jobs that change because a run of another has begun: it may fail, so they wait for its end."""
    for job in children(parent_id, jobs):
        if parent_id in job.succeeded:
            yield replace(job, succeeded=job.succeeded - {parent_id})


def after_end(parent_id: str, jobs: Mapping[str, Job], *, success: bool) -> Iterator[Job]:
    """Yield the jobs that change because a run of another has ended.

    What others do while a job runs does not count for it: it would not have seen all of it.
    """
    for job in children(parent_id, jobs):
        told = job.succeeded - {parent_id}
        if success and not job.runs:
            told |= {parent_id}
        if told != job.succeeded:
            yield replace(job, succeeded=told)


def due(job: Job) -> bool:
    """Return whether a job should start: it does not run, and each parent's latest run has succeeded since its last.

    Metronome remembers these in memory alone, and a job whose own run has failed never again starts by itself; here
    they are on disk, and a run that failed is a last run like any other.
    """
    named = parents(job.definition)
    return bool(named) and not job.runs and job.succeeded >= set(named)


def _all_before(named: Iterable[str], jobs: Mapping[str, Job]) -> set[str]:
    """Return the ids of all jobs that these wait for, and their own."""
    found: set[str] = set()
    left = list(named)
    while left:
        job_id = left.pop()
        if job_id not in found:
            found.add(job_id)
            left += parents(jobs[job_id].definition) if job_id in jobs else ()
    return found


def _wrong(sentence: str, suggestion: str) -> Problem:
    return Problem(PATH, sentence, sentence, suggestion, "dependencies")
