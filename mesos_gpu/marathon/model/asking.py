"""When an agent is asked again to suspend or resume a task, and when it is taken for one that does not answer. Pure.

A message may get lost, and an agent of Mesos' own heeds none of these (docs/do/tasks.md). So it is asked again, after
twice as long each time. One that is at work says so when it is asked again; who has said nothing at all by the last
time is taken to have refused a suspension. A resumption is asked for ever, for the task cannot go on otherwise.
"""

from __future__ import annotations

from mesos_gpu.marathon.model.instances import ASKED

FIRST_S = 15.0
"""So long the first answer is waited for."""
LONGEST_S = 240.0
"""An agent is asked so often, however long it has been silent."""
MOST = 3
"""After so many times without a word a suspension is given up."""
SILENT_S = 600.0
"""Of an agent that was silent nothing is asked to make room for so long."""
LATE_S = 60.0
"""For so long after a refusal an agent may do what it was asked before Marathon knew of that."""


def patience_s(asks: int) -> float:
    """Return how long an answer is waited for when it was asked so often; 0 and 1 are the same."""
    return min(FIRST_S * 2.0 ** min(max(asks - 1, 0), 30), LONGEST_S)


def is_over(suspension: str, asks: int) -> bool:
    """Return whether it is not asked again, when an answer to the last time has not come."""
    return suspension == ASKED and asks >= MOST


def silence(asks: int) -> str:
    """Return in words that there was no answer, once the last one has been waited for."""
    waited_s = sum(patience_s(number) for number in range(1, asks + 1))
    times = "once" if asks == 1 else f"{asks} times"
    return f"its agent does not answer (asked {times} in {waited_s:g} s)"
