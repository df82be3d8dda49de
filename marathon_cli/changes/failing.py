"""When a deployment is clearly failing: its tasks end one after the other, and none of them is ready. Pure.

Marathon itself never gives a deployment up; it tries again forever, ever more slowly. It shows the last failure of an
app (`lastTaskFailure`), so failures are counted as they are seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from marathon_cli.changes.rollout import Standing

MOST = 3
"""This many failures in a row are no accident. Two may be: a machine that goes down ends one or two tasks."""


@dataclass(frozen=True, slots=True)
class Failures:
    """What was seen of the failures of one app or pod since its change."""

    task_id: str = ""
    """The task that failed last."""
    words: str = ""
    """What was said of it, without its name."""
    in_a_row: int = 0
    """How many were seen while nothing of the new version was ready, before and with the failure.

    Without health checks, a task that ends at once is ready for a moment; it is not twice.
    """
    was_ready: bool = False
    """Whether something was ready at the last look."""

    @property
    def hopeless(self) -> bool:
        """Whether to expect that the next ones fail, too."""
        return self.in_a_row >= MOST

    def after(self, standing: Standing, since: str | None) -> Failures:
        """Return what is known after a look. What failed before the moment `since` says nothing about the change."""
        failure, ready = standing.failure, standing.ready > 0
        if not failure or str(failure.get("taskId")) == self.task_id or _is_older(failure.get("timestamp"), since):
            return replace(self, was_ready=ready)
        row = self.in_a_row
        if not _is_older(failure.get("version"), since):
            row = 0 if ready and self.was_ready else row + 1
        return Failures(str(failure.get("taskId")), f"{failure.get('state')} {failure.get('message')}", row, ready)


def _is_older(moment: object, since: str | None) -> bool:
    """Return whether a moment, or a version, which is one, is before another; what is not said is not."""
    return bool(moment and since) and str(moment) < str(since)
