"""Jobs: what runs once, or by a schedule. Metronome's API, which this project's Marathon answers, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from marathon_cli.clients.client import Document, Marathon

EMBED = ("activeRuns", "schedules", "historySummary")
ENDED = frozenset({"SUCCESS", "FAILED"})
"""How a run is that has ended."""


class Jobs:
    """The jobs of a Metronome. Every call raises NotFound for one that is not there."""

    def __init__(self, server: Marathon) -> None:
        self.server = server

    def all(self, *, history: bool = False) -> list[Document]:
        """Return every job with its active runs, its schedules and a summary of its history or all of it, by id."""
        embed = [*EMBED, "history"] if history else list(EMBED)
        found = self.server.list_of(self.server.call("GET", "/v1/jobs", query={"embed": embed}), "jobs")
        return sorted(found, key=lambda job: str(job.get("id")))

    def show(self, job_id: str, *, embed: tuple[str, ...] = EMBED) -> Document:
        """Return one job."""
        return self.server.object_of(self.server.call("GET", _path(job_id), query={"embed": list(embed)}), "a job")

    def waiting(self) -> dict[str, int]:
        """Return how many runs wait for an offer, by job."""
        found = self.server.list_of(self.server.call("GET", "/v1/queue"), "a queue of runs")
        return {str(item.get("jobId")): len(item.get("runs") or []) for item in found}

    def add(self, document: Mapping[str, Any]) -> Document:
        """Create a job. Raises Conflict when it is there, InvalidForServer."""
        return self.server.object_of(self.server.call("POST", "/v1/jobs", body=document), "a job")

    def put(self, job_id: str, document: Mapping[str, Any]) -> Document:
        """Replace a job's definition. Raises InvalidForServer."""
        return self.server.object_of(self.server.call("PUT", _path(job_id), body=document), "a job")

    def remove(self, job_id: str, *, stop_runs: bool) -> None:
        """Remove a job. Raises Conflict while it runs, unless `stop_runs` ends that."""
        self.server.call("DELETE", _path(job_id), query={"stopCurrentJobRuns": str(stop_runs).lower()})

    def run(self, job_id: str) -> Document:
        """Start a run now; return it."""
        return self.server.object_of(self.server.call("POST", f"{_path(job_id)}/runs", body={}), "a run")

    def get_run(self, job_id: str, run_id: str) -> Document:
        """Return an active run; one that has ended is in the history."""
        return self.server.object_of(self.server.call("GET", f"{_path(job_id)}/runs/{quote(run_id)}"), "a run")

    def stop(self, job_id: str, run_id: str) -> None:
        """End a run."""
        self.server.call("POST", f"{_path(job_id)}/runs/{quote(run_id)}/actions/stop")

    def schedules(self, job_id: str) -> list[Document]:
        """Return a job's schedules."""
        return self.server.list_of(self.server.call("GET", f"{_path(job_id)}/schedules"), "schedules")

    def add_schedule(self, job_id: str, document: Mapping[str, Any]) -> Document:
        """Give a job a schedule. Raises Conflict, InvalidForServer."""
        found = self.server.call("POST", f"{_path(job_id)}/schedules", body=document)
        return self.server.object_of(found, "a schedule")

    def put_schedule(self, job_id: str, schedule_id: str, document: Mapping[str, Any]) -> Document:
        """Replace a schedule. Raises InvalidForServer."""
        found = self.server.call("PUT", f"{_path(job_id)}/schedules/{quote(schedule_id)}", body=document)
        return self.server.object_of(found, "a schedule")

    def remove_schedule(self, job_id: str, schedule_id: str) -> None:
        """Take a schedule from a job."""
        self.server.call("DELETE", f"{_path(job_id)}/schedules/{quote(schedule_id)}")


def runs_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a job with the state of each: active, then ended, the latest first."""
    history = job.get("history") or {}
    ended = [{**one, "status": "SUCCESS"} for one in history.get("successfulFinishedRuns") or []]
    ended += [{**one, "status": "FAILED"} for one in history.get("failedFinishedRuns") or []]
    ended.sort(key=lambda one: str(one.get("finishedAt")), reverse=True)
    active = [{"status": "ACTIVE", **one} for one in job.get("activeRuns") or []]
    return active + ended


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id)}"
