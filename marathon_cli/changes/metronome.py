"""What the commands about jobs share: the server, the job that is meant, and what to say when it knows no jobs."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from marathon_cli.screen.names import nearest
from mesos_gpu.errors import MesosGpuError, NotFound, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from marathon_cli.api.jobs import Jobs
    from marathon_cli.console.console import Console

ENDED = frozenset({"SUCCESS", "FAILED"})
"""How a run is that has ended."""
Command = TypeVar("Command", bound="Callable[..., Any]")


def jobs_of(console: Console) -> Jobs:
    """Return the jobs of the server that is meant."""
    from marathon_cli.api.jobs import Jobs

    return Jobs(console.marathon())


def explained(command: Command) -> Command:
    """Say what is meant when a server knows nothing of jobs: a Marathon alone does not; Metronome does."""

    @wraps(command)
    def inner(*args: Any, **settings: Any) -> Any:
        try:
            return command(*args, **settings)
        except (NotFound, Refused) as error:
            if "/v1/jobs" in str(error) or "URI not found" in str(error):
                advice = (
                    "jobs are Metronome's: name one with --marathon-url (this project's Marathon answers for them, too)"
                )
                raise NotFound(f"this server knows no jobs ({error}); {advice}") from None
            raise

    return inner  # type: ignore[return-value]


def known(jobs: Jobs, name: str) -> dict[str, Any]:
    """Return a job. Raises NotFound with the nearest name."""
    try:
        return jobs.show(name)
    except NotFound as error:
        if "URI not found" in str(error):
            raise
        try:
            hint = nearest(name, (str(job.get("id")) for job in jobs.all()))
        except MesosGpuError:
            hint = ""
        raise NotFound(f"{error}{hint}") from None


def runs_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a job with the state of each: active, then ended, the latest first."""
    history = job.get("history") or {}
    ended = [{**one, "status": "SUCCESS"} for one in history.get("successfulFinishedRuns") or []]
    ended += [{**one, "status": "FAILED"} for one in history.get("failedFinishedRuns") or []]
    ended.sort(key=lambda one: str(one.get("finishedAt")), reverse=True)
    active = [{"status": "ACTIVE", **one} for one in job.get("activeRuns") or []]
    return active + ended
