"""What a framework says to the agent of a task so that its GPUs are put away and had again, and what it hears. Pure.

It is said as a message to the task's executor (scheduler API, MESSAGE), which of a task with a command alone is the
agent. Masters carry it to the agent of that task and nowhere else; the executor of Mesos' own agents does not heed it.
It is heard as TASK_RUNNING with one of these beginnings of its message: Mesos has no state for it.
"""

from __future__ import annotations

import base64

SUSPEND, RESUME = "mesos-gpu suspend", "mesos-gpu resume"
SUSPENDED, NOT_SUSPENDED = "suspended: ", "not suspended: "
RESUMED, NOT_RESUMED = "resumed on ", "not resumed: "
AT_WORK = "at work: "
"""Said when the same is asked again while it is being done: copying memory takes minutes."""


def data_of(words: str) -> str:
    """Return words as the data of a message, which is base64."""
    return base64.b64encode(words.encode()).decode("ascii")


WORDS = {data_of(words): words for words in (SUSPEND, RESUME)}
"""What is said, by the data that says it."""
